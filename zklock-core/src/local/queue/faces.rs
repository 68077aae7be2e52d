//! A queue as others see it: where a grant comes from, what a caller waits in, and what a session has in
//! use.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use super::untaken::pass_on;
use super::{Engine, Granting, Inner, Joined, Queue};
use crate::acquire::target::Target;
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::Holder;
use crate::base::mode::Mode;
use crate::base::pattern::Pattern;
use crate::layout::driver::LockDriver;
use crate::local::callers::Decides;
use crate::local::grant::{Grant, GrantSource, Hold, Sole, SteppingDown};
use crate::local::waiter::Waiter;
use crate::local::waiters::Place;
use crate::session::handle::Session;
use crate::session::lane::closed;
use crate::session::local_queues::{Holding, LocalContender, LocalQueue};
use crate::session::releaser::Deletions;

impl<E: Engine> GrantSource for Queue<E> {
    fn session(&self) -> &Session {
        &self.common.session
    }

    fn target(&self) -> &Target {
        self.engine().target()
    }

    fn holder_here(&self, place: Option<Place>) -> Option<Holder> {
        let (inner, now) = (self.lock(), self.now());
        let (lease, by) = E::holder_here(self, &inner.state, place, now)?;
        let held_for = by.as_ref().map(|by| now.since(by.since)).unwrap_or_default();
        let label = by.as_ref().and_then(|by| by.label.as_deref());
        let Holder { owner, node, .. } = self.holder(&lease, held_for);
        Some(Holder { owner: owner.label(label), node, ahead: 1 + inner.state.ahead_of(place) })
    }

    fn step_down(self: Arc<Self>, writer: Sole) -> SteppingDown {
        E::step_down(self, writer)
    }

    fn split(self: Arc<Self>, grant: &Grant, permits: usize) -> Option<Hold> {
        E::split(&self, grant, permits)
    }

    fn begin_anew(self: Arc<Self>, grant: &Grant) {
        E::begin_anew(&self, grant);
    }

    fn release(self: Arc<Self>, grant: &Grant, now: Instant) -> Deletions {
        let (by, leases) = (Granting::new(&self, now), grant.leases().cloned());
        let is_it = |by: &Weak<Grant>| std::ptr::eq(by.as_ptr(), grant);
        let deletions = self.decide(|state| state.release(leases, is_it, grant.linger, &by));
        by.tell_handed_on();
        self.forget_single();
        deletions
    }
}

impl<E: Engine> Queue<E> {
    /// A waiter that was given what it wants, and lost it before it could take it, takes the last place.
    pub(super) fn join_again(self: &Arc<Self>, waiter: Waiter<E::Wants>) -> Joined<E> {
        let (who, scope) = (waiter.who, waiter.who.scope());
        let is_own = |other: &Caller| who.is_same(other) || scope != 0 && other.scope() == scope;
        // A try is busy by what is seen from now on, and not by what was before, perhaps, a silence.
        let looks = self.lock().looks().filter(|_| waiter.once).cloned();
        let seen = looks.as_ref().map(E::seen);
        if let Some(seen) = seen {
            seen.forget();
        }
        // A grant is checked at the present time, not at that of the call.
        let joined = self.join(Waiter { since: self.now(), ahead: 0, ..waiter }, is_own).0;
        if let Some(seen) = seen {
            seen.look_anew();
        }
        joined
    }

    /// A waiter gives up its place.
    pub(super) fn leave(self: &Arc<Self>, place: Place) {
        let mut untaken = None;
        let deletions = self.decide(|state| {
            let (outcome, todo) = state.leave(place);
            untaken = Some(outcome);
            todo
        });
        drop(deletions);
        match untaken {
            Some(Ok(Ok(hold))) => pass_on(hold),
            // The last waker of a task drops the task.
            other => drop(other),
        }
    }

    /// The mode of the waiter in a place, and since when it waits.
    pub(super) fn waiter(&self, place: Place) -> Option<(Mode, Instant)> {
        let inner = self.lock();
        inner.state.waiter(place).map(|waiter| (E::mode(&waiter.wants), waiter.since))
    }

    /// Those who hold the lock. Whoever has lost it holds it no more.
    fn present_holders(inner: &Inner<E>, now: Instant) -> impl Iterator<Item = Arc<Grant>> {
        let holders = inner.state.holders().filter_map(Weak::upgrade);
        holders.filter(move |by| by.is_leased_at(now))
    }

    /// The holders and the waiters, and their modes.
    fn users<'a>(
        &'a self,
        inner: &'a Inner<E>,
        now: Instant,
    ) -> impl Iterator<Item = (Mode, LocalContender)> + 'a {
        let holders = Self::present_holders(inner, now).map(move |by| (by.mode, by.describe(now)));
        let waiting = move |waiting: &Waiter<E::Wants>| {
            let contender = LocalContender {
                lock: self.lock_name().clone(),
                holds: false,
                elapsed: now.since(waiting.since),
                caller: waiting.who.to_string(),
                label: waiting.label.clone(),
            };
            (E::mode(&waiting.wants), contender)
        };
        holders.chain(inner.state.waiting().map(waiting))
    }
}

impl<E: Engine> LocalQueue for Queue<E> {
    fn driver(&self) -> &Arc<dyn LockDriver> {
        &self.target().driver
    }

    fn contenders(&self) -> Vec<LocalContender> {
        let (inner, now) = (self.lock(), self.now());
        self.users(&inner, now).map(|(_, contender)| contender).collect()
    }

    fn is_in_use(&self) -> bool {
        let (inner, now) = (self.lock(), self.now());
        !inner.state.waiters.is_empty() || Self::present_holders(&inner, now).next().is_some()
    }

    fn tally(&self, each: &mut dyn FnMut(Pattern, Mode, bool)) {
        let (inner, now, pattern) = (self.lock(), self.now(), self.pattern());
        Self::present_holders(&inner, now).for_each(|by| each(pattern, by.mode, true));
        inner.state.waiting().for_each(|other| each(pattern, E::mode(&other.wants), false));
    }

    fn holdings(&self, each: &mut dyn FnMut(&Arc<str>, Holding)) {
        let inner = self.lock();
        let holders = inner.state.holders().filter_map(Weak::upgrade);
        holders.for_each(|by| by.leases().for_each(|lease| each(lease.path(), by.holding())));
    }

    fn is_semaphore(&self) -> bool {
        E::IS_SEMAPHORE
    }

    fn user(&self) -> Option<(Mode, LocalContender)> {
        let now = self.now();
        self.users(&self.lock(), now).next()
    }

    fn is_beside_another(&self) -> &AtomicBool {
        &self.common.beside
    }

    fn close(self: Arc<Self>) {
        drop(self.decide(|state| state.close(|| closed().on(self.lock_name().clone()))));
    }

    fn leases_lost(self: Arc<Self>) {
        let now = self.now();
        drop(self.decide(|state| state.leases_lost(now)));
        // Who has lost the lock holds it no more.
        self.local_queues().left();
    }
}
