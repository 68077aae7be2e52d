//! The read/write lock.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::guard::typed::{RwLockReadGuard, RwLockWriteGuard};
use crate::layout::driver::LockDriver;
use crate::layout::to_driver::ToDriver;
use crate::local::wait::Forever;
use crate::lock::info::LockInfo;
use crate::lock::named::NamedLock;
use crate::name::lock_name::{IntoLockName, LockName};
use crate::session::handle::Session;

/// A distributed read/write lock: of all processes, one writer or any number of readers hold it.
///
/// First come, first served: a reader that comes after a waiting writer waits for that writer, so
/// neither side starves. Readers of one process share one node in ZooKeeper, until a writer of this
/// process waits, or until the [limit of handoffs](crate::base::policy::Handoffs) is reached while
/// another process waits; later readers then queue up. Readers that wait for a writer wake
/// together; of the waiting writers, each release wakes one.
///
/// A caller that already reads may read again, also outside of the scope and while a writer waits:
/// that writer waits for the first guard, so a wait for the writer would be a wait for oneself.
/// This applies to the task, the thread or the scope that acquired a guard and has not
/// [detached](crate::guard::typed::Guard::detach) it. A task that always acquires the next guard
/// before it drops the last one keeps writers out for as long as it does so. Outside of tokio, all
/// tasks that one thread polls are one caller, so their reads that overlap do so, too. It applies only to
/// handles of one session that share a node: a read through a `fair` handle, through one with
/// another `stop_at`, `lock_delay` or `requeue`, or through another session has its own node
/// behind the writer's, and the caller waits for itself: without a deadline for ever. This is
/// logged after one second, and at a deadline the busy error says so.
///
/// Inside the scope of a writer, the lock can be acquired for reading and for writing; inside that
/// of a reader, for reading only. To acquire it for writing there fails at once with
/// [`Deadlock`](crate::base::error_kind::ErrorKind::Deadlock), because two readers that both want to
/// write would wait for each other. [`downgrade`](RwLockWriteGuard::downgrade) turns a writer into
/// a reader.
///
/// The default layout is that of Curator's `InterProcessReadWriteLock`.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::Session;
///
/// let prices = Session::embedded().rw_lock("prices")?;
/// let (first, second) = (prices.read().await?, prices.read().await?);
/// assert!(prices.try_write().await.is_err());
/// # drop((first, second));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct RwLock(NamedLock);

impl Deref for RwLock {
    type Target = LockInfo;

    fn deref(&self) -> &LockInfo {
        &self.0
    }
}

impl RwLock {
    pub(crate) fn new(session: &Session, name: LockName) -> Self {
        RwLock(NamedLock::new(session, name, Mode::Write))
    }

    pub(crate) fn named(&self) -> &NamedLock {
        &self.0
    }

    /// Sets options. An option that is not set in `options` stays as it is: as an earlier call set
    /// it, or as the session's defaults say. A value that is not accepted, and
    /// [`hold_at_least`](LockOptions::hold_at_least), which is only for mutexes, make every acquire
    /// fail with [`InvalidOption`](crate::base::error_kind::ErrorKind::InvalidOption). The session's
    /// `hold_at_least` is ignored.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockOptions;
    ///
    /// let prices = session.rw_lock("prices")?.with_options(LockOptions::new().retries(1));
    /// assert_eq!(prices.options().retries, Some(1));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn with_options(self, options: LockOptions) -> Self {
        RwLock(self.0.with_options(&options, Mode::Write))
    }

    /// Sets the layout of this lock, in place of the session's. With a driver that cannot parse its own
    /// names, or whose names ZooKeeper refuses, every acquire fails with
    /// [`InvalidOption`](crate::base::error_kind::ErrorKind::InvalidOption); with one without readers and
    /// writers, with [`Unsupported`](crate::base::error_kind::ErrorKind::Unsupported).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::ReadWriteNodes;
    ///
    /// let lock = session.rw_lock("imports")?.with_driver(ReadWriteNodes);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn with_driver(self, driver: impl ToDriver) -> Self {
        self.laid_out(Some(driver.to_driver()))
    }

    pub(crate) fn laid_out(self, driver: Option<Arc<dyn LockDriver>>) -> Self {
        RwLock(self.0.with_driver(driver, &[Mode::Read, Mode::Write]))
    }

    /// Acquires the lock for reading, and waits until it is granted, without a limit: the options
    /// `timeout` and `retries` count for [`read_tries`](RwLock::read_tries).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// let (first, second) = (prices.read().await?, prices.read().await?);
    /// assert!(first.is_valid() && second.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire`](crate::lock::Mutex::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue and leaves no node behind.
    pub async fn read(&self) -> Result<RwLockReadGuard, LockError> {
        self.0.enter(Caller::task(), Forever, true).await
    }

    /// Acquires the lock for reading without waiting for other contenders: asks ZooKeeper once.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let writing = elsewhere.rw_lock("prices")?.write().await?;
    /// let prices = session.rw_lock("prices")?;
    /// assert!(prices.try_read().await.is_err_and(|error| error.is_busy()));
    /// writing.release().await?;
    /// assert!(prices.try_read().await.is_ok());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::try_acquire`](crate::lock::Mutex::try_acquire); busy if a writer holds the
    /// lock or waits for it, or if the readers of this process were asked to release.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](RwLock::read).
    pub async fn try_read(&self) -> Result<RwLockReadGuard, LockError> {
        self.0.enter(Caller::task(), self.once()?, true).await
    }

    /// Acquires the lock for reading, and waits at most `timeout`, connecting included.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let reading = session.rw_lock("prices")?.read_timeout(Duration::from_secs(2)).await?;
    /// assert!(reading.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](crate::lock::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](RwLock::read).
    pub async fn read_timeout(&self, timeout: Duration) -> Result<RwLockReadGuard, LockError> {
        self.0.enter(Caller::task(), self.within(timeout)?, true).await
    }

    /// Acquires the lock for reading, with at most `retries` tries of `timeout` each.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let _writing = elsewhere.rw_lock("prices")?.write().await?;
    /// let options = LockOptions::new().timeout(Duration::from_millis(20));
    /// let prices = session.rw_lock("prices")?.with_options(options);
    /// assert!(prices.read_tries().await.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](crate::lock::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](RwLock::read).
    pub async fn read_tries(&self) -> Result<RwLockReadGuard, LockError> {
        self.0.enter(Caller::task(), self.tries(), true).await
    }

    /// Acquires the lock for writing, and waits until it is granted, without a limit: the options
    /// `timeout` and `retries` count for [`write_tries`](RwLock::write_tries).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let writing = session.rw_lock("prices")?.write().await?;
    /// assert!(writing.is_valid()); // No reader and no other writer is here.
    /// writing.release().await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::acquire`](crate::lock::Mutex::acquire);
    /// [`Deadlock`](crate::base::error_kind::ErrorKind::Deadlock) inside the scope of a reader of the
    /// same lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue and leaves no node behind.
    pub async fn write(&self) -> Result<RwLockWriteGuard, LockError> {
        self.0.enter(Caller::task(), Forever, true).await
    }

    /// Acquires the lock for writing without waiting for other contenders: asks ZooKeeper once.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _reading = elsewhere.rw_lock("prices")?.read().await?;
    /// let busy = session.rw_lock("prices")?.try_write().await;
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::try_acquire`](crate::lock::Mutex::try_acquire); busy if anybody holds the
    /// lock or waits for it.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](RwLock::write).
    pub async fn try_write(&self) -> Result<RwLockWriteGuard, LockError> {
        self.0.enter(Caller::task(), self.once()?, true).await
    }

    /// Acquires the lock for writing, and waits at most `timeout`, connecting included.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// use std::time::Duration;
    ///
    /// let _reading = elsewhere.rw_lock("prices")?.read().await?;
    /// let busy = session.rw_lock("prices")?.write_timeout(Duration::from_millis(20)).await;
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](crate::lock::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](RwLock::write).
    pub async fn write_timeout(&self, timeout: Duration) -> Result<RwLockWriteGuard, LockError> {
        self.0.enter(Caller::task(), self.within(timeout)?, true).await
    }

    /// Acquires the lock for writing, with at most `retries` tries of `timeout` each.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// // At most 2 × 2 s by default.
    /// let writing = session.rw_lock("prices")?.write_tries().await?;
    /// assert_eq!(writing.lock_name(), "prices");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](crate::lock::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](RwLock::write).
    pub async fn write_tries(&self) -> Result<RwLockWriteGuard, LockError> {
        self.0.enter(Caller::task(), self.tries(), true).await
    }

    /// Returns whether a call around the caller holds this lock for reading or writing, and the
    /// lock is still valid.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// let reading = prices.read().await?;
    /// assert!(reading.scope(async { prices.is_held_in_scope() && !prices.is_write_held_in_scope() }).await);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_held_in_scope(&self) -> bool {
        self.0.is_held_in_scope(Mode::Read)
    }

    /// Returns whether a call around the caller holds this lock for writing, and the lock is still
    /// valid. The innermost call counts: inside a reader that is nested in a writer it is false, because
    /// readers that are nested beside each other run together.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// let writing = prices.write().await?;
    /// assert!(writing.scope(async { prices.is_write_held_in_scope() && prices.is_held_in_scope() }).await);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_write_held_in_scope(&self) -> bool {
        self.0.is_held_in_scope(Mode::Write)
    }
}

impl Session {
    /// Returns the read/write lock with a name.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// assert!(prices.read().await?.is_valid());
    /// assert!(session.rw_lock("").is_err());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::base::error_kind::ErrorKind::InvalidName), which says what is accepted.
    pub fn rw_lock(&self, name: impl IntoLockName) -> Result<RwLock, LockError> {
        Ok(RwLock::new(self, name.into_lock_name()?))
    }
}
