//! What the leader has certainly heard of a session, and so from when on a commit counts.
//!
//! ```text
//!           sent     answered                       sent
//! message ───┴──────────┴──────                      |
//! commit                |<- half a tick or more ---->┴──────
//! ```
//!
//! A follower tells its leader every half tick which sessions it has heard of, and a commit tells
//! nothing of that. So a message is known to the leader half a tick after its answer, and a commit that is sent
//! from then on, and answered, counts as sent [T/5](times::SILENCE) and half a tick after that message at the
//! latest: for that the [margin](Timing) of a lease allows.
//!
//! A session sends a message each T/12. So all commits count from when they were sent, while answers take no
//! longer than T/5 − T/12. A commit counts from before that if answers are slower; if the process stood still; and
//! if the network did, and then delivers all that was sent meanwhile at once.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::times;
use crate::session::timing::Timing;

/// A message that the server has answered.
#[derive(Clone, Copy, Debug)]
struct Message {
    sent: Instant,
    /// From when on the leader knows of it.
    known: Instant,
}

/// The messages of one ZooKeeper session that were answered.
#[derive(Debug)]
pub struct Heard {
    /// How long after a message a commit may be sent.
    allowed: Duration,
    half_tick: Duration,
    /// The last one that the leader knows of, and those that came after it.
    messages: Mutex<VecDeque<Message>>,
}

impl Heard {
    /// For a session that was opened between `opening` and now.
    pub fn new(timing: Timing, opening: Instant) -> Self {
        let half_tick = timing.margin.saturating_sub(timing.session_timeout / times::SILENCE);
        let opened = Message { sent: opening, known: Instant::ORIGIN };
        Heard { allowed: timing.margin, half_tick, messages: Mutex::new([opened].into()) }
    }

    /// Half a tick of the server.
    pub fn half_tick(&self) -> Duration {
        self.half_tick
    }

    /// Records that a message is answered that was sent at `sent`.
    pub fn answered(&self, sent: Instant, now: Instant) {
        self.record(Message { sent, known: now + self.half_tick }, now);
    }

    /// Records that the session came to a server again, after `since`: the leader is asked then whether it
    /// knows the session.
    pub fn came_back(&self, since: Instant, now: Instant) {
        self.record(Message { sent: since, known: now }, now);
    }

    /// From when on a commit counts that is sent now, and answered.
    pub fn counts_from(&self, now: Instant) -> Instant {
        let messages = self.messages();
        let known = messages.iter().rev().find(|message| message.known <= now);
        known.map_or(Instant::ORIGIN, |message| now.min(message.sent + self.allowed))
    }

    /// When a commit counts from when it is sent, if it does not yet: unless something else is answered, at the
    /// returned time.
    pub fn settles_at(&self, now: Instant) -> Option<Instant> {
        if self.counts_from(now) == now {
            return None;
        }
        let messages = self.messages();
        let mut later = messages.iter().filter(|message| message.known > now);
        let enough = later.find(|message| message.known <= message.sent + self.allowed);
        Some(enough.map_or(now + self.half_tick, |message| message.known))
    }

    fn record(&self, message: Message, now: Instant) {
        let mut messages = self.messages();
        // What was sent before, and is answered later, says nothing new.
        if messages.back().is_none_or(|last| last.sent < message.sent) {
            messages.push_back(message);
        }
        while messages.get(1).is_some_and(|next| next.known <= now) {
            messages.pop_front();
        }
    }

    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(10);
    const MS: Duration = Duration::from_millis(1);
    const START: Instant = Instant::from_nanos(1_000_000_000_000);

    fn at(millis: u32) -> Instant {
        START + millis * MS
    }

    /// With half a tick of a second. A message each 800 ms until `until`, each of which is answered after `took`.
    fn heard(until: u32, took: u32) -> Heard {
        let heard = Heard::new(Timing::of(T, Some(2_000 * MS)).unwrap(), START);
        for sent in (800..=until).step_by(800) {
            heard.answered(at(sent), at(sent + took));
        }
        heard
    }

    #[test]
    fn while_answers_are_fast_a_commit_counts_from_when_it_was_sent() {
        for took in [0, 100, 1_199] {
            let heard = heard(40_000, took);
            for now in (40_000 + took..40_800 + took).map(at) {
                assert_eq!((heard.counts_from(now), heard.settles_at(now)), (now, None));
            }
            let kept = heard.messages().len();
            assert!(kept <= 3, "{kept} are kept");
        }
    }

    /// The leader may know of nothing that was sent after the last one, until half a tick after the next.
    #[test]
    fn after_a_silence_a_commit_counts_from_before_for_half_a_tick() {
        let heard = heard(8_000, 0);
        assert_eq!(heard.counts_from(at(11_000)), at(11_000));
        for now in [11_001, 12_000, 14_000].map(at) {
            assert_eq!(heard.counts_from(now), at(11_000));
            assert_eq!(heard.settles_at(now), Some(now + 1_000 * MS), "nobody knows");
        }
        // All that was sent meanwhile is delivered at once.
        for sent in [9_000, 10_000, 11_000, 12_000, 13_000] {
            heard.answered(at(sent), at(14_000));
        }
        for now in [14_000, 14_999].map(at) {
            assert_eq!(heard.counts_from(now), at(11_000));
            assert_eq!(heard.settles_at(now), Some(at(15_000)));
        }
        assert_eq!(
            (heard.counts_from(at(15_000)), heard.settles_at(at(15_000))),
            (at(15_000), None)
        );
    }

    /// For a moment after each, the leader may know of the one before only.
    #[test]
    fn what_was_said_for_a_moment_in_between_proves_nothing() {
        let heard = heard(8_000, 0);
        heard.answered(at(12_000), at(12_000));
        heard.answered(at(12_800), at(12_800));
        assert_eq!(heard.counts_from(at(12_900)), at(11_000));
        assert_eq!(heard.counts_from(at(17_000)), at(15_800));
        heard.answered(at(17_000), at(17_000));
        assert_eq!(heard.counts_from(at(17_500)), at(15_800));
    }

    #[test]
    fn slow_answers_prove_as_much_less_as_they_are_slow() {
        let heard = heard(40_000, 3_000);
        assert_eq!(heard.counts_from(at(43_999)), at(39_200 + 3_000));
        assert_eq!(heard.counts_from(at(44_000)), at(40_000 + 3_000));
        assert_eq!(heard.settles_at(at(43_999)), Some(at(44_999)), "none of these is fast enough");
    }

    #[test]
    fn who_comes_back_to_a_server_is_known_at_once() {
        let heard = heard(8_000, 0);
        heard.came_back(at(15_000), at(16_000));
        assert_eq!(
            (heard.counts_from(at(16_000)), heard.settles_at(at(16_000))),
            (at(16_000), None)
        );
        assert_eq!(heard.counts_from(at(19_000)), at(18_000));
        // It may have been answered before.
        heard.answered(at(8_800), at(16_100));
        assert_eq!(heard.counts_from(at(19_000)), at(18_000));
    }

    #[test]
    fn a_session_is_known_from_when_somebody_began_to_open_it() {
        let heard = heard(0, 0);
        assert_eq!(
            [2_000, 3_000, 4_000].map(|now| heard.counts_from(at(now))),
            [2_000, 3_000, 3_000].map(at)
        );
    }
}
