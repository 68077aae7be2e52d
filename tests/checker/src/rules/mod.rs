//! What a history must keep.

mod deadline;
mod exclusion;
mod fenced;
mod kind;
mod leaks;
mod order;
mod overtime;
mod tokens;
mod told;

use std::fmt;

use crate::history::History;

/// By how much a limit may be passed, in nanoseconds, as promised.
pub(crate) const SLACK: u64 = 100_000_000;

/// The error of who held for longer than was allowed.
pub(crate) const HELD_TOO_LONG: &str = "held_too_long";

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The lines are as the README says.
    Format,
    /// No two that exclude each other hold at once; no more permits than the limit.
    Exclusion,
    /// Of two grants that exclude each other, the later has the greater token.
    Tokens,
    /// Every request is answered once.
    Answers,
    /// A lost guard stays lost.
    Lost,
    /// Whoever loses a node to an outsider is told in time.
    Told,
    /// No answer comes later than it was asked for.
    Deadline,
    /// An error is of the kind that it is.
    Kind,
    /// A process that promises order keeps it.
    Order,
    /// No guard is valid beyond the time for which it may be held.
    Overtime,
    /// Several locks are taken as one: all or none.
    Whole,
    /// No write of an earlier holder after one of a later holder.
    Fenced,
    /// Everything is given back, and nothing is left over.
    Leaks,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// By whom and when.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Returns every promise that a history breaks.
pub fn check(history: &History) -> Vec<Violation> {
    let mut violations = history.violations.clone();
    exclusion::check(history, &mut violations);
    tokens::check(history, &mut violations);
    fenced::check(history, &mut violations);
    told::check(history, &mut violations);
    deadline::check(history, &mut violations);
    kind::check(history, &mut violations);
    order::check(history, &mut violations);
    overtime::check(history, &mut violations);
    leaks::check(history, &mut violations);
    violations
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
