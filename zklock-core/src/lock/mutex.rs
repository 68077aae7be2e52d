//! The mutex.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::acquire::Target;
use crate::clock::Instant;
use crate::context;
use crate::deadline::Deadline;
use crate::error::{ErrorKind, LockError};
use crate::guard::MutexGuard;
use crate::inspect::site::Site;
use crate::key::LockName;
use crate::local::possession::{Hold, Possession};
use crate::local::queue::Queue;
use crate::local::state::Habits;
use crate::local::wait::{Wait, wait};
use crate::mode::Mode;
use crate::observer::Event;
use crate::options::LockOptions;
use crate::path::ZnodePath;
use crate::policy::Handoffs;
use crate::recipe::driver::{LockDriver, check};
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
pub struct Mutex {
    session: Session,
    name: LockName,
    directory: ZnodePath,
    options: LockOptions,
    driver: Arc<dyn LockDriver>,
    queue: OnceLock<Arc<Queue>>,
}

impl Mutex {
    /// A mutex of a session, with the session's defaults.
    pub fn new(session: &Session, name: LockName) -> Self {
        let directory = name.under(session.root());
        let (session, options) = (session.clone(), session.defaults());
        let driver = session.driver().clone();
        Mutex { session, name, directory, options, driver, queue: OnceLock::new() }
    }

    /// Sets all options at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for zero tries or a zero timeout.
    pub fn with_options(mut self, options: LockOptions) -> Result<Self, LockError> {
        options.check().map_err(|error| error.on(self.name.to_shared()))?;
        self.options = options;
        Ok(self)
    }

    /// Whether this lock may be acquired again inside its own scope; it may by default. If not,
    /// that is a [deadlock](ErrorKind::Deadlock), reported at once.
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.options = self.options.reentrant(reentrant);
        self
    }

    /// How this lock is laid out in ZooKeeper, where that is not as its session says.
    ///
    /// ```
    /// # fn example() -> Result<(), zklock_core::error::LockError> {
    /// # let session = zklock_core::session::Session::embedded();
    /// use zklock_core::layout::Kazoo;
    ///
    /// let beside_python = session.mutex("imports")?.driver(Kazoo::default())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for a driver that does not read its own names, or names nodes in
    /// a way that ZooKeeper refuses; [`ErrorKind::Unsupported`] for one without mutexes.
    pub fn driver(mut self, driver: impl LockDriver) -> Result<Self, LockError> {
        check(&driver, Mode::Mutex).map_err(|error| error.on(self.name.to_shared()))?;
        self.driver = Arc::new(driver);
        self.queue = OnceLock::new();
        Ok(self)
    }

    /// Its queue, to look at.
    pub fn site(&self) -> Site {
        Site::new(&self.session, self.name.clone(), self.driver.clone())
    }

    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The path of its directory.
    pub fn path(&self) -> &str {
        self.directory.as_str()
    }

    /// The options.
    pub fn options(&self) -> LockOptions {
        self.options
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
        self.enter(Who::task(), Wait::Forever, true).await
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
        self.check_try()?;
        self.enter(Who::task(), Wait::Once(self.options.try_timeout()), true).await
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
        self.options.timeout(timeout).check().map_err(|error| error.on(self.name.to_shared()))?;
        self.enter(Who::task(), Wait::Tries(timeout, 1), true).await
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
        self.enter(Who::task(), self.tries(), true).await
    }

    /// A node that lingers looks held to a try elsewhere, so the two do not go together.
    pub(crate) fn check_try(&self) -> Result<(), LockError> {
        if self.options.linger_time().is_zero() {
            return Ok(());
        }
        let why = "a lock that lingers cannot be tried: its idle node looks held to tries in other \
                   processes; use `acquire_timeout`, or do not linger";
        Err(self.error(ErrorKind::InvalidOption, why))
    }

    pub(crate) fn tries(&self) -> Wait {
        Wait::Tries(self.options.try_timeout(), self.options.tries())
    }

    /// Whether the calls around the caller hold this lock and it is still valid: not whether some
    /// other task of this process does.
    pub fn is_held_here(&self) -> bool {
        context::find(|possession| self.is_of(possession))
            .is_some_and(|f| f.possession().is_valid())
    }

    fn is_of(&self, possession: &Possession) -> bool {
        let queue = possession.queue();
        queue.session().id() == self.session.id() && queue.path() == self.path()
    }

    /// Acquires, nested or in the queue.
    pub(crate) async fn enter(
        &self,
        who: Who,
        how: Wait,
        unscoped: bool,
    ) -> Result<MutexGuard, LockError> {
        let started = self.session.clock().now();
        let result = match context::find(|possession| self.is_of(possession)) {
            Some(frame) => self.nest(&frame, how).await,
            None => self.queue_up(who, how, unscoped, started).await,
        };
        let events = self.session.events();
        match &result {
            Ok(guard) => events.tell(|| Event::Acquired {
                lock: self.name.to_shared(),
                token: guard.fencing_token(),
                waited: self.session.clock().now().since(started),
            }),
            Err(error) => events
                .tell(|| Event::NotAcquired { lock: self.name.to_shared(), error: error.clone() }),
        }
        result
    }

    async fn queue_up(
        &self,
        who: Who,
        how: Wait,
        unscoped: bool,
        now: Instant,
    ) -> Result<MutexGuard, LockError> {
        let hold = if self.options.is_fair() {
            wait(&self.own_queue()?, who, how, self.habits(), now).await?
        } else {
            wait(self.queue()?, who, how, self.habits(), now).await?
        };
        if let Some(possession) = hold.possession() {
            possession.set_unscoped(unscoped);
        }
        self.guard(hold, None)
    }

    /// A nested acquire: takes its turn among its siblings, not in the queue.
    async fn nest(&self, frame: &context::Frame, how: Wait) -> Result<MutexGuard, LockError> {
        if !self.options.is_reentrant() {
            return Err(self.error(ErrorKind::Deadlock, "it is held by a call around this one"));
        }
        let slot = match how {
            Wait::Forever => frame.take_slot().await,
            Wait::Once(_) => frame.try_take_slot(),
            Wait::Tries(timeout, tries) => {
                let all = timeout.saturating_mul(tries);
                let deadline = Deadline::after(self.session.clock().clone(), all);
                deadline.bound(frame.take_slot()).await.ok().flatten()
            }
        };
        let Some(slot) = slot else {
            let holder = frame.possession().queue().holder_here(None);
            let busy = self.error(ErrorKind::Busy, "by another call nested in the same scope");
            return Err(busy.held_by(holder));
        };
        if !frame.possession().lease().is_valid() {
            return Err(frame.possession().lost_error());
        }
        match frame.hold_again() {
            Some(hold) => self.guard(hold, Some(slot)),
            None => Err(frame.possession().lost_error()),
        }
    }

    fn guard(
        &self,
        hold: Hold,
        slot: Option<tokio::sync::OwnedSemaphorePermit>,
    ) -> Result<MutexGuard, LockError> {
        let lost = || self.error(ErrorKind::Lost, "it was lost while it was granted");
        MutexGuard::new(hold, slot).ok_or_else(lost)
    }

    fn error(&self, kind: ErrorKind, detail: &str) -> LockError {
        LockError::new(kind, detail).on(self.name.to_shared())
    }

    fn habits(&self) -> Habits {
        if self.options.is_fair() {
            return Habits { handoffs: Handoffs::NONE, linger: Duration::ZERO };
        }
        let (handoffs, linger) = (self.options.handoff_bound(), self.options.linger_time());
        Habits { handoffs, linger }
    }

    /// The queue of this lock in this process, looked up once for this handle.
    fn queue(&self) -> Result<&Arc<Queue>, LockError> {
        match self.queue.get() {
            Some(queue) => Ok(queue),
            None => {
                let queue = Queue::of(&self.session, self.target())?;
                Ok(self.queue.get_or_init(|| queue))
            }
        }
    }

    /// A queue for one acquire of a fair lock.
    fn own_queue(&self) -> Result<Arc<Queue>, LockError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // It stays empty, and finds whoever uses this lock in another layout.
        self.queue()?;
        // No path contains a NUL.
        let key = format!("{}\0{}", self.path(), NEXT.fetch_add(1, Ordering::Relaxed));
        let make = |key| Queue::new(self.session.clone(), self.target(), key);
        Ok(self.session.shelf().resident(&key, make))
    }

    fn target(&self) -> Target {
        Target {
            lane: self.session.lane().clone(),
            lock: self.name.to_shared(),
            directory: self.directory.clone(),
            app: self.session.app().map(Arc::from),
            driver: self.driver.clone(),
            vanished: self.options.vanished_policy(),
        }
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
