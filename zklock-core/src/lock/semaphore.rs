//! The semaphore.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::acquire::target::Target;
use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::policy::Handoffs;
use crate::base::settings::Settings;
use crate::guard::context;
use crate::guard::typed::SemaphorePermit;
use crate::layout::semaphore_layout::SemaphoreLayout;
use crate::layout::to_driver::ToDriver;
use crate::local::grant::GrantSource;
use crate::local::limit::LimitSource;
use crate::local::permit_queue::{Handle, PermitQueue, Permits};
use crate::local::permits::PermitRequest;
use crate::local::wait::{Forever, Patience};
use crate::local::waiter::{QueuePolicy, Waiter};
use crate::lock::info::{Asking, LockInfo, Waits};
use crate::lock::permits::{check_alone, find};
use crate::name::lock_name::{IntoLockName, LockName};
use crate::session::handle::Session;

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
    info: LockInfo,
    queue: Handle,
    /// Whether it was checked that this process does not use the semaphore in another layout.
    unmixed: OnceLock<()>,
}

impl Deref for Semaphore {
    type Target = LockInfo;

    fn deref(&self) -> &LockInfo {
        &self.0.info
    }
}

impl Semaphore {
    pub(crate) fn new(session: &Session, name: LockName, limit: u32) -> Result<Self, LockError> {
        Self::with_limit(session, name, &LimitSource::Fixed(limit), &session.driver().semaphore())
    }

    /// Sets the layout of this semaphore, in place of the session's: the one that
    /// [belongs](crate::layout::driver::LockDriver::semaphore) to the given layout of locks, which is
    /// Curator's for all but [`Kazoo`](crate::layout::Kazoo). If it is not accepted, every acquire fails
    /// with the error that [`Session::semaphore`] or [`Session::semaphore_with_limit_at`] would return
    /// in that layout.
    ///
    /// ```
    /// # fn main() -> Result<(), zklock::LockError> {
    /// use zklock::{Session, layout::Kazoo};
    ///
    /// // `kazoo.recipe.lock.Semaphore(client, "/zklock/printers", max_leases=3)` in Python.
    /// let printers = Session::embedded().semaphore("printers", 3)?.with_driver(Kazoo::default());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_driver(mut self, driver: impl ToDriver) -> Self {
        let shared = Arc::make_mut(&mut self.0);
        let (session, name) = (&shared.info.session, shared.info.name.clone());
        // It acquires nothing more in the earlier layout, so it keeps nobody from other settings or another limit there.
        shared.queue.let_go();
        let source = &shared.queue.limit().source;
        match Self::with_limit(session, name, source, &driver.to_driver().semaphore()) {
            Ok(other) => {
                let Shared { info: new, queue, .. } = Arc::unwrap_or_clone(other.0);
                let info = &mut shared.info;
                (info.directory, info.driver, info.misfit) = (new.directory, new.driver, None);
                (shared.queue, shared.unmixed) = (queue, OnceLock::new());
            }
            Err(error) => shared.info.misfit = Some(error),
        }
        self
    }

    fn with_limit(
        session: &Session,
        name: LockName,
        source: &LimitSource,
        layout: &SemaphoreLayout,
    ) -> Result<Self, LockError> {
        let queue =
            find(session, &name, source, layout).map_err(|error| error.on(name.to_shared()))?;
        let Target { directory, driver, .. } = queue.target();
        let place = (directory.clone(), driver.clone());
        let info = LockInfo::new(session, name, Mode::Permit, place);
        Ok(Semaphore(Arc::new(Shared { info, queue, unmixed: OnceLock::new() })))
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
        Arc::make_mut(&mut self.0).info.set(&options, Mode::Permit);
        self
    }

    /// Returns the limit. If it is [in a node](Session::semaphore_with_limit_at), this is `None` until that
    /// node has been read; a limit of 0 there lets nobody in.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.semaphore("printers", 3)?.limit(), Some(3));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn limit(&self) -> Option<u32> {
        self.0.queue.limit().read()
    }

    /// Acquires one permit, and waits until it is granted, without a limit: the options
    /// `timeout` and `retries` count for [`acquire_tries`](Semaphore::acquire_tries).
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

    /// Acquires several permits, all or none, and waits until they are granted, without a limit: the
    /// options `timeout` and `retries` count for [`acquire_many_tries`](Semaphore::acquire_many_tries).
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
    /// [`ErrorKind::InvalidOption`] for zero permits, for more than the limit unless that is
    /// [in a node](Session::semaphore_with_limit_at), and for more than 1,000; and those of
    /// [`Mutex::acquire`](crate::lock::Mutex::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit, LockError> {
        self.enter(Caller::task(), permits, Forever, true).await
    }

    /// Acquires one permit without waiting for other contenders: asks ZooKeeper once. Only while
    /// another contender is taking a permit, it asks again for some 200 ms, to know whether one is
    /// left.
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
    /// [`ErrorKind::Busy`] if no permit is left, with a holder if one is known;
    /// [`ErrorKind::Unavailable`] if ZooKeeper does not answer within the `timeout` of one try; and those of
    /// [`acquire_many`](Semaphore::acquire_many).
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
        self.enter(Caller::task(), permits, self.once()?, true).await
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

    pub(crate) async fn enter(
        &self,
        who: Caller,
        permits: u32,
        patience: impl Patience,
        unscoped: bool,
    ) -> Result<SemaphorePermit, LockError> {
        if let Some(flaw) = self.flaw() {
            return Err(flaw.clone());
        }
        self.check(permits)?;
        if self.0.unmixed.get().is_none() {
            check_alone(&self.0.queue).map_err(|error| self.on(error))?;
            let _ = self.0.unmixed.set(());
        }
        let since = self.session.clock().now();
        // All that is kept of how it waits.
        let began = (since, patience.one_try());
        let asking = Asking { who, wait: patience.to_wait(), since, unscoped };
        let granted = match self.join(asking, permits) {
            Waits::Usual(joined) => patience.wait(joined).await,
            Waits::Rare(rare) => rare.await,
        };
        self.ended(granted.and_then(|hold| self.guard(hold, unscoped)), began)
    }

    /// Takes a place in the queue.
    fn join(&self, asking: Asking, permits: u32) -> Waits<Permits> {
        let Asking { who, wait, since, .. } = asking;
        let around = context::current();
        let Settings { fair, handoffs, stop_at, requeue, .. } = self.settings;
        let handoffs = if fair { Handoffs::NONE } else { handoffs };
        let queue_policy = QueuePolicy { handoffs, stop_at, ..QueuePolicy::default() };
        let (once, label) = (wait.is_once(), self.label.clone());
        let is_own = context::is_own(who, &around);
        let (who, ahead) = (context::scoped(who, &around), 0);
        let wants = PermitRequest { permits, requeue };
        let waiting = Waiter { who, wants, since, once, queue_policy, label, ahead };
        let span = self.span(Mode::Permit, &asking);
        let joined = match fair {
            true => PermitQueue::single(&self.0.queue).join(waiting, is_own),
            false => self.0.queue.join(waiting, is_own),
        };
        self.waits(asking, span, joined)
    }

    fn check(&self, permits: u32) -> Result<(), LockError> {
        let most = match &self.0.queue.limit().source {
            LimitSource::Fixed(limit) => (*limit).min(MOST_PERMITS),
            // The limit may be raised while a caller waits.
            LimitSource::Node(..) => MOST_PERMITS,
        };
        if (1..=most).contains(&permits) {
            return Ok(());
        }
        let why = format!("{permits} permits cannot be acquired together; 1 to {most} can");
        Err(self.error(ErrorKind::InvalidOption, &why))
    }
}

impl Session {
    /// Returns the semaphore with a name and a fixed limit, the number of its permits. All processes
    /// must use the same number; for a limit that changes, use [`Session::semaphore_with_limit_at`].
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.semaphore("printers", 3)?.limit(), Some(3));
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

    /// Returns a semaphore whose limit is stored in a node, given relative to the session's root,
    /// in the format of Curator's `SharedCount`: a number of four bytes, big endian. If the node
    /// does not exist, it is created with the limit `initial`. A new number takes effect while
    /// callers wait: a higher one lets some of them in, a lower one keeps newcomers out until
    /// enough holders have left. Permits that tasks of one process pass to each other are not counted
    /// again until the [handoffs](crate::base::options::LockOptions::handoffs) end.
    ///
    /// A caller that wants more permits than there are waits until the limit is that high, ahead of all who come
    /// later.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] as for [`Session::semaphore`]; [`ErrorKind::InvalidName`] for
    /// either name; [`ErrorKind::Unsupported`] in kazoo's layout, whose limit is in the semaphore's
    /// own node and does not change.
    ///
    /// ```
    /// use zklock::Session;
    ///
    /// let session = Session::embedded();
    /// let printers = session.semaphore_with_limit_at("printers", "limits/printers", 3)?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn semaphore_with_limit_at(
        &self,
        name: impl IntoLockName,
        node: impl IntoLockName,
        initial: u32,
    ) -> Result<Semaphore, LockError> {
        let (name, node) = (name.into_lock_name()?, node.into_lock_name()?.path_under(self.root()));
        Semaphore::with_limit(
            self,
            name,
            &LimitSource::Node(node, initial),
            &self.driver().semaphore(),
        )
    }
}
