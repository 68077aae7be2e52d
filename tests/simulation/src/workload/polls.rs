//! Futures that are dropped in the middle.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::panicking;

use futures_lite::future::or;

use super::scares::scare;
use crate::executor::{ProcessId, World, current_task};

thread_local! {
    /// How many acquires each process has dropped in the schedule that runs on this thread.
    static DROPPED: RefCell<BTreeMap<ProcessId, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// How many acquires a process has dropped in the schedule that runs on this thread.
pub(crate) fn dropped(process: ProcessId) -> u64 {
    DROPPED.with_borrow(|dropped| dropped.get(&process).copied().unwrap_or_default())
}

/// A schedule begins.
pub(crate) fn drops_none() {
    DROPPED.take();
}

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

/// The waker of a task, which panics now and then when it has woken that.
struct Nervous {
    world: Arc<World>,
    task: Waker,
    per_mille: u32,
}

impl Wake for Nervous {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.task.wake_by_ref();
        // Where something panics already, that would be the end of all schedules.
        if !panicking() && self.world.seldom(2, self.per_mille) == 1 {
            self.world.say(|| "a waker panics".to_owned());
            scare();
        }
    }
}

/// Polls a future with wakers of which so many of 1,000 wakes panic.
pub(super) async fn nervously<F: Future>(
    world: &Arc<World>,
    future: F,
    per_mille: u32,
) -> F::Output {
    if per_mille == 0 {
        return future.await;
    }
    let mut future = pin!(future);
    poll_fn(|cx| {
        let (world, task) = (world.clone(), cx.waker().clone());
        let waker = Waker::from(Arc::new(Nervous { world, task, per_mille }));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// Drops an acquire at its time, if it is not ready before.
pub(super) async fn cut_short<F: Future>(
    world: &Arc<World>,
    future: F,
    cut: Option<Cut>,
) -> Option<F::Output> {
    let output = cut_off(world, future, cut).await;
    if let (None, Some((process, _))) = (&output, current_task()) {
        DROPPED.with_borrow_mut(|dropped| *dropped.entry(process).or_default() += 1);
    }
    output
}

/// The same of what is no acquire.
pub(super) async fn cut_off<F: Future>(
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
