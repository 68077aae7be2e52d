//! What users get for their own tests.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::time::Instant;
use zklock::testing::TestLocks;
use zklock::{Body, LockError, SessionRegistry, zk_locked};

#[zk_locked("shared", timeout = "100ms", retries = 1)]
async fn hold(barrier: Option<Arc<Barrier>>) -> Result<(), LockError> {
    if let Some(barrier) = barrier {
        barrier.wait().await;
    }
    Ok(())
}

#[zk_locked("number/{id}")]
fn number(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

/// All of them hold the same lock at once: with a common session none would come to the barrier.
#[test]
fn tests_side_by_side_do_not_see_each_other() {
    let barrier = Arc::new(Barrier::new(4));
    let tests: Vec<_> = (0..4)
        .map(|_| {
            let barrier = barrier.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(async {
                    let locks = TestLocks::install();
                    let call = tokio::spawn(hold(Some(barrier)));
                    let call = tokio::time::timeout(Duration::from_secs(60), call).await;
                    call.expect("the others have the lock").unwrap().unwrap();
                    locks.assert_taken("shared");
                });
            })
        })
        .collect();
    tests.into_iter().for_each(|test| test.join().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lock_can_be_busy_lost_and_out_of_reach() {
    let locks = TestLocks::install();
    let held = locks.hold("shared").unwrap();
    let busy = hold(None).await.unwrap_err();
    assert!(busy.is_busy() && format!("{busy:#}").contains("another"), "{busy}");
    assert_eq!(busy.to_string(), "shared is being processed");
    assert_eq!(busy.body(), Some(Body::NotStarted));
    drop(held);
    locks.begin_outage();
    assert!(hold(None).await.unwrap_err().is_unavailable());
    locks.end_outage();
    hold(None).await.unwrap();
    let (outcome, ()) = tokio::join!(hold(Some(Arc::new(Barrier::new(2)))), async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        locks.lose();
    });
    assert!(outcome.unwrap_err().is_lost());
    assert_eq!(locks.taken(), ["shared", "shared"]);
}

#[tokio::test(start_paused = true)]
async fn answers_are_late_in_all_sessions_until_that_is_ended() {
    const LATE: Duration = Duration::from_millis(10);
    let locks = TestLocks::install().and_session("late");
    for name in [None, Some("late")] {
        let session = SessionRegistry::global().session(name).unwrap();
        let (mutex, start) = (session.mutex("a").unwrap(), Instant::now());
        for seed in 0..10 {
            locks.answer_late(seed, LATE);
            mutex.acquire().await.unwrap().release().await.unwrap();
        }
        assert!(start.elapsed() > LATE, "{name:?}: {:?}", start.elapsed());
    }
    locks.answer_late(0, Duration::ZERO);
    let start = Instant::now();
    hold(None).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[test]
fn what_was_taken_can_be_asserted() {
    let locks = TestLocks::install();
    number(7).unwrap();
    number(8).unwrap();
    assert_eq!(locks.taken(), ["number/7", "number/8"]);
    locks.assert_taken("number/8");
    assert!(catch_unwind(std::panic::AssertUnwindSafe(|| locks.assert_taken("number/9"))).is_err());
}

#[test]
fn a_test_can_expect_that_a_lock_is_taken() {
    let _locks = TestLocks::install().expecting("number/1");
    number(1).unwrap();
    let forgotten = catch_unwind(|| drop(TestLocks::install().expecting("number/2")));
    let message = *forgotten.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "`number/2` was not taken; these were: []");
}
