//! Everything at once: cancellations at random points, on connections that are cut at random.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use zklock::{LockOptions, Session};
use zklock_test_support::{is_long, monotonic_ns};

use crate::bed::{Bed, PATIENCE, until};
use crate::inside::Inside;

/// How many acquires; more with `ZKLOCK_LONG=1`.
fn round() -> usize {
    if is_long() { 1_000 } else { 100 }
}

/// A number below a bound; the next of a sequence.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_cancelled_at_random_on_connections_cut_at_random_leave_nothing() {
    let bed = Bed::shared("chaos");
    let proxy = bed.proxy();
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(bed.session_through(&proxy).await);
    }
    let busy = bed.busy_while_broken(&[&sessions[0], &sessions[1]]).await;
    let before = proxy.connections_total();
    let mut seed = monotonic_ns();
    println!("seed {seed}");
    let chaos = proxy.chaos(seed, Duration::from_millis(100));
    let (inside, at_once) = (Arc::new(Inside::default()), Arc::new(Semaphore::new(20)));
    let (mut acquires, mut granted) = (0, 0);
    // A round may be over before anything was cut; then another.
    while acquires == 0 || proxy.connections_total() < before + 2 * sessions.len() as u64 {
        let mut tasks = JoinSet::new();
        for number in 0..round() {
            let mutex = sessions[number % sessions.len()].mutex("a").unwrap();
            // Some at any moment of the first flight, some in the queue, and some never.
            let patience = match [5_000, 20_000, 50_000, 200_000, 0][number % 5] {
                0 => PATIENCE,
                longest => Duration::from_micros(random(&mut seed, longest)),
            };
            let hold = Duration::from_micros(random(&mut seed, 4_000));
            let awaits_release = random(&mut seed, 2) == 0;
            let (inside, at_once) = (inside.clone(), at_once.clone());
            tasks.spawn(async move {
                let _one_of_twenty = at_once.acquire_owned().await.unwrap();
                let acquired = tokio::time::timeout(patience, mutex.acquire()).await;
                let Ok(guard) = acquired else { return 0 };
                let guard = guard.unwrap();
                inside.pass(&guard, hold).await;
                if awaits_release {
                    guard.release().await.unwrap();
                }
                1
            });
        }
        acquires += tasks.len();
        while let Some(task) = tasks.join_next().await {
            granted += task.unwrap();
        }
    }
    let cuts = chaos.stop();
    println!("{acquires} acquires, {granted} granted, {cuts} connections cut");
    inside.assert_in_order(granted);
    assert!(granted > 0 && granted < acquires && cuts > 0);
    // Quiet is when all are connected again: the client waits longer after each failure.
    let start = Instant::now();
    until("all are back", || {
        let connected = proxy.connections() >= sessions.len();
        (connected && sessions.iter().all(Session::is_ready)).then_some(())
    })
    .await;
    println!("all are back after {:?}", start.elapsed());
    drop(busy);
    bed.until_contenders("a", 0).await;
    for session in &sessions {
        assert!(session.local_contenders().is_empty());
        // It does not wait for anybody; the time is for the machine.
        let patient = LockOptions::default().timeout(PATIENCE);
        let mutex = session.mutex("a").unwrap().with_options(patient);
        let start = Instant::now();
        let guard = mutex.try_acquire().await.unwrap();
        println!("the next in {:?}", start.elapsed());
        guard.release().await.unwrap();
    }
    bed.end().await;
}
