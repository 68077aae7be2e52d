//! The decisions of a lock's local queue, without their effects.
//!
//! Each method takes what happened, and returns what is [to be done](Todo) once the queue is
//! unlocked. Leases and grants are type parameters, so that the decisions can be tested alone.

use std::iter::empty;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::policy::Handoffs;
use crate::local::callers::{Callers, Decides, Grants};
use crate::local::itself::{stops_waiter, stuck};
use crate::local::todo::{Fetch, Lent, Todo};
use crate::local::turn::Turn;
use crate::local::waiter::Waiter;
use crate::local::waiters::Place;

mod behind;
mod joining;
mod phase;
mod stepping_down;

pub use joining::Conflict;
pub use phase::Phase;

/// The state of a local queue. `L` is a lease, `B` a holder, `O` a grant.
///
/// A node is held in one mode. Callers of the same mode can be handed it: the next mutex or writer
/// alone, readers together. For another mode the node is deleted, and a new one is acquired.
#[derive(Debug)]
pub struct State<L, B, O> {
    callers: Callers<Mode, O>,
    phase: Phase<L>,
    /// The holder, or several readers.
    holders: Vec<B>,
    /// Those who hold another node than the present one, and have not given it back: it was lost, or they
    /// read in a session that is used no more.
    apart: Vec<(Arc<L>, B)>,
    turn: Turn,
    /// Whether a contender is behind the node; known only from a companion that watches, or after it
    /// was asked because of newcomers among readers.
    behind: Option<bool>,
    /// Whether the node has a companion.
    accompanied: bool,
    /// Until when the companion sleeps if nothing happens.
    sleeps_until: Instant,
    /// Whether it is being asked while readers hold the lock.
    asking: bool,
}

impl<L, B, O> Deref for State<L, B, O> {
    type Target = Callers<Mode, O>;

    fn deref(&self) -> &Self::Target {
        &self.callers
    }
}

impl<L, B, O> DerefMut for State<L, B, O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.callers
    }
}

impl<L: Lent, B, O> Decides<L, Mode, B, O> for State<L, B, O> {
    type Fetched = Arc<L>;

    fn new(closed: bool) -> Self {
        State {
            callers: Callers::new(closed),
            phase: Phase::Idle,
            holders: Vec::new(),
            apart: Vec::new(),
            turn: Turn::begin(&Handoffs::NONE, Instant::ORIGIN),
            behind: None,
            accompanied: false,
            sleeps_until: Instant::ORIGIN,
            asking: false,
        }
    }

    fn holders<'a>(&'a self) -> impl Iterator<Item = &'a B>
    where
        B: 'a,
    {
        let apart = self.apart.iter().filter(|(lease, _)| lease.is_held());
        self.holders.iter().chain(apart.map(|(_, by)| by))
    }

    fn is_fetching(&self, driver: u64) -> bool {
        matches!(self.phase, Phase::Fetching(fetch) if fetch.driver == driver)
    }

    /// A running driver is for the first one, or for nobody, and readers that are first now may enter
    /// beside others.
    fn adjust(&mut self, todo: &mut Todo<L>) {
        let waiters = &mut self.callers.waiters;
        match &self.phase {
            // The driver's node is deleted with the last caller that wanted it.
            Phase::Fetching(fetch) if !waiters.first().is_some_and(|next| fetch.is_for(next)) => {
                todo.cancel = true;
                drop(self.renew(todo));
            }
            Phase::Held { lease, mode: Mode::Read }
                if self.behind != Some(true)
                    && !self.asking
                    && waiters.first().is_some_and(|next| next.wants == Mode::Read) =>
            {
                todo.rare().ask = Some(lease.clone());
                self.asking = true;
            }
            _ => {}
        }
    }

    fn fetched(
        &mut self,
        driver: u64,
        result: Result<Arc<L>, LockError>,
        by: &impl Grants<L, Mode, B, O>,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        let fetch = match self.phase {
            Phase::Fetching(fetch) if fetch.driver == driver => fetch,
            _ => {
                todo.release = result.ok();
                return todo;
            }
        };
        let mode = fetch.wants;
        match result {
            Ok(lease) if self.callers.waiters.is_empty() => {
                self.phase = Phase::Idle;
                todo.release = Some(lease);
            }
            Ok(lease) => self.grant_first(&mut todo, (lease, mode), true, by),
            Err(error) => {
                // The busy error is for those that asked before it, and do not wait.
                let all = !(fetch.once && error.is_busy());
                let told = |other: &Waiter, place: Place| {
                    other.wants == mode && (all || other.once && place.is_before(fetch.since))
                };
                todo.wake_all = self.callers.waiters.settle_where(told, |_| Err(error.clone()));
                drop(self.renew(&mut todo));
            }
        }
        todo
    }

    fn release(
        &mut self,
        leases: impl IntoIterator<Item = Arc<L>>,
        is_holder: impl Fn(&B) -> bool,
        linger: Duration,
        by: &impl Grants<L, Mode, B, O>,
    ) -> Todo<L> {
        let (mut todo, now) = (Todo::default(), by.now());
        let Some(lease) = leases.into_iter().next() else { return todo };
        let mode = match &self.phase {
            Phase::Held { lease: present, mode } if Arc::ptr_eq(present, &lease) => *mode,
            _ => {
                // The node keeps others out until the last caller that worked under it is done.
                self.apart.retain(|(_, holder)| !is_holder(holder));
                let last = !self.apart.iter().any(|(other, _)| Arc::ptr_eq(other, &lease));
                todo.release = last.then_some(lease);
                return todo;
            }
        };
        self.holders.retain(|holder| !is_holder(holder));
        if !self.holders.is_empty() {
            return todo;
        }
        if !lease.may_stay(now) {
            todo.release = self.renew(&mut todo);
        } else if let Some(next) = self.callers.waiters.first().map(|next| next.wants) {
            if next != mode || self.behind == Some(true) && !self.turn.is_on(now) {
                todo.release = self.renew(&mut todo);
            } else if self.turn.take(now) {
                self.grant_first(&mut todo, (lease, mode), false, by);
            } else if self.behind == Some(false) {
                self.grant_first(&mut todo, (lease, mode), true, by);
            } else {
                // It may have been asked for a newcomer among readers.
                if !std::mem::replace(&mut self.asking, true) {
                    todo.rare().ask = Some(lease.clone());
                }
                todo.rare().undecided = Some(lease.clone());
                self.phase = Phase::Asking { lease, mode, until: now + linger };
            }
        } else if linger.is_zero() || self.behind == Some(true) || self.callers.closed {
            todo.release = self.renew(&mut todo);
        } else {
            self.linger(&mut todo, lease, mode, now + linger);
        }
        todo
    }

    /// Waiters fail, and lingering ends.
    fn close(&mut self, error: impl Fn() -> LockError) -> Todo<L> {
        let mut todo = Todo { wake_all: self.callers.close(error), ..Todo::default() };
        match self.phase {
            Phase::Fetching(_) => {
                todo.cancel = true;
                drop(self.renew(&mut todo));
            }
            Phase::Lingering { .. } | Phase::Asking { .. } => {
                todo.release = self.renew(&mut todo);
            }
            Phase::Idle | Phase::Held { .. } => {}
        }
        todo
    }

    /// The node of a lost holder is deleted by its release.
    fn leases_lost(&mut self, now: Instant) -> Todo<L> {
        let mut todo = Todo::default();
        match &self.phase {
            Phase::Held { lease, .. } if !lease.is_valid(now) => drop(self.renew(&mut todo)),
            Phase::Lingering { lease, .. } | Phase::Asking { lease, .. }
                if !lease.is_valid(now) =>
            {
                todo.release = self.renew(&mut todo);
            }
            _ => {}
        }
        todo
    }
}

impl<L: Lent, B, O> State<L, B, O> {
    /// The state of the lock.
    pub fn phase(&self) -> &Phase<L> {
        &self.phase
    }

    /// The holders, and those who lost the lock and have not given it back.
    pub fn in_the_way(&self) -> impl Iterator<Item = &B> {
        self.holders.iter().chain(self.apart.iter().map(|(_, by)| by))
    }

    /// Whether nobody else has the lock: it is held by this process, and not for reading.
    pub fn excludes_others(&self) -> bool {
        match &self.phase {
            Phase::Idle | Phase::Fetching(_) => false,
            Phase::Held { mode, .. }
            | Phase::Asking { mode, .. }
            | Phase::Lingering { mode, .. } => *mode != Mode::Read,
        }
    }

    /// Whether the holders of this process keep out the waiter in a place. A waiter that was given
    /// the lock meanwhile is not kept out; nor do readers keep out a reader, while no contender is
    /// known to be behind their node. A newcomer was kept out before.
    pub fn excludes(&self, place: Option<Place>) -> bool {
        let Some(place) = place else { return true };
        let Some((waiting, mut ahead)) = self.callers.waiters.up_to(place) else { return false };
        let open = matches!(
            &self.phase,
            Phase::Held { lease, mode: Mode::Read }
                if self.behind != Some(true) && !lease.is_revoked()
        );
        !(open && waiting.wants == Mode::Read && ahead.all(|other| other.wants == Mode::Read))
    }

    fn fetch(&mut self) -> Option<Fetch> {
        let fetch = self.callers.fetch()?;
        self.phase = Phase::Fetching(fetch);
        Some(fetch)
    }

    /// No node and nobody behind it any more. A node is acquired for the waiters, if any: while
    /// somebody waits, something is always in progress.
    fn renew(&mut self, todo: &mut Todo<L>) -> Option<Arc<L>> {
        (self.behind, self.accompanied, self.asking) = (None, false, false);
        let gone = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle | Phase::Fetching(_) => None,
            Phase::Held { lease, .. } => {
                self.apart.extend(self.holders.drain(..).map(|by| (lease.clone(), by)));
                Some(lease)
            }
            Phase::Asking { lease, .. } | Phase::Lingering { lease, .. } => Some(lease),
        };
        todo.fetch = self.fetch();
        gone
    }

    /// Keeps the node for a while, though nobody here wants it.
    fn linger(&mut self, todo: &mut Todo<L>, lease: Arc<L>, mode: Mode, until: Instant) {
        self.accompany(todo, &lease);
        // Most often it sleeps for less long: it has heard of an earlier end.
        if until < self.sleeps_until {
            self.sleeps_until = until;
            todo.rare().awake = Some(lease.clone());
        }
        self.phase = Phase::Lingering { lease, mode, until };
    }

    /// From now on somebody watches for contenders behind the node.
    fn accompany(&mut self, todo: &mut Todo<L>, lease: &Arc<L>) {
        if !std::mem::replace(&mut self.accompanied, true) {
            self.sleeps_until = Instant::ORIGIN;
            todo.rare().accompany = Some(lease.clone());
        }
    }

    /// Lets a waiter in beside those that hold the lock already, if any.
    fn enter(&mut self, waiting: &Waiter, lease: Arc<L>, by: &impl Grants<L, Mode, B, O>) -> O {
        let (holder, granted) = by.grant(waiting, &lease, empty());
        self.holders.push(holder);
        self.phase = Phase::Held { lease, mode: waiting.wants };
        granted
    }

    /// Grants the lock to the first waiter of this mode; of readers, to all that follow. Waiters
    /// that remain are behind somebody.
    fn grant_first(
        &mut self,
        todo: &mut Todo<L>,
        (lease, mode): (Arc<L>, Mode),
        fresh: bool,
        by: &impl Grants<L, Mode, B, O>,
    ) {
        let first = if fresh { self.callers.waiters.first() } else { None };
        if let Some(first) = first {
            self.turn = Turn::begin(&first.queue_policy.handoffs, by.now());
        }
        let holders = &mut self.holders;
        let mut settle = |waiting: &Waiter, todo: &mut Todo<L>| {
            todo.was_given(waiting);
            let (holder, granted) = by.grant(waiting, &lease, empty());
            holders.push(holder);
            Ok(granted)
        };
        todo.wake = self.callers.waiters.settle_first(|waiting| settle(waiting, todo));
        if mode == Mode::Read {
            // A writer that only tries keeps nobody out: it is turned away by those who read.
            if self.callers.anybody_tries() {
                let tries = |other: &Waiter, _| other.once && other.wants != Mode::Read;
                let busy = |_: &Waiter| Err(by.busy(&lease));
                todo.wake_all.extend(self.callers.waiters.settle_where(tries, busy));
            }
            while self.callers.waiters.first().is_some_and(|next| next.wants == Mode::Read) {
                let wake = self.callers.waiters.settle_first(|waiting| settle(waiting, todo));
                todo.wake_all.extend(wake);
            }
        }
        if self.callers.anybody_tries() {
            todo.wake_all.extend(self.callers.turn_away(|| by.busy(&lease)));
        }
        self.phase = Phase::Held { lease, mode };
        // If it blocked the thread of one that only tried and now holds the lock, it would wait for
        // ever.
        if !todo.tried().is_empty() {
            let tried = todo.tried();
            let stops =
                |other: &Waiter, _| tried.iter().any(|(who, _)| stops_waiter(&other.who, who));
            let refused = self.callers.waiters.settle_where(stops, |_| Err(stuck()));
            todo.wake_all.extend(refused);
        }
        // Readers behind one that was refused may be next.
        self.adjust(todo);
    }
}

#[cfg(test)]
mod tests;
