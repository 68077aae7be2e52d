//! The state of a local queue: all decisions, without effects.
//!
//! Each method takes what happened, and returns what is [to be done](Todo) once the queue is
//! unlocked. Leases and grants are type parameters, so that the decisions can be tested alone.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::policy::{Handoffs, StopAt};
use crate::local::itself::{is_stuck, stops_waiter, stuck};
use crate::local::turn::Turn;
use crate::local::waiters::{Outcome, Place, Ticket, Waiters};

/// What the state needs to know about a lease.
pub trait Lent {
    /// Whether it is certainly held now.
    fn is_valid(&self, now: Instant) -> bool;

    /// Whether somebody asked for its release. Then it is not handed on.
    fn is_revoked(&self) -> bool;

    /// When it counts as lost.
    fn stop_at(&self) -> StopAt;
}

/// How a waiter wants the lock to be treated while it holds it and afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePolicy {
    /// How long tasks may pass it to each other.
    pub handoffs: Handoffs,
    /// How long the node is kept after the last release; zero for not at all.
    pub linger: Duration,
    /// When the lease counts as lost. The same for all in one queue.
    pub stop_at: StopAt,
}

/// What is known of a waiter.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The task or thread.
    pub who: Caller,
    /// The mode.
    pub mode: Mode,
    /// Since when it waits.
    pub since: Instant,
    /// Whether it waits for ZooKeeper's reply only, and not for other contenders.
    pub once: bool,
    /// Its policy.
    pub queue_policy: QueuePolicy,
    /// Its label.
    pub label: Option<Arc<str>>,
    /// The number of callers of this process that were ahead when it came.
    pub ahead: u32,
}

/// The state of the lock in this process.
#[derive(Debug)]
pub enum Phase<L> {
    /// No node.
    Idle,
    /// A driver is acquiring a node.
    Fetching {
        /// The number of the driver.
        driver: u64,
        /// The mode.
        mode: Mode,
        /// Whether it waits for ZooKeeper's reply only.
        once: bool,
        /// Waiters from this number on came while it was running: its reply may be older than their
        /// call.
        since: Ticket,
    },
    /// A caller of this process holds the lock, or several readers do.
    Held {
        /// The node.
        lease: Arc<L>,
        /// The mode.
        mode: Mode,
    },
    /// No caller of this process holds the lock; a request finds out whether another process waits.
    Asking {
        /// The node.
        lease: Arc<L>,
        /// The mode in which it is held.
        mode: Mode,
    },
    /// No caller of this process wants the lock; the node is kept for a while.
    Lingering {
        /// The node.
        lease: Arc<L>,
        /// The mode in which it is held.
        mode: Mode,
        /// Until when it is kept.
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

/// A driver to be started: an attempt to acquire a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Its number.
    pub driver: u64,
    /// Whether it waits for ZooKeeper's reply only, and not for other contenders.
    pub once: bool,
    /// The mode.
    pub mode: Mode,
}

/// What is to be done, in this order.
#[derive(Debug)]
#[must_use]
pub struct Todo<L> {
    /// Delete the node.
    pub release: Option<Arc<L>>,
    /// Delete the nodes of these leases as well, which were lost and are only in the way.
    pub let_go: Vec<Arc<L>>,
    /// Stop the running driver.
    pub cancel: bool,
    /// Start a driver.
    pub fetch: Option<Fetch>,
    /// Ask whether a contender is behind the node.
    pub ask: Option<Arc<L>>,
    /// Watch for contenders behind the node from now on.
    pub accompany: Option<Arc<L>>,
    /// These only tried, and hold the lock now in this mode.
    pub tried: Vec<(Caller, Mode)>,
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
            tried: Vec::new(),
        }
    }
}

impl<L> Todo<L> {
    /// Whether there is nothing to do but to wake waiters: most often, this is all.
    pub fn only_wakes(&self) -> bool {
        let Todo { release, let_go, cancel, fetch, ask, accompany, tried, wake: _, wake_all: _ } =
            self;
        let leases = release.is_some() || ask.is_some() || accompany.is_some();
        !(leases || *cancel || fetch.is_some() || !let_go.is_empty() || !tried.is_empty())
    }
}

/// What a holder means for a newcomer.
#[derive(Debug)]
pub enum Conflict<L> {
    /// It has to be waited for.
    None,
    /// The newcomer holds it itself, and must not wait for those that wait for it.
    Own,
    /// The holder is the newcomer itself, which lost this lease and starts over.
    LetGo(Arc<L>),
}

/// The result of joining.
#[derive(Debug)]
pub enum Joined<O> {
    /// The lock was free.
    Granted(O),
    /// In the queue.
    Waits(Place),
    /// Somebody is ahead, and the caller does not wait.
    Busy,
    /// The request is refused.
    Refused(LockError),
}

/// The state of a local queue. `L` is a lease, `B` a holder, `O` a grant.
///
/// A node is held in one mode. Callers of the same mode can be handed it: the next mutex or writer
/// alone, readers together. For another mode the node is deleted, and a new one is acquired.
#[derive(Debug)]
pub struct State<L, B, O> {
    waiters: Waiters<Waiter, Outcome<O>>,
    phase: Phase<L>,
    /// The holder, or several readers.
    holders: Vec<B>,
    /// Those who held it when the lease was lost, and have not given it back.
    lost: Vec<(Arc<L>, B)>,
    turn: Turn,
    drivers: u64,
    /// Whether a contender is behind the node; known only from a companion that watches, or after it
    /// was asked because of newcomers among readers.
    behind: Option<bool>,
    /// Whether the node has a companion.
    accompanied: bool,
    /// Whether it is being asked while readers hold the lock.
    asking: bool,
    /// Whether some waiter waits for ZooKeeper's reply only.
    tries: bool,
    closed: bool,
}

impl<L: Lent, B, O> State<L, B, O> {
    /// No holders and no waiters.
    pub fn new(closed: bool) -> Self {
        State {
            waiters: Waiters::default(),
            phase: Phase::Idle,
            holders: Vec::new(),
            lost: Vec::new(),
            turn: Turn::begin(&Handoffs::NONE, Instant::ORIGIN),
            drivers: 0,
            behind: None,
            accompanied: false,
            asking: false,
            tries: false,
            closed,
        }
    }

    /// The state of the lock.
    pub fn phase(&self) -> &Phase<L> {
        &self.phase
    }

    /// The holders.
    pub fn holders(&self) -> impl Iterator<Item = &B> {
        self.holders.iter()
    }

    /// The holders, and those who lost the lock and have not given it back.
    pub fn in_the_way(&self) -> impl Iterator<Item = &B> {
        self.holders.iter().chain(self.lost.iter().map(|(_, by)| by))
    }

    /// Whether nobody else has the lock: it is held by this process, and not for reading.
    pub fn excludes_others(&self) -> bool {
        match &self.phase {
            Phase::Idle | Phase::Fetching { .. } => false,
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

    /// The waiters, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.iter()
    }

    /// The number of waiters ahead of the one in a place, or of a newcomer.
    pub fn ahead_of(&self, place: Option<Place>) -> usize {
        place.map_or(self.waiters.len(), |place| self.waiters.ahead_of(place))
    }

    /// The number of waiters.
    pub fn waiting_count(&self) -> usize {
        self.waiters.len()
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether some waiter waits for ZooKeeper's reply only.
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

    /// No node and nobody behind it any more. A node is acquired for the waiters, if any: while
    /// somebody waits, something is always in progress.
    fn renew(&mut self, todo: &mut Todo<L>) -> Option<Arc<L>> {
        (self.behind, self.accompanied, self.asking) = (None, false, false);
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

    /// Tells callers that do not wait that somebody is in the way.
    fn turn_away(&mut self, todo: &mut Todo<L>, busy: impl Fn() -> LockError) {
        if std::mem::take(&mut self.tries) {
            todo.wake_all.extend(self.waiters.settle_where(|other, _| other.once, |_| Err(busy())));
        }
    }

    /// After some waiters left: a running driver is for the first one, or for nobody, and readers
    /// that are first now may enter beside others.
    fn adjust(&mut self, todo: &mut Todo<L>) {
        let next = self.waiters.first().map(|next| next.mode);
        match &self.phase {
            // The driver's node is deleted with the last caller that wanted it.
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

    /// Whether a caller of this process certainly keeps a newcomer out. If not, ZooKeeper's reply
    /// is pending, and may grant the lock to the newcomer as well. `seen` says whether the running
    /// driver has seen somebody in the way.
    fn keeps_out(&self, newcomer: &Waiter, seen: bool) -> bool {
        let reads = |mode: Mode| {
            (newcomer.mode, mode) == (Mode::Read, Mode::Read)
                && self.waiters.iter().all(|other| other.mode == Mode::Read)
        };
        match &self.phase {
            Phase::Idle | Phase::Lingering { .. } => false,
            Phase::Fetching { .. } => seen,
            // Who was to have it next may have given up.
            Phase::Asking { lease, mode } => {
                !self.waiters.is_empty() && lease.is_valid(newcomer.since) && !reads(*mode)
            }
            Phase::Held { lease, mode } => {
                let open = self.asking && self.behind != Some(true) && !lease.is_revoked();
                !open || !reads(*mode)
            }
        }
    }

    /// A caller wants the lock. `seen` says whether the running driver has seen somebody in the
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
            // The answer may come only when the connection is back.
            Phase::Asking { lease, .. } if !lease.is_valid(now) => {
                todo.release = self.renew(&mut todo);
            }
            // A caller that still works under a lost lease was told, and deletes the node in the
            // end; the next one waits in ZooKeeper's queue.
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
        // Those between wait for these readers, and so for the newcomer, which reads already.
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
        let ahead = u32::try_from(self.waiters.len() + self.holders.len()).unwrap_or(u32::MAX);
        let place = self.waiters.join(Waiter { ahead, ..waiting });
        if matches!(self.phase, Phase::Idle) {
            todo.fetch = self.fetch();
        } else if open.is_some() && !std::mem::replace(&mut self.asking, true) {
            // The limit is reached: the node stays open to newcomers only if nobody is behind it.
            todo.ask = open;
        }
        (Joined::Waits(place), todo)
    }

    /// Lets a waiter in beside those that hold the lock already, if any.
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

    /// Grants the lock to the first waiter of this mode; of readers, to all that follow. Waiters
    /// that remain are behind somebody.
    fn grant_first(
        &mut self,
        todo: &mut Todo<L>,
        (lease, mode): (Arc<L>, Mode),
        now: Instant,
        fresh: bool,
        (grant, busy): (impl Fn(&Waiter, &Arc<L>) -> (B, O), impl Fn(&Arc<L>) -> LockError),
    ) {
        let (holders, mut begun, tried) = (&mut self.holders, None, &mut todo.tried);
        let mut settle = |waiting: &Waiter| {
            begun.get_or_insert(waiting.queue_policy.handoffs);
            tried.extend(waiting.once.then_some((waiting.who, mode)));
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
        // If it blocked the thread of one that only tried and now holds the lock, it would wait for
        // ever.
        if !todo.tried.is_empty() {
            let tried = &todo.tried;
            let stops =
                |other: &Waiter, _| tried.iter().any(|(who, _)| stops_waiter(&other.who, who));
            todo.wake_all.extend(self.waiters.settle_where(stops, |_| Err(stuck())));
        }
        // Readers behind one that was refused may be next.
        self.adjust(todo);
    }

    /// These hold the lock through another queue, after a try. A waiter that blocks the thread of one
    /// of them would wait for ever.
    pub fn refuse_behind(&mut self, tried: &[(Caller, Mode)]) -> Todo<L> {
        let mut todo = Todo::default();
        let waits = |other: &Waiter, _| {
            let stops = |(who, mode): &(Caller, Mode)| (*mode, stops_waiter(&other.who, who));
            is_stuck(other.mode, tried.iter().map(stops))
        };
        todo.wake_all = self.waiters.settle_where(waits, |_| Err(stuck()));
        self.adjust(&mut todo);
        todo
    }

    /// Whether this driver is running.
    pub fn is_fetching(&self, driver: u64) -> bool {
        matches!(self.phase, Phase::Fetching { driver: present, .. } if present == driver)
    }

    /// A driver saw somebody in its way, and waits.
    pub fn met(&mut self, driver: u64, busy: impl Fn() -> LockError) -> Todo<L> {
        let mut todo = Todo::default();
        if self.is_fetching(driver) {
            self.turn_away(&mut todo, busy);
            self.adjust(&mut todo);
        }
        todo
    }

    /// A driver is done. Its lease is returned to be released if nobody wants it any more.
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
                // The busy error is for those that asked before it, and do not wait.
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
                // The node keeps others out until the last caller that worked under it is done.
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
            if !std::mem::replace(&mut self.accompanied, true) {
                todo.accompany = Some(lease.clone());
            }
            self.phase = Phase::Lingering { lease: lease.clone(), mode, until: now + linger };
        }
        todo
    }

    /// Whether to ask again whether a contender is behind the node, if nobody replied: readers hold it,
    /// and a reader that waits to enter beside them must not be told that it is busy.
    pub fn asks_again(&self, lease: &Arc<L>) -> bool {
        self.asking && matches!(self.phase, Phase::Held { .. }) && self.phase.stands_on(lease)
    }

    /// The reply whether a contender is behind the node.
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
            // Readers hold it. Either those that came meanwhile enter, or the node is closed to
            // newcomers.
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

    /// A writer was downgraded: the lock has a new node, held for reading by the same caller. The
    /// readers that wait next enter beside it.
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
            // The writer continues under the new node.
            self.lost.retain(|(lease, _)| !Arc::ptr_eq(lease, from));
            self.lost.push((to, by));
            return todo;
        }
        (self.behind, self.accompanied, self.asking) = (None, false, false);
        self.holders.clear();
        self.holders.push(by);
        self.phase = Phase::Held { lease: to.clone(), mode: Mode::Read };
        if self.waiters.first().is_some_and(|next| next.mode == Mode::Read) {
            self.grant_first(&mut todo, (to, Mode::Read), now, true, (grant, busy));
        }
        todo
    }

    /// The waiter in a place, unless it has an outcome.
    pub fn waiter(&self, place: Place) -> Option<&Waiter> {
        self.waiters.up_to(place).map(|(waiter, _)| waiter)
    }

    /// A waiter gave up. Returns an outcome that it did not take, to be dropped.
    pub fn leave(&mut self, place: Place) -> (Option<Outcome<O>>, Todo<L>) {
        let mut todo = Todo::default();
        let untaken = self.waiters.leave(place);
        self.adjust(&mut todo);
        (untaken, todo)
    }

    /// The companion of a node has looked behind it; `None` if nobody replied.
    pub fn looked_behind(&mut self, lease: &Arc<L>, behind: Option<bool>) -> Todo<L> {
        let mut todo = Todo::default();
        if self.phase.stands_on(lease) {
            self.behind = behind;
            if behind == Some(true) && matches!(self.phase, Phase::Lingering { .. }) {
                todo.release = self.renew(&mut todo);
            }
        }
        todo
    }

    /// The companion of a node asks whether it should continue, and until when to sleep. `doubt`
    /// ends the lingering.
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
            Phase::Lingering { lease, .. } | Phase::Asking { lease, .. }
                if !lease.is_valid(now) =>
            {
                todo.release = self.renew(&mut todo);
            }
            _ => {}
        }
        todo
    }

    /// Closes the queue: waiters fail, and lingering ends.
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

    #[derive(Debug)]
    struct KeptNode;

    impl Lent for KeptNode {
        fn is_valid(&self, _: Instant) -> bool {
            true
        }
        fn is_revoked(&self) -> bool {
            false
        }
        fn stop_at(&self) -> StopAt {
            StopAt::Lost
        }
    }

    /// While the connection is down, the answer to its question does not come.
    #[test]
    fn who_asks_on_a_lost_lease_does_not_keep_the_others_waiting() {
        let now = Instant::ORIGIN;
        let nobody = |_: &Waiter, _: &Arc<LostNode>| ("nobody", ());
        let waiter = || {
            let (who, queue_policy) = (Caller::thread(), QueuePolicy::default());
            let (mode, since, once, label, ahead) = (Mode::Mutex, now, false, None, 0);
            Waiter { who, mode, since, once, queue_policy, label, ahead }
        };
        let conflict = |_: &&str| Conflict::None;
        let closed = || LockError::new(ErrorKind::Closing, "");
        for comes_later in [false, true] {
            let node = Arc::new(LostNode);
            let mut state = State::new(false);
            let asking = Phase::Asking { lease: node.clone(), mode: Mode::Mutex };
            let todo = if comes_later {
                state.phase = asking;
                state.join(waiter(), nobody, conflict, closed, false).1
            } else {
                drop(state.join(waiter(), nobody, conflict, closed, false));
                state.phase = asking;
                state.leases_lost(now)
            };
            assert!(todo.fetch.is_some() && todo.release.is_some(), "{comes_later}");
            let busy = |_: &Arc<LostNode>| LockError::new(ErrorKind::Busy, "");
            let late = state.asked(&node, false, now, nobody, busy);
            assert!(late.fetch.is_none() && late.release.is_none() && late.wake.is_none());
        }
    }

    const WITHIN: Duration = Duration::from_millis(500);
    const HOLD: Duration = Duration::from_millis(5);
    const ANSWER: Duration = Duration::from_millis(40);

    /// What happens to those who want the lock all the time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Step {
        Join(u32),
        LetGo(u32, u32),
        Answered(bool),
    }

    /// When this process lets go of a node that six of its callers want all the time, if a node of
    /// another process is behind it from `rival` on; and how many grants there are meanwhile.
    fn lets_go(mode: Mode, handoffs: Handoffs, rival: Instant) -> (Instant, u32) {
        let queue_policy = QueuePolicy { handoffs, ..QueuePolicy::default() };
        let [numbers, before] = [(); 2].map(|()| std::cell::Cell::new(0));
        let grant = |_: &Waiter, _: &Arc<KeptNode>| {
            numbers.set(numbers.get() + 1);
            (numbers.get(), numbers.get())
        };
        let busy = |_: &Arc<KeptNode>| LockError::new(ErrorKind::Busy, "");
        let closed = || LockError::new(ErrorKind::Closing, "");
        let node = Arc::new(KeptNode);
        let mut state = State::new(false);
        let (mut steps, mut places) = (std::collections::BTreeSet::new(), Vec::new());
        for caller in 0..6 {
            let at = Instant::ORIGIN + Duration::from_millis(caller.into());
            steps.insert((at, Step::Join(caller)));
        }
        loop {
            let (now, step) = steps.pop_first().unwrap();
            if now < rival {
                before.set(numbers.get());
            }
            let mut todo = match step {
                Step::Join(caller) => {
                    let (who, since) = (Caller::thread(), now);
                    let (once, label, ahead) = (false, None, 0);
                    let waiter = Waiter { who, mode, since, once, queue_policy, label, ahead };
                    let (joined, todo) =
                        state.join(waiter, grant, |_: &u32| Conflict::None, closed, false);
                    match joined {
                        Joined::Granted(number) => {
                            steps.insert((now + HOLD, Step::LetGo(caller, number)));
                        }
                        Joined::Waits(place) => places.push((caller, place)),
                        other => panic!("{other:?}"),
                    }
                    todo
                }
                Step::LetGo(caller, number) => {
                    steps.insert((now, Step::Join(caller)));
                    let is_it = |by: &u32| *by == number;
                    state.release(&node, is_it, Duration::ZERO, now, grant, busy)
                }
                Step::Answered(behind) => state.asked(&node, behind, now, grant, busy),
            };
            if let Some(fetch) = todo.fetch.take().filter(|_| todo.release.is_none()) {
                todo = state.fetched(fetch.driver, Ok(node.clone()), now, grant, busy);
            }
            if todo.release.is_some() {
                return (now, numbers.get() - before.get());
            }
            if todo.ask.is_some() {
                // It is behind the node if the server knows of it when the question arrives.
                let behind = rival <= now + ANSWER / 2;
                steps.insert((now + ANSWER, Step::Answered(behind)));
            }
            places.retain(|(caller, place)| match state.poll(*place, Waker::noop()) {
                Poll::Ready(granted) => {
                    let number = granted.unwrap().unwrap();
                    steps.insert((now + HOLD, Step::LetGo(*caller, number)));
                    false
                }
                Poll::Pending => true,
            });
        }
    }

    #[test]
    fn another_process_waits_for_one_turn_and_two_answers() {
        // Of a question that arrives just before it the answer is under way, and begins a turn; at
        // the end of that turn, another question is asked.
        let most = ANSWER / 2 + WITHIN + ANSWER + 2 * HOLD;
        let handoffs = Handoffs { most: u32::MAX, within: WITHIN };
        for mode in [Mode::Mutex, Mode::Write, Mode::Read] {
            let mut longest = Duration::ZERO;
            for millis in 0..1_700 {
                let rival = Instant::ORIGIN + Duration::from_millis(millis);
                longest = longest.max(lets_go(mode, handoffs, rival).0.since(rival));
            }
            assert!(longest <= most && longest > WITHIN, "{mode:?}: {longest:?}");
        }
    }

    #[test]
    fn another_process_waits_for_so_many_and_one_and_two_answers() {
        for mode in [Mode::Mutex, Mode::Write, Mode::Read] {
            for most in [0, 1, 3, 40] {
                let handoffs = Handoffs { most, within: Duration::from_secs(60) };
                let (mut longest, mut passed) = (Duration::ZERO, 0);
                for millis in (600..1_000).step_by(3) {
                    let rival = Instant::ORIGIN + Duration::from_millis(millis);
                    let (at, grants) = lets_go(mode, handoffs, rival);
                    (longest, passed) = (longest.max(at.since(rival)), passed.max(grants));
                }
                let promised = ANSWER / 2 + (most + 1) * HOLD + ANSWER + HOLD;
                assert!(longest <= promised, "{mode:?}, {most}: {longest:?}");
                // With a handoff, all readers that wait enter.
                let readers = if mode == Mode::Read { 6 } else { 1 };
                assert!(passed <= (most + 1) * readers, "{mode:?}, {most}: {passed}");
            }
        }
    }
}
