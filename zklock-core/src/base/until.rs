//! Waiting for a condition.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::sync::Notify;

use crate::base::clock::{Alarm, Clock, Instant};
use crate::base::unharmed::{Unharming, unharming};

/// Waits until a condition holds, whose changes this notification announces.
pub async fn until(changed: &Notify, so: impl Fn() -> bool) {
    loop {
        let mut changed = pin!(changed.notified());
        changed.as_mut().enable();
        if so() {
            return;
        }
        unharming(changed).await;
    }
}

/// The same, where `time` says when the condition holds also if nobody announces it; that is only ever put off.
/// Each poll looks at it, and there is a timer only while it has to be waited for.
pub async fn until_by(
    changed: &Notify,
    clock: &Clock,
    time: impl Fn() -> Instant,
    so: impl Fn() -> bool,
) {
    let mut news = pin!(changed.notified());
    let (mut last, mut timer) = (Instant::ORIGIN, None);
    let mut callers = Unharming::default();
    poll_fn(|cx| {
        loop {
            // Before the look.
            if news.as_mut().enable() {
                news.set(changed.notified());
                continue;
            }
            if so() {
                return Poll::Ready(());
            }
            let (at, alarm) = timer.get_or_insert_with(|| {
                // If it was not put off, it has come in vain.
                let at = Some(time()).filter(|at| *at > last).unwrap_or(Instant::FAR);
                (at, Alarm::default())
            });
            if alarm.poll(clock, *at, cx).is_ready() {
                last = *at;
                timer = None;
                continue;
            }
            // It is made where this has to wait.
            let waker = callers.waker(cx.waker());
            if news.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                return Poll::Pending;
            }
            news.set(changed.notified());
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::Duration;

    use tokio::time::timeout;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_time_that_is_put_off_fulfils_it_where_nobody_announces_it() {
        let (changed, start) = (Notify::new(), Clock::Caller.now());
        let asked = Cell::new(0);
        let time = || {
            asked.set(asked.get() + 1);
            start + asked.get().min(3) * SECOND
        };
        let looks = Cell::new(0);
        let is_so = || {
            looks.set(looks.get() + 1);
            Clock::Caller.now() >= start + 3 * SECOND
        };
        until_by(&changed, &Clock::Caller, time, is_so).await;
        assert_eq!(Clock::Caller.now().since(start).as_secs(), 3);
        // A timer may fire a moment too early.
        assert!(asked.get() == 3 && looks.get() <= 7, "looked {} times", looks.get());
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_comes_in_vain_is_not_waited_for_again() {
        let (changed, start) = (Notify::new(), Clock::Caller.now());
        let (looks, is_so) = (Cell::new(0), Cell::new(false));
        let look = || {
            looks.set(looks.get() + 1);
            is_so.get()
        };
        let mut waits = pin!(until_by(&changed, &Clock::Caller, || start + SECOND, look));
        assert!(timeout(60 * SECOND, waits.as_mut()).await.is_err());
        assert!(looks.get() <= 4, "looked {} times", looks.get());
        is_so.set(true);
        changed.notify_waiters();
        timeout(SECOND, waits).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_it_so_asks_for_no_time() {
        until_by(&Notify::new(), &Clock::Caller, || panic!("asked"), || true).await;
    }
}
