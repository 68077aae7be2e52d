//! The clocks: reading the time, and waiting for a time.
//!
//! A lease is compared with a clock that never steps, and that includes the time for which the
//! machine was suspended. Timers are only hints: a task that wakes reads the clock again.

use std::fmt;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::base::machine::{Machine, Work};

mod timers;

pub use self::timers::Timers;

/// A time on a [`Clock`], in nanoseconds since an origin that is the same in all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// A time that never comes.
    pub const FAR: Instant = Instant(u64::MAX);
    /// The origin.
    pub const ORIGIN: Instant = Instant(0);

    /// The nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time `nanos` after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// The last time up to this one that is a multiple of `step` after the origin.
    pub fn floor(self, step: Duration) -> Self {
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX).max(1);
        Instant(self.0 - self.0 % step)
    }

    /// The time from `earlier` to this one; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, after: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, before: Duration) -> Instant {
        Instant(self.0.saturating_sub(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The source of the time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// `CLOCK_BOOTTIME`, which goes on while the machine is suspended. It does not depend on the
    /// caller's runtime, which may be paused or have no timers.
    Boot(Timers),
    /// The time of the caller: tokio's if that is paused, otherwise the machine's. The embedded
    /// coordinator uses this one.
    Caller,
    /// The time of a simulated machine.
    Machine(Arc<OfMachine>),
}

/// Behind a thin pointer: every waiter has clocks, which are no larger for the simulation.
#[derive(Debug)]
pub struct OfMachine(pub Arc<dyn Machine>);

impl Clock {
    /// Reads the clock.
    pub fn now(&self) -> Instant {
        match self {
            Clock::Boot(_) => boot::now(),
            Clock::Caller => caller::now(),
            Clock::Machine(machine) => Instant(machine.0.nanos()),
        }
    }

    /// The simulated machine that it belongs to, if it does.
    pub(crate) fn machine(&self) -> Option<&dyn Machine> {
        match self {
            Clock::Machine(machine) => Some(&*machine.0),
            Clock::Boot(_) | Clock::Caller => None,
        }
    }

    /// Waits for a time. The timer does not depend on the caller's runtime, except that with
    /// [`Clock::Caller`] it follows a paused one.
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep { clock: self.clone(), at, alarm: Alarm::default() }
    }

    /// Waits for a duration, as [`sleep_until`](Clock::sleep_until) does.
    pub fn sleep(&self, after: Duration) -> Sleep {
        self.sleep_until(self.now() + after)
    }
}

/// The future of [`Clock::sleep_until`].
#[derive(Debug)]
pub struct Sleep {
    clock: Clock,
    at: Instant,
    alarm: Alarm,
}

/// What is left of a [`Sleep`] where somebody else keeps the clock and the time. Small, because most
/// waits end before it is armed.
#[derive(Debug, Default)]
pub(crate) enum Alarm {
    #[default]
    Unarmed,
    Boot(timers::Timer),
    Other(Box<OtherTimer>),
}

#[derive(Debug)]
pub(crate) enum OtherTimer {
    Plain(async_io::Timer),
    Paused(PausedTimer),
    Machine(Wait),
}

pub(crate) struct Wait(Work);

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wait")
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Sleep { clock, at, alarm } = self.get_mut();
        alarm.poll(clock, *at, cx)
    }
}

impl Alarm {
    /// Waits for a time of a clock, which are the same in all calls.
    pub(crate) fn poll(&mut self, clock: &Clock, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if at == Instant::FAR {
            return Poll::Pending;
        }
        loop {
            let fired = match self {
                Alarm::Unarmed => true,
                Alarm::Boot(timer) => timer.has_fired(cx.waker()),
                Alarm::Other(timer) => match &mut **timer {
                    OtherTimer::Plain(plain) => Pin::new(plain).poll(cx).is_ready(),
                    OtherTimer::Paused(paused) => match Pin::new(&mut paused.fired).poll(cx) {
                        Poll::Pending => false,
                        Poll::Ready(Ok(())) => true,
                        Poll::Ready(Err(_)) => {
                            // The runtime ended before the time came; from here on, real time counts.
                            let after = at.since(clock.now());
                            **timer = OtherTimer::Plain(async_io::Timer::after(after));
                            continue;
                        }
                    },
                    OtherTimer::Machine(wait) => wait.0.as_mut().poll(cx).is_ready(),
                },
            };
            if !fired {
                return Poll::Pending;
            }
            let now = clock.now();
            if now >= at {
                return Poll::Ready(());
            }
            let timer = match clock {
                Clock::Boot(timers) => {
                    *self = Alarm::Boot(timers::Timer::new(*timers, now, at, cx.waker()));
                    return Poll::Pending;
                }
                Clock::Caller => match caller::paused() {
                    Some(runtime) => OtherTimer::Paused(PausedTimer::new(&runtime, at.since(now))),
                    None => OtherTimer::Plain(async_io::Timer::after(at.since(now))),
                },
                Clock::Machine(machine) => {
                    OtherTimer::Machine(Wait(machine.0.until(at.as_nanos())))
                }
            };
            *self = Alarm::Other(Box::new(timer));
        }
    }
}

/// A timer on a paused runtime. A task of that runtime sleeps and reports: a timer that is polled
/// after its runtime ended would panic, and waiters may outlive the runtime.
#[derive(Debug)]
pub(crate) struct PausedTimer {
    fired: oneshot::Receiver<()>,
    task: AbortHandle,
}

impl PausedTimer {
    fn new(runtime: &Handle, after: Duration) -> Self {
        let (fire, fired) = oneshot::channel();
        let task = runtime.spawn(async move {
            tokio::time::sleep(after).await;
            // The receiver may be gone.
            let _ = fire.send(());
        });
        PausedTimer { fired, task: task.abort_handle() }
    }
}

impl Drop for PausedTimer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

mod boot {
    use crate::base::clock::Instant;
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;

    pub(super) fn now() -> Instant {
        let at = clock_gettime(CLOCK);
        Instant((at.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(at.tv_nsec as u64))
    }
}

mod caller {
    use crate::base::clock::Instant;
    use crate::base::on_drop::OnDrop;
    use once_cell::sync::Lazy;
    use std::cell::Cell;
    use std::time::{Duration, Instant as StdInstant};
    use tokio::runtime::Handle;

    /// Long before the first reading: a paused runtime stands still at the time when it was
    /// started, and a clock that read zero until then would be late.
    static ORIGIN: Lazy<StdInstant> = Lazy::new(|| {
        let now = StdInstant::now();
        now.checked_sub(Duration::from_secs(3_600)).unwrap_or(now)
    });

    thread_local! {
        /// By how much the real time of a blocked thread is ahead of the machine's.
        static REAL_ONLY: Cell<Option<Duration>> = const { Cell::new(None) };
    }

    fn nanos(at: StdInstant) -> Instant {
        let since = at.saturating_duration_since(*ORIGIN).as_nanos();
        Instant(u64::try_from(since).unwrap_or(u64::MAX))
    }

    pub(super) fn now() -> Instant {
        Lazy::force(&ORIGIN);
        if let Some(ahead) = REAL_ONLY.get() {
            return nanos(StdInstant::now() + ahead);
        }
        nanos(tokio::time::Instant::now().into_std())
    }

    /// The runtime around the caller, if its time is paused. Tokio does not tell, but a running
    /// clock moves with the machine's, and a paused one does not. It is not enough that it lies
    /// between two readings of the machine's clock: a paused one may do so by chance, and on a busy
    /// machine the two readings are far apart.
    pub(super) fn paused() -> Option<Handle> {
        if REAL_ONLY.get().is_some() {
            return None;
        }
        let runtime = Handle::try_current().ok()?;
        let asked = tokio::time::Instant::now();
        let start = StdInstant::now();
        while StdInstant::now() == start {}
        (asked == tokio::time::Instant::now()).then_some(runtime)
    }

    pub(super) fn real_only<T>(f: impl FnOnce() -> T) -> T {
        // Time goes on from where a paused runtime has come to: what happened there lies in the past.
        let asked = tokio::time::Instant::now().into_std();
        let ahead = || asked.saturating_duration_since(StdInstant::now());
        let before = REAL_ONLY.get();
        let _restore = OnDrop::new(|| REAL_ONLY.set(before));
        REAL_ONLY.set(Some(before.unwrap_or_else(ahead)));
        f()
    }
}

/// Runs `f` with real time only: a thread that is about to block would stop a paused clock for
/// good, because nobody could advance it.
pub fn with_real_time<T>(f: impl FnOnce() -> T) -> T {
    caller::real_only(f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Wake, Waker};

    #[tokio::test(start_paused = true)]
    async fn caller_clock_follows_a_paused_runtime() {
        let clock = Clock::Caller;
        let (start, real) = (clock.now(), std::time::Instant::now());
        clock.sleep_until(start + Duration::from_secs(3600)).await;
        assert!(clock.now().since(start) >= Duration::from_secs(3600));
        assert!(real.elapsed() < Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_blocked_thread_goes_on_from_that_of_its_paused_runtime() {
        tokio::time::advance(Duration::from_secs(3600)).await;
        let before = Clock::Caller.now();
        with_real_time(|| {
            let start = Clock::Caller.now();
            assert!(start >= before);
            std::thread::sleep(Duration::from_millis(2));
            with_real_time(|| assert!(Clock::Caller.now() > start));
            assert!(Clock::Caller.now() > start);
        });
        assert_eq!(Clock::Caller.now(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_known_also_while_the_machine_s_overtakes_it() {
        for _ in 0..200 {
            let ahead = std::time::Instant::now() + Duration::from_micros(20);
            let now = tokio::time::Instant::now().into_std();
            tokio::time::advance(ahead.saturating_duration_since(now)).await;
            while std::time::Instant::now() < ahead + Duration::from_micros(20) {
                assert!(caller::paused().is_some());
            }
        }
    }

    #[tokio::test]
    async fn a_running_clock_is_not_taken_for_a_paused_one() {
        assert!((0..10_000).all(|_| caller::paused().is_none()));
    }

    #[tokio::test(start_paused = true)]
    async fn boot_clock_ignores_a_paused_runtime() {
        let clock = boot_clock();
        let start = clock.now();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(clock.now().since(start) < Duration::from_secs(60));
        clock.sleep_until(start + Duration::from_millis(20)).await;
        assert!(clock.now().since(start) >= Duration::from_millis(20));
    }

    /// Which people and programs set, and which counts from 1970.
    #[test]
    fn the_clock_of_leases_is_not_the_wall_clock() {
        const YEARS: Duration = Duration::from_secs(20 * 365 * 86_400);
        assert!(boot::now().since(Instant::ORIGIN) < YEARS);
    }

    fn boot_clock() -> Clock {
        Clock::Boot(Timers::start().unwrap())
    }

    #[test]
    fn a_waker_that_panics_ends_no_other_timer() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("the application's waker");
            }
        }
        let clock = boot_clock();
        let soon = clock.now() + Duration::from_millis(5);
        let (panics, mut first) = (Waker::from(Arc::new(Panics)), clock.sleep_until(soon));
        let mut cx = Context::from_waker(&panics);
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for _ in 0..2 {
                let later = clock.now() + Duration::from_millis(30);
                futures_lite::future::block_on(clock.sleep_until(later));
            }
            tell.send(()).unwrap();
        });
        told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(Pin::new(&mut first).poll(&mut cx).is_ready());
    }

    #[test]
    fn boot_timers_need_no_runtime_around_the_caller() {
        let clock = boot_clock();
        let start = clock.now();
        futures_lite::future::block_on(clock.sleep_until(start + Duration::from_millis(5)));
        assert!(clock.now() >= start + Duration::from_millis(5));
    }

    #[test]
    fn sleeping_works_without_a_runtime() {
        let clock = Clock::Caller;
        let start = clock.now();
        futures_lite::future::block_on(clock.sleep_until(start + Duration::from_millis(5)));
        assert!(clock.now() >= start + Duration::from_millis(5));
    }

    #[test]
    fn a_runtime_without_a_time_driver_does_not_matter() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let clock = Clock::Caller;
        runtime.block_on(clock.sleep_until(clock.now() + Duration::from_millis(5)));
    }
}
