//! The holds of a grant, and their count.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Grant;
use crate::base::clock::Instant;
use crate::observe::observer::Granted;
use crate::session::releaser::Deletions;

/// A flag in the count of holds: somebody waits for the end of the grant.
pub(super) const AWAITED: usize = 1 << (usize::BITS - 1);

/// A flag in the count of holds: the only hold was taken out, and no other is given.
pub(super) const TAKEN: usize = AWAITED >> 1;

/// The count without the flags.
pub(super) const COUNT: usize = TAKEN - 1;

/// Whether a count of holds is one of a grant that can be held again.
pub(super) fn is_open(holds: usize) -> bool {
    holds & COUNT > 0 && holds & TAKEN == 0
}

/// What came of a hold that was given back.
#[derive(Debug, Default)]
pub struct GivenBack {
    /// The deletions of the nodes, if this was the last hold and no caller of this process is next.
    pub deletions: Deletions,
    /// Whether it was the last hold, and a lease was lost by then.
    pub lost: bool,
    /// Whether there were other holds.
    pub nested: bool,
}

/// One hold of a grant. When it is dropped, it is given back without waiting.
#[derive(Debug)]
pub struct Hold(pub(super) Option<Arc<Grant>>);

impl Hold {
    /// The grant, until it is given back.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        self.0.as_ref()
    }

    /// Whether the lock was lost by now.
    pub fn is_lost(&self) -> bool {
        self.0.as_deref().is_some_and(|grant| !grant.is_leased_at(grant.now()))
    }

    /// How it was granted: the first hold of a grant.
    pub fn as_granted(&self) -> Option<Granted> {
        self.0.as_deref().map(|grant| grant.as_granted(false))
    }

    /// Takes the hold out, and leaves none.
    pub fn take(&mut self) -> Hold {
        Hold(self.0.take())
    }

    /// Gives the hold back.
    pub fn give_back(&mut self, now: Instant) -> GivenBack {
        let Some(grant) = self.0.take() else { return GivenBack::default() };
        let before = grant.holds.fetch_sub(1, Ordering::AcqRel);
        if before & COUNT > 1 {
            return GivenBack { nested: true, ..GivenBack::default() };
        }
        grant.tell_of_end(before);
        let lost = !grant.is_leased_at(now);
        if lost {
            // Perhaps nobody else has seen it.
            let lost = grant.leases().filter(|lease| !lease.is_valid_at(now));
            lost.for_each(|lease| lease.was_lost());
        }
        GivenBack { deletions: grant.queue.clone().release(&grant, now), lost, nested: false }
    }

    /// Takes the grant out of the hold, if it has no other hold. From then on nobody can
    /// [hold it again](Grant::hold_again).
    pub fn take_only(&mut self) -> Option<Sole> {
        let grant = self.0.take_if(|grant| {
            let only = |holds: usize| (holds & COUNT == 1).then_some(holds | TAKEN);
            grant.holds.fetch_update(Ordering::AcqRel, Ordering::Acquire, only).is_ok()
        });
        grant.map(|grant| Sole(Some(grant)))
    }

    /// No hold.
    pub fn none() -> Hold {
        Hold(None)
    }
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        if let Some(grant) = &self.0 {
            let now = grant.now();
            drop(self.give_back(now));
        }
    }
}

/// A grant that was taken out of its only hold. When it is dropped, it returns to the queue without
/// waiting.
#[derive(Debug)]
pub struct Sole(Option<Arc<Grant>>);

impl Sole {
    /// The grant.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        self.0.as_ref()
    }

    /// Puts it back: it can be held again.
    pub fn put_back(mut self) -> Hold {
        if let Some(grant) = &self.0 {
            grant.holds.fetch_and(!TAKEN, Ordering::AcqRel);
        }
        Hold(self.0.take())
    }

    /// Ends the grant without telling the queue.
    pub fn forget(mut self) {
        drop(self.end());
    }

    fn end(&mut self) -> Option<Arc<Grant>> {
        let grant = self.0.take()?;
        grant.tell_of_end(grant.holds.swap(0, Ordering::AcqRel));
        Some(grant)
    }
}

impl Drop for Sole {
    fn drop(&mut self) {
        if let Some(grant) = self.end() {
            let now = grant.now();
            drop(grant.queue.clone().release(&grant, now));
        }
    }
}
