use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_lite::future::block_on;

use super::{Embedded, Fault, Op};
use crate::clock::Clock;
use crate::coordinator::{
    Connector, Coordinator, Link, NodeKind, Operation, RequestError, WatchEvent,
};

const TIMEOUT: Duration = Duration::from_secs(10);

fn connect(store: &Embedded) -> Arc<dyn Coordinator> {
    block_on(store.connector(TIMEOUT).connect()).unwrap()
}

fn create(session: &Arc<dyn Coordinator>, path: &str, kind: NodeKind) -> String {
    block_on(session.create(path, b"", kind)).unwrap().path
}

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn replies_are_ready_at_once() {
    let store = Embedded::new();
    let session = connect(&store);
    let mut reply = session.create("/a", b"x", NodeKind::Ephemeral);
    assert!(poll(&mut reply).is_ready());
}

#[test]
fn a_create_that_fails_in_a_multi_leaves_no_trace() {
    let store = Embedded::new();
    let session = connect(&store);
    create(&session, "/q", NodeKind::Container);
    create(&session, "/q/a", NodeKind::Ephemeral);
    let before = block_on(session.get("/q")).unwrap();
    let (_, mut watch) = block_on(session.children_watched("/q")).unwrap();
    let multi = session.multi(vec![
        Operation::Delete { path: "/q/a".into() },
        Operation::Create {
            path: "/q/n-".into(),
            data: vec![],
            kind: NodeKind::EphemeralSequential,
        },
        Operation::Set { path: "/q".into(), data: b"new".to_vec() },
        Operation::Check { path: "/missing".into() },
    ]);
    let failed = RequestError::Multi { index: 3, error: Box::new(RequestError::NoNode) };
    assert_eq!(block_on(multi), Err(failed));
    assert_eq!(block_on(session.get("/q")).unwrap(), before);
    assert_eq!(block_on(session.children("/q")).unwrap(), ["a"]);
    assert!(poll(&mut watch).is_pending());
    assert_eq!(create(&session, "/q/n-", NodeKind::EphemeralSequential), "/q/n-0000000001");
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_session_expires_for_the_server_then_for_its_client() {
    let store = Embedded::new();
    let (holder, waiter) = (connect(&store), connect(&store));
    holder.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    let (_, _, watch) = waiter.get_watched("/a").await.unwrap();
    let start = Clock::Caller.now();
    let seen = tokio::spawn(async move { (watch.await, Clock::Caller.now()) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let down = holder.link_changed(Link::Up);
    store.faults(holder.session_id()).disconnect();
    assert_eq!(down.await, Link::Down);
    let (event, at) = seen.await.unwrap();
    assert_eq!((event, at.since(start).as_secs()), (WatchEvent::Deleted, 11));
    assert_eq!(holder.link_changed(Link::Down).await, Link::Expired);
    assert_eq!(Clock::Caller.now().since(start).as_secs(), 15);
    assert_eq!(holder.sync("/").await, Err(RequestError::SessionExpired));
}

#[tokio::test(start_paused = true)]
async fn silence_is_noticed_late_and_last_contact_tells() {
    let store = Embedded::new();
    let session = connect(&store);
    let faults = store.faults(session.session_id());
    let start = Clock::Caller.now();
    assert_eq!(session.last_contact(), Some(start));
    faults.silence();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!((session.link(), session.last_contact()), (Link::Up, Some(start)));
    assert!(matches!(session.sync("/").await, Err(RequestError::Other(_))));
    assert_eq!((session.link(), Clock::Caller.now().since(start).as_secs()), (Link::Down, 4));
    faults.reconnect();
    assert_eq!((session.link(), session.last_contact()), (Link::Up, Some(Clock::Caller.now())));
}

#[test]
fn requests_made_while_down_go_out_in_order_after_the_reconnect() {
    let store = Embedded::new();
    let session = connect(&store);
    let faults = store.faults(session.session_id());
    faults.inject(Fault::cut_before().on(Op::Create));
    let create = session.create("/a", b"", NodeKind::Ephemeral);
    let list = session.children("/");
    let dropped = session.create("/b", b"", NodeKind::Ephemeral);
    assert_eq!(block_on(create), Err(RequestError::ConnectionLoss));
    drop(dropped);
    faults.reconnect();
    assert!(block_on(list).unwrap().is_empty());
    assert_eq!(block_on(session.children("/")).unwrap(), ["b"], "dropping takes nothing back");
}

#[test]
fn a_watch_that_fired_while_down_is_seen_after_the_reconnect() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    create(&other, "/a", NodeKind::Ephemeral);
    let (_, _, mut watch) = block_on(session.get_watched("/a")).unwrap();
    let faults = store.faults(session.session_id());
    faults.disconnect();
    block_on(other.set("/a", b"x")).unwrap();
    block_on(other.delete("/a")).unwrap();
    assert!(poll(&mut watch).is_pending());
    faults.reconnect();
    assert_eq!(block_on(watch), WatchEvent::Deleted);
    assert_eq!((faults.watch_events(), faults.pending_watches()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_empty_container_goes_and_its_counter_with_it() {
    let store = Embedded::new();
    let session = connect(&store);
    session.create("/q", b"", NodeKind::Container).await.unwrap();
    tokio::time::advance(Duration::from_secs(600)).await;
    let node = session.create("/q/n-", b"", NodeKind::EphemeralSequential).await.unwrap();
    let (_, _, watch) = session.get_watched("/q").await.unwrap();
    session.delete(&node.path).await.unwrap();
    let start = Clock::Caller.now();
    assert_eq!(watch.await, WatchEvent::Deleted);
    assert_eq!(Clock::Caller.now().since(start).as_secs(), 60);
    assert!(session.children("/").await.unwrap().is_empty());
    let gone = session.create("/q/n-", b"", NodeKind::EphemeralSequential).await;
    assert_eq!(gone, Err(RequestError::NoNode));
    session.create("/q", b"", NodeKind::Container).await.unwrap();
    let again = session.create("/q/n-", b"", NodeKind::EphemeralSequential).await.unwrap();
    assert_eq!(again.path, "/q/n-0000000000");
    assert!(again.stat.czxid > node.stat.czxid);
}

#[test]
fn the_last_sequence_number_is_repeated() {
    let store = Embedded::new();
    let session = connect(&store);
    store.set_sequence("/", i32::MAX).unwrap();
    assert_eq!(create(&session, "/n-", NodeKind::EphemeralSequential), "/n-2147483647");
    let again = block_on(session.create("/n-", b"", NodeKind::EphemeralSequential));
    assert_eq!(again, Err(RequestError::NodeExists));
}

#[test]
fn lost_replies_and_requests_differ_in_what_was_applied() {
    let store = Embedded::new();
    let session = connect(&store);
    let faults = store.faults(session.session_id());
    store.record();
    faults.inject(Fault::lose_request().path("lost"));
    faults.inject(Fault::lose_reply().path("done"));
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Delete).times(u64::MAX));
    for path in ["/lost", "/done"] {
        let reply = block_on(session.create(path, b"", NodeKind::Ephemeral));
        assert_eq!(reply, Err(RequestError::ConnectionLoss));
    }
    assert_eq!(block_on(session.children("/")).unwrap(), ["done"]);
    for _ in 0..2 {
        assert_eq!(block_on(session.delete("/done")), Err(RequestError::NoAuth));
    }
    faults.clear();
    assert_eq!(block_on(session.delete("/done")), Ok(()));
    let ops: Vec<Op> = store.recorded().into_iter().map(|logged| logged.op).collect();
    let d = Op::Delete;
    assert_eq!(ops, [Op::Create, Op::Create, Op::Children, d, d, d]);
}

#[test]
fn held_requests_are_not_applied_and_held_replies_are() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    let faults = store.faults(session.session_id());
    for replies in [false, true] {
        if replies {
            faults.hold_replies()
        } else {
            faults.hold_requests()
        }
        let mut reply = session.create("/a", b"", NodeKind::Ephemeral);
        assert!(poll(&mut reply).is_pending());
        assert_eq!(block_on(other.get("/a")).is_ok(), replies);
        assert_eq!(session.link(), Link::Up);
        faults.release();
        assert!(block_on(reply).is_ok());
        block_on(session.delete("/a")).unwrap();
    }
}

#[test]
fn a_session_closed_while_held_ends_on_release() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    create(&session, "/a", NodeKind::Ephemeral);
    let faults = store.faults(session.session_id());
    faults.hold_requests();
    block_on(session.close());
    assert_eq!(block_on(session.sync("/")), Err(RequestError::Closed));
    assert!(block_on(other.get("/a")).is_ok());
    faults.release();
    assert!(block_on(other.get("/a")).is_err());
    drop(session);
    assert_eq!(store.sessions(), [other.session_id()]);
}

#[tokio::test(start_paused = true)]
async fn delays_follow_the_clock_of_the_caller() {
    let store = Embedded::new();
    let session = connect(&store);
    store.faults(session.session_id()).delay_replies(Duration::from_secs(3));
    let start = Clock::Caller.now();
    session.sync("/").await.unwrap();
    assert_eq!(Clock::Caller.now().since(start).as_secs(), 3);
}

#[test]
fn an_outage_refuses_sessions() {
    let store = Embedded::new();
    let error = RequestError::Unreachable("nobody there".into());
    store.outage(Some(error.clone()));
    assert_eq!(block_on(store.connector(TIMEOUT).connect()).err(), Some(error));
    store.outage(None);
    connect(&store);
}

/// Polls its future from inside `wake`, as an inline executor does.
struct Inline {
    store: Embedded,
    woken: AtomicUsize,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        drop(connect(&self.store));
    }
}

#[test]
fn wakers_run_without_the_lock() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    create(&other, "/a", NodeKind::Ephemeral);
    let inline = Arc::new(Inline { store: store.clone(), woken: AtomicUsize::new(0) });
    let waker = Waker::from(inline.clone());
    let (_, _, mut watch) = block_on(session.get_watched("/a")).unwrap();
    let mut link = session.link_changed(Link::Up);
    let mut cx = Context::from_waker(&waker);
    assert!(watch.as_mut().poll(&mut cx).is_pending());
    assert!(link.as_mut().poll(&mut cx).is_pending());
    drop(other);
    assert_eq!(inline.woken.load(Ordering::SeqCst), 1);
    store.faults(session.session_id()).expire();
    assert_eq!(inline.woken.load(Ordering::SeqCst), 2);
}

/// Holds a watch, so that dropping the waker drops the watch.
struct Owner(
    #[allow(dead_code, reason = "only its drop matters")]
    std::sync::Mutex<Option<crate::coordinator::Watch>>,
);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_owns_a_watch_is_dropped_without_the_lock() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    create(&other, "/a", NodeKind::Ephemeral);
    let (_, _, owned) = block_on(session.get_watched("/a")).unwrap();
    let (_, _, mut watch) = block_on(session.get_watched("/a")).unwrap();
    let waker = Waker::from(Arc::new(Owner(std::sync::Mutex::new(Some(owned)))));
    assert!(watch.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert!(poll(&mut watch).is_pending());
    assert_eq!(store.faults(session.session_id()).pending_watches(), 1);
}

#[test]
fn many_threads_share_one_store() {
    let store = Embedded::new();
    let session = connect(&store);
    create(&session, "/q", NodeKind::Persistent);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let session = connect(&store);
                for _ in 0..200 {
                    let node = create(&session, "/q/n-", NodeKind::EphemeralSequential);
                    let (_, _, watch) = block_on(session.get_watched(&node)).unwrap();
                    block_on(session.delete(&node)).unwrap();
                    assert_eq!(block_on(watch), WatchEvent::Deleted);
                }
            });
        }
    });
    assert_eq!(create(&session, "/q/n-", NodeKind::EphemeralSequential), "/q/n-0000001600");
}
