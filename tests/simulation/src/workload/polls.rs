//! Futures that are dropped in the middle.

use std::future::{Future, poll_fn};
use std::task::Poll;

/// Drops a future after so many polls, if it is not ready before.
pub(super) async fn for_polls<F: Future>(future: F, polls: Option<u32>) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == Some(0) {
            return Poll::Ready(None);
        }
        left = left.map(|polls| polls - 1);
        match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            // It waits: for a moment, and never again if this was its last.
            Poll::Pending if left == Some(0) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
