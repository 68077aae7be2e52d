//! The documents' exclusive lock.

use std::time::Duration;

#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::LockError;
use crate::guard::MutexGuard;
use crate::inspect::site::Site;
use crate::key::LockName;
use crate::layout::plain::OneNode;
use crate::lock::mutex::Mutex;
use crate::options::LockOptions;
use crate::session::handle::Session;

/// One ephemeral node `lock` that everybody tries to create: whoever succeeds holds the lock, all
/// the others watch the node and try again when it is gone.
///
/// It is here because it is in the documents, and for comparison. **It herds**: each release wakes
/// every process that waits, all of them send a creation, and all but one of these fail; with a
/// hundred waiting processes that is a hundred events and two hundred requests a release, where a
/// [`Mutex`] has one event. Nor is there an order: who is woken first wins, and somebody can wait
/// for ever. Only tasks of one process are served in theirs.
///
/// Everything else is as with a [`Mutex`]: guards, tokens, scopes, the local queue, the lease.
///
/// ```
/// # async fn example() -> Result<(), zklock_core::error::LockError> {
/// let session = zklock_core::session::Session::embedded();
/// let lock = session.exclusive("orders/create")?;
/// let guard = lock.acquire().await?;
/// assert_eq!(guard.path(), "/zklock/orders/create/lock");
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Exclusive(Mutex);

impl Exclusive {
    /// An exclusive lock of a session, with the session's defaults.
    ///
    /// # Errors
    ///
    /// None today.
    pub fn new(session: &Session, name: LockName) -> Result<Self, LockError> {
        Ok(Exclusive(Mutex::new(session, name).driver(OneNode)?))
    }

    /// Sets all options at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for zero tries or a zero timeout.
    pub fn with_options(self, options: LockOptions) -> Result<Self, LockError> {
        self.0.with_options(options).map(Exclusive)
    }

    /// The options.
    pub fn options(&self) -> LockOptions {
        self.0.options()
    }

    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        self.0.name()
    }

    /// The path of the directory of the node.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Its holder, to look at; those who wait have no nodes.
    pub fn site(&self) -> Site {
        self.0.site()
    }

    /// The same lock as a mutex in the layout of one node, for whatever takes a mutex.
    pub fn as_mutex(&self) -> &Mutex {
        &self.0
    }

    /// Acquires the lock and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::acquire`].
    pub async fn acquire(&self) -> Result<MutexGuard, LockError> {
        self.0.acquire().await
    }

    /// Acquires the lock if nobody holds it.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::acquire`].
    pub async fn try_acquire(&self) -> Result<MutexGuard, LockError> {
        self.0.try_acquire().await
    }

    /// Acquires the lock within a time.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`].
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<MutexGuard, LockError> {
        self.0.acquire_timeout(timeout).await
    }

    /// Acquires the lock within the tries of its options.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_tries`].
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::acquire`].
    pub async fn acquire_tries(&self) -> Result<MutexGuard, LockError> {
        self.0.acquire_tries().await
    }
}

impl Session {
    /// The documents' exclusive lock of a name. Prefer [`Session::mutex`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn exclusive(&self, name: &str) -> Result<Exclusive, LockError> {
        Exclusive::new(self, LockName::new(name)?)
    }
}
