//! Servers that restart.

use std::time::Duration;

use crate::bed::{Bed, acquiring, soon};

#[tokio::test]
async fn holder_and_waiter_both_complete_when_the_server_restarts() {
    let bed = Bed::own();
    // Long, for a restart on a busy machine must not outlive the lease of seven twelfths of it.
    let patient = || bed.builder().session_timeout(Duration::from_secs(50));
    let holder = bed.adopt(patient().connect().await.unwrap());
    let waiter = bed.adopt(patient().connect().await.unwrap());
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let (sessions, token) = (holder.zookeeper_session(), guard.fencing_token());
    let waiting = acquiring(&waiter, "a");
    let queue = bed.until_contenders("a", 2).await;
    bed.server().restart();
    assert!(guard.is_valid() && !waiting.is_finished());
    assert_eq!(bed.contenders("a"), queue);
    guard.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap();
    assert!(guard.path().ends_with(&queue[1]) && guard.fencing_token() > token);
    assert_eq!(holder.zookeeper_session(), sessions);
    guard.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_guard_dropped_while_the_server_is_away_is_released_when_it_is_back() {
    let bed = Bed::own();
    let session =
        bed.adopt(bed.builder().session_timeout(Duration::from_secs(50)).connect().await.unwrap());
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    bed.server().kill();
    drop(guard);
    bed.server().restart();
    bed.until_contenders("a", 0).await;
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    bed.end().await;
}
