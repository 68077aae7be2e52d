//! What locks keep in memory. A process of its own: nothing else allocates beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::alloc::System;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use zklock::{Embedded, LockOptions, Session};
use zklock_core::coordinator::connector::Connector;
use zklock_core::coordinator::node::NodeKind;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MANY: usize = 500;

/// What the usual allocator adds to each piece on average: 8 bytes, and up to the next 16.
const ADDED: usize = 16;

/// What is allocated now, in bytes.
fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    let pieces = stats.allocations - stats.deallocations;
    stats.bytes_allocated - stats.bytes_deallocated + ADDED * pieces
}

/// By how much each of many adds to it, when as many are there already.
async fn each(mut one: impl AsyncFnMut(usize)) -> usize {
    let mut before = 0;
    for number in 0..2 * MANY {
        if number == MANY {
            before = allocated();
        }
        one(number).await;
    }
    (allocated() - before) / MANY
}

fn check(what: &str, bytes: usize, most: usize) {
    println!("{what}: {bytes} bytes each");
    assert!(bytes <= most, "{what}: {bytes} bytes each, and {most} is the limit");
}

/// A node in this directory, as long as a lock's, each in a directory of its own or all in one. What a
/// server keeps, which is here in the same process, is no memory of a lock.
async fn nodes(own_directories: bool) -> usize {
    let store = Embedded::new();
    let client = store.connector(Duration::from_secs(3600)).connect().await.unwrap();
    for path in ["/zklock", "/zklock/many"] {
        client.create(path, b"", NodeKind::Container).await.unwrap();
    }
    each(async |number| {
        let number = if own_directories { number } else { 0 };
        let directory = format!("/zklock/many/lock-{number:04}");
        drop(client.create(&directory, b"", NodeKind::Container).await);
        let path = format!("{directory}/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-");
        client.create(&path, &[b'x'; 96], NodeKind::EphemeralSequential).await.unwrap();
    })
    .await
}

/// One after the other, because all share one allocator.
#[tokio::test(start_paused = true)]
async fn locks_keep_little_in_memory() {
    held_locks_and_fair_waiters_are_small().await;
    connections_that_came_and_went_leave_nothing().await;
}

async fn held_locks_and_fair_waiters_are_small() {
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).app("memory").open().unwrap();
    let mut held = Vec::with_capacity(2 * MANY);
    let locks = each(async |number| {
        let mutex = session.mutex(format!("many/lock-{number:04}")).unwrap();
        held.push(mutex.acquire().await.unwrap());
    })
    .await;
    check("a held lock", locks + size_of_val(&held[0]) - nodes(true).await, 1_930);
    drop(held);

    let store = Embedded::new();
    let session = Session::embedded_builder(&store).app("memory").open().unwrap();
    let mutex = session.mutex("many/lock-0000").unwrap();
    let mutex = mutex.with_options(LockOptions::default().fair(true));
    let held = mutex.acquire().await.unwrap();
    let mut tasks = Vec::with_capacity(2 * MANY);
    let waiters = each(async |number| {
        let mutex = mutex.clone();
        tasks.push(tokio::spawn(async move { mutex.acquire().await.map(drop) }));
        if (number + 1).is_multiple_of(MANY) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let contenders = session.site("many/lock-0000").unwrap().contenders().await.unwrap();
    assert_eq!(contenders.len(), 2 * MANY + 1);
    check("a fair waiter", waiters - nodes(false).await, 7_000);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    held.release().await.unwrap();
}

/// More at once than one connection takes: eight, whose answers are awaited, and a ninth.
async fn another_connection(store: &Embedded, session: &Session, first: i64) {
    let faults = store.faults(first);
    faults.hold_replies();
    let acquiring = |number: usize| {
        let mutex = session.mutex(format!("many/lock-{number:04}")).unwrap();
        tokio::spawn(async move { drop(mutex.acquire().await.unwrap()) })
    };
    let all = (0..9).map(acquiring).collect::<Vec<_>>();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(store.sessions().len(), 2);
    faults.release();
    for acquired in all {
        acquired.await.unwrap();
    }
    // Until the second is closed, because nobody uses it.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(store.sessions(), [first]);
}

async fn connections_that_came_and_went_leave_nothing() {
    const CONNECTIONS: usize = 50;
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).app("memory").open().unwrap();
    drop(session.mutex("many/first").unwrap().acquire().await.unwrap());
    let [first] = store.sessions()[..] else { panic!("{:?}", store.sessions()) };
    let mut grown = Vec::new();
    for _ in 0..4 {
        let before = allocated();
        for _ in 0..CONNECTIONS {
            another_connection(&store, &session, first).await;
        }
        grown.push(allocated().saturating_sub(before) / CONNECTIONS);
    }
    // The first time there is more to make; and once, sooner or later, a buffer that is there takes more room.
    // What is kept of each connection is kept every time.
    grown.remove(0);
    grown.sort_unstable();
    check("a connection that came and went", grown[1], 16);
    assert!(session.local_contenders().is_empty());
}
