//! What those who wait keep in memory. A process of its own: nothing else allocates beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::time::Duration;

use zklock::{Embedded, LockOptions, Session};

const WAITERS: usize = 1_000;

/// The anonymous memory of this process, in bytes, as the system counts it.
fn memory() -> usize {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Each has a node and a place in ZooKeeper's queue of its own. What it listed to find that place is
/// as long as the queue, and must not be kept.
#[tokio::test(start_paused = true)]
async fn a_fair_waiter_keeps_no_list_of_the_queue() {
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).open().unwrap();
    let mutex = session.mutex("a").unwrap();
    let mutex = mutex.with_options(LockOptions::default().fair(true));
    let held = mutex.acquire().await.unwrap();
    let before = memory();
    let wait = || {
        let mutex = mutex.clone();
        tokio::spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() })
    };
    let waiting: Vec<_> = (0..WAITERS).map(|_| wait()).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let nodes = session.site("a").unwrap().contenders().await.unwrap().len();
    assert_eq!(nodes, WAITERS + 1);
    let each = memory().saturating_sub(before) / WAITERS;
    println!("{WAITERS} fair waiters: {each} bytes each");
    assert!(each <= 24 * 1024, "{each} bytes each");
    for waiting in waiting {
        waiting.abort();
    }
    held.release().await.unwrap();
}
