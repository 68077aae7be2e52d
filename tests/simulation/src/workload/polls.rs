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
    /// When it is woken after so many polls: nobody hears of what it was woken for.
    Woken(u32),
}

impl Cut {
    /// One of many, by its number; never for 0.
    pub(super) fn of(number: u32) -> Option<Self> {
        match (number, number % 3) {
            (0, _) => None,
            (_, 0) => Some(Cut::Woken(number / 3)),
            (_, 1) => Some(Cut::Polls(number.div_ceil(3))),
            // From less than a round trip to longer than a moment.
            _ => Some(Cut::Micros(u64::from(number).pow(3) * 10)),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Polls(polls) => write!(f, ", dropped after {polls} polls"),
            Cut::Micros(micros) => write!(f, ", dropped after {micros} µs"),
            Cut::Woken(polls) => write!(f, ", dropped when woken after {polls} polls"),
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
    let (mut left, hears) = match cut {
        None => return Some(future.await),
        Some(Cut::Micros(micros)) => {
            let late = async {
                world.sleep_until(world.now() + micros).await;
                None
            };
            return or(async { Some(future.await) }, late).await;
        }
        Some(Cut::Polls(polls)) => (polls, true),
        Some(Cut::Woken(polls)) => (polls, false),
    };
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            // It waits: for a moment, and never again if this was its last.
            Poll::Pending if left == 0 && hears => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
