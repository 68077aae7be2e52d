//! What a leader's end costs those who wait.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::Session;
use zklock_test_support::{Ensemble, RawClient, ZooKeeper, monotonic_ns};

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// Says how long it takes until a new client is served. Each try has a thread of its own: a server
/// that elects a leader may take a connection and not answer.
fn watch_for_service(ensemble: &Ensemble, dead: usize) -> Receiver<Duration> {
    let (told, tells) = channel();
    let start = Instant::now();
    for (index, server) in ensemble.servers().iter().enumerate() {
        for number in 0..50 {
            let (told, addr) = (told.clone(), server.addr());
            if index != dead {
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(200) * number);
                    if let Ok(client) = RawClient::connect(&addr, SESSION_TIMEOUT) {
                        _ = told.send(start.elapsed());
                        _ = client.close();
                    }
                });
            }
        }
    }
    tells
}

/// Says which nodes the leader shows and its followers do not.
struct Diverged(BTreeSet<String>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_leader_is_killed_waiting_clients_go_on_within_three_session_timeouts() {
    // In about one of 200 runs the server that was restarted, and leads next, shows a node that the
    // others have deleted, and logs "First digest mismatch": who waits behind it waits for ever, as
    // `docs/lost.md` says. Such a run tells nothing about zklock.
    for _ in 0..3 {
        match kill_two_leaders().await {
            Ok(()) => return,
            Err(Diverged(nodes)) => println!("only the leader shows {nodes:?}, once more"),
        }
    }
    panic!("the leader showed what its followers do not, three times");
}

async fn kill_two_leaders() -> Result<(), Diverged> {
    // The usual limits, and nothing between the servers. With the proxies there, elections last: a
    // new client was served 2.6 to 5.8 s after the kill, and 0.4 to 1.1 s without. Supposed, not
    // shown: a proxy takes a follower's call before the new leader listens.
    let builder = ZooKeeper::builder().init_limit(10).sync_limit(5).direct();
    // A follower calls its new leader five times, 100 ms apart. A leader that begins to listen later
    // (seen with ten times more work than cores) waits in vain until initLimit is over, and they
    // begin anew. So it is to call for as long as the leader waits.
    let builder = builder.java_property("zookeeper.leaderConnectDelayDuringRetryMs", "400");
    let ensemble = builder.ensemble(3);
    let last = Arc::new(AtomicU64::new(0));
    let (mut sessions, mut tasks) = (Vec::new(), JoinSet::new());
    for _ in 0..3 {
        let builder = Session::builder(ensemble.connect_string()).root("/failover");
        let builder = builder.session_timeout(SESSION_TIMEOUT);
        let session = builder.connect_timeout(Duration::from_secs(60)).connect().await.unwrap();
        sessions.push(session);
    }
    for session in &sessions {
        let (mutex, last) = (session.mutex("a").unwrap(), last.clone());
        tasks.spawn(async move {
            loop {
                let guard = mutex.acquire().await.unwrap();
                last.fetch_max(monotonic_ns(), Ordering::SeqCst);
                // Lost guards are no errors here.
                drop(guard.release().await);
            }
        });
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
        let back = watch_for_service(&ensemble, leader);
        // What was answered before the kill may still be on its way.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let settled = monotonic_ns();
        while last.load(Ordering::SeqCst) < settled {
            if killed.elapsed() >= 3 * SESSION_TIMEOUT {
                let leader = ensemble.leader();
                let nodes = ensemble.unknown_elsewhere(leader, "/failover/a");
                let queue = ensemble.children(leader, "/failover/a");
                // By the number. Only a node at the head keeps all of them waiting.
                let head = queue.iter().min_by_key(|name| &name[name.len().saturating_sub(10)..]);
                assert!(
                    head.is_some_and(|head| nodes.contains(head)),
                    "round {round}: a new client was served after {:?}; the queue is {queue:?}, of \
                     which only the leader shows {nodes:?}",
                    back.try_recv().ok()
                );
                return Err(Diverged(nodes));
            }
            tokio::time::sleep(waits).await;
        }
        let took = killed.elapsed();
        println!("the next grant came {took:?} after the leader's end");
        println!("a new client was served after {:?}", back.recv_timeout(3 * SESSION_TIMEOUT));
        ensemble.restart(leader);
    }
    tasks.shutdown().await;
    for session in sessions {
        session.close().await;
    }
    Ok(())
}
