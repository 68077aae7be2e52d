//! Acquiring mutexes and read/write locks on a blocked thread.

use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::blocking::park::block_on_patiently;
use crate::guard::kind::Kind;
use crate::guard::typed::{Guard, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use crate::local::wait::{Forever, Patience};
use crate::lock::mutex::Mutex;
use crate::lock::named::NamedLock;
use crate::lock::rwlock::RwLock;

fn enter<K: Kind>(lock: &NamedLock, patience: impl Patience) -> Result<Guard<K>, LockError> {
    block_on_patiently(lock.name().as_str(), lock.enter(Caller::thread(), patience, true))
}

impl Mutex {
    /// Acquires the lock, and blocks this thread until it is granted, without a limit: the options
    /// `timeout` and `retries` count for [`blocking_acquire_tries`](Mutex::blocking_acquire_tries).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.blocking_acquire()?;
    /// assert!(guard.is_valid());
    /// guard.blocking_release()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Mutex::acquire).
    pub fn blocking_acquire(&self) -> Result<MutexGuard, LockError> {
        enter(self.named(), Forever)
    }

    /// Acquires the lock without waiting for other contenders, and blocks this thread until
    /// ZooKeeper answers.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _held = elsewhere.mutex("orders")?.blocking_acquire()?;
    /// let busy = session.mutex("orders")?.blocking_try_acquire();
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Mutex::try_acquire).
    pub fn blocking_try_acquire(&self) -> Result<MutexGuard, LockError> {
        enter(self.named(), self.once()?)
    }

    /// Acquires the lock, and blocks this thread for at most `timeout`, connecting included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let guard = session.mutex("orders")?.blocking_acquire_timeout(Duration::from_secs(2))?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](Mutex::acquire_timeout).
    pub fn blocking_acquire_timeout(&self, timeout: Duration) -> Result<MutexGuard, LockError> {
        enter(self.named(), self.within(timeout)?)
    }

    /// Acquires the lock, and blocks this thread for at most `timeout × retries` of its options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// // At most 2 × 2 s by default.
    /// let guard = session.mutex("orders")?.blocking_acquire_tries()?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_tries`](Mutex::acquire_tries).
    pub fn blocking_acquire_tries(&self) -> Result<MutexGuard, LockError> {
        enter(self.named(), self.tries())
    }
}

impl RwLock {
    /// Acquires the lock for reading, and blocks this thread until it is granted, without a limit: the
    /// options `timeout` and `retries` count for [`blocking_read_tries`](RwLock::blocking_read_tries).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// let readers = vec![prices.blocking_read()?, prices.blocking_read()?];
    /// assert!(readers.iter().all(|reader| reader.is_valid()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](RwLock::read).
    pub fn blocking_read(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.named(), Forever)
    }

    /// Acquires the lock for reading without waiting for other contenders, and blocks this thread
    /// until ZooKeeper answers.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _held = elsewhere.rw_lock("prices")?.blocking_write()?;
    /// let busy = session.rw_lock("prices")?.blocking_try_read();
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_read`](RwLock::try_read).
    pub fn blocking_try_read(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.named(), self.once()?)
    }

    /// Acquires the lock for reading, and blocks this thread for at most `timeout`, connecting
    /// included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let guard = session.rw_lock("prices")?.blocking_read_timeout(Duration::from_secs(2))?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_timeout`](RwLock::read_timeout).
    pub fn blocking_read_timeout(&self, timeout: Duration) -> Result<RwLockReadGuard, LockError> {
        enter(self.named(), self.within(timeout)?)
    }

    /// Acquires the lock for reading, and blocks this thread for at most `timeout × retries` of its
    /// options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// // At most 2 × 2 s by default.
    /// let guard = session.rw_lock("prices")?.blocking_read_tries()?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_tries`](RwLock::read_tries).
    pub fn blocking_read_tries(&self) -> Result<RwLockReadGuard, LockError> {
        enter(self.named(), self.tries())
    }

    /// Acquires the lock for writing, and blocks this thread until it is granted, without a limit: the
    /// options `timeout` and `retries` count for
    /// [`blocking_write_tries`](RwLock::blocking_write_tries).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// let writing = prices.blocking_write()?;
    /// assert!(writing.scope_sync(|| prices.is_write_held_in_scope()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write`](RwLock::write).
    pub fn blocking_write(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.named(), Forever)
    }

    /// Acquires the lock for writing without waiting for other contenders, and blocks this thread
    /// until ZooKeeper answers.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _held = elsewhere.rw_lock("prices")?.blocking_read()?;
    /// let busy = session.rw_lock("prices")?.blocking_try_write();
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_write`](RwLock::try_write).
    pub fn blocking_try_write(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.named(), self.once()?)
    }

    /// Acquires the lock for writing, and blocks this thread for at most `timeout`, connecting
    /// included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let guard = session.rw_lock("prices")?.blocking_write_timeout(Duration::from_secs(2))?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write_timeout`](RwLock::write_timeout).
    pub fn blocking_write_timeout(&self, timeout: Duration) -> Result<RwLockWriteGuard, LockError> {
        enter(self.named(), self.within(timeout)?)
    }

    /// Acquires the lock for writing, and blocks this thread for at most `timeout × retries` of its
    /// options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// // At most 2 × 2 s by default.
    /// let guard = session.rw_lock("prices")?.blocking_write_tries()?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write_tries`](RwLock::write_tries).
    pub fn blocking_write_tries(&self) -> Result<RwLockWriteGuard, LockError> {
        enter(self.named(), self.tries())
    }
}
