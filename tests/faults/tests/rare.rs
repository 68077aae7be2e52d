//! What happens so rarely that no random fault finds it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::future::Future;
use std::io::{Read, Write, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zklock::{Session, SessionBuilder};
use zklock_test_support::{
    Action, Control, CreateMode, Cut, Matcher, OpCode, Proxy, RawClient, ZooKeeper,
};

/// For what nobody promises a bound: a connection, and the look of a test from outside.
const PATIENCE: Duration = Duration::from_secs(60);

fn session(addr: &str, root: &str, session_timeout: Duration) -> SessionBuilder {
    let builder = Session::builder(addr).root(format!("/{root}"));
    builder.session_timeout(session_timeout).connect_timeout(PATIENCE)
}

fn raw() -> RawClient {
    RawClient::connect(&ZooKeeper::shared().addr(), PATIENCE).unwrap()
}

/// What is promised at once, in one go with what was done for it.
async fn at_once<T>(what: &str, control: &Control, coming: impl Future<Output = T>) -> T {
    within(what, control, Duration::ZERO, coming).await
}

async fn within<T>(
    what: &str,
    control: &Control,
    promised: Duration,
    coming: impl Future<Output = T>,
) -> T {
    let start = Instant::now();
    let came = timeout(PATIENCE, coming).await.unwrap_or_else(|_| panic!("{what} never came"));
    control.within(what, start.elapsed(), promised);
    came
}

async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_deletion_whose_notification_is_lost_is_found_by_the_heartbeat() {
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let (short, control) = (Duration::from_secs(4), Control::of(ZooKeeper::shared()));
    let holder = session(&proxy.addr(), "lost-event", short).connect().await.unwrap();
    let _lost = proxy.on(Matcher::notification(), Action::Drop);
    let watched = proxy.on(Matcher::reply(OpCode::GetData).or(OpCode::Exists), Action::Pass);
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    // From now on the watch on its own node would tell, were it heard.
    until("the holder watches its node", || watched.hits() > 0).await;
    let mut raw = raw();
    raw.delete(guard.node_path()).unwrap();
    // The heartbeat looks at the node itself.
    within("the loss", &control, short / 6, guard.lost()).await;
    assert!(!guard.is_valid());
    raw.close().unwrap();
    drop(guard);
    holder.close().await;
}

#[tokio::test]
async fn who_waited_longer_than_a_session_lasts_gets_a_guard_that_is_valid() {
    let addr = ZooKeeper::shared().addr();
    let (short, control) = (Duration::from_secs(2), Control::of(ZooKeeper::shared()));
    let holder = session(&addr, "long-wait", Duration::from_secs(20)).connect().await.unwrap();
    let waiter = session(&addr, "long-wait", short).connect().await.unwrap();
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = waiter.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    // Nothing is held there, so nothing feeds its lease clock.
    sleep(2 * short).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let start = Instant::now();
    let next = timeout(PATIENCE, waiting).await.unwrap().unwrap();
    // The list, and two commits: nothing was written for longer than a lease, and perhaps another one.
    control.within_answers("the grant", start.elapsed(), Duration::ZERO, 4);
    assert!(next.is_valid() && !next.remaining().is_zero());
    next.release().await.unwrap();
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn a_node_of_another_session_is_not_adopted_whatever_its_name() {
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let victim = session(&proxy.addr(), "adopt", Duration::from_secs(20)).connect().await.unwrap();
    let mutex = victim.mutex("a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let mut raw = raw();
    raw.create("/adopt/a/keep", b"", CreateMode::Persistent).unwrap();
    proxy.clear_log();
    // The creation never reaches the server. Somebody else makes a node with its name, as the
    // server would seem to after it has replaced the session without a word.
    let lost = proxy.on(Matcher::request(OpCode::Create2).nth(1), Action::DropAndCut(Cut::Reset));
    proxy.refuse(true);
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    until("the creation is lost", || lost.hits() == 1).await;
    let name = proxy.log().into_iter().find(|frame| frame.opcode == OpCode::Create2);
    let name = name.and_then(|frame| frame.path).unwrap();
    let foreign = raw.create(&name, b"", CreateMode::EphemeralSequential).unwrap();
    proxy.refuse(false);
    let contenders = |raw: &mut RawClient| {
        let names = raw.children("/adopt/a").unwrap();
        names.into_iter().filter(|name| name.contains("-lock-")).count()
    };
    until("it queues up behind", || waiting.is_finished() || contenders(&mut raw) == 2).await;
    assert!(!waiting.is_finished(), "it took the node of another for its own");
    let control = Control::of(ZooKeeper::shared());
    raw.delete(&foreign).unwrap();
    let guard = at_once("the grant", &control, waiting).await.unwrap();
    assert_ne!(guard.node_path(), foreign);
    guard.release().await.unwrap();
    raw.delete("/adopt/a/keep").unwrap();
    raw.close().unwrap();
    victim.close().await;
}

/// Listens before a server that gives a new session to everybody who comes back with an old one,
/// and does not say so, as some servers that speak ZooKeeper's protocol were seen to do. Returns
/// where, and all connections.
fn forgetful(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, all) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<TcpStream>>>::default());
    let known = all.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, known) = (client.unwrap(), known.clone());
            // A client that only knocks, or leaves, is none to speak with.
            thread::spawn(move || drop(forget(client, server, &known)));
        }
    });
    (addr, all)
}

fn forget(
    mut client: TcpStream,
    server: SocketAddr,
    known: &Mutex<Vec<TcpStream>>,
) -> std::io::Result<()> {
    let mut hello = [0; 49];
    client.read_exact(&mut hello)?;
    let mut upstream = TcpStream::connect(server)?;
    known.lock().unwrap().extend([client.try_clone()?, upstream.try_clone()?]);
    // Length, version, last zxid and timeout; then the session, and the length of its password.
    hello[20..28].fill(0);
    hello[32..48].fill(0);
    upstream.write_all(&hello)?;
    let (mut from, mut to) = (upstream.try_clone()?, client.try_clone()?);
    thread::spawn(move || copy(&mut from, &mut to));
    copy(&mut client, &mut upstream)?;
    upstream.shutdown(Shutdown::Both)
}

#[tokio::test]
async fn a_session_that_the_server_replaced_without_a_word_is_noticed() {
    let server = ZooKeeper::shared();
    let (addr, connections) = forgetful(server.socket_addr());
    let builder = session(&addr.to_string(), "replaced", Duration::from_secs(4));
    let victim = builder.connect().await.unwrap();
    let guard = victim.mutex("a").unwrap().acquire().await.unwrap();
    for side in connections.lock().unwrap().drain(..) {
        drop(side.shutdown(Shutdown::Both));
    }
    until("it is back", || !connections.lock().unwrap().is_empty() && victim.is_ready()).await;
    // Its creation is the first to be answered with another owner than the session.
    let next = timeout(PATIENCE, victim.mutex("b").unwrap().acquire()).await.unwrap().unwrap();
    let owner = server
        .sessions()
        .into_iter()
        .find(|session| session.ephemerals.iter().any(|path| path == next.node_path()));
    assert_eq!(owner.map(|owner| owner.id), victim.zookeeper_session().map(|one| one.id));
    assert!(!guard.is_valid(), "it was lost with its session");
    drop(guard);
    next.release().await.unwrap();
    victim.close().await;
}

#[tokio::test]
async fn a_change_of_the_node_ahead_is_no_grant() {
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let long = Duration::from_secs(20);
    let addr = ZooKeeper::shared().addr();
    let holder = session(&addr, "change", long).connect().await.unwrap();
    let waiter = session(&proxy.addr(), "change", long).connect().await.unwrap();
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let watched = proxy.on(Matcher::reply(OpCode::GetData), Action::Pass);
    let mutex = waiter.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    // The one ahead, and its own node.
    until("the waiter watches", || watched.hits() >= 2).await;
    // As somebody does who asks the holder to let go.
    let mut raw = raw();
    raw.set_data(guard.node_path(), b"__REVOKE__").unwrap();
    until("the waiter heard of it and watches again", || {
        watched.hits() >= 3 || waiting.is_finished()
    })
    .await;
    assert!(guard.is_valid() && !waiting.is_finished(), "two holders");
    let control = Control::of(ZooKeeper::shared());
    guard.release().await.unwrap();
    let next = at_once("the grant", &control, waiting).await.unwrap();
    next.release().await.unwrap();
    raw.close().unwrap();
    holder.close().await;
    waiter.close().await;
}
