//! A connector of the user's own: here one around the embedded one, which counts the sessions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use zklock::blocking::block_on;
use zklock::driver::{Attempt, Connector, Contender, Coordinator, LockDriver, Reply};
use zklock::layout::{Curator, Kazoo};
use zklock::{Embedded, ErrorKind, Event, Mode, Observer, Session};
use zklock_core::layout::verdict::Verdict;

use crate::support::on;

#[derive(Clone, Debug)]
struct Counting<C>(C, Arc<AtomicUsize>);

impl<C: Connector> Connector for Counting<C> {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.connect()
    }
}

/// Passes heartbeats on.
#[derive(Debug)]
struct Beats(mpsc::Sender<usize>);

impl Observer for Beats {
    fn event(&self, event: &Event) {
        if let Event::Heartbeat { nodes, .. } = event {
            let _ = self.0.send(*nodes);
        }
    }
}

#[tokio::test]
async fn sessions_on_a_connector_of_ones_own_exclude_each_other() {
    let opened = Arc::new(AtomicUsize::new(0));
    let connector = Embedded::new().connector(Duration::from_secs(10));
    let builder = Session::builder_on(Counting(connector, opened.clone()));
    let one = builder.clone().connect().await.unwrap();
    let other = builder.connect().await.unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 2);
    let guard = one.mutex("orders").unwrap().acquire().await.unwrap();
    let mutex = other.mutex("orders").unwrap();
    assert!(mutex.try_acquire().await.unwrap_err().is_busy());
    let waiting = crate::spawn(async move { mutex.acquire().await.map(|guard| guard.is_valid()) });
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap());
}

#[test]
fn a_session_that_has_connected_is_ready() {
    for round in 0..300 {
        let connector = Embedded::new().connector(Duration::from_secs(10));
        let session = block_on(Session::builder_on(connector).connect()).unwrap();
        assert!(session.is_ready(), "round {round}: {}", session.state());
    }
}

/// Panics where it connects, as one that needs a runtime which is not there.
#[derive(Debug)]
struct Panics;

impl Connector for Panics {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        panic!("no reactor")
    }
}

#[test]
fn a_connector_that_cannot_be_used_is_an_error() {
    let error = block_on(Session::builder_on(Panics).connect()).unwrap_err();
    assert!(error.is_unavailable() && format!("{error:#}").contains("panicked"), "{error:#}");
    for timeout in [Duration::ZERO, Duration::MAX] {
        let connector = Embedded::new().connector(timeout);
        let error = block_on(Session::builder_on(connector).connect()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("between 1 ms and 24 days"), "{error}");
    }
}

/// The embedded coordinator says of itself when it was last in contact, by a clock that is not the
/// session's.
#[test]
fn a_session_on_a_connector_of_ones_own_has_heartbeats() {
    let (beats, beaten) = mpsc::channel();
    let connector = Embedded::new().connector(Duration::from_secs(2));
    let builder = Session::builder_on(connector).observer(Arc::new(Beats(beats)));
    let session = builder.open().unwrap();
    let _guard = session.mutex("orders").unwrap().blocking_acquire().unwrap();
    let held = std::iter::from_fn(|| beaten.recv_timeout(Duration::from_secs(60)).ok());
    assert!(held.take_while(|nodes| *nodes <= 1).any(|nodes| nodes == 1));
}

/// Orders nodes as Curator does, and keeps the thread of the session from going on until it may.
#[derive(Clone, Debug)]
struct Blocks(Arc<Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>>);

impl LockDriver for Blocks {
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        Curator.prefix(attempt, mode)
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        Curator.parse(name)
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        if thread::current().name().is_some_and(|name| name.starts_with("zklock-io")) {
            let (stands, goes_on) = &*self.0.lock().unwrap();
            let _ = stands.send(());
            // Until the test drops the other end.
            let _ = goes_on.recv();
        }
        Curator.verdict(queue, mine)
    }
}

/// It is what usually tells of losses, and its timers are not theirs who wait.
#[test]
fn a_loss_is_told_while_a_driver_blocks_the_thread_of_the_session() {
    const SOON: Duration = Duration::from_secs(20);
    let connector = Embedded::new().connector(Duration::from_secs(2));
    let session = Session::builder_on(connector).open().unwrap();
    let guard = session.mutex("orders").unwrap().blocking_acquire().unwrap();
    let ((stand, stands), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    let driver = Blocks(Arc::new(Mutex::new((stand, goes_on))));
    let blocked = session.mutex("blocked").unwrap().with_driver(driver);
    let acquiring = thread::spawn(move || drop(blocked.blocking_acquire()));
    stands.recv_timeout(SOON).unwrap();
    let ((tell, told), view) = (mpsc::channel(), guard.view());
    let waiting = thread::spawn(move || {
        block_on(view.lost());
        tell.send(view.is_valid()).unwrap();
    });
    let is_valid = told.recv_timeout(SOON);
    drop(go_on);
    acquiring.join().unwrap();
    waiting.join().unwrap();
    assert_eq!(is_valid, Ok(false));
}

/// Waits until so many watches of a ZooKeeper session are pending.
fn until_watches(store: &Embedded, id: i64, count: usize) {
    let start = Instant::now();
    let faults = store.faults(id);
    while faults.pending_watches() != count {
        let watches = faults.pending_watches();
        assert!(start.elapsed() < Duration::from_secs(60), "{watches} watches and not {count}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A mutex for which it had to wait: how many watches there are when it is granted, and how long after that
/// there is one, which is on its own node.
fn watched_after_a_wait(driver: impl LockDriver + Clone, waits_with: usize) -> (usize, Duration) {
    const T: Duration = Duration::from_secs(18);
    let store = Embedded::new();
    let session = Session::builder_on(store.connector(T)).open().unwrap();
    let mutex = session.mutex("orders").unwrap().with_driver(driver.clone());
    drop(mutex.blocking_acquire().unwrap());
    let other = on(&store);
    let ahead = other.mutex("orders").unwrap().with_driver(driver).blocking_acquire().unwrap();
    let waiting = std::thread::spawn(move || mutex.blocking_acquire().unwrap());
    let id = session.zookeeper_session().unwrap().id;
    until_watches(&store, id, waits_with);
    let start = Instant::now();
    ahead.blocking_release().unwrap();
    let guard = waiting.join().unwrap();
    let watches = store.faults(id).pending_watches();
    // No heartbeat has found it held for long enough, unless the machine stood still.
    assert!(start.elapsed() < session.timing().unwrap().heartbeat / 2, "{:?}", start.elapsed());
    until_watches(&store, id, 1);
    let after = start.elapsed();
    block_on(client_deletes(&store, guard.node_path()));
    block_on(guard.lost());
    (watches, after)
}

async fn client_deletes(store: &Embedded, path: &str) {
    crate::support::client(store).await.delete(path).await.unwrap();
}

/// In kazoo's layout no name tells whether the node ahead is a writer's, so its deletion may be no grant, and
/// who waits does not watch its own node.
#[test]
fn in_kazoos_layout_a_mutex_that_had_to_wait_is_watched_when_it_is_held_for_long() {
    let (watches, _) = watched_after_a_wait(Curator, 2);
    assert_eq!(watches, 1);
    let (watches, after) = watched_after_a_wait(Kazoo::default(), 1);
    assert_eq!(watches, 0);
    // A heartbeat watches what is held for half of one.
    assert!(after >= Duration::from_millis(1_500), "{after:?}");
}
