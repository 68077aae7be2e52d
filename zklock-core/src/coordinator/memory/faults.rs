//! Fault injection, for tests.

use std::sync::Arc;
use std::time::Duration;

use super::coordinator::Embedded;
use super::fault::{Fault, Logged};
use super::late::Late;
use super::session::{Hold, Session};
use super::state::State;
use super::store::Store;
use crate::base::clock::Instant;
use crate::coordinator::request_error::RequestError;

/// Injects faults into one session of an [`Embedded`] store. All of them take effect at once, on
/// the clock of the caller; they have no effect on a session that is over.
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
    /// Returns a handle to inject faults into a session.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// if let Some(present) = session.zookeeper_session() {
    ///     store.faults(present.id).expire();
    /// }
    /// assert!(!guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn faults(&self, session_id: i64) -> Faults {
        Faults { store: self.store.clone(), session: session_id }
    }

    /// Returns the ids of the store's sessions, the oldest first.
    ///
    /// ```
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let id = session.zookeeper_session().map(|one| one.id);
    /// assert_eq!(store.sessions().first().copied(), id);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn sessions(&self) -> Vec<i64> {
        self.store.access(|state, _| state.sessions.keys().copied().collect())
    }

    /// Makes every attempt to open a session fail with `error`, until
    /// [`end_outage`](Embedded::end_outage). The sessions that are open stay so.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Embedded, Session};
    /// use zklock::driver::RequestError;
    ///
    /// let store = Embedded::new();
    /// store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    /// let outcome = Session::embedded_builder(&store).connect().await;
    /// assert!(outcome.is_err_and(|error| error.is_unavailable()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn begin_outage(&self, error: RequestError) {
        self.store.access(|state, _| state.outage = Some(error));
    }

    /// Lets sessions be opened again.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Embedded, Session};
    /// use zklock::driver::RequestError;
    ///
    /// let store = Embedded::new();
    /// store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    /// store.end_outage();
    /// assert!(Session::embedded_builder(&store).connect().await?.is_ready());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn end_outage(&self) {
        self.store.access(|state, _| state.outage = None);
    }

    /// Delays replies: each request takes up to half of `most` before it takes effect, and its
    /// reply up to half of `most` on the way back. A test can show in this way what happens only
    /// while a reply is pending, or when two requests are applied in another order than they were
    /// sent in.
    ///
    /// From now on this affects all sessions of the store, and connecting; zero ends the delays.
    /// The guarantees of a server remain: the requests of one session are applied in order, its
    /// replies come in order, and it receives an event before the reply to a later read. Different
    /// sessions do not wait for each other. The delays follow from `seed`, so a test on one thread
    /// under paused time runs the same way again; print the seed when a test fails. There is no
    /// background task, and each waiter holds its own timer, so this works under paused time, in
    /// several runtimes, and outside of any. Do not block the thread of a paused runtime in which a
    /// reply is awaited: its clock would stand still.
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
    /// // Without the delay, the lock would be granted at the first poll.
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

    /// Starts a log of all requests that are sent, and clears the previous log.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// drop(session.mutex("orders")?.acquire().await?);
    /// store.record();
    /// assert!(store.recorded().is_empty()); // Only requests from now on.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn record(&self) {
        self.store.access(|state, _| state.log = Some(Vec::new()));
    }

    /// Returns the log since [`record`](Embedded::record), in the order of arrival.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::testing::Op;
    ///
    /// drop(session.mutex("orders")?.acquire().await?); // Creates the directories.
    /// store.record();
    /// session.mutex("orders")?.acquire().await?.release().await?;
    /// let count = |op| store.recorded().iter().filter(|one| one.op == op).count();
    /// assert_eq!((count(Op::Create), count(Op::Children), count(Op::Delete)), (1, 1, 1));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn recorded(&self) -> Vec<Logged> {
        self.store.access(|state, _| state.log.clone().unwrap_or_default())
    }

    /// Returns the number of watch events that all sessions of the store have received.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let mut events = session.site("orders")?.events();
    /// let _joined = events.next().await; // Sets a watch on the queue.
    /// guard.release().await?;
    /// assert!(store.watch_events() >= 1);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn watch_events(&self) -> u64 {
        self.store.access(|state, _| state.sessions.values().map(|session| session.events).sum())
    }

    /// Sets the sequence number of the next sequential child of the node at `path`.
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
    /// [`RequestError::NoNode`] if there is no such node.
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), RequestError> {
        self.store.access(|state, _| state.tree.set_sequence(path, next))
    }
}

impl Faults {
    fn act(&self, f: impl FnOnce(&mut State, i64, Instant)) {
        self.store.access(|state, now| f(state, self.session, now));
    }

    fn change(&self, change: impl FnOnce(&mut Session)) {
        self.act(|state, id, _| {
            if let Some(session) = state.sessions.get_mut(&id) {
                change(session);
            }
        });
    }

    /// Breaks the connection. Requests in flight fail with a lost connection, and later ones wait.
    /// The server ends the session after the session timeout, the client after 7/5 of it.
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
    /// connected; after 4/15 of the session timeout it notices, and continues as after
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
    /// assert!(guard.remaining() < earlier); // The lease is no longer extended.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn silence(&self) {
        self.act(State::silence);
    }

    /// Restores the connection. Requests that waited are sent in order, and watches whose event was
    /// missed fire. If the server has ended the session, the client learns that it expired.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let faults = store.faults(store.sessions()[0]);
    /// faults.disconnect();
    /// faults.reconnect(); // Before the session timeout.
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn reconnect(&self) {
        self.act(State::reconnect);
    }

    /// Expires the session on the server. The client learns it at once, or when it is connected
    /// again.
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

    /// Freezes the server for this session: requests are neither applied nor answered until
    /// [`release`](Faults::release). The client believes all the time that it is connected: guards are
    /// invalid when their lease has run out, but `lost()` does not wake anybody before the release. For a
    /// test of `lost()`, use [`silence`](Faults::silence): that is what a frozen server looks like to a
    /// real client.
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

    /// Applies requests, but holds back their replies and all watch events until
    /// [`release`](Faults::release). Guards behave as with [`hold_requests`](Faults::hold_requests).
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

    /// Ends the effect of [`hold_requests`](Faults::hold_requests) and
    /// [`hold_replies`](Faults::hold_replies).
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
        self.change(|session| session.travel.delay = delay);
    }

    /// Adds a fault for chosen requests.
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
        self.change(|session| session.faults.push(fault));
    }

    /// Removes the faults that have not taken effect yet.
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
        self.change(|session| session.faults.clear());
    }

    /// Returns the number of watch events that this session has received.
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

    /// Returns the number of watches of this session that have not fired.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// assert_eq!(store.faults(store.sessions()[0]).pending_watches(), 1); // On its own node.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn pending_watches(&self) -> usize {
        self.store.access(|state, _| state.watches.pending(self.session))
    }
}
