use futures_lite::future::block_on;

use super::super::{Fault, Op};
use super::{Embedded, TIMEOUT, connect, create, poll};
use crate::coordinator::connector::Connector;
use crate::coordinator::link::Link;
use crate::coordinator::node::NodeKind;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::watch::WatchEvent;

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

#[test]
fn an_outage_refuses_sessions() {
    let store = Embedded::new();
    let error = RequestError::Unreachable("nobody there".into());
    store.begin_outage(error.clone());
    assert_eq!(block_on(store.connector(TIMEOUT).connect()).err(), Some(error));
    store.end_outage();
    connect(&store);
}

#[test]
fn what_nobody_waits_for_leaves_nothing() {
    let store = Embedded::new();
    let session = connect(&store);
    let faults = store.faults(session.session_id());
    faults.disconnect();
    drop(session.get_watched("/"));
    drop(session.children_watched("/"));
    faults.reconnect();
    faults.hold_replies();
    drop(session.get_watched("/"));
    let held = session.get_watched("/");
    faults.disconnect();
    assert!(block_on(held).is_err());
    faults.reconnect();
    faults.inject(Fault::lose_reply());
    assert!(block_on(session.get_watched("/")).is_err());
    drop(session.children_watched("/"));
    assert_eq!(faults.pending_watches(), 0);
    drop(session);
    assert!(store.sessions().is_empty());
}

#[test]
fn a_held_session_gets_its_events_on_release() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    create(&other, "/a", NodeKind::Ephemeral);
    let (_, _, mut watch) = block_on(session.get_watched("/a")).unwrap();
    let faults = store.faults(session.session_id());
    faults.hold_replies();
    block_on(other.delete("/a")).unwrap();
    assert!(poll(&mut watch).is_pending());
    faults.release();
    assert_eq!(block_on(watch), WatchEvent::Deleted);
    assert_eq!((faults.watch_events(), store.watch_events()), (1, 1));
}

#[test]
fn an_expiry_at_a_chosen_request_comes_before_it() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    create(&session, "/a", NodeKind::Ephemeral);
    store.faults(session.session_id()).inject(Fault::expire().on(Op::Set).skip(1));
    block_on(session.set("/a", b"")).unwrap();
    assert_eq!(block_on(session.set("/a", b"")), Err(RequestError::SessionExpired));
    assert_eq!(session.link(), Link::Expired);
    assert!(block_on(other.children("/")).unwrap().is_empty());
}
