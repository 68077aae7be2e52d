use crate::Lab;
use crate::lab::{eventually, has_come, soon};
use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::watch::WatchEvent;

pub async fn requests_made_while_down_wait(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let path = lab.create(&session, "before", NodeKind::Ephemeral).await.path;
    soon(lab.harness().disconnect(session.session_id())).await;
    assert_eq!(soon(session.link_changed(Link::Up)).await, Link::Down);
    let mut create = session.create(&lab.path("n-"), b"", NodeKind::EphemeralSequential);
    let list = session.children(lab.root());
    drop(session.create(&lab.path("dropped"), b"", NodeKind::Ephemeral));
    assert!(!has_come(&mut create));
    assert_eq!(lab.names(&other).await, ["before"]);
    soon(lab.harness().reconnect(session.session_id())).await;
    // They go out in order, the dropped one too.
    assert_eq!(soon(create).await.unwrap().path, lab.path("n-0000000001"));
    assert_eq!(soon(list).await.unwrap().len(), 2);
    assert_eq!(lab.names(&session).await, ["before", "dropped", "n-0000000001"]);
    assert_eq!(session.link(), Link::Up);
    // It is the same session.
    let (_, stat) = soon(other.get(&path)).await.unwrap();
    assert_eq!(stat.ephemeral_owner, session.session_id());
}

pub async fn requests_in_flight_are_lost_with_the_connection(lab: &Lab) {
    let session = lab.open().await;
    lab.create(&session, "before", NodeKind::Ephemeral).await;
    soon(lab.harness().stall(session.session_id())).await;
    let create = session.create(&lab.path("a"), b"", NodeKind::Ephemeral);
    let multi = session
        .multi(vec![zklock_core::coordinator::operation::Operation::Check { path: lab.path("a") }]);
    let mut list = session.children(lab.root());
    // The client needs a moment to write.
    async_io::Timer::after(std::time::Duration::from_millis(500)).await;
    assert!(!has_come(&mut list));
    assert_eq!(session.link(), Link::Up, "nobody has noticed yet");
    soon(lab.harness().disconnect(session.session_id())).await;
    for error in [
        soon(create).await.map(|_| ()).unwrap_err(),
        soon(multi).await.unwrap_err(),
        soon(list).await.map(|_| ()).unwrap_err(),
    ] {
        assert!(!error.is_definite() && !error.ends_session(), "{error:?}");
    }
    soon(lab.harness().reconnect(session.session_id())).await;
    assert_eq!(lab.names(&session).await, ["before"]);
}

pub async fn a_lost_connection_is_known_when_it_is_back(lab: &Lab) {
    let session = lab.open().await;
    let mut lost = session.link_lost();
    assert!(!has_come(&mut lost));
    soon(lab.harness().disconnect(session.session_id())).await;
    soon(session.link_changed(Link::Up)).await;
    soon(lab.harness().reconnect(session.session_id())).await;
    soon(session.link_changed(Link::Down)).await;
    assert_eq!(session.link(), Link::Up);
    soon(lost).await;
    assert!(!has_come(&mut session.link_lost()));
}

pub async fn watches_survive_a_reconnect(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let mut paths = Vec::new();
    for name in ["changed", "deleted", "replaced", "quiet"] {
        paths.push(lab.create(&other, name, NodeKind::Ephemeral).await.path);
    }
    let mut watches = Vec::new();
    for path in &paths {
        watches.push(soon(session.get_watched(path)).await.unwrap().2);
    }
    let (_, mut names) = soon(session.children_watched(&paths[3])).await.unwrap();
    soon(lab.harness().disconnect(session.session_id())).await;
    soon(session.link_changed(Link::Up)).await;
    soon(other.set(&paths[0], b"x")).await.unwrap();
    soon(other.delete(&paths[1])).await.unwrap();
    soon(other.delete(&paths[2])).await.unwrap();
    lab.create(&other, "replaced", NodeKind::Ephemeral).await;
    assert!(!watches.iter_mut().any(has_come));

    soon(lab.harness().reconnect(session.session_id())).await;
    let quiet = watches.pop().unwrap();
    let mut seen = Vec::new();
    for watch in watches {
        seen.push(soon(watch).await);
    }
    assert_eq!(seen, [WatchEvent::Changed, WatchEvent::Deleted, WatchEvent::Changed]);
    assert!(!has_come(&mut names));
    soon(other.delete(&paths[3])).await.unwrap();
    assert_eq!(soon(quiet).await, WatchEvent::Deleted);
    assert_eq!(soon(names).await, WatchEvent::Deleted);
}

pub async fn a_session_expired_while_down_is_learnt_on_reconnect(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let mine = lab.create(&session, "mine", NodeKind::Ephemeral).await.path;
    let theirs = lab.create(&other, "theirs", NodeKind::Ephemeral).await.path;
    let (_, _, own) = soon(session.get_watched(&theirs)).await.unwrap();
    let (_, _, watch) = soon(other.get_watched(&mine)).await.unwrap();
    soon(lab.harness().disconnect(session.session_id())).await;
    assert_eq!(soon(session.link_changed(Link::Up)).await, Link::Down);
    let waiting = session.create(&lab.path("late"), b"", NodeKind::Ephemeral);
    soon(lab.harness().expire(session.session_id())).await;
    assert_eq!(soon(watch).await, WatchEvent::Deleted);
    assert_eq!(session.link(), Link::Down, "nobody has told the client");
    soon(lab.harness().reconnect(session.session_id())).await;
    assert_eq!(soon(session.link_changed(Link::Down)).await, Link::Expired);
    assert_eq!(soon(waiting).await, Err(RequestError::SessionExpired));
    assert_eq!(soon(own).await, WatchEvent::SessionEnded);
    eventually(|| async { lab.names(&other).await == ["theirs"] }).await;
}
