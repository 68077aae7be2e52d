//! What was asked, and what became of it.

use crate::history::Mode;

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
