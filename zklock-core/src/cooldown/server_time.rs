//! The server's clock, derived from one node of this session.
//!
//! ```text
//!   our clock      sent ─────────────── answered ──────────────────── now
//!   the server's         ctime
//! ```
//!
//! The node was created at some time between the two, so the server's clock is known to within one
//! flight, plus the drift of the two clocks since then. The wall clock of this machine is not used.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::clock::Instant;

/// When a node of this session was created, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTime {
    /// By the server's clock, in milliseconds since 1970.
    pub ctime: i64,
    /// When the create request was sent.
    pub sent: Instant,
    /// When it was answered.
    pub answered: Instant,
}

impl ServerTime {
    /// The earliest time that the server's clock may show now, in milliseconds since 1970.
    pub fn earliest(&self, now: Instant) -> i64 {
        after(self.ctime, now.since(self.answered))
    }

    /// The latest time that it may show.
    pub fn latest(&self, now: Instant) -> i64 {
        // The server truncates to milliseconds, and so does the sum.
        after(self.ctime, now.since(self.sent) + Duration::from_nanos(1_999_999))
    }
}

/// The time of a moment in milliseconds since 1970, if it is one.
pub fn time_of(millis: i64) -> Option<SystemTime> {
    let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0)?;
    Some(UNIX_EPOCH + Duration::from_millis(millis))
}

/// Adds a time to a moment, in milliseconds.
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
