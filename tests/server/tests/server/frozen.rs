//! A server that is there and does not answer.

use std::time::{Duration, Instant};

use zklock::{ErrorKind, LockError, Session};

use crate::bed::{Bed, acquiring, soon, until};

/// How much later than its bound a call may return here, on a machine with more work than cores.
const SLACK: Duration = Duration::from_secs(2);

/// How much later it returns where nothing else delays it.
const BOUND: Duration = Duration::from_millis(100);

/// Acquires in vain; prints how long that took.
async fn in_vain(what: &str, session: &Session, timeout: Duration) -> (LockError, Duration) {
    let start = Instant::now();
    let error = session.mutex("a").unwrap().acquire_timeout(timeout).await.unwrap_err();
    let took = start.elapsed();
    println!("{what}: a timeout of {timeout:?} took {took:?}");
    assert!(took >= timeout && took < timeout + SLACK, "{took:?}");
    (error, took)
}

/// Acquires in vain until a call is as soon back as it should be: other work on the machine only
/// ever adds to the time.
async fn in_vain_at_once(what: &str, session: &Session, timeout: Duration) -> LockError {
    for _ in 0..20 {
        let (error, took) = in_vain(what, session, timeout).await;
        assert!(!error.is_busy(), "{error}");
        if took < timeout + BOUND {
            return error;
        }
    }
    panic!("never within {BOUND:?}");
}

#[tokio::test]
async fn an_acquire_against_a_frozen_server_is_unavailable_in_time_and_leaves_nothing() {
    let bed = Bed::own();
    let session = bed.session().await;
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    bed.until_contenders("a", 0).await;
    bed.server().pause();
    let timeout = Duration::from_millis(500);
    let error = in_vain_at_once("frozen", &session, timeout).await;
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, "1013"), "{error}");
    assert_eq!(error.lock(), Some("a"));
    // The bound includes connecting.
    let unconnected = bed.builder().open().unwrap();
    let error = in_vain_at_once("frozen, not connected", &unconnected, timeout).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    bed.server().resume();
    // Its creations are applied now, and taken back: the next on the same session comes after.
    for session in [&session, &unconnected] {
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        guard.release().await.unwrap();
    }
    bed.until_contenders("a", 0).await;
    bed.adopt(unconnected);
    bed.end().await;
}

#[tokio::test]
async fn a_server_that_freezes_under_a_waiter_is_unavailable_and_not_busy() {
    let bed = Bed::own();
    let (holder, waiter) = (bed.session().await, bed.session().await);
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move {
        let (error, _) = in_vain("frozen in the queue", &waiter, Duration::from_secs(4)).await;
        (waiter, error)
    });
    bed.until_contenders("a", 2).await;
    bed.server().pause();
    let (waiter, error) = soon("an error", waiting).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    bed.server().resume();
    bed.until_contenders("a", 1).await;
    assert!(guard.is_valid());
    let waiting = acquiring(&waiter, "a");
    guard.release().await.unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_guard_is_lost_while_its_server_is_frozen() {
    let bed = Bed::own();
    let timeout = Duration::from_secs(4);
    let session = bed.adopt(bed.builder().session_timeout(timeout).connect().await.unwrap());
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let token = guard.fencing_token();
    bed.server().pause();
    let start = Instant::now();
    soon("the loss", guard.lost()).await;
    let took = start.elapsed();
    println!("frozen: a guard with a session timeout of {timeout:?} was lost after {took:?}");
    assert!(took < timeout, "{took:?}");
    assert!(!guard.is_valid());
    bed.server().resume();
    // If the session is still alive, so is the node: whoever is next waits until the body that
    // was told is done with it.
    let next = acquiring(&session, "a");
    until("the session goes on", || session.is_ready().then_some(())).await;
    assert!(!guard.is_valid());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let next = soon("the lock", next).await.unwrap();
    assert!(next.fencing_token() > token && next.is_valid());
    next.release().await.unwrap();
    bed.end().await;
}
