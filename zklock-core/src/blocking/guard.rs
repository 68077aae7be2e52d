//! The blocking twins of the guards.

use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::base::token::FencingToken;
use crate::blocking::park::{block_on, block_on_patiently};
use crate::guard::typed as guard;
use crate::guard::typed::kind::{Alone, Kind, Reading, Sharing, Writing};
use crate::local::wait::Wait;
use crate::lock::named::NamedLock;

/// The guard of a [`blocking::Mutex`](crate::blocking::Mutex).
///
/// ```
/// # let session = zklock::Session::embedded();
/// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
/// use zklock::blocking::MutexGuard;
///
/// let guard: MutexGuard = mutex.acquire()?;
/// assert!(guard.is_valid());
/// # Ok::<(), zklock::LockError>(())
/// ```
pub type MutexGuard = Guard<Alone>;

/// The guard of a reader of a [`blocking::RwLock`](crate::blocking::RwLock).
///
/// ```
/// # let session = zklock::Session::embedded();
/// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
/// use zklock::blocking::RwLockReadGuard;
///
/// let readers: Vec<RwLockReadGuard> = vec![prices.read()?, prices.read()?];
/// assert!(readers.iter().all(|reader| reader.is_valid()));
/// # Ok::<(), zklock::LockError>(())
/// ```
pub type RwLockReadGuard = Guard<Reading>;

/// The guard of a writer of a [`blocking::RwLock`](crate::blocking::RwLock).
///
/// ```
/// # let session = zklock::Session::embedded();
/// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
/// use zklock::blocking::RwLockWriteGuard;
///
/// let writer: RwLockWriteGuard = prices.write()?;
/// assert!(writer.is_valid());
/// # Ok::<(), zklock::LockError>(())
/// ```
pub type RwLockWriteGuard = Guard<Writing>;

/// Permits of a [`blocking::Semaphore`](crate::blocking::Semaphore).
///
/// ```
/// # let session = zklock::Session::embedded();
/// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
/// use zklock::blocking::SemaphorePermit;
///
/// let both: SemaphorePermit = printers.acquire_many(2)?;
/// assert_eq!(both.permits(), 2);
/// # Ok::<(), zklock::LockError>(())
/// ```
pub type SemaphorePermit = Guard<Sharing>;

/// Acquires, blocking the thread.
pub(crate) fn enter<K: Kind>(
    lock: &NamedLock,
    how: Wait,
    unscoped: bool,
) -> Result<Guard<K>, LockError> {
    let entering = lock.enter(Caller::thread(), how, unscoped);
    block_on_patiently(lock.name().as_str(), entering).map(Guard)
}

/// Holds a lock. Dropped, it releases without waiting.
///
/// ```
/// # let session = zklock::Session::embedded();
/// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
/// let guard = mutex.acquire()?;
/// assert!(guard.is_valid());
/// drop(guard); // Releases in the background.
/// assert!(session.held().is_empty());
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct Guard<K: Kind = Alone>(guard::Guard<K>);

impl<K: Kind> Guard<K> {
    pub(crate) fn new(guard: guard::Guard<K>) -> Self {
        Guard(guard)
    }

    /// The async form of the same guard.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// let guard = mutex.acquire()?.into_async();
    /// assert!(!guard.is_revoked()); // What only the async form has.
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn into_async(self) -> guard::Guard<K> {
        self.0
    }

    /// The name of the lock.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// assert_eq!(mutex.acquire()?.lock(), "orders");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn lock(&self) -> &str {
        self.0.lock()
    }

    /// The path of the node behind the guard.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// assert!(mutex.acquire()?.path().starts_with("/zklock/orders/"));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// The fencing token, for the resource to check.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// let earlier = mutex.acquire()?.fencing_token();
    /// assert!(mutex.acquire()?.fencing_token() > earlier);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.0.fencing_token()
    }

    /// Whether the lock is surely held now.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// let guard = mutex.acquire()?;
    /// assert!(guard.is_valid()); // To be asked again directly before a commit.
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// How long the lock is surely held if nothing more is heard.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// assert!(mutex.acquire()?.remaining().as_secs() > 1);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether somebody asked that the lock be let go. See
    /// [`Guard::is_revoked`](guard::Guard::is_revoked).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let lock = session.mutex("orders")?;
    /// let guard = zklock::blocking::Mutex::from(lock.clone()).try_acquire()?;
    /// assert!(!guard.is_revoked());
    /// lock.site().revoke().await?;
    /// # lock.site().contenders().await?;
    /// assert!(guard.is_revoked());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_revoked(&self) -> bool {
        self.0.is_revoked()
    }

    /// Runs `body` in the scope of this guard: the same lock acquired inside is nested.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// let guard = mutex.acquire()?;
    /// let nested = guard.scope(|| mutex.acquire().map(|nested| nested.fencing_token()))?;
    /// assert_eq!(nested, guard.fencing_token());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        self.0.scope_sync(body)
    }

    /// Says that another thread will release this guard. See
    /// [`Guard::detach`](guard::Guard::detach).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// let guard = mutex.acquire()?.detach();
    /// let other = std::thread::spawn(move || guard.release());
    /// assert!(matches!(other.join(), Ok(Ok(()))));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn detach(self) -> Self {
        Guard(self.0.detach())
    }

    /// Releases the lock and waits until the node is gone.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let mutex = zklock::blocking::Mutex::from(session.mutex("orders")?);
    /// mutex.acquire()?.release()?;
    /// assert!(session.held().is_empty());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Guard::release`](guard::Guard::release).
    pub fn release(self) -> Result<(), LockError> {
        block_on(self.0.release())
    }
}

impl SemaphorePermit {
    /// How many permits these are.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let printers = zklock::blocking::Semaphore::from(session.semaphore("printers", 3)?);
    /// assert_eq!(printers.acquire_many(3)?.permits(), 3);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn permits(&self) -> u32 {
        self.0.permits()
    }
}

impl RwLockWriteGuard {
    /// Becomes a reader without letting a writer in between.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let prices = zklock::blocking::RwLock::from(session.rw_lock("prices")?);
    /// let reading = prices.write()?.downgrade()?;
    /// assert!(prices.try_read().is_ok() && reading.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`downgrade`](guard::RwLockWriteGuard::downgrade).
    pub fn downgrade(self) -> Result<RwLockReadGuard, LockError> {
        block_on(self.0.downgrade()).map(Guard)
    }
}
