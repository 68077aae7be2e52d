//! For how long the command may go on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;
use zklock::{AnyGuard, Session};

use super::lost;
use crate::exit::Failure;

/// The clock that also counts while the machine is suspended, as the library's does.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A moment, on a clock that all processes of a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(Duration);

impl Moment {
    pub(super) fn now() -> Self {
        let now = clock_gettime(CLOCK);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Moment(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default()))
    }

    fn after(self, time: Duration) -> Self {
        Moment(self.0.saturating_add(time))
    }

    /// How long it is until then.
    pub(super) fn left(self) -> Duration {
        self.0.saturating_sub(Moment::now().0)
    }

    pub(super) fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// In milliseconds, as another process is told.
    pub(super) fn millis(self) -> u128 {
        self.0.as_millis()
    }

    pub(super) fn of_millis(millis: u64) -> Self {
        Moment(Duration::from_millis(millis))
    }
}

/// The lease of the lock. It ends before the lock could be another's.
pub(super) struct Lease<'g> {
    guard: &'g AnyGuard,
    /// Its length when it was just renewed.
    length: Duration,
    /// How often it is renewed.
    beat: Duration,
}

impl<'g> Lease<'g> {
    /// That of a guard. Its ZooKeeper session may have ended just after the grant: then the lock is lost.
    pub(super) fn of(guard: &'g AnyGuard, session: &Session) -> Result<Self, Failure> {
        let timing = session.timing().ok_or_else(|| lost("the lock is lost"))?;
        Ok(Lease { guard, length: timing.lease, beat: timing.heartbeat })
    }

    /// Waits until a quarter is left: time for the command to end by itself.
    pub(super) async fn nearly_over(&self) {
        self.down_to(4).await;
    }

    /// Waits until a twentieth is left: time to kill the group.
    pub(super) async fn over(&self) {
        self.down_to(20).await;
    }

    /// Waits until less than this part is left, or the guard is lost.
    async fn down_to(&self, part: u32) {
        let least = self.length / part;
        loop {
            let remaining = self.guard.remaining();
            if !self.guard.is_valid() || remaining <= least {
                return;
            }
            // A heartbeat may extend it meanwhile.
            tokio::select! {
                () = self.guard.lost() => return,
                () = sleep(remaining - least) => {}
            }
        }
    }

    /// When the guardian kills the group, if nobody else has done so and the lease is not renewed:
    /// when a fortieth is left.
    pub(super) fn deadline(&self) -> Moment {
        // The clock first: who is stopped in between counts too little, and never too much.
        let now = Moment::now();
        now.after(self.guard.remaining().saturating_sub(self.length / 40))
    }

    /// Waits until it is likely to have been renewed.
    pub(super) async fn renewed(&self) {
        sleep(self.beat / 2).await;
    }
}

#[cfg(test)]
mod tests {
    use zklock::AnyLock;

    use super::*;
    use crate::exit::LOST;

    #[tokio::test]
    async fn without_a_zookeeper_session_there_is_no_lease() {
        let session = Session::embedded();
        let guard = AnyLock::Mutex(session.mutex("a").unwrap()).acquire().await.unwrap();
        let lease = Lease::of(&guard, &session).unwrap();
        assert!(!lease.deadline().is_over());
        session.close().await;
        assert!(Lease::of(&guard, &session).is_err_and(|failure| failure.code == LOST));
    }
}
