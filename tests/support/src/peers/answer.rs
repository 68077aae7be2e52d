//! What is asked of an agent, and what it answers.

use std::fmt;

/// Which lock of the peer's to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Curator's `InterProcessMutex`, kazoo's `Lock`.
    Mutex,
    /// Curator's `InterProcessMutex` whose holder is told of revocations: as the event
    /// `revoked HANDLE`.
    Revocable,
    /// kazoo's `Lock` that respects Curator's nodes too.
    MutexBesideCurator,
    /// kazoo's `Lock` whose node is not ephemeral.
    Lasting,
    /// kazoo's `Lock` with the names of Curator's nodes.
    MutexAsCurator,
    /// The shared side of the read/write lock.
    Read,
    /// The exclusive side of the read/write lock.
    Write,
    /// Leadership by Curator's `LeaderSelector`.
    Leader,
    /// Curator's `InterProcessSemaphoreV2`, kazoo's `Semaphore`, with this many permits.
    Semaphore(u32),
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mutex => f.write_str("mutex"),
            Self::Revocable => f.write_str("revocable"),
            Self::MutexBesideCurator => f.write_str("mutex:-lock-"),
            Self::Lasting => f.write_str("lasting"),
            Self::MutexAsCurator => f.write_str("curators-mutex"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Leader => f.write_str("leader"),
            Self::Semaphore(limit) => write!(f, "semaphore:{limit}"),
        }
    }
}

/// A lock that an agent holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The agent's name for it.
    pub handle: String,
    /// The path of its node.
    pub node: String,
    /// When it was granted, on the clock of [`monotonic_ns`](crate::monotonic_ns).
    pub at_ns: u64,
}

/// How an acquire of an agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The agent holds the lock.
    Held(Grant),
    /// The time ran out.
    Busy,
    /// [`Pending::cancel`](super::Pending::cancel) came first.
    Cancelled,
    /// The peer's error, or the end of the agent.
    Failed(String),
}

impl Outcome {
    /// Returns the grant.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn held(self) -> Grant {
        match self {
            Self::Held(grant) => grant,
            other => panic!("the peer does not hold the lock: {other:?}"),
        }
    }

    /// Tells whether the time ran out.
    pub fn is_busy(&self) -> bool {
        *self == Self::Busy
    }

    /// Reads an agent's answer behind the request's number.
    pub(super) fn parse(answer: &str) -> Self {
        let words: Vec<_> = answer.split(' ').collect();
        match words.as_slice() {
            ["busy"] => Self::Busy,
            ["cancelled"] => Self::Cancelled,
            ["ok", handle, node, at] if at.parse::<u64>().is_ok() => Self::Held(Grant {
                handle: (*handle).to_owned(),
                node: (*node).to_owned(),
                at_ns: at.parse().unwrap_or_default(),
            }),
            _ => Self::Failed(answer.to_owned()),
        }
    }
}
