//! The times on which the safety of a session's locks is based.

use crate::base::times;
use std::time::Duration;

/// The times on which the safety of a session's locks is based, as the server granted them.
/// Returned by [`Session::timing`](crate::session::handle::Session::timing).
///
/// ```
/// # let session = zklock::Session::embedded();
/// if let Some(timing) = session.timing() {
///     println!("{} s without an answer", timing.lease.as_secs_f64());
///     assert_eq!(timing.lease + timing.margin, timing.session_timeout);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// The session timeout T that the server granted, which may differ from the requested one.
    pub session_timeout: Duration,
    /// The time between two heartbeats while a lock is held: T/6.
    pub heartbeat: Duration,
    /// The time without an answered write after which the session is suspect: T/3.
    pub suspect_after: Duration,
    /// The time for which a guard is valid after the last answered write was sent: T − margin. It is less where the
    /// leader last heard of the session long before that.
    pub lease: Duration,
    /// The safety margin: T/5 and half a tick of the server.
    pub margin: Duration,
}

impl Timing {
    /// Derives the times from a session timeout, and from the server's tick if it is known.
    /// Otherwise the timeout is taken for two ticks, because a server grants no shorter one unless
    /// it is configured to (`minSessionTimeout`).
    ///
    /// # Errors
    ///
    /// The reason, if the lease would be shorter than two heartbeats.
    pub(crate) fn of(session_timeout: Duration, tick: Option<Duration>) -> Result<Self, String> {
        // The server may have last heard of the client that long before the last write.
        let silence = session_timeout / times::SILENCE;
        // A leader learns about the sessions of its followers with a ping every half tick.
        let half_tick = tick.map_or(session_timeout / 4, |tick| tick / 2);
        let (heartbeat, margin) = (session_timeout / times::HEARTBEATS, silence + half_tick);
        let suspect_after = session_timeout / times::SUSPECT;
        match session_timeout.checked_sub(margin) {
            Some(lease) if lease >= suspect_after => {
                Ok(Timing { session_timeout, heartbeat, suspect_after, lease, margin })
            }
            _ => Err(format!(
                "no lease is safe with a session timeout of {session_timeout:?}: up to \
                 {silence:?} of it may pass between two messages of this client, {half_tick:?} is \
                 half a tick of the server, and the rest must last for two heartbeats of \
                 {heartbeat:?}; request a session timeout of at least {:?}",
                half_tick.saturating_mul(15) / 7,
            )),
        }
    }

    /// For how long the servers keep a session that they hear nothing of, at most: a follower tells its
    /// leader each half tick whom it has heard, the leader looks each tick, and the end of a session is a
    /// transaction, for which the rest of the second tick is left.
    pub(crate) fn kept_for(&self) -> Duration {
        self.session_timeout + 4 * self.half_tick()
    }

    /// Half a tick of the server, as the margin counts it.
    pub(crate) fn half_tick(&self) -> Duration {
        self.margin.saturating_sub(self.session_timeout / times::SILENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_margin_is_silence_and_half_a_tick() {
        let of = |tick| Timing::of(10 * SECOND, tick).unwrap();
        assert_eq!(of(None).margin, 4_500 * SECOND / 1_000);
        assert_eq!(of(Some(2 * SECOND)).margin, 3 * SECOND);
        // More than half of the timeout, as a server with a `minSessionTimeout` of its own allows.
        assert_eq!(of(Some(8 * SECOND)).margin, 6 * SECOND);
        for tick in [None, Some(2 * SECOND), Some(8 * SECOND)] {
            let timing = of(tick);
            assert_eq!(timing.lease + timing.margin, timing.session_timeout);
            assert!(timing.lease >= 2 * timing.heartbeat);
            assert_eq!(timing.kept_for(), 10 * SECOND + 2 * tick.unwrap_or(5 * SECOND));
        }
    }

    #[test]
    fn what_cannot_be_safe_is_refused_with_the_least_that_can() {
        let (tick, least) = (14 * SECOND, 15 * SECOND);
        assert!(Timing::of(least, Some(tick)).is_ok());
        for timeout in [least - SECOND / 10, SECOND, Duration::ZERO] {
            let Err(why) = Timing::of(timeout, Some(tick)) else { panic!("{timeout:?}") };
            assert!(why.contains("at least 15s") && why.contains("7s is half a tick"), "{why}");
        }
    }
}
