//! The blocking twin of the multi-lock.

use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::base::token::FencingToken;
use crate::blocking::park::{block_on, block_on_patiently};
use crate::guard::context::inside_sync;
use crate::local::wait::Wait;
use crate::lock::any::{AnyGuard, Enter as _, Guarding as _};
use crate::lock::multi;

/// A [`MultiLock`](multi::MultiLock) for threads.
///
/// ```
/// # fn main() -> Result<(), zklock_core::base::error::LockError> {
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
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// assert_eq!(both.as_async().members().len(), 2);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn as_async(&self) -> &multi::MultiLock {
        &self.0
    }

    /// Acquires all and waits as long as it takes.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](multi::MultiLock::acquire).
    pub fn acquire(&self) -> Result<MultiGuard, LockError> {
        self.enter(Wait::Forever)
    }

    /// Acquires all if that needs no waiting for others.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let one = zklock::blocking::Mutex::from(session.mutex("accounts/3")?);
    /// let held = std::thread::spawn(move || one.acquire()).join().unwrap()?;
    /// assert!(both.try_acquire().is_err_and(|error| error.is_busy()));
    /// drop(held);
    /// assert!(both.try_acquire().is_ok());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](multi::MultiLock::try_acquire).
    pub fn try_acquire(&self) -> Result<MultiGuard, LockError> {
        self.enter(self.0.once()?)
    }

    /// Acquires all within a time, connecting included.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// use std::time::Duration;
    ///
    /// let guard = both.acquire_timeout(Duration::from_secs(2))?;
    /// assert_eq!(guard.members().len(), 2);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](multi::MultiLock::acquire_timeout).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<MultiGuard, LockError> {
        self.enter(multi::MultiLock::within(timeout)?)
    }

    /// Acquires all within the tries of the options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// both.acquire_tries()?.release()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_tries`](multi::MultiLock::acquire_tries).
    pub fn acquire_tries(&self) -> Result<MultiGuard, LockError> {
        self.enter(self.0.tries())
    }

    fn enter(&self, how: Wait) -> Result<MultiGuard, LockError> {
        let entering = self.0.enter(Caller::thread(), how, true);
        block_on_patiently(self.0.name(), entering).map(MultiGuard)
    }
}

/// The guard of a [`blocking::MultiLock`](crate::blocking::MultiLock). Dropped, it releases without
/// waiting, the last taken first.
///
/// ```
/// # let session = zklock::Session::embedded();
/// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
/// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
/// let guard = both.acquire()?;
/// assert!(guard.is_valid());
/// drop(guard);
/// assert!(session.held().is_empty());
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct MultiGuard(multi::MultiGuard);

impl MultiGuard {
    /// The async form of the same guard.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?.into_async();
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn into_async(self) -> multi::MultiGuard {
        self.0
    }

    /// The guards of the members, in the order in which they were taken.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?;
    /// let names: Vec<_> = guard.members().iter().map(|member| member.lock()).collect();
    /// assert_eq!(names, ["accounts/3", "accounts/7"]);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn members(&self) -> &[AnyGuard] {
        self.0.members()
    }

    /// The fencing tokens of the members, in the order in which they were taken.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?;
    /// assert!(guard.fencing_tokens()[0] < guard.fencing_tokens()[1]);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn fencing_tokens(&self) -> Vec<FencingToken> {
        self.0.fencing_tokens()
    }

    /// The fencing tokens as text, joined with `,`.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?;
    /// assert_eq!(guard.fencing_token().split(',').count(), 2);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn fencing_token(&self) -> String {
        self.0.fencing_token()
    }

    /// Whether all are surely held now.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?;
    /// assert!(guard.is_valid()); // Ask directly before a commit.
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// How long all are surely held if nothing more is heard.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?;
    /// assert!(guard.remaining().as_secs() > 1);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether somebody asked that one of them be let go.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// assert!(!both.acquire()?.is_revoked());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn is_revoked(&self) -> bool {
        self.0.is_revoked()
    }

    /// Runs `body` in the scope of all members.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?;
    /// let inner = zklock::blocking::Mutex::from(session.mutex("accounts/3")?);
    /// assert!(guard.scope(|| inner.acquire()).is_ok(), "nested");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        inside_sync(self.0.frame(), body)
    }

    /// Says that another thread will release this guard. See
    /// [`Guard::detach`](crate::guard::typed::Guard::detach).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?.detach();
    /// std::thread::spawn(move || guard.release()).join().unwrap()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn detach(self) -> Self {
        MultiGuard(self.0.detach())
    }

    /// Releases all, the last taken first, and waits until that is done.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?.into(), session.mutex("accounts/3")?.into()];
    /// # let both = zklock::blocking::MultiLock::from(zklock::MultiLock::new(locks)?);
    /// let guard = both.acquire()?;
    /// guard.release()?;
    /// assert!(session.held().is_empty());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`release`](multi::MultiGuard::release).
    pub fn release(self) -> Result<(), LockError> {
        block_on(self.0.release())
    }
}
