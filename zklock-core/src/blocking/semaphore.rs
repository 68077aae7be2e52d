//! The blocking twin of the semaphore.

use std::time::Duration;

use crate::blocking::guard::SemaphorePermit;
use crate::blocking::park::block_on_patiently;
use crate::error::LockError;
use crate::local::wait::Wait;
use crate::lock::semaphore;
use crate::who::Who;

/// A [`Semaphore`](semaphore::Semaphore) for threads.
///
/// ```
/// # fn main() -> Result<(), zklock_core::error::LockError> {
/// use zklock_core::{blocking, session::Session};
///
/// let printers = blocking::Semaphore::from(Session::embedded().semaphore("printers", 3)?);
/// let all = printers.acquire_many(3)?;
/// assert!(printers.try_acquire().is_err());
/// all.release()?;
/// # Ok(())
/// # }
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
    pub fn as_async(&self) -> &semaphore::Semaphore {
        &self.0
    }

    /// Acquires one permit and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`acquire`](semaphore::Semaphore::acquire).
    pub fn acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.acquire_many(1)
    }

    /// Acquires several permits, all or none, and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](semaphore::Semaphore::acquire_many).
    pub fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(permits, Wait::Forever, true)
    }

    /// Acquires one permit if that needs no waiting for others.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](semaphore::Semaphore::try_acquire).
    pub fn try_acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.try_acquire_many(1)
    }

    /// Acquires several permits, all or none, if that needs no waiting for others.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_many`](semaphore::Semaphore::try_acquire_many).
    pub fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(permits, self.0.once(), true)
    }

    /// Acquires one permit within a time, connecting included.
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](semaphore::Semaphore::acquire_timeout).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<SemaphorePermit, LockError> {
        self.acquire_many_timeout(1, timeout)
    }

    /// Acquires several permits, all or none, within a time, connecting included.
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
        let entering = self.0.enter(Who::thread(), permits, how, unscoped);
        block_on_patiently(self.0.name().as_str(), entering).map(SemaphorePermit::new)
    }
}
