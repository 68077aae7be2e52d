//! A second opinion: is there an order of all operations that a lock without concurrency allows?
//!
//! The search is that of the crate `porcupine-rs`, which knows nothing of this one's rules. Its cost
//! grows with what overlaps, so each step is given the shortest time that changes nothing (`spans`),
//! and a history is searched part by part, between moments at which nothing is under way (`parts`).
//!
//! An acquire that was not granted may have taken the lock and lost it again; that changes nothing
//! for others but their waiting, so it is left out. A release that was not answered, and the end of
//! a guard that was lost or whose process died, may have happened at any time, or not yet.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use porcupine_rs::{CheckResult, Model, Operation, check_operations_timeout};

use crate::history::{History, Hold, Mode};
pub use crate::models::{Alone, Entry, Fenced, Permits, ReadWrite, Reentrant, Step, Writes};
use crate::parts::{Span, parts};
use crate::spans::{outermost, spans};

/// What the search found for one lock under one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// There is such an order.
    Yes,
    /// There is none.
    No,
    /// Nobody knows: the search of so many steps, which belong together, took too long.
    Unknown(usize),
}

/// Asks about each lock under each model that fits it: the lock, the model, and the opinion.
pub fn check(history: &History, limit: Duration) -> Vec<(String, &'static str, Opinion)> {
    let mut opinions = Vec::new();
    for (lock, name) in history.locks.iter().enumerate() {
        // Whoever entered with a node that an outsider had taken away is excused altogether.
        let counts = |hold: &usize| {
            let hold = &history.holds[*hold];
            hold.lock == lock && !hold.is_excused()
        };
        let holds: Vec<_> = (0..history.holds.len()).filter(counts).collect();
        let Some(mode) = holds.first().map(|hold| history.holds[*hold].mode) else { continue };
        let plain: Vec<_> =
            holds.iter().copied().filter(|hold| outermost(history, *hold) == *hold).collect();
        let mut say = |model, opinion| opinions.push((name.clone(), model, opinion));
        match mode {
            Mode::Mutex => {
                // Where the outermost is given back first, its nested holds go on: only this
                // model has a place for them.
                say("reentrant", ask::<Reentrant>(history, &holds, limit));
                if plain.len() == holds.len() {
                    say("mutex", ask::<Alone>(history, &plain, limit));
                    say("fenced", ask::<Fenced>(history, &plain, limit));
                }
            }
            Mode::Read | Mode::Write => {
                say("read/write", ask::<ReadWrite>(history, &plain, limit));
            }
            Mode::Permit => say("semaphore", ask::<Permits>(history, &holds, limit)),
        }
    }
    for (path, name) in history.paths.iter().enumerate() {
        let writes = history.writes.iter().filter(|write| write.path == path);
        let spans = writes.map(|write| Span {
            from: write.asked,
            to: write.done,
            step: Step::Write(write.token),
        });
        opinions.push((name.clone(), "fenced writes", search::<Writes>(spans.collect(), limit)));
    }
    opinions
}

/// What it does not look at, by the reason.
pub fn left_out(history: &History) -> BTreeMap<&'static str, usize> {
    let all = || history.holds.iter().enumerate();
    let reader_or_writer = |hold: &Hold| matches!(hold.mode, Mode::Read | Mode::Write);
    let nested = |index: usize| outermost(history, index) != index;
    let excused = all().filter(|(_, hold)| hold.is_excused()).count();
    let nested = all().filter(|(index, hold)| reader_or_writer(hold) && nested(*index)).count();
    BTreeMap::from([
        ("holds whose node was taken away before the grant", excused),
        ("nested holds of readers and writers", nested),
    ])
}

fn ask<M: Model<Op = Step, Metadata = ()>>(
    history: &History,
    holds: &[usize],
    limit: Duration,
) -> Opinion
where
    M::State: Clone + Debug + Hash + Eq,
{
    search::<M>(spans(history, holds), limit)
}

fn search<M: Model<Op = Step, Metadata = ()>>(spans: Vec<Span>, limit: Duration) -> Opinion
where
    M::State: Clone + Debug + Hash + Eq,
{
    let end = Instant::now() + limit;
    for part in parts(spans) {
        let steps: Vec<Operation<M>> = part.into_iter().map(operation).collect();
        let count = steps.len();
        match check_operations_timeout(&steps, end.saturating_duration_since(Instant::now())) {
            CheckResult::Ok => {}
            CheckResult::Illegal => return Opinion::No,
            CheckResult::Unknown => return Opinion::Unknown(count),
        }
    }
    Opinion::Yes
}

fn operation<M: Model<Op = Step, Metadata = ()>>(span: Span) -> Operation<M> {
    let time = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
    let (call_time, return_time) = (time(span.from), time(span.to));
    Operation { client_id: None, call_time, return_time, op: span.step, metadata: None }
}
