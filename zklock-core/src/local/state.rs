//! The state of a local queue: every decision, and nothing that has an effect.
//!
//! Each method takes what happened and answers what is [to be done](Todo) once the queue's lock is
//! let go. Leases and grants are type parameters, so that the decisions are tested alone.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::policy::{Handoffs, StopAt};
use crate::local::itself::{stops_waiter, stuck};
use crate::local::turn::Turn;
use crate::local::waiters::{Outcome, Place, Ticket, Waiters};

/// What the state asks of a lease.
pub trait Lent {
    /// Whether it is surely held now.
    fn is_valid(&self, now: Instant) -> bool;

    /// Whether somebody asked to let it go. Then it is not handed on.
    fn is_revoked(&self) -> bool;

    /// Where it stops, if the connection is in trouble.
    fn stop_at(&self) -> StopAt;
}

/// How a waiter wants the lock treated while and after it has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePolicy {
    /// How long it may be handed from task to task.
    pub handoffs: Handoffs,
    /// How long the node is kept after the last release, zero for not at all.
    pub linger: Duration,
    /// Where it stops, if the connection is in trouble. In one queue all stop at the same.
    pub stop_at: StopAt,
}

/// What is known of a waiter.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The task or thread.
    pub who: Caller,
    /// In which way it wants the lock.
    pub mode: Mode,
    /// Since when.
    pub since: Instant,
    /// Whether it waits for ZooKeeper's answer only, and for nobody else.
    pub once: bool,
    /// Its policy.
    pub queue_policy: QueuePolicy,
    /// What it says of itself.
    pub label: Option<Arc<str>>,
}

/// Who has the lock, in the eyes of this process.
#[derive(Debug)]
pub enum Phase<L> {
    /// No node.
    Idle,
    /// A driver is acquiring a node.
    Fetching {
        /// Which one.
        driver: u64,
        /// For whom.
        mode: Mode,
        /// Whether it waits for ZooKeeper's answer only.
        once: bool,
        /// Who came when it was on its way already: its answer may be older than their question.
        since: Ticket,
    },
    /// Somebody here holds the lock, or several readers do.
    Held {
        /// The node.
        lease: Arc<L>,
        /// In which way.
        mode: Mode,
    },
    /// Nobody here holds the lock; it is being asked whether another process waits.
    Asking {
        /// The node.
        lease: Arc<L>,
        /// In which way it is held.
        mode: Mode,
    },
    /// Nobody here wants the lock; the node is kept for a while.
    Lingering {
        /// The node.
        lease: Arc<L>,
        /// In which way it is held.
        mode: Mode,
        /// Until when.
        until: Instant,
    },
}

impl<L> Phase<L> {
    fn lease(&self) -> Option<&Arc<L>> {
        match self {
            Phase::Idle | Phase::Fetching { .. } => None,
            Phase::Held { lease, .. }
            | Phase::Asking { lease, .. }
            | Phase::Lingering { lease, .. } => Some(lease),
        }
    }

    fn stands_on(&self, lease: &Arc<L>) -> bool {
        self.lease().is_some_and(|present| Arc::ptr_eq(present, lease))
    }
}

/// A driver to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Its number.
    pub driver: u64,
    /// Whether it waits for ZooKeeper's answer only, and for nobody else.
    pub once: bool,
    /// In which way it acquires.
    pub mode: Mode,
}

/// What is to be done, in this order.
#[derive(Debug)]
#[must_use]
pub struct Todo<L> {
    /// Delete the node.
    pub release: Option<Arc<L>>,
    /// And the nodes of these, which were lost and are only in the way.
    pub let_go: Vec<Arc<L>>,
    /// Stop the driver that is on its way.
    pub cancel: bool,
    /// Start a driver.
    pub fetch: Option<Fetch>,
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
        Todo {
            release: None,
            let_go: Vec::new(),
            cancel: false,
            fetch: None,
            ask: None,
            accompany: None,
            wake: None,
            wake_all: Vec::new(),
        }
    }
}

/// What a holder means to a newcomer.
#[derive(Debug)]
pub enum Conflict<L> {
    /// It has to be waited for.
    None,
    /// The newcomer holds it itself, and is not to wait for who waits for that.
    Own,
    /// It is the newcomer itself, which lost this lease and starts anew.
    LetGo(Arc<L>),
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
///
/// A node is held in one mode. Whoever wants the lock in the same mode can be handed it: the next
/// mutex or writer alone, readers together. For another mode the node goes and another is fetched.
#[derive(Debug)]
pub struct State<L, B, O> {
    waiters: Waiters<Waiter, Outcome<O>>,
    phase: Phase<L>,
    /// Who holds the lock now: one, or several readers.
    holders: Vec<B>,
    /// Who held it when the lease was lost, and has not given it back.
    lost: Vec<(Arc<L>, B)>,
    turn: Turn,
    drivers: u64,
    /// Whether somebody stands behind the node; known only while a companion watches, or after it
    /// was asked for newcomers among readers.
    behind: Option<bool>,
    /// Whether it is being asked while readers hold the lock.
    asking: bool,
    /// Whether somebody among the waiters may wait for ZooKeeper's answer only.
    tries: bool,
    closed: bool,
}

impl<L: Lent, B, O> State<L, B, O> {
    /// Nobody holds, nobody waits.
    pub fn new(closed: bool) -> Self {
        State {
            waiters: Waiters::default(),
            phase: Phase::Idle,
            holders: Vec::new(),
            lost: Vec::new(),
            turn: Turn::begin(&Handoffs::NONE, Instant::ORIGIN),
            drivers: 0,
            behind: None,
            asking: false,
            tries: false,
            closed,
        }
    }

    /// Who has the lock.
    pub fn phase(&self) -> &Phase<L> {
        &self.phase
    }

    /// Who holds the lock.
    pub fn holders(&self) -> impl Iterator<Item = &B> {
        self.holders.iter()
    }

    /// Who holds the lock, or lost it and has not given it back.
    pub fn in_the_way(&self) -> impl Iterator<Item = &B> {
        self.holders.iter().chain(self.lost.iter().map(|(_, by)| by))
    }

    /// Whether nobody else has the lock: it is held here, and not for reading.
    pub fn excludes_others(&self) -> bool {
        match &self.phase {
            Phase::Idle | Phase::Fetching { .. } => false,
            Phase::Held { mode, .. }
            | Phase::Asking { mode, .. }
            | Phase::Lingering { mode, .. } => *mode != Mode::Read,
        }
    }

    /// Whether whoever has the lock here keeps out the one who waits in a place. Nobody keeps out
    /// whom the lock was given meanwhile, and readers keep out no reader as long as it is not known
    /// that somebody stands behind their node. A newcomer was kept out already.
    pub fn excludes(&self, place: Option<Place>) -> bool {
        let Some(place) = place else { return true };
        let Some((waiting, mut ahead)) = self.waiters.up_to(place) else { return false };
        let open = match &self.phase {
            Phase::Held { lease, mode: Mode::Read }
            | Phase::Asking { lease, mode: Mode::Read }
            | Phase::Lingering { lease, mode: Mode::Read, .. } => {
                self.behind != Some(true) && !lease.is_revoked()
            }
            _ => false,
        };
        !(open && waiting.mode == Mode::Read && ahead.all(|other| other.mode == Mode::Read))
    }

    /// Who waits, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiter> {
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

    /// Whether somebody among the waiters may wait for ZooKeeper's answer only.
    pub fn anybody_tries(&self) -> bool {
        self.tries
    }

    fn fetch(&mut self) -> Option<Fetch> {
        let Waiter { mode, once, .. } = *self.waiters.first()?;
        self.drivers += 1;
        let (driver, since) = (self.drivers, self.waiters.next());
        self.phase = Phase::Fetching { driver, mode, once, since };
        Some(Fetch { driver, once, mode })
    }

    /// No node any more, and nobody behind it. Whoever waits is fetched another: while somebody
    /// waits, something is always under way.
    fn renew(&mut self, todo: &mut Todo<L>) -> Option<Arc<L>> {
        self.behind = None;
        self.asking = false;
        let gone = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle | Phase::Fetching { .. } => None,
            Phase::Held { lease, .. } => {
                self.lost.extend(self.holders.drain(..).map(|by| (lease.clone(), by)));
                Some(lease)
            }
            Phase::Asking { lease, .. } | Phase::Lingering { lease, .. } => Some(lease),
        };
        todo.fetch = self.fetch();
        gone
    }

    /// Tells those who do not wait for others that somebody is in the way.
    fn turn_away(&mut self, todo: &mut Todo<L>, busy: impl Fn() -> LockError) {
        if std::mem::take(&mut self.tries) {
            todo.wake_all.extend(self.waiters.settle_where(|other, _| other.once, |_| Err(busy())));
        }
    }

    /// After some left: the node that is on its way is for the first, or for nobody, and readers
    /// who are first now may enter beside others.
    fn adjust(&mut self, todo: &mut Todo<L>) {
        let next = self.waiters.first().map(|next| next.mode);
        match &self.phase {
            // The node goes with the last who wanted it.
            Phase::Fetching { mode, .. } if next != Some(*mode) => {
                todo.cancel = true;
                drop(self.renew(todo));
            }
            Phase::Held { lease, mode: Mode::Read }
                if next == Some(Mode::Read) && self.behind != Some(true) && !self.asking =>
            {
                todo.ask = Some(lease.clone());
                self.asking = true;
            }
            _ => {}
        }
    }

    /// Whether a newcomer is surely kept out by somebody of this process. If not, ZooKeeper's
    /// answer is on its way, and it may be the newcomer's as well. `seen` says whether whoever is
    /// fetching has seen somebody in the way.
    fn keeps_out(&self, newcomer: &Waiter, seen: bool) -> bool {
        let reads = |mode: Mode| {
            (newcomer.mode, mode) == (Mode::Read, Mode::Read)
                && self.waiters.iter().all(|other| other.mode == Mode::Read)
        };
        match &self.phase {
            Phase::Idle | Phase::Lingering { .. } => false,
            Phase::Fetching { .. } => seen,
            Phase::Asking { lease, mode } => lease.is_valid(newcomer.since) && !reads(*mode),
            Phase::Held { lease, mode } => {
                let open = self.asking && self.behind != Some(true) && !lease.is_revoked();
                !open || !reads(*mode)
            }
        }
    }

    /// Somebody wants the lock. `seen` says whether whoever is fetching it has seen somebody in the
    /// way.
    pub fn join(
        &mut self,
        waiting: Waiter,
        grant: impl FnOnce(&Waiter, &Arc<L>) -> (B, O),
        conflict: impl Fn(&B) -> Conflict<L>,
        closed: impl FnOnce() -> LockError,
        seen: bool,
    ) -> (Joined<O>, Todo<L>) {
        let mut todo = Todo::default();
        if self.closed {
            return (Joined::Refused(closed()), todo);
        }
        let now = waiting.since;
        match &self.phase {
            Phase::Lingering { lease, mode, .. }
                if *mode == waiting.mode && lease.is_valid(now) && !lease.is_revoked() =>
            {
                let lease = lease.clone();
                self.turn = Turn::begin(&waiting.queue_policy.handoffs, now);
                return (Joined::Granted(self.enter(&waiting, lease, grant)), todo);
            }
            // Of another mode, or lost and so nobody's.
            Phase::Lingering { .. } => todo.release = self.renew(&mut todo),
            // Whoever still works under a lost lease is told, and deletes the node in the end; the
            // next waits in ZooKeeper's queue.
            Phase::Held { lease, .. } if !lease.is_valid(now) => drop(self.renew(&mut todo)),
            Phase::Held { lease, mode: Mode::Read }
                if waiting.mode == Mode::Read
                    && self.waiters.is_empty()
                    && self.behind != Some(true)
                    && !lease.is_revoked()
                    && self.turn.take(now) =>
            {
                let lease = lease.clone();
                return (Joined::Granted(self.enter(&waiting, lease, grant)), todo);
            }
            _ => {}
        }
        let mut own = false;
        for holder in self.in_the_way() {
            match conflict(holder) {
                Conflict::None => {}
                Conflict::Own => own = true,
                Conflict::LetGo(lease) => todo.let_go.push(lease),
            }
        }
        let readers = match &self.phase {
            Phase::Held { lease, mode: Mode::Read } if waiting.mode == Mode::Read => Some(lease),
            _ => None,
        };
        // Whoever is between waits for these readers, and so for the newcomer, who reads already.
        if let (true, Some(lease)) = (own, readers) {
            let lease = lease.clone();
            return (Joined::Granted(self.enter(&waiting, lease, grant)), todo);
        }
        let is_open = |lease: &Arc<L>| {
            self.waiters.is_empty() && self.behind != Some(true) && !lease.is_revoked()
        };
        let open = readers.filter(|lease| is_open(lease)).cloned();
        if waiting.once && open.is_none() && self.keeps_out(&waiting, seen) {
            return (Joined::Busy, todo);
        }
        self.tries |= waiting.once;
        let place = self.waiters.join(waiting);
        if matches!(self.phase, Phase::Idle) {
            todo.fetch = self.fetch();
        } else if open.is_some() && !std::mem::replace(&mut self.asking, true) {
            // The bound is reached: it stays open to newcomers only if nobody stands behind.
            todo.ask = open;
        }
        (Joined::Waits(place), todo)
    }

    /// Lets one in beside those who hold the lock already, if any.
    fn enter(
        &mut self,
        waiting: &Waiter,
        lease: Arc<L>,
        grant: impl FnOnce(&Waiter, &Arc<L>) -> (B, O),
    ) -> O {
        let (by, granted) = grant(waiting, &lease);
        self.holders.push(by);
        self.phase = Phase::Held { lease, mode: waiting.mode };
        granted
    }

    /// A waiter asks for its outcome.
    pub fn poll(&mut self, place: Place, waker: &Waker) -> Poll<Option<Outcome<O>>> {
        self.waiters.poll(place, waker)
    }

    /// Grants the lock to the first, who wants it in this mode, and of readers to all that follow.
    /// Whoever then still waits is behind somebody.
    fn grant_first(
        &mut self,
        todo: &mut Todo<L>,
        (lease, mode): (Arc<L>, Mode),
        now: Instant,
        fresh: bool,
        (grant, busy): (impl Fn(&Waiter, &Arc<L>) -> (B, O), impl Fn(&Arc<L>) -> LockError),
    ) {
        let (holders, mut begun, mut tried) = (&mut self.holders, None, Vec::new());
        let mut settle = |waiting: &Waiter| {
            begun.get_or_insert(waiting.queue_policy.handoffs);
            tried.extend(waiting.once.then_some(waiting.who));
            let (by, granted) = grant(waiting, &lease);
            holders.push(by);
            Ok(granted)
        };
        todo.wake = self.waiters.settle_first(&mut settle);
        if mode == Mode::Read {
            while self.waiters.first().is_some_and(|next| next.mode == Mode::Read) {
                todo.wake_all.extend(self.waiters.settle_first(&mut settle));
            }
        }
        if let Some(handoffs) = begun.filter(|_| fresh) {
            self.turn = Turn::begin(&handoffs, now);
        }
        self.turn_away(todo, || busy(&lease));
        self.phase = Phase::Held { lease, mode };
        // Who blocks the thread of one that only tried, and now has it, would wait for ever.
        if !tried.is_empty() {
            let stops = |other: &Waiter, _| tried.iter().any(|who| stops_waiter(&other.who, who));
            todo.wake_all.extend(self.waiters.settle_where(stops, |_| Err(stuck())));
        }
        // Readers behind one that was turned away may be next.
        self.adjust(todo);
    }

    /// A driver saw somebody in its way, and waits.
    pub fn met(&mut self, driver: u64, busy: impl Fn() -> LockError) -> Todo<L> {
        let mut todo = Todo::default();
        if matches!(self.phase, Phase::Fetching { driver: present, .. } if present == driver) {
            self.turn_away(&mut todo, busy);
            self.adjust(&mut todo);
        }
        todo
    }

    /// A driver is done. Its lease comes back to be released if nobody wants it any more.
    pub fn fetched(
        &mut self,
        driver: u64,
        result: Result<Arc<L>, LockError>,
        now: Instant,
        grant: impl Fn(&Waiter, &Arc<L>) -> (B, O),
        busy: impl Fn(&Arc<L>) -> LockError,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        let (mode, once, since) = match self.phase {
            Phase::Fetching { driver: present, mode, once, since } if present == driver => {
                (mode, once, since)
            }
            _ => {
                todo.release = result.ok();
                return todo;
            }
        };
        match result {
            Ok(lease) if self.waiters.is_empty() => {
                self.phase = Phase::Idle;
                todo.release = Some(lease);
            }
            Ok(lease) => self.grant_first(&mut todo, (lease, mode), now, true, (grant, busy)),
            Err(error) => {
                // Busy is an answer for those who asked before it, and do not wait.
                let all = !(once && error.is_busy());
                let told = |other: &Waiter, place: Place| {
                    other.mode == mode && (all || other.once && place.is_before(since))
                };
                todo.wake_all = self.waiters.settle_where(told, |_| Err(error.clone()));
                drop(self.renew(&mut todo));
            }
        }
        todo
    }

    /// A holder gave the lock back.
    pub fn release(
        &mut self,
        lease: &Arc<L>,
        is_holder: impl Fn(&B) -> bool,
        linger: Duration,
        now: Instant,
        grant: impl Fn(&Waiter, &Arc<L>) -> (B, O),
        busy: impl Fn(&Arc<L>) -> LockError,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        let mode = match &self.phase {
            Phase::Held { lease: present, mode } if Arc::ptr_eq(present, lease) => *mode,
            _ => {
                // The node keeps others out until the last who worked under it is done.
                self.lost.retain(|(_, holder)| !is_holder(holder));
                let last = !self.lost.iter().any(|(other, _)| Arc::ptr_eq(other, lease));
                todo.release = last.then(|| lease.clone());
                return todo;
            }
        };
        self.holders.retain(|holder| !is_holder(holder));
        if !self.holders.is_empty() {
            return todo;
        }
        if !lease.is_valid(now) || lease.is_revoked() {
            todo.release = self.renew(&mut todo);
        } else if let Some(next) = self.waiters.first().map(|next| next.mode) {
            let held = (lease.clone(), mode);
            if next != mode || self.behind == Some(true) && !self.turn.is_on(now) {
                todo.release = self.renew(&mut todo);
            } else if self.turn.take(now) {
                self.grant_first(&mut todo, held, now, false, (grant, busy));
            } else if self.behind == Some(false) {
                self.grant_first(&mut todo, held, now, true, (grant, busy));
            } else {
                if !std::mem::replace(&mut self.asking, true) {
                    todo.ask = Some(lease.clone());
                }
                self.phase = Phase::Asking { lease: lease.clone(), mode };
            }
        } else if linger.is_zero() || self.behind == Some(true) || self.closed {
            todo.release = self.renew(&mut todo);
        } else {
            if self.behind.is_none() {
                self.behind = Some(false);
                todo.accompany = Some(lease.clone());
            }
            self.phase = Phase::Lingering { lease: lease.clone(), mode, until: now + linger };
        }
        todo
    }

    /// It was asked whether somebody stands behind the node.
    pub fn asked(
        &mut self,
        lease: &Arc<L>,
        behind: bool,
        now: Instant,
        grant: impl Fn(&Waiter, &Arc<L>) -> (B, O),
        busy: impl Fn(&Arc<L>) -> LockError,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        if !self.phase.stands_on(lease) {
            return todo;
        }
        self.asking = false;
        let (mode, held) = match self.phase {
            Phase::Asking { mode, .. } => (mode, false),
            Phase::Held { mode, .. } => (mode, true),
            _ => return todo,
        };
        let stays = !behind && lease.is_valid(now) && !lease.is_revoked();
        let next = self.waiters.first().map(|next| next.mode);
        if held {
            // Readers hold it. Either those who came meanwhile enter, or it is closed to newcomers.
            if stays && next == Some(Mode::Read) && mode == Mode::Read {
                self.grant_first(&mut todo, (lease.clone(), mode), now, true, (grant, busy));
            } else {
                if behind {
                    self.behind = Some(true);
                }
                self.turn_away(&mut todo, || busy(lease));
            }
        } else if stays && next == Some(mode) {
            self.grant_first(&mut todo, (lease.clone(), mode), now, true, (grant, busy));
        } else {
            todo.release = self.renew(&mut todo);
        }
        todo
    }

    /// A writer steps down: the node of the lock is another from now on, held for reading by the
    /// same caller. The readers that wait next enter beside it.
    pub fn stepped_down(
        &mut self,
        (from, to): (&Arc<L>, Arc<L>),
        by: B,
        now: Instant,
        grant: impl Fn(&Waiter, &Arc<L>) -> (B, O),
        busy: impl Fn(&Arc<L>) -> LockError,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        if !matches!(self.phase, Phase::Held { .. }) || !self.phase.stands_on(from) {
            // The writer works under the other node now.
            self.lost.retain(|(lease, _)| !Arc::ptr_eq(lease, from));
            self.lost.push((to, by));
            return todo;
        }
        (self.behind, self.asking) = (None, false);
        self.holders.clear();
        self.holders.push(by);
        self.phase = Phase::Held { lease: to.clone(), mode: Mode::Read };
        if self.waiters.first().is_some_and(|next| next.mode == Mode::Read) {
            self.grant_first(&mut todo, (to, Mode::Read), now, true, (grant, busy));
        }
        todo
    }

    /// A waiter gave up. Answers an outcome that it did not take, to be dropped.
    pub fn leave(&mut self, place: Place) -> (Option<Outcome<O>>, Todo<L>) {
        let mut todo = Todo::default();
        let untaken = self.waiters.leave(place);
        self.adjust(&mut todo);
        (untaken, todo)
    }

    /// The companion of a node looked behind it.
    pub fn looked_behind(&mut self, lease: &Arc<L>, behind: bool) -> Todo<L> {
        let mut todo = Todo::default();
        if self.phase.stands_on(lease) {
            self.behind = Some(behind);
            if behind && matches!(self.phase, Phase::Lingering { .. }) {
                todo.release = self.renew(&mut todo);
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
            Phase::Lingering { lease, until, .. }
                if doubt || now >= *until || !lease.is_valid(now) || lease.is_revoked() =>
            {
                todo.release = self.renew(&mut todo);
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
            Phase::Held { lease, .. } if !lease.is_valid(now) => drop(self.renew(&mut todo)),
            Phase::Lingering { lease, .. } if !lease.is_valid(now) => {
                todo.release = self.renew(&mut todo);
            }
            _ => {}
        }
        todo
    }

    /// Nothing is granted any more: who waits fails, who lingers ends.
    pub fn close(&mut self, error: impl Fn() -> LockError) -> Todo<L> {
        let mut todo = Todo::default();
        self.closed = true;
        todo.wake_all = self.waiters.settle_all(|_| Err(error()));
        match self.phase {
            Phase::Fetching { .. } => {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    /// Ten thousand waiters have ten thousand of these.
    #[test]
    fn what_is_kept_of_a_waiter_is_small() {
        type Grant = Option<Arc<()>>;
        let bytes = Waiters::<Waiter, Outcome<Grant>>::BYTES_EACH;
        assert!(bytes <= 152, "{bytes} bytes");
    }

    #[derive(Debug)]
    struct LostNode;

    impl Lent for LostNode {
        fn is_valid(&self, _: Instant) -> bool {
            false
        }
        fn is_revoked(&self) -> bool {
            false
        }
        fn stop_at(&self) -> StopAt {
            StopAt::Lost
        }
    }

    #[test]
    fn nothing_is_kept_of_a_writer_whose_lease_was_lost_while_it_stepped_down() {
        let (now, nobody) = (Instant::ORIGIN, |_: &Waiter, _: &Arc<LostNode>| ("nobody", ()));
        let [from, to] = [(); 2].map(|()| Arc::new(LostNode));
        let mut state = State::new(false);
        state.phase = Phase::Held { lease: from.clone(), mode: Mode::Write };
        state.holders.push("the writer");
        let _ = state.leases_lost(now);
        assert_eq!(state.in_the_way().collect::<Vec<_>>(), [&"the writer"]);
        let busy = |_: &Arc<LostNode>| LockError::new(ErrorKind::Busy, "");
        let _ = state.stepped_down((&from, to.clone()), "the reader", now, nobody, busy);
        assert_eq!(state.in_the_way().collect::<Vec<_>>(), [&"the reader"]);
        let is_reader = |by: &&str| *by == "the reader";
        let todo = state.release(&to, is_reader, Duration::ZERO, now, nobody, busy);
        assert!(todo.release.is_some_and(|released| Arc::ptr_eq(&released, &to)));
        assert_eq!(state.in_the_way().count(), 0);
    }
}
