//! A lock of any kind, for code that works with all of them.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::guard::context::{Frame, inside, inside_sync};
use crate::guard::limit::GuardLimit;
use crate::guard::typed::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, SemaphorePermit};
use crate::guard::view::GuardView;
use crate::local::wait::Wait;
use crate::lock::info::LockInfo;
use crate::lock::mutex::Mutex;
use crate::lock::rwlock::RwLock;
use crate::lock::semaphore::Semaphore;

/// A lock, and the mode in which it is acquired.
///
/// ```
/// use zklock::{AnyLock, Session};
///
/// let session = Session::embedded();
/// let reading = AnyLock::Read(session.rw_lock("prices")?);
/// let alone: AnyLock = session.mutex("orders")?.into();
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyLock {
    /// A mutex.
    Mutex(Mutex),
    /// A read/write lock, for reading.
    Read(RwLock),
    /// A read/write lock, for writing.
    Write(RwLock),
    /// A semaphore, and the number of permits to acquire.
    Permits(Semaphore, u32),
}

impl From<Mutex> for AnyLock {
    fn from(mutex: Mutex) -> Self {
        AnyLock::Mutex(mutex)
    }
}

/// A clone of a mutex; the caller keeps its own.
impl From<&Mutex> for AnyLock {
    fn from(mutex: &Mutex) -> Self {
        AnyLock::Mutex(mutex.clone())
    }
}

/// One permit.
impl From<Semaphore> for AnyLock {
    fn from(semaphore: Semaphore) -> Self {
        AnyLock::Permits(semaphore, 1)
    }
}

impl Deref for AnyLock {
    type Target = LockInfo;

    fn deref(&self) -> &LockInfo {
        match self {
            AnyLock::Mutex(lock) => lock,
            AnyLock::Read(lock) | AnyLock::Write(lock) => lock,
            AnyLock::Permits(lock, _) => lock,
        }
    }
}

impl AnyLock {
    /// Acquires the lock, and waits until it is granted, without a limit: the options
    /// `timeout` and `retries` count for [`acquire_tries`](AnyLock::acquire_tries).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::AnyLock;
    ///
    /// for lock in [session.mutex("orders")?.into(), AnyLock::Write(session.rw_lock("prices")?)] {
    ///     let guard = lock.acquire().await?;
    ///     assert_eq!(guard.lock_name(), lock.name().as_str());
    /// }
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire`], [`RwLock::write`] and [`Semaphore::acquire_many`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue and leaves no node behind.
    pub async fn acquire(&self) -> Result<AnyGuard, LockError> {
        self.enter(Caller::task(), Wait::Forever, true).await
    }

    /// Acquires the lock without waiting for other contenders: asks ZooKeeper once.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// use zklock::AnyLock;
    ///
    /// let _two = elsewhere.semaphore("printers", 3)?.acquire_many(2).await?;
    /// let two_more = AnyLock::Permits(session.semaphore("printers", 3)?, 2);
    /// assert!(two_more.try_acquire().await.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](AnyLock::acquire).
    pub async fn try_acquire(&self) -> Result<AnyGuard, LockError> {
        self.enter(Caller::task(), self.once()?, true).await
    }

    /// Acquires the lock, and waits at most `timeout`, connecting included.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::AnyLock;
    ///
    /// let lock = AnyLock::Permits(session.semaphore("printers", 3)?, 2);
    /// assert!(lock.acquire_timeout(Duration::from_secs(1)).await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Mutex::acquire_timeout`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](AnyLock::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<AnyGuard, LockError> {
        self.enter(Caller::task(), self.within(timeout)?, true).await
    }

    /// Acquires the lock, with at most `retries` tries of `timeout` each.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::AnyLock;
    ///
    /// // At most 2 × 2 s by default.
    /// let guard = AnyLock::Read(session.rw_lock("prices")?).acquire_tries().await?;
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
    /// As [`acquire`](AnyLock::acquire).
    pub async fn acquire_tries(&self) -> Result<AnyGuard, LockError> {
        self.enter(Caller::task(), self.tries(), true).await
    }

    /// The path of the lock's directory, with chroot and servers: the same for the same lock, in
    /// every process that names the servers in the same way.
    pub(crate) fn identity(&self) -> (String, String) {
        let place = self.session.local_queues().place();
        ([&place.chroot, self.path()].concat(), place.common())
    }

    pub(crate) async fn enter(
        &self,
        who: Caller,
        wait: Wait,
        unscoped: bool,
    ) -> Result<AnyGuard, LockError> {
        Ok(match self {
            AnyLock::Mutex(lock) => AnyGuard::Mutex(lock.named().enter(who, wait, unscoped).await?),
            AnyLock::Read(lock) => AnyGuard::Read(lock.named().enter(who, wait, unscoped).await?),
            AnyLock::Write(lock) => AnyGuard::Write(lock.named().enter(who, wait, unscoped).await?),
            AnyLock::Permits(lock, permits) => {
                AnyGuard::Permits(lock.enter(who, *permits, wait, unscoped).await?)
            }
        })
    }
}

/// The guard of a lock of any kind.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::{AnyGuard, AnyLock};
///
/// let permits = AnyLock::Permits(session.semaphore("printers", 3)?, 2);
/// let count = match permits.acquire().await? {
///     AnyGuard::Permits(permits) => permits.permits(),
///     _ => 1,
/// };
/// assert_eq!(count, 2);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub enum AnyGuard {
    /// The guard of a mutex.
    Mutex(MutexGuard),
    /// The guard of a reader.
    Read(RwLockReadGuard),
    /// The guard of a writer.
    Write(RwLockWriteGuard),
    /// Permits.
    Permits(SemaphorePermit),
}

macro_rules! each {
    ($any:expr, $guard:ident => $what:expr) => {
        match $any {
            AnyGuard::Mutex($guard) => $what,
            AnyGuard::Read($guard) => $what,
            AnyGuard::Write($guard) => $what,
            AnyGuard::Permits($guard) => $what,
        }
    };
}

impl AnyGuard {
    /// Runs `body` in the scope of this guard.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let any: zklock::AnyLock = session.mutex("orders")?.into();
    /// let guard = any.acquire().await?;
    /// let token = guard.scope(async { zklock::current().fencing_token() }).await;
    /// assert_eq!(token, Some(guard.fencing_token()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `body`; the guard stays held.
    pub async fn scope<F: Future>(&self, body: F) -> F::Output {
        inside(Some(self.frame()), body).await
    }

    /// Runs a closure in the scope of this guard.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let any: zklock::AnyLock = session.mutex("orders")?.into();
    /// let guard = any.acquire().await?;
    /// assert!(guard.scope_sync(|| zklock::is_held_in_scope("orders")));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn scope_sync<T>(&self, body: impl FnOnce() -> T) -> T {
        inside_sync(Some(self.frame()), body)
    }

    /// Declares that another task, thread or branch will release this guard. See
    /// [`Guard::detach`](crate::guard::typed::Guard::detach).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let any: zklock::AnyLock = session.mutex("orders")?.into();
    /// let guard = any.acquire().await?.detach();
    /// std::thread::spawn(move || drop(guard));
    /// assert!(any.acquire().await?.is_valid()); // Waits for the thread's release.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn detach(self) -> Self {
        match self {
            AnyGuard::Mutex(guard) => AnyGuard::Mutex(guard.detach()),
            AnyGuard::Read(guard) => AnyGuard::Read(guard.detach()),
            AnyGuard::Write(guard) => AnyGuard::Write(guard.detach()),
            AnyGuard::Permits(guard) => AnyGuard::Permits(guard.detach()),
        }
    }

    /// Releases the lock, as [`Guard::release`](crate::guard::typed::Guard::release) does.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let any: zklock::AnyLock = session.mutex("orders")?.into();
    /// any.acquire().await?.release().await?;
    /// assert!(session.local_contenders().is_empty());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Guard::release`](crate::guard::typed::Guard::release).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release goes on in the background.
    pub async fn release(self) -> Result<(), LockError> {
        each!(self, guard => guard.release().await)
    }

    /// The limit that the guard itself has.
    pub(crate) fn own_limit(&self) -> Option<&GuardLimit> {
        each!(self, guard => guard.own_limit())
    }

    pub(crate) fn frame(&self) -> Arc<Frame> {
        each!(self, guard => guard.frame())
    }

    pub(crate) fn frame_beside(&self, outer: Arc<Frame>) -> Arc<Frame> {
        each!(self, guard => guard.frame_beside(outer))
    }
}

impl Deref for AnyGuard {
    type Target = GuardView;

    fn deref(&self) -> &GuardView {
        each!(self, guard => guard)
    }
}
