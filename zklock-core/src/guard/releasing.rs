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

/// Tells the observer of a release, also if the caller drops the future before its end.
pub(super) struct Releasing<'a> {
    grant: Option<&'a Arc<Grant>>,
    /// When it began, if that was before.
    pub(super) since: Option<Instant>,
    /// Whether another call held the lock on. If this is not known, the grant is asked, which no longer knows which of
    /// two holds was the last.
    pub(super) nested: Option<bool>,
}

impl<'a> Releasing<'a> {
    #[inline]
    pub(super) fn of(grant: &'a Arc<Grant>) -> Self {
        Releasing { grant: Some(grant), since: None, nested: None }
    }

    #[inline]
    pub(super) fn end(mut self, error: Option<&LockError>) {
        self.tell(error);
    }

    /// A guard goes on instead.
    pub(super) fn cancel(mut self) {
        self.grant = None;
    }

    #[inline]
    fn tell(&mut self, error: Option<&LockError>) {
        if let Some(grant) = self.grant.take()
            && (spans::any_hold() || grant.queue.session().events().are_heard())
        {
            // A hold that a step down has taken out is nobody's any more.
            let nested = self.nested.unwrap_or_else(|| grant.is_open());
            tell_of_release(grant, self.since, nested, error);
        }
    }
}

/// Tells of a release where somebody listens.
fn tell_of_release(
    grant: &Arc<Grant>,
    now: Option<Instant>,
    nested: bool,
    error: Option<&LockError>,
) {
    let (queue, now) = (&grant.queue, now.unwrap_or_else(|| grant.now()));
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
