//! The documents' exclusive lock.

use std::time::Duration;

#[cfg(doc)]
use crate::base::error::ErrorKind;
use crate::base::error::LockError;
use crate::base::options::LockOptions;
use crate::guard::typed::MutexGuard;
use crate::inspect::site::Site;
use crate::layout::plain::OneNode;
use crate::lock::mutex::Mutex;
use crate::name::lock_name::{IntoLockName, LockName};
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
/// # zklock::blocking::block_on(async {
/// let session = zklock::Session::embedded();
/// let lock = session.exclusive("orders/create")?;
/// let guard = lock.acquire().await?;
/// assert_eq!(guard.path(), "/zklock/orders/create/lock");
/// guard.release().await?;
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Exclusive(Mutex);

impl Exclusive {
    /// An exclusive lock of a session, with the session's defaults.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::{Exclusive, LockName};
    ///
    /// let lock = Exclusive::new(&session, LockName::new("orders")?)?;
    /// assert_eq!(lock.path(), "/zklock/orders");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// None today.
    pub fn new(session: &Session, name: LockName) -> Result<Self, LockError> {
        Ok(Exclusive(Mutex::new(session, name).driver(OneNode)?))
    }

    /// Sets all options at once.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockOptions;
    ///
    /// let lock = session.exclusive("orders")?.with_options(LockOptions::default().retries(1))?;
    /// assert_eq!(lock.options().tries(), 1);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for zero tries or a zero timeout.
    pub fn with_options(self, options: LockOptions) -> Result<Self, LockError> {
        self.0.with_options(options).map(Exclusive)
    }

    /// The options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.exclusive("orders")?.options(), session.defaults());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn options(&self) -> LockOptions {
        self.0.options()
    }

    /// The name of the lock.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.exclusive("orders/create")?.name().as_str(), "orders/create");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn name(&self) -> &LockName {
        self.0.name()
    }

    /// The path of the directory of the node.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.exclusive("orders/create")?.path(), "/zklock/orders/create");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Its holder, to look at; those who wait have no nodes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let lock = session.exclusive("orders")?;
    /// let _guard = lock.acquire().await?;
    /// assert_eq!(lock.site().contenders().await?[0].node, "lock");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn site(&self) -> Site {
        self.0.site()
    }

    /// The same lock as a mutex in the layout of one node, for whatever takes a mutex.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::{AnyLock, MultiLock};
    ///
    /// let lock: AnyLock = session.exclusive("orders")?.as_mutex().clone().into();
    /// assert!(MultiLock::new([lock])?.acquire().await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn as_mutex(&self) -> &Mutex {
        &self.0
    }

    /// Acquires the lock and waits as long as it takes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.exclusive("orders")?.acquire().await?;
    /// assert!(guard.is_valid());
    /// guard.release().await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
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
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _guard = elsewhere.exclusive("orders")?.acquire().await?;
    /// let busy = session.exclusive("orders")?.try_acquire().await;
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
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
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let guard = session.exclusive("orders")?.acquire_timeout(Duration::from_secs(2)).await?;
    /// assert_eq!(guard.lock(), "orders");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
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
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// // At most 2 × 2 s by default.
    /// let guard = session.exclusive("orders")?.acquire_tries().await?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
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
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let lock = session.exclusive("orders")?;
    /// assert!(lock.acquire().await?.path().ends_with("/orders/lock"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn exclusive(&self, name: impl IntoLockName) -> Result<Exclusive, LockError> {
        Exclusive::new(self, name.into_lock_name()?)
    }
}
