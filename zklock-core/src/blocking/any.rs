//! Acquiring locks of any kind, and several as one, on a blocked thread.

use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::blocking::park::block_on_patiently;
use crate::local::wait::Wait;
use crate::lock::any::{AnyGuard, AnyLock};
use crate::lock::multi::{MultiGuard, MultiLock};

impl AnyLock {
    /// Acquires the lock, and blocks this thread until it is granted, without a limit: the options
    /// `timeout` and `retries` count for [`blocking_acquire_tries`](AnyLock::blocking_acquire_tries).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let lock: zklock::AnyLock = session.mutex("orders")?.into();
    /// assert_eq!(lock.blocking_acquire()?.lock_name(), lock.name().as_str());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](AnyLock::acquire).
    pub fn blocking_acquire(&self) -> Result<AnyGuard, LockError> {
        self.block(Wait::Forever)
    }

    /// Acquires the lock without waiting for other contenders, and blocks this thread until
    /// ZooKeeper answers.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// use zklock::AnyLock;
    ///
    /// let _writing = elsewhere.rw_lock("prices")?.blocking_write()?;
    /// let busy = AnyLock::Read(session.rw_lock("prices")?).blocking_try_acquire();
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](AnyLock::try_acquire).
    pub fn blocking_try_acquire(&self) -> Result<AnyGuard, LockError> {
        self.block(self.once()?)
    }

    /// Acquires the lock, and blocks this thread for at most `timeout`, connecting included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let lock: zklock::AnyLock = session.mutex("orders")?.into();
    /// lock.blocking_acquire_timeout(Duration::from_secs(2))?.blocking_release()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](AnyLock::acquire_timeout).
    pub fn blocking_acquire_timeout(&self, timeout: Duration) -> Result<AnyGuard, LockError> {
        self.block(self.within(timeout)?)
    }

    /// Acquires the lock, and blocks this thread for at most `timeout × retries` of its options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let lock: zklock::AnyLock = session.mutex("orders")?.into();
    /// lock.blocking_acquire_tries()?.blocking_release()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_tries`](AnyLock::acquire_tries).
    pub fn blocking_acquire_tries(&self) -> Result<AnyGuard, LockError> {
        self.block(self.tries())
    }

    fn block(&self, wait: Wait) -> Result<AnyGuard, LockError> {
        block_on_patiently(self.name().as_str(), self.enter(Caller::thread(), wait, true))
    }
}

impl MultiLock {
    /// The name of the first member.
    pub(super) fn name(&self) -> &str {
        self.members().first().map_or("", |member| member.name().as_str())
    }

    /// Acquires all locks, and blocks this thread until they are granted, without a limit: the options
    /// `timeout` and `retries` count for [`blocking_acquire_tries`](MultiLock::blocking_acquire_tries).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?, session.mutex("accounts/3")?];
    /// # let both = zklock::MultiLock::new(locks)?;
    /// let guard = both.blocking_acquire()?;
    /// assert!(guard.is_valid());
    /// guard.blocking_release()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](MultiLock::acquire).
    pub fn blocking_acquire(&self) -> Result<MultiGuard, LockError> {
        self.block(Wait::Forever)
    }

    /// Acquires all locks without waiting for other contenders, and blocks this thread until
    /// ZooKeeper answers.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?, session.mutex("accounts/3")?];
    /// # let both = zklock::MultiLock::new(locks)?;
    /// let one = session.mutex("accounts/3")?;
    /// let held = std::thread::spawn(move || one.blocking_acquire()).join().unwrap()?;
    /// assert!(both.blocking_try_acquire().is_err_and(|error| error.is_busy()));
    /// drop(held);
    /// assert!(both.blocking_try_acquire().is_ok());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](MultiLock::try_acquire).
    pub fn blocking_try_acquire(&self) -> Result<MultiGuard, LockError> {
        self.block(self.once()?)
    }

    /// Acquires all locks, and blocks this thread for at most `timeout`, connecting included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?, session.mutex("accounts/3")?];
    /// # let both = zklock::MultiLock::new(locks)?;
    /// use std::time::Duration;
    ///
    /// let guard = both.blocking_acquire_timeout(Duration::from_secs(2))?;
    /// assert_eq!(guard.members().len(), 2);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](MultiLock::acquire_timeout).
    pub fn blocking_acquire_timeout(&self, timeout: Duration) -> Result<MultiGuard, LockError> {
        self.block(Wait::within(timeout)?)
    }

    /// Acquires all locks, and blocks this thread for at most `timeout × retries` of the options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?, session.mutex("accounts/3")?];
    /// # let both = zklock::MultiLock::new(locks)?;
    /// both.blocking_acquire_tries()?.blocking_release()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_tries`](MultiLock::acquire_tries).
    pub fn blocking_acquire_tries(&self) -> Result<MultiGuard, LockError> {
        self.block(self.tries())
    }

    fn block(&self, wait: Wait) -> Result<MultiGuard, LockError> {
        block_on_patiently(self.name(), self.enter(Caller::thread(), wait, true))
    }
}
