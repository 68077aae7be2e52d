//! Locks whose acquires have nodes of their own, many of them at once.

use std::collections::HashSet;
use std::time::Duration;

use zklock::layout::Kazoo;
use zklock::{LockOptions, Mutex, Session, StopAt};

use crate::support::{client, contenders, store};

fn fair(session: &Session, name: &str) -> Mutex {
    session.mutex(name).unwrap().with_options(LockOptions::default().fair(true)).unwrap()
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Connections race; on one of them requests stay in order.
#[tokio::test(start_paused = true)]
async fn acquires_of_one_lock_that_are_on_their_way_take_one_connection() {
    let (store, session) = store();
    let held = fair(&session, "a").acquire().await.unwrap();
    store.faults(store.sessions()[0]).hold_replies();
    let strict = LockOptions::default().fair(true).stop_at(StopAt::Suspect);
    let strict = session.mutex("a").unwrap().with_options(strict).unwrap();
    let waiting: Vec<_> = (0..30)
        .flat_map(|number| {
            let mutex = if number % 3 == 0 { strict.clone() } else { fair(&session, "a") };
            let elsewhere = fair(&session, &format!("b{number}"));
            [
                tokio::spawn(async move { mutex.acquire().await.map(drop) }),
                tokio::spawn(async move { elsewhere.acquire().await.map(drop) }),
            ]
        })
        .collect();
    settle().await;
    assert!(store.sessions().len() > 1, "others open connections");
    let client = client(&store).await;
    let mut owners = HashSet::new();
    let nodes = contenders(&store, "/zklock/a").await;
    assert_eq!(nodes.len(), 31);
    for node in nodes {
        owners.insert(client.get(&format!("/zklock/a/{node}")).await.unwrap().1.owner);
    }
    assert_eq!(owners.len(), 1);
    store.faults(store.sessions()[0]).release();
    held.release().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
}

/// Whoever comes later finds a holder in another layout although the handles are gone.
#[tokio::test]
async fn a_guard_whose_handle_is_gone_keeps_other_layouts_out() {
    let (_store, session) = store();
    let guard = fair(&session, "a").acquire().await.unwrap();
    let other = || session.mutex("a").unwrap().driver(Kazoo::default()).unwrap();
    assert!(other().acquire().await.unwrap_err().to_string().contains("layout"));
    guard.release().await.unwrap();
    other().acquire().await.unwrap().release().await.unwrap();
}
