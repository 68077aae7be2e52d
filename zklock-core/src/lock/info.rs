//! What all locks have in common: what can be asked of them, and how an acquire begins and ends.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::Boxed;

use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::settings::Settings;
use crate::guard::kind::Kind;
use crate::guard::typed::Guard;
use crate::inspect::site::Site;
use crate::layout::driver::LockDriver;
use crate::local::grant::Hold;
use crate::local::itself::{Perhaps, telling};
use crate::local::queue::{Engine, Joined};
use crate::local::wait::{Patience, Wait};
use crate::name::lock_name::LockName;
use crate::name::path::ZnodePath;
use crate::observe::spans::Acquiring;
use crate::session::handle::Session;
use crate::session::slow::Slow;

/// What every lock answers without being acquired. [`Mutex`](crate::lock::Mutex),
/// [`RwLock`](crate::lock::RwLock), [`Semaphore`](crate::lock::Semaphore) and
/// [`AnyLock`](crate::lock::AnyLock) dereference to it.
///
/// ```
/// # let session = zklock::Session::embedded();
/// use zklock::LockInfo;
///
/// fn announce(lock: &LockInfo) -> String {
///     format!("{} is at {}", lock.name(), lock.path())
/// }
/// let mutex = session.mutex("orders")?;
/// assert_eq!(announce(&mutex), "orders is at /zklock/orders");
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LockInfo {
    pub(crate) session: Session,
    pub(crate) name: LockName,
    pub(crate) directory: ZnodePath,
    pub(crate) driver: Arc<dyn LockDriver>,
    pub(crate) settings: Settings,
    /// What is wrong with its options.
    flaw: Option<LockError>,
    /// What is wrong with its layout.
    pub(crate) misfit: Option<LockError>,
    pub(crate) label: Option<Arc<str>>,
}

/// One acquire: who asks, how long it waits, since when, and whether its guard is outside of any
/// scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) who: Caller,
    pub(crate) wait: Wait,
    pub(crate) since: Instant,
    pub(crate) unscoped: bool,
}

/// How an acquire waits in a queue. Rare cases are boxed, so that the future of a waiter stays small.
pub(crate) enum Waits<E: Engine> {
    /// There is nothing to do meanwhile.
    Usual(Joined<E>),
    /// With a span, a check for a wait for oneself, or a warning.
    Rare(Boxed<Result<Hold, LockError>>),
}

impl LockInfo {
    /// A lock with its nodes in this directory, and with those default options of its session that
    /// this mode supports.
    pub(crate) fn new(
        session: &Session,
        name: LockName,
        mode: Mode,
        (directory, driver): (ZnodePath, Arc<dyn LockDriver>),
    ) -> Self {
        let settings = session.settings().of_session(mode);
        let (session, label) = (session.clone(), label(&settings));
        LockInfo { session, name, directory, driver, settings, flaw: None, misfit: None, label }
    }

    /// Sets options of a lock that is acquired in this mode.
    pub(crate) fn set(&mut self, options: &LockOptions, mode: Mode) {
        self.settings = self.settings.with(options);
        self.label = label(&self.settings);
        let checked = self.settings.check(mode, self.session.settings());
        self.flaw = checked.err().map(|error| self.on(error));
    }

    /// What is wrong with its layout or its options, which is the error of every acquire.
    pub(crate) fn flaw(&self) -> Option<&LockError> {
        self.misfit.as_ref().or(self.flaw.as_ref())
    }

    /// Returns the name of the lock.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.mutex("orders/create")?.name().as_str(), "orders/create");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the path of the lock's directory; of a semaphore, that of its permits. The path of a
    /// holder's node is [`GuardView::node_path`](crate::guard::view::GuardView::node_path).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// // For `zkCli.sh ls`.
    /// assert_eq!(session.mutex("orders/create")?.path(), "/zklock/orders/create");
    /// assert_eq!(session.semaphore("printers", 3)?.path(), "/zklock/printers/leases");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn path(&self) -> &str {
        self.directory.as_str()
    }

    /// Returns the options in effect: every field is set.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let options = session.mutex("orders")?.options();
    /// assert_eq!((options.retries, options.timeout), (Some(2), Some(Duration::from_secs(2))));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn options(&self) -> LockOptions {
        self.settings.to_options()
    }

    /// Returns the queue of this lock, to look at it without acquiring the lock; of a semaphore, the
    /// queue of its permits.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Kazoo;
    ///
    /// let mutex = session.mutex("imports")?.with_driver(Kazoo::default());
    /// let _guard = mutex.acquire().await?;
    /// assert_eq!(mutex.site().contenders().await?.len(), 1);
    ///
    /// let printers = session.semaphore("printers", 3)?;
    /// let _two = printers.acquire_many(2).await?;
    /// assert_eq!(printers.site().contenders().await?.len(), 2); // One node for each permit.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn site(&self) -> Site {
        let (directory, driver) = (self.directory.clone(), self.driver.clone());
        Site::at(&self.session, self.name.clone(), directory, driver)
    }

    /// A wait for replies only, not for other contenders. Refused with `linger`: to a try in
    /// another process, a lingering node looks held.
    pub(crate) fn once(&self) -> Result<Wait, LockError> {
        // A semaphore with `linger` is not acquired in any way.
        if self.settings.linger.is_zero() || self.flaw().is_some() {
            return Ok(Wait::Once(self.settings.timeout));
        }
        let why = "a lock with `linger` cannot be tried: its idle node looks held to tries in \
                   other processes; use `acquire_timeout`, or remove `linger`";
        Err(self.error(ErrorKind::InvalidOption, why))
    }

    /// A wait of at most `timeout`.
    pub(crate) fn within(&self, timeout: Duration) -> Result<Wait, LockError> {
        Wait::within(timeout).map_err(|error| self.on(error))
    }

    /// A wait with the tries of the options.
    pub(crate) fn tries(&self) -> Wait {
        Wait::Tries(self.settings.timeout, self.settings.retries)
    }

    /// An error that names this lock.
    pub(crate) fn error(&self, kind: ErrorKind, detail: &str) -> LockError {
        self.on(LockError::new(kind, detail))
    }

    /// The error, with the name of this lock.
    pub(crate) fn on(&self, error: LockError) -> LockError {
        error.on(self.name.to_shared())
    }

    /// The span of an acquire, if somebody wants it.
    pub(crate) fn span(&self, mode: Mode, asking: &Asking) -> Option<Acquiring> {
        let began = (asking.since, asking.wait.one_try());
        Acquiring::begin((&self.name, mode), self.session.clock(), began)
    }

    /// How an acquire waits that has joined a queue.
    pub(crate) fn waits<E: Engine>(
        &self,
        asking: Asking,
        span: Option<Acquiring>,
        (joined, perhaps): (Joined<E>, Option<Perhaps>),
    ) -> Waits<E> {
        let (Asking { who, wait, since, .. }, limit) = (asking, self.settings.warn_waiting);
        let warns = limit < Duration::MAX && matches!(joined, Joined::Waits(_));
        if perhaps.is_none() && span.is_none() && !warns {
            return Waits::Usual(joined);
        }
        let (lock, label) = (self.name.to_shared(), self.label.clone());
        let slow = Slow { lock, who, label, since, limit };
        let clock = self.session.clock().clone();
        Waits::Rare(Box::pin(async move {
            let waiting = slow.waiting(&clock, telling(perhaps, who, wait.wait(joined)));
            match span {
                None => waiting.await,
                Some(span) => span.around(waiting, Hold::as_granted).await,
            }
        }))
    }

    /// The guard of a new grant.
    pub(crate) fn guard<K: Kind>(&self, hold: Hold, unscoped: bool) -> Result<Guard<K>, LockError> {
        Guard::granted(hold, &self.settings, unscoped).map_err(|error| self.on(error))
    }

    /// Tells the observers how an acquire ended.
    pub(crate) fn ended<K: Kind>(
        &self,
        result: Result<Guard<K>, LockError>,
        began: (Instant, impl Into<Option<Duration>>),
    ) -> Result<Guard<K>, LockError> {
        if let Ok(guard) = &result {
            guard.begin_span();
        }
        let end = || result.as_ref().map(Guard::as_granted).map_err(LockError::clone);
        self.session.tell_end((&self.name, K::MODE), end, began);
        result
    }
}

/// The label, if there is one, for the waiters of a handle.
fn label(settings: &Settings) -> Option<Arc<str>> {
    (!settings.label.is_empty()).then(|| Arc::from(&*settings.label))
}
