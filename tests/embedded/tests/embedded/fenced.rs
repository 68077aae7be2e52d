//! Writes that succeed only while the lock is held.

use zklock::ErrorKind;
use zklock_core::coordinator::memory::{Fault, Op};

use crate::support::{client, on, store};

#[tokio::test(start_paused = true)]
async fn a_holder_writes_and_a_bad_write_says_why() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    guard.fenced().create("/state", b"1").await.unwrap();
    guard.fenced().set("/state", b"2").await.unwrap();
    assert_eq!(client(&store).await.get("/state").await.unwrap().0, b"2");
    let again = guard.fenced().create("/state", b"").await.unwrap_err();
    assert_eq!((again.kind(), again.code()), (ErrorKind::Refused, "1023"));
    assert_eq!(guard.fenced().set("/none", b"").await.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(guard.fenced().set("none", b"").await.unwrap_err().kind(), ErrorKind::InvalidName);
    guard.fenced().delete("/state").await.unwrap();
    assert!(client(&store).await.get("/state").await.is_err());
    assert!(guard.is_valid());
}

/// The node is gone and this process has not learnt of it: the server refuses.
#[tokio::test]
async fn a_stale_holder_is_refused_by_the_server() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let outside = client(&store).await;
    outside
        .create("/state", b"1", zklock_core::coordinator::traits::NodeKind::Persistent)
        .await
        .unwrap();
    // The news of the deletion does not come through.
    store.faults(session.zookeeper_session().unwrap().0).hold_replies();
    outside.delete(guard.path()).await.unwrap();
    assert!(guard.is_valid());
    let fenced = guard.fenced();
    let writing = fenced.set("/state", b"stale");
    let releasing = async {
        tokio::task::yield_now().await;
        store.faults(session.zookeeper_session().unwrap().0).release();
    };
    let (written, ()) = tokio::join!(writing, releasing);
    assert!(written.unwrap_err().is_lost());
    assert_eq!(outside.get("/state").await.unwrap().0, b"1");
    assert!(guard.fenced().set("/state", b"later").await.unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn all_permits_are_proven_and_silence_is_no_refusal() {
    let (store, session) = store();
    let permits = session.semaphore("a", 3).unwrap().acquire_many(3).await.unwrap();
    permits.fenced().create("/state", b"").await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().0);
    faults.inject(Fault::lose_reply().on(Op::Multi));
    let error = permits.fenced().set("/state", b"2").await.unwrap_err();
    assert!(error.is_unavailable() && format!("{error:#}").contains("may have"), "{error}");
    assert_eq!(client(&store).await.get("/state").await.unwrap().0, b"2");
    drop(permits);
    drop(on(&store));
}
