//! Nodes that an ACL hides: of others, where a creation of its own is in doubt; and its own.

use std::time::Duration;

use zklock::driver::LockDriver;
use zklock::layout::{HostNodes, MaxLeases, Numbered, ReadWriteNodes};
use zklock::{AnyLock, Embedded, ErrorKind, Mode, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{client, contenders, on, store};

/// Nodes of another client, before and behind its own in every list, that the session may not read; and the answer to
/// the next creation is lost.
async fn hide(store: &Embedded, session: &Session, prefix: &str) {
    let peer = client(store).await;
    for path in ["/zklock", "/zklock/a"] {
        peer.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    for number in ["0000000000", "0000000009"] {
        let path = format!("/zklock/a/{prefix}{number}");
        peer.create(&path, b"", NodeKind::Ephemeral).await.unwrap();
        faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Get).path(path).times(u64::MAX));
    }
    // Its session must not end.
    std::mem::forget(peer);
    faults.inject(Fault::lose_reply().on(Op::Create).path(format!("/zklock/a/{prefix}")));
}

fn number(session: &Session) -> Option<u64> {
    session.zookeeper_session().map(|one| one.number)
}

/// Nobody waits for those that are hidden.
async fn is_found(driver: impl LockDriver + Clone, prefix: &str, mode: Mode) {
    let (store, session) = store();
    hide(&store, &session, prefix).await;
    let beside = session.mutex("b").unwrap().acquire().await.unwrap();
    let lock = match mode {
        Mode::Read => AnyLock::Read(session.rw_lock("a").unwrap().with_driver(driver)),
        _ => session.mutex("a").unwrap().with_driver(driver).into(),
    };
    let held = lock.acquire().await.unwrap();
    assert!(held.is_valid() && beside.is_valid());
    assert_eq!(number(&session), Some(1));
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 3);
    held.release().await.unwrap();
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_in_doubt_is_found_among_hidden_ones_of_the_same_name() {
    is_found(ReadWriteNodes, "read-node", Mode::Read).await;
    is_found(HostNodes::of("h"), "h-R-", Mode::Read).await;
    is_found(MaxLeases::new(2, Numbered::dlock()).unwrap(), "sub_", Mode::Mutex).await;
}

/// It goes only with the session, which nothing new is acquired in.
#[tokio::test(start_paused = true)]
async fn a_node_in_doubt_that_is_hidden_itself_is_an_error() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let held = session.mutex("b").unwrap().acquire().await.unwrap();
    let mutex = session.mutex("a").unwrap().with_driver(Numbered::dlock());
    mutex.acquire().await.unwrap().release().await.unwrap();
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Get).path("sub_").times(u64::MAX));
    faults.inject(Fault::lose_reply().on(Op::Create).path("/zklock/a/sub_"));
    let error = mutex.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(held.is_valid());
    held.release().await.unwrap();
    drop(mutex.acquire().await.unwrap());
    assert_eq!(number(&session), Some(2));
}

/// Where names recur, the server is asked after a wait whether the own node is there.
#[tokio::test(start_paused = true)]
async fn whoever_may_not_check_its_own_node_is_told_and_leaves_the_queue() {
    let (store, session) = store();
    let lock = |session: &Session| session.rw_lock("a").unwrap().with_driver(ReadWriteNodes);
    let (held, wanted) = (lock(&on(&store)).write().await.unwrap(), lock(&session));
    let waiting = crate::spawn(async move { wanted.write().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let names = contenders(&store, "/zklock/a").await;
    let own = names.iter().find(|name| !held.node_path().ends_with(name.as_str())).unwrap();
    let refused = RequestError::Multi { index: 0, error: Box::new(RequestError::NoAuth) };
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(refused).on(Op::Multi).path(own.as_str()).times(u64::MAX));
    held.release().await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    let error = told.expect("it queues up again and again").unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert_eq!(contenders(&store, "/zklock/a").await, [""; 0]);
}
