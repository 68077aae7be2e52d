//! The blocking twin of the semaphore.

use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::blocking::guard::SemaphorePermit;
use crate::blocking::park::block_on_patiently;
use crate::local::wait::Wait;
use crate::lock::semaphore;

/// A [`Semaphore`](semaphore::Semaphore) for threads.
///
/// ```
/// use zklock::{Session, blocking};
///
/// let printers = blocking::Semaphore::from(Session::embedded().semaphore("printers", 3)?);
/// let all = printers.acquire_many(3)?;
/// assert!(printers.try_acquire().is_err());
/// all.release()?;
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore(semaphore::Semaphore);

impl From<semaphore::Semaphore> for Semaphore {
    fn from(semaphore: semaphore::Semaphore) -> Self {
        Semaphore(semaphore)
    }
}

impl Semaphore {
    /// The async form of the same semaphore.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// assert_eq!(printers.as_async().limit(), 3);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn as_async(&self) -> &semaphore::Semaphore {
        &self.0
    }

    /// Acquires one permit and waits as long as it takes.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// let permit = printers.acquire()?;
    /// assert_eq!(permit.permits(), 1);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](semaphore::Semaphore::acquire).
    pub fn acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.acquire_many(1)
    }

    /// Acquires several permits, all or none, and waits as long as it takes.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// assert_eq!(printers.acquire_many(3)?.permits(), 3);
    /// assert!(printers.acquire_many(4).is_err()); // There are three.
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](semaphore::Semaphore::acquire_many).
    pub fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(permits, Wait::Forever, true)
    }

    /// Acquires one permit if that needs no waiting for others.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let other = zklock::Session::embedded_builder(&store).open()?;
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// # let elsewhere = zklock::blocking::Semaphore::from(other.semaphore("printers", 3)?);
    /// let _all = elsewhere.acquire_many(3)?;
    /// assert!(printers.try_acquire().is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](semaphore::Semaphore::try_acquire).
    pub fn try_acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.try_acquire_many(1)
    }

    /// Acquires several permits, all or none, if that needs no waiting for others.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let other = zklock::Session::embedded_builder(&store).open()?;
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// # let elsewhere = zklock::blocking::Semaphore::from(other.semaphore("printers", 3)?);
    /// let _one = elsewhere.acquire()?;
    /// assert!(printers.try_acquire_many(3).is_err_and(|error| error.is_busy()));
    /// assert!(printers.try_acquire_many(2).is_ok());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire_many`](semaphore::Semaphore::try_acquire_many).
    pub fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(permits, self.0.once(), true)
    }

    /// Acquires one permit within a time, connecting included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// use std::time::Duration;
    ///
    /// assert!(printers.acquire_timeout(Duration::from_secs(2))?.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](semaphore::Semaphore::acquire_timeout).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<SemaphorePermit, LockError> {
        self.acquire_many_timeout(1, timeout)
    }

    /// Acquires several permits, all or none, within a time, connecting included.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let other = zklock::Session::embedded_builder(&store).open()?;
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// # let elsewhere = zklock::blocking::Semaphore::from(other.semaphore("printers", 3)?);
    /// use std::time::Duration;
    ///
    /// let _one = elsewhere.acquire()?;
    /// let busy = printers.acquire_many_timeout(3, Duration::from_millis(20));
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many_timeout`](semaphore::Semaphore::acquire_many_timeout).
    pub fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<SemaphorePermit, LockError> {
        self.enter(permits, self.0.within(timeout)?, true)
    }

    /// Acquires several permits, all or none, within the tries of the options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// let permits = printers.acquire_many_tries(2)?; // At most 2 × 2 s by default.
    /// assert_eq!(permits.permits(), 2);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many_tries`](semaphore::Semaphore::acquire_many_tries).
    pub fn acquire_many_tries(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(permits, self.0.tries(), true)
    }

    pub(crate) fn enter(
        &self,
        permits: u32,
        how: Wait,
        unscoped: bool,
    ) -> Result<SemaphorePermit, LockError> {
        let entering = self.0.enter(Caller::thread(), permits, how, unscoped);
        block_on_patiently(self.0.name().as_str(), entering).map(SemaphorePermit::new)
    }
}
