//! Futures that are dropped in the middle.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use futures_lite::future::or;

use crate::executor::World;

/// When a future is dropped that is not ready before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// After so many polls.
    Polls(u32),
    /// After so many microseconds, in which perhaps nobody polls it.
    Micros(u64),
}

impl Cut {
    /// One of many, by its number; never for 0.
    pub(super) fn of(number: u32) -> Option<Self> {
        match number {
            0 => None,
            odd if odd % 2 == 1 => Some(Cut::Polls(odd.div_ceil(2))),
            even => Some(Cut::Micros(u64::from(even) * 200)),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Polls(polls) => write!(f, ", dropped after {polls} polls"),
            Cut::Micros(micros) => write!(f, ", dropped after {micros} µs"),
        }
    }
}

/// Drops a future at its time, if it is not ready before.
pub(super) async fn cut_short<F: Future>(
    world: &Arc<World>,
    future: F,
    cut: Option<Cut>,
) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = match cut {
        None => return Some(future.await),
        Some(Cut::Micros(micros)) => {
            let late = async {
                world.sleep_until(world.now() + micros).await;
                None
            };
            return or(async { Some(future.await) }, late).await;
        }
        Some(Cut::Polls(polls)) => polls,
    };
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            // It waits: for a moment, and never again if this was its last.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
