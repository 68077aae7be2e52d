//! Whether the process stands still.
//!
//! The thread that sends the messages of a session sends one each T/12, whatever else is sent, and records it. A
//! thread that is busy, and comes to it late by a tenth of T each time, is silent for less than T/5 all the same.
//!
//! What stands still may be the machine, the process, or only the thread that sends the messages. So only
//! that thread shows by running that it runs. A commit on another thread finds out that it does not, and
//! tells those who wait for the end of a lease: that thread would tell them. What a commit proves meanwhile,
//! says [`heard`](super::heard).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::times;
use crate::session::timing::Timing;

/// What is known of the times in which the process stood still, for one ZooKeeper session.
#[derive(Debug)]
pub struct Standstill {
    /// A shorter silence is usual.
    least: Duration,
    /// After such a silence, a message is due.
    interval: Duration,
    lease: Duration,
    /// Since when the thread that sends the messages has certainly sent one.
    awake: AtomicU64,
    /// Whether it stood still for longer than a lease.
    too_long: AtomicBool,
}

impl Standstill {
    /// For a session that was just opened.
    pub fn new(timing: Timing, now: Instant) -> Self {
        Standstill {
            least: timing.session_timeout / times::SILENCE,
            interval: timing.session_timeout / times::MESSAGES,
            lease: timing.lease,
            awake: AtomicU64::new(now.as_nanos()),
            too_long: AtomicBool::new(false),
        }
    }

    /// When the thread that sends the messages has to send the next one.
    pub fn due(&self) -> Instant {
        self.awake() + self.interval
    }

    /// Records that the thread that sends the messages has sent one, between `asked` and now. Returns whether
    /// it stood still.
    pub fn runs(&self, asked: Instant, now: Instant) -> bool {
        let stood = self.looks(now);
        self.awake.fetch_max(asked.as_nanos(), Ordering::AcqRel);
        stood
    }

    /// Looks on any thread whether that one stands still, or did and has not yet recorded that it runs.
    pub fn looks(&self, now: Instant) -> bool {
        let gap = now.since(self.awake());
        self.too_long.fetch_or(gap > self.lease, Ordering::AcqRel);
        gap > self.least
    }

    /// Whether it stood still for longer than a lease, recorded or not.
    pub fn was_too_long(&self, now: Instant) -> bool {
        now.since(self.awake()) > self.lease || self.too_long.load(Ordering::Acquire)
    }

    fn awake(&self) -> Instant {
        Instant::from_nanos(self.awake.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const START: Instant = Instant::from_nanos(1_000_000_000_000);

    /// With a lease of 8.6 seconds, of twelve.
    fn standstill() -> Standstill {
        Standstill::new(Timing::of(12 * SECOND, Some(2 * SECOND)).unwrap(), START)
    }

    /// The thread may be stopped again before the client library writes it.
    #[test]
    fn a_message_counts_from_when_it_was_asked_for() {
        let standstill = standstill();
        let at = |second| START + second * SECOND;
        assert!(!standstill.runs(at(1), at(2)) && !standstill.looks(at(3)));
        assert!(standstill.looks(at(4)), "it was silent for three seconds, perhaps");
    }

    #[test]
    fn longer_than_a_lease_is_remembered() {
        let standstill = standstill();
        let late = START + 9 * SECOND;
        assert!(standstill.was_too_long(late) && !standstill.was_too_long(START + 8 * SECOND));
        assert!(standstill.runs(late, late) && !standstill.runs(late + SECOND, late + SECOND));
        assert!(standstill.was_too_long(late + SECOND));
    }

    #[test]
    fn only_the_thread_that_sends_the_messages_shows_that_it_runs() {
        let standstill = standstill();
        let at = |second| START + second * SECOND;
        assert_eq!([2, 4, 6].map(|second| standstill.looks(at(second))), [false, true, true]);
        assert!(standstill.runs(at(6), at(6)) && !standstill.looks(at(7)));
    }
}
