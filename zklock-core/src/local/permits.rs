//! The state of a semaphore's local queue: all decisions, without effects.
//!
//! Each permit is a lease of its own. When it is given back, it passes to the first waiter of this
//! process, if that waiter needs no more and the limit of handoffs allows it; otherwise its node is
//! deleted. Permits are never collected one by one: two processes that each hold a part would wait
//! for each other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::policy::{Handoffs, RetryPolicy, StopAt};
use crate::local::state::{Lent, QueuePolicy};
use crate::local::turn::Turn;
use crate::local::waiters::{Outcome, Place, Ticket, Waiters};

/// What is known of a waiter.
#[derive(Clone, Debug)]
pub struct PermitWaiter {
    /// The task or thread.
    pub who: Caller,
    /// Since when it waits.
    pub since: Instant,
    /// The number of permits.
    pub permits: u32,
    /// Whether it waits for ZooKeeper's reply only, and not for other contenders.
    pub once: bool,
    /// Its policy.
    pub queue_policy: QueuePolicy,
    /// How often to begin again after nodes were deleted by others.
    pub vanished: RetryPolicy,
    /// Its label.
    pub label: Option<Arc<str>>,
    /// The number of callers of this process that were ahead when it came.
    pub ahead: u32,
}

/// A driver to be started: an attempt to acquire permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Its number.
    pub driver: u64,
    /// The number of permits.
    pub permits: u32,
    /// When their leases count as lost.
    pub stop_at: StopAt,
    /// How often to begin again after nodes were deleted by others.
    pub vanished: RetryPolicy,
    /// Whether it waits for ZooKeeper's reply only.
    pub once: bool,
    /// Waiters from this number on came while it was running: its reply may be older than their
    /// call.
    pub since: Ticket,
}

/// What is to be done, in this order.
#[derive(Debug)]
#[must_use]
pub struct Todo<L> {
    /// Delete these nodes.
    pub release: Vec<Arc<L>>,
    /// Stop the running driver.
    pub cancel: bool,
    /// Start a driver.
    pub fetch: Option<Fetch>,
    /// Wake these.
    pub wake: Vec<Waker>,
    /// Whether a caller that only tried was given permits.
    pub tried: bool,
}

impl<L> Default for Todo<L> {
    fn default() -> Self {
        Todo { release: Vec::new(), cancel: false, fetch: None, wake: Vec::new(), tried: false }
    }
}

/// The result of joining.
#[derive(Debug)]
pub enum Joined {
    /// In the queue.
    Waits(Place),
    /// Somebody is ahead, and the caller does not wait.
    Busy,
    /// The request is refused.
    Refused(LockError),
}

/// The state. `L` is a lease, `B` a holder, `O` a grant.
#[derive(Debug)]
pub struct State<L, B, O> {
    waiters: Waiters<PermitWaiter, Outcome<O>>,
    /// The holders, each with the number of the turn in which its permits came from ZooKeeper.
    holders: Vec<(u64, B)>,
    fetching: Option<Fetch>,
    drivers: u64,
    /// The present turn: of all permits that came from ZooKeeper since its beginning. Only these are
    /// handed on.
    turn: Turn,
    /// Its number.
    turns: u64,
    /// Whether the running driver is behind everybody who came in this turn, or the turn still
    /// lasts.
    yielded: bool,
    /// Whether some waiter waits for ZooKeeper's reply only.
    tries: bool,
    closed: bool,
    lease: std::marker::PhantomData<fn() -> L>,
}

impl<L: Lent, B, O> State<L, B, O> {
    /// No holders and no waiters.
    pub fn new(closed: bool) -> Self {
        State {
            waiters: Waiters::default(),
            holders: Vec::new(),
            fetching: None,
            drivers: 0,
            turn: Turn::begin(&Handoffs::NONE, Instant::ORIGIN),
            turns: 0,
            tries: false,
            yielded: true,
            closed,
            lease: std::marker::PhantomData,
        }
    }

    /// The holders of permits.
    pub fn holders(&self) -> impl Iterator<Item = &B> {
        self.holders.iter().map(|(_, by)| by)
    }

    /// The number of permits that the waiter in a place needs, and the sum of those that are needed
    /// ahead of it; `None` if it was given them meanwhile.
    pub fn needed(&self, place: Place) -> Option<(u32, u64)> {
        let (waiting, ahead) = self.waiters.up_to(place)?;
        Some((waiting.permits, ahead.map(|other| u64::from(other.permits)).sum()))
    }

    /// The waiters, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &PermitWaiter> {
        self.waiters.iter()
    }

    /// The number of waiters ahead of the one in a place, or of a newcomer.
    pub fn ahead_of(&self, place: Option<Place>) -> usize {
        place.map_or(self.waiters.len(), |place| self.waiters.ahead_of(place))
    }

    /// The running driver.
    pub fn fetching(&self) -> Option<&Fetch> {
        self.fetching.as_ref()
    }

    /// Whether some waiter waits for ZooKeeper's reply only.
    pub fn anybody_tries(&self) -> bool {
        self.tries
    }

    fn fetch(&mut self) -> Option<Fetch> {
        let PermitWaiter { permits, once, vanished, .. } = *self.waiters.first()?;
        let stop_at = self.waiters.first()?.queue_policy.stop_at;
        self.drivers += 1;
        let (driver, since) = (self.drivers, self.waiters.next());
        self.fetching = Some(Fetch { driver, permits, stop_at, vanished, once, since });
        self.fetching
    }

    /// Makes sure that a driver runs exactly while somebody waits, for the number of permits that
    /// the first waiter needs.
    fn adjust(&mut self, todo: &mut Todo<L>) {
        let as_wanted = |fetch: &Fetch, first: &PermitWaiter| {
            (fetch.permits, fetch.stop_at, fetch.vanished)
                == (first.permits, first.queue_policy.stop_at, first.vanished)
        };
        let is_as_wanted = match (&self.fetching, self.waiters.first()) {
            (Some(fetch), Some(first)) => as_wanted(fetch, first),
            (fetch, first) => fetch.is_none() && first.is_none(),
        };
        if is_as_wanted {
            return;
        }
        todo.cancel |= self.fetching.take().is_some();
        todo.fetch = self.fetch();
    }

    /// A caller wants permits. `seen` says whether the running driver has seen that there are none.
    pub fn join(
        &mut self,
        wanting: PermitWaiter,
        closed: impl FnOnce() -> LockError,
        seen: bool,
    ) -> (Joined, Todo<L>) {
        let mut todo = Todo::default();
        if self.closed {
            return (Joined::Refused(closed()), todo);
        }
        if wanting.once && self.fetching.is_some() && seen {
            return (Joined::Busy, todo);
        }
        self.tries |= wanting.once;
        let ahead = u32::try_from(self.waiters.len() + self.holders.len()).unwrap_or(u32::MAX);
        let place = self.waiters.join(PermitWaiter { ahead, ..wanting });
        if self.fetching.is_none() {
            todo.fetch = self.fetch();
        }
        (Joined::Waits(place), todo)
    }

    /// A waiter asks for its outcome.
    pub fn poll(&mut self, place: Place, waker: &Waker) -> Poll<Option<Outcome<O>>> {
        self.waiters.poll(place, waker)
    }

    /// Begins a turn with permits that came from ZooKeeper after the end of the last one. While others of
    /// the last turn are still held, and the driver was ahead of those who came in it, they get no second
    /// one: what came is not handed on, and the next driver is behind them.
    fn begin_turn(&mut self, now: Instant) {
        let is_held = || self.holders.iter().any(|(turn, _)| *turn == self.turns);
        if !self.yielded && is_held() {
            self.yielded = true;
        } else if let Some(first) = self.waiters.first() {
            self.turn = Turn::begin(&first.queue_policy.handoffs, now);
            self.turns += 1;
            self.yielded = !self.turn.is_on(now);
        }
    }

    fn grant_first(
        &mut self,
        todo: &mut Todo<L>,
        leases: Vec<Arc<L>>,
        grant: impl FnOnce(&PermitWaiter, Vec<Arc<L>>) -> Option<(B, O)>,
        lost: impl FnOnce() -> LockError,
    ) {
        let (holders, turn, tried) = (&mut self.holders, self.turns, &mut todo.tried);
        todo.wake.extend(self.waiters.settle_first(|wanting| match grant(wanting, leases) {
            Some((by, granted)) => {
                *tried |= wanting.once;
                holders.push((turn, by));
                Ok(granted)
            }
            None => Err(lost()),
        }));
    }

    /// A driver saw that there are no permits, and waits: waiters that only try are told.
    pub fn met(&mut self, driver: u64, busy: impl Fn() -> LockError) -> Todo<L> {
        let mut todo = Todo::default();
        if self.fetching.is_some_and(|fetch| fetch.driver == driver) {
            if std::mem::take(&mut self.tries) {
                todo.wake = self.waiters.settle_where(|other, _| other.once, |_| Err(busy()));
            }
            self.adjust(&mut todo);
        }
        todo
    }

    /// A driver is done. Its leases are returned to be released if nobody needs them any more.
    pub fn fetched(
        &mut self,
        driver: u64,
        result: Result<Vec<Arc<L>>, LockError>,
        now: Instant,
        grant: impl FnOnce(&PermitWaiter, Vec<Arc<L>>) -> Option<(B, O)>,
        lost: impl FnOnce() -> LockError,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        let Some(fetch) = self.fetching.take_if(|fetch| fetch.driver == driver) else {
            todo.release = result.unwrap_or_default();
            return todo;
        };
        match result {
            Ok(leases) => {
                // A turn that lasts is not prolonged: its first permit has been kept since it began.
                if !self.turn.is_on(now) {
                    self.begin_turn(now);
                }
                self.grant_first(&mut todo, leases, grant, lost);
            }
            // The result counts for those that asked before it, do not wait and need at least as
            // many.
            Err(error) if fetch.once && error.is_busy() => {
                let told = |other: &PermitWaiter, place: Place| {
                    other.once && other.permits >= fetch.permits && place.is_before(fetch.since)
                };
                todo.wake = self.waiters.settle_where(told, |_| Err(error.clone()));
            }
            // Others may begin again more often.
            Err(error) => {
                let told = |other: &PermitWaiter, _| other.vanished == fetch.vanished;
                todo.wake = self.waiters.settle_where(told, |_| Err(error.clone()));
            }
        }
        todo.fetch = self.fetch();
        todo
    }

    /// Some permits of a holder were split off, for this one.
    pub fn split_off(&mut self, part: B, is_whole: impl Fn(&B) -> bool) {
        let whole = self.holders.iter().find(|(_, by)| is_whole(by));
        self.holders.push((whole.map_or(0, |(turn, _)| *turn), part));
    }

    /// A holder returned its permits.
    pub fn release(
        &mut self,
        leases: Vec<Arc<L>>,
        is_holder: impl Fn(&B) -> bool,
        now: Instant,
        mut grant: impl FnMut(&PermitWaiter, Vec<Arc<L>>) -> Option<(B, O)>,
        lost: impl Fn() -> LockError,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        let mut turn = None;
        self.holders.retain(|(its, by)| {
            let leaves = is_holder(by);
            turn = turn.or(leaves.then_some(*its));
            !leaves
        });
        let is_of_turn = turn == Some(self.turns);
        let mut left = VecDeque::from(leases);
        let stop_at = left.front().map(|lease| lease.stop_at());
        if left.iter().all(|lease| lease.is_valid(now) && !lease.is_revoked()) {
            while let Some(first) = self.waiters.first()
                && first.permits as usize <= left.len()
                && stop_at == Some(first.queue_policy.stop_at)
                && is_of_turn
                && self.turn.take(now)
            {
                let handed = left.drain(..first.permits as usize).collect();
                self.grant_first(&mut todo, handed, &mut grant, &lost);
            }
        }
        if !left.is_empty() && !self.turn.is_on(now) && !self.yielded {
            // A waiter in another process may be behind the driver.
            self.yielded = true;
            todo.cancel |= self.fetching.take().is_some();
        }
        todo.release = left.into();
        self.adjust(&mut todo);
        todo
    }

    /// Ends the wait of those callers with an error.
    pub fn refuse(
        &mut self,
        is_stuck: impl Fn(&PermitWaiter) -> bool,
        error: impl Fn() -> LockError,
    ) -> Todo<L> {
        let wake = self.waiters.settle_where(|other, _| is_stuck(other), |_| Err(error()));
        let mut todo = Todo { wake, ..Todo::default() };
        self.adjust(&mut todo);
        todo
    }

    /// The waiter in a place, unless it has an outcome.
    pub fn waiter(&self, place: Place) -> Option<&PermitWaiter> {
        self.waiters.up_to(place).map(|(waiter, _)| waiter)
    }

    /// A waiter gave up. Returns an outcome that it did not take, to be dropped.
    pub fn leave(&mut self, place: Place) -> (Option<Outcome<O>>, Todo<L>) {
        let mut todo = Todo::default();
        let untaken = self.waiters.leave(place);
        self.adjust(&mut todo);
        (untaken, todo)
    }

    /// Closes the queue: waiters fail.
    pub fn close(&mut self, error: impl Fn() -> LockError) -> Todo<L> {
        let mut todo = Todo::default();
        self.closed = true;
        todo.cancel = self.fetching.take().is_some();
        todo.wake = self.waiters.settle_all(|_| Err(error()));
        todo
    }
}

#[cfg(test)]
mod tests;
