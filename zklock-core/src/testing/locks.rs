//! Locks for one test: without a server, separate from all other tests, with a record of what was
//! acquired.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::base::block_on::block_on;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::times;
use crate::coordinator::memory::{Embedded, Faults};
use crate::coordinator::request_error::RequestError;
use crate::guard::typed::MutexGuard;
use crate::name::lock_name::{IntoLockName, LockName};
use crate::observe::observer::{Event, Observer};
use crate::session::handle::Session;
use crate::session::registry::{Installed, SessionRegistry};

/// The locks of one test: a default session on an embedded coordinator of its own, which the
/// present tokio runtime sees, or outside of a runtime the present thread. Other tests of the
/// process do not see it; tasks that the test spawns do.
///
/// ```
/// use zklock::testing::TestLocks;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zklock::LockError> {
/// let locks = TestLocks::install();
///
/// zklock::execute("createOrder", || async {}).await?;
/// locks.assert_taken("createOrder");
///
/// // As if another process held it.
/// let held = locks.hold("createOrder")?;
/// # Ok(())
/// # }
/// ```
///
/// Under `#[tokio::test(start_paused = true)]` no real time passes during timeouts.
#[must_use = "the locks are installed until this is dropped"]
pub struct TestLocks {
    sessions: Vec<TestSession>,
    defaults: LockOptions,
    taken: Arc<Taken>,
    expected: Vec<LockName>,
}

struct TestSession {
    name: Option<Arc<str>>,
    store: Embedded,
    session: Session,
    _installed: Installed,
}

impl TestSession {
    /// What can be done to its present ZooKeeper session, if it has one.
    fn faults(&self) -> Option<Faults> {
        Some(self.store.faults(self.session.zookeeper_session()?.id))
    }
}

impl TestLocks {
    /// Installs locks for this test, until the returned value is dropped.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// zklock::execute("orders", || async {}).await?;
    /// assert_eq!(locks.taken(), ["orders"]);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn install() -> Self {
        TestLocks::with_defaults(LockOptions::new())
    }

    /// Installs locks with other default options. See [`install`](TestLocks::install).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::{LockOptions, testing::TestLocks};
    ///
    /// let locks = TestLocks::with_defaults(LockOptions::new().retries(1));
    /// assert_eq!(locks.session().defaults().retries, Some(1));
    /// ```
    pub fn with_defaults(defaults: LockOptions) -> Self {
        let taken = Arc::new(Taken::default());
        let locks = TestLocks { sessions: Vec::new(), defaults, taken, expected: Vec::new() };
        locks.add(None)
    }

    /// Installs a named session as well, for `session = "…"`. Its locks are separate from those of
    /// the default session, and so are its outages and losses.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::{SessionRegistry, testing::TestLocks};
    ///
    /// let _locks = TestLocks::install().and_session("billing");
    /// assert!(SessionRegistry::global().session(Some("billing"))?.is_ready());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn and_session(self, name: impl Into<Arc<str>>) -> Self {
        self.add(Some(name.into()))
    }

    fn add(mut self, name: Option<Arc<str>>) -> Self {
        let store = Embedded::new();
        let observer = self.taken.clone();
        // All calls are on the connection that outages and losses reach.
        let builder = Session::embedded_builder(&store).defaults(self.defaults).max_connections(1);
        let session = match builder.observer(observer).open() {
            Ok(session) => session,
            Err(error) => unreachable!("the options of a session are valid: {error}"),
        };
        let registry = SessionRegistry::global();
        let installed = registry.install_here(name.as_deref(), session.clone());
        self.sessions.push(TestSession { name, store, session, _installed: installed });
        self
    }

    /// Makes the test fail if this lock is not acquired before the value is dropped. The name is
    /// one that [`taken`](TestLocks::taken) returns.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::testing::TestLocks;
    ///
    /// let _locks = TestLocks::install().expecting("orders");
    /// zklock::execute("orders", || async {}).await?; // Without this, the test would fail.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is not accepted as that of a lock.
    #[track_caller]
    pub fn expecting(mut self, name: impl IntoLockName) -> Self {
        self.expected.push(named(name));
        self
    }

    /// Returns the default session.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// assert!(locks.session().mutex("orders")?.acquire().await?.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn session(&self) -> &Session {
        &self.sessions[0].session
    }

    /// Returns the names of the locks that were acquired so far, one for each grant, and those
    /// of each session in the order of its grants: as they are in ZooKeeper, with all values filled in.
    /// Failed acquires are not included.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// for customer in [7, 8] {
    ///     zklock::execute(&format!("orders/{customer}"), || async {}).await?;
    /// }
    /// assert_eq!(locks.taken(), ["orders/7", "orders/8"]);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if some grants may be missing: a record that is 4,096 events behind misses others. A test with so many
    /// calls it in between.
    #[track_caller]
    pub fn taken(&self) -> Vec<String> {
        let gap = self.taken.settle(&self.sessions);
        assert!(gap.is_none(), "{}", gap.unwrap_or_default());
        self.taken.names()
    }

    /// Fails the test if a lock was not acquired so far.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// zklock::execute("orders", || async {}).await?;
    /// locks.assert_taken("orders");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the lock was not acquired, with the names of those that were, and if the name is
    /// not accepted as that of a lock.
    #[track_caller]
    pub fn assert_taken(&self, name: impl IntoLockName) {
        let (name, gap) = (named(name), self.taken.settle(&self.sessions));
        let (taken, but) = (self.taken.names(), gap.map(|why| format!(", but {why}")));
        let but = but.unwrap_or_default();
        assert!(
            taken.iter().any(|lock| *lock == *name.as_str()),
            "`{name}` was not taken; these were: {taken:?}{but}"
        );
    }

    /// Holds a lock of the default session as another process would: it is busy until the returned
    /// guard is dropped.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// let held = locks.hold("orders")?;
    /// let mutex = locks.session().mutex("orders")?;
    /// assert!(mutex.try_acquire().await.is_err_and(|error| error.is_busy()));
    /// drop(held);
    /// assert!(mutex.try_acquire().await.is_ok());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Busy`](crate::base::error_kind::ErrorKind::Busy) if the test itself holds the lock;
    /// [`Unavailable`](crate::base::error_kind::ErrorKind::Unavailable) during an outage;
    /// [`InvalidName`](crate::base::error_kind::ErrorKind::InvalidName) for a name that is not accepted.
    pub fn hold(&self, name: impl IntoLockName) -> Result<MutexGuard, LockError> {
        let other = Session::embedded_builder(&self.sessions[0].store).app("another").open()?;
        let mutex = other.mutex(name)?;
        block_on(mutex.try_acquire())
    }

    /// Asks the holders of a lock of the default session to release it, as another process would,
    /// and returns their number. It finds only locks in the session's layout, and no semaphores;
    /// those have [`Semaphore::site`](crate::lock::LockInfo::site).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// let guard = locks.session().mutex("report")?.acquire().await?;
    /// assert_eq!(locks.revoke("report")?, 1);
    /// guard.revoked().await;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::base::error_kind::ErrorKind::InvalidName) for a name that is not accepted;
    /// [`Unavailable`](crate::base::error_kind::ErrorKind::Unavailable) during an outage.
    pub fn revoke(&self, name: impl IntoLockName) -> Result<usize, LockError> {
        block_on(self.session().site(name)?.revoke())
    }

    /// Ends the ZooKeeper sessions, as the server would: held locks are lost, and the next acquire
    /// uses new sessions.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// let outcome = zklock::execute("orders", || async { locks.lose() }).await;
    /// assert!(outcome.is_err_and(|error| error.is_lost()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lose(&self) {
        self.sessions.iter().filter_map(TestSession::faults).for_each(|faults| faults.expire());
    }

    /// Makes ZooKeeper unreachable, until [`end_outage`](TestLocks::end_outage).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// locks.begin_outage();
    /// assert!(!locks.session().is_ready());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn begin_outage(&self) {
        for one in &self.sessions {
            let gone = RequestError::Unreachable("an outage of the test".to_owned());
            one.store.begin_outage(gone);
            if let Some(faults) = one.faults() {
                faults.disconnect();
            }
        }
    }

    /// Makes ZooKeeper reachable again.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// locks.begin_outage();
    /// locks.end_outage();
    /// zklock::execute("orders", || async {}).await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn end_outage(&self) {
        for one in &self.sessions {
            one.store.end_outage();
            if let Some(faults) = one.faults() {
                faults.reconnect();
            }
        }
    }

    /// Delays ZooKeeper's replies by up to `most`, as `seed` decides, until another call; zero ends it. See
    /// [`Embedded::answer_late`]. Under a paused clock, [hold](TestLocks::hold) locks before that: what blocks a thread
    /// gets no late reply there.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use std::time::Duration;
    /// use zklock::testing::TestLocks;
    ///
    /// let locks = TestLocks::install();
    /// locks.answer_late(7, Duration::from_millis(5));
    /// let mut call = Box::pin(zklock::execute("orders", || async {}));
    /// // Without the delay, the call would end at its first poll.
    /// assert!(futures_lite::future::poll_once(&mut call).await.is_none());
    /// call.await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn answer_late(&self, seed: u64, most: Duration) {
        self.sessions.iter().for_each(|one| one.store.answer_late(seed, most));
    }
}

/// The name of a lock, in an assertion.
#[track_caller]
#[allow(clippy::panic)]
fn named(name: impl IntoLockName) -> LockName {
    name.into_lock_name().unwrap_or_else(|error| panic!("{error}"))
}

impl Drop for TestLocks {
    fn drop(&mut self) {
        // A test that failed already shows its own reason.
        if !thread::panicking() {
            for name in &self.expected {
                self.assert_taken(name);
            }
        }
    }
}

impl fmt::Debug for TestLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sessions: Vec<_> = self.sessions.iter().map(|session| &session.name).collect();
        f.debug_struct("TestLocks").field("sessions", &sessions).finish_non_exhaustive()
    }
}

/// Records the acquired locks. Events arrive on another thread; when a marker that was sent behind
/// them arrives, all of them have arrived.
#[derive(Debug, Default)]
struct Taken {
    names: Mutex<Vec<Arc<str>>>,
    sent: AtomicU32,
    seen: Mutex<Seen>,
    came: Condvar,
}

/// What it has seen beside the acquired locks.
#[derive(Debug, Default)]
struct Seen {
    markers: Vec<u32>,
    /// How many events it has missed.
    missed: u64,
}

/// The marker: no lock has this name.
const MARKER: &str = "";

impl Taken {
    /// Waits for what was sent. Returns why it is not all there, if so.
    fn settle(&self, sessions: &[TestSession]) -> Option<String> {
        for TestSession { session, .. } in sessions {
            let number = self.sent.fetch_add(1, Ordering::Relaxed);
            let marker = || Event::TryEnded {
                lock: Arc::from(MARKER),
                pattern: MARKER,
                mode: Mode::Mutex,
                number,
                holder: None,
            };
            session.events().tell(marker);
            let waits = |seen: &mut Seen| seen.missed == 0 && !seen.markers.contains(&number);
            let waited = self.came.wait_timeout_while(self.seen(), times::TEST_EVENTS, waits);
            let (seen, late) = waited.unwrap_or_else(PoisonError::into_inner);
            if seen.missed > 0 {
                return Some(format!(
                    "{} events were missed: call `taken()` more often",
                    seen.missed
                ));
            }
            if late.timed_out() {
                return Some("the events of a session did not arrive in time".to_owned());
            }
        }
        None
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Vec<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().map(|name| name.to_string()).collect()
    }
}

impl Observer for Taken {
    fn event(&self, event: &Event) {
        match event {
            Event::Acquired { lock, .. } => {
                self.names.lock().unwrap_or_else(PoisonError::into_inner).push(lock.clone());
            }
            Event::TryEnded { lock, number, .. } if &**lock == MARKER => {
                self.seen().markers.push(*number);
                self.came.notify_all();
            }
            Event::Dropped { count } => {
                self.seen().missed += count;
                self.came.notify_all();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_record_that_misses_events_is_not_taken_for_whole() {
        let locks = TestLocks::install();
        // Its observer waits meanwhile, with the first of these events.
        let record = locks.taken.names.lock().unwrap();
        let _held = block_on(locks.session().mutex("orders").unwrap().acquire()).unwrap();
        for _ in 0..10_000 {
            locks.session().events().tell(|| Event::Dropped { count: 0 });
        }
        drop(record);
        let told = catch_unwind(AssertUnwindSafe(|| locks.taken())).unwrap_err();
        let says = told.downcast_ref::<String>().unwrap();
        assert!(says.ends_with("events were missed: call `taken()` more often"), "{says}");
        // What it has is certain.
        locks.assert_taken("orders");
    }
}
