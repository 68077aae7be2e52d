//! The blocking twin of the mutex.

use std::time::Duration;

use crate::blocking::park::{block_on, block_on_patiently};
use crate::error::LockError;
use crate::guard;
use crate::local::wait::Wait;
use crate::lock::mutex;
use crate::token::FencingToken;
use crate::who::Who;

/// A [`Mutex`](mutex::Mutex) for threads.
///
/// ```
/// # fn main() -> Result<(), zklock_core::error::LockError> {
/// use zklock_core::{blocking, session::Session};
///
/// let mutex = blocking::Mutex::from(Session::embedded().mutex("orders/create")?);
/// let guard = mutex.acquire()?;
/// assert!(guard.is_valid());
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(mutex::Mutex);

impl From<mutex::Mutex> for Mutex {
    fn from(mutex: mutex::Mutex) -> Self {
        Mutex(mutex)
    }
}

impl Mutex {
    /// The async form of the same lock.
    pub fn as_async(&self) -> &mutex::Mutex {
        &self.0
    }

    /// Acquires the lock and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire`](mutex::Mutex::acquire);
    /// [`ErrorKind::Deadlock`](crate::error::ErrorKind::Deadlock) at once if the holder lives on
    /// this very thread and could never release.
    pub fn acquire(&self) -> Result<MutexGuard, LockError> {
        self.enter(Wait::Forever, true)
    }

    /// Acquires the lock if that needs no waiting for others.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_acquire`](mutex::Mutex::try_acquire).
    pub fn try_acquire(&self) -> Result<MutexGuard, LockError> {
        self.0.check_try()?;
        self.enter(Wait::Once(self.0.options().try_timeout()), true)
    }

    /// Acquires the lock within a time, connecting included.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](mutex::Mutex::acquire_timeout).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<MutexGuard, LockError> {
        let checked = self.0.options().timeout(timeout).check();
        checked.map_err(|error| error.on(self.0.name().to_shared()))?;
        self.enter(Wait::Tries(timeout, 1), true)
    }

    /// Acquires the lock within the tries of its options.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_tries`](mutex::Mutex::acquire_tries).
    pub fn acquire_tries(&self) -> Result<MutexGuard, LockError> {
        self.enter(self.0.tries(), true)
    }

    /// Whether the calls around the caller hold this lock.
    pub fn is_held_here(&self) -> bool {
        self.0.is_held_here()
    }

    pub(crate) fn enter(&self, how: Wait, unscoped: bool) -> Result<MutexGuard, LockError> {
        let entering = self.0.enter(Who::thread(), how, unscoped);
        block_on_patiently(self.0.name().as_str(), entering).map(MutexGuard)
    }
}

/// Holds a [`Mutex`]. Dropped, it releases without waiting.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct MutexGuard(guard::MutexGuard);

impl MutexGuard {
    /// The async form of the same guard.
    pub fn into_async(self) -> guard::MutexGuard {
        self.0
    }

    pub(crate) fn inner(&self) -> &guard::MutexGuard {
        &self.0
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

    /// Runs `body` in the scope of this guard: the same lock acquired inside is nested.
    pub fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        self.0.scope_sync(body)
    }

    /// Says that another thread will release this guard. See
    /// [`MutexGuard::detach`](guard::MutexGuard::detach).
    pub fn detach(self) -> Self {
        MutexGuard(self.0.detach())
    }

    /// Releases the lock and waits until the node is gone.
    ///
    /// # Errors
    ///
    /// As [`MutexGuard::release`](guard::MutexGuard::release).
    pub fn release(self) -> Result<(), LockError> {
        block_on(self.0.release())
    }
}
