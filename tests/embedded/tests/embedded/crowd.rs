//! What it costs that many wait for one lock, each with a node of its own: for each of them no more
//! than for each of few. Requests and calls of the driver are counted, never time.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use zklock::driver::{Attempt, Contender, Coordinator, LockDriver};
use zklock::layout::{Curator, MaxLeases};
use zklock::{Embedded, LockError, LockOptions, Mode, MutexGuard, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::layout::verdict::Verdict;

use crate::support::{client, contenders, on, prompt};

/// Curator's layout, which counts how many names it reads, how often it is asked who holds, and how often
/// whether other clients count a name.
#[derive(Clone, Default)]
struct Counting {
    parsed: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    compared: Arc<AtomicUsize>,
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

impl LockDriver for Counting {
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        Curator.prefix(attempt, mode)
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        self.parsed.fetch_add(1, Ordering::Relaxed);
        Curator.parse(name)
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Curator.verdict(queue, mine)
    }

    fn is_counted_by_others(&self, child: &str, before: &Contender) -> bool {
        self.compared.fetch_add(1, Ordering::Relaxed);
        Curator.is_counted_by_others(child, before)
    }

    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        (other as &dyn Any).is::<Self>()
    }
}

/// An answer takes so long, as on a network.
const ANSWER: Duration = Duration::from_millis(5);

/// Long, so that few of those who wait have a watch.
fn name() -> String {
    "n".repeat(900)
}

type Waiting = JoinHandle<Result<MutexGuard, LockError>>;

/// So many fair waiters of one session behind a holder.
async fn crowd(count: usize) -> (Embedded, Counting, MutexGuard, Vec<Waiting>) {
    let (store, driver) = (Embedded::new(), Counting::default());
    let on = |driver| Session::embedded_builder(&store).driver(driver).max_connections(1).open();
    let (elsewhere, session) = (on(Counting::default()).unwrap(), on(driver.clone()).unwrap());
    let held = elsewhere.mutex(name()).unwrap().acquire().await.unwrap();
    let options = LockOptions::default().fair(true);
    let mutex = session.mutex(name()).unwrap().with_options(options);
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(ANSWER);
    store.record();
    let waiting = (0..count).map(|_| {
        let mutex = mutex.clone();
        crate::spawn(async move { mutex.acquire().await })
    });
    let waiting = waiting.collect();
    tokio::time::sleep(20 * ANSWER).await;
    let path = format!("/zklock/{}", name());
    assert_eq!(contenders(&store, &path).await.len(), count + 1);
    (store, driver, held, waiting)
}

fn lists(store: &Embedded) -> usize {
    store.recorded().iter().filter(|one| one.op == Op::Children).count()
}

#[tokio::test(start_paused = true)]
async fn those_who_come_together_share_a_look_and_read_each_name_once_for_all() {
    for count in [100, 400] {
        let (store, driver, _held, waiting) = crowd(count).await;
        let lists = lists(&store);
        assert!(lists <= 10, "{lists} lists for {count} waiters");
        let parsed = driver.parsed.load(Ordering::Relaxed) / count;
        assert!(parsed <= 15, "{parsed} names read for each of {count} waiters");
        waiting.iter().for_each(JoinHandle::abort);
    }
}

#[tokio::test(start_paused = true)]
async fn those_without_a_watch_look_together() {
    const WHILE: Duration = Duration::from_secs(20);
    for count in [150, 300] {
        let (store, driver, held, mut waiting) = crowd(count).await;
        store.record();
        driver.parsed.store(0, Ordering::Relaxed);
        tokio::time::sleep(WHILE).await;
        // A slow look every 2.5 s, and eight in 10 s for those who have a watch. For each perhaps a
        // second one, for those who were late.
        let (lists, most) = (lists(&store), 50);
        assert!(lists <= most, "{lists} lists in 20 s for {count} waiters");
        let parsed = driver.parsed.load(Ordering::Relaxed) / count;
        assert!(parsed <= most, "{parsed} names read for each of {count} waiters");
        // They are in the queue all the same, in its order.
        drop(held);
        let first = waiting.remove(0).await.unwrap().unwrap();
        first.release().await.unwrap();
        waiting.iter().for_each(JoinHandle::abort);
    }
}

#[tokio::test]
async fn a_long_queue_is_listed_and_revoked_with_few_questions() {
    for count in [500, 4_000] {
        let (store, driver) = (Embedded::new(), Counting::default());
        let session = Session::embedded_builder(&store).driver(driver.clone()).open().unwrap();
        let client = client(&store).await;
        // Something else is among the nodes, for which clients in other languages wait.
        for path in ["/zklock", "/zklock/a", "/zklock/a/0"] {
            client.create(path, b"", NodeKind::Persistent).await.unwrap();
        }
        for _ in 0..count {
            let path = format!("/zklock/a/{}", Curator.prefix(&Attempt::new(), Mode::Mutex));
            client.create(&path, b"", NodeKind::EphemeralSequential).await.unwrap();
        }
        let site = session.site("a").unwrap();
        let queue = site.contenders().await.unwrap();
        let holders: Vec<_> = queue.iter().map(|one| one.holds).collect();
        assert_eq!((holders.len(), holders[0]), (count, true));
        assert!(!holders[1..].contains(&true));
        assert!(queue.iter().all(|one| one.why.is_some()));
        assert_eq!(site.revoke().await.unwrap(), 1);
        let asked = driver.asked.load(Ordering::Relaxed);
        assert!(asked <= 40, "{asked} questions about {count} nodes");
        let parsed = driver.parsed.load(Ordering::Relaxed) / count;
        assert!(parsed <= 5, "{parsed} names read for each of {count} nodes");
        let compared = driver.compared.load(Ordering::Relaxed) / count;
        assert!(compared <= 1, "{compared} names compared with each of {count} nodes");
    }
}

/// If each asked for itself, the answers to thousands would come too late, and the lock would be called
/// unavailable.
#[tokio::test(start_paused = true)]
async fn those_whose_time_is_over_ask_together_who_holds() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    for (count, fair) in [(100, false), (400, false), (100, true)] {
        let (store, options) = (Embedded::new(), LockOptions::default().fair(fair));
        let (elsewhere, session) = (on(&store), on(&store));
        let held = elsewhere.mutex("a").unwrap().acquire().await.unwrap();
        let mutex = session.mutex("a").unwrap().with_options(options);
        store.faults(session.zookeeper_session().unwrap().id).delay_replies(ANSWER);
        let waiting = (0..count).map(|_| {
            let mutex = mutex.clone();
            crate::spawn(async move { mutex.acquire_timeout(TIMEOUT).await })
        });
        let waiting: Vec<Waiting> = waiting.collect();
        tokio::time::sleep(TIMEOUT / 2).await;
        store.record();
        for waiter in waiting {
            let error = waiter.await.unwrap().unwrap_err();
            let holder = error.holder().map(|holder| &*holder.node);
            assert!(error.is_busy() && holder.is_some_and(|node| held.node_path().ends_with(node)));
        }
        let asked = store.recorded();
        let asked =
            asked.iter().filter(|one| one.op == Op::Get && one.path == held.node_path()).count();
        assert!((1..=3).contains(&asked), "{asked} reads for {count} waiters, fair: {fair}");
    }
}

/// So many nodes of other clients, in their order.
async fn queued(raw: &dyn Coordinator, count: usize) -> Vec<String> {
    for path in ["/zklock", "/zklock/a"] {
        raw.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
    let mut nodes = Vec::new();
    for _ in 0..count {
        let path = format!("/zklock/a/{}", Curator.prefix(&Attempt::new(), Mode::Mutex));
        nodes.push(raw.create(&path, b"host", NodeKind::EphemeralSequential).await.unwrap().path);
    }
    nodes
}

/// The node that is in the queue beside these.
async fn beside(store: &Embedded, nodes: &[String]) -> String {
    let paths = contenders(store, "/zklock/a").await.into_iter();
    let mut paths = paths.map(|name| format!("/zklock/a/{name}"));
    paths.find(|path| !nodes.contains(path)).unwrap()
}

/// Each process that waits looks again after a session timeout, and where all of them list a long queue, they read the
/// square of their number.
#[tokio::test(start_paused = true)]
async fn time_and_reconnects_make_nobody_list_a_long_queue() {
    const WHILE: Duration = Duration::from_secs(45);
    for (count, is_listed) in [(60, false), (20, true)] {
        let (store, session) = prompt();
        let raw = client(&store).await;
        let nodes = queued(&*raw, count).await;
        let mutex = session.mutex("a").unwrap();
        let waiting = crate::spawn(async move { mutex.acquire().await });
        tokio::time::sleep(20 * ANSWER).await;
        store.record();
        tokio::time::sleep(WHILE).await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.disconnect();
        faults.reconnect();
        tokio::time::sleep(20 * ANSWER).await;
        let lists_of_all = lists(&store);
        assert!(if is_listed { lists_of_all >= 5 } else { lists_of_all == 0 }, "{lists_of_all}");
        // It goes on looking at what it waits for: the one before the last.
        let asked = store.recorded();
        let reads = asked.iter().filter(|one| one.path == nodes[count - 2]).count();
        assert!((4..=20).contains(&reads), "{reads}");
        store.record();
        raw.delete(&nodes[count - 2]).await.unwrap();
        tokio::time::sleep(20 * ANSWER).await;
        assert!(lists(&store) > 0 && !waiting.is_finished());
        for node in nodes.iter().filter(|node| **node != nodes[count - 2]) {
            raw.delete(node).await.unwrap();
        }
        assert!(waiting.await.unwrap().unwrap().is_valid());
    }
}

/// No watch tells it that somebody has deleted its node, or that the holder is another one.
#[tokio::test(start_paused = true)]
async fn who_waits_far_behind_notices_what_no_watch_tells() {
    let (store, session) = prompt();
    let raw = client(&store).await;
    let nodes = queued(&*raw, 60).await;
    let mutex = session.mutex("a").unwrap();
    let waiting = crate::spawn(async move { mutex.acquire().await });
    tokio::time::sleep(20 * ANSWER).await;
    store.record();
    // Who is asked for at a deadline is the present holder.
    raw.delete(&nodes[0]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(lists(&store), 1);
    let own = beside(&store, &nodes).await;
    raw.delete(&own).await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    let now = contenders(&store, "/zklock/a").await;
    assert_eq!(now.len(), 60, "it queued up again");
    assert!(!now.iter().any(|name| own.ends_with(name)));
    waiting.abort();
}

/// The head has an ACL that shuts this session out, as has its own node.
#[tokio::test(start_paused = true)]
async fn who_waits_far_behind_need_not_read_the_head_or_its_own_node() {
    let (store, session) = prompt();
    let raw = client(&store).await;
    let nodes = queued(&*raw, 60).await;
    let lock = session.rw_lock("a").unwrap();
    let waiting = crate::spawn(async move { lock.write().await });
    tokio::time::sleep(20 * ANSWER).await;
    let own = beside(&store, &nodes).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    for path in [&nodes[0], &own] {
        let refused = Fault::refuse(RequestError::NoAuth).on(Op::Get).path(path);
        faults.inject(refused.times(u64::MAX));
    }
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    for node in &nodes {
        raw.delete(node).await.unwrap();
    }
    assert!(waiting.await.unwrap().unwrap().is_valid());
}

/// By how many are ahead it asks whether those live for whom it waits, and says how long the queue is.
#[tokio::test(start_paused = true)]
async fn who_waits_far_behind_knows_after_a_while_how_many_are_ahead() {
    let (store, session) = prompt();
    let raw = client(&store).await;
    let nodes = queued(&*raw, 60).await;
    let mutex = session.mutex("a").unwrap();
    let waiting =
        crate::spawn(async move { mutex.acquire_timeout(Duration::from_secs(120)).await });
    tokio::time::sleep(20 * ANSWER).await;
    for node in &nodes[1..58] {
        raw.delete(node).await.unwrap();
    }
    let busy = waiting.await.unwrap().unwrap_err();
    assert_eq!(busy.holder().map(|holder| holder.ahead), Some(3), "{busy:#}");
}

/// As many as it waits for are no few nodes.
#[tokio::test(start_paused = true)]
async fn who_waits_for_many_nodes_lists_the_queue() {
    let (store, session) = prompt();
    let raw = client(&store).await;
    let _nodes = queued(&*raw, 60).await;
    let layout = MaxLeases::new(40, Curator).unwrap();
    let mutex = session.mutex("a").unwrap().with_driver(layout);
    let waiting = crate::spawn(async move { mutex.acquire().await.map(drop) });
    tokio::time::sleep(20 * ANSWER).await;
    store.record();
    tokio::time::sleep(Duration::from_secs(11)).await;
    let reads = store.recorded().iter().filter(|one| one.op == Op::Get).count();
    assert!(lists(&store) == 1 && reads <= 42, "{reads}");
    waiting.abort();
}
