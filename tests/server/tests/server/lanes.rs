//! Several ZooKeeper sessions behind one of ours.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::bed::Bed;
use crate::inside::Inside;

const LOCKS: usize = 40;
const ROUNDS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_at_once_spread_over_connections_and_exclude_each_other() {
    let bed = Bed::own();
    let proxy = bed.proxy();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(bed.session_through(&proxy).await);
    }
    let inside: Vec<_> = (0..LOCKS).map(|_| Arc::new(Inside::default())).collect();
    let mut tasks = JoinSet::new();
    for session in &sessions {
        for (number, inside) in inside.iter().enumerate() {
            let (mutex, inside) = (session.mutex(&format!("a{number}")).unwrap(), inside.clone());
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = mutex.acquire().await.unwrap();
                    inside.pass(&guard, Duration::from_millis(2)).await;
                    guard.release().await.unwrap();
                }
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(proxy.connections_total() > 2, "{}", proxy.connections_total());
    inside.iter().for_each(|inside| inside.assert_in_order(sessions.len() * ROUNDS));
    for session in &sessions {
        session.close().await;
    }
    assert_eq!(bed.server().sessions(), []);
    bed.end().await;
}
