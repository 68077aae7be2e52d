//! The template, which runs a body under a lock.

use std::future::Future;
use std::pin::pin;

use crate::base::error::LockError;
use crate::base::options::LockOptions;
use crate::guard::view::{GuardView, current};
use crate::layout::to_driver::ToDriver;
use crate::lock::any::AnyLock;
use crate::lock::multi::MultiLock;
#[cfg(doc)]
use crate::lock::mutex::Mutex;
use crate::lock::spec::{Kind, LockSpec};
use crate::name::lock_name::{IntoLockName, LockName};
use crate::run::entry::Entry;
use crate::run::guarded_call::GuardedCall;
use crate::run::kept::Whole;
use crate::session::handle::Session;
use crate::session::lane::closed;
use crate::session::registry::SessionRegistry;

/// Runs a body under a lock, which excludes all other processes, and releases the lock in every
/// case: after a return, `?`, a panic or a cancellation.
///
/// A call makes at most `retries` tries of at most `timeout` each, so it waits at most
/// `timeout × retries` (2 × 2 s = 4 s by default). Elsewhere "retries" often means extra tries;
/// here it is the total number.
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
/// A call returns after the lock is released. So its future is `Send` if the body and its result
/// are.
#[derive(Clone, Debug)]
pub struct ZkLockTemplate {
    session: Option<Session>,
    spec: LockSpec,
}

impl Default for ZkLockTemplate {
    /// Returns a template on the default session of the [registry](SessionRegistry), which is looked
    /// up at each call.
    fn default() -> Self {
        ZkLockTemplate { session: None, spec: LockSpec::MUTEX }
    }
}

impl ZkLockTemplate {
    /// Returns a template on a session, with the session's default options.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Session, ZkLockTemplate};
    ///
    /// let template = ZkLockTemplate::new(Session::embedded());
    /// assert!(template.execute("orders", || async { zklock::is_held_in_scope("orders") }).await?);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn new(session: Session) -> Self {
        ZkLockTemplate { session: Some(session), ..ZkLockTemplate::default() }
    }

    /// Sets options. An option that is not set in `options` stays as an earlier call set it, or as
    /// the session's defaults say. With a value that is not accepted, and with options that
    /// contradict each other, every call fails with
    /// [`InvalidOption`](crate::base::error_kind::ErrorKind::InvalidOption).
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

    /// Sets the layout of the locks, in place of the session's. A call fails with
    /// [`Unsupported`](crate::base::error_kind::ErrorKind::Unsupported) if the layout does not have its kind
    /// of lock. So does every call for semaphores: those of a template have the session's layout, and
    /// only [`Semaphore::with_driver`](crate::lock::Semaphore::with_driver) sets another one.
    ///
    /// ```
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// use zklock::{Session, ZkLockTemplate, layout::Kazoo};
    ///
    /// let beside_python = ZkLockTemplate::new(Session::embedded()).with_driver(Kazoo::default());
    /// let order = beside_python.execute("createOrder", || async { 42 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_driver(mut self, driver: impl ToDriver) -> Self {
        self.spec.driver = Some(driver.to_driver());
        self
    }

    /// Makes the template acquire read/write locks for reading, instead of mutexes.
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

    /// Makes the template acquire read/write locks for writing, instead of mutexes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::ZkLockTemplate;
    ///
    /// let writing = ZkLockTemplate::new(session.clone()).write();
    /// let prices = session.rw_lock("prices")?;
    /// assert!(writing.execute("prices", || async { prices.is_write_held_in_scope() }).await?);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn write(mut self) -> Self {
        self.spec.kind = Kind::Write;
        self
    }

    /// Makes the template acquire a permit of semaphores with this limit, instead of mutexes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::ZkLockTemplate;
    ///
    /// let printing = ZkLockTemplate::new(session.clone()).semaphore(1);
    /// let free = || async { session.semaphore("printers", 1)?.try_acquire().await };
    /// assert!(printing.execute("printers", free).await?.is_err()); // The only one is taken.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn semaphore(mut self, limit: u32) -> Self {
        self.spec.kind = Kind::Semaphore { limit };
        self
    }

    /// Makes the template acquire so many permits of a [semaphore](ZkLockTemplate::semaphore) together.
    /// For other locks the calls fail with [`ErrorKind::InvalidOption`](crate::base::error_kind::ErrorKind::InvalidOption).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::ZkLockTemplate;
    ///
    /// let printing = ZkLockTemplate::new(session.clone()).semaphore(3).permits(2);
    /// let free = || async { session.semaphore("printers", 3)?.try_acquire_many(1).await };
    /// assert!(printing.execute("printers", free).await?.is_ok()); // Two of three are taken.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.spec.permits = permits;
        self
    }

    fn lock(&self, name: LockName) -> Result<AnyLock, LockError> {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => {
                let session = SessionRegistry::global().session(None);
                session.map_err(|error| error.on(name.to_shared()))?
            }
        };
        self.spec.lock(&session, name)
    }

    /// A lock of this template's kind, ready to be acquired.
    pub(crate) fn entry(&self, name: impl IntoLockName) -> Result<Entry, LockError> {
        let lock = name.into_lock_name().and_then(|name| self.lock(name));
        let lock = lock.map_err(LockError::before_body)?;
        let wait = lock.tries();
        Ok(Entry::one(lock, wait))
    }

    /// Several locks of this template's kind as one, ready to be acquired.
    pub(crate) fn entry_to_all(
        &self,
        names: impl IntoIterator<Item = impl IntoLockName>,
    ) -> Result<Entry, LockError> {
        let names = names.into_iter().map(IntoLockName::into_lock_name);
        let locks = names.map(|name| self.lock(name?)).collect::<Result<Vec<_>, _>>();
        let locks = locks.and_then(MultiLock::new).map_err(LockError::before_body)?;
        let wait = locks.tries();
        Ok(Entry::several(locks, wait))
    }

    /// Runs `body` while the caller holds all the locks: acquired in one order, within one
    /// deadline, all or none.
    ///
    /// # Errors
    ///
    /// Those of [`execute`](ZkLockTemplate::execute); [`ErrorKind::InvalidOption`] if a name is
    /// given twice, or there is none.
    ///
    /// # Cancel safety
    ///
    /// As [`execute`](ZkLockTemplate::execute).
    ///
    /// [`ErrorKind::InvalidOption`]: crate::base::error_kind::ErrorKind::InvalidOption
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
        let entry = self.entry_to_all(names)?;
        under(entry, async move { Ok(body().await) }).await
    }

    /// Like [`execute_all`](ZkLockTemplate::execute_all), for a body that returns a `Result`: one
    /// error type for the locks and the body, as in
    /// [`execute_fallible`](ZkLockTemplate::execute_fallible).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let accounts = ["accounts/7", "accounts/3"];
    /// let moved = template.execute_all_fallible(accounts, || async { Err("7 is empty")? });
    /// let error: Box<dyn std::error::Error> = moved.await.map(|()| "moved").unwrap_err();
    /// assert_eq!(error.to_string(), "7 is empty");
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// As [`execute_all`](ZkLockTemplate::execute_all), and those of the body.
    ///
    /// # Cancel safety
    ///
    /// As [`execute`](ZkLockTemplate::execute).
    pub async fn execute_all_fallible<T, E, F, B>(
        &self,
        names: impl IntoIterator<Item = impl IntoLockName>,
        body: F,
    ) -> Result<T, E>
    where
        E: From<LockError>,
        F: FnOnce() -> B,
        B: Future<Output = Result<T, E>>,
    {
        self.execute_all(names, body).await?
    }

    /// Runs `body` while the caller holds the lock `name`. The body is created only then.
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
    /// Busy (code `1011`) if somebody else held the lock all the time; unavailable if ZooKeeper did
    /// not answer; [not configured](crate::base::error_kind::ErrorKind::NotConfigured) if the template has no
    /// session of its own, and none is registered or described by the environment; and the other errors of
    /// [`Mutex::acquire_timeout`]. In these cases the body did not run.
    ///
    /// [Lost](crate::base::error_kind::ErrorKind::Lost) if the lease ran out while the body ran;
    /// [revoked](crate::base::error_kind::ErrorKind::Revoked) if somebody asked for the release of the
    /// lock and the option `on_revoked` is `Cancel`;
    /// [held for too long](crate::base::error_kind::ErrorKind::HeldTooLong) if the option `hold_at_most`
    /// is set. These errors say what happened to the body.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases the lock.
    pub async fn execute<T, F, B>(&self, name: impl IntoLockName, body: F) -> Result<T, LockError>
    where
        F: FnOnce() -> B,
        B: Future<Output = T>,
    {
        let entry = self.entry(name)?;
        under(entry, async move { Ok(body().await) }).await
    }

    /// Runs a `body` that returns a `Result` while the caller holds the lock `name`. Returns that
    /// result, or the lock's error converted to the body's error type: one `?` for both.
    ///
    /// It waits like [`execute`](ZkLockTemplate::execute). Methods with "try" in their names, such
    /// as [`Mutex::try_acquire`], do not wait.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// use zklock::LockError;
    ///
    /// #[derive(Debug, PartialEq)]
    /// enum OrderError {
    ///     Rejected,
    ///     Lock(&'static str),
    /// }
    /// impl From<LockError> for OrderError {
    ///     fn from(error: LockError) -> Self {
    ///         OrderError::Lock(error.code())
    ///     }
    /// }
    /// async fn insert(order: u32) -> Result<u32, OrderError> {
    ///     if order == 0 { Err(OrderError::Rejected) } else { Ok(order) }
    /// }
    /// assert_eq!(template.execute_fallible("createOrder", || insert(7)).await?, 7);
    /// let rejected = template.execute_fallible("createOrder", || insert(0)).await;
    /// assert_eq!(rejected, Err(OrderError::Rejected));
    /// let no_name = template.execute_fallible("create//order", || insert(7)).await;
    /// assert_eq!(no_name, Err(OrderError::Lock("1017")));
    /// # Ok::<(), OrderError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`execute`](ZkLockTemplate::execute), and those of the body.
    ///
    /// # Cancel safety
    ///
    /// As [`execute`](ZkLockTemplate::execute).
    pub async fn execute_fallible<T, E, F, B>(
        &self,
        name: impl IntoLockName,
        body: F,
    ) -> Result<T, E>
    where
        E: From<LockError>,
        F: FnOnce() -> B,
        B: Future<Output = Result<T, E>>,
    {
        self.execute(name, body).await?
    }

    /// Like [`execute`](ZkLockTemplate::execute), and passes a view of the guard to the body.
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
        let entry = self.entry(name)?;
        under(entry, async move {
            // The innermost guard is that of this call.
            let guard = current().view().ok_or_else(closed)?;
            Ok(body(guard).await)
        })
        .await
    }
}

/// Runs `body` under a lock of the default session, with a [`ZkLockTemplate`].
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

/// Runs a body under a lock, and returns the result after the release.
async fn under<T>(
    entry: Entry,
    body: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    let body = pin!(Some(body));
    GuardedCall::<_, _, Whole, _>::new(Some(entry.guarded()), Err, body).await
}

/// Runs `body`, which returns a `Result`, under a lock of the default session. See
/// [`ZkLockTemplate::execute_fallible`].
///
/// # Errors
///
/// As [`ZkLockTemplate::execute`], and those of the body.
///
/// # Cancel safety
///
/// As [`ZkLockTemplate::execute`].
///
/// ```
/// # zklock::blocking::block_on(async {
/// # zklock::init(zklock::Session::embedded());
/// async fn insert() -> Result<u32, Box<dyn std::error::Error>> {
///     Ok("42".parse()?)
/// }
/// let order = zklock::execute_fallible("createOrder", insert).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub async fn execute_fallible<T, E, F, B>(name: impl IntoLockName, body: F) -> Result<T, E>
where
    E: From<LockError>,
    F: FnOnce() -> B,
    B: Future<Output = Result<T, E>>,
{
    ZkLockTemplate::default().execute_fallible(name, body).await
}
