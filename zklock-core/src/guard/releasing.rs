//! Who is told of a release: those who go on, observers, and the span of the hold.

use std::sync::Arc;

use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::guard::context::NestedTurn;
use crate::local::grant::Grant;
use crate::observe::observer::Event;
use crate::observe::spans;

/// Tells those who go on, once the hold was given back.
pub(super) fn leave(grant: &Grant, turn: Option<NestedTurn>) {
    match turn {
        Some(turn) => drop(turn),
        None => grant.has_left(),
    }
}

/// Tells the observer of a release, which may have begun before, also if the caller drops the future before its end.
pub(super) struct Releasing<'a>(pub(super) Option<&'a Arc<Grant>>, pub(super) Option<Instant>);

impl Releasing<'_> {
    #[inline]
    pub(super) fn end(mut self, error: Option<&LockError>) {
        self.tell(error);
    }

    /// A guard goes on instead.
    pub(super) fn cancel(mut self) {
        self.0 = None;
    }

    #[inline]
    fn tell(&mut self, error: Option<&LockError>) {
        if let Some(grant) = self.0.take()
            && (spans::any_hold() || grant.queue.session().events().are_heard())
        {
            tell_of_release(grant, self.1, error);
        }
    }
}

/// Tells of a release where somebody listens.
fn tell_of_release(grant: &Arc<Grant>, now: Option<Instant>, error: Option<&LockError>) {
    let (queue, now) = (&grant.queue, now.unwrap_or_else(|| grant.now()));
    // A hold that a step down has taken out is nobody's any more.
    let nested = grant.is_open();
    if spans::any_hold() && !nested {
        let outcome = match error {
            Some(_) => "refused",
            None if grant.leases().any(|lease| lease.is_lost_at(now)) => "lost",
            None => "released",
        };
        spans::end_hold(key(grant), now.since(grant.since), outcome);
    }
    queue.session().events().tell(|| Event::Released {
        lock: queue.lock_name().clone(),
        pattern: queue.pattern().text(),
        mode: grant.mode,
        token: grant.token,
        held: now.since(grant.since),
        nested,
        error: error.cloned(),
    });
}

impl Drop for Releasing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.tell(None);
    }
}

/// What the span of a hold is found by: the address of its grant, which lives as long as its guards.
pub(super) fn key(grant: &Arc<Grant>) -> usize {
    Arc::as_ptr(grant).addr()
}
