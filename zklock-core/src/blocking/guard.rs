//! The blocking twins of the guards.

use std::time::Duration;

use crate::blocking::park::{block_on, block_on_patiently};
use crate::error::LockError;
use crate::guard;
use crate::guard::kind::{Alone, Kind, Reading, Sharing, Writing};
use crate::local::wait::Wait;
use crate::lock::named::NamedLock;
use crate::token::FencingToken;
use crate::who::Who;

/// The guard of a [`blocking::Mutex`](crate::blocking::Mutex).
pub type MutexGuard = Guard<Alone>;
/// The guard of a reader of a [`blocking::RwLock`](crate::blocking::RwLock).
pub type RwLockReadGuard = Guard<Reading>;
/// The guard of a writer of a [`blocking::RwLock`](crate::blocking::RwLock).
pub type RwLockWriteGuard = Guard<Writing>;

/// Permits of a [`blocking::Semaphore`](crate::blocking::Semaphore).
pub type SemaphorePermit = Guard<Sharing>;

/// Acquires, blocking the thread.
pub(crate) fn enter<K: Kind>(
    lock: &NamedLock,
    how: Wait,
    unscoped: bool,
) -> Result<Guard<K>, LockError> {
    let entering = lock.enter(Who::thread(), how, unscoped);
    block_on_patiently(lock.name().as_str(), entering).map(Guard)
}

/// Holds a lock. Dropped, it releases without waiting.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct Guard<K: Kind = Alone>(guard::Guard<K>);

impl<K: Kind> Guard<K> {
    pub(crate) fn new(guard: guard::Guard<K>) -> Self {
        Guard(guard)
    }

    /// The async form of the same guard.
    pub fn into_async(self) -> guard::Guard<K> {
        self.0
    }

    /// The name of the lock.
    pub fn lock(&self) -> &str {
        self.0.lock()
    }

    /// The path of the node behind the guard.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// The fencing token, for the resource to check.
    pub fn fencing_token(&self) -> FencingToken {
        self.0.fencing_token()
    }

    /// Whether the lock is surely held now.
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// How long the lock is surely held if nothing more is heard.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether somebody asked that the lock be let go. See
    /// [`Guard::is_revoked`](guard::Guard::is_revoked).
    pub fn is_revoked(&self) -> bool {
        self.0.is_revoked()
    }

    /// Runs `body` in the scope of this guard: the same lock acquired inside is nested.
    pub fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        self.0.scope_sync(body)
    }

    /// Says that another thread will release this guard. See
    /// [`Guard::detach`](guard::Guard::detach).
    pub fn detach(self) -> Self {
        Guard(self.0.detach())
    }

    /// Releases the lock and waits until the node is gone.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`](guard::Guard::release).
    pub fn release(self) -> Result<(), LockError> {
        block_on(self.0.release())
    }
}

impl SemaphorePermit {
    /// How many permits these are.
    pub fn permits(&self) -> u32 {
        self.0.permits()
    }
}

impl RwLockWriteGuard {
    /// Becomes a reader without letting a writer in between.
    ///
    /// # Errors
    ///
    /// As [`downgrade`](guard::RwLockWriteGuard::downgrade).
    pub fn downgrade(self) -> Result<RwLockReadGuard, LockError> {
        block_on(self.0.downgrade()).map(Guard)
    }
}
