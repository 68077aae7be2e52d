//! A call that is dropped at any of its awaits leaves nothing behind.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use futures_lite::FutureExt as _;
use tokio::task::yield_now;
use zklock::testing::TestLocks;
use zklock::{LockError, current, is_held_in_scope, zk_locked};

/// Has the lock when it goes, wherever that is in the body.
#[derive(Clone, Default)]
struct Owner(Arc<AtomicBool>);

impl Owner {
    fn body_begins(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // Dropped before the body began, it never had the lock.
        let has_begun = self.0.load(Ordering::Relaxed);
        let held = is_held_in_scope("cancelled/7");
        assert_eq!((held, current().is_valid()), (has_begun, has_begun));
    }
}

#[zk_locked("cancelled/{id}")]
async fn steps(id: u32, owner: Owner, ends: bool) -> Result<u32, LockError> {
    owner.body_begins();
    let _local = owner.clone();
    for _ in 0..3 {
        yield_now().await;
        assert!(is_held_in_scope("cancelled/7"));
    }
    if ends {
        panic!("as asked");
    }
    drop(owner);
    Ok(id)
}

fn poll_times<F: Future>(future: F, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..polls).any(|_| matches!(future.as_mut().poll(&mut context), Poll::Ready(_)))
}

#[tokio::test]
async fn a_call_that_is_dropped_at_any_await_frees_its_lock() {
    let locks = TestLocks::install();
    let mut polls = 0;
    while !poll_times(steps(7, Owner::default(), false), polls) {
        polls += 1;
        let held = locks.hold("cancelled/7").unwrap();
        drop(held);
        assert!(locks.session().local_contenders().is_empty(), "after {polls}");
    }
    assert!(polls > 3, "{polls}");
}

#[tokio::test]
async fn a_panic_frees_the_lock_and_goes_on() {
    let locks = TestLocks::install();
    let call = AssertUnwindSafe(steps(7, Owner::default(), true)).catch_unwind().await;
    assert!(call.is_err());
    assert!(locks.hold("cancelled/7").is_ok());
}

#[test]
fn a_panic_of_a_plain_body_frees_the_lock_and_goes_on() {
    #[zk_locked("plain")]
    fn plain() -> Result<(), LockError> {
        assert!(is_held_in_scope("plain"));
        panic!("as asked");
    }
    let locks = TestLocks::install();
    assert!(std::panic::catch_unwind(plain).is_err());
    assert!(locks.hold("plain").is_ok());
}
