//! The handles that break things, for tests.

use std::sync::Arc;
use std::time::Duration;

use super::coordinator::Embedded;
use super::fault::{Fault, Logged};
use super::late::Late;
use super::session::Hold;
use super::state::State;
use super::store::Store;
use crate::base::clock::Instant;
use crate::coordinator::traits::RequestError;

/// Breaks one session of an [`Embedded`] store. Everything takes effect at once, on the clock of
/// the caller; on a session that is over nothing does.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let store = zklock::Embedded::new();
/// # let session = zklock::Session::embedded_builder(&store).open()?;
/// let faults = store.faults(store.sessions()[0]);
/// let guard = session.mutex("orders")?.acquire().await?;
/// faults.expire();
/// guard.lost().await;
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Faults {
    store: Arc<Store>,
    session: i64,
}

impl Embedded {
    /// Returns the handle that breaks a session.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// if let Some((id, _)) = session.zookeeper_session() {
    ///     store.faults(id).expire();
    /// }
    /// assert!(!guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn faults(&self, session_id: i64) -> Faults {
        Faults { store: self.store.clone(), session: session_id }
    }

    /// Returns the ids of the sessions that the store knows, the oldest first.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let id = session.zookeeper_session().map(|(id, _)| id);
    /// assert_eq!(store.sessions().first().copied(), id);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn sessions(&self) -> Vec<i64> {
        self.store.access(|state, _| state.sessions.keys().copied().collect())
    }

    /// Makes every attempt to open a session fail with `error`, until it is `None` again.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Embedded, Session};
    /// use zklock::driver::RequestError;
    ///
    /// let store = Embedded::new();
    /// store.outage(Some(RequestError::Unreachable("so says the test".to_owned())));
    /// let outcome = Session::embedded_builder(&store).connect().await;
    /// assert!(outcome.is_err_and(|error| error.is_unavailable()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn outage(&self, error: Option<RequestError>) {
        self.store.access(|state, _| state.outage = error);
    }

    /// Lets answers come late: each request takes up to half of `most` until it has an effect, and
    /// its answer up to half of it back. So it shows in a test what only happens while an answer is
    /// under way, and two requests are applied in another order than they were sent.
    ///
    /// All sessions of the store are late from now on, and connecting to it, too; with zero they are
    /// prompt again. What is true of a server stays true: the requests of one session are applied in
    /// order, its answers come in order, and it hears of a change before it gets the answer to a
    /// later read. Different sessions do not wait for each other. The delays follow from `seed`, so
    /// that a test on one thread under paused time runs the same way again: print it when a test
    /// fails. Nothing runs in the background, and the waiters hold the timers, so this works under
    /// paused time, in several runtimes, and outside of any. Do not block the thread of a paused
    /// runtime while an answer is awaited in it: nobody moves its clock then.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use std::time::Duration;
    /// use zklock::{Embedded, Session};
    ///
    /// let store = Embedded::new();
    /// store.answer_late(7, Duration::from_millis(5));
    /// let session = Session::embedded_builder(&store).connect().await?;
    /// let acquiring = session.mutex("orders")?;
    /// let mut acquiring = Box::pin(acquiring.acquire());
    /// // A prompt store would have granted it at the first look.
    /// assert!(futures_lite::future::poll_once(&mut acquiring).await.is_none());
    /// assert!(acquiring.await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn answer_late(&self, seed: u64, most: Duration) {
        self.store.access(|state, _| {
            state.late = Late::new(seed, most);
            for session in state.sessions.values_mut() {
                session.travel.as_late_as(state.late.another());
            }
        });
    }

    /// Starts a log of all requests that are sent, and forgets what was logged before.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// drop(session.mutex("orders")?.acquire().await?);
    /// store.record();
    /// assert!(store.recorded().is_empty()); // Only what comes from now on.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn record(&self) {
        self.store.access(|state, _| state.log = Some(Vec::new()));
    }

    /// Returns what was logged since [`record`](Embedded::record), in the order of arrival.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::Op;
    ///
    /// drop(session.mutex("orders")?.acquire().await?); // Makes the directories.
    /// store.record();
    /// session.mutex("orders")?.acquire().await?.release().await?;
    /// let count = |op| store.recorded().iter().filter(|one| one.op == op).count();
    /// assert_eq!((count(Op::Create), count(Op::Children), count(Op::Delete)), (1, 1, 1));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn recorded(&self) -> Vec<Logged> {
        self.store.access(|state, _| state.log.clone().unwrap_or_default())
    }

    /// Returns how many watch events were delivered to all sessions that the store knows.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let mut events = session.site("orders")?.events();
    /// let _joined = events.next().await; // Watches the queue.
    /// guard.release().await?;
    /// assert!(store.watch_events() >= 1);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn watch_events(&self) -> u64 {
        self.store.access(|state, _| state.sessions.values().map(|session| session.events).sum())
    }

    /// Makes `next` the number of the next sequential child of the node at `path`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::ErrorKind;
    ///
    /// let mutex = session.mutex("orders")?;
    /// drop(mutex.acquire().await?);
    /// assert_eq!(store.set_sequence("/zklock/orders", i32::MAX - 1), Ok(()));
    /// let exhausted = mutex.acquire().await;
    /// assert!(exhausted.is_err_and(|error| error.kind() == ErrorKind::Exhausted));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`RequestError::NoNode`].
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), RequestError> {
        self.store.access(|state, _| state.tree.set_sequence(path, next))
    }
}

impl Faults {
    fn act(&self, f: impl FnOnce(&mut State, i64, Instant)) {
        self.store.access(|state, now| f(state, self.session, now));
    }

    /// Breaks the connection. Requests in flight fail with a lost connection, later ones wait; the
    /// server gives the session up after the session timeout, the client after 7/5 of it.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use std::time::Duration;
    ///
    /// store.faults(store.sessions()[0]).disconnect();
    /// let outcome = session.mutex("orders")?.acquire_timeout(Duration::from_millis(20)).await;
    /// assert!(outcome.is_err_and(|error| error.is_unavailable()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn disconnect(&self) {
        self.act(State::disconnect);
    }

    /// Swallows everything from now on, in both directions. The client still believes that it is
    /// connected; after 2/5 of the session timeout it notices, and goes on as after
    /// [`disconnect`](Faults::disconnect).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// store.faults(store.sessions()[0]).silence();
    /// let earlier = guard.remaining();
    /// # std::thread::sleep(std::time::Duration::from_millis(2));
    /// assert!(guard.remaining() < earlier); // Nothing extends the lease any more.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn silence(&self) {
        self.act(State::silence);
    }

    /// Heals the connection: requests that waited go out in order, and watches that would have
    /// fired do. If the server has given up the session, the client learns that it expired.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let faults = store.faults(store.sessions()[0]);
    /// faults.disconnect();
    /// faults.reconnect(); // Before the session timeout is over.
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn reconnect(&self) {
        self.act(State::reconnect);
    }

    /// Expires the session on the server. The client learns it now, or when it is connected again.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// store.faults(store.sessions()[0]).expire();
    /// assert!(guard.release().await.is_err_and(|error| error.is_lost()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn expire(&self) {
        self.act(State::expire);
    }

    /// Freezes the server towards this session: requests are neither applied nor answered until
    /// [`release`](Faults::release).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use std::time::Duration;
    ///
    /// let faults = store.faults(store.sessions()[0]);
    /// faults.hold_requests();
    /// let mutex = session.mutex("orders")?;
    /// assert!(mutex.acquire_timeout(Duration::from_millis(20)).await.is_err());
    /// faults.release();
    /// assert!(mutex.acquire().await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn hold_requests(&self) {
        self.act(|state, id, now| state.hold(id, Hold::Requests, now));
    }

    /// Applies requests and keeps their replies, and all watch events, back until
    /// [`release`](Faults::release).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use std::time::Duration;
    ///
    /// let faults = store.faults(store.sessions()[0]);
    /// faults.hold_replies();
    /// let mutex = session.mutex("orders")?;
    /// assert!(mutex.acquire_timeout(Duration::from_millis(20)).await.is_err());
    /// faults.release();
    /// assert!(mutex.acquire().await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn hold_replies(&self) {
        self.act(|state, id, now| state.hold(id, Hold::Replies, now));
    }

    /// Lets go what was held back.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let faults = store.faults(store.sessions()[0]);
    /// faults.hold_requests();
    /// std::thread::spawn(move || faults.release());
    /// assert!(session.mutex("orders")?.acquire().await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn release(&self) {
        self.act(State::release);
    }

    /// Applies requests at once and delays replies and watch events by `delay`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use std::time::{Duration, Instant};
    ///
    /// store.faults(store.sessions()[0]).delay_replies(Duration::from_millis(10));
    /// let start = Instant::now();
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// assert!(start.elapsed() >= Duration::from_millis(10));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn delay_replies(&self, delay: Duration) {
        self.act(|state, id, _| {
            if let Some(session) = state.sessions.get_mut(&id) {
                session.travel.delay = delay;
            }
        });
    }

    /// Adds a fault that strikes chosen requests.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::{Fault, Op};
    ///
    /// store.faults(store.sessions()[0]).inject(Fault::lose_reply().on(Op::Create));
    /// assert!(session.mutex("orders")?.acquire().await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn inject(&self, fault: Fault) {
        self.act(|state, id, _| {
            if let Some(session) = state.sessions.get_mut(&id) {
                session.plan.add(fault);
            }
        });
    }

    /// Forgets the faults that did not strike yet.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::Fault;
    /// use zklock::driver::RequestError;
    ///
    /// let faults = store.faults(store.sessions()[0]);
    /// faults.inject(Fault::refuse(RequestError::NoAuth));
    /// faults.clear();
    /// assert!(session.mutex("orders")?.acquire().await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn clear(&self) {
        self.act(|state, id, _| {
            if let Some(session) = state.sessions.get_mut(&id) {
                session.plan.clear();
            }
        });
    }

    /// Returns how many watch events were delivered to this session.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// assert_eq!(store.faults(store.sessions()[0]).watch_events(), 0); // Nobody was ahead.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn watch_events(&self) -> u64 {
        self.store.access(|state, _| state.sessions.get(&self.session).map_or(0, |s| s.events))
    }

    /// Returns how many watches of this session have not seen anything yet.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// assert_eq!(store.faults(store.sessions()[0]).pending_watches(), 1); // Its own node.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn pending_watches(&self) -> usize {
        self.store.access(|state, _| state.watches.pending(self.session))
    }
}
