//! The blocking twin of the multi-lock.

use std::time::Duration;

use crate::blocking::park::{block_on, block_on_patiently};
use crate::context::inside_sync;
use crate::error::LockError;
use crate::local::wait::Wait;
use crate::lock::any::{AnyGuard, Enter as _, Guarding as _};
use crate::lock::multi;
use crate::token::FencingToken;
use crate::who::Who;

/// A [`MultiLock`](multi::MultiLock) for threads.
///
/// ```
/// # fn main() -> Result<(), zklock_core::error::LockError> {
/// use zklock_core::{blocking, lock::MultiLock, session::Session};
///
/// let session = Session::embedded();
/// let (from, to) = (session.mutex("accounts/7")?, session.mutex("accounts/3")?);
/// let both = blocking::MultiLock::from(MultiLock::new([from.into(), to.into()])?);
/// let guard = both.acquire()?;
/// assert!(guard.is_valid());
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock(multi::MultiLock);

impl From<multi::MultiLock> for MultiLock {
    fn from(locks: multi::MultiLock) -> Self {
        MultiLock(locks)
    }
}

impl MultiLock {
    /// The async form of the same locks.
    pub fn as_async(&self) -> &multi::MultiLock {
        &self.0
    }

    /// Acquires all and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`acquire`](multi::MultiLock::acquire).
    pub fn acquire(&self) -> Result<MultiGuard, LockError> {
        self.enter(Wait::Forever)
    }

    /// Acquires all if that needs no waiting for others.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](multi::MultiLock::try_acquire).
    pub fn try_acquire(&self) -> Result<MultiGuard, LockError> {
        self.enter(self.0.once()?)
    }

    /// Acquires all within a time, connecting included.
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](multi::MultiLock::acquire_timeout).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<MultiGuard, LockError> {
        self.enter(multi::MultiLock::within(timeout)?)
    }

    /// Acquires all within the tries of the options.
    ///
    /// # Errors
    ///
    /// As [`acquire_tries`](multi::MultiLock::acquire_tries).
    pub fn acquire_tries(&self) -> Result<MultiGuard, LockError> {
        self.enter(self.0.tries())
    }

    fn enter(&self, how: Wait) -> Result<MultiGuard, LockError> {
        let entering = self.0.enter(Who::thread(), how, true);
        block_on_patiently(self.0.name(), entering).map(MultiGuard)
    }
}

/// The guard of a [`blocking::MultiLock`](crate::blocking::MultiLock). Dropped, it releases without
/// waiting, the last taken first.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct MultiGuard(multi::MultiGuard);

impl MultiGuard {
    /// The async form of the same guard.
    pub fn into_async(self) -> multi::MultiGuard {
        self.0
    }

    /// The guards of the members, in the order in which they were taken.
    pub fn members(&self) -> &[AnyGuard] {
        self.0.members()
    }

    /// The fencing tokens of the members, in the order in which they were taken.
    pub fn fencing_tokens(&self) -> Vec<FencingToken> {
        self.0.fencing_tokens()
    }

    /// The fencing tokens as text, joined with `,`.
    pub fn fencing_token(&self) -> String {
        self.0.fencing_token()
    }

    /// Whether all are surely held now.
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// How long all are surely held if nothing more is heard.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether somebody asked that one of them be let go.
    pub fn is_revoked(&self) -> bool {
        self.0.is_revoked()
    }

    /// Runs `body` in the scope of all members.
    pub fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        inside_sync(self.0.frame(), body)
    }

    /// Says that another thread will release this guard. See
    /// [`Guard::detach`](crate::guard::Guard::detach).
    pub fn detach(self) -> Self {
        MultiGuard(self.0.detach())
    }

    /// Releases all, the last taken first, and waits until that is done.
    ///
    /// # Errors
    ///
    /// As [`release`](multi::MultiGuard::release).
    pub fn release(self) -> Result<(), LockError> {
        block_on(self.0.release())
    }
}
