//! What was asked, and what became of it.

use crate::history::Mode;
use crate::line::{Request, Start};

/// How an acquire ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is not answered.
    Pending,
    /// It was granted.
    Granted,
    /// It was refused, with this kind of error.
    Refused(String),
}

/// The options of an acquire that a rule asks for: what it says itself, or else what its process was started
/// with. Two callers of one process may differ in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether it is granted in order.
    pub fair: bool,
    /// Whether its guard is lost as soon as the connection is in trouble.
    pub stops_early: bool,
    /// Whether it may be granted inside a scope that holds the lock.
    pub reentrant: bool,
    /// Whether the lock is unavailable for a while after its holder was lost.
    pub delays: bool,
    /// How often it queues up again after others deleted its node or the directory, if it says so.
    pub requeue: Option<u32>,
    /// For how long its guard is valid at most, in nanoseconds.
    pub at_most: Option<u64>,
}

impl Options {
    pub(crate) fn of(request: &Request, start: &Start) -> Self {
        let at_most = request.hold_at_most_ms.or_else(|| start.number("--hold-at-most-ms"));
        let delay = request.lock_delay_ms.or_else(|| start.number("--lock-delay-ms"));
        Options {
            fair: request.fair.unwrap_or(start.fair),
            stops_early: request.stop_at_suspect.unwrap_or_else(|| start.has("--stop-at-suspect")),
            reentrant: request.reentrant.unwrap_or_else(|| !start.has("--not-reentrant")),
            delays: delay.is_some_and(|ms| ms > 0),
            requeue: request.requeue,
            at_most: at_most.map(|ms| ms.saturating_mul(1_000_000)),
        }
    }
}

/// One acquire.
#[derive(Clone, Debug)]
pub struct Call {
    /// An index into [`History::clients`](crate::History::clients).
    pub client: usize,
    /// The request's number.
    pub id: u64,
    /// Indexes into [`History::locks`](crate::History::locks); several of a multi-lock.
    pub locks: Vec<usize>,
    /// In which way each of them.
    pub modes: Vec<Mode>,
    /// Of a semaphore: how many, of how many.
    pub permits: (u32, u32),
    /// When it was sent.
    pub asked: u64,
    /// When the library was asked: its process may have had no processor before that.
    pub begun: u64,
    /// How long a try may take, in nanoseconds; 0 tries once.
    pub timeout: Option<u64>,
    /// How many tries.
    pub tries: u32,
    /// Whether a thread of its own waited for it, which began whenever it had a processor.
    pub blocking: bool,
    /// Its options.
    pub options: Options,
    /// Whether the lock has one node only, for which all wait.
    pub has_one_node: bool,
    /// The hold in whose scope it was sent, of whatever lock.
    pub parent: Option<usize>,
    /// When the answer was heard; `u64::MAX` where it never was.
    pub heard: u64,
    /// When the library gave it, if the client says so, or else when it was heard.
    pub answered: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The first hold that it brought.
    pub hold: Option<usize>,
}

impl Call {
    /// Its locks, and in which way each.
    pub(crate) fn members(&self) -> impl Iterator<Item = (usize, Mode)> + '_ {
        self.locks.iter().copied().zip(self.modes.iter().copied())
    }

    /// In which way it wants a lock.
    pub(crate) fn mode(&self, lock: usize) -> Option<Mode> {
        self.members().find(|(member, _)| *member == lock).map(|(_, mode)| mode)
    }
}

/// A request about a guard that was not done.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// An index into [`History::clients`](crate::History::clients).
    pub client: usize,
    /// The operation.
    pub op: String,
    /// The guard that it was about, if it is known.
    pub hold: Option<usize>,
    /// When it was sent.
    pub asked: u64,
    /// When it was answered.
    pub heard: u64,
    /// The kind of error.
    pub error: String,
}
