//! Many locks of one process.

use std::time::Duration;

use crate::support::{on, store};

/// With more watches than fit into one request the client loses its session at the next reconnect.
#[tokio::test(start_paused = true)]
async fn more_waiters_than_watches_all_enter() {
    let (store, session) = store();
    let other = on(&store);
    let mut held = Vec::new();
    for number in 0..1_200 {
        let mutex = other.mutex(&format!("many/a{number}")).unwrap();
        held.push(mutex.acquire().await.unwrap());
    }
    let waiting: Vec<_> = (0..1_200)
        .map(|number| {
            let mutex = session.mutex(&format!("many/a{number}")).unwrap();
            tokio::spawn(async move { mutex.acquire().await.unwrap() })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().0);
    assert_eq!(faults.pending_watches(), 1_000);
    drop(held);
    for waiting in waiting {
        let entered = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        drop(entered.unwrap().unwrap());
    }
}
