//! Until when the server certainly keeps the nodes of a session.
//!
//! ```text
//!            send of the last acknowledged commit                 the server may expire us
//!            |<------------------------ T ------------------------>|
//!            |<--------- valid --------->|<-------- margin ------->|
//!            |<- T/3 ->|<--- suspect --->|
//! ```
//!
//! Only commits feed the clock: a follower that is cut off from its leader answers reads for
//! seconds, and reported connection states lag by more than a session timeout. A leader learns
//! about the sessions of its followers by a ping every half tick. So when a commit was sent, the
//! leader may have last heard of the session earlier: by the longest silence of the client and half
//! a tick. The [margin](Timing) is the sum of the two. If the leader may have heard of it even earlier, the commit
//! [counts](super::heard) from before it was sent.
//!
//! That holds while the leader's pings arrive. If for some time only its followers are heard, it takes
//! their requests, and lets a session end of which it was told nothing; when the network is back, the
//! answer to a request from before that end comes first. So a [grant](LeaseClock::is_proven) needs two
//! commits, one of which was answered before the other was sent: a follower reads what its leader says in
//! order, so by that answer it had replied to the pings before it, and the leader hears these replies
//! before the second request.
//!
//! A lease that somebody [has seen to be over](LeaseClock::is_over_at) stays so. A commit alone cannot
//! ensure that: the thread that records it may stand still between the look at the clock and the record,
//! and meanwhile others see that the clock ran out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::clock::{Clock, Instant};
use crate::base::policy::StopAt;
use crate::session::timing::Timing;

/// The lease clock of one ZooKeeper session.
#[derive(Debug)]
pub struct LeaseClock {
    clock: Clock,
    timing: Timing,
    /// From when on the last acknowledged commit counts.
    last: AtomicU64,
    /// From when on the last commit counts that was acknowledged before another acknowledged one was sent.
    proven: AtomicU64,
    /// When the last commit was acknowledged.
    answered: AtomicU64,
    /// How often the clock ran out; a lease with a smaller count stays lost.
    epoch: AtomicU64,
    /// How often the session was suspect; a lease that stops at this point and has a smaller count
    /// stays lost.
    doubts: AtomicU64,
    /// Held by the caller that looks whether the clock ran out or the session was suspect, and counts it. Two
    /// callers that see the same must count it once: the second would lose what was granted after the
    /// first. The keeper counts without it; what it loses in addition is told, and acquired again.
    counting: Mutex<()>,
}

/// How safe a lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A commit was answered recently.
    Held,
    /// No commit was answered for a third of the session timeout.
    Suspect,
    /// The clock ran out.
    Lost,
}

/// The period of time to which a lease belongs from its grant on, and with which it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    epoch: u64,
    /// For a lease that stops where the session is suspect.
    doubts: Option<u64>,
}

impl Term {
    /// When a lease of this term counts as lost.
    pub fn stop_at(self) -> StopAt {
        if self.doubts.is_some() { StopAt::Suspect } else { StopAt::Lost }
    }
}

impl LeaseClock {
    /// A clock for a session.
    pub fn new(clock: Clock, timing: Timing, start: Instant) -> Self {
        LeaseClock {
            clock,
            timing,
            last: AtomicU64::new(start.as_nanos()),
            proven: AtomicU64::new(start.as_nanos()),
            answered: AtomicU64::new(start.as_nanos()),
            epoch: AtomicU64::new(0),
            doubts: AtomicU64::new(0),
            counting: Mutex::default(),
        }
    }

    /// The underlying clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The session timeout that the server granted.
    pub fn timeout(&self) -> Duration {
        self.timing.session_timeout
    }

    /// The times that it uses.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The time between two heartbeats: a sixth of the session timeout.
    pub fn heartbeat(&self) -> Duration {
        self.timing.heartbeat
    }

    /// From when on a lease is in doubt if ZooKeeper sends nothing more.
    pub fn suspect_at(&self) -> Instant {
        self.last_commit() + self.timing.suspect_after
    }

    /// How safe a lease is at `now`, which was just read.
    pub fn condition(&self, now: Instant) -> Condition {
        if now < self.suspect_at() {
            Condition::Held
        } else if now < self.valid_until() {
            Condition::Suspect
        } else {
            Condition::Lost
        }
    }

    /// From when on the last acknowledged commit counts.
    pub fn last_commit(&self) -> Instant {
        Instant::from_nanos(self.last.load(Ordering::Acquire))
    }

    /// When the last commit was acknowledged.
    pub fn last_answer(&self) -> Instant {
        Instant::from_nanos(self.answered.load(Ordering::Acquire))
    }

    /// Until when leases are valid if ZooKeeper sends nothing more.
    pub fn valid_until(&self) -> Instant {
        self.last_commit() + self.timing.lease
    }

    /// Whether the leader certainly heard of the session recently enough that it has not ended it: by an
    /// earlier commit than the last one.
    pub fn is_proven(&self, now: Instant) -> bool {
        now < Instant::from_nanos(self.proven.load(Ordering::Acquire)) + self.timing.lease
    }

    /// The present term.
    pub fn term(&self, stop_at: StopAt) -> Term {
        let doubts = (stop_at == StopAt::Suspect).then(|| self.doubts.load(Ordering::Acquire));
        Term { epoch: self.epoch.load(Ordering::Acquire), doubts }
    }

    /// Whether a term is the present one. It may be even if the clock has run out.
    pub fn is_present(&self, term: Term) -> bool {
        term == self.term(term.stop_at())
    }

    /// Records an acknowledged commit that counts as sent at `sent`; what it proves of an earlier one, the
    /// [last](Self::last_commit) of that time, is recorded with it. If the lease had run out before, or
    /// the session had been suspect, the leases of that time stay lost. Returns the condition
    /// before.
    pub fn committed(&self, sent: Instant, earlier: Instant, now: Instant) -> Condition {
        let _counting = self.counting();
        let condition = self.condition(now);
        match condition {
            Condition::Held => {}
            Condition::Suspect => self.doubt(),
            Condition::Lost => self.end_epoch(),
        }
        self.last.fetch_max(sent.as_nanos(), Ordering::AcqRel);
        self.proven.fetch_max(earlier.as_nanos(), Ordering::AcqRel);
        self.answered.fetch_max(now.as_nanos(), Ordering::AcqRel);
        condition
    }

    fn counting(&self) -> MutexGuard<'_, ()> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the time of contact that a coordinator knows by itself.
    pub fn observed(&self, contact: Instant) {
        self.last.fetch_max(contact.as_nanos(), Ordering::AcqRel);
        self.proven.fetch_max(contact.as_nanos(), Ordering::AcqRel);
    }

    /// Loses all leases granted so far.
    pub fn end_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// How many terms have ended, of either kind.
    pub fn ended(&self) -> u64 {
        self.epoch.load(Ordering::Acquire) + self.doubts.load(Ordering::Acquire)
    }

    /// Loses all leases granted so far that stop where the session is suspect.
    pub fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the leases of a term are over at `now`, which was just read. Once seen, this is final: it
    /// ends the term, whatever is answered afterwards.
    pub fn is_over_at(&self, term: Term, now: Instant, connected: impl Fn() -> bool) -> bool {
        let is_over = || match term.stop_at() {
            StopAt::Lost => now >= self.valid_until(),
            StopAt::Suspect => !connected() || self.condition(now) != Condition::Held,
        };
        // In this order: a commit that is answered late first ends the term, and then feeds the clock.
        if is_over() && self.is_present(term) {
            // Meanwhile the connection may be back, a commit answered, and something granted.
            let _counting = self.counting();
            match term.stop_at() {
                _ if !is_over() => {}
                StopAt::Lost => self.end_epoch(),
                StopAt::Suspect => self.doubt(),
            }
        }
        !self.is_present(term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(12);

    fn started() -> (LeaseClock, Instant) {
        let start = Clock::Caller.now();
        (LeaseClock::new(Clock::Caller, Timing::of(T, None).unwrap(), start), start)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_before_the_server_can_expire_the_session() {
        let (clock, start) = started();
        assert_eq!(clock.valid_until().since(start), Duration::from_millis(6_600));
        let at = |seconds| clock.condition(start + Duration::from_millis(seconds));
        assert_eq!([3_999, 4_000].map(at), [Condition::Held, Condition::Suspect]);
        assert_eq!([6_599, 6_600].map(at), [Condition::Suspect, Condition::Lost]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_counts_from_when_it_was_sent() {
        let (clock, start) = started();
        let now = start + Duration::from_secs(3);
        assert_eq!(clock.committed(start + Duration::from_secs(1), start, now), Condition::Held);
        assert_eq!(clock.valid_until().since(start), Duration::from_millis(7_600));
        assert_eq!(clock.committed(start, start, now), Condition::Held);
        assert_eq!(clock.valid_until().since(start), Duration::from_millis(7_600));
        // However little it proves, the server has answered.
        assert_eq!(clock.last_answer(), now);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_answered_proves_what_was_answered_before_it_was_sent() {
        let (clock, start) = started();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(clock.is_proven(at(6)) && !clock.is_proven(at(7)));
        assert_eq!(clock.committed(at(7), clock.last_commit(), at(7)), Condition::Lost);
        assert_eq!((clock.condition(at(7)), clock.is_proven(at(7))), (Condition::Held, false));
        // Sent beside it, and not after its answer.
        assert_eq!(clock.committed(at(7), start, at(7)), Condition::Held);
        assert!(!clock.is_proven(at(7)));
        assert_eq!(clock.committed(at(8), clock.last_commit(), at(8)), Condition::Held);
        assert!(clock.is_proven(at(13)) && !clock.is_proven(at(14)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_ran_out_loses_its_leases_for_good() {
        let (clock, start) = started();
        let terms = [StopAt::Suspect, StopAt::Lost].map(|stop_at| clock.term(stop_at));
        assert_eq!(clock.committed(start + T, start, start + T), Condition::Lost);
        assert_eq!(clock.condition(start + T), Condition::Held);
        assert_eq!(terms.map(|term| clock.is_present(term)), [false, false]);
    }

    /// The thread that records an answer may stand still after it has looked at the clock.
    #[tokio::test(start_paused = true)]
    async fn what_was_seen_to_be_over_stays_so_whatever_is_recorded_late() {
        for stop_at in [StopAt::Lost, StopAt::Suspect] {
            let (clock, start) = started();
            let (term, early, later) = (clock.term(stop_at), start + T / 4, start + T * 3 / 5);
            assert!(!clock.is_over_at(term, early, || true));
            assert!(clock.is_over_at(term, later, || true));
            assert_eq!(clock.committed(early, start, early), Condition::Held);
            assert!(clock.is_over_at(term, later, || true));
            // What is granted afterwards is not.
            assert!(!clock.is_over_at(clock.term(StopAt::Lost), later, || true));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_in_doubt_at_the_first_look_only_is_not_over() {
        let (clock, start) = started();
        let (term, looks) = (clock.term(StopAt::Suspect), AtomicU64::new(0));
        let comes_back = || looks.fetch_add(1, Ordering::AcqRel) > 0;
        assert!(!clock.is_over_at(term, start, comes_back) && clock.is_present(term));
        assert!(clock.is_over_at(term, start, || false) && !clock.is_present(term));
    }

    /// The second would lose what was granted after the first.
    #[test]
    fn two_answers_at_once_after_the_clock_ran_out_count_it_once() {
        let timing = Timing::of(T, None).unwrap();
        let clock = LeaseClock::new(Clock::Caller, timing, Instant::ORIGIN);
        let arrived = AtomicU64::new(0);
        let meet = |round: u64| {
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < 2 * round {
                std::hint::spin_loop();
            }
        };
        let answer = || {
            for round in 1..=300 {
                let at = Instant::ORIGIN + 2 * T * u32::try_from(round).unwrap();
                meet(3 * round - 2);
                let _ = clock.committed(at, at, at);
                meet(3 * round - 1);
                assert_eq!(clock.epoch.load(Ordering::Acquire), round);
                meet(3 * round);
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(answer);
            answer();
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_in_doubt_loses_those_leases_for_good_that_stop_there() {
        let (clock, start) = started();
        let terms = [StopAt::Suspect, StopAt::Lost].map(|stop_at| clock.term(stop_at));
        let late = start + T / 3;
        assert_eq!(clock.committed(late, start, late), Condition::Suspect);
        assert_eq!(clock.condition(late), Condition::Held);
        assert_eq!(terms.map(|term| clock.is_present(term)), [false, true]);
    }
}
