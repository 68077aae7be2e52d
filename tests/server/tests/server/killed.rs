//! Processes that are killed.

use std::time::{Duration, Instant};

use crate::bed::{Bed, acquiring, soon};
use crate::process::{Part, Process};

#[tokio::test]
async fn a_killed_holder_frees_its_lock_within_the_session_timeout_and_a_tick() {
    let bed = Bed::shared("killed");
    let (timeout, tick) = (Duration::from_secs(2), Duration::from_millis(200));
    let mut holder = Process::start(&bed, Part::Hold, timeout);
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    let start = Instant::now();
    holder.kill();
    let guard = soon("the lock", waiting).await.unwrap();
    let took = start.elapsed();
    println!("killed: free after {took:?}, session timeout {timeout:?} and tick {tick:?}");
    // The server keeps to it; what is added is for waking us on a busy machine.
    assert!(took < timeout + tick + Duration::from_secs(2), "{took:?}");
    guard.release().await.unwrap();
    bed.end().await;
}
