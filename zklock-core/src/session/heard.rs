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
//! from then on, and answered, counts as sent [T/5](crate::base::times::SILENCE) and half a tick after that message at the
//! latest: for that the [margin](Timing) of a lease allows.
//!
//! A session sends a message each T/12. So all commits count from when they were sent, while the answers to messages
//! take no longer than T/5 − T/12, less an eighth of half a tick, by which a follower may be late. A commit counts from
//! before that if answers are slower; if the process stood still; if the network did, and then delivers all that was
//! sent meanwhile at once; and after a while without a connection. A leader also hears of a session that comes to
//! another server. But the client library does not tell when it asked for that, and a process that stood still may read
//! the answer late, so it counts for nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::clock::Instant;
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
    /// The longest time from one message of a follower to the next one.
    told: Duration,
    /// The last one that the leader knows of, and those that came after it.
    messages: Mutex<VecDeque<Message>>,
}

impl Heard {
    /// For a session that was opened between `opening` and now.
    pub fn new(timing: Timing, opening: Instant) -> Self {
        let opened = Message { sent: opening, known: Instant::ORIGIN };
        Heard {
            allowed: timing.margin,
            // The leader asks its followers, and then waits for half a tick.
            told: timing.half_tick() * 9 / 8,
            messages: Mutex::new([opened].into()),
        }
    }

    /// Records that a message is answered that was sent at `sent`.
    pub fn answered(&self, sent: Instant, now: Instant) {
        let mut messages = self.messages();
        // What was sent before, and is answered later, says nothing new.
        if messages.back().is_none_or(|last| last.sent < sent) {
            messages.push_back(Message { sent, known: now + self.told });
        }
        while messages.get(1).is_some_and(|next| next.known <= now) {
            messages.pop_front();
        }
    }

    /// From when on a commit counts that is sent now, and answered.
    pub fn counts_from(&self, now: Instant) -> Instant {
        let messages = self.messages();
        let known = messages.iter().rev().find(|message| message.known <= now);
        // Another thread, whose clock is later, may have recorded that the first one is known.
        let known = known.or(messages.front());
        known.map_or(Instant::ORIGIN, |message| now.min(message.sent + self.allowed))
    }

    /// Whether a commit counts from at most `slack` before it is sent.
    pub fn is_settled(&self, now: Instant, slack: Duration) -> bool {
        now.since(self.counts_from(now)) <= slack
    }

    /// When that is so, if it is not, and enough is answered by now.
    pub fn settles_at(&self, now: Instant, slack: Duration) -> Option<Instant> {
        if self.is_settled(now, slack) {
            return None;
        }
        let enough = |message: &&Message| message.known <= message.sent + self.allowed + slack;
        self.messages().iter().filter(|one| one.known > now).find(enough).map(|one| one.known)
    }

    /// The longest time from one message of a follower to the next one.
    pub fn told(&self) -> Duration {
        self.told
    }

    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(12);
    const MS: Duration = Duration::from_millis(1);
    const START: Instant = Instant::from_nanos(1_000_000_000_000);

    fn at(millis: u32) -> Instant {
        START + millis * MS
    }

    /// A follower tells its leader each 900 ms, and 3.2 s after a message a commit may be sent. A message is sent each
    /// second until `until`, and is answered after `took`.
    fn heard(until: u32, took: u32) -> Heard {
        let heard = Heard::new(Timing::of(T, Some(1_600 * MS)).unwrap(), START);
        for sent in (1_000..=until).step_by(1_000) {
            heard.answered(at(sent), at(sent + took));
        }
        heard
    }

    #[test]
    fn while_answers_are_fast_a_commit_counts_from_when_it_was_sent() {
        for took in [0, 100, 1_300] {
            let heard = heard(40_000, took);
            for now in (40_000 + took..41_000 + took).map(at) {
                assert_eq!((heard.counts_from(now), heard.settles_at(now, MS)), (now, None));
            }
            let kept = heard.messages().len();
            assert!(kept <= 3, "{kept} are kept");
        }
    }

    /// The leader may know of nothing that was sent after the last one, until half a tick after the next.
    #[test]
    fn after_a_silence_a_commit_counts_from_before_for_half_a_tick() {
        let heard = heard(8_000, 0);
        assert_eq!(heard.counts_from(at(11_200)), at(11_200));
        for (now, is_settled) in [(11_201, true), (12_200, true), (12_201, false), (14_000, false)]
        {
            assert_eq!(heard.counts_from(at(now)), at(11_200));
            assert_eq!(heard.is_settled(at(now), 1_000 * MS), is_settled);
            assert_eq!(heard.settles_at(at(now), 1_000 * MS), None);
        }
        // All that was sent meanwhile is delivered at once.
        for sent in [9_000, 10_000, 11_000, 12_000, 13_000] {
            heard.answered(at(sent), at(14_000));
        }
        for now in [14_000, 14_899].map(at) {
            assert_eq!(heard.counts_from(now), at(11_200));
            assert_eq!(heard.settles_at(now, MS), Some(at(14_900)));
        }
        assert_eq!(
            (heard.counts_from(at(14_900)), heard.settles_at(at(14_900), MS)),
            (at(14_900), None)
        );
    }

    /// For a moment after each, the leader may know of the one before only.
    #[test]
    fn what_was_said_for_a_moment_in_between_proves_nothing() {
        let heard = heard(8_000, 0);
        heard.answered(at(12_000), at(12_000));
        heard.answered(at(12_500), at(12_500));
        assert_eq!(heard.counts_from(at(12_800)), at(11_200));
        assert_eq!(heard.counts_from(at(17_000)), at(15_700));
        heard.answered(at(17_000), at(17_000));
        assert_eq!(heard.counts_from(at(17_500)), at(15_700));
    }

    #[test]
    fn slow_answers_prove_as_much_less_as_they_are_slow() {
        let heard = heard(40_000, 4_000);
        assert_eq!(heard.counts_from(at(44_899)), at(39_000 + 3_200));
        assert_eq!(heard.counts_from(at(44_900)), at(40_000 + 3_200));
        let settles = |slack| heard.settles_at(at(44_899), slack * MS);
        assert_eq!(settles(1_699), None, "none of these is fast enough");
        assert_eq!((settles(1_700), settles(2_699)), (Some(at(44_900)), None));
    }

    /// It waited, and meanwhile another thread has recorded an answer, and that the one before is known.
    #[test]
    fn a_thread_whose_clock_is_behind_finds_what_is_known_by_now() {
        let heard = heard(8_000, 0);
        heard.answered(at(9_000), at(9_000));
        heard.answered(at(10_000), at(10_000));
        assert_eq!(heard.counts_from(at(9_899)), at(9_899));
    }

    #[test]
    fn a_session_is_known_from_when_somebody_began_to_open_it() {
        let counts = |now| heard(0, 0).counts_from(at(now));
        assert_eq!([2_000, 3_200, 4_000].map(counts), [2_000, 3_200, 3_200].map(at));
    }
}
