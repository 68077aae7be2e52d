//! Who in this process asks for a lock.

use std::thread::{self, ThreadId};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

/// The task or thread that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    task: Option<task::Id>,
    thread: ThreadId,
    /// Whether it never leaves its thread.
    pinned: bool,
    blocking: bool,
}

impl Who {
    /// The caller, which waits as a future.
    pub fn task() -> Self {
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        let pinned = !matches!(flavor, Ok(RuntimeFlavor::MultiThread));
        Who { task: task::try_id(), thread: thread::current().id(), pinned, blocking: false }
    }

    /// The caller, which blocks its thread.
    pub fn thread() -> Self {
        Who { blocking: true, ..Who::task() }
    }

    /// Whether it blocks its thread.
    pub fn is_blocking(&self) -> bool {
        self.blocking
    }

    /// Whether both are the same task, or the same thread outside of tasks.
    pub fn is_same(&self, other: &Who) -> bool {
        match (self.task, other.task) {
            (Some(mine), Some(theirs)) => mine == theirs,
            (None, None) => self.thread == other.thread,
            _ => false,
        }
    }

    /// Whether blocking this thread keeps the other from ever going on.
    pub fn would_block(&self, other: &Who) -> bool {
        self.blocking && other.pinned && self.thread == other.thread
    }
}
