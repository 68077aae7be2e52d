//! The mutex.

use std::sync::Arc;
use std::time::Duration;

#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::LockError;
use crate::guard::MutexGuard;
use crate::inspect::site::Site;
use crate::key::LockName;
use crate::local::wait::Wait;
use crate::lock::named::NamedLock;
use crate::mode::Mode;
use crate::options::LockOptions;
use crate::recipe::driver::LockDriver;
use crate::session::handle::Session;
use crate::who::Who;

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
/// # async fn example() -> Result<(), zklock_core::error::LockError> {
/// use zklock_core::session::Session;
///
/// let session = Session::embedded();
/// let mutex = session.mutex("orders/create")?;
/// let guard = mutex.acquire().await?;
/// assert!(guard.is_valid());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(NamedLock);

impl Mutex {
    /// A mutex of a session, with the session's defaults.
    pub fn new(session: &Session, name: LockName) -> Self {
        Mutex(NamedLock::new(session, name))
    }

    pub(crate) fn named(&self) -> &NamedLock {
        &self.0
    }

    /// Sets all options at once.
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
    pub fn reentrant(self, reentrant: bool) -> Self {
        Mutex(self.0.reentrant(reentrant))
    }

    /// How this lock is laid out in ZooKeeper, where that is not as its session says.
    ///
    /// ```
    /// # fn example() -> Result<(), zklock_core::error::LockError> {
    /// # let session = zklock_core::session::Session::embedded();
    /// use zklock_core::layout::Kazoo;
    ///
    /// let lock = session.mutex("imports")?.driver(Kazoo::default())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](crate::error::ErrorKind::InvalidOption) for a driver that does not read its
    /// own names, or names nodes in a way that ZooKeeper refuses;
    /// [`Unsupported`](crate::error::ErrorKind::Unsupported) for one without mutexes.
    pub fn driver(self, driver: impl LockDriver) -> Result<Self, LockError> {
        self.shared_driver(Arc::new(driver))
    }

    pub(crate) fn shared_driver(self, driver: Arc<dyn LockDriver>) -> Result<Self, LockError> {
        self.0.with_driver(driver, &[Mode::Mutex]).map(Mutex)
    }

    /// Its queue, to look at.
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
    /// # async fn example() -> Result<(), zklock_core::error::LockError> {
    /// let session = zklock_core::session::Session::embedded();
    /// let guard = session.mutex("orders")?.labelled("import of 7 May").acquire().await?;
    /// assert_eq!(session.held()[0].label.as_deref(), Some("import of 7 May"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn labelled(self, label: &str) -> Self {
        Mutex(self.0.labelled(label))
    }

    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        self.0.name()
    }

    /// The path of its directory.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// The options.
    pub fn options(&self) -> LockOptions {
        self.0.options()
    }

    /// Acquires the lock and waits as long as it takes.
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
        self.0.enter(Who::task(), Wait::Forever, true).await
    }

    /// Acquires the lock if that needs no waiting for others.
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
        self.0.enter(Who::task(), self.0.once()?, true).await
    }

    /// Acquires the lock within a time, connecting included. The bound holds to within 100 ms also
    /// when the server is frozen or gone.
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
        self.0.enter(Who::task(), self.0.within(timeout)?, true).await
    }

    /// Acquires the lock within the tries of its options: `retries` tries of at most `timeout`
    /// each.
    ///
    /// # Errors
    ///
    /// As [`acquire_timeout`](Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Mutex::acquire).
    pub async fn acquire_tries(&self) -> Result<MutexGuard, LockError> {
        self.0.enter(Who::task(), self.0.tries(), true).await
    }

    /// Whether the calls around the caller hold this lock and it is still valid: not whether some
    /// other task of this process does.
    pub fn is_held_here(&self) -> bool {
        self.0.is_held_here(Mode::Mutex)
    }
}

impl Session {
    /// The mutex of a name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn mutex(&self, name: &str) -> Result<Mutex, LockError> {
        Ok(Mutex::new(self, LockName::new(name)?))
    }
}
