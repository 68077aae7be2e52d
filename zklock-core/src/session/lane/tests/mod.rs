//! How a lane goes from one session to the next.

use std::pin::{Pin, pin};

use futures_lite::future::poll_once;
use tokio::time::{sleep, timeout};

use super::*;
use crate::coordinator::access::AclEntry;
use crate::coordinator::memory::{Embedded, Fault, Op};
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::coordinator::watch::Watch;
use crate::divergence::phantom::PhantomNode;
use crate::session::broken_log::panics_at;
use crate::session::local_queues::Place;
use crate::session::runtime::Host;

/// Reaches no server the first few times.
#[derive(Debug)]
struct Late {
    inner: Arc<dyn Connector>,
    fails: AtomicUsize,
}

impl Connector for Late {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        let one_less = |left: usize| left.checked_sub(1);
        match self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => Box::pin(async { Err(RequestError::Unreachable("down".to_owned())) }),
            Err(_) => self.inner.connect(),
        }
    }
}

/// Opens sessions each of which takes a second longer to close than the one before.
#[derive(Debug)]
struct SlowToClose {
    inner: Arc<dyn Connector>,
    opened: AtomicU64,
}

impl Connector for SlowToClose {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        let opened = self.opened.fetch_add(1, Ordering::SeqCst) + 1;
        let (opening, takes) = (self.inner.connect(), Duration::from_secs(opened));
        Box::pin(async move { Ok(Arc::new(Slow { inner: opening.await?, takes }) as _) })
    }
}

#[derive(Debug)]
struct Slow {
    inner: Arc<dyn Coordinator>,
    takes: Duration,
}

impl Coordinator for Slow {
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }
    fn session_timeout(&self) -> Duration {
        self.inner.session_timeout()
    }
    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
        self.inner.create(path, data, kind)
    }
    fn delete(&self, path: &str) -> Reply<()> {
        self.inner.delete(path)
    }
    fn children(&self, path: &str) -> Reply<Vec<String>> {
        self.inner.children(path)
    }
    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
        self.inner.children_watched(path)
    }
    fn acl(&self, path: &str) -> Reply<Option<Vec<AclEntry>>> {
        self.inner.acl(path)
    }
    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        self.inner.get(path)
    }
    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        self.inner.get_watched(path)
    }
    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
        self.inner.set(path, data)
    }
    fn multi(&self, operations: Vec<Operation>) -> Reply<()> {
        self.inner.multi(operations)
    }
    fn sync(&self, path: &str) -> Reply<()> {
        self.inner.sync(path)
    }
    fn link(&self) -> Link {
        self.inner.link()
    }
    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
        self.inner.link_changed(seen)
    }
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (inner, takes) = (self.inner.clone(), self.takes);
        Box::pin(async move {
            sleep(takes).await;
            inner.close().await;
        })
    }
}

fn embedded() -> Arc<dyn Connector> {
    Arc::new(Embedded::new().connector(Duration::from_secs(10)))
}

fn lane(connector: impl Connector) -> Arc<Lane> {
    Lane::start(Arc::new(LaneConfig {
        connector: Arc::new(connector),
        runtime: Runtime::start(Host::Callers).unwrap().0,
        tick: None,
        most: 1,
        events: Events::default(),
        health: SessionHealth::connecting(),
        local_queues: LocalQueues::new(Place { servers: "lane".into(), chroot: "".into() }),
        phantoms: Phantoms::default(),
        stuck: Arc::default(),
    }))
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_does_not_keep_a_lane_from_its_next_session() {
    let _log = panics_at("no ZooKeeper session could be opened");
    let lane = lane(Late { inner: embedded(), fails: AtomicUsize::new(3) });
    let why = lane.trouble().expect("those who wait are not told why");
    assert_eq!(why.kind(), ErrorKind::Unavailable);
    let ready = tokio::time::timeout(Duration::from_secs(60), lane.ready());
    ready.await.expect("no session is opened any more").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_opened_while_its_lane_ends_is_closed_with_it() {
    let lane = lane(SlowToClose { inner: embedded(), opened: AtomicU64::new(0) });
    let first = lane.ready().await.unwrap();
    let deletion = first.pending_deletion();
    let limit = Deadline::after(Clock::Caller, Duration::from_secs(60));
    let mut ends = pin!(lane.end(&limit));
    assert_eq!(poll_once(&mut ends).await, None);
    first.take_out_of_use();
    let second = lane.ready().await.unwrap();
    drop(deletion);
    ends.await;
    assert!(second.coordinator().link().is_over());
}

/// As after a suspend in which the connection of the older one was lost.
#[tokio::test(start_paused = true)]
async fn an_older_session_whose_deletions_are_not_answered_keeps_no_other_one_open() {
    let lane = lane(SlowToClose { inner: embedded(), opened: AtomicU64::new(0) });
    let first = lane.ready().await.unwrap();
    let _deletion = first.pending_deletion();
    first.take_out_of_use();
    let second = lane.ready().await.unwrap();
    let limit = Deadline::after(Clock::Caller, times::FLUSH);
    let mut ends = pin!(lane.end(&limit));
    // The second takes two seconds to close.
    assert!(timeout(Duration::from_secs(3), &mut ends).await.is_err());
    assert!(second.coordinator().link().is_over() && !first.is_over());
    assert!(lane.ready().await.is_err(), "another one is opened");
    ends.await;
    // It had the time to close, too.
    assert!(first.coordinator().link().is_over());
}

const T: Duration = Duration::from_secs(10);

/// Dials one of two servers after the other.
#[derive(Debug)]
struct InTurn {
    servers: [Arc<dyn Connector>; 2],
    dialled: AtomicUsize,
}

impl Connector for InTurn {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        self.servers[self.dialled.fetch_add(1, Ordering::SeqCst) % 2].connect()
    }
}

/// A node on a server, of a client of its own.
async fn node_on(server: &dyn Connector, path: &str) -> (Arc<dyn Coordinator>, PhantomNode) {
    let client = server.connect().await.unwrap();
    let made = client.create(path, b"", NodeKind::Ephemeral).await.unwrap();
    (client, PhantomNode { path: path.to_owned(), czxid: made.stat.czxid })
}

#[tokio::test(start_paused = true)]
async fn of_several_servers_that_show_phantoms_none_is_taken_again() {
    let servers = [embedded(), embedded()];
    let (there, first) = node_on(&*servers[0], "/a").await;
    let (_elsewhere, second) = node_on(&*servers[1], "/b").await;
    let lane = lane(InTurn { servers, dialled: AtomicUsize::new(0) });
    for phantom in [first, second] {
        lane.ready().await.unwrap().leave(phantom, &"l".into());
    }
    let waits = tokio::time::timeout(10 * T, lane.ready()).await;
    assert!(waits.is_err(), "a server is used that shows one of them");
    // As after a repair.
    there.delete("/a").await.unwrap();
    let generation = tokio::time::timeout(10 * T, lane.ready()).await.unwrap().unwrap();
    assert_eq!(generation.number(), 3);
}

/// The client may also have moved to that server.
#[tokio::test(start_paused = true)]
async fn a_server_that_did_not_say_whether_it_shows_a_phantom_is_asked_once_connected_again() {
    let store = Embedded::new();
    let lane = lane(store.connector(T));
    let generation = lane.ready().await.unwrap();
    let faults = store.faults(generation.coordinator().session_id());
    let (_there, phantom) = node_on(&store.connector(T), "/a").await;
    let silent = RequestError::Other("so says the test".to_owned());
    faults.inject(Fault::refuse(silent).on(Op::Get));
    lane.config.phantoms.add(&phantom);
    sleep(T).await;
    assert!(!generation.is_retired());
    faults.disconnect();
    sleep(Duration::from_millis(1)).await;
    faults.reconnect();
    sleep(Duration::from_millis(1)).await;
    assert!(generation.is_retired());
}
