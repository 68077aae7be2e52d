use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_lite::future::block_on;

use super::{Embedded, TIMEOUT, connect, poll};
use crate::base::clock::{Clock, Instant};
use crate::coordinator::connector::Connector;
use crate::coordinator::node::NodeKind;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::coordinator::watch::WatchEvent;

const MOST: Duration = Duration::from_millis(40);
const SEEDS: u64 = 50;

/// A store with two sessions, late from now on.
fn late(seed: u64) -> (Embedded, Arc<dyn Coordinator>, Arc<dyn Coordinator>) {
    let store = Embedded::new();
    let (one, other) = (connect(&store), connect(&store));
    store.answer_late(seed, MOST);
    (store, one, other)
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_session_are_applied_and_answered_in_order() {
    for seed in 0..SEEDS {
        let (_store, session, _) = late(seed);
        let answered = Arc::new(Mutex::new(Vec::new()));
        let node = |number: usize| {
            let node = session.create("/n-", b"", NodeKind::EphemeralSequential);
            let answered = answered.clone();
            async move {
                let path = node.await.unwrap().path;
                answered.lock().unwrap().push((Clock::Caller.now(), number));
                assert_eq!(path, format!("/n-{number:010}"), "seed {seed}");
            }
        };
        // Who asked first looks last.
        let tasks: Vec<_> = (0..20).map(node).collect();
        let tasks: Vec<_> = tasks.into_iter().rev().map(tokio::spawn).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut order = answered.lock().unwrap().clone();
        assert!(order.windows(2).any(|two| two[0].0 < two[1].0), "seed {seed}: all at once");
        order.sort_by_key(|(at, _)| *at);
        let before = |two: &[(Instant, usize)]| two[0].0 == two[1].0 || two[0].1 < two[1].1;
        assert!(order.windows(2).all(before), "seed {seed}: {order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_comes_before_the_answer_of_a_read_that_shows_the_change() {
    for seed in 0..SEEDS {
        let (_store, session, other) = late(seed);
        session.create("/a", b"", NodeKind::Persistent).await.unwrap();
        let (_, _, mut watch) = session.get_watched("/a").await.unwrap();
        let changed = tokio::spawn(other.delete("/a"));
        loop {
            let shown = session.get("/a").await;
            let seen = poll(&mut watch);
            match shown {
                Err(error) => {
                    assert_eq!(error, RequestError::NoNode);
                    assert_eq!(seen, Poll::Ready(WatchEvent::Deleted), "seed {seed}");
                    break;
                }
                Ok(_) if seen.is_ready() => break,
                Ok(_) => {}
            }
        }
        changed.await.unwrap().unwrap();
    }
}

/// Several orders of two sessions occur, and each seed has its own, always the same.
#[tokio::test(start_paused = true)]
async fn sessions_overtake_each_other_as_the_seed_says() {
    let mut first = [0; 2];
    for seed in 0..SEEDS {
        let mut seen = Vec::new();
        for _ in 0..2 {
            let (_store, one, other) = late(seed);
            let both =
                [&one, &other].map(|it| it.create("/n-", b"", NodeKind::EphemeralSequential));
            let [one, other] = both.map(tokio::spawn);
            let (one, other) = (one.await.unwrap().unwrap(), other.await.unwrap().unwrap());
            seen.push((one.path, other.path));
        }
        assert_eq!(seen[0], seen[1], "seed {seed}");
        first[usize::from(seen[0].0 > seen[0].1)] += 1;
    }
    assert!(first.iter().all(|count| *count > 5), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_takes_effect_and_is_seen() {
    for seed in 0..SEEDS {
        let (_store, session, other) = late(seed);
        session.create("/a", b"", NodeKind::Persistent).await.unwrap();
        let (_, _, watch) = session.get_watched("/a").await.unwrap();
        let seen = tokio::spawn(watch);
        tokio::task::yield_now().await;
        let start = Clock::Caller.now();
        drop(other.delete("/a"));
        assert_eq!(seen.await.unwrap(), WatchEvent::Deleted);
        assert!(Clock::Caller.now().since(start) <= MOST + Duration::from_millis(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_link_takes_what_is_under_way() {
    let mut applied = [0; 2];
    for seed in 0..SEEDS {
        let (store, session, other) = late(seed);
        let mut made = session.create("/a", b"", NodeKind::Persistent);
        if let Poll::Ready(answer) = poll(&mut made) {
            answer.unwrap();
            continue;
        }
        tokio::time::sleep(MOST / 4).await;
        store.faults(session.session_id()).disconnect();
        let answer = made.await;
        let exists = other.get("/a").await.is_ok();
        match answer {
            Ok(_) => assert!(exists, "seed {seed}"),
            Err(error) => {
                assert_eq!(error, RequestError::ConnectionLoss);
                applied[usize::from(exists)] += 1;
            }
        }
    }
    assert!(applied.iter().all(|count| *count > 5), "{applied:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_was_heard_before() {
    for seed in 0..SEEDS {
        let (_store, session, other) = late(seed);
        let made = session.create("/a", b"", NodeKind::Persistent);
        drop(session.create("/b", b"", NodeKind::Ephemeral));
        session.close().await;
        made.await.unwrap();
        assert_eq!(other.children("/").await.unwrap(), ["a"], "seed {seed}");
    }
}

#[test]
fn answers_come_late_outside_of_any_runtime_and_across_runtimes() {
    let (store, session, other) = late(1);
    let work = async |session: Arc<dyn Coordinator>| {
        for _ in 0..20 {
            let path =
                session.create("/n-", b"", NodeKind::EphemeralSequential).await.unwrap().path;
            session.multi(vec![Operation::Delete { path }]).await.unwrap();
        }
    };
    let start = std::time::Instant::now();
    block_on(work(session.clone()));
    assert!(start.elapsed() > MOST);
    // A reply that one runtime asked for, and another waits for.
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut asked: Vec<_> = {
        let asking = runtime();
        let ask = || session.create("/n-", b"", NodeKind::EphemeralSequential);
        let mut asked: Vec<_> = (0..20).map(|_| ask()).collect();
        asking.block_on(async { asked.iter_mut().map(poll).filter(Poll::is_ready).count() });
        asked
    };
    runtime().block_on(asked.pop().unwrap()).unwrap();
    runtime().block_on(work(other));
    let opened = block_on(store.connector(TIMEOUT).connect()).unwrap();
    block_on(work(opened));
}

#[test]
fn prompt_again_means_at_once() {
    let (store, session, _) = late(1);
    let mut under_way = session.create("/a", b"", NodeKind::Persistent);
    store.answer_late(0, Duration::ZERO);
    // What is under way stays ahead.
    block_on(session.delete("/a")).unwrap();
    assert!(poll(&mut under_way).is_ready());
    assert!(poll(&mut session.sync("/")).is_ready());
}
