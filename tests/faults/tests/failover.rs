//! What a leader's end costs those who wait.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zklock::Session;
use zklock_test_support::{ZooKeeper, monotonic_ns};

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_leader_is_killed_waiting_clients_go_on_within_three_session_timeouts() {
    let ensemble = ZooKeeper::builder().ensemble(3);
    let last = Arc::new(AtomicU64::new(0));
    let (mut sessions, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let builder = Session::builder(ensemble.connect_string()).root("/failover");
        let builder = builder.session_timeout(SESSION_TIMEOUT);
        let session = builder.connect_timeout(Duration::from_secs(60)).connect().await.unwrap();
        sessions.push(session);
    }
    for session in &sessions {
        let (mutex, last) = (session.mutex("a").unwrap(), last.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                let guard = mutex.acquire().await.unwrap();
                last.fetch_max(monotonic_ns(), Ordering::SeqCst);
                // Lost guards are no errors here.
                drop(guard.release().await);
            }
        }));
    }
    let (waits, start) = (Duration::from_millis(5), Instant::now());
    while last.load(Ordering::SeqCst) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(waits).await;
    }
    for round in 0..2 {
        let leader = ensemble.leader();
        ensemble.server(leader).kill();
        let killed = Instant::now();
        let elected = ensemble.leader();
        println!("server {elected} leads after {:?}", killed.elapsed());
        // What was answered before the kill may still be on its way.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let settled = monotonic_ns();
        while last.load(Ordering::SeqCst) < settled {
            assert!(killed.elapsed() < 3 * SESSION_TIMEOUT, "round {round}");
            tokio::time::sleep(waits).await;
        }
        println!("the next grant came {:?} after the leader's end", killed.elapsed());
        ensemble.server(leader).restart();
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    for task in tasks {
        drop(task.await);
    }
    for session in sessions {
        session.close().await;
    }
}
