//! Processes that are killed, and processes that are stopped and go on.

use std::time::{Duration, Instant};

use zklock_test_support::monotonic_ns;

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
    assert!(took < timeout + tick + Duration::from_secs(5), "{took:?}");
    guard.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_process_that_was_stopped_for_too_long_knows_when_it_goes_on() {
    let bed = Bed::shared("stopped");
    let mut holder = Process::start(&bed, Part::Watch, Duration::from_secs(2));
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    holder.stop();
    let guard = soon("the lock", waiting).await.unwrap();
    let granted = monotonic_ns();
    holder.go_on();
    let last_valid: u64 = holder.hears("lost ").parse().unwrap();
    println!("stopped: last valid {:?} before", Duration::from_nanos(granted - last_valid));
    assert!(last_valid < granted, "it took itself for the holder beside another");
    assert!(holder.wait().success());
    guard.release().await.unwrap();
    bed.end().await;
}
