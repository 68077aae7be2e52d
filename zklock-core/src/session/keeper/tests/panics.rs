//! What is told although the log panics or a waker of the application.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Wake, Waker};

use futures_lite::future::zip;
use tokio::time::{sleep, timeout};

use super::bed::{Kept, MOMENT, T, kept, unkept};
use crate::base::policy::StopAt;
use crate::coordinator::memory::{Fault, Op};
use crate::coordinator::request_error::RequestError;
use crate::session::broken_log::panics_at;
use crate::session::generation::HeldNode;

async fn is_told(kept: &Kept, node: &Arc<HeldNode>) {
    let told = node.until(|| !kept.is_valid(node));
    timeout(2 * T, told).await.expect("who waits for the loss is not told");
}

/// Otherwise it would be in use for ever, and its ZooKeeper session would keep the nodes.
async fn is_ended_and_closed(kept: &Kept) {
    kept.faults.release();
    let generation = &kept.generation;
    let is_over = generation.until(|| generation.is_over());
    timeout(T, is_over).await.expect("the generation goes on");
    let closed = async {
        while !generation.coordinator().link().is_over() {
            sleep(MOMENT).await;
        }
    };
    timeout(T, closed).await.expect("the ZooKeeper session goes on");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_at_a_loss_keeps_it_from_nobody() {
    let kept = kept().await;
    let _log = panics_at("was lost");
    let (one, other) = (kept.hold("/a", StopAt::Lost).await, kept.hold("/b", StopAt::Lost).await);
    kept.faults.hold_replies();
    zip(is_told(&kept, &one), is_told(&kept, &other)).await;
    assert_eq!(kept.generation.losses(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_ends_no_other_lock() {
    for refused in [RequestError::NoAuth, RequestError::NoNode] {
        let kept = kept().await;
        let is_gone = refused == RequestError::NoNode;
        let _log = panics_at(if is_gone { "was lost" } else { "could not be checked" });
        let one = kept.hold("/a", StopAt::Lost).await;
        let other = kept.hold("/b", StopAt::Lost).await;
        let refused = RequestError::Multi { index: 0, error: Box::new(refused) };
        kept.faults.inject(Fault::refuse(refused).on(Op::Multi));
        sleep(2 * T).await;
        let valid = [&one, &other].map(|node| kept.is_valid(node) && !node.is_gone());
        assert_eq!(valid.iter().filter(|valid| **valid).count(), if is_gone { 1 } else { 2 });
        assert!(!kept.generation.is_over());
    }
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_panics_ends_what_it_keeps() {
    let kept = kept().await;
    let node = kept.hold("/a", StopAt::Lost).await;
    kept.panics.store(true, Ordering::SeqCst);
    is_told(&kept, &node).await;
    is_ended_and_closed(&kept).await;
}

/// A waker of the application.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

/// Lets it wait for something.
fn waits(work: Pin<&mut impl Future>) {
    let waker = Waker::from(Arc::new(Panics));
    assert!(work.poll(&mut Context::from_waker(&waker)).is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_at_a_loss_keeps_it_from_no_other_lock() {
    let kept = kept().await;
    let (one, other) = (kept.hold("/a", StopAt::Lost).await, kept.hold("/b", StopAt::Lost).await);
    let mut waiting = pin!(one.until(|| !kept.is_valid(&one)));
    waits(waiting.as_mut());
    kept.faults.hold_replies();
    is_told(&kept, &other).await;
    assert_eq!(kept.generation.losses(), 2);
    assert!(!kept.generation.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_at_a_standstill_keeps_no_other_from_looking() {
    let kept = unkept().await.0;
    let (one, other) = (kept.hold("/a", StopAt::Lost).await, kept.hold("/b", StopAt::Lost).await);
    let mut waiting = pin!(one.until(|| false));
    waits(waiting.as_mut());
    let mut changed = pin!(kept.generation.changed());
    waits(changed.as_mut());
    let mut told = pin!(other.changed());
    told.as_mut().enable();
    tokio::time::advance(T / 3).await;
    drop(kept.generation.delete("/none"));
    timeout(MOMENT / 2, told).await.expect("it does not look");
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_at_the_end_of_a_session_does_not_keep_it_open() {
    let kept = kept().await;
    let node = kept.hold("/a", StopAt::Lost).await;
    sleep(MOMENT).await;
    let mut state = kept.state.clone();
    state.mark_unchanged();
    let mut changed = pin!(state.changed());
    waits(changed.as_mut());
    kept.panics.store(true, Ordering::SeqCst);
    is_told(&kept, &node).await;
    is_ended_and_closed(&kept).await;
}
