//! A lock that a body is about to acquire.

use crate::base::caller::Caller;
use crate::base::cancel_policy::CancelPolicy;
use crate::local::wait::Wait;
use crate::lock::any::AnyLock;
use crate::lock::multi::MultiLock;
use crate::run::guarded::{Entered, Guarded};

/// A lock, or several as one, and how to wait for it.
#[derive(Debug)]
pub struct Entry {
    pub(crate) lock: Locks,
    pub(crate) wait: Wait,
}

/// One lock or several.
#[derive(Debug)]
pub(crate) enum Locks {
    One(AnyLock),
    Several(MultiLock),
}

impl Locks {
    pub(crate) fn cancel_policy(&self) -> CancelPolicy {
        match self {
            Locks::One(lock) => lock.settings.cancel_policy(),
            Locks::Several(locks) => locks.cancel_policy(),
        }
    }
}

impl Entry {
    /// Acquires one lock.
    pub fn one(lock: AnyLock, wait: Wait) -> Self {
        Entry { lock: Locks::One(lock), wait }
    }

    /// Acquires several locks as one.
    pub fn several(locks: MultiLock, wait: Wait) -> Self {
        Entry { lock: Locks::Several(locks), wait }
    }

    /// Acquires the lock in a task.
    pub fn guarded(self) -> Guarded {
        let Entry { lock, wait } = self;
        let policy = lock.cancel_policy();
        match lock {
            Locks::One(lock) => {
                let entering = async move { lock.enter(Caller::task(), wait, false).await };
                Guarded::new(Box::pin(async { entering.await.map(Entered::One) }), policy)
            }
            Locks::Several(locks) => {
                let entering = async move { locks.enter(Caller::task(), wait, false).await };
                Guarded::new(Box::pin(async { entering.await.map(Entered::Several) }), policy)
            }
        }
    }
}
