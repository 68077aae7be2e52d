//! Acquiring permits on a blocked thread.

use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::blocking::park::block_on_patiently;
use crate::guard::typed::SemaphorePermit;
use crate::local::wait::{Forever, Patience};
use crate::lock::semaphore::Semaphore;

impl Semaphore {
    /// Acquires one permit, and blocks this thread until it is granted, without a limit: the options
    /// `timeout` and `retries` count for [`blocking_acquire_tries`](Semaphore::blocking_acquire_tries).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let permit = session.semaphore("printers", 3)?.blocking_acquire()?;
    /// assert_eq!(permit.permits(), 1);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub fn blocking_acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.blocking_acquire_many(1)
    }

    /// Acquires several permits, all or none, and blocks this thread until they are granted, without a
    /// limit: the options `timeout` and `retries` count for
    /// [`blocking_acquire_many_tries`](Semaphore::blocking_acquire_many_tries).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let permits = session.semaphore("printers", 3)?.blocking_acquire_many(2)?;
    /// assert_eq!(permits.permits(), 2);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Semaphore::acquire_many).
    pub fn blocking_acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.block(permits, Forever)
    }

    /// Acquires one permit without waiting for other contenders, and blocks this thread until
    /// ZooKeeper answers.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _all = elsewhere.semaphore("printers", 3)?.blocking_acquire_many(3)?;
    /// let busy = session.semaphore("printers", 3)?.blocking_try_acquire();
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Semaphore::try_acquire).
    pub fn blocking_try_acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.blocking_try_acquire_many(1)
    }

    /// Acquires several permits, all or none, without waiting for other contenders, and blocks this
    /// thread until ZooKeeper answers.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _one = elsewhere.semaphore("printers", 3)?.blocking_acquire()?;
    /// assert!(session.semaphore("printers", 3)?.blocking_try_acquire_many(2).is_ok());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire_many`](Semaphore::try_acquire_many).
    pub fn blocking_try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.block(permits, self.once()?)
    }

    /// Acquires one permit, and blocks this thread for at most `timeout`, connecting included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let printers = session.semaphore("printers", 3)?;
    /// let permit = printers.blocking_acquire_timeout(Duration::from_secs(2))?;
    /// assert!(permit.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](Semaphore::acquire_timeout).
    pub fn blocking_acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<SemaphorePermit, LockError> {
        self.blocking_acquire_many_timeout(1, timeout)
    }

    /// Acquires several permits, all or none, and blocks this thread for at most `timeout`,
    /// connecting included.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// use std::time::Duration;
    ///
    /// let _one = elsewhere.semaphore("printers", 3)?.blocking_acquire()?;
    /// let printers = session.semaphore("printers", 3)?;
    /// let busy = printers.blocking_acquire_many_timeout(3, Duration::from_millis(20));
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many_timeout`](Semaphore::acquire_many_timeout).
    pub fn blocking_acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<SemaphorePermit, LockError> {
        self.block(permits, self.within(timeout)?)
    }

    /// Acquires one permit, and blocks this thread for at most `timeout × retries` of the options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// // At most 2 × 2 s by default.
    /// let permit = session.semaphore("printers", 3)?.blocking_acquire_tries()?;
    /// assert_eq!(permit.permits(), 1);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_tries`](Semaphore::acquire_tries).
    pub fn blocking_acquire_tries(&self) -> Result<SemaphorePermit, LockError> {
        self.blocking_acquire_many_tries(1)
    }

    /// Acquires several permits, all or none, and blocks this thread for at most
    /// `timeout × retries` of the options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let permits = session.semaphore("printers", 3)?.blocking_acquire_many_tries(2)?;
    /// assert_eq!(permits.permits(), 2);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many_tries`](Semaphore::acquire_many_tries).
    pub fn blocking_acquire_many_tries(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.block(permits, self.tries())
    }

    fn block(&self, permits: u32, patience: impl Patience) -> Result<SemaphorePermit, LockError> {
        let entering = self.enter(Caller::thread(), permits, patience, true);
        block_on_patiently(self.name().as_str(), entering)
    }
}
