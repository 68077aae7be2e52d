//! Who in this process asks for a lock.

use std::fmt;
use std::thread::{self, ThreadId};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

thread_local! {
    /// `thread::current()` counts references; this is asked for at every acquire.
    static THREAD: ThreadId = thread::current().id();
}

/// The task or thread that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    task: Option<task::Id>,
    thread: ThreadId,
    blocking: bool,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) if self.blocking => write!(f, "blocking task {task}"),
            Some(task) => write!(f, "task {task}"),
            None => write!(f, "thread {:?}", self.thread),
        }
    }
}

impl Who {
    /// The caller, which waits as a future.
    pub fn task() -> Self {
        let thread = THREAD.try_with(|id| *id).unwrap_or_else(|_| thread::current().id());
        Who { task: task::try_id(), thread, blocking: false }
    }

    /// The caller, which blocks its thread.
    pub fn thread() -> Self {
        Who { blocking: true, ..Who::task() }
    }

    /// Whether both are the same task, or the same thread outside of tasks.
    pub fn is_same(&self, other: &Who) -> bool {
        match (self.task, other.task) {
            (Some(mine), Some(theirs)) => mine == theirs,
            (None, None) => self.thread == other.thread,
            _ => false,
        }
    }

    /// Whether blocking the present thread keeps the other from ever going on: it lives on this
    /// thread, and no other thread takes over the tasks of this one.
    pub fn would_block(&self, other: &Who) -> bool {
        let taken_over = || {
            let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
            matches!(flavor, Ok(RuntimeFlavor::MultiThread))
        };
        self.blocking && self.thread == other.thread && (other.blocking || !taken_over())
    }
}
