//! Where the documents' locks are, byte for byte.

use std::time::Duration;

use zklock::Session;
use zklock::layout::{Curator, HostNodes, Numbered, ReadWriteNodes, Removed};
use zklock_test_support::{CreateMode, RawClient, ZooKeeper};

use crate::bed::{soon, until};

async fn at_root() -> (RawClient, Session) {
    let server = ZooKeeper::shared();
    let raw = RawClient::connect(&server.addr(), Duration::from_secs(60)).unwrap();
    (raw, Session::builder(server.addr()).root("/").connect().await.unwrap())
}

/// The documents' `DLock` beside ours: it makes `/zk_lock/sub_NNN` with no data and watches the
/// next smaller.
#[tokio::test]
async fn dlock_of_the_documents_excludes_and_is_excluded() {
    let (mut raw, session) = at_root().await;
    let lock = session.mutex("zk_lock").unwrap().with_driver(Numbered::dlock());
    let guard = lock.acquire().await.unwrap();
    let (parent, number) = guard.node_path().split_at("/zk_lock/sub_".len());
    assert_eq!((parent, number.len()), ("/zk_lock/sub_", 10));
    let theirs = raw.create("/zk_lock/sub_", b"", CreateMode::EphemeralSequential).unwrap();
    assert!(theirs.as_str() > guard.node_path());
    guard.release().await.unwrap();
    let mut names = raw.children("/zk_lock").unwrap();
    names.sort();
    // As DLock sees it: it is the first.
    assert_eq!(names, [theirs.rsplit('/').next().unwrap()]);
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    until("it waits", || (raw.children("/zk_lock").unwrap().len() == 2).then_some(())).await;
    assert!(!waiting.is_finished());
    raw.delete(&theirs).unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    // The parent is persistent.
    assert!(raw.exists("/zk_lock", false).unwrap());
    session.close().await;
    raw.close().unwrap();
}

#[tokio::test]
async fn four_steps_make_lock_lock() {
    let (raw, session) = at_root().await;
    let lock = session.mutex("lock").unwrap().with_driver(Numbered::lock());
    let guard = lock.acquire().await.unwrap();
    assert!(guard.node_path().starts_with("/lock/lock-00000000"), "{}", guard.node_path());
    guard.release().await.unwrap();
    session.close().await;
    raw.close().unwrap();
}

#[tokio::test]
async fn lock_nodes_say_read_and_write_in_name_and_data() {
    let (mut raw, session) = at_root().await;
    let lock = session.rw_lock("lock-node").unwrap().with_driver(ReadWriteNodes);
    let reading = lock.read().await.unwrap();
    assert!(reading.node_path().starts_with("/lock-node/read-node0"), "{}", reading.node_path());
    assert_eq!(raw.data(reading.node_path()).unwrap(), b"read");
    reading.release().await.unwrap();
    let writing = lock.write().await.unwrap();
    assert!(writing.node_path().starts_with("/lock-node/write-node0"), "{}", writing.node_path());
    assert_eq!(raw.data(writing.node_path()).unwrap(), b"write");
    writing.release().await.unwrap();
    session.close().await;
    raw.close().unwrap();
}

#[tokio::test]
async fn shared_locks_name_their_host() {
    let (mut raw, session) = at_root().await;
    let lock = session.rw_lock("shared_lock").unwrap().with_driver(HostNodes::of("192.168.0.1"));
    let reading = lock.read().await.unwrap();
    assert!(
        reading.node_path().starts_with("/shared_lock/192.168.0.1-R-0"),
        "{}",
        reading.node_path()
    );
    // Another reader of the documents enters beside it, a writer waits for both.
    let reader =
        raw.create("/shared_lock/192.168.0.2-R-", b"", CreateMode::EphemeralSequential).unwrap();
    let error = lock.try_write().await.unwrap_err();
    assert!(error.is_busy() || error.is_deadlock(), "{error}");
    reading.release().await.unwrap();
    let error = lock.try_write().await.unwrap_err();
    assert_eq!(error.holder().unwrap().owner.host, "192.168.0.2");
    raw.delete(&reader).unwrap();
    let writing = lock.write().await.unwrap();
    assert!(
        writing.node_path().starts_with("/shared_lock/192.168.0.1-W-0"),
        "{}",
        writing.node_path()
    );
    writing.release().await.unwrap();
    session.close().await;
    raw.close().unwrap();
}

#[tokio::test]
async fn the_wrappers_lock_directories_are_removed_after_the_release() {
    let server = ZooKeeper::shared();
    let mut raw = RawClient::connect(&server.addr(), Duration::from_secs(60)).unwrap();
    // A persistent root: the server's own tidying must not be taken for ours.
    for path in ["/distributed", "/distributed/lock"] {
        raw.create(path, b"", CreateMode::Persistent).unwrap();
    }
    let builder = Session::builder(server.addr()).root("/distributed/lock");
    let session = builder.driver(Removed::after(Curator)).connect().await.unwrap();
    for _ in 0..5 {
        let guard = session.mutex("createOrder").unwrap().acquire().await.unwrap();
        assert!(guard.node_path().starts_with("/distributed/lock/createOrder/_c_"));
        guard.release().await.unwrap();
        until("the directory is gone", || {
            (!raw.exists("/distributed/lock/createOrder", false).unwrap()).then_some(())
        })
        .await;
    }
    session.close().await;
    raw.close().unwrap();
}
