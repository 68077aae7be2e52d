use crate::Lab;
use crate::lab::{has_come, soon};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::watch::WatchEvent;

pub async fn a_data_watch_fires_once_and_tells_delete_from_change(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let path = soon(other.create(&lab.path("a"), b"0", NodeKind::Ephemeral)).await.unwrap().path;
    let (data, stat, mut watch) = soon(session.get_watched(&path)).await.unwrap();
    assert_eq!((data.as_slice(), stat.version), (&b"0"[..], 0));
    assert!(!has_come(&mut watch));
    soon(other.set(&path, b"1")).await.unwrap();
    assert_eq!(soon(watch).await, WatchEvent::Changed);

    let (data, _, watch) = soon(session.get_watched(&path)).await.unwrap();
    assert_eq!(data, b"1");
    // What happens after the first change is not seen by the watch.
    soon(other.set(&path, b"2")).await.unwrap();
    soon(other.delete(&path)).await.unwrap();
    assert_eq!(soon(watch).await, WatchEvent::Changed);

    lab.create(&session, "a", NodeKind::Ephemeral).await;
    let (_, _, watch) = soon(session.get_watched(&path)).await.unwrap();
    soon(session.delete(&path)).await.unwrap();
    assert_eq!(soon(watch).await, WatchEvent::Deleted);
}

pub async fn a_data_watch_ignores_children(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let path = lab.create(&session, "a", NodeKind::Persistent).await.path;
    let (_, _, mut watch) = soon(session.get_watched(&path)).await.unwrap();
    let child = lab.create(&other, "a/b", NodeKind::Persistent).await.path;
    soon(other.set(&child, b"x")).await.unwrap();
    soon(other.delete(&child)).await.unwrap();
    lab.create(&other, "ab", NodeKind::Persistent).await;
    soon(session.sync("/")).await.unwrap();
    assert!(!has_come(&mut watch));
    soon(other.delete(&path)).await.unwrap();
    assert_eq!(soon(watch).await, WatchEvent::Deleted);
}

pub async fn a_watch_on_a_missing_node_leaves_nothing(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let path = lab.path("a");
    let missing = soon(session.get_watched(&path)).await;
    assert_eq!(missing.map(|_| ()), Err(RequestError::NoNode));
    let missing = soon(session.children_watched(&path)).await;
    assert_eq!(missing.map(|_| ()), Err(RequestError::NoNode));
    lab.create(&other, "a", NodeKind::Ephemeral).await;
    // A new watch begins now.
    let (_, _, mut watch) = soon(session.get_watched(&path)).await.unwrap();
    soon(session.sync("/")).await.unwrap();
    assert!(!has_come(&mut watch));
    soon(other.set(&path, b"x")).await.unwrap();
    assert_eq!(soon(watch).await, WatchEvent::Changed);
}

pub async fn a_children_watch_sees_who_comes_and_goes(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let path = lab.create(&session, "a", NodeKind::Persistent).await.path;
    let (names, watch) = soon(session.children_watched(&path)).await.unwrap();
    assert!(names.is_empty());
    let child = lab.create(&other, "a/b", NodeKind::Persistent).await.path;
    assert_eq!(soon(watch).await, WatchEvent::Changed);

    let (names, mut watch) = soon(session.children_watched(&path)).await.unwrap();
    assert_eq!(names, ["b"]);
    soon(other.set(&path, b"x")).await.unwrap();
    soon(other.set(&child, b"x")).await.unwrap();
    let below = lab.create(&other, "a/b/c", NodeKind::Persistent).await.path;
    soon(other.delete(&below)).await.unwrap();
    soon(session.sync("/")).await.unwrap();
    assert!(!has_come(&mut watch));
    soon(other.delete(&child)).await.unwrap();
    assert_eq!(soon(watch).await, WatchEvent::Changed);

    let (_, watch) = soon(session.children_watched(&path)).await.unwrap();
    soon(other.delete(&path)).await.unwrap();
    assert_eq!(soon(watch).await, WatchEvent::Deleted);
}

/// A client that reads the new state knows of the change by then.
pub async fn a_watch_comes_before_what_it_announces(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    for i in 0..20 {
        let path = lab.create(&other, &i.to_string(), NodeKind::Ephemeral).await.path;
        let (_, _, mut watch) = soon(session.get_watched(&path)).await.unwrap();
        let deleted = other.delete(&path);
        while soon(session.get(&path)).await.is_ok() {}
        assert!(has_come(&mut watch));
        soon(deleted).await.unwrap();
    }
}

pub async fn all_watches_of_a_node_fire(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let path = lab.create(&session, "a", NodeKind::Ephemeral).await.path;
    let mut watches = Vec::new();
    for waiter in [&session, &session, &other, &other] {
        watches.push(soon(waiter.get_watched(&path)).await.unwrap().2);
    }
    watches.push(soon(other.children_watched(&path)).await.unwrap().1);
    // Dropping one watch does not affect the others.
    drop(watches.remove(0));
    drop(watches.remove(2));
    soon(session.delete(&path)).await.unwrap();
    for watch in watches {
        assert_eq!(soon(watch).await, WatchEvent::Deleted);
    }
}
