//! The session that users hold.

use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
#[cfg(feature = "metrics")]
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::base::clock::{Clock, Instant};
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::first::all;
use crate::base::mode::Mode;
use crate::base::on_drop::OnDrop;
use crate::base::options::LockOptions;
use crate::base::session_state::SessionState;
use crate::base::settings::Settings;
use crate::base::times;
use crate::base::unharmed::{unharmed, unharming};
use crate::coordinator::io_thread::IoThread;
use crate::layout::driver::LockDriver;
use crate::name::lock_name::LockName;
use crate::name::path::ZnodePath;
use crate::observe::observer::{Event, Events, Granted, tries};
use crate::session::generation::Generation;
use crate::session::lane::{Lane, LaneConfig, LanePermit, Status, closed};
use crate::session::lanes::Lanes;
use crate::session::local_queues::{LocalContender, LocalQueues};
use crate::session::runtime::Runtime;
use crate::session::spawner::Spawner;
use crate::session::timing::Timing;

/// A connection to ZooKeeper that outlives ZooKeeper's own sessions. When a ZooKeeper session
/// expires, its locks are lost, and the session opens the next one.
///
/// Cloning is cheap, and the clones share one session. The session lives as long as one of its
/// clones, locks or guards, and closes in the background after the last of them is dropped. A
/// process should call [`close`](Session::close) before it exits: it ends the session at once, and
/// waits for at most five seconds until the nodes of released locks are deleted.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::Session;
///
/// let session = Session::embedded();
/// session.mutex("orders")?.acquire().await?.release().await?;
/// session.close().await;
/// assert!(!session.is_ready());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    id: u64,
    lanes: Arc<Lanes>,
    about: About,
}

/// What the locks of a session have in common.
#[derive(Debug)]
pub struct About {
    /// The node below which they are.
    pub root: ZnodePath,
    /// The application's name.
    pub app: Option<Arc<str>>,
    /// Their default options.
    pub settings: Settings,
    /// Their layout.
    pub driver: Arc<dyn LockDriver>,
}

/// A session that lives only as long as others use it.
#[cfg(feature = "metrics")]
#[derive(Clone, Debug)]
pub struct WeakSession(Weak<Inner>);

#[cfg(feature = "metrics")]
impl WeakSession {
    /// The session, if it lives.
    pub fn upgrade(&self) -> Option<Session> {
        self.0.upgrade().map(Session)
    }

    /// Whether it lives.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Session {
    /// Starts a session, whose lanes may have a thread; it connects in the background.
    pub(crate) fn start(lane_config: LaneConfig, io: Option<IoThread>, about: About) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Before the lanes: an embedded session is connected once its lane has started.
        let mut states = lane_config.health.state().subscribe();
        let events = lane_config.events.clone();
        let lanes = Arc::new(Lanes::start(lane_config, io));
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        lanes.first().spawner().spawn(async move {
            while states.changed().await.is_ok() {
                let state = *states.borrow_and_update();
                unharmed(|| tracing::info!(%state, id, "the session is in a new state"));
                events.tell(|| Event::State { state });
            }
        });
        Session(Arc::new(Inner { id, lanes, about }))
    }

    /// Waits for the first outcome of connecting.
    pub(crate) async fn first_contact(&self) -> Result<(), LockError> {
        let mut status = self.lane().status();
        let first = status.wait_for(|status| !matches!(status, Status::Connecting(None))).await;
        match first.as_deref() {
            Ok(Status::Ready(_)) => Ok(()),
            Ok(Status::Connecting(Some(error)) | Status::Refused(error)) => Err(error.clone()),
            _ => Err(closed()),
        }
    }

    /// Returns a number that no other session of this process has.
    ///
    /// ```
    /// use zklock::Session;
    ///
    /// let session = Session::embedded();
    /// assert_eq!(session.clone().id(), session.id());
    /// assert_ne!(Session::embedded().id(), session.id());
    /// ```
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The first lane, for reads and for tasks that exist once per session.
    pub(crate) fn lane(&self) -> &Arc<Lane> {
        self.0.lanes.first()
    }

    /// A lane that can serve a request now, if there is one, and is not closed because it is idle while the permit is
    /// there.
    pub(crate) fn served(&self) -> LanePermit {
        self.0.lanes.served()
    }

    /// The generation that has this ZooKeeper session, if a lane still uses it.
    pub(crate) fn generation_of(&self, session: i64) -> Option<Arc<Generation>> {
        let mut generations = self.generations().into_iter();
        generations.find(|generation| generation.coordinator().session_id() == session)
    }

    /// The same session, without keeping it.
    #[cfg(feature = "metrics")]
    pub(crate) fn downgrade(&self) -> WeakSession {
        WeakSession(Arc::downgrade(&self.0))
    }

    /// The ZooKeeper sessions that are not closed yet.
    pub(crate) fn generations(&self) -> Vec<Arc<Generation>> {
        self.0.lanes.all().iter().flat_map(|lane| lane.living()).collect()
    }

    fn config(&self) -> &LaneConfig {
        self.0.lanes.config()
    }

    /// Assigns a lane to an acquire.
    pub(crate) fn assign(&self) -> LanePermit {
        self.0.lanes.assign()
    }

    /// Whether a lane has room for another node, or has no session yet.
    pub(crate) fn may_have_room(&self) -> bool {
        self.0.lanes.may_have_room()
    }

    /// Tells the observers how an acquire ended.
    pub(crate) fn tell_end(
        &self,
        (name, mode): (&LockName, Mode),
        end: impl FnOnce() -> Result<Granted, LockError>,
        (since, one_try): (Instant, impl Into<Option<Duration>>),
    ) {
        self.events().tell(|| {
            let (lock, waited) = (name.to_shared(), self.clock().now().since(since));
            match end() {
                Ok(granted) => {
                    let tries = tries(waited, one_try.into());
                    Event::acquired(lock, mode, granted, (waited, tries))
                }
                Err(error) => {
                    let pattern = name.pattern();
                    Event::NotAcquired { lock, pattern, mode, error, waited }
                }
            }
        });
    }

    /// Tells the observers that a caller dropped its future, which has waited since then.
    pub(crate) fn tell_cancelled(
        &self,
        (lock, pattern): (Arc<str>, &'static str),
        mode: Mode,
        since: Instant,
    ) {
        self.events().tell(|| {
            let waited = self.clock().now().since(since);
            Event::Cancelled { lock, pattern, mode, waited }
        });
    }

    /// The locks that the session has in use.
    pub(crate) fn local_queues(&self) -> &Arc<LocalQueues> {
        &self.config().local_queues
    }

    /// Runs background tasks.
    pub(crate) fn spawner(&self) -> &Spawner {
        self.lane().spawner()
    }

    /// The receivers of events.
    pub(crate) fn events(&self) -> &Events {
        &self.config().events
    }

    /// Provides tasks, clock and random numbers.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.config().runtime
    }

    /// The clock of deadlines and leases.
    pub(crate) fn clock(&self) -> &Clock {
        self.runtime().clock()
    }

    /// Returns the node below which the locks of this session are.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.root().as_str(), "/zklock");
    /// ```
    pub fn root(&self) -> &ZnodePath {
        &self.0.about.root
    }

    /// Returns the application's name that the session was given. `None` if it was given none: then others see the
    /// name of the program.
    ///
    /// ```
    /// use zklock::{Embedded, Session};
    ///
    /// let session = Session::embedded_builder(&Embedded::new()).app("orders").open()?;
    /// assert_eq!(session.app(), Some("orders"));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn app(&self) -> Option<&str> {
        self.0.about.app.as_deref()
    }

    /// The application's name, to keep.
    pub(crate) fn shared_app(&self) -> Option<&Arc<str>> {
        self.0.about.app.as_ref()
    }

    /// Returns the default options of the session's locks: every field is set.
    ///
    /// ```
    /// let defaults = zklock::Session::embedded().defaults();
    /// assert_eq!((defaults.retries, defaults.linger), (Some(2), Some(std::time::Duration::ZERO)));
    /// ```
    pub fn defaults(&self) -> LockOptions {
        self.0.about.settings.to_options()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.about.settings
    }

    /// Returns the layout of the session's locks, which a single lock may override.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let contender = session.driver().parse("_c_7-lock-0000000004");
    /// assert_eq!(contender.map(|contender| contender.sequence), Some(4));
    /// ```
    pub fn driver(&self) -> &Arc<dyn LockDriver> {
        &self.0.about.driver
    }

    /// Returns the state of the session: of several
    /// [connections](crate::session::SessionBuilder::max_connections), that of the worst.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionState;
    ///
    /// assert_eq!(session.state(), SessionState::Connected);
    /// ```
    pub fn state(&self) -> SessionState {
        *self.config().health.state().borrow()
    }

    /// Returns a stream of the session's states: the present one first, then each new one. If
    /// states follow each other faster than they are read, only the latest is delivered.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionState;
    ///
    /// let mut states = session.states();
    /// assert_eq!(states.next().await, Some(SessionState::Connected));
    /// session.close().await;
    /// assert_eq!(states.next().await, Some(SessionState::Closed));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn states(&self) -> States {
        States { receiver: self.config().health.state().subscribe(), first: true }
    }

    /// Returns whether a lock can be granted now; for health checks. True if the session is not
    /// draining, and one of its connections is up. So it may be true while the
    /// [state](Session::state) is not connected: that is the state of the worst connection.
    ///
    /// ```
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let status = |session: &zklock::Session| if session.is_ready() { 200 } else { 503 };
    /// assert_eq!(status(&session), 200);
    /// locks.begin_outage();
    /// assert_eq!(status(&session), 503);
    /// ```
    pub fn is_ready(&self) -> bool {
        let over = matches!(self.state(), SessionState::Draining | SessionState::Closed);
        !over && self.0.lanes.all().iter().any(|lane| lane.is_connected())
    }

    /// Returns the present ZooKeeper session; of several
    /// [connections](crate::session::SessionBuilder::max_connections), that of the first. `None` while
    /// there is none.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// if let Some(present) = session.zookeeper_session() {
    ///     println!("0x{:x}", present.id); // As `zkCli.sh stat` prints an ephemeral owner.
    ///     assert_eq!(present.number, 1);
    /// }
    /// ```
    pub fn zookeeper_session(&self) -> Option<ZooKeeperSession> {
        let generation = self.lane().current()?;
        let (id, number) = (generation.coordinator().session_id(), generation.number());
        Some(ZooKeeperSession { id, number })
    }

    /// Returns the times on which the safety of the session's locks is based, as the server granted
    /// them. Of several connections, that of the first. `None` while there is no ZooKeeper session.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// if let Some(timing) = session.timing() {
    ///     // A deletion of the node by somebody else is noticed within this time.
    ///     assert_eq!(timing.heartbeat, timing.session_timeout / 6);
    /// }
    /// ```
    pub fn timing(&self) -> Option<Timing> {
        Some(self.lane().current()?.lease().timing())
    }

    /// Returns the callers of this process that hold a lock of this session or wait for one, whatever the
    /// lock; who has held or waited for the longest time is first.
    ///
    /// It reads memory only, and asks nobody. [`Site::contenders`](crate::inspect::Site::contenders) of a lock
    /// asks ZooKeeper, and returns the nodes of all processes in its queue: callers of one process that
    /// share a node are one there, and one that waits in memory only is not among them.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// for one in session.local_contenders() {
    ///     let does = if one.holds { "holds" } else { "waits for" };
    ///     println!("{} {does} {}, {} ms", one.caller, one.lock, one.elapsed.as_millis());
    /// }
    /// assert_eq!(session.local_contenders().len(), 1);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn local_contenders(&self) -> Vec<LocalContender> {
        self.local_queues().contenders()
    }

    /// Stops granting locks; for SIGTERM. Waiters fail at once with
    /// [`Closing`](crate::base::error_kind::ErrorKind::Closing), and holders may finish within `limit`.
    /// Returns those that are left after that. A lock that is lost meanwhile is not waited for. A body
    /// may still acquire its own lock again (but no further permits of a semaphore); any other acquire
    /// in it fails with `Closing`, too.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// let left = session.drain(Duration::from_millis(10)).await;
    /// assert_eq!(&*left[0].lock, "orders");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the session draining.
    pub async fn drain(&self, limit: Duration) -> Vec<LocalContender> {
        self.enter(SessionState::Draining);
        let empty = self.local_queues().until_empty();
        let _ = Deadline::after(self.clock().clone(), limit).bound(empty).await;
        self.local_contenders()
    }

    /// Closes the session, within five seconds. No lock is granted any more, held locks are lost,
    /// pending deletions are completed, and a connection that is being opened is closed. A plain body,
    /// or one with `on_lost = finish`, goes on without the lock: call [`drain`](Session::drain) first.
    ///
    /// The ZooKeeper session ends before this returns, if the server answers within a second. While a future of a
    /// look at a lock or of a fenced write is under way that is neither polled nor dropped, the client library does
    /// not close it: then it is given up after a session timeout, and expires.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// drop(session.mutex("orders")?.acquire().await?);
    /// session.close().await; // The node is gone now.
    /// assert!(session.mutex("orders")?.acquire().await.is_err_and(|error| error.is_closing()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the session closes in the background.
    pub async fn close(&self) {
        self.enter(SessionState::Draining);
        let in_background = OnDrop::new(|| {
            let session = self.clone();
            self.spawner().spawn(async move {
                finish(&session.0.lanes).await;
                session.enter(SessionState::Closed);
            });
        });
        finish(&self.0.lanes).await;
        in_background.disarm();
        self.enter(SessionState::Closed);
    }

    fn enter(&self, next: SessionState) {
        let enters = |state: &mut SessionState| {
            let moves = *state != SessionState::Closed && *state != next;
            if moves {
                *state = next;
            }
            moves
        };
        // A waker of the application may panic.
        unharmed(|| {
            self.config().health.state().send_if_modified(enters);
        });
        self.local_queues().close();
    }

    /// Whether locks are no longer granted.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.state(), SessionState::Draining | SessionState::Closed)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.0.id)
            .field("root", &self.0.about.root)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let lanes = self.lanes.clone();
        // The threads end with this task, after the last deletion.
        self.lanes.first().spawner().spawn(async move { finish(&lanes).await });
    }
}

/// Completes the pending deletions, then closes the ZooKeeper sessions.
async fn finish(lanes: &Lanes) {
    let limit = Deadline::after(lanes.config().runtime.clock().clone(), times::FLUSH);
    let ending = lanes.complete().into_iter().map(|lane| {
        let limit = &limit;
        async move {
            lane.end(limit).await;
            Ok::<_, Infallible>(())
        }
    });
    // No branch fails: each ends by itself, or at the limit.
    drop(all(ending).await);
}

/// One of ZooKeeper's own sessions, which a [`Session`] opens one after the other. Returned by
/// [`Session::zookeeper_session`].
///
/// ```
/// # let session = zklock::Session::embedded();
/// use zklock::ZooKeeperSession;
///
/// let is_first = |one: ZooKeeperSession| one.number == 1;
/// assert!(session.zookeeper_session().is_some_and(is_first));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ZooKeeperSession {
    /// Its id, which owns the nodes that are created in it.
    pub id: i64,
    /// Its number among those that its connection has opened one after the other, from 1.
    pub number: u64,
}

/// The states of a session, one after the other. Returned by [`Session::states`].
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::SessionState;
///
/// let mut states = session.states();
/// # session.close().await;
/// while let Some(state) = states.next().await {
///     println!("{state}");
///     if state == SessionState::Closed {
///         break;
///     }
/// }
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct States {
    receiver: watch::Receiver<SessionState>,
    first: bool,
}

impl States {
    /// Returns the next state, or `None` once the session is gone.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionState;
    ///
    /// assert_eq!(session.states().next().await, Some(SessionState::Connected));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped future loses no state.
    pub async fn next(&mut self) -> Option<SessionState> {
        if !std::mem::take(&mut self.first) {
            unharming(pin!(self.receiver.changed())).await.ok()?;
        }
        Some(*self.receiver.borrow_and_update())
    }
}
