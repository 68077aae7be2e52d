//! The blocking twin of the read/write lock.

use std::time::Duration;

use crate::blocking::guard::{RwLockReadGuard, RwLockWriteGuard, enter};
use crate::error::LockError;
use crate::local::wait::Wait;
use crate::lock::rwlock;

/// A [`RwLock`](rwlock::RwLock) for threads.
///
/// ```
/// # fn main() -> Result<(), zklock_core::error::LockError> {
/// use zklock_core::{blocking, session::Session};
///
/// let prices = blocking::RwLock::from(Session::embedded().rw_lock("prices")?);
/// let (first, second) = (prices.read()?, prices.read()?);
/// assert!(prices.try_write().is_err());
/// # drop((first, second));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock(rwlock::RwLock);

impl From<rwlock::RwLock> for RwLock {
    fn from(lock: rwlock::RwLock) -> Self {
        RwLock(lock)
    }
}

impl RwLock {
    /// The async form of the same lock.
    pub fn as_async(&self) -> &rwlock::RwLock {
        &self.0
    }

    /// Acquires the lock for reading and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`read`](rwlock::RwLock::read).
    pub fn read(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.0.named(), Wait::Forever, true)
    }

    /// Acquires the lock for reading if that needs no waiting for others.
    ///
    /// # Errors
    ///
    /// As [`try_read`](rwlock::RwLock::try_read).
    pub fn try_read(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.0.named(), self.0.named().once()?, true)
    }

    /// Acquires the lock for reading within a time, connecting included.
    ///
    /// # Errors
    ///
    /// As [`read_timeout`](rwlock::RwLock::read_timeout).
    pub fn read_timeout(&self, timeout: Duration) -> Result<RwLockReadGuard, LockError> {
        enter(self.0.named(), self.0.named().within(timeout)?, true)
    }

    /// Acquires the lock for reading within the tries of its options.
    ///
    /// # Errors
    ///
    /// As [`read_tries`](rwlock::RwLock::read_tries).
    pub fn read_tries(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.0.named(), self.0.named().tries(), true)
    }

    /// Acquires the lock for writing and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`write`](rwlock::RwLock::write).
    pub fn write(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.0.named(), Wait::Forever, true)
    }

    /// Acquires the lock for writing if that needs no waiting for others.
    ///
    /// # Errors
    ///
    /// As [`try_write`](rwlock::RwLock::try_write).
    pub fn try_write(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.0.named(), self.0.named().once()?, true)
    }

    /// Acquires the lock for writing within a time, connecting included.
    ///
    /// # Errors
    ///
    /// As [`write_timeout`](rwlock::RwLock::write_timeout).
    pub fn write_timeout(&self, timeout: Duration) -> Result<RwLockWriteGuard, LockError> {
        enter(self.0.named(), self.0.named().within(timeout)?, true)
    }

    /// Acquires the lock for writing within the tries of its options.
    ///
    /// # Errors
    ///
    /// As [`write_tries`](rwlock::RwLock::write_tries).
    pub fn write_tries(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.0.named(), self.0.named().tries(), true)
    }

    /// Whether the calls around the caller hold this lock for reading or writing.
    pub fn is_read_here(&self) -> bool {
        self.0.is_read_here()
    }

    /// Whether the calls around the caller hold this lock for writing.
    pub fn is_written_here(&self) -> bool {
        self.0.is_written_here()
    }
}
