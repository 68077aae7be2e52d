//! One deadline for everything that a call does.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::base::clock::{Alarm, Clock, Instant};

/// The time at which a call gives up, on a given clock.
#[derive(Clone, Debug)]
pub struct Deadline {
    clock: Clock,
    at: Instant,
}

/// The deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl Deadline {
    /// A deadline `within` from now.
    pub fn after(clock: Clock, within: Duration) -> Self {
        let at = clock.now() + within;
        Deadline { clock, at }
    }

    /// A deadline at a given time.
    pub fn at(clock: Clock, at: Instant) -> Self {
        Deadline { clock, at }
    }

    /// The time.
    pub fn instant(&self) -> Instant {
        self.at
    }

    /// The clock it is measured on.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether the time has come.
    pub fn has_passed(&self) -> bool {
        self.clock.now() >= self.at
    }

    /// Waits for `work`, at most until the deadline. Work that is ready wins over a deadline that
    /// has passed.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `work`, which is dropped at the deadline.
    pub async fn bound<F: Future>(&self, work: F) -> Result<F::Output, Elapsed> {
        let mut work = pin!(work);
        let mut alarm = Alarm::default();
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            // The timer is set only if the work does not finish at once.
            alarm.poll(&self.clock, self.at, cx).map(|()| Err(Elapsed))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test(start_paused = true)]
    async fn work_is_dropped_at_the_deadline() {
        let clock = Clock::Caller;
        let start = clock.now();
        let bound =
            Deadline::after(clock.clone(), Duration::from_secs(2)).bound(pending::<()>()).await;
        assert_eq!(bound, Err(Elapsed));
        assert_eq!(clock.now().since(start).as_secs(), 2);
    }

    #[tokio::test]
    async fn ready_work_wins_over_a_passed_deadline() {
        let passed = Deadline::after(Clock::Caller, Duration::ZERO);
        assert_eq!(passed.bound(async { 1 }).await, Ok(1));
    }
}
