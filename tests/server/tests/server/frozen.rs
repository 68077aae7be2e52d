//! A server that is there and does not answer.

use std::time::{Duration, Instant};

use zklock::ErrorKind;

use crate::bed::{Bed, acquiring, soon, until};

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
