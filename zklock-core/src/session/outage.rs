//! Since when a session that came back to a server can have asked for that.
//!
//! A server that a session comes to asks the leader whether it knows the session, and so the leader hears of it. The
//! client library tells that it is back, and not when it asked. But it leaves a server that does not answer in
//! [time](times::answer). So it has asked that long before it was seen to be down for the last time, or later; and
//! after it was seen to be up for the last time. A process that stood still may find an older answer: so it looks
//! often meanwhile, and the first bound counts only as long as it does not come late.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::times;
use crate::coordinator::link::Link;

/// What the keeper of a session has seen of its connection.
#[derive(Debug)]
pub struct Outage {
    /// How long the client library waits for an answer.
    answer: Duration,
    /// The time between two looks while it is down.
    interval: Duration,
    /// When it looked last.
    looked: Instant,
    /// Since when the session may ask for another connection, if it has none.
    since: Option<Instant>,
    /// How long it had not looked when it saw that first: it may have stood still.
    unseen: Duration,
    /// Whether a look came late since then.
    is_late: bool,
}

impl Outage {
    /// For a session that somebody began to open at `opening`.
    pub fn new(session_timeout: Duration, opening: Instant) -> Self {
        Outage {
            answer: times::answer(session_timeout),
            interval: session_timeout / times::LOOKS,
            looked: opening,
            since: None,
            unseen: Duration::ZERO,
            is_late: false,
        }
    }

    /// The time between two looks while it is down.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Takes note of the connection, which was looked at just after `now`. If it is back, returns since when the
    /// session can have asked for that.
    pub fn looks(&mut self, now: Instant, link: Link) -> Option<Instant> {
        let before = std::mem::replace(&mut self.looked, now);
        if link != Link::Down {
            return self.since.take();
        }
        match self.since {
            None => {
                (self.since, self.is_late) = (Some(before), false);
                self.unseen = now.since(before);
            }
            Some(since) => {
                // The timer may come late, and so may the client library.
                let late = 2 * self.interval;
                self.is_late |= now.since(before) > late;
                if !self.is_late {
                    self.since = Some(since.max(now - self.answer - late - self.unseen));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(30);
    const START: Instant = Instant::from_nanos(1_000_000_000_000);

    fn at(seconds: u32) -> Instant {
        START + Duration::from_secs(seconds.into())
    }

    /// It is up at 0 and at 4, down when it is looked at then, and up at the last time.
    fn since(looks: &[u32], up: u32) -> Option<Instant> {
        let mut outage = Outage::new(T, at(0));
        assert_eq!(outage.looks(at(4), Link::Up), None);
        for look in looks {
            assert_eq!(outage.looks(at(*look), Link::Down), None);
        }
        let since = outage.looks(at(up), Link::Up);
        assert_eq!(outage.looks(at(up), Link::Up), None, "it is told once");
        since
    }

    /// An answer takes 9 s at most, and its looks are late after 1.2 s.
    #[test]
    fn it_has_asked_after_it_was_up_and_as_long_before_it_was_down_as_an_answer_takes() {
        let before = |seconds, millis| Some(at(seconds) - Duration::from_millis(millis));
        assert_eq!(since(&[], 5), None);
        assert_eq!(since(&[6], 7), Some(at(4)));
        let looks: Vec<u32> = (6..=30).collect();
        assert_eq!(since(&looks[..10], 16), Some(at(4)));
        assert_eq!(since(&looks, 31), before(30, 9_000 + 1_200 + 2_000));
    }

    /// Then the client library may have stood still, too, and read the answer only when it went on.
    #[test]
    fn whoever_comes_late_knows_less() {
        let looks: Vec<u32> = (6..=20).chain(40..=60).collect();
        assert_eq!(since(&looks, 60), Some(at(20) - Duration::from_millis(12_200)));
        // It looks again at once, before the client library runs.
        assert_eq!(since(&[6, 40, 40], 40), Some(at(4)));
        assert_eq!(since(&[40, 40], 40), Some(at(4)));
    }
}
