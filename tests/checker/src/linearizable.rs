//! A second opinion: is there an order of all operations that a lock without concurrency allows?
//!
//! The search is that of the crate `porcupine-rs`, which knows nothing of this one's rules. Its cost
//! grows with what overlaps, so this is for histories of some thousand operations.
//!
//! An acquire that was not granted may have taken the lock and lost it again; that changes nothing
//! for others but their waiting, so it is left out. A release that was not answered, and the end of
//! a guard that was lost or whose process died, may have happened at any time, or not yet.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use porcupine_rs::{CheckResult, Model, Operation, check_operations_timeout};

use crate::history::{History, Hold, Mode, Token};

/// Above this many operations on one lock, nothing is asked.
pub const LARGEST: usize = 10_000;

/// What the search found for one lock under one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// There is such an order.
    Yes,
    /// There is none.
    No,
    /// Nobody knows: too many operations, or too long a search.
    Unknown,
}

/// Something that happened to a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A grant.
    Enter(Entry),
    /// The end of a hold.
    Leave(Entry),
    /// A writer that became a reader.
    StepDown(Entry, Entry),
    /// A fenced write.
    Write(Token),
}

/// What a model may know of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    id: usize,
    /// The outermost hold that it is nested in, or itself.
    root: usize,
    mode: Mode,
    permits: (u32, u32),
    token: Token,
}

macro_rules! model {
    ($(#[$doc:meta])* $name:ident, $state:ty, $init:expr, $step:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name;

        impl Model for $name {
            type State = $state;
            type Op = Step;
            type Metadata = ();

            fn init() -> $state {
                $init
            }

            fn step(state: &$state, op: &Step) -> (bool, $state) {
                let step: fn(&$state, &Step) -> Option<$state> = $step;
                step(state, op).map_or_else(|| (false, state.clone()), |next| (true, next))
            }
        }
    };
}

model!(
    /// One holder.
    Alone,
    Option<usize>,
    None,
    |holder, step| match step {
        Step::Enter(one) => holder.is_none().then_some(Some(one.id)),
        Step::Leave(one) => (*holder == Some(one.id)).then_some(None),
        _ => None,
    }
);

model!(
    /// One chain of holders, each in the scope of the one before.
    Reentrant,
    Option<(usize, u32)>,
    None,
    |holder, step| match (step, holder) {
        (Step::Enter(one), None) => Some(Some((one.root, 1))),
        (Step::Enter(one), Some((root, depth))) if one.root == *root => {
            Some(Some((*root, depth + 1)))
        }
        (Step::Leave(one), Some((root, depth))) if one.root == *root => {
            Some((*depth > 1).then(|| (*root, depth - 1)))
        }
        _ => None,
    }
);

model!(
    /// One holder, each with a greater token than all before.
    Fenced,
    (Option<usize>, Token),
    (None, (0, 0)),
    |(holder, last), step| match step {
        Step::Enter(one) => {
            (holder.is_none() && one.token > *last).then_some((Some(one.id), one.token))
        }
        Step::Leave(one) => (*holder == Some(one.id)).then_some((None, *last)),
        _ => None,
    }
);

model!(
    /// A resource that refuses smaller tokens than it has seen.
    Writes,
    Token,
    (0, 0),
    |last, step| match step {
        Step::Write(token) => (token >= last).then_some(*token),
        _ => None,
    }
);

model!(
    /// One writer, or readers; a writer's token is greater than all before, a reader's than those
    /// of the writers before.
    ReadWrite,
    (Option<usize>, Vec<usize>, Token, Token),
    (None, Vec::new(), (0, 0), (0, 0)),
    |(writer, readers, alone, all), step| {
        let without = |id| readers.iter().copied().filter(|other| *other != id).collect::<Vec<_>>();
        let with = |id| {
            let mut more = readers.clone();
            more.push(id);
            more.sort_unstable();
            more
        };
        match step {
            Step::Enter(one) if one.mode == Mode::Read => (writer.is_none() && one.token > *alone)
                .then(|| (None, with(one.id), *alone, (*all).max(one.token))),
            Step::Enter(one) => (writer.is_none() && readers.is_empty() && one.token > *all)
                .then(|| (Some(one.id), Vec::new(), one.token, one.token)),
            Step::Leave(one) if one.mode == Mode::Read => readers
                .contains(&one.id)
                .then(|| (*writer, without(one.id), *alone, *all)),
            Step::Leave(one) => {
                (*writer == Some(one.id)).then(|| (None, readers.clone(), *alone, *all))
            }
            Step::StepDown(was, is) => (*writer == Some(was.id) && is.token > was.token)
                .then(|| (None, with(is.id), *alone, (*all).max(is.token))),
            Step::Write(_) => None,
        }
    }
);

model!(
    /// At most so many permits at once.
    Permits,
    Vec<(usize, u32)>,
    Vec::new(),
    |inside, step| match step {
        Step::Enter(one) => {
            let (permits, limit) = one.permits;
            let taken: u32 = inside.iter().map(|(_, permits)| permits).sum();
            (taken + permits <= limit).then(|| {
                let mut more = inside.clone();
                more.push((one.id, permits));
                more.sort_unstable();
                more
            })
        }
        Step::Leave(one) => inside
            .iter()
            .any(|(id, _)| *id == one.id)
            .then(|| inside.iter().copied().filter(|(id, _)| *id != one.id).collect()),
        _ => None,
    }
);

/// Asks about each lock under each model that fits it: the lock, the model, and the opinion.
pub fn check(history: &History, limit: Duration) -> Vec<(String, &'static str, Opinion)> {
    let mut opinions = Vec::new();
    for (lock, name) in history.locks.iter().enumerate() {
        let holds = (0..history.holds.len()).filter(|hold| history.holds[*hold].lock == lock);
        let holds: Vec<_> = holds.collect();
        let Some(mode) = holds.first().map(|hold| history.holds[*hold].mode) else { continue };
        let outermost = |hold: &usize| history.holds[*hold].parent.is_none();
        let plain: Vec<_> = holds.iter().copied().filter(outermost).collect();
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
        let steps: Vec<Operation<Writes>> = writes
            .map(|write| operation(write.asked, write.done, Step::Write(write.token)))
            .collect();
        opinions.push((name.clone(), "fenced writes", search(&steps, limit)));
    }
    opinions
}

fn ask<M: Model<Op = Step, Metadata = ()>>(
    history: &History,
    holds: &[usize],
    limit: Duration,
) -> Opinion
where
    M::State: Clone + Debug + Hash + Eq,
{
    let entry = |id: usize| {
        let hold = &history.holds[id];
        let mut root = id;
        while let Some(parent) = history.holds[root].parent {
            root = parent;
        }
        Entry { id, root, mode: hold.mode, permits: hold.permits, token: hold.token }
    };
    let stepped_down = |reader: &usize| Some((history.holds[*reader].stepped_down?, *reader));
    let reader_of: HashMap<_, _> = holds.iter().filter_map(stepped_down).collect();
    let mut steps = Vec::new();
    for id in holds.iter().copied() {
        let hold = &history.holds[id];
        if hold.stepped_down.is_none() {
            steps.push(operation(hold.asked, hold.granted, Step::Enter(entry(id))));
        }
        match reader_of.get(&id).copied() {
            Some(reader) => {
                let done = hold.released.unwrap_or(u64::MAX);
                let step = Step::StepDown(entry(id), entry(reader));
                steps.push(operation(history.holds[reader].granted, done, step));
            }
            None => steps.push(operation(leaves_after(hold), gone(hold), Step::Leave(entry(id)))),
        }
    }
    search::<M>(&steps, limit)
}

/// When it may have ended at the earliest.
fn leaves_after(hold: &Hold) -> u64 {
    hold.claimed.unwrap_or(hold.asked)
}

/// When it has ended at the latest.
fn gone(hold: &Hold) -> u64 {
    hold.released.unwrap_or(u64::MAX).max(leaves_after(hold))
}

fn operation<M: Model<Op = Step, Metadata = ()>>(from: u64, to: u64, op: Step) -> Operation<M> {
    let time = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
    Operation { client_id: None, call_time: time(from), return_time: time(to), op, metadata: None }
}

fn search<M: Model>(steps: &[Operation<M>], limit: Duration) -> Opinion {
    if steps.len() > LARGEST {
        return Opinion::Unknown;
    }
    match check_operations_timeout(steps, limit) {
        CheckResult::Ok => Opinion::Yes,
        CheckResult::Illegal => Opinion::No,
        CheckResult::Unknown => Opinion::Unknown,
    }
}
