//! The decisions of a semaphore's local queue, without their effects.
//!
//! Each permit is a lease of its own. When it is given back, it passes to the first waiter of this
//! process, if that waiter needs no more and the limit of handoffs allows it; otherwise its node is
//! deleted. Permits are never collected one by one: two processes that each hold a part would wait
//! for each other.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::policy::{Handoffs, Requeue};
use crate::local::callers::{Callers, Decides, Grants};
use crate::local::todo::{Fetch, Joined, Lent, Todo};
use crate::local::turn::Turn;
use crate::local::waiter::Waiter;
use crate::local::waiters::Place;

/// What a waiter wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitRequest {
    /// The number of permits.
    pub permits: u32,
    /// How often to begin again after nodes were deleted by others.
    pub requeue: Requeue,
}

/// The state of a local queue. `L` is a lease, `B` a holder, `O` a grant.
#[derive(Debug)]
pub struct State<L, B, O> {
    callers: Callers<PermitRequest, O>,
    /// The holders, each with the number of the turn in which its permits came from ZooKeeper.
    holders: Vec<(u64, B)>,
    fetching: Option<Fetch<PermitRequest>>,
    /// The present turn: of all permits that came from ZooKeeper since its beginning. Only these are
    /// handed on.
    turn: Turn,
    /// Its number.
    turns: u64,
    /// Whether the running driver is behind everybody who came in this turn, or the turn still
    /// lasts.
    yielded: bool,
    lease: PhantomData<fn() -> L>,
}

impl<L, B, O> Deref for State<L, B, O> {
    type Target = Callers<PermitRequest, O>;

    fn deref(&self) -> &Self::Target {
        &self.callers
    }
}

impl<L, B, O> DerefMut for State<L, B, O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.callers
    }
}

impl<L: Lent, B, O> Decides<L, PermitRequest, B, O> for State<L, B, O> {
    type Fetched = Vec<Arc<L>>;

    fn new(closed: bool) -> Self {
        State {
            callers: Callers::new(closed),
            holders: Vec::new(),
            fetching: None,
            turn: Turn::begin(&Handoffs::NONE, Instant::ORIGIN),
            turns: 0,
            yielded: true,
            lease: PhantomData,
        }
    }

    fn holders<'a>(&'a self) -> impl Iterator<Item = &'a B>
    where
        B: 'a,
    {
        self.holders.iter().map(|(_, by)| by)
    }

    fn is_fetching(&self, driver: u64) -> bool {
        self.fetching.is_some_and(|fetch| fetch.driver == driver)
    }

    /// A driver runs exactly while somebody waits, for what the first waiter wants.
    fn adjust(&mut self, todo: &mut Todo<L, PermitRequest>) {
        let is_as_wanted = match (&self.fetching, self.callers.waiters.first()) {
            (Some(fetch), Some(first)) => fetch.is_for(first),
            (fetch, first) => fetch.is_none() && first.is_none(),
        };
        if is_as_wanted {
            return;
        }
        todo.cancel |= self.fetching.take().is_some();
        todo.fetch = self.fetch();
    }

    fn fetched(
        &mut self,
        driver: u64,
        result: Result<Vec<Arc<L>>, LockError>,
        by: &impl Grants<L, PermitRequest, B, O>,
    ) -> Todo<L, PermitRequest> {
        let mut todo = Todo::default();
        let Some(fetch) = self.fetching.take_if(|fetch| fetch.driver == driver) else {
            todo.more = result.unwrap_or_default();
            return todo;
        };
        match result {
            Ok(leases) => {
                // A turn that lasts is not prolonged: its first permit has been kept since it began.
                if !self.turn.is_on(by.now()) {
                    self.begin_turn(by.now());
                }
                self.grant_first(&mut todo, leases, by);
            }
            // The result counts for those that asked before it, do not wait and need at least as
            // many.
            Err(error) if fetch.once && error.is_busy() => {
                let told = |other: &Waiter<PermitRequest>, place: Place| {
                    other.once
                        && other.wants.permits >= fetch.wants.permits
                        && place.is_before(fetch.since)
                };
                todo.wake_all = self.callers.waiters.settle_where(told, |_| Err(error.clone()));
            }
            // Others may begin again more often.
            Err(error) => {
                let told =
                    |other: &Waiter<PermitRequest>, _| other.wants.requeue == fetch.wants.requeue;
                todo.wake_all = self.callers.waiters.settle_where(told, |_| Err(error.clone()));
            }
        }
        todo.fetch = self.fetch();
        todo
    }

    fn release(
        &mut self,
        leases: impl IntoIterator<Item = Arc<L>>,
        is_holder: impl Fn(&B) -> bool,
        _: Duration,
        by: &impl Grants<L, PermitRequest, B, O>,
    ) -> Todo<L, PermitRequest> {
        let (mut todo, now) = (Todo::default(), by.now());
        // Most often it is among the first: they give back in about the order in which they came.
        let place = self.holders.iter().position(|(_, by)| is_holder(by));
        let turn = place.map(|place| self.holders.remove(place).0);
        let is_of_turn = turn == Some(self.turns);
        let mut left = leases.into_iter().collect::<VecDeque<_>>();
        let stop_at = left.front().map(|lease| lease.stop_at());
        if left.iter().all(|lease| lease.may_stay(now)) {
            while let Some(first) = self.callers.waiters.first()
                && first.wants.permits as usize <= left.len()
                && stop_at == Some(first.queue_policy.stop_at)
                && is_of_turn
                && self.turn.take(now)
            {
                let handed = left.drain(..first.wants.permits as usize).collect();
                self.grant_first(&mut todo, handed, by);
            }
        }
        if !left.is_empty() && !self.turn.is_on(now) && !self.yielded {
            // A waiter in another process may be behind the driver.
            self.yielded = true;
            todo.cancel |= self.fetching.take().is_some();
        }
        todo.more = left.into();
        self.adjust(&mut todo);
        todo
    }

    fn close(&mut self, error: impl Fn() -> LockError) -> Todo<L, PermitRequest> {
        let wake_all = self.callers.close(error);
        Todo { cancel: self.fetching.take().is_some(), wake_all, ..Todo::default() }
    }

    /// The nodes of lost permits are deleted by their holders.
    fn leases_lost(&mut self, _: Instant) -> Todo<L, PermitRequest> {
        Todo::default()
    }
}

impl<L: Lent, B, O> State<L, B, O> {
    /// A driver saw that fewer permits are left than it wants: callers that only try are told, but for those that
    /// may get fewer, once one that only tries itself is out of their way.
    pub fn lacks_room(
        &mut self,
        driver: u64,
        busy: impl Fn() -> LockError,
    ) -> Todo<L, PermitRequest> {
        let Some(fetch) = self.fetching.filter(|fetch| fetch.driver == driver && fetch.once) else {
            return self.met(driver, busy);
        };
        let wants_as_many = |other: &Waiter<PermitRequest>| {
            other.once && other.wants.permits >= fetch.wants.permits
        };
        let mut todo = self.refuse(wants_as_many, &busy);
        // It goes on for somebody who waits, and is in the way of all who try.
        if self.is_fetching(driver) {
            todo.wake_all.extend(self.callers.turn_away(busy));
        }
        todo
    }

    /// The number of permits that the waiter in a place needs; `None` if it was given them meanwhile.
    pub fn needed(&self, place: Place) -> Option<u32> {
        self.callers.waiters.up_to(place).map(|(waiting, _)| waiting.wants.permits)
    }

    /// The running driver.
    pub fn fetching(&self) -> Option<&Fetch<PermitRequest>> {
        self.fetching.as_ref()
    }

    fn fetch(&mut self) -> Option<Fetch<PermitRequest>> {
        self.fetching = self.callers.fetch();
        self.fetching
    }

    /// A caller wants permits. `seen` says whether the running driver has seen that there are none.
    pub fn join(
        &mut self,
        waiting: &Waiter<PermitRequest>,
        closed: impl FnOnce() -> LockError,
        seen: bool,
    ) -> (Joined<O>, Todo<L, PermitRequest>) {
        let mut todo = Todo::default();
        if self.closed {
            return (Joined::Refused(closed()), todo);
        }
        if waiting.once && self.fetching.is_some() && seen {
            return (Joined::Busy, todo);
        }
        let place = self.callers.enqueue(waiting, self.holders.len());
        if self.fetching.is_none() {
            todo.fetch = self.fetch();
        }
        (Joined::Waits(place), todo)
    }

    /// Begins a turn with permits that came from ZooKeeper after the end of the last one. While others of
    /// the last turn are still held, and the driver was ahead of those who came in it, they get no second
    /// one: what came is not handed on, and the next driver is behind them.
    fn begin_turn(&mut self, now: Instant) {
        let is_held = || self.holders.iter().any(|(turn, _)| *turn == self.turns);
        if !self.yielded && is_held() {
            self.yielded = true;
        } else if let Some(first) = self.callers.waiters.first() {
            self.turn = Turn::begin(&first.queue_policy.handoffs, now);
            self.turns += 1;
            self.yielded = !self.turn.is_on(now);
        }
    }

    fn grant_first(
        &mut self,
        todo: &mut Todo<L, PermitRequest>,
        leases: Vec<Arc<L>>,
        by: &impl Grants<L, PermitRequest, B, O>,
    ) {
        let (holders, turn) = (&mut self.holders, self.turns);
        let mut leases = leases.into_iter();
        let wake = self.callers.waiters.settle_first(|waiting| {
            let lost = || LockError::new(ErrorKind::Lost, "its lease ran out during the grant");
            let first = leases.next().ok_or_else(lost)?;
            let (holder, granted) = by.grant(waiting, &first, leases);
            todo.was_given(waiting);
            holders.push((turn, holder));
            Ok(granted)
        });
        todo.wake_all.extend(wake);
    }

    /// Some permits of a holder were split off, for this one.
    pub fn split_off(&mut self, part: B, is_whole: impl Fn(&B) -> bool) {
        let whole = self.holders.iter().find(|(_, by)| is_whole(by));
        self.holders.push((whole.map_or(0, |(turn, _)| *turn), part));
    }
}

#[cfg(test)]
mod tests;
