//! The blocking twin of the read/write lock.

use std::time::Duration;

use crate::base::error::LockError;
use crate::blocking::guard::{RwLockReadGuard, RwLockWriteGuard, enter};
use crate::local::wait::Wait;
use crate::lock::rwlock;

/// A [`RwLock`](rwlock::RwLock) for threads.
///
/// ```
/// use zklock::{Session, blocking};
///
/// let prices = blocking::RwLock::from(Session::embedded().rw_lock("prices")?);
/// let (first, second) = (prices.read()?, prices.read()?);
/// assert!(prices.try_write().is_err());
/// # drop((first, second));
/// # Ok::<(), zklock::LockError>(())
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
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// assert_eq!(prices.as_async().path(), "/zklock/prices");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn as_async(&self) -> &rwlock::RwLock {
        &self.0
    }

    /// Acquires the lock for reading and waits as long as it takes.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// let reading = prices.read()?;
    /// assert!(reading.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](rwlock::RwLock::read).
    pub fn read(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.0.named(), Wait::Forever, true)
    }

    /// Acquires the lock for reading if that needs no waiting for others.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let other = zklock::Session::embedded_builder(&store).open()?;
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// # let elsewhere = zklock::blocking::RwLock::from(other.rw_lock("prices")?);
    /// let _writing = elsewhere.write()?;
    /// assert!(prices.try_read().is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_read`](rwlock::RwLock::try_read).
    pub fn try_read(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.0.named(), self.0.named().once()?, true)
    }

    /// Acquires the lock for reading within a time, connecting included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// use std::time::Duration;
    ///
    /// assert!(prices.read_timeout(Duration::from_secs(2))?.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_timeout`](rwlock::RwLock::read_timeout).
    pub fn read_timeout(&self, timeout: Duration) -> Result<RwLockReadGuard, LockError> {
        enter(self.0.named(), self.0.named().within(timeout)?, true)
    }

    /// Acquires the lock for reading within the tries of its options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// let reading = prices.read_tries()?; // At most 2 × 2 s by default.
    /// assert!(reading.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_tries`](rwlock::RwLock::read_tries).
    pub fn read_tries(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.0.named(), self.0.named().tries(), true)
    }

    /// Acquires the lock for writing and waits as long as it takes.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// let writing = prices.write()?;
    /// writing.release()?;
    /// assert!(prices.try_read().is_ok());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write`](rwlock::RwLock::write).
    pub fn write(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.0.named(), Wait::Forever, true)
    }

    /// Acquires the lock for writing if that needs no waiting for others.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let other = zklock::Session::embedded_builder(&store).open()?;
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// # let elsewhere = zklock::blocking::RwLock::from(other.rw_lock("prices")?);
    /// let _reading = elsewhere.read()?;
    /// assert!(prices.try_write().is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_write`](rwlock::RwLock::try_write).
    pub fn try_write(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.0.named(), self.0.named().once()?, true)
    }

    /// Acquires the lock for writing within a time, connecting included.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let other = zklock::Session::embedded_builder(&store).open()?;
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// # let elsewhere = zklock::blocking::RwLock::from(other.rw_lock("prices")?);
    /// use std::time::Duration;
    ///
    /// let _reading = elsewhere.read()?;
    /// let busy = prices.write_timeout(Duration::from_millis(20));
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write_timeout`](rwlock::RwLock::write_timeout).
    pub fn write_timeout(&self, timeout: Duration) -> Result<RwLockWriteGuard, LockError> {
        enter(self.0.named(), self.0.named().within(timeout)?, true)
    }

    /// Acquires the lock for writing within the tries of its options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// let writing = prices.write_tries()?; // At most 2 × 2 s by default.
    /// assert_eq!(writing.lock(), "prices");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write_tries`](rwlock::RwLock::write_tries).
    pub fn write_tries(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.0.named(), self.0.named().tries(), true)
    }

    /// Whether the calls around the caller hold this lock for reading or writing.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// let reading = prices.read()?;
    /// assert!(reading.scope(|| prices.is_read_here() && !prices.is_written_here()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn is_read_here(&self) -> bool {
        self.0.is_read_here()
    }

    /// Whether the calls around the caller hold this lock for writing.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// let writing = prices.write()?;
    /// assert!(writing.scope(|| prices.is_written_here()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn is_written_here(&self) -> bool {
        self.0.is_written_here()
    }
}
