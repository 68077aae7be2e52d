//! Until when the server is sure to keep our nodes.
//!
//! ```text
//!            send of the last acknowledged commit                 the server may expire us
//!            |<------------------------ T ------------------------>|
//!            |<--------- valid --------->|<-------- margin ------->|
//! ```
//!
//! Only commits feed the clock: a follower that is cut off from its leader answers reads for
//! seconds, and connection states lag by more than a session timeout. A leader learns of its
//! followers' sessions by ping, every half tick, so it may have last heard of us one heartbeat gap
//! and half a tick before our last commit; the margin is the sum of the two.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Instant};

/// The lease clock of one ZooKeeper session.
#[derive(Debug)]
pub struct LeaseClock {
    clock: Clock,
    timeout: Duration,
    term: Duration,
    /// When the last acknowledged commit was sent.
    last: AtomicU64,
    /// Counts how often the clock ran out; a lease of an earlier count stays lost.
    epoch: AtomicU64,
}

impl LeaseClock {
    /// A clock for a session timeout, with the server's tick if it is known. Without it half a
    /// quarter of the timeout is assumed: a server grants no timeout below two ticks.
    pub fn new(clock: Clock, timeout: Duration, tick: Option<Duration>, start: Instant) -> Self {
        let half_tick = tick.map_or(timeout / 4, |tick| (tick / 2).min(timeout / 4));
        LeaseClock {
            clock,
            timeout,
            term: timeout - Self::gap(timeout) - half_tick,
            last: AtomicU64::new(start.as_nanos()),
            epoch: AtomicU64::new(0),
        }
    }

    /// The time between two heartbeats.
    fn gap(timeout: Duration) -> Duration {
        timeout / 6
    }

    /// The clock that is read.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The session timeout, in the server's words.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The time between two heartbeats: a sixth of the session timeout.
    pub fn heartbeat(&self) -> Duration {
        Self::gap(self.timeout)
    }

    /// Whether no commit was answered for a third of the session timeout, so that a lease is in
    /// doubt.
    pub fn is_suspect(&self) -> bool {
        self.clock.now() >= self.last_commit() + self.timeout / 3
    }

    /// When the last acknowledged commit was sent.
    pub fn last_commit(&self) -> Instant {
        Instant::from_nanos(self.last.load(Ordering::Acquire))
    }

    /// Until when leases are valid if nothing more is heard.
    pub fn valid_until(&self) -> Instant {
        self.last_commit() + self.term
    }

    /// Whether leases are valid now.
    pub fn is_valid(&self) -> bool {
        self.clock.now() < self.valid_until()
    }

    /// The present epoch. A lease belongs to the one that it was granted in.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Takes note of an acknowledged commit that was sent at `sent`. A clock that ran out before
    /// does not run again for the leases of that time; answers whether it had.
    pub fn committed(&self, sent: Instant) -> bool {
        let ran_out = !self.is_valid();
        if ran_out {
            self.end_epoch();
        }
        self.last.fetch_max(sent.as_nanos(), Ordering::AcqRel);
        ran_out
    }

    /// Takes the word of a coordinator that knows by itself when it was last in contact.
    pub fn observed(&self, contact: Instant) {
        self.last.fetch_max(contact.as_nanos(), Ordering::AcqRel);
    }

    /// Loses every lease granted so far.
    pub fn end_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(12);

    fn started() -> (LeaseClock, Instant) {
        let start = Clock::Caller.now();
        (LeaseClock::new(Clock::Caller, T, None, start), start)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_before_the_server_can_expire_the_session() {
        let (clock, start) = started();
        assert_eq!(clock.valid_until().since(start), Duration::from_secs(7));
        tokio::time::advance(Duration::from_millis(6_999)).await;
        assert!(clock.is_valid());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!clock.is_valid());
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_tick_gives_a_longer_lease() {
        let tick = Some(Duration::from_secs(2));
        let clock = LeaseClock::new(Clock::Caller, T, tick, Instant::ORIGIN);
        assert_eq!(clock.valid_until().since(Instant::ORIGIN), Duration::from_secs(9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_counts_from_when_it_was_sent() {
        let (clock, start) = started();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!clock.committed(start + Duration::from_secs(1)));
        assert_eq!(clock.valid_until().since(start), Duration::from_secs(8));
        assert!(!clock.committed(start));
        assert_eq!(clock.valid_until().since(start), Duration::from_secs(8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_ran_out_loses_its_leases_for_good() {
        let (clock, _) = started();
        let epoch = clock.epoch();
        tokio::time::advance(T).await;
        assert!(clock.committed(Clock::Caller.now()));
        assert!(clock.is_valid());
        assert_ne!(clock.epoch(), epoch);
    }
}
