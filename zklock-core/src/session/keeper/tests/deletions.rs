//! When a deletion counts as done that is not answered, or not in time.

use std::pin::pin;

use tokio::time::{sleep, timeout};

use super::bed::{MOMENT, T, kept};
use crate::base::policy::StopAt;
use crate::coordinator::memory::{Fault, Op};
use crate::coordinator::traits::{NodeKind, RequestError};
use crate::session::releaser::Deletion;

#[tokio::test(start_paused = true)]
async fn a_refusal_that_says_nothing_of_the_node_never_ends_the_wait_for_it() {
    let kept = kept().await;
    let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
    coordinator.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    let throttled = RequestError::Other("throttled".to_owned());
    kept.faults.inject(Fault::refuse(throttled).on(Op::Delete).times(u64::MAX));
    let mut deletion = pin!(Deletion::send(generation, "/a".into()));
    assert!(timeout(5 * T, &mut deletion).await.is_err());
    kept.faults.clear();
    timeout(T, deletion).await.unwrap().unwrap();
    assert_eq!(coordinator.get("/a").await.unwrap_err(), RequestError::NoNode);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_used_no_more_stays_until_its_nodes_are_deleted() {
    let kept = kept().await;
    let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
    let held = kept.hold("/a", StopAt::Lost).await;
    generation.retire("/b", &RequestError::NoAuth);
    kept.faults.inject(Fault::lose_request().on(Op::Delete));
    kept.faults.delay_replies(MOMENT);
    let deletion = tokio::spawn(Deletion::send(generation, "/a".into()));
    generation.unhold(&held);
    sleep(2 * MOMENT).await;
    assert!(!generation.is_over() && coordinator.get("/a").await.is_ok());
    deletion.await.unwrap().unwrap();
    sleep(MOMENT / 2).await;
    assert!(generation.is_over());
}
