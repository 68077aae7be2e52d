//! Servers that restart.

use std::time::Duration;

use zklock::{Session, SessionState};
use zklock_test_support::ZooKeeper;

use crate::bed::{Bed, acquiring, soon, until};

/// Waits until all are connected again, and then long enough for a grant to somebody who waits.
async fn back(sessions: &[&Session]) {
    let connected = |session: &&Session| session.state() == SessionState::Connected;
    until("all are back", || sessions.iter().all(connected).then_some(())).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_and_waiter_both_complete_when_the_server_restarts() {
    // Long, for a restart on a busy machine must not outlive the lease of 11/20 of it. A server that starts may take
    // a connection and never answer there: the client leaves it after 4/15.
    const T: Duration = Duration::from_secs(100);
    let bed = Bed::own_with(|server| server.max_session_timeout(T));
    let patient = || bed.builder().session_timeout(T);
    let holder = bed.adopt(patient().connect().await.unwrap());
    let waiter = bed.adopt(patient().connect().await.unwrap());
    let busy = bed.busy_while_broken(&[&holder, &waiter]).await;
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let (sessions, token) = (holder.zookeeper_session(), guard.fencing_token());
    let waiting = acquiring(&waiter, "a");
    let queue = bed.until_contenders("a", 2).await;
    bed.server().restart();
    back(&[&holder, &waiter]).await;
    assert!(guard.is_valid() && !waiting.is_finished());
    assert_eq!(bed.contenders("a"), queue);
    guard.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap();
    assert!(guard.node_path().ends_with(&queue[1]) && guard.fencing_token() > token);
    assert_eq!(holder.zookeeper_session(), sessions);
    guard.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_guard_dropped_while_the_server_is_away_is_released_when_it_is_back() {
    let bed = Bed::own();
    let session =
        bed.adopt(bed.builder().session_timeout(Duration::from_secs(50)).connect().await.unwrap());
    let busy = bed.busy_while_broken(&[&session]).await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    bed.server().kill();
    drop(guard);
    bed.server().restart();
    bed.until_contenders("a", 0).await;
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_costs_neither_the_guard_nor_the_queue() {
    let bed = Bed::three(ZooKeeper::builder());
    let ensemble = bed.ensemble();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let builder = bed.builder_at(&ensemble.connect_string());
        let builder = builder.session_timeout(Duration::from_secs(50));
        sessions.push(bed.adopt(builder.connect().await.unwrap()));
    }
    let busy = bed.busy_while_broken(&[&sessions[0], &sessions[1]]).await;
    let before: Vec<_> = sessions.iter().map(Session::zookeeper_session).collect();
    let guard = sessions[0].mutex("a").unwrap().acquire().await.unwrap();
    let second = acquiring(&sessions[1], "a");
    bed.until_contenders("a", 2).await;
    let third = acquiring(&sessions[2], "a");
    let queue = bed.until_contenders("a", 3).await;

    // As one does it: the leader last, and the next only when all serve again.
    let leader = ensemble.leader();
    for server in ensemble.followers().into_iter().chain([leader]) {
        ensemble.restart(server);
        until("all serve", || (ensemble.followers().len() == 2).then_some(())).await;
        back(&sessions.iter().collect::<Vec<_>>()).await;
        assert!(guard.is_valid() && !second.is_finished() && !third.is_finished());
    }
    let mut token = guard.fencing_token();
    assert_eq!(bed.contenders("a"), queue);
    soon("the release", guard.release()).await.unwrap();
    for (next, node) in [(second, &queue[1]), (third, &queue[2])] {
        let next = soon("the lock", next).await.unwrap();
        assert!(next.node_path().ends_with(node) && next.fencing_token() > token);
        token = next.fencing_token();
        soon("the release", next.release()).await.unwrap();
    }
    assert!(before.into_iter().eq(sessions.iter().map(Session::zookeeper_session)));
    drop(busy);
    bed.end().await;
}
