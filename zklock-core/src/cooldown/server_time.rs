//! The server's clock, as far as one node of ours tells it.
//!
//! ```text
//!   our clock      sent ─────────────── answered ──────────────────── now
//!   the server's         ctime
//! ```
//!
//! The node was made somewhere between the two, so the server's clock is known to within one
//! flight, and to what the two clocks drift apart since. Nothing here asks the machine's wall clock.

use std::time::Duration;

use crate::base::clock::Instant;

/// When a node of ours was made, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTime {
    /// By the server's clock, in milliseconds since 1970.
    pub ctime: i64,
    /// When its creation was sent.
    pub sent: Instant,
    /// When that was answered.
    pub answered: Instant,
}

impl ServerTime {
    /// The least that the server's clock shows now, in milliseconds since 1970.
    pub fn earliest(&self, now: Instant) -> i64 {
        after(self.ctime, now.since(self.answered))
    }

    /// The most that it shows.
    pub fn latest(&self, now: Instant) -> i64 {
        // The server cuts off what is less than a millisecond.
        after(self.ctime, now.since(self.sent) + Duration::from_millis(1))
    }
}

/// So much later, in milliseconds.
pub fn after(moment: i64, time: Duration) -> i64 {
    moment.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_clock_is_known_to_within_the_flight() {
        let at = |millis| Instant::ORIGIN + Duration::from_millis(millis);
        let time = ServerTime { ctime: 1_000_000, sent: at(10), answered: at(25) };
        assert_eq!((time.earliest(at(25)), time.latest(at(25))), (1_000_000, 1_000_016));
        assert_eq!((time.earliest(at(1_025)), time.latest(at(1_025))), (1_001_000, 1_001_016));
    }
}
