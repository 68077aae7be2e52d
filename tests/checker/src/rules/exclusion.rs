//! No two at once.

use super::{Rule, Violation, by_lock, related};
use crate::history::{History, Mode};

/// Passes over the beginnings and ends of what is claimed.
pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    for holds in by_lock(history) {
        let mut moments = Vec::new();
        for index in holds {
            let hold = &history.holds[index];
            if let Some(claimed) = hold.claimed.filter(|claimed| *claimed >= hold.granted) {
                moments.push((hold.granted, true, index));
                moments.push((claimed, false, index));
            }
        }
        // What meets in one moment may have come one after the other: ends, then those who were
        // inside for that moment only, then beginnings.
        moments.sort_by_key(|(at, begins, index)| {
            let point = history.holds[*index].claimed == Some(history.holds[*index].granted);
            let turn = if point { 1 } else { u8::from(*begins) * 2 };
            (*at, turn, *index, !*begins)
        });
        let (mut inside, mut permits) = (Vec::<usize>::new(), 0);
        for (_, begins, index) in moments {
            let hold = &history.holds[index];
            if !begins {
                inside.retain(|other| *other != index);
                permits -= if hold.mode == Mode::Permit { hold.permits.0 } else { 0 };
                continue;
            }
            for other in &inside {
                if hold.mode.excludes(history.holds[*other].mode)
                    && !related(history, index, *other)
                {
                    let there = history.describe(*other, "was there");
                    let what = history.describe(index, &format!("came in while {there}"));
                    violations.push(Violation { rule: Rule::Exclusion, what });
                }
            }
            inside.push(index);
            if hold.mode == Mode::Permit {
                permits += hold.permits.0;
                if permits > hold.permits.1 {
                    let what = format!("makes {permits} permits of {}", hold.permits.1);
                    let what = history.describe(index, &what);
                    violations.push(Violation { rule: Rule::Exclusion, what });
                }
            }
        }
    }
}
