//! Grants to the callers of this process.

use std::cell::OnceCell;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Engine, Shared, busy};
use crate::acquire::lease::Lease;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::token::FencingToken;
use crate::local::callers::Grants;
use crate::local::grant::{Grant, GrantSource, Hold, Terms};
use crate::local::waiter::Waiter;
use crate::observe::observer::Event;

/// Makes the grants of a queue at one time.
#[derive(Debug)]
pub struct Granting<'a, E: Engine> {
    queue: &'a Shared<E>,
    now: Instant,
    /// The mode and the token of the first.
    first: OnceCell<(Mode, FencingToken)>,
}

impl<'a, E: Engine> Granting<'a, E> {
    /// Nothing was granted yet.
    pub fn new(queue: &'a Shared<E>, now: Instant) -> Self {
        Granting { queue, now, first: OnceCell::new() }
    }

    /// Tells the observers that the lock was passed on, if it was.
    pub fn tell_handed_on(&self) {
        let Some(&(mode, token)) = self.first.get() else { return };
        self.queue.session().events().tell(|| {
            let (lock, pattern) = (self.queue.lock_name().clone(), self.queue.pattern().text());
            Event::HandedOn { lock, pattern, mode, token }
        });
    }
}

impl<E: Engine> Grants<Lease, E::Wants, Weak<Grant>, Hold> for Granting<'_, E> {
    fn now(&self) -> Instant {
        self.now
    }

    fn grant(
        &self,
        to: &Waiter<E::Wants>,
        lease: &Arc<Lease>,
        more: impl Iterator<Item = Arc<Lease>>,
    ) -> (Weak<Grant>, Hold) {
        let (token, mode) = (lease.next_token(), E::mode(&to.wants));
        // Those ahead of the node are ahead of its first grant only.
        let of_node = if token.is_first() { lease.ahead() } else { 0 };
        // Each of several permits is granted: the loss of any of them is that of a held lock.
        let more = more.inspect(|lease| {
            let _ = lease.next_token();
        });
        let terms = Terms {
            queue: self.queue.clone(),
            lease: lease.clone(),
            token,
            mode,
            who: to.who,
            label: to.label.clone(),
            ahead: to.ahead.saturating_add(of_node),
            linger: if lease.lingers() { to.queue_policy.linger } else { Duration::ZERO },
            since: self.now,
        };
        let grant = Grant::new(terms, more);
        self.queue.note_single(&grant);
        let _ = self.first.set((mode, token));
        (Arc::downgrade(&grant), grant.hold())
    }

    fn busy(&self, lease: &Arc<Lease>) -> LockError {
        busy(Some(self.queue.holder(lease, Duration::ZERO)))
    }
}
