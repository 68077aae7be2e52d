//! No two at once.

use super::{by_lock, related};
use crate::history::{History, Hold, Mode};
use crate::verdict::{Rule, Verdict};

/// Passes over the beginnings and ends of what is claimed.
pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for holds in by_lock(history) {
        let mut moments = Vec::new();
        for index in holds {
            let hold = &history.holds[index];
            match hold.claimed.filter(|claimed| *claimed >= hold.granted) {
                None => verdict.excuse(Rule::Exclusion, claims_nothing(history, hold)),
                Some(_) if hold.parent.is_some() => verdict.judge(Rule::Exclusion, "nested"),
                Some(_) => verdict.judge(Rule::Exclusion, "claims"),
            }
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
                    verdict.violated(Rule::Exclusion, what);
                }
            }
            inside.push(index);
            if hold.mode == Mode::Permit {
                permits += hold.permits.0;
                if permits > hold.permits.1 {
                    let what = format!("makes {permits} permits of {}", hold.permits.1);
                    let what = history.describe(index, &what);
                    verdict.violated(Rule::Exclusion, what);
                }
            }
        }
    }
}

/// Why nobody knows for how long somebody held a lock.
fn claims_nothing(history: &History, hold: &Hold) -> &'static str {
    if hold.removed.is_some() {
        "node taken away"
    } else if hold.lost.is_some() {
        "lost before anything was said"
    } else if history
        .ended_at(hold.client)
        .is_some_and(|end| hold.closed.is_none_or(|at| at >= end))
    {
        "the process ended before anything was said"
    } else {
        "nothing was said but to give it back"
    }
}
