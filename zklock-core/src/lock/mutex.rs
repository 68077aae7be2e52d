//! The mutex.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::guard::typed::MutexGuard;
use crate::layout::driver::LockDriver;
use crate::layout::to_driver::ToDriver;
use crate::local::wait::Forever;
use crate::lock::info::LockInfo;
use crate::lock::named::NamedLock;
use crate::name::lock_name::{IntoLockName, LockName};
use crate::session::handle::Session;

/// A distributed mutex: of all processes, one caller at a time holds it.
///
/// Cheap to create and to clone; all mutexes of one session with the same name are one lock. Tasks
/// and threads of one process wait in memory, first come, first served, and share one node in
/// ZooKeeper. The default layout is that of Curator's `InterProcessMutex`, so that this lock and
/// that of a Java service on the same path exclude each other.
///
/// The lock is reentrant: inside the [scope](MutexGuard::scope) of a guard it can be acquired
/// again.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::Session;
///
/// let session = Session::embedded();
/// let mutex = session.mutex("orders/create")?;
/// let guard = mutex.acquire().await?;
/// assert!(guard.is_valid());
/// guard.release().await?;
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(NamedLock);

impl Deref for Mutex {
    type Target = LockInfo;

    fn deref(&self) -> &LockInfo {
        &self.0
    }
}

impl Mutex {
    pub(crate) fn new(session: &Session, name: LockName) -> Self {
        Mutex(NamedLock::new(session, name, Mode::Mutex))
    }

    pub(crate) fn named(&self) -> &NamedLock {
        &self.0
    }

    /// Sets options. An option that is not set in `options` stays as it is: as an earlier call set
    /// it, or as the session's defaults say. A value that is not accepted, such as a zero timeout,
    /// and options that contradict each other make every acquire fail with
    /// [`ErrorKind::InvalidOption`].
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::{ErrorKind, LockOptions};
    ///
    /// let fair = session.mutex("orders")?.with_options(LockOptions::new().fair(true));
    /// let once = fair.with_options(LockOptions::new().retries(1)); // It is still fair.
    /// assert_eq!((once.options().fair, once.options().retries), (Some(true), Some(1)));
    ///
    /// let never = once.with_options(LockOptions::new().retries(0)).acquire().await;
    /// assert!(never.is_err_and(|error| error.kind() == ErrorKind::InvalidOption));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn with_options(self, options: LockOptions) -> Self {
        Mutex(self.0.with_options(&options, Mode::Mutex))
    }

    /// Sets the layout of this lock, in place of the session's. With a driver that cannot parse its own
    /// names, or whose names ZooKeeper refuses, every acquire fails with
    /// [`ErrorKind::InvalidOption`]; with one without mutexes, with [`ErrorKind::Unsupported`].
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Kazoo;
    ///
    /// let lock = session.mutex("imports")?.with_driver(Kazoo::default());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn with_driver(self, driver: impl ToDriver) -> Self {
        self.laid_out(Some(driver.to_driver()))
    }

    pub(crate) fn laid_out(self, driver: Option<Arc<dyn LockDriver>>) -> Self {
        Mutex(self.0.with_driver(driver, &[Mode::Mutex]))
    }

    /// Acquires the lock, and waits until it is granted, without a limit: the options
    /// `timeout` and `retries` count for [`acquire_tries`](Mutex::acquire_tries).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert!(guard.is_valid()); // No other caller, in any process, is here.
    /// guard.release().await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// Futures that run concurrently in one task wait for each other, as they do for a
    /// `tokio::sync::Mutex`. A task that waits for its own guard waits for ever: after one second a
    /// warning is logged, and if there is a deadline, the error at its end says so. Inside the
    /// [scope](crate::guard::typed::Guard::scope) of the guard, the acquire is nested and does not
    /// wait.
    ///
    /// # Errors
    ///
    /// It does not fail because somebody holds the lock, or because no server can be reached: it
    /// waits. It fails with
    ///
    /// - [`ErrorKind::InvalidOption`] for options or a layout that are not accepted, and for a name
    ///   that is in use as another kind of lock or in another layout,
    /// - [`ErrorKind::Unsupported`] if the layout, the server or this runtime cannot do it,
    /// - [`ErrorKind::InvalidName`] if ZooKeeper refuses the path,
    /// - [`ErrorKind::Lost`] if its lease runs out during the grant,
    /// - [`ErrorKind::Lost`] and [`ErrorKind::HeldTooLong`] inside the scope of a guard of this lock
    ///   that is no longer valid,
    /// - [`ErrorKind::Deadlock`], [`ErrorKind::Closing`],
    /// - [`ErrorKind::Unauthorized`], [`ErrorKind::NoChroot`], [`ErrorKind::Exhausted`],
    /// - [`ErrorKind::Busy`] if a node is in the way that no session removes,
    /// - [`ErrorKind::Unavailable`] if the own node was deleted again and again
    ///   ([`requeue`](crate::base::options::LockOptions::requeue)), a quota is used up, or the session's
    ///   connections have no room for another node.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any await, gives up the place in the queue and leaves no node
    /// behind.
    pub async fn acquire(&self) -> Result<MutexGuard, LockError> {
        self.0.enter(Caller::task(), Forever, true).await
    }

    /// Acquires the lock without waiting for other contenders: asks ZooKeeper once. Only a node that
    /// [lingers](LockOptions::linger) in another process is waited for, for at most 100 ms.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// let skipped = match session.mutex("orders")?.try_acquire().await {
    ///     Ok(guard) => guard.release().await.is_err(),
    ///     Err(error) => error.is_busy(), // Another caller holds it.
    /// };
    /// assert!(skipped);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`], with the holder, if somebody holds the lock or waits for it;
    /// [`ErrorKind::Unavailable`] if ZooKeeper does not answer within the `timeout` of one try;
    /// [`ErrorKind::InvalidOption`] for a lock with the option `linger`; and those of
    /// [`acquire`](Mutex::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Mutex::acquire).
    pub async fn try_acquire(&self) -> Result<MutexGuard, LockError> {
        self.0.enter(Caller::task(), self.once()?, true).await
    }

    /// Acquires the lock, and waits at most `timeout`, connecting included. The limit holds to
    /// within 100 ms even when the server is frozen or gone.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let guard = session.mutex("orders")?.acquire_timeout(Duration::from_secs(2)).await?;
    /// assert_eq!(guard.lock_name(), "orders");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`], with the holder, if somebody else held the lock all the time;
    /// [`ErrorKind::Unavailable`] if ZooKeeper did not answer; [`ErrorKind::InvalidOption`] for a zero
    /// timeout: use [`try_acquire`](Mutex::try_acquire); and those of [`acquire`](Mutex::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Mutex::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<MutexGuard, LockError> {
        self.0.enter(Caller::task(), self.within(timeout)?, true).await
    }

    /// Acquires the lock within the limits of its options: at most `retries` tries of at most
    /// `timeout` each.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::new().timeout(Duration::from_millis(20)).retries(2);
    /// let mutex = session.mutex("orders")?.with_options(options);
    /// // Somebody else holds it for longer than two tries of 20 ms.
    /// assert!(mutex.acquire_tries().await.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Mutex::acquire).
    pub async fn acquire_tries(&self) -> Result<MutexGuard, LockError> {
        self.0.enter(Caller::task(), self.tries(), true).await
    }

    /// Returns whether a call around the caller holds this lock, and the lock is still valid. A
    /// lock that another task of this process holds does not count. The innermost call counts: inside a
    /// reader of the same name, which is nested in this lock, it is false, because readers that are nested
    /// beside each other run together.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let mutex = session.mutex("orders")?;
    /// let guard = mutex.acquire().await?;
    /// assert!(guard.scope(async { mutex.is_held_in_scope() }).await);
    /// assert!(!mutex.is_held_in_scope()); // Held, but not by a call around this one.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_held_in_scope(&self) -> bool {
        self.0.is_held_in_scope(Mode::Mutex)
    }
}

impl Session {
    /// Returns the mutex with a name.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.mutex("orders/create")?.path(), "/zklock/orders/create");
    /// assert!(session.mutex("/orders").is_err()); // Names are relative.
    /// let order = "a/7";
    /// let name = zklock::lock_name!("orders/{order}");
    /// assert_eq!(session.mutex(name)?.path(), "/zklock/orders/a~2F7");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn mutex(&self, name: impl IntoLockName) -> Result<Mutex, LockError> {
        Ok(Mutex::new(self, name.into_lock_name()?))
    }
}
