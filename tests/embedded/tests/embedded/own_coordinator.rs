//! A connector of the user's own: here one around the embedded one, which counts the sessions.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use zklock::blocking::block_on;
use zklock::driver::{Attempt, Connector, Contender, Coordinator, LockDriver, Reply, RequestError};
use zklock::layout::{Curator, Kazoo, MaxLeases};
use zklock::{Embedded, ErrorKind, Event, LockEvent, Mode, Observer, Session};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::layout::verdict::Verdict;

use crate::support::client;

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

/// A mutex for which it had to wait behind a node with such a name: how many watches there are when it is granted.
/// The last of them is on its own node.
fn watched_after_a_wait(driver: impl LockDriver, ahead: &str, waits_with: usize) -> usize {
    let store = Embedded::new();
    let peer = block_on(client(&store));
    for path in ["/zklock", "/zklock/orders"] {
        block_on(peer.create(path, b"", NodeKind::Persistent)).unwrap();
    }
    let session = Session::builder_on(store.connector(Duration::from_secs(18))).open().unwrap();
    let mutex = session.mutex("orders").unwrap().with_driver(driver);
    drop(mutex.blocking_acquire().unwrap());
    let ahead = format!("/zklock/orders/{ahead}");
    let ahead = block_on(peer.create(&ahead, b"host", NodeKind::EphemeralSequential)).unwrap();
    let waiting = thread::spawn(move || mutex.blocking_acquire().unwrap());
    let id = session.zookeeper_session().unwrap().id;
    until_watches(&store, id, waits_with);
    block_on(peer.delete(&ahead.path)).unwrap();
    let guard = waiting.join().unwrap();
    let watches = store.faults(id).pending_watches();
    until_watches(&store, id, 1);
    block_on(peer.delete(guard.node_path())).unwrap();
    block_on(guard.lost());
    watches
}

/// Who knows that the deletion of the node ahead is its grant watches its own node as it waits; the others do so from
/// the grant on, and not only when a heartbeat has found that they hold the lock for long.
#[test]
fn a_deletion_is_known_at_once_to_who_had_to_wait_for_a_mutex_in_any_layout() {
    let of_leases = MaxLeases::new(1, Curator).unwrap();
    let watched = [
        ("a mutex", watched_after_a_wait(Curator, "_c_x-lock-", 2)),
        ("one lease", watched_after_a_wait(of_leases, "_c_x-lock-", 1)),
        ("behind a writer", watched_after_a_wait(Curator, "_c_x-__WRIT__", 1)),
        ("behind a reader", watched_after_a_wait(Curator, "_c_x-__READ__", 1)),
        (
            "kazoo's, perhaps behind a writer",
            watched_after_a_wait(Kazoo::default(), "x__lock__", 1),
        ),
    ];
    assert_eq!(watched, watched.map(|(what, _)| (what, 1)));
}

/// The first connection has no session, and a commit over the other one is not answered: that one is connected, and
/// serves nobody.
#[test]
fn who_follows_a_queue_gives_its_thread_back_while_no_connection_serves() {
    const T: Duration = Duration::from_secs(12);
    let store = Embedded::new();
    let session = block_on(Session::builder_on(store.connector(T)).connect()).unwrap();
    let acquire = |name: String| {
        let mutex = session.mutex(name).unwrap();
        thread::spawn(move || drop(mutex.blocking_acquire().unwrap()))
    };
    let first = store.sessions()[0];
    // While the first is busy another is opened.
    store.faults(first).hold_replies();
    let mut busy = Vec::new();
    while store.sessions().len() < 2 {
        assert!(busy.len() < 1_000);
        busy.push(acquire(format!("busy/n{}", busy.len())));
        thread::sleep(Duration::from_millis(5));
    }
    store.faults(first).release();
    busy.into_iter().for_each(|busy| busy.join().unwrap());
    let second = store.sessions().into_iter().find(|id| *id != first).unwrap();
    store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    store.faults(first).expire();
    thread::sleep(Duration::from_millis(1_500));
    store.faults(second).hold_replies();
    let unanswered = acquire("b".to_owned());
    thread::sleep(T / 6 + Duration::from_millis(300));
    let ((tell, told), mut events) = (mpsc::channel(), session.site("a").unwrap().events());
    thread::spawn(move || {
        let event = block_on(events.next());
        // It may wait by now, and not for the processor.
        let _ = pin!(events.next()).poll(&mut Context::from_waker(Waker::noop()));
        tell.send(event).unwrap();
    });
    assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok(Some(LockEvent::Blind)));
    store.end_outage();
    store.faults(second).release();
    unanswered.join().unwrap();
}
