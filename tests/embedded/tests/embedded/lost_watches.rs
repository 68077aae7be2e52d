//! A connection that is lost, and back before anybody looks: what was watched before is told in no
//! order, or not at all. The coordinator of these tests is one around the embedded one.

use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch::Sender;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use zklock::driver::{
    Connector, Coordinator, Created, Link, NodeKind, Operation, Reply, Stat, Watch,
};
use zklock::{AclEntry, Embedded, MutexGuard, Session, SessionState};

use crate::support::{client, contenders, on};

/// What the test knows of the connection, and does to it.
#[derive(Debug, Default)]
struct Connection {
    losses: Sender<u32>,
    /// The node whose watches are silent if they were set before the latest loss.
    silent: Arc<Mutex<Option<String>>>,
    /// How many events were not told.
    untold: Sender<u32>,
    /// How often each node was watched.
    watched: Mutex<HashMap<String, usize>>,
    /// Whether the answers to those who watch are on the way.
    is_slow: Sender<bool>,
    /// The node whose watches are silent once the next list is answered: over the next connection.
    silent_with_a_list: Mutex<Option<String>>,
    /// Whether a loss is shown only as long as it lasts, as by a coordinator that does without `link_lost`.
    forgets_losses: AtomicBool,
}

impl Connection {
    /// Is lost, and back at once. The watches on this node that were set before tell nothing.
    fn is_lost(&self, silent: &str) {
        *self.silent.lock().unwrap() = Some(silent.to_owned());
        self.losses.send_modify(|losses| *losses += 1);
    }

    fn watched(&self, path: &str) -> usize {
        self.watched.lock().unwrap().get(path).copied().unwrap_or_default()
    }

    /// Waits until an event was not told.
    async fn until_untold(&self) {
        self.untold.subscribe().wait_for(|untold| *untold > 0).await.unwrap();
    }

    /// Waits until a node was watched so many times.
    async fn until_watched(&self, path: &str, times: usize) {
        while self.watched(path) < times {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

#[derive(Debug)]
struct Shaky<T>(T, Arc<Connection>);

impl<C: Connector> Connector for Shaky<C> {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        let (opened, connection) = (self.0.connect(), self.1.clone());
        Box::pin(async move { Ok(Arc::new(Shaky(opened.await?, connection)) as _) })
    }
}

impl Coordinator for Shaky<Arc<dyn Coordinator>> {
    fn session_id(&self) -> i64 {
        self.0.session_id()
    }
    fn session_timeout(&self) -> Duration {
        self.0.session_timeout()
    }
    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
        self.0.create(path, data, kind)
    }
    fn delete(&self, path: &str) -> Reply<()> {
        self.0.delete(path)
    }
    fn children(&self, path: &str) -> Reply<Vec<String>> {
        if let Some(silent) = self.1.silent_with_a_list.lock().unwrap().take() {
            self.1.is_lost(&silent);
        }
        self.0.children(path)
    }
    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
        self.0.children_watched(path)
    }
    fn acl(&self, path: &str) -> Reply<Option<Vec<AclEntry>>> {
        self.0.acl(path)
    }
    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        self.0.get(path)
    }
    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let (reply, path) = (self.0.get_watched(path), path.to_owned());
        let (since, silent) = (self.1.losses.subscribe(), self.1.silent.clone());
        let (untold, mut is_slow) = (self.1.untold.clone(), self.1.is_slow.subscribe());
        *self.1.watched.lock().unwrap().entry(path.clone()).or_default() += 1;
        Box::pin(async move {
            let answer = reply.await;
            let _ = is_slow.wait_for(|is_slow| !is_slow).await;
            let (data, stat, watch) = answer?;
            let told: Watch = Box::pin(async move {
                let event = watch.await;
                let is_silent = || silent.lock().unwrap().as_ref() == Some(&path);
                if since.has_changed().unwrap_or(false) && is_silent() {
                    untold.send_modify(|untold| *untold += 1);
                    pending::<()>().await;
                }
                event
            });
            Ok((data, stat, told))
        })
    }
    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
        self.0.set(path, data)
    }
    fn multi(&self, operations: Vec<Operation>) -> Reply<()> {
        self.0.multi(operations)
    }
    fn sync(&self, path: &str) -> Reply<()> {
        self.0.sync(path)
    }
    fn link(&self) -> Link {
        self.0.link()
    }
    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
        self.0.link_changed(seen)
    }
    fn link_lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if self.1.forgets_losses.load(Ordering::Relaxed) {
            return Box::pin(pending());
        }
        let mut losses = self.1.losses.subscribe();
        Box::pin(async move { drop(losses.changed().await) })
    }
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.close()
    }
}

/// Three contenders: the second is next, and watches its own node and the first one.
struct Queue {
    store: Embedded,
    connection: Arc<Connection>,
    /// The session of the second.
    shaky: Session,
    first: MutexGuard,
    second: JoinHandle<MutexGuard>,
    third: JoinHandle<MutexGuard>,
    /// Their paths.
    nodes: Vec<String>,
}

/// Queues up, and waits until there are so many nodes.
async fn queue_up(
    store: &Embedded,
    session: &Session,
    count: usize,
) -> (JoinHandle<MutexGuard>, Vec<String>) {
    let mutex = session.mutex("a").unwrap();
    let waiting = crate::spawn(async move { mutex.acquire().await.unwrap() });
    (waiting, until_nodes(store, count).await)
}

/// Waits until there are so many nodes. Returns their paths, in their order.
async fn until_nodes(store: &Embedded, count: usize) -> Vec<String> {
    loop {
        let mut names = contenders(store, "/zklock/a").await;
        if names.len() == count {
            names.sort_by_key(|name| name[name.len() - 10..].to_owned());
            return names.iter().map(|name| format!("/zklock/a/{name}")).collect();
        }
    }
}

impl Queue {
    async fn stand() -> Queue {
        Queue::stand_over(Arc::default()).await
    }

    async fn stand_over(connection: Arc<Connection>) -> Queue {
        let store = Embedded::new();
        let connector = store.connector(Duration::from_secs(60));
        let shaky = Session::builder_on(Shaky(connector, connection.clone())).connect().await;
        let (one, shaky, three) = (on(&store), shaky.unwrap(), on(&store));
        let first = one.mutex("a").unwrap().acquire().await.unwrap();
        let (second, nodes) = queue_up(&store, &shaky, 2).await;
        for node in &nodes {
            connection.until_watched(node, 1).await;
        }
        let (third, nodes) = queue_up(&store, &three, 3).await;
        Queue { store, connection, shaky, first, second, third, nodes }
    }

    /// Somebody else deletes the node of the second.
    async fn the_second_loses_its_node(&self) {
        client(&self.store).await.delete(&self.nodes[1]).await.unwrap();
    }

    /// The first leaves after that: the third is next.
    async fn the_third_enters_alone(self) {
        let Queue { store, connection, first, second, third, .. } = self;
        // Whoever is granted the lock is not told at once that its node is gone.
        connection.is_slow.send_replace(true);
        first.release().await.unwrap();
        let third = third.await.unwrap();
        while !second.is_finished() && contenders(&store, "/zklock/a").await.len() != 2 {}
        assert!(!second.is_finished() && third.is_valid(), "two are inside");
        connection.is_slow.send_replace(false);
        third.release().await.unwrap();
        assert!(second.await.unwrap().is_valid());
    }
}

/// What a server tells after a reconnect comes in no order: the deletion of the one ahead may be
/// told before that of the own node.
#[tokio::test]
async fn a_deletion_that_is_told_after_a_reconnect_is_no_grant() {
    let queue = Queue::stand().await;
    queue.connection.is_lost(&queue.nodes[1]);
    queue.the_second_loses_its_node().await;
    queue.connection.until_untold().await;
    queue.the_third_enters_alone().await;
}

/// What is watched with one connection, and told with the next.
#[tokio::test]
async fn a_loss_before_the_watches_are_answered_counts_as_one_after_it() {
    let connection = Arc::<Connection>::default();
    connection.is_slow.send_replace(true);
    let queue = Queue::stand_over(connection).await;
    queue.connection.is_lost(&queue.nodes[1]);
    queue.connection.is_slow.send_replace(false);
    queue.the_second_loses_its_node().await;
    queue.connection.until_untold().await;
    queue.the_third_enters_alone().await;
}

#[tokio::test]
async fn the_own_node_is_watched_anew_after_a_reconnect() {
    let queue = Queue::stand().await;
    let (first, own) = (&queue.nodes[0], &queue.nodes[1]);
    queue.connection.is_lost(own);
    // The second looks at the queue again, whatever was written.
    client(&queue.store).await.set(first, b"news").await.unwrap();
    queue.connection.until_watched(first, 2).await;
    queue.the_second_loses_its_node().await;
    queue.the_third_enters_alone().await;
}

/// Between two waits, nobody waits for the connection.
#[tokio::test]
async fn the_own_node_is_watched_anew_after_a_reconnect_between_two_looks() {
    let queue = Queue::stand().await;
    let (first, own) = (&queue.nodes[0], &queue.nodes[1]);
    *queue.connection.silent_with_a_list.lock().unwrap() = Some(own.clone());
    client(&queue.store).await.set(first, b"news").await.unwrap();
    queue.connection.until_watched(first, 2).await;
    queue.the_second_loses_its_node().await;
    queue.the_third_enters_alone().await;
}

/// A coordinator of one's own may show a loss only as long as it lasts, and nobody may look meanwhile.
#[tokio::test]
async fn the_own_node_is_watched_anew_after_a_loss_that_only_the_keeper_saw() {
    let queue = Queue::stand().await;
    let (first, own) = (&queue.nodes[0], &queue.nodes[1]);
    queue.connection.forgets_losses.store(true, Ordering::Relaxed);
    // The watches of before ask such a coordinator.
    client(&queue.store).await.set(own, b"news").await.unwrap();
    queue.connection.until_watched(own, 2).await;
    queue.connection.is_lost(own);
    let faults = queue.store.faults(queue.shaky.zookeeper_session().unwrap().id);
    faults.disconnect();
    until_state(&queue.shaky, SessionState::Suspended).await;
    faults.reconnect();
    until_state(&queue.shaky, SessionState::Connected).await;
    queue.connection.until_watched(first, 3).await;
    queue.the_second_loses_its_node().await;
    queue.the_third_enters_alone().await;
}

async fn until_state(session: &Session, state: SessionState) {
    while session.state() != state {
        sleep(Duration::from_millis(1)).await;
    }
}
