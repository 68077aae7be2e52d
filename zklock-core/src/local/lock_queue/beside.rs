//! Who else of this process has a lock, through another queue: for other options, of a single acquire, or
//! of another session.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::Locks;
use crate::base::caller::Caller;
use crate::base::mode::Mode;
use crate::local::grant::{Grant, GrantSource};
use crate::local::itself::{Perhaps, is_stuck, let_go, stops_holder, stops_waiter};
use crate::local::queue::Queue;
use crate::local::state::Phase;
use crate::local::waiter::Waiter;
use crate::session::local_queues::{LocalQueue, of_type};

impl Queue<Locks> {
    /// Holders of this lock in another queue of this session, for other options.
    pub(super) fn beside(self: &Arc<Self>, who: &Caller) -> Vec<Arc<Grant>> {
        let mut holders = if self.engine().divided.load(Ordering::Acquire) {
            self.holders_in(&self.local_queues().under(self.path()))
        } else {
            self.holders_of([self.main().clone()])
        };
        // The caller may have been granted it meanwhile.
        let own = Arc::as_ptr(self).cast::<()>();
        holders.retain(|by| !std::ptr::eq(Arc::as_ptr(&by.queue).cast(), own));
        let_go(who, &mut holders);
        holders
    }

    /// Holders of this lock in another session of this process.
    pub(super) fn elsewhere(self: &Arc<Self>) -> Vec<Arc<Grant>> {
        self.holders_in(&self.local_queues().elsewhere(self.path()))
    }

    fn holders_in(self: &Arc<Self>, queues: &[Arc<dyn LocalQueue>]) -> Vec<Arc<Grant>> {
        self.holders_of(queues.iter().filter_map(of_type::<Self>))
    }

    /// Holders of this lock in these queues, besides this one.
    fn holders_of(
        self: &Arc<Self>,
        queues: impl IntoIterator<Item = Arc<Self>>,
    ) -> Vec<Arc<Grant>> {
        let mut holders = Vec::new();
        for other in queues {
            if !Arc::ptr_eq(&other, self) {
                holders.extend(other.lock().state.in_the_way().filter_map(Weak::upgrade));
            }
            holders.extend(other.singles().holders());
        }
        holders
    }

    /// Holders of this lock in this session.
    pub(super) fn holders(self: &Arc<Self>) -> Vec<Arc<Grant>> {
        let mut holders = self.holders_in(&self.local_queues().under(self.path()));
        if Arc::ptr_eq(self, self.main()) {
            holders.extend(self.lock().state.in_the_way().filter_map(Weak::upgrade));
        }
        holders
    }

    /// The number of simultaneous holders.
    pub(super) fn most(&self) -> usize {
        self.driver().most().unwrap_or(1)
    }

    /// Whether a caller waits for ever behind those `ahead` in this queue, or behind those in other queues
    /// of this session: if there are several leases, only those who take up all of them are in its way.
    pub(super) fn is_stuck_behind(
        self: &Arc<Self>,
        (who, mode): (&Caller, Mode),
        ahead: Vec<(Mode, bool)>,
        beside: &[Arc<Grant>],
    ) -> bool {
        let holders = beside.iter().map(|by| (by.mode_ahead(), stops_holder(who, by)));
        let mut coming = self.coming_beside(who);
        if self.most() > 1 {
            let stopped = holders.chain(coming).filter(|(_, stopped)| *stopped);
            return is_stuck(mode, ahead) || stopped.count() >= self.most();
        }
        is_stuck(mode, holders.chain(ahead)) || coming.any(|one| is_stuck(mode, [one]))
    }

    /// For whom other queues of this session are creating nodes, which are ahead; and whether this caller
    /// stops them.
    fn coming_beside<'a>(&'a self, who: &'a Caller) -> impl Iterator<Item = (Mode, bool)> + 'a {
        self.queues_beside().filter_map(move |other| {
            let inner = other.lock();
            let first = inner.state.waiting().next();
            let first = first.filter(|_| matches!(inner.state.phase(), Phase::Fetching(_)));
            first.map(|first| (first.wants, is_stopped(who, first)))
        })
    }

    /// Describes that the caller holds this lock itself.
    pub(super) fn perhaps(&self, by: &Arc<Grant>, keeper: Caller) -> Perhaps {
        let (by, clock) = (Arc::downgrade(by), self.session().clock().clone());
        Perhaps::new(clock, self.lock_name().clone(), move || {
            let who = by.upgrade()?.kept_by(|other| *other == keeper)?;
            Some(format!("{who} holds the lock itself, by a guard outside of any scope"))
        })
    }
}

/// Whether a waiter can only continue when `who` does. One that only tries may be refused.
pub(super) fn is_stopped(who: &Caller, waiter: &Waiter) -> bool {
    !waiter.once && stops_waiter(who, &waiter.who)
}
