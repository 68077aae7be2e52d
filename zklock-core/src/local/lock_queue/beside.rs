//! Who else of this process has a lock, through another queue: for other options, of a single acquire, or
//! of another session.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::Locks;
use crate::base::caller::Caller;
use crate::base::mode::Mode;
use crate::local::grant::{Grant, GrantSource};
use crate::local::itself::{Perhaps, is_stuck, let_go, stops_waiter};
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
        holders.retain(|by| !std::ptr::eq(Arc::as_ptr(by.queue()).cast(), own));
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

    /// Whether another queue of this session is creating a node for a caller that this one stops.
    /// That node is ahead.
    pub(super) fn is_stuck_beside(self: &Arc<Self>, who: &Caller, mode: Mode) -> bool {
        self.queues_beside().any(|other| {
            let inner = other.lock();
            let first = inner.state.waiting().next();
            let first = first.filter(|_| matches!(inner.state.phase(), Phase::Fetching(_)));
            first.is_some_and(|first| is_stuck(mode, [(first.wants, is_stopped(who, first))]))
        })
    }

    /// Describes that the caller holds this lock itself.
    pub(super) fn perhaps(&self, by: &Arc<Grant>) -> Perhaps {
        let (by, clock) = (Arc::downgrade(by), self.session().clock().clone());
        Perhaps::new(clock, self.lock_name().clone(), move || {
            let by = by.upgrade().filter(|by| by.is_kept_by_guard())?;
            Some(format!("{} holds the lock itself, by a guard outside of any scope", by.who()))
        })
    }
}

/// Whether a waiter can only continue when `who` does. One that only tries may be refused.
pub(super) fn is_stopped(who: &Caller, waiter: &Waiter) -> bool {
    !waiter.once && stops_waiter(who, &waiter.who)
}
