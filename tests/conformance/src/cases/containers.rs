use std::time::Duration;

use async_io::Timer;

use crate::Lab;
use crate::lab::{eventually, has_come, soon};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::watch::WatchEvent;

pub async fn an_empty_container_goes_and_its_numbers_begin_again(lab: &Lab) {
    let session = lab.open().await;
    let sequential = NodeKind::EphemeralSequential;
    let outer = lab.create(&session, "outer", NodeKind::Container).await;
    let inner = lab.create(&session, "outer/inner", NodeKind::Container).await;
    let unused = lab.create(&session, "unused", NodeKind::Container).await;
    let first = lab.create(&session, "outer/inner/n-", sequential).await;
    Timer::after(lab.harness().reaped_within() + Duration::from_millis(200)).await;
    // A container in use stays, and one that was never used.
    let (_, stat, watch) = soon(session.get_watched(&inner.path)).await.unwrap();
    assert_eq!((stat.czxid, stat.num_children, stat.ephemeral_owner), (inner.stat.czxid, 1, 0));
    let (_, mut gone) = soon(session.children_watched(&inner.path)).await.unwrap();
    let (_, emptied) = soon(session.children_watched(&outer.path)).await.unwrap();
    assert!(soon(session.get(&unused.path)).await.is_ok());

    assert!(!has_come(&mut gone));
    soon(session.delete(&first.path)).await.unwrap();
    assert_eq!(soon(watch).await, WatchEvent::Deleted);
    assert_eq!(soon(gone).await, WatchEvent::Changed);
    assert_eq!(soon(emptied).await, WatchEvent::Changed);
    eventually(|| async { soon(session.get(&outer.path)).await == Err(RequestError::NoNode) })
        .await;
    let orphan = soon(session.create(&first.path, b"", sequential)).await;
    assert_eq!(orphan, Err(RequestError::NoNode));

    lab.create(&session, "outer", NodeKind::Container).await;
    lab.create(&session, "outer/inner", NodeKind::Container).await;
    let again = lab.create(&session, "outer/inner/n-", sequential).await;
    assert_eq!(again.path, first.path);
    assert!(again.stat.czxid > first.stat.czxid);
}
