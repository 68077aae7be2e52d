//! The blocking twin of the mutex.

use std::time::Duration;

use crate::base::error::LockError;
use crate::blocking::guard::{MutexGuard, enter};
use crate::local::wait::Wait;
use crate::lock::mutex;

/// A [`Mutex`](mutex::Mutex) for threads.
///
/// ```
/// use zklock::{Session, blocking};
///
/// let mutex = blocking::Mutex::from(Session::embedded().mutex("orders/create")?);
/// let guard = mutex.acquire()?;
/// assert!(guard.is_valid());
/// guard.release()?;
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(mutex::Mutex);

impl From<mutex::Mutex> for Mutex {
    fn from(mutex: mutex::Mutex) -> Self {
        Mutex(mutex)
    }
}

/// The documents' exclusive lock is a mutex in a layout of one node.
impl Mutex {
    /// The async form of the same lock.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// assert_eq!(mutex.as_async().name().as_str(), "orders");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn as_async(&self) -> &mutex::Mutex {
        &self.0
    }

    /// Acquires the lock and waits as long as it takes.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// let guard = mutex.acquire()?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire`](mutex::Mutex::acquire);
    /// [`ErrorKind::Deadlock`](crate::base::error::ErrorKind::Deadlock) at once where the holder, or a
    /// waiter ahead, is a task that only this very thread runs (in a runtime of one thread or a
    /// `LocalSet`), or the very task that is blocked: it could never go on. Use `spawn_blocking`
    /// there. A guard that this thread acquired itself, outside of such a runtime, is waited for,
    /// because guards move between threads; after a second that is logged as a warning.
    ///
    /// A `LocalSet` that a runtime of several threads drives looks like one of its workers, and no
    /// interface of tokio tells them apart. It is recognised where the future given to `block_on`
    /// acquired a lock on that thread, too; elsewhere the call waits, and is warned about. In
    /// `tokio::task::unconstrained` nothing is recognised. A future that is run by
    /// `Handle::block_on` on a thread of the pool of a runtime of one thread counts as one that
    /// lives on that thread; [`detach`](crate::blocking::MutexGuard::detach) its guards where they
    /// go elsewhere.
    pub fn acquire(&self) -> Result<MutexGuard, LockError> {
        enter(self.0.named(), Wait::Forever, true)
    }

    /// Acquires the lock if that needs no waiting for others.
    ///
    /// ```
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// # let _held = locks.hold("orders")?;
    /// assert!(mutex.try_acquire().is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_acquire`](mutex::Mutex::try_acquire).
    pub fn try_acquire(&self) -> Result<MutexGuard, LockError> {
        enter(self.0.named(), self.0.named().once()?, true)
    }

    /// Acquires the lock within a time, connecting included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// use std::time::Duration;
    ///
    /// assert!(mutex.acquire_timeout(Duration::from_secs(2))?.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](mutex::Mutex::acquire_timeout).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<MutexGuard, LockError> {
        enter(self.0.named(), self.0.named().within(timeout)?, true)
    }

    /// Acquires the lock within the tries of its options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// let guard = mutex.acquire_tries()?; // At most 2 × 2 s by default.
    /// assert_eq!(guard.lock(), "orders");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_tries`](mutex::Mutex::acquire_tries).
    pub fn acquire_tries(&self) -> Result<MutexGuard, LockError> {
        enter(self.0.named(), self.0.named().tries(), true)
    }

    /// Whether the calls around the caller hold this lock.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// let guard = mutex.acquire()?;
    /// assert!(guard.scope(|| mutex.is_held_here()));
    /// assert!(!mutex.is_held_here()); // Held, but not by a call around this one.
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn is_held_here(&self) -> bool {
        self.0.is_held_here()
    }
}
