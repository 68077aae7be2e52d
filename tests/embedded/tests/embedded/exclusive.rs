//! The documents' exclusive lock: one node that everybody tries to create.

use std::sync::Arc;

use zklock::{ErrorKind, Session};

use crate::support::{Inside, client, contenders, on, store};

#[tokio::test]
async fn there_is_one_node_and_whoever_made_it_holds_the_lock() {
    let (store, session) = store();
    let other = on(&store);
    let lock = session.mutex("a").unwrap().with_driver(zklock::layout::OneNode);
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.node_path(), "/zklock/a/lock");
    let error = other
        .mutex("a")
        .unwrap()
        .with_driver(zklock::layout::OneNode)
        .try_acquire()
        .await
        .unwrap_err();
    assert_eq!((error.code(), error.lock_name()), ("1011", Some("a")));
    assert_eq!(error.holder().unwrap().owner.pid, Some(std::process::id()));
    assert_eq!(contenders(&store, "/zklock/a").await, ["lock"]);
    let waiting = crate::spawn({
        let lock = other.mutex("a").unwrap().with_driver(zklock::layout::OneNode);
        async move { lock.acquire().await.unwrap() }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_one_session_and_of_many_never_overlap() {
    let (store, session) = store();
    let inside = Arc::new(Inside::default());
    let mut tasks = Vec::new();
    for task in 0..10 {
        let session = if task % 2 == 0 { session.clone() } else { on(&store) };
        let inside = inside.clone();
        tasks.push(crate::spawn(async move {
            let lock = session.mutex("a").unwrap().with_driver(zklock::layout::OneNode);
            for _ in 0..20 {
                let guard = lock.acquire().await.unwrap();
                inside.pass().await;
                if task % 3 == 0 { guard.release().await.unwrap() } else { drop(guard) }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((inside.most(), inside.total()), (1, 200));
}

/// A release of a lock that was lost must not delete the node of the next.
#[tokio::test]
async fn a_node_of_the_next_holder_is_not_deleted_by_the_last() {
    let (store, session) = store();
    let other = on(&store);
    let lock = session.mutex("a").unwrap().with_driver(zklock::layout::OneNode);
    let lost = lock.acquire().await.unwrap();
    client(&store).await.delete("/zklock/a/lock").await.unwrap();
    lost.lost().await;
    let next =
        other.mutex("a").unwrap().with_driver(zklock::layout::OneNode).acquire().await.unwrap();
    assert_eq!(lost.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.is_valid());
    assert_eq!(contenders(&store, "/zklock/a").await, ["lock"]);
    next.release().await.unwrap();
}

/// ZooKeeper can check that there is a node of this name, and not whose it is.
#[tokio::test]
async fn a_fenced_write_is_refused() {
    let guard = Session::embedded()
        .mutex("a")
        .unwrap()
        .with_driver(zklock::layout::OneNode)
        .acquire()
        .await
        .unwrap();
    let error = guard.fenced().create("/x", b"1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_mutex_of_the_same_name_is_another_layout() {
    let session = Session::embedded();
    let _guard =
        session.mutex("a").unwrap().with_driver(zklock::layout::OneNode).acquire().await.unwrap();
    let error = session.mutex("a").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}
