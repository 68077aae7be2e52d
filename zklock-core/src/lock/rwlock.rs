//! The read/write lock.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{ErrorKind, LockError};
use crate::guard::{RwLockReadGuard, RwLockWriteGuard};
use crate::inspect::site::Site;
use crate::key::LockName;
use crate::local::wait::Wait;
use crate::lock::named::NamedLock;
use crate::mode::Mode;
use crate::options::LockOptions;
use crate::recipe::driver::LockDriver;
use crate::session::handle::Session;
use crate::who::Who;

/// A lock that one writer or any number of readers have in the whole fleet.
///
/// First come, first served: a reader that comes after a waiting writer waits for it, so neither
/// side starves. Readers of this process share one node in ZooKeeper until a writer of this process
/// waits or the [bound of handoffs](crate::policy::Handoffs) is reached while somebody of another
/// process waits; then newcomers queue up. Readers that wait for a writer wake together; of the
/// writers that wait one wakes at each release.
///
/// Inside the scope of a writer the lock can be taken again for both; inside that of a reader only
/// for reading, and for writing it is a [deadlock](crate::error::ErrorKind::Deadlock), at once: two
/// readers that both wanted to write would wait for each other. A writer becomes a reader by
/// [`downgrade`](RwLockWriteGuard::downgrade).
///
/// The layout is that of Curator's `InterProcessReadWriteLock`.
///
/// ```
/// # async fn example() -> Result<(), zklock_core::error::LockError> {
/// use zklock_core::session::Session;
///
/// let prices = Session::embedded().rw_lock("prices")?;
/// let (first, second) = (prices.read().await?, prices.read().await?);
/// assert!(prices.try_write().await.is_err_and(|error| error.is_busy()));
/// # drop((first, second));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock(NamedLock);

impl RwLock {
    /// A lock of a session, with the session's defaults.
    pub fn new(session: &Session, name: LockName) -> Self {
        RwLock(NamedLock::new(session, name).without_hold())
    }

    pub(crate) fn named(&self) -> &NamedLock {
        &self.0
    }

    /// Sets all options at once.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](crate::error::ErrorKind::InvalidOption) for zero tries or a zero timeout, or
    /// a lock that is held for a time at least.
    pub fn with_options(mut self, options: LockOptions) -> Result<Self, LockError> {
        if !options.least_hold().is_zero() {
            let why = "`hold_at_least` is for mutexes, which have one holder; remove it, or use a \
                       mutex";
            let lock = self.name().to_shared();
            return Err(LockError::new(ErrorKind::InvalidOption, why).on(lock));
        }
        self.0 = self.0.with_options(options)?;
        Ok(self)
    }

    /// Whether this lock may be acquired again inside its own scope.
    pub fn reentrant(self, reentrant: bool) -> Self {
        RwLock(self.0.reentrant(reentrant))
    }

    /// How this lock is laid out in ZooKeeper, where that is not as its session says.
    ///
    /// ```
    /// # fn example() -> Result<(), zklock_core::error::LockError> {
    /// # let session = zklock_core::session::Session::embedded();
    /// use zklock_core::layout::ReadWriteNodes;
    ///
    /// let lock = session.rw_lock("imports")?.driver(ReadWriteNodes)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](crate::error::ErrorKind::InvalidOption) for a driver that does not read its
    /// own names, or names nodes in a way that ZooKeeper refuses;
    /// [`Unsupported`](crate::error::ErrorKind::Unsupported) for one without readers and writers.
    pub fn driver(self, driver: impl LockDriver) -> Result<Self, LockError> {
        self.shared_driver(Arc::new(driver))
    }

    pub(crate) fn shared_driver(self, driver: Arc<dyn LockDriver>) -> Result<Self, LockError> {
        self.0.with_driver(driver, &[Mode::Read, Mode::Write]).map(RwLock)
    }

    /// Its queue, to look at.
    pub fn site(&self) -> Site {
        self.0.site()
    }

    /// Says for what this handle takes the lock, as
    /// [`Mutex::labelled`](crate::lock::Mutex::labelled).
    pub fn labelled(self, label: &str) -> Self {
        RwLock(self.0.labelled(label))
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

    /// Acquires the lock for reading and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire`](crate::lock::Mutex::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue and leaves no node behind.
    pub async fn read(&self) -> Result<RwLockReadGuard, LockError> {
        self.0.enter(Who::task(), Wait::Forever, true).await
    }

    /// Acquires the lock for reading if that needs no waiting for others.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_acquire`](crate::lock::Mutex::try_acquire): busy if a writer holds it or waits for it.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](RwLock::read).
    pub async fn try_read(&self) -> Result<RwLockReadGuard, LockError> {
        self.0.enter(Who::task(), self.0.once()?, true).await
    }

    /// Acquires the lock for reading within a time, connecting included.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](crate::lock::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](RwLock::read).
    pub async fn read_timeout(&self, timeout: Duration) -> Result<RwLockReadGuard, LockError> {
        self.0.enter(Who::task(), self.0.within(timeout)?, true).await
    }

    /// Acquires the lock for reading within the tries of its options.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](crate::lock::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](RwLock::read).
    pub async fn read_tries(&self) -> Result<RwLockReadGuard, LockError> {
        self.0.enter(Who::task(), self.0.tries(), true).await
    }

    /// Acquires the lock for writing and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire`](crate::lock::Mutex::acquire); [a deadlock](crate::error::ErrorKind::Deadlock)
    /// inside the scope of a reader of the same lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue and leaves no node behind.
    pub async fn write(&self) -> Result<RwLockWriteGuard, LockError> {
        self.0.enter(Who::task(), Wait::Forever, true).await
    }

    /// Acquires the lock for writing if that needs no waiting for others.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_acquire`](crate::lock::Mutex::try_acquire): busy if anybody holds it or waits for it.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](RwLock::write).
    pub async fn try_write(&self) -> Result<RwLockWriteGuard, LockError> {
        self.0.enter(Who::task(), self.0.once()?, true).await
    }

    /// Acquires the lock for writing within a time, connecting included.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](crate::lock::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](RwLock::write).
    pub async fn write_timeout(&self, timeout: Duration) -> Result<RwLockWriteGuard, LockError> {
        self.0.enter(Who::task(), self.0.within(timeout)?, true).await
    }

    /// Acquires the lock for writing within the tries of its options.
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`](crate::lock::Mutex::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](RwLock::write).
    pub async fn write_tries(&self) -> Result<RwLockWriteGuard, LockError> {
        self.0.enter(Who::task(), self.0.tries(), true).await
    }

    /// Whether the calls around the caller hold this lock for reading or writing, still.
    pub fn is_read_here(&self) -> bool {
        self.0.is_held_here(Mode::Read)
    }

    /// Whether the calls around the caller hold this lock for writing, still.
    pub fn is_written_here(&self) -> bool {
        self.0.is_held_here(Mode::Write)
    }
}

impl Session {
    /// The read/write lock of a name.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::error::ErrorKind::InvalidName), which says what is accepted.
    pub fn rw_lock(&self, name: &str) -> Result<RwLock, LockError> {
        Ok(RwLock::new(self, LockName::new(name)?))
    }
}
