//! When a deletion counts as done that is not answered, or not in time.

use std::pin::pin;

use tokio::time::timeout;

use super::bed::{T, kept};
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
