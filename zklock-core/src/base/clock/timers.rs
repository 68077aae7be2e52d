//! The timers of all sessions: one thread, which wakes whoever waits for a time.
//!
//! Nearly all waits end before their time, because an answer comes, and each lock has two. So to begin and to
//! end one is to change a map, in which nothing else is kept. The thread wakes up for a new one only if it would
//! sleep for longer.

use std::collections::BTreeMap;
use std::io;
use std::mem::replace;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::Builder;
use std::time::Instant as Awake;

use once_cell::sync::OnceCell;

use super::{Instant, boot};
use crate::base::times;
use crate::base::unharmed::unharmed;

/// Shows that the thread runs.
#[derive(Clone, Copy, Debug)]
pub struct Timers(());

impl Timers {
    /// Starts the thread, the first time.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn start() -> io::Result<Self> {
        static THREAD: OnceCell<()> = OnceCell::new();
        let start = || Builder::new().name("zklock-timers".to_owned()).spawn(run).map(drop);
        THREAD.get_or_try_init(start)?;
        Ok(Timers(()))
    }
}

/// Who waits for which time.
struct Waiting {
    /// By time, and by a number that no two of them have.
    wakers: BTreeMap<(Instant, u64), Waker>,
    numbers: u64,
    /// When the thread wakes up by itself.
    wakes_at: Instant,
    /// Since when it sleeps: by the clock, and by the one by which it sleeps, which stands still while the machine is
    /// suspended.
    sleeps_since: Option<(Instant, Awake)>,
}

impl Waiting {
    /// Whether the thread will wake up later than it meant to, because the machine was suspended while it slept.
    fn is_late(&self, now: Instant) -> bool {
        self.sleeps_since
            .is_some_and(|(since, awake)| now.since(since) > awake.elapsed() + times::TIMERS)
    }
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting {
    wakers: BTreeMap::new(),
    numbers: 0,
    wakes_at: Instant::FAR,
    sleeps_since: None,
});

static SOONER: Condvar = Condvar::new();

/// A waker is cloned, woken or dropped only while this is not locked: it is the application's, or the last
/// reference to a task that has timers.
fn lock() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run() {
    let mut waiting = lock();
    loop {
        let now = boot::now();
        let later = waiting.wakers.split_off(&(now, u64::MAX));
        let due = replace(&mut waiting.wakers, later);
        if due.is_empty() {
            let next = waiting.wakers.keys().next().map(|(at, _)| at.floor(times::TIMERS));
            waiting.wakes_at = next.map_or(Instant::FAR, |at| at + times::TIMERS);
            let rest = waiting.wakes_at.since(now);
            waiting.sleeps_since = Some((now, Awake::now()));
            let slept = SOONER.wait_timeout(waiting, rest);
            (waiting, _) = slept.unwrap_or_else(PoisonError::into_inner);
        } else {
            drop(waiting);
            // One waker that panics must not keep the others asleep.
            due.into_values().for_each(|waker| unharmed(|| waker.wake()));
            waiting = lock();
        }
    }
}

/// A wait for a time. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct Timer {
    at: Instant,
    number: u64,
}

impl Timer {
    /// Begins to wait, at a time that the clock has just shown.
    pub(super) fn new(_: Timers, now: Instant, at: Instant, waker: &Waker) -> Self {
        let waker = waker.clone();
        let mut waiting = lock();
        let number = waiting.numbers;
        waiting.numbers += 1;
        waiting.wakers.insert((at, number), waker);
        if at < waiting.wakes_at || waiting.is_late(now) {
            SOONER.notify_one();
        }
        Timer { at, number }
    }

    /// Whether the time has come. If not, `waker` is woken then.
    pub(super) fn has_fired(&self, waker: &Waker) -> bool {
        let mut new = waker.clone();
        let mut waiting = lock();
        let Some(old) = waiting.wakers.get_mut(&(self.at, self.number)) else { return true };
        std::mem::swap(old, &mut new);
        drop(waiting);
        false
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = lock().wakers.remove(&(self.at, self.number));
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    struct Tells(Sender<()>);

    impl Wake for Tells {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    fn after(time: Duration) -> (Timer, Instant, Receiver<()>) {
        let ((tell, told), now) = (channel(), boot::now());
        let waker = Waker::from(Arc::new(Tells(tell)));
        (Timer::new(Timers::start().unwrap(), now, now + time, &waker), now + time, told)
    }

    /// One test at a time: the waits of another one would wake the thread.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A wait that keeps the thread asleep for long.
    fn long() -> Timer {
        let (long, ..) = after(Duration::from_secs(3_600));
        std::thread::sleep(Duration::from_millis(20));
        long
    }

    #[test]
    fn who_waits_for_less_is_woken_sooner() {
        let (_alone, later) = (alone(), long());
        let (sooner, at, told) = after(Duration::from_millis(20));
        told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(boot::now() >= at);
        assert!(sooner.has_fired(Waker::noop()) && !later.has_fired(Waker::noop()));
    }

    /// During a suspend of the machine the clock goes on, and the sleep of the thread does not: it may have been
    /// about to end before the new wait, or after it.
    #[test]
    fn who_waits_after_a_suspend_does_not_wait_for_the_end_of_a_sleep_before_it() {
        let _alone = alone();
        for left in [-1_000_000_000, 10_000_000] {
            let _later = long();
            {
                let (mut waiting, now) = (lock(), boot::now().as_nanos());
                waiting.wakes_at = Instant::from_nanos(now.checked_add_signed(left).unwrap());
                let (since, awake) = waiting.sleeps_since.unwrap();
                let before = Instant::from_nanos(since.as_nanos() - 2_000_000_000);
                waiting.sleeps_since = Some((before, awake));
            }
            let (_sooner, _, told) = after(Duration::from_millis(20));
            told.recv_timeout(Duration::from_secs(20)).unwrap();
        }
    }

    #[test]
    fn who_is_polled_again_is_woken_by_the_last_waker_and_whoever_is_dropped_by_none() {
        let _alone = alone();
        let (again, at, before) = after(Duration::from_millis(50));
        let (dropped, _, never) = after(Duration::from_millis(50));
        let (tell, told) = channel();
        assert!(!again.has_fired(&Waker::from(Arc::new(Tells(tell)))));
        drop(dropped);
        told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(boot::now() >= at);
        assert!(before.try_recv().is_err() && never.try_recv().is_err());
    }

    /// As the last reference to a task that waits as well.
    struct Keeps(#[allow(dead_code, reason = "it is dropped")] Timer);

    impl Wake for Keeps {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_waker_that_drops_a_wait_is_dropped_outside_of_the_lock() {
        let _alone = alone();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let keeps = || {
                let (kept, at, _) = after(Duration::from_secs(3_600));
                (Waker::from(Arc::new(Keeps(kept))), at)
            };
            let (waker, at) = keeps();
            let timer = Timer::new(Timers::start().unwrap(), boot::now(), at, &waker);
            drop(waker);
            assert!(!timer.has_fired(&keeps().0));
            drop(timer);
            tell.send(()).unwrap();
        });
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
