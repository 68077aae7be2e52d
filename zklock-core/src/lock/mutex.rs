//! The mutex.

use std::sync::Arc;
use std::time::Duration;

use crate::base::caller::Caller;
#[cfg(doc)]
use crate::base::error::ErrorKind;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::guard::typed::MutexGuard;
use crate::inspect::site::Site;
use crate::layout::driver::LockDriver;
use crate::layout::plain::OneNode;
use crate::local::wait::Forever;
use crate::lock::named::NamedLock;
use crate::name::lock_name::{IntoLockName, LockName};
use crate::session::handle::Session;

/// A lock that one holder at a time has in the whole fleet.
///
/// Cheap to make and to clone; all mutexes of one session and name are one lock. Tasks and threads
/// of this process wait in memory, first come first served, and share one node in ZooKeeper. The
/// layout is that of Curator's `InterProcessMutex`, so that a Java service that locks the same path
/// excludes and is excluded.
///
/// Inside the [scope](MutexGuard::scope) of a guard the same lock can be acquired again.
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

impl Mutex {
    /// A mutex of a session, with the session's defaults.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::{LockName, Mutex};
    ///
    /// let name = LockName::build().text("orders/").value(&7).finish()?;
    /// assert_eq!(Mutex::new(&session, name).path(), "/zklock/orders/7");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn new(session: &Session, name: LockName) -> Self {
        Mutex(NamedLock::new(session, name))
    }

    pub(crate) fn named(&self) -> &NamedLock {
        &self.0
    }

    /// Sets all options at once.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let patient = LockOptions::default().timeout(Duration::from_secs(10)).retries(3);
    /// let mutex = session.mutex("orders")?.with_options(patient)?;
    /// assert_eq!(mutex.options().longest_wait(), Duration::from_secs(30));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for zero tries or a zero timeout.
    pub fn with_options(mut self, options: LockOptions) -> Result<Self, LockError> {
        self.0 = self.0.with_options(options)?;
        Ok(self)
    }

    /// Whether this lock may be acquired again inside its own scope; it may by default. If not,
    /// that is a [deadlock](ErrorKind::Deadlock), reported at once.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let mutex = session.mutex("orders")?.reentrant(false);
    /// let guard = mutex.acquire().await?;
    /// let nested = guard.scope(mutex.acquire()).await;
    /// assert!(nested.is_err_and(|error| error.is_deadlock()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn reentrant(self, reentrant: bool) -> Self {
        Mutex(self.0.reentrant(reentrant))
    }

    /// How this lock is laid out in ZooKeeper, where that is not as its session says.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Kazoo;
    ///
    /// let lock = session.mutex("imports")?.driver(Kazoo::default())?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](crate::base::error::ErrorKind::InvalidOption) for a driver that does not read its
    /// own names, or names nodes in a way that ZooKeeper refuses;
    /// [`Unsupported`](crate::base::error::ErrorKind::Unsupported) for one without mutexes.
    pub fn driver(self, driver: impl LockDriver) -> Result<Self, LockError> {
        self.shared_driver(Arc::new(driver))
    }

    pub(crate) fn shared_driver(self, driver: Arc<dyn LockDriver>) -> Result<Self, LockError> {
        self.0.with_driver(driver, &[Mode::Mutex]).map(Mutex)
    }

    /// Its queue, to look at.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Kazoo;
    ///
    /// let mutex = session.mutex("imports")?.driver(Kazoo::default())?;
    /// let _guard = mutex.acquire().await?;
    /// assert_eq!(mutex.site().contenders().await?.len(), 1);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn site(&self) -> Site {
        self.0.site()
    }

    /// Says for what this handle takes the lock: "import of 7 May", say. It is shown by
    /// [`Session::held`] and among the local waiters of [`Site::contenders`], beside the task or
    /// thread. It stays in this process.
    ///
    /// [`Site::contenders`]: crate::inspect::Site::contenders
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.labelled("import of 7 May").acquire().await?;
    /// assert_eq!(session.held()[0].label.as_deref(), Some("import of 7 May"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn labelled(self, label: &str) -> Self {
        Mutex(self.0.labelled(label))
    }

    /// The name of the lock.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let mutex = session.mutex("orders/create")?;
    /// assert_eq!(mutex.name().as_str(), "orders/create");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn name(&self) -> &LockName {
        self.0.name()
    }

    /// The path of its directory.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// // What `zkCli.sh ls` takes.
    /// assert_eq!(session.mutex("orders/create")?.path(), "/zklock/orders/create");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// The options.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let options = session.mutex("orders")?.options();
    /// assert_eq!((options.tries(), options.try_timeout().as_secs()), (2, 2));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn options(&self) -> LockOptions {
        self.0.options()
    }

    /// Acquires the lock and waits as long as it takes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert!(guard.is_valid()); // Nobody else in the fleet is here.
    /// guard.release().await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// Futures that run side by side in one task wait for each other, as with a
    /// `tokio::sync::Mutex`. A task that waits for its own guard waits for ever: after a second that
    /// is logged as a warning, and where there is a deadline the error at its end says so. Inside
    /// the guard's [scope](crate::guard::typed::Guard::scope) the lock is nested instead.
    ///
    /// # Errors
    ///
    /// What waiting cannot mend: [`ErrorKind::Unauthorized`], [`ErrorKind::NoChroot`],
    /// [`ErrorKind::Deadlock`], [`ErrorKind::Exhausted`], [`ErrorKind::Closing`]. A server that
    /// cannot be reached is waited for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue and leaves no node behind, at whichever
    /// await that happens.
    pub async fn acquire(&self) -> Result<MutexGuard, LockError> {
        self.0.enter(Caller::task(), Forever, true).await
    }

    /// Acquires the lock if that needs no waiting for others.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// let skipped = match session.mutex("orders")?.try_acquire().await {
    ///     Ok(guard) => guard.release().await.is_err(),
    ///     Err(error) => error.is_busy(), // Another is at it.
    /// };
    /// assert!(skipped);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`] if somebody holds it or waits for it, naming the holder;
    /// [`ErrorKind::Unavailable`] if ZooKeeper does not answer within the `timeout` of one try;
    /// [`ErrorKind::InvalidOption`] on a lock that lingers; and those of [`acquire`](Mutex::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Mutex::acquire).
    pub async fn try_acquire(&self) -> Result<MutexGuard, LockError> {
        self.0.enter(Caller::task(), self.0.once()?, true).await
    }

    /// Acquires the lock within a time, connecting included. The bound holds to within 100 ms also
    /// when the server is frozen or gone.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let guard = session.mutex("orders")?.acquire_timeout(Duration::from_secs(2)).await?;
    /// assert_eq!(guard.lock(), "orders");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`] if somebody else held it all the time, naming the holder;
    /// [`ErrorKind::Unavailable`] if ZooKeeper did not answer; and those of
    /// [`acquire`](Mutex::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Mutex::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<MutexGuard, LockError> {
        self.0.enter(Caller::task(), self.0.within(timeout)?, true).await
    }

    /// Acquires the lock within the tries of its options: `retries` tries of at most `timeout`
    /// each.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().timeout(Duration::from_millis(20)).retries(2);
    /// let mutex = session.mutex("orders")?.with_options(options)?;
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
        self.0.enter(Caller::task(), self.0.tries(), true).await
    }

    /// Whether the calls around the caller hold this lock and it is still valid: not whether some
    /// other task of this process does.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let mutex = session.mutex("orders")?;
    /// let guard = mutex.acquire().await?;
    /// assert!(guard.scope(async { mutex.is_held_here() }).await);
    /// assert!(!mutex.is_held_here()); // Held, but not by a call around this one.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_held_here(&self) -> bool {
        self.0.is_held_here(Mode::Mutex)
    }
}

impl Session {
    /// The mutex of a name.
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

    /// The documents' exclusive lock of a name: a mutex in the layout [`OneNode`]. Prefer
    /// [`Session::mutex`], because this one herds and has no order.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let lock = session.exclusive("orders/create")?;
    /// let guard = lock.acquire().await?;
    /// assert_eq!(guard.path(), "/zklock/orders/create/lock");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn exclusive(&self, name: impl IntoLockName) -> Result<Mutex, LockError> {
        self.mutex(name)?.driver(OneNode)
    }
}
