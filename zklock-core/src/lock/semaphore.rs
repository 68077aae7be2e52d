//! The semaphore.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_lite::future::Boxed;

use crate::acquire::acquire_loop::Target;
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::{ErrorKind, LockError};
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::policy::Handoffs;
use crate::base::settings::Settings;
use crate::guard::context;
use crate::guard::typed::SemaphorePermit;
use crate::inspect::site::Site;
use crate::layout::driver::{LockDriver, SemaphoreLayout};
use crate::local::grant::{GrantSource, Hold};
use crate::local::limit::LimitSource;
use crate::local::permit_queue::{Handle, PermitQueue};
use crate::local::permits::PermitWaiter;
use crate::local::state::QueuePolicy;
use crate::local::wait::{Forever, Patience, Wait};
use crate::local::wait_queue::Joined;
use crate::lock::named::shared_label;
use crate::lock::permits::{Asked, check_alone, find};
use crate::name::lock_name::{IntoLockName, LockName};
use crate::observe::spans::Acquiring;
use crate::session::handle::Session;
use crate::session::slow::Slow;

/// The largest number of permits that one acquire takes.
pub const MOST_PERMITS: u32 = 1_000;

/// A distributed semaphore: of all processes, a limited number of callers hold it at the same time.
///
/// Waiters are served first come, first served; a waiter for several permits gets all of them or
/// none. Tasks of one process pass permits to each other in memory, within the
/// [limit of handoffs](crate::base::policy::Handoffs). A semaphore is not reentrant: acquiring
/// permits inside the scope of a permit takes further permits.
///
/// The layout is that of Curator's `InterProcessSemaphoreV2`, or that of kazoo's `Semaphore` if the
/// session or the semaphore has the layout [`Kazoo`](crate::layout::Kazoo).
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::Session;
///
/// let printers = Session::embedded().semaphore("printers", 3)?;
/// let two = printers.acquire_many(2).await?;
/// let one = printers.acquire().await?;
/// assert!(printers.try_acquire().await.is_err());
/// # drop((two, one));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore(Arc<Shared>);

#[derive(Clone, Debug)]
struct Shared {
    session: Session,
    name: LockName,
    settings: Settings,
    /// The error of options that are not accepted.
    flaw: Option<LockError>,
    label: Option<Arc<str>>,
    asked: Asked,
    queue: Handle,
    /// Whether it was checked that this process does not use the semaphore in another layout.
    unmixed: OnceLock<()>,
}

impl Semaphore {
    /// Returns a semaphore with a fixed limit, the number of its permits. All processes must use
    /// the same number; for a limit that changes, use [`limit_at`](Semaphore::limit_at).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::{ErrorKind, LockName, Semaphore};
    ///
    /// let name = LockName::new("printers")?;
    /// let printers = Semaphore::new(&session, name.clone(), 3)?;
    /// let another = Semaphore::new(&session, name, 4).err();
    /// assert_eq!(another.map(|error| error.kind()), Some(ErrorKind::InvalidOption));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for a limit of 0, and for a limit that differs from the one in
    /// use in this process.
    pub fn new(session: &Session, name: LockName, limit: u32) -> Result<Self, LockError> {
        Self::with_limit(session, name, Asked::Number(limit), &session.driver().semaphore())
    }

    /// Returns a semaphore whose limit is stored in a node, given relative to the session's root,
    /// in the format of Curator's `SharedCount`: a number of four bytes, big endian. If the node
    /// does not exist, it is created with the limit `initial`. A new number takes effect while
    /// callers wait: a higher one lets some of them in, a lower one keeps newcomers out until
    /// enough holders have left.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] as for [`new`](Semaphore::new); [`ErrorKind::InvalidName`] for
    /// the name of the node; [`ErrorKind::Unsupported`] in kazoo's layout, whose limit is in the
    /// semaphore's own node and does not change.
    ///
    /// ```
    /// use zklock::{LockName, Semaphore, Session};
    ///
    /// let name = LockName::new("printers")?;
    /// let printers = Semaphore::limit_at(&Session::embedded(), name, "limits/printers", 3)?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn limit_at(
        session: &Session,
        name: LockName,
        node: &str,
        initial: u32,
    ) -> Result<Self, LockError> {
        let node = LockName::new(node)?.under(session.root());
        Self::with_limit(session, name, Asked::Node(node, initial), &session.driver().semaphore())
    }

    /// Sets the layout: that of the semaphores which belong to this layout of locks.
    ///
    /// # Errors
    ///
    /// As [`new`](Semaphore::new) and [`limit_at`](Semaphore::limit_at).
    ///
    /// ```
    /// # fn main() -> Result<(), zklock::LockError> {
    /// use zklock::{Session, layout::Kazoo};
    ///
    /// // `kazoo.recipe.lock.Semaphore(client, "/zklock/printers", max_leases=3)` in Python.
    /// let printers = Session::embedded().semaphore("printers", 3)?.driver(Kazoo::default())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn driver(self, driver: impl LockDriver) -> Result<Self, LockError> {
        let Shared { session, name, settings, flaw, label, asked, queue, .. } =
            Arc::unwrap_or_clone(self.0);
        // This process has not used it in that layout, except through other handles.
        drop(queue);
        let mut laid_out = Self::with_limit(&session, name, asked, &driver.semaphore())?;
        let shared = Arc::make_mut(&mut laid_out.0);
        (shared.settings, shared.flaw, shared.label) = (settings, flaw, label);
        Ok(laid_out)
    }

    fn with_limit(
        session: &Session,
        name: LockName,
        asked: Asked,
        layout: &SemaphoreLayout,
    ) -> Result<Self, LockError> {
        let queue =
            find(session, &name, &asked, layout).map_err(|error| error.on(name.to_shared()))?;
        let (session, settings) = (session.clone(), session.settings().of_session(Mode::Permit));
        let (flaw, label, unmixed) = (None, shared_label(&settings), OnceLock::new());
        let shared = Shared { session, name, settings, flaw, label, asked, queue, unmixed };
        Ok(Semaphore(Arc::new(shared)))
    }

    /// Sets options. An option that is not set in `options` stays as an earlier call set it, or as
    /// the session's defaults say. With a value that is not accepted, every acquire fails with
    /// [`ErrorKind::InvalidOption`]. The options [`linger`](LockOptions::linger),
    /// [`lock_delay`](LockOptions::lock_delay) and [`hold_at_least`](LockOptions::hold_at_least)
    /// are not accepted, because they are for locks with one holder; the session's values of these
    /// are ignored.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let patient = LockOptions::new().retries(5);
    /// let printers = session.semaphore("printers", 3)?.with_options(patient);
    /// assert!(printers.acquire().await.is_ok());
    /// let lingering = LockOptions::new().linger(Duration::from_secs(1));
    /// assert!(printers.with_options(lingering).acquire().await.is_err());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn with_options(mut self, options: LockOptions) -> Self {
        let shared = Arc::make_mut(&mut self.0);
        shared.settings = shared.settings.with(&options);
        shared.label = shared_label(&shared.settings);
        let checked = shared.settings.check(Mode::Permit, shared.session.settings());
        shared.flaw = checked.err().map(|error| error.on(shared.name.to_shared()));
        self
    }

    pub(crate) fn session(&self) -> &Session {
        &self.0.session
    }

    /// Returns the path of the directory of its permits.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.semaphore("printers", 3)?.path(), "/zklock/printers/leases");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn path(&self) -> &str {
        self.0.queue.path()
    }

    /// Returns the name of the semaphore.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.semaphore("shop/printers", 3)?.name().as_str(), "shop/printers");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn name(&self) -> &LockName {
        &self.0.name
    }

    /// Returns the queue of its permits, to look at the holders and the next waiter.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let printers = session.semaphore("printers", 3)?;
    /// let _two = printers.acquire_many(2).await?;
    /// assert_eq!(printers.site().contenders().await?.len(), 2); // One node for each permit.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn site(&self) -> Site {
        let Target { directory, driver, .. } = &self.0.queue.targets().leases;
        Site::at(&self.0.session, self.0.name.clone(), directory.clone(), driver.clone())
    }

    /// Returns the limit, if it is known; 0 while the node of the limit is being read.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.semaphore("printers", 3)?.limit(), 3);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn limit(&self) -> u32 {
        self.0.queue.limit().now()
    }

    /// Returns the options in effect: every field is set.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let options = session.semaphore("printers", 3)?.options();
    /// assert_eq!(options.retries, Some(2));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn options(&self) -> LockOptions {
        self.0.settings.to_options()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Acquires one permit, and waits until it is granted.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let permit = session.semaphore("printers", 3)?.acquire().await?;
    /// assert_eq!(permit.permits(), 1);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue and leaves no node behind.
    pub async fn acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.acquire_many(1).await
    }

    /// Acquires several permits, all or none, and waits until they are granted.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::ErrorKind;
    ///
    /// let printers = session.semaphore("printers", 3)?;
    /// assert_eq!(printers.acquire_many(3).await?.permits(), 3);
    /// let four = printers.acquire_many(4).await;
    /// assert!(four.is_err_and(|error| error.kind() == ErrorKind::InvalidOption));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for zero permits, for more than the limit, and for more than
    /// 1,000; and those of [`Mutex::acquire`](crate::lock::Mutex::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(Caller::task(), permits, Forever, true).await
    }

    /// Acquires one permit without waiting for other contenders: asks ZooKeeper once.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _all = elsewhere.semaphore("printers", 3)?.acquire_many(3).await?;
    /// let busy = session.semaphore("printers", 3)?.try_acquire().await;
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`], with a holder, if no permit is left; [`ErrorKind::Unavailable`] if
    /// ZooKeeper does not answer within the `timeout` of one try.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn try_acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.try_acquire_many(1).await
    }

    /// Acquires several permits, all or none, without waiting for other contenders.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// let _one = elsewhere.semaphore("printers", 3)?.acquire().await?;
    /// let printers = session.semaphore("printers", 3)?;
    /// assert!(printers.try_acquire_many(3).await.is_err_and(|error| error.is_busy()));
    /// assert_eq!(printers.try_acquire_many(2).await?.permits(), 2);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Semaphore::try_acquire) and [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(Caller::task(), permits, self.once(), true).await
    }

    /// Acquires one permit, and waits at most `timeout`, connecting included.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let printers = session.semaphore("printers", 3)?;
    /// let permit = printers.acquire_timeout(Duration::from_secs(2)).await?;
    /// permit.release().await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many_timeout`](Semaphore::acquire_many_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<SemaphorePermit, LockError> {
        self.acquire_many_timeout(1, timeout).await
    }

    /// Acquires several permits, all or none, and waits at most `timeout`, connecting included.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// use std::time::Duration;
    ///
    /// let _one = elsewhere.semaphore("printers", 3)?.acquire().await?;
    /// let printers = session.semaphore("printers", 3)?;
    /// let busy = printers.acquire_many_timeout(3, Duration::from_millis(20)).await;
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`] if others held too many all the time; [`ErrorKind::Unavailable`] if
    /// ZooKeeper did not answer; and those of [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<SemaphorePermit, LockError> {
        self.enter(Caller::task(), permits, self.within(timeout)?, true).await
    }

    /// Acquires one permit, with at most `retries` tries of `timeout` each.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// // At most 2 × 2 s by default.
    /// let permit = session.semaphore("printers", 3)?.acquire_tries().await?;
    /// assert_eq!(permit.permits(), 1);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many_timeout`](Semaphore::acquire_many_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_tries(&self) -> Result<SemaphorePermit, LockError> {
        self.acquire_many_tries(1).await
    }

    /// Acquires several permits, all or none, with at most `retries` tries of `timeout` each.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// // At most 2 × 2 s by default.
    /// let permits = session.semaphore("printers", 3)?.acquire_many_tries(2).await?;
    /// assert_eq!(permits.permits(), 2);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire_many_timeout`](Semaphore::acquire_many_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many_tries(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(Caller::task(), permits, self.tries(), true).await
    }

    pub(crate) fn once(&self) -> Wait {
        Wait::once(&self.0.settings)
    }

    pub(crate) fn within(&self, timeout: Duration) -> Result<Wait, LockError> {
        Wait::within(timeout).map_err(|error| error.on(self.0.name.to_shared()))
    }

    pub(crate) fn tries(&self) -> Wait {
        Wait::tries(&self.0.settings)
    }

    pub(crate) async fn enter(
        &self,
        who: Caller,
        permits: u32,
        patience: impl Patience,
        unscoped: bool,
    ) -> Result<SemaphorePermit, LockError> {
        if let Some(flaw) = &self.0.flaw {
            return Err(flaw.clone());
        }
        let how = patience.how();
        self.check(permits)?;
        if self.0.unmixed.get().is_none() {
            check_alone(&self.0.queue).map_err(|error| error.on(self.0.name.to_shared()))?;
            let _ = self.0.unmixed.set(());
        }
        let since = self.0.session.clock().now();
        // All that is kept of `how` while it waits.
        let began = (since, patience.one_try());
        let granted = match self.join(who, permits, how, since) {
            WayIn::Usual(joined) => patience.wait(joined).await,
            WayIn::Rare(rare) => rare.await,
        };
        let result = granted.and_then(|hold| {
            let granted = SemaphorePermit::granted(hold, &self.0.settings, unscoped);
            granted.map_err(|error| error.on(self.0.name.to_shared()))
        });
        if let Ok(permit) = &result {
            permit.begin_span();
        }
        let end = || result.as_ref().map(SemaphorePermit::as_granted).map_err(LockError::clone);
        self.0.session.tell_end((&self.0.name, Mode::Permit), end, began);
        result
    }

    /// Takes a place in the queue.
    fn join(&self, who: Caller, permits: u32, how: Wait, since: Instant) -> WayIn {
        let around = context::current();
        let Settings { fair, handoffs, stop_at, vanished, .. } = self.0.settings;
        let handoffs = if fair { Handoffs::NONE } else { handoffs };
        let queue_policy = QueuePolicy { handoffs, stop_at, ..QueuePolicy::default() };
        let (once, label) = (how.is_once(), self.0.label.clone());
        let is_own = context::is_own(who, &around);
        let who = context::scoped(who, &around);
        let ahead = 0;
        let wanting =
            PermitWaiter { who, since, permits, once, queue_policy, vanished, label, ahead };
        let began = (since, how.one_try());
        let of = (&self.0.name, Mode::Permit);
        let span = Acquiring::begin(of, self.0.session.clock(), began);
        let joined = match fair {
            true => PermitQueue::single(&self.0.queue).map(|queue| queue.join(wanting, is_own)),
            false => Ok(self.0.queue.join(wanting, is_own)),
        };
        let (joined, perhaps) = joined.unwrap_or_else(|error| (Joined::Refused(error), None));
        let limit = self.0.settings.warn_waiting;
        let warns = limit < Duration::MAX && matches!(joined, Joined::Waits(_));
        if perhaps.is_none() && span.is_none() && !warns {
            return WayIn::Usual(joined);
        }
        let (lock, label) = (self.0.name.to_shared(), self.0.label.clone());
        let slow = Slow { lock, who, label, since, limit };
        let clock = self.0.session.clock().clone();
        WayIn::Rare(Box::pin(async move {
            let waiting = async move {
                match perhaps {
                    None => how.wait(joined).await,
                    Some(perhaps) => perhaps.tell(who, how.wait(joined)).await,
                }
            };
            let waiting = slow.waiting(&clock, waiting);
            match span {
                None => waiting.await,
                Some(span) => span.around(waiting, Hold::as_granted).await,
            }
        }))
    }

    fn check(&self, permits: u32) -> Result<(), LockError> {
        let most = match self.0.queue.limit().source() {
            LimitSource::Fixed(limit) | LimitSource::Said(_, limit) => (*limit).min(MOST_PERMITS),
            // The limit may be raised while a caller waits.
            LimitSource::Node(..) => MOST_PERMITS,
        };
        if (1..=most).contains(&permits) {
            return Ok(());
        }
        let why = format!("{permits} permits cannot be acquired together; 1 to {most} can");
        Err(self.error(ErrorKind::InvalidOption, &why))
    }

    fn error(&self, kind: ErrorKind, detail: &str) -> LockError {
        LockError::new(kind, detail).on(self.0.name.to_shared())
    }
}

/// How an acquire waits. Rare cases are boxed, so that the future of a waiter stays small.
enum WayIn {
    /// In the queue.
    Usual(Joined<PermitQueue>),
    /// In the queue, with a check for a wait for oneself, or with a warning.
    Rare(Boxed<Result<Hold, LockError>>),
}

impl Session {
    /// Returns the semaphore with a name and a limit, the number of its permits.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.semaphore("printers", 3)?.limit(), 3);
    /// assert!(session.semaphore("scanners", 0).is_err());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] for a name that is not accepted; [`ErrorKind::InvalidOption`] for
    /// a limit of 0, and for a limit that differs from the one in use in this process.
    pub fn semaphore(&self, name: impl IntoLockName, limit: u32) -> Result<Semaphore, LockError> {
        Semaphore::new(self, name.into_lock_name()?, limit)
    }
}
