//! When the process stood still.
//!
//! ```text
//!       last message   stands still   first message
//! ─────────────┴────────────────────────────┴──── commit ────┬─────
//!                                           |<- half a tick ->|  the leader hears of it
//! ```
//!
//! A follower tells its leader every half tick which sessions it has heard of, and a commit tells
//! nothing of that. The [margin](Timing) of a lease allows for a client that is silent for T/5, and for
//! half a tick. A client that stands still is silent for longer. So for half a tick after it goes on, an
//! answered commit proves no more than that the leader knew of the session before: if the follower is cut
//! off then, the leader ends the session that much earlier.
//!
//! So the thread that sends the messages sends one each T/12, whatever else is sent, and records it. A thread
//! that is busy, and comes to it late by a tenth of T each time, is silent for less than T/5 all the same.
//!
//! What stands still may be the machine, the process, or only the thread that sends the messages. So only
//! that thread shows by running that it runs. A commit on another thread finds out that it does not.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use crate::base::clock::{Clock, Instant};
use crate::base::times;
use crate::session::timing::Timing;

/// A time in which the process stood still, once or several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stood {
    from: Instant,
    until: Instant,
}

/// What is known of the times in which the process stood still, for one ZooKeeper session.
#[derive(Debug)]
pub struct Standstill {
    /// A shorter silence is usual.
    least: Duration,
    /// After such a silence, a message is due.
    interval: Duration,
    lease: Duration,
    half_tick: Duration,
    /// Since when the thread that sends the messages has certainly sent one.
    awake: AtomicU64,
    /// When it went on last; 0 if it never stood still.
    until: AtomicU64,
    last: Mutex<Option<Stood>>,
    /// Whether it stood still for longer than a lease.
    too_long: AtomicBool,
}

impl Standstill {
    /// For a session that was just opened. `opening` is the time in which the process stood still
    /// meanwhile.
    pub fn new(timing: Timing, now: Instant, opening: Option<Stood>) -> Self {
        let least = timing.session_timeout / times::SILENCE;
        Standstill {
            least,
            interval: timing.session_timeout / times::MESSAGES,
            lease: timing.lease,
            half_tick: timing.margin.saturating_sub(least),
            awake: AtomicU64::new(now.as_nanos()),
            until: AtomicU64::new(opening.map_or(0, |stood| stood.until.as_nanos())),
            last: Mutex::new(opening),
            too_long: AtomicBool::new(false),
        }
    }

    /// When the thread that sends the messages has to send the next one.
    pub fn due(&self) -> Instant {
        Instant::from_nanos(self.awake.load(Ordering::Acquire)) + self.interval
    }

    /// Records that the thread that sends the messages has sent one, between `asked` and now. Returns whether
    /// it stood still.
    pub fn runs(&self, asked: Instant, now: Instant) -> bool {
        let stood = self.looks(now);
        self.awake.fetch_max(asked.as_nanos(), Ordering::AcqRel);
        stood
    }

    /// Looks on any thread whether that one stands still, or did and has not yet recorded that it runs,
    /// and records it.
    pub fn looks(&self, now: Instant) -> bool {
        let awake = Instant::from_nanos(self.awake.load(Ordering::Acquire));
        let gap = now.since(awake);
        if gap <= self.least {
            return false;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // What was said in between may not have reached the leader.
        let same = last.filter(|last| awake < last.until + self.half_tick);
        *last = Some(Stood { from: same.map_or(awake, |last| last.from), until: now });
        self.until.fetch_max(now.as_nanos(), Ordering::AcqRel);
        self.too_long.fetch_or(gap > self.lease, Ordering::AcqRel);
        true
    }

    /// Whether it stood still for longer than a lease, recorded or not.
    pub fn was_too_long(&self, now: Instant) -> bool {
        let awake = Instant::from_nanos(self.awake.load(Ordering::Acquire));
        now.since(awake) > self.lease || self.too_long.load(Ordering::Acquire)
    }

    /// From when on a commit counts that was sent at `sent` and is answered.
    pub fn counts_from(&self, sent: Instant) -> Instant {
        if !self.is_recent(sent) {
            return sent;
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.map_or(sent, |last| sent.min(last.from + self.half_tick))
    }

    /// From when on commits count as usual again, if they do not.
    pub fn settles_at(&self, now: Instant) -> Option<Instant> {
        let until = Instant::from_nanos(self.until.load(Ordering::Acquire));
        self.is_recent(now).then_some(until + self.half_tick)
    }

    fn is_recent(&self, at: Instant) -> bool {
        let until = self.until.load(Ordering::Acquire);
        until > 0 && at < Instant::from_nanos(until) + self.half_tick
    }
}

/// Waits for what opens a session, and notes whether the process stood still meanwhile: the session may
/// be older than that.
pub async fn noting<T>(clock: &Clock, work: impl Future<Output = T>) -> (T, Option<Stood>) {
    let (mut work, mut stood, mut awake) = (pin!(work), None::<Stood>, clock.now());
    let mut timer = clock.sleep_until(awake + times::AWAKE);
    poll_fn(|cx| {
        let mut note = |now: Instant| {
            if now.since(awake) > 2 * times::AWAKE {
                stood = Some(Stood { from: stood.map_or(awake, |stood| stood.from), until: now });
            }
            awake = now;
        };
        note(clock.now());
        let polled = work.as_mut().poll(cx);
        // Perhaps in this very moment.
        note(clock.now());
        if let Poll::Ready(done) = polled {
            return Poll::Ready((done, stood));
        }
        while Pin::new(&mut timer).poll(cx).is_ready() {
            timer = clock.sleep_until(clock.now() + times::AWAKE);
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(12);
    const SECOND: Duration = Duration::from_secs(1);
    const START: Instant = Instant::from_nanos(1_000_000_000_000);

    impl Standstill {
        /// A message was sent at once.
        fn spoke(&self, now: Instant) -> bool {
            self.runs(now, now)
        }
    }

    /// With half a tick of a second, and a lease of 8.6 seconds.
    fn standstill() -> Standstill {
        Standstill::new(Timing::of(T, Some(2 * SECOND)).unwrap(), START, None)
    }

    #[test]
    fn after_a_usual_silence_a_commit_counts_from_when_it_was_sent() {
        let standstill = standstill();
        for second in [2, 4, 6] {
            let now = START + second * SECOND;
            assert!(!standstill.spoke(now));
            assert_eq!((standstill.counts_from(now), standstill.settles_at(now)), (now, None));
        }
    }

    #[test]
    fn a_commit_within_half_a_tick_counts_from_half_a_tick_after_the_last_message() {
        let standstill = standstill();
        let goes_on = START + 5 * SECOND;
        assert!(standstill.spoke(goes_on) && !standstill.was_too_long(goes_on));
        for soon in [Duration::ZERO, SECOND * 9 / 10] {
            assert_eq!(standstill.counts_from(goes_on + soon), START + SECOND);
        }
        assert_eq!(standstill.settles_at(goes_on), Some(goes_on + SECOND));
        let settled = goes_on + SECOND;
        assert_eq!(standstill.counts_from(settled), settled);
        assert_eq!(standstill.settles_at(settled), None);
    }

    #[test]
    fn what_was_said_for_a_moment_in_between_proves_nothing() {
        let standstill = standstill();
        for second in [4, 8] {
            standstill.spoke(START + second * SECOND);
            standstill.spoke(START + second * SECOND + SECOND / 2);
        }
        assert_eq!(standstill.counts_from(START + 8 * SECOND), START + SECOND);
        let other = self::standstill();
        other.spoke(START + 4 * SECOND);
        other.spoke(START + 6 * SECOND);
        other.spoke(START + 9 * SECOND);
        assert_eq!(other.counts_from(START + 9 * SECOND), START + 7 * SECOND);
    }

    /// The thread may be stopped again before the client library writes it.
    #[test]
    fn a_message_counts_from_when_it_was_asked_for() {
        let standstill = standstill();
        let at = |second| START + second * SECOND;
        assert!(!standstill.runs(at(1), at(2)) && !standstill.looks(at(3)));
        assert!(standstill.looks(at(4)), "it was silent for three seconds, perhaps");
        assert_eq!(standstill.counts_from(at(4)), at(2));
    }

    #[test]
    fn longer_than_a_lease_is_remembered() {
        let standstill = standstill();
        let late = START + 9 * SECOND;
        assert!(standstill.was_too_long(late) && !standstill.was_too_long(START + 8 * SECOND));
        assert!(standstill.spoke(late) && !standstill.spoke(late + SECOND));
        assert!(standstill.was_too_long(late + SECOND));
    }

    #[test]
    fn only_the_thread_that_sends_the_messages_shows_that_it_runs() {
        let standstill = standstill();
        let at = |second| START + second * SECOND;
        assert_eq!([2, 4, 6].map(|second| standstill.looks(at(second))), [false, true, true]);
        assert_eq!([4, 6].map(|second| standstill.counts_from(at(second))), [at(1); 2]);
        assert!(standstill.spoke(at(6)) && !standstill.looks(at(7)));
        assert_eq!(standstill.counts_from(at(7)), at(7));
    }

    #[tokio::test(start_paused = true)]
    async fn who_opens_a_session_notes_that_the_process_stood_still() {
        let clock = Clock::Caller;
        let (_, stood) = noting(&clock, tokio::time::sleep(5 * SECOND)).await;
        assert_eq!(stood, None, "it only waited");
        let from = clock.now();
        let stops = async {
            tokio::time::sleep(SECOND).await;
            tokio::time::advance(5 * SECOND).await;
        };
        let stood = noting(&clock, stops).await.1.unwrap();
        assert_eq!((stood.from.since(from).as_secs(), stood.until), (1, clock.now()));
        let timing = Timing::of(T, Some(2 * SECOND)).unwrap();
        let opened = Standstill::new(timing, clock.now(), Some(stood));
        assert_eq!(opened.counts_from(clock.now()), stood.from + SECOND);
    }
    #[tokio::test]
    async fn who_opens_a_session_notes_a_standstill_just_before_its_end() {
        let clock = Clock::Caller;
        let work = async { std::thread::sleep(3 * times::AWAKE) };
        assert!(noting(&clock, work).await.1.is_some());
    }
}
