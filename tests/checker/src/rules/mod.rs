//! What a history must keep.

mod deadline;
mod exclusion;
mod fenced;
mod kind;
mod leaks;
mod order;
mod overtime;
mod reading;
mod tokens;
mod told;

use crate::history::History;
use crate::verdict::{Verdict, Violation};

/// By how much a limit may be passed, in nanoseconds, as promised.
pub(crate) const SLACK: u64 = 100_000_000;

/// The error of who held for longer than was allowed.
pub(crate) const HELD_TOO_LONG: &str = "held_too_long";

/// Returns every promise that a history breaks, and how much each rule has seen.
pub fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict { violations: history.violations.clone(), ..Verdict::default() };
    reading::count(history, &mut verdict);
    exclusion::check(history, &mut verdict);
    tokens::check(history, &mut verdict);
    fenced::check(history, &mut verdict);
    told::check(history, &mut verdict);
    deadline::check(history, &mut verdict);
    kind::check(history, &mut verdict);
    order::check(history, &mut verdict);
    overtime::check(history, &mut verdict);
    leaks::check(history, &mut verdict);
    verdict
}

/// Returns every promise that a history breaks.
pub fn check(history: &History) -> Vec<Violation> {
    judge(history).violations
}

/// The holds of each lock.
fn by_lock(history: &History) -> Vec<Vec<usize>> {
    let mut by_lock = vec![Vec::new(); history.locks.len() + history.paths.len()];
    for (index, hold) in history.holds.iter().enumerate() {
        by_lock[hold.lock].push(index);
    }
    by_lock
}

/// Whether one was acquired in the scope of the other.
fn related(history: &History, one: usize, other: usize) -> bool {
    let inside = |mut inner: usize, outer: usize| {
        while let Some(next) = history.holds[inner].parent {
            if next == outer {
                return true;
            }
            inner = next;
        }
        false
    };
    let origin = |hold: usize| history.holds[hold].stepped_down == Some(other.min(one));
    inside(one, other) || inside(other, one) || origin(one.max(other))
}
