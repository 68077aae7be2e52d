//! The state of a local queue: every decision, and nothing that has an effect.
//!
//! Each method takes what happened and answers what is [to be done](Todo) once the queue's lock is
//! let go. Leases and grants are type parameters, so that the decisions are tested alone.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::clock::Instant;
use crate::error::LockError;
use crate::local::turn::Turn;
use crate::local::waiters::{Place, Waiters};
use crate::policy::Handoffs;
use crate::who::Who;

/// What the state asks of a lease.
pub trait Lent {
    /// Whether it is surely held now.
    fn is_valid(&self, now: Instant) -> bool;
}

/// How a waiter wants the lock treated while and after it has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// How long it may be handed from task to task.
    pub handoffs: Handoffs,
    /// How long the node is kept after the last release, zero for not at all.
    pub linger: Duration,
}

/// What is known of a waiter.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The task or thread.
    pub who: Who,
    /// Since when.
    pub since: Instant,
    /// Whether it waits for ZooKeeper's answer only, and for nobody else.
    pub once: bool,
    /// Its habits.
    pub habits: Habits,
}

/// What a waiter is given in the end.
pub type Outcome<O> = Result<O, LockError>;

/// Who has the lock, in the eyes of this process.
#[derive(Debug)]
pub enum Phase<L, B> {
    /// No node.
    Idle,
    /// A driver is acquiring a node.
    Fetching {
        /// Which one.
        driver: u64,
    },
    /// Somebody here holds the lock.
    Held {
        /// The node.
        lease: Arc<L>,
        /// The holder.
        by: B,
    },
    /// Nobody here holds the lock; it is being asked whether another process waits.
    Asking {
        /// The node.
        lease: Arc<L>,
    },
    /// Nobody here wants the lock; the node is kept for a while.
    Lingering {
        /// The node.
        lease: Arc<L>,
        /// Until when.
        until: Instant,
    },
}

impl<L, B> Phase<L, B> {
    fn lease(&self) -> Option<&Arc<L>> {
        match self {
            Phase::Idle | Phase::Fetching { .. } => None,
            Phase::Held { lease, .. }
            | Phase::Asking { lease }
            | Phase::Lingering { lease, .. } => Some(lease),
        }
    }

    fn stands_on(&self, lease: &Arc<L>) -> bool {
        self.lease().is_some_and(|present| Arc::ptr_eq(present, lease))
    }
}

/// What is to be done, in this order.
#[derive(Debug)]
#[must_use]
pub struct Todo<L> {
    /// Delete the node.
    pub release: Option<Arc<L>>,
    /// Stop the driver that is on its way.
    pub cancel: bool,
    /// Start a driver, which waits for nobody if the flag says so.
    pub fetch: Option<(u64, bool)>,
    /// Ask whether anybody stands behind the node.
    pub ask: Option<Arc<L>>,
    /// Watch for others behind the node from now on.
    pub accompany: Option<Arc<L>>,
    /// Wake these.
    pub wake: Option<Waker>,
    /// And these.
    pub wake_all: Vec<Waker>,
}

impl<L> Default for Todo<L> {
    fn default() -> Self {
        let (release, cancel, fetch, ask) = (None, false, None, None);
        Todo { release, cancel, fetch, ask, accompany: None, wake: None, wake_all: Vec::new() }
    }
}

/// What became of joining.
#[derive(Debug)]
pub enum Joined<O> {
    /// The lock was there for the taking.
    Granted(O),
    /// In the queue.
    Waits(Place),
    /// Somebody is ahead, and the caller does not wait.
    Busy,
    /// It cannot be.
    Refused(LockError),
}

/// The state of a local queue. `L` is a lease, `B` a holder, `O` a grant.
#[derive(Debug)]
pub struct State<L, B, O> {
    waiters: Waiters<Waiting, Outcome<O>>,
    phase: Phase<L, B>,
    turn: Turn,
    drivers: u64,
    /// Whether somebody stands behind the node; known only while a companion watches.
    behind: Option<bool>,
    closed: bool,
}

impl<L: Lent, B, O> State<L, B, O> {
    /// Nobody holds, nobody waits.
    pub fn new(closed: bool) -> Self {
        State {
            waiters: Waiters::default(),
            phase: Phase::Idle,
            turn: Turn::begin(&Handoffs::NONE, Instant::ORIGIN),
            drivers: 0,
            behind: None,
            closed,
        }
    }

    /// Who has the lock.
    pub fn phase(&self) -> &Phase<L, B> {
        &self.phase
    }

    /// Who waits, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiters.iter()
    }

    /// How many wait ahead of the one in a place, or of a newcomer.
    pub fn ahead_of(&self, place: Option<Place>) -> usize {
        place.map_or(self.waiters.len(), |place| self.waiters.ahead_of(place))
    }

    /// How many wait.
    pub fn waiting_count(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nothing is granted any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn fetch(&mut self, once: bool) -> Option<(u64, bool)> {
        self.drivers += 1;
        self.phase = Phase::Fetching { driver: self.drivers };
        Some((self.drivers, once))
    }

    /// No node any more: nobody is behind it.
    fn idle(&mut self) -> Option<Arc<L>> {
        self.behind = None;
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle | Phase::Fetching { .. } => None,
            Phase::Held { lease, .. }
            | Phase::Asking { lease }
            | Phase::Lingering { lease, .. } => Some(lease),
        }
    }

    /// Somebody wants the lock.
    pub fn join(
        &mut self,
        waiting: Waiting,
        grant: impl FnOnce(&Waiting, &Arc<L>) -> (B, O),
        deadlock: impl FnOnce(&B) -> Option<LockError>,
        closed: impl FnOnce() -> LockError,
    ) -> (Joined<O>, Todo<L>) {
        let mut todo = Todo::default();
        if self.closed {
            return (Joined::Refused(closed()), todo);
        }
        match &self.phase {
            Phase::Lingering { lease, .. } if lease.is_valid(waiting.since) => {
                let lease = lease.clone();
                self.turn = Turn::begin(&waiting.habits.handoffs, waiting.since);
                let (by, granted) = grant(&waiting, &lease);
                self.phase = Phase::Held { lease, by };
                return (Joined::Granted(granted), todo);
            }
            // A lost lease is nobody's: whoever still works under it is told, and the next waits
            // in ZooKeeper's queue. A lost holder deletes its node itself.
            Phase::Lingering { .. } => todo.release = self.idle(),
            Phase::Held { lease, .. } if !lease.is_valid(waiting.since) => drop(self.idle()),
            Phase::Held { by, .. } => {
                if let Some(error) = deadlock(by) {
                    return (Joined::Refused(error), todo);
                }
            }
            _ => {}
        }
        let idle = matches!(self.phase, Phase::Idle);
        if waiting.once && !idle {
            return (Joined::Busy, todo);
        }
        let once = waiting.once;
        let place = self.waiters.join(waiting);
        if idle {
            todo.fetch = self.fetch(once);
        }
        (Joined::Waits(place), todo)
    }

    /// A waiter asks for its outcome.
    pub fn poll(&mut self, place: Place, waker: &Waker) -> Poll<Option<Outcome<O>>> {
        self.waiters.poll(place, waker)
    }

    fn grant_first(
        &mut self,
        lease: Arc<L>,
        now: Instant,
        fresh: bool,
        grant: impl FnOnce(&Waiting, &Arc<L>) -> (B, O),
    ) -> Option<Waker> {
        let (mut holder, mut begun) = (None, None);
        let waker = self.waiters.settle_first(|waiting| {
            begun = fresh.then(|| Turn::begin(&waiting.habits.handoffs, now));
            let (by, granted) = grant(waiting, &lease);
            holder = Some(by);
            Ok(granted)
        });
        if let Some(turn) = begun {
            self.turn = turn;
        }
        if let Some(by) = holder {
            self.phase = Phase::Held { lease, by };
        }
        waker
    }

    /// A driver is done. Its lease comes back to be released if nobody wants it any more.
    pub fn fetched(
        &mut self,
        driver: u64,
        once: bool,
        result: Result<Arc<L>, LockError>,
        now: Instant,
        grant: impl FnOnce(&Waiting, &Arc<L>) -> (B, O),
    ) -> Todo<L> {
        let mut todo = Todo::default();
        if !matches!(self.phase, Phase::Fetching { driver: present } if present == driver) {
            todo.release = result.ok();
            return todo;
        }
        match result {
            Ok(lease) if self.waiters.is_empty() => {
                self.phase = Phase::Idle;
                todo.release = Some(lease);
            }
            Ok(lease) => todo.wake = self.grant_first(lease, now, true, grant),
            Err(error) if once => {
                self.phase = Phase::Idle;
                if self.waiters.first().is_some_and(|first| first.once) {
                    todo.wake = self.waiters.settle_first(|_| Err(error));
                }
                if !self.waiters.is_empty() {
                    todo.fetch = self.fetch(false);
                }
            }
            Err(error) => {
                self.phase = Phase::Idle;
                todo.wake_all = self.waiters.settle_all(|_| Err(error.clone()));
            }
        }
        todo
    }

    /// A holder gave the lock back.
    pub fn release(
        &mut self,
        lease: &Arc<L>,
        linger: Duration,
        now: Instant,
        grant: impl FnOnce(&Waiting, &Arc<L>) -> (B, O),
    ) -> Todo<L> {
        let mut todo = Todo::default();
        let present = matches!(self.phase, Phase::Held { .. }) && self.phase.stands_on(lease);
        if !present {
            todo.release = Some(lease.clone());
        } else if !lease.is_valid(now) {
            todo.release = self.idle();
            if !self.waiters.is_empty() {
                todo.fetch = self.fetch(false);
            }
        } else if self.waiters.is_empty() {
            if linger.is_zero() || self.behind == Some(true) || self.closed {
                todo.release = self.idle();
            } else {
                if self.behind.is_none() {
                    self.behind = Some(false);
                    todo.accompany = Some(lease.clone());
                }
                self.phase = Phase::Lingering { lease: lease.clone(), until: now + linger };
            }
        } else if self.turn.take(now) {
            todo.wake = self.grant_first(lease.clone(), now, false, grant);
        } else if self.behind == Some(false) {
            todo.wake = self.grant_first(lease.clone(), now, true, grant);
        } else if self.behind == Some(true) {
            todo.release = self.idle();
            todo.fetch = self.fetch(false);
        } else {
            self.phase = Phase::Asking { lease: lease.clone() };
            todo.ask = Some(lease.clone());
        }
        todo
    }

    /// It was asked whether somebody stands behind the node.
    pub fn asked(
        &mut self,
        lease: &Arc<L>,
        behind: bool,
        now: Instant,
        grant: impl FnOnce(&Waiting, &Arc<L>) -> (B, O),
    ) -> Todo<L> {
        let mut todo = Todo::default();
        if !matches!(self.phase, Phase::Asking { .. }) || !self.phase.stands_on(lease) {
            return todo;
        }
        if self.waiters.is_empty() {
            todo.release = self.idle();
        } else if behind || !lease.is_valid(now) {
            todo.release = self.idle();
            todo.fetch = self.fetch(false);
        } else {
            todo.wake = self.grant_first(lease.clone(), now, true, grant);
        }
        todo
    }

    /// A waiter gave up. Answers an outcome that it did not take, to be dropped.
    pub fn leave(&mut self, place: Place) -> (Option<Outcome<O>>, Todo<L>) {
        let mut todo = Todo::default();
        let untaken = self.waiters.leave(place);
        if self.waiters.is_empty() && matches!(self.phase, Phase::Fetching { .. }) {
            // The node goes with the last who wanted it.
            self.phase = Phase::Idle;
            todo.cancel = true;
        }
        (untaken, todo)
    }

    /// The companion of a node looked behind it.
    pub fn looked_behind(&mut self, lease: &Arc<L>, behind: bool) -> Todo<L> {
        let mut todo = Todo::default();
        if self.phase.stands_on(lease) {
            self.behind = Some(behind);
            if behind && matches!(self.phase, Phase::Lingering { .. }) {
                todo.release = self.idle();
            }
        }
        todo
    }

    /// The companion of a node asks whether it should go on, and until when to sleep. `doubt` ends
    /// the lingering.
    pub fn linger_on(
        &mut self,
        lease: &Arc<L>,
        doubt: bool,
        now: Instant,
    ) -> (Option<Instant>, Todo<L>) {
        let mut todo = Todo::default();
        if !self.phase.stands_on(lease) {
            return (None, todo);
        }
        match &self.phase {
            Phase::Lingering { lease, until } if doubt || now >= *until || !lease.is_valid(now) => {
                todo.release = self.idle();
                (None, todo)
            }
            Phase::Lingering { until, .. } => (Some(*until), todo),
            _ => (Some(Instant::FAR), todo),
        }
    }

    /// Leases were lost, perhaps this one. The node of a lost holder is deleted by its release.
    pub fn leases_lost(&mut self, now: Instant) -> Todo<L> {
        let mut todo = Todo::default();
        match &self.phase {
            Phase::Held { lease, .. } if !lease.is_valid(now) => drop(self.idle()),
            Phase::Lingering { lease, .. } if !lease.is_valid(now) => todo.release = self.idle(),
            _ => return todo,
        }
        if !self.waiters.is_empty() {
            todo.fetch = self.fetch(false);
        }
        todo
    }

    /// Nothing is granted any more: who waits fails, who lingers ends.
    pub fn close(&mut self, error: impl Fn() -> LockError) -> Todo<L> {
        let mut todo = Todo::default();
        self.closed = true;
        match self.phase {
            Phase::Fetching { .. } => {
                todo.cancel = true;
                self.phase = Phase::Idle;
            }
            Phase::Lingering { .. } | Phase::Asking { .. } => todo.release = self.idle(),
            Phase::Idle | Phase::Held { .. } => {}
        }
        todo.wake_all = self.waiters.settle_all(|_| Err(error()));
        todo
    }
}
