//! What watches leave behind on a real server.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::Coordinator;
use zklock_core::coordinator::watch::WatchEvent;
use zklock_core::coordinator::zookeeper::{ZooKeeperConnector, ZooKeeperOptions};
use zklock_test_support::ZooKeeper;

/// How many paths below `root` the server watches.
fn watched(root: &str) -> usize {
    let list = ZooKeeper::shared().four_letter("wchp").unwrap();
    list.lines().filter(|line| line.starts_with(root)).count()
}

async fn settles(root: &str, expected: usize) {
    let mut found = watched(root);
    for _ in 0..100 {
        if found == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = watched(root);
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn watches_that_nobody_waits_for_are_taken_back() {
    let options = ZooKeeperOptions::new(ZooKeeper::shared().addr());
    let session = ZooKeeperConnector::new(options).unwrap().open().await.unwrap();
    let root = format!("/watches-{}", std::process::id());
    session.create(&root, b"", NodeKind::Persistent).await.unwrap();
    let mut paths = Vec::new();
    for i in 0..4 {
        let path = format!("{root}/{i}");
        paths.push(session.create(&path, b"", NodeKind::Ephemeral).await.unwrap().path);
    }
    // On a missing node, dropped, in a reply that was dropped, and one that is kept.
    let missing = session.get_watched(&format!("{root}/missing")).await;
    assert_eq!(missing.map(drop), Err(RequestError::NoNode));
    let missing = session.children_watched(&format!("{root}/missing")).await;
    assert_eq!(missing.map(drop), Err(RequestError::NoNode));
    drop(session.get_watched(&paths[0]).await.unwrap());
    drop(session.children_watched(&paths[1]).await.unwrap());
    drop(session.get_watched(&paths[2]));
    let (_, _, kept) = session.get_watched(&paths[3]).await.unwrap();
    settles(&root, 1).await;
    session.delete(&paths[3]).await.unwrap();
    assert_eq!(kept.await, WatchEvent::Deleted);
    settles(&root, 0).await;
}
