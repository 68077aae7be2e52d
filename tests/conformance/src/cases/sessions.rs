use std::time::Duration;

use async_io::Timer;

use crate::Lab;
use crate::lab::{eventually, soon};
use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::watch::WatchEvent;

pub async fn an_expired_session_ends_for_everybody(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let mine = lab.create(&session, "mine", NodeKind::Ephemeral).await.path;
    lab.create(&session, "stays", NodeKind::Persistent).await;
    let theirs = lab.create(&other, "theirs", NodeKind::Ephemeral).await.path;
    let (_, _, watch) = soon(other.get_watched(&mine)).await.unwrap();
    let (_, names) = soon(other.children_watched(lab.root())).await.unwrap();
    let (_, _, own) = soon(session.get_watched(&theirs)).await.unwrap();
    assert_eq!(session.link(), Link::Up);

    soon(lab.harness().expire(session.session_id())).await;
    assert_eq!(soon(watch).await, WatchEvent::Deleted);
    assert_eq!(soon(names).await, WatchEvent::Changed);
    assert_eq!(lab.names(&other).await, ["stays", "theirs"]);
    assert_eq!(soon(own).await, WatchEvent::SessionEnded);
    eventually(|| async { session.link() == Link::Expired }).await;
    assert_eq!(soon(session.link_changed(Link::Down)).await, Link::Expired);
    let get = soon(session.get(&theirs)).await;
    assert_eq!(get.map(|_| ()), Err(RequestError::SessionExpired));
    let watched = soon(session.get_watched(&theirs)).await;
    assert_eq!(watched.map(|_| ()), Err(RequestError::SessionExpired));
    let created = soon(session.create(&mine, b"", NodeKind::Ephemeral)).await;
    assert_eq!(created, Err(RequestError::SessionExpired));
    soon(session.close()).await;
    assert_eq!(session.link(), Link::Expired);
    assert_eq!(other.link(), Link::Up);
}

pub async fn a_closed_session_ends_for_everybody(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let mine = lab.create(&session, "mine", NodeKind::Ephemeral).await.path;
    let theirs = lab.create(&other, "theirs", NodeKind::Ephemeral).await.path;
    let (_, _, watch) = soon(other.get_watched(&mine)).await.unwrap();
    let (_, _, own) = soon(session.get_watched(&theirs)).await.unwrap();
    let changed = session.link_changed(Link::Up);
    soon(session.close()).await;
    assert_eq!(session.link(), Link::Closed);
    assert_eq!(soon(changed).await, Link::Closed);
    assert_eq!(soon(watch).await, WatchEvent::Deleted);
    assert_eq!(soon(own).await, WatchEvent::SessionEnded);
    assert_eq!(lab.names(&other).await, ["theirs"]);
    let get = soon(session.get(&theirs)).await;
    assert_eq!(get.map(|_| ()), Err(RequestError::Closed));
    assert_eq!(
        soon(
            session.multi(vec![zklock_core::coordinator::operation::Operation::Check {
                path: theirs
            }])
        )
        .await,
        Err(RequestError::Closed)
    );
    // A second call has no effect.
    soon(session.close()).await;
}

pub async fn requests_sent_before_a_close_are_answered(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let created = session.create(&lab.path("stays"), b"", NodeKind::Persistent);
    let gone = session.create(&lab.path("goes"), b"", NodeKind::Ephemeral);
    let closed = session.close();
    assert!(soon(created).await.is_ok());
    assert!(soon(gone).await.is_ok());
    soon(closed).await;
    eventually(|| async { lab.names(&other).await == ["stays"] }).await;
}

pub async fn a_close_that_the_server_cannot_be_told_of_takes_its_time(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let mine = lab.create(&session, "mine", NodeKind::Ephemeral).await.path;
    soon(lab.harness().disconnect(session.session_id())).await;
    assert_eq!(soon(session.link_changed(Link::Up)).await, Link::Down);
    let start = std::time::Instant::now();
    soon(session.close()).await;
    // A second of a clock that may go faster for a moment.
    let is_soon = start.elapsed() < Duration::from_millis(500);
    assert!(!is_soon || session.link() != Link::Closed, "it says that the nodes are gone");
    assert!(soon(other.get(&mine)).await.is_ok());
}

pub async fn a_dropped_session_is_closed(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let mine = lab.create(&session, "mine", NodeKind::Ephemeral).await.path;
    let (_, _, watch) = soon(other.get_watched(&mine)).await.unwrap();
    let timeout = session.session_timeout();
    let own = soon(session.get_watched(&mine)).await.unwrap().2;
    let start = std::time::Instant::now();
    drop(session);
    assert_eq!(soon(watch).await, WatchEvent::Deleted);
    assert!(start.elapsed() < timeout, "it was not closed, it expired");
    // It is undefined which of the two a watch of the session itself sees.
    assert_ne!(soon(own).await, WatchEvent::Changed);
    Timer::after(Duration::from_millis(1)).await;
}
