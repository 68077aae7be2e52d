//! For how long what is granted is valid, and its loss.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Generation, HeldNode};
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::policy::StopAt;
use crate::base::unharmed::tell_all;
use crate::coordinator::link::Link;
use crate::observe::observer::LossReason;
use crate::session::lease_clock::{Condition, Term};

impl Generation {
    /// The term of a lease that is granted now, if commits were answered recently enough: a grant
    /// needs the time of a heartbeat left, so that the keeper certainly looks before the lease runs
    /// out, and the word of the leader that it has heard of the session.
    pub fn grantable(&self, stop_at: StopAt) -> Option<Term> {
        let (term, now) = (self.lease.term(stop_at), self.lease.clock().now());
        let valid = self.is_valid_at(term, now);
        let fresh = match stop_at {
            // The next heartbeat is not due yet.
            StopAt::Suspect => now < self.lease.last_commit() + self.lease.heartbeat(),
            StopAt::Lost => {
                self.lease.condition(now) == Condition::Held
                    && now + self.lease.heartbeat() < self.lease.valid_until()
            }
        };
        let proven = self.lease.is_proven(now);
        (valid && fresh && proven && !self.stood_still(now)).then_some(term)
    }

    /// Records that a lock is not granted because answers come late, for a caller that has asked `since`
    /// then, and whose last answer `took` so long.
    pub fn tell_late(&self, lock: &str, since: Instant, took: Duration) {
        let (now, timing) = (self.lease.clock().now(), self.lease.timing());
        if now.since(since) >= timing.lease && took >= timing.heartbeat {
            let took = Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            self.late.note(lock, took, &timing, now);
        }
    }

    /// Why nothing is granted here, if answers come late.
    pub fn late_answers(&self) -> Option<LockError> {
        self.late.trouble(&self.lease.timing(), self.lease.clock().now())
    }

    /// Whether a lease of a term is valid at `now`, which was just read. Once it is not, that is final: the
    /// keeper may not look before the connection is back.
    pub fn is_valid_at(&self, term: Term, now: Instant) -> bool {
        let connected = || self.coordinator.link() == Link::Up;
        !self.is_over() && !self.lease.is_over_at(term, now, connected)
    }

    /// Until when leases are valid if ZooKeeper sends nothing more.
    pub fn valid_until(&self, stop_at: StopAt) -> Instant {
        self.observe();
        match stop_at {
            StopAt::Suspect => self.lease.suspect_at(),
            StopAt::Lost => self.lease.valid_until(),
        }
    }

    /// When who waits for the end of a term looks for itself: when that comes if ZooKeeper sends nothing more. A
    /// coordinator that knows when it was last in contact has no thread that may stand still.
    pub(super) fn runs_out(&self, term: Term) -> Instant {
        if self.self_aware { Instant::FAR } else { self.valid_until(term.stop_at()) }
    }

    /// The time until the held locks are lost if ZooKeeper answers nothing more; `None` if there are
    /// none.
    pub fn margin(&self) -> Option<Duration> {
        let left = || self.valid_until(StopAt::Lost).since(self.lease.clock().now());
        (!self.holds_nothing()).then(left)
    }

    /// The number of times that leases were lost.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Loses all leases granted so far; their nodes may still exist.
    pub fn lose_leases(&self) {
        self.lease.end_epoch();
        self.lose_past();
        tell_all(&self.changed);
    }

    /// Records that the connection is in doubt: leases that stop at this point are lost.
    pub fn doubt(&self) {
        self.lease.doubt();
        self.lose_past();
    }

    /// The same as [`lose_past`](Self::lose_past), if a term has ended since the last time: a caller
    /// that finds a lease over only ends its term, because it may hold the mutex of a queue.
    pub fn lose_what_ended(&self) {
        let ended = self.lease.ended();
        if self.told.swap(ended, Ordering::AcqRel) != ended {
            self.lose_past();
        }
    }

    /// Reports the leases that were lost when their term ended. What was granted since then stays.
    pub fn lose_past(&self) {
        let lost = self.take_past();
        for node in &lost {
            self.tell_lost(node, self.why_over(node.term));
        }
        if !lost.is_empty() {
            self.keeper.notify_one();
        }
    }

    /// Why a term is over.
    pub(super) fn why_over(&self, term: Term) -> LossReason {
        match term.stop_at() {
            // ZooKeeper deletes the nodes of a session that ends.
            _ if self.is_over() => LossReason::SessionEnded,
            StopAt::Suspect => LossReason::Suspect,
            StopAt::Lost => LossReason::Silence,
        }
    }

    /// Takes the nodes of terms that are over out of the heartbeat's care; they keep others out. Nodes granted
    /// since then stay.
    fn take_past(&self) -> Vec<Arc<HeldNode>> {
        let mut held = self.lock_held();
        let past = held.extract_if(|_, node| !self.lease.is_present(node.term));
        let mut past: Vec<_> = past.map(|(_, node)| node).collect();
        past.iter().for_each(|node| self.keeps(node));
        // In a fixed order, instead of the map's.
        past.sort_unstable_by_key(|node| node.czxid);
        past
    }
}
