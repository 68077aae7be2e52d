use std::time::Duration;

use futures_lite::future::block_on;

use super::{Embedded, TIMEOUT, connect};
use crate::base::clock::Clock;
use crate::coordinator::connector::Connector;
use crate::coordinator::link::Link;
use crate::coordinator::node::NodeKind;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::watch::WatchEvent;

#[tokio::test(start_paused = true)]
async fn a_disconnected_session_expires_for_the_server_then_for_its_client() {
    let store = Embedded::new();
    let (holder, waiter) = (connect(&store), connect(&store));
    holder.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    let (_, _, watch) = waiter.get_watched("/a").await.unwrap();
    let start = Clock::Caller.now();
    let seen = tokio::spawn(async move { (watch.await, Clock::Caller.now()) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let down = holder.link_changed(Link::Up);
    store.faults(holder.session_id()).disconnect();
    assert_eq!(down.await, Link::Down);
    let (event, at) = seen.await.unwrap();
    assert_eq!((event, at.since(start).as_secs()), (WatchEvent::Deleted, 11));
    assert_eq!(holder.link_changed(Link::Down).await, Link::Expired);
    assert_eq!(Clock::Caller.now().since(start).as_secs(), 15);
    assert_eq!(holder.sync("/").await, Err(RequestError::SessionExpired));
}

#[tokio::test(start_paused = true)]
async fn silence_is_noticed_late_and_last_contact_tells() {
    let store = Embedded::new();
    let session = connect(&store);
    let faults = store.faults(session.session_id());
    let start = Clock::Caller.now();
    assert_eq!(session.last_contact(), Some(start));
    faults.silence();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!((session.link(), session.last_contact()), (Link::Up, Some(start)));
    assert!(matches!(session.sync("/").await, Err(RequestError::Other(_))));
    assert_eq!((session.link(), Clock::Caller.now().since(start).as_secs()), (Link::Down, 2));
    faults.reconnect();
    assert_eq!((session.link(), session.last_contact()), (Link::Up, Some(Clock::Caller.now())));
}

#[tokio::test(start_paused = true)]
async fn an_empty_container_goes_and_its_counter_with_it() {
    let store = Embedded::new();
    let session = connect(&store);
    session.create("/q", b"", NodeKind::Container).await.unwrap();
    tokio::time::advance(Duration::from_secs(600)).await;
    let node = session.create("/q/n-", b"", NodeKind::EphemeralSequential).await.unwrap();
    let (_, _, watch) = session.get_watched("/q").await.unwrap();
    session.delete(&node.path).await.unwrap();
    let start = Clock::Caller.now();
    assert_eq!(watch.await, WatchEvent::Deleted);
    assert_eq!(Clock::Caller.now().since(start).as_secs(), 60);
    assert!(session.children("/").await.unwrap().is_empty());
    let gone = session.create("/q/n-", b"", NodeKind::EphemeralSequential).await;
    assert_eq!(gone, Err(RequestError::NoNode));
    session.create("/q", b"", NodeKind::Container).await.unwrap();
    let again = session.create("/q/n-", b"", NodeKind::EphemeralSequential).await.unwrap();
    assert_eq!(again.path, "/q/n-0000000000");
    assert!(again.stat.czxid > node.stat.czxid);
}

#[tokio::test(start_paused = true)]
async fn delays_follow_the_clock_of_the_caller() {
    let store = Embedded::new();
    let session = connect(&store);
    store.faults(session.session_id()).delay_replies(Duration::from_secs(3));
    let start = Clock::Caller.now();
    session.sync("/").await.unwrap();
    assert_eq!(Clock::Caller.now().since(start).as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_used_again_in_time_stays() {
    let store = Embedded::new();
    let session = connect(&store);
    session.create("/q", b"", NodeKind::Container).await.unwrap();
    for _ in 0..3 {
        session.create("/q/a", b"", NodeKind::Ephemeral).await.unwrap();
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(session.children("/q").await.unwrap(), ["a"]);
        session.delete("/q/a").await.unwrap();
        tokio::time::advance(Duration::from_secs(59)).await;
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(session.children("/q").await, Err(RequestError::NoNode));
}

#[tokio::test(start_paused = true)]
async fn who_waits_already_learns_that_a_container_was_reaped() {
    let store = Embedded::new();
    let session = connect(&store);
    session.create("/q", b"", NodeKind::Container).await.unwrap();
    session.create("/q/a", b"", NodeKind::Ephemeral).await.unwrap();
    let (_, _, watch) = session.get_watched("/q").await.unwrap();
    let (_, names) = session.children_watched("/").await.unwrap();
    let (watch, names) = (tokio::spawn(watch), tokio::spawn(names));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Clock::Caller.now();
    session.delete("/q/a").await.unwrap();
    assert_eq!(watch.await.unwrap(), WatchEvent::Deleted);
    assert_eq!(names.await.unwrap(), WatchEvent::Changed);
    assert_eq!(Clock::Caller.now().since(start).as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_session_closed_on_a_frozen_server_expires() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    session.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    let (_, _, watch) = other.get_watched("/a").await.unwrap();
    let watch = tokio::spawn(watch);
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.faults(session.session_id()).hold_requests();
    let start = Clock::Caller.now();
    session.close().await;
    assert_eq!((session.link(), session.last_contact()), (Link::Closed, Some(start)));
    drop(session);
    assert_eq!(watch.await.unwrap(), WatchEvent::Deleted);
    assert_eq!(Clock::Caller.now().since(start).as_secs(), TIMEOUT.as_secs());
    assert_eq!(store.sessions(), [other.session_id()]);
}

#[test]
fn real_time_drives_it_without_a_runtime() {
    let store = Embedded::new();
    let waiter = connect(&store);
    let brief = block_on(store.connector(Duration::from_millis(50)).connect()).unwrap();
    block_on(brief.create("/a", b"", NodeKind::Ephemeral)).unwrap();
    let (_, _, watch) = block_on(waiter.get_watched("/a")).unwrap();
    let seen = std::thread::spawn(|| block_on(watch));
    store.faults(brief.session_id()).disconnect();
    assert_eq!(seen.join().unwrap(), WatchEvent::Deleted);
    assert_eq!(block_on(brief.link_changed(Link::Down)), Link::Expired);
}

#[test]
fn one_store_serves_runtimes_with_different_clocks() {
    let store = Embedded::new();
    let holder = connect(&store);
    block_on(holder.create("/a", b"", NodeKind::Ephemeral)).unwrap();
    let wait = |paused: bool| {
        let waiter = connect(&store);
        let (_, _, watch) = block_on(waiter.get_watched("/a")).unwrap();
        std::thread::spawn(move || {
            let _waiter = waiter;
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().start_paused(paused).build().unwrap().block_on(async {
                tokio::select! {
                    biased;
                    event = watch => Some(event),
                    () = tokio::time::sleep(Duration::from_secs(60)) => None,
                }
            })
        })
    };
    // Under a paused clock an hour is over at once; for everybody else it is not.
    let (real, paused) = (wait(false), wait(true));
    assert_eq!(paused.join().unwrap(), None);
    block_on(holder.delete("/a")).unwrap();
    assert_eq!(real.join().unwrap(), Some(WatchEvent::Deleted));
}
