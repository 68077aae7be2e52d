//! The template: runs a body with a lock, by hand.

use std::future::Future;
use std::sync::Arc;

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::base::options::LockOptions;
use crate::guard::view::GuardView;
use crate::layout::driver::LockDriver;
use crate::local::wait::Wait;
use crate::lock::any::{AnyLock, Enter, Guarding};
use crate::lock::multi::MultiLock;
#[cfg(doc)]
use crate::lock::mutex::Mutex;
use crate::lock::spec::{Kind, LockSpec};
use crate::name::lock_name::{IntoLockName, LockName};
use crate::run::body::run;
use crate::run::kept::{Keep, Whole, part_of};
use crate::session::handle::Session;
use crate::session::registry::SessionRegistry;

/// Runs bodies under locks. [`ZkLockTemplate`] is the one on ZooKeeper; code that takes any can be
/// tested with one of its own.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::{LockError, LockTemplate, Session, ZkLockTemplate};
///
/// async fn issue(locks: &impl LockTemplate) -> Result<u64, LockError> {
///     locks.execute("orderNumber", || async { 42 }).await
/// }
/// assert_eq!(issue(&ZkLockTemplate::new(Session::embedded())).await?, 42);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub trait LockTemplate {
    /// Runs `body` while this process, in the whole fleet, holds the lock `name`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{IntoLockName, LockError, LockTemplate};
    ///
    /// /// For tests of code whose locks are of no interest.
    /// struct NoLock;
    ///
    /// impl LockTemplate for NoLock {
    ///     async fn execute<T, F, B>(
    ///         &self,
    ///         _: impl IntoLockName + Send,
    ///         body: F,
    ///     ) -> Result<T, LockError>
    ///     where
    ///         T: Send,
    ///         F: FnOnce() -> B + Send,
    ///         B: Future<Output = T> + Send,
    ///     {
    ///         Ok(body().await)
    ///     }
    /// }
    /// assert_eq!(NoLock.execute("orders", || async { 42 }).await?, 42);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Whatever kept the lock from being acquired or held; then the body did not run, unless the
    /// error is [lost](crate::base::error::ErrorKind::Lost) or
    /// [revoked](crate::base::error::ErrorKind::Revoked) and says otherwise.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body, which may have taken effect, and releases the lock.
    fn execute<T, F, B>(
        &self,
        name: impl IntoLockName + Send,
        body: F,
    ) -> impl Future<Output = Result<T, LockError>> + Send
    where
        T: Send,
        F: FnOnce() -> B + Send,
        B: Future<Output = T> + Send;
}

/// Runs a body only while its caller holds a lock in the whole fleet, and releases it in every
/// case: return, `?`, panic, cancellation.
///
/// The lock is tried `retries` times, at most `timeout` each, so a call waits at most
/// `timeout × retries` (2 × 2 s = 4 s by default). Elsewhere "retries" often means extra tries;
/// here, as in "tried 2 times, at most 2 s each", it is the number of tries.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::{Session, ZkLockTemplate};
///
/// let template = ZkLockTemplate::new(Session::embedded());
/// let order = template.execute("createOrder", || async { 42 }).await?;
/// assert_eq!(order, 42);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
///
/// The result waits until the lock is released, so the future of a call is `Send` if the body is
/// and what it returns.
#[derive(Clone, Debug)]
pub struct ZkLockTemplate {
    session: Option<Session>,
    spec: LockSpec,
}

impl Default for ZkLockTemplate {
    /// On the default session of the [registry](SessionRegistry), whichever that is at each call.
    fn default() -> Self {
        ZkLockTemplate { session: None, spec: LockSpec::MUTEX }
    }
}

impl ZkLockTemplate {
    /// A template on a session, with the session's defaults.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Session, ZkLockTemplate};
    ///
    /// let template = ZkLockTemplate::new(Session::embedded());
    /// assert!(template.execute("orders", || async { zklock::is_held("orders") }).await?);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn new(session: Session) -> Self {
        ZkLockTemplate { session: Some(session), ..ZkLockTemplate::default() }
    }

    /// Sets options. An option that is not set in `options` stays as it is: as an earlier call set
    /// it, or as the session's defaults say. A value that is not accepted, and options that contradict
    /// each other make every call fail with
    /// [`InvalidOption`](crate::base::error::ErrorKind::InvalidOption).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// use zklock::{Body, LockOptions, OnLost, ZkLockTemplate};
    ///
    /// let once = ZkLockTemplate::default().with_options(LockOptions::new().retries(1));
    /// let template = once.with_options(LockOptions::new().on_lost(OnLost::Finish));
    /// let outcome = template.execute("orders", || async { locks.lose() }).await; // Tried once.
    /// assert!(outcome.is_err_and(|error| error.body() == Some(Body::Finished)));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn with_options(mut self, options: LockOptions) -> Self {
        self.spec.options = options.or(self.spec.options);
        self
    }

    /// How the locks are laid out in ZooKeeper, where that is not as the session says. What the
    /// driver cannot do is an error of the call: semaphores, for one, have a layout of their own.
    ///
    /// ```
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// use zklock::{Session, ZkLockTemplate, layout::Kazoo};
    ///
    /// let beside_python = ZkLockTemplate::new(Session::embedded()).driver(Kazoo::default());
    /// let order = beside_python.execute("createOrder", || async { 42 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn driver(mut self, driver: impl LockDriver) -> Self {
        self.spec.driver = Some(Arc::new(driver));
        self
    }

    /// Takes read/write locks for reading, where it took mutexes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Session, ZkLockTemplate};
    ///
    /// let reading = ZkLockTemplate::new(Session::embedded()).read();
    /// let report = reading.execute("prices", || async { "report" }).await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn read(mut self) -> Self {
        self.spec.kind = Kind::Read;
        self
    }

    /// Takes read/write locks for writing, where it took mutexes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::ZkLockTemplate;
    ///
    /// let writing = ZkLockTemplate::new(session.clone()).write();
    /// let prices = session.rw_lock("prices")?;
    /// assert!(writing.execute("prices", || async { prices.is_written_here() }).await?);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn write(mut self) -> Self {
        self.spec.kind = Kind::Write;
        self
    }

    /// Takes so many permits of semaphores with this limit, where it took mutexes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::ZkLockTemplate;
    ///
    /// let printing = ZkLockTemplate::new(session.clone()).permits(3, 2);
    /// let free = || async { session.semaphore("printers", 3)?.try_acquire_many(1).await };
    /// assert!(printing.execute("printers", free).await?.is_ok()); // Two of three are taken.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn permits(mut self, limit: u32, permits: u32) -> Self {
        self.spec.kind = Kind::Permits { limit, permits };
        self
    }

    pub(crate) fn lock(&self, name: impl IntoLockName) -> Result<AnyLock, LockError> {
        self.lock_of(name.into_lock_name()?)
    }

    fn lock_of(&self, name: LockName) -> Result<AnyLock, LockError> {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => SessionRegistry::global().session(None)?,
        };
        self.spec.lock(&session, name)
    }

    /// Several locks of this template's kind as one.
    pub(crate) fn locks(
        &self,
        names: impl IntoIterator<Item = impl IntoLockName>,
    ) -> Result<MultiLock, LockError> {
        let locks = names.into_iter().map(|name| self.lock(name));
        MultiLock::new(locks.collect::<Result<Vec<_>, _>>()?)
    }

    /// Runs `body` while the caller holds all the locks: taken in one order, under one deadline,
    /// all or none.
    ///
    /// # Errors
    ///
    /// As [`execute`](ZkLockTemplate::execute); [`ErrorKind::InvalidOption`] for a name that is
    /// there twice, or none.
    ///
    /// # Cancel safety
    ///
    /// As [`execute`](ZkLockTemplate::execute).
    ///
    /// [`ErrorKind::InvalidOption`]: crate::base::error::ErrorKind::InvalidOption
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Session, ZkLockTemplate};
    ///
    /// let template = ZkLockTemplate::new(Session::embedded());
    /// template.execute_all(["accounts/7", "accounts/3"], || async { "transfer" }).await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub async fn execute_all<T, F, B>(
        &self,
        names: impl IntoIterator<Item = impl IntoLockName>,
        body: F,
    ) -> Result<T, LockError>
    where
        F: FnOnce() -> B,
        B: Future<Output = T>,
    {
        let locks = self.locks(names).map_err(LockError::before_body)?;
        guarded(&locks, locks.tries(), Whole, |_| body()).await
    }

    /// Runs `body` while the caller holds the lock `name`. The body is made only then.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("createOrder")?;
    /// use std::time::Duration;
    /// use zklock::{LockOptions, ZkLockTemplate};
    ///
    /// let once = LockOptions::new().timeout(Duration::from_millis(20)).retries(1);
    /// let template = ZkLockTemplate::default().with_options(once);
    /// let order = template.execute("createOrder", || async { 42 }).await;
    /// assert_eq!(order.map_err(|error| error.code()), Err("1011")); // Somebody else is at it.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Busy (code `1011`) if somebody else held the lock all the time, unavailable if ZooKeeper
    /// did not answer, and the others of [`Mutex::acquire_timeout`]: then the body did not run.
    /// [Lost](crate::base::error::ErrorKind::Lost) if the lease ran out while it ran,
    /// [revoked](crate::base::error::ErrorKind::Revoked) if somebody asked that the lock be let go and the
    /// body is to heed that; the error says what became of the body.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases the lock.
    pub async fn execute<T, F, B>(&self, name: impl IntoLockName, body: F) -> Result<T, LockError>
    where
        F: FnOnce() -> B,
        B: Future<Output = T>,
    {
        self.execute_with(name, |_| body()).await
    }

    /// As [`execute`](ZkLockTemplate::execute), with a view of the guard for the body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Session, ZkLockTemplate};
    ///
    /// let template = ZkLockTemplate::new(Session::embedded());
    /// let issue = async |guard: zklock::GuardView| {
    ///     // Work, then look directly before the commit.
    ///     if guard.is_valid() { Ok(guard.fencing_token()) } else { Err("lost") }
    /// };
    /// assert!(template.execute_with("orderNumber", issue).await?.is_ok());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`execute`](ZkLockTemplate::execute).
    ///
    /// # Cancel safety
    ///
    /// As [`execute`](ZkLockTemplate::execute).
    pub async fn execute_with<T, F, B>(
        &self,
        name: impl IntoLockName,
        body: F,
    ) -> Result<T, LockError>
    where
        F: FnOnce(GuardView) -> B,
        B: Future<Output = T>,
    {
        let lock = self.lock(name).map_err(LockError::before_body)?;
        guarded(&lock, lock.tries(), Whole, body).await
    }
}

impl LockTemplate for ZkLockTemplate {
    async fn execute<T, F, B>(
        &self,
        name: impl IntoLockName + Send,
        body: F,
    ) -> Result<T, LockError>
    where
        T: Send,
        F: FnOnce() -> B + Send,
        B: Future<Output = T> + Send,
    {
        ZkLockTemplate::execute(self, name, body).await
    }
}

/// Acquires, runs the body, releases. What cannot be kept until that is done does not wait for it:
/// the release goes on in the background then, as when a guard is dropped.
pub(crate) async fn guarded<L, T, K, F, B>(
    lock: &L,
    how: Wait,
    _: K,
    body: F,
) -> Result<T, LockError>
where
    L: Enter,
    K: Keep<T>,
    F: FnOnce(GuardView) -> B,
    B: Future<Output = T>,
{
    let entered = lock.enter(Caller::task(), how, false).await;
    let guard = entered.map_err(LockError::before_body)?;
    let view = guard.view();
    let outcome = run(&guard, lock.cancel_policy(), async move { body(view).await }).await;
    let kept = match part_of::<T, K>(outcome) {
        Ok(kept) => kept,
        Err(result) => return Ok(result),
    };
    // The result stands whatever becomes of the release; the observer hears of that.
    let _ = guard.release().await.inspect_err(|error| tracing::warn!("released: {error:#}"));
    kept.map(K::whole)
}

/// Runs `body` with a lock of the default session: a [`ZkLockTemplate`] in one call.
///
/// # Errors
///
/// As [`ZkLockTemplate::execute`].
///
/// # Cancel safety
///
/// As [`ZkLockTemplate::execute`].
///
/// ```
/// # zklock::blocking::block_on(async {
/// zklock::init(zklock::Session::embedded());
/// let order = zklock::execute("createOrder", || async { 42 }).await?;
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub async fn execute<T, F, B>(name: impl IntoLockName, body: F) -> Result<T, LockError>
where
    F: FnOnce() -> B,
    B: Future<Output = T>,
{
    ZkLockTemplate::default().execute(name, body).await
}
