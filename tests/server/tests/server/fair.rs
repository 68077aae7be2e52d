//! First come, first served.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use zklock::LockOptions;

use crate::bed::Bed;

const AT_ONCE: usize = 20;
const BATCHES: usize = 25;

/// The tasks of one thread are polled in the order in which they are spawned.
#[tokio::test]
async fn fair_acquires_of_one_process_are_granted_in_the_order_of_the_calls() {
    let bed = Bed::shared("fair");
    let (other, session) = (bed.session().await, bed.session().await);
    let held = other.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    let mutex = mutex.with_options(LockOptions::default().fair(true)).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for batch in 0..BATCHES {
        for number in 0..AT_ONCE {
            let (mutex, order) = (mutex.clone(), order.clone());
            tasks.spawn(async move {
                let guard = mutex.acquire().await.unwrap();
                order.lock().unwrap().push(batch * AT_ONCE + number);
                guard.release().await.unwrap();
            });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    held.release().await.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let order = order.lock().unwrap().clone();
    let inversions = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert_eq!((inversions, order.len()), (0, AT_ONCE * BATCHES), "{order:?}");
    bed.end().await;
}
