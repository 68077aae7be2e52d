//! The queue of one lock in this process.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use crate::acquire::{Obstacle, Seen, Target, acquire};
use crate::clock::Instant;
use crate::contender::Contender;
use crate::error::{ErrorKind, Holder, LockError};
use crate::lease::Lease;
use crate::local::possession::{Hold, Origin, Possession};
use crate::local::turn::{Handoffs, Turn};
use crate::local::waiters::{Place, Waiters};
use crate::owner::Owner;
use crate::session::handle::Session;
use crate::session::lane::closed;
use crate::session::releaser::Deletion;
use crate::session::shelf::{Held, Resident};
use crate::who::Who;

/// The queue of one lock in this process. It lives as long as somebody uses it.
#[derive(Debug)]
pub struct Queue {
    session: Session,
    target: Target,
    handoffs: Handoffs,
    seen: Seen,
    /// Whether others find it under its path.
    shared: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    waiters: Waiters<Waiting, Outcome>,
    phase: Phase,
    turn: Turn,
    drivers: u64,
    last_grant: Option<Instant>,
    closed: bool,
}

#[derive(Debug)]
enum Phase {
    /// No node.
    Idle,
    /// A driver is acquiring a node.
    Fetching { driver: u64, cancel: Arc<Notify> },
    /// Somebody here holds the lock.
    Held { lease: Arc<Lease>, by: Weak<Possession> },
    /// Nobody here holds the lock; it is being asked whether another process waits.
    Asking { lease: Arc<Lease> },
}

/// What is known of a waiter.
#[derive(Debug)]
struct Waiting {
    who: Who,
    since: Instant,
    /// It does not wait for anybody, only for ZooKeeper's answer.
    once: bool,
}

type Outcome = Result<Hold, LockError>;

/// What became of joining.
#[derive(Debug)]
pub enum Joined {
    /// In the queue.
    Waits(WaitInQueue),
    /// Somebody is ahead, and the caller does not wait.
    Busy,
    /// It cannot be.
    Refused(LockError),
}

/// What is to be done once the queue's lock is let go.
#[derive(Debug)]
#[must_use]
enum Next {
    Nothing,
    Wake(Option<Waker>),
    WakeAll(Vec<Waker>),
    Fetch { driver: u64, cancel: Arc<Notify>, once: bool },
    Ask(Arc<Lease>),
}

impl Queue {
    /// A queue for a lock. A `shared` one is on the session's shelf.
    pub fn new(session: Session, target: Target, handoffs: Handoffs, shared: bool) -> Arc<Self> {
        let state = State {
            waiters: Waiters::default(),
            phase: Phase::Idle,
            turn: Turn::begin(&handoffs, Instant::ORIGIN),
            drivers: 0,
            last_grant: None,
            closed: session.is_closing(),
        };
        let (seen, state) = (Seen::default(), Mutex::new(state));
        Arc::new(Queue { session, target, handoffs, seen, shared, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.session.clock().now()
    }

    /// Takes the last place.
    pub fn join(self: &Arc<Self>, who: Who, once: bool) -> Joined {
        let mut state = self.lock();
        if state.closed {
            return Joined::Refused(closed());
        }
        if let Phase::Held { lease, by } = &state.phase {
            // A lost lease is nobody's: whoever still works under it is told, and the next waits
            // in ZooKeeper's queue.
            if !lease.is_valid() {
                state.phase = Phase::Idle;
            } else if let Some(error) = by.upgrade().and_then(|holder| self.deadlock(&who, &holder))
            {
                return Joined::Refused(error);
            }
        }
        if once && !matches!(state.phase, Phase::Idle) {
            return Joined::Busy;
        }
        let place = state.waiters.join(Waiting { who, since: self.now(), once });
        let next = match state.phase {
            Phase::Idle => state.fetch(once),
            _ => Next::Nothing,
        };
        drop(state);
        self.carry_out(next);
        Joined::Waits(WaitInQueue { queue: self.clone(), place: Some(place) })
    }

    fn deadlock(&self, who: &Who, holder: &Possession) -> Option<LockError> {
        let why = if who.would_block(holder.who()) {
            "it is held on this very thread, which a blocking acquire would stop for ever; use \
             `spawn_blocking`, or the async form"
        } else if holder.is_unscoped() && who.is_same(holder.who()) {
            "this task holds it itself, through a guard outside any scope; nest by \
             `guard.scope(…)`, or call `guard.detach()` if another task or branch will release it"
        } else {
            return None;
        };
        Some(LockError::new(ErrorKind::Deadlock, why))
    }

    /// Whether somebody here was granted the lock within the last so long.
    pub fn granted_lately(&self, within: std::time::Duration) -> bool {
        let last = self.lock().last_grant;
        last.is_some_and(|last| self.now().since(last) <= within)
    }

    /// Who is in the way in ZooKeeper's queue.
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why there is no connection, as far as that is known.
    pub fn trouble(&self) -> Option<LockError> {
        self.target.lane.trouble()
    }

    fn carry_out(self: &Arc<Self>, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Wake(waker) => waker.into_iter().for_each(Waker::wake),
            Next::WakeAll(wakers) => wakers.into_iter().for_each(Waker::wake),
            Next::Fetch { driver, cancel, once } => {
                let queue = self.clone();
                self.session.spawner().spawn(async move {
                    let cancelled = async {
                        cancel.notified().await;
                        None
                    };
                    let fetched = async { Some(acquire(&queue.target, once, &queue.seen).await) };
                    let result = futures_lite::future::or(fetched, cancelled).await;
                    if let Some(result) = result {
                        queue.fetched(driver, once, result);
                    }
                });
            }
            Next::Ask(lease) => {
                let queue = self.clone();
                self.session.spawner().spawn(async move {
                    let behind = queue.is_anybody_behind(&lease).await;
                    queue.asked(&lease, behind);
                });
            }
        }
    }

    /// A driver is done.
    fn fetched(self: &Arc<Self>, driver: u64, once: bool, result: Result<Lease, LockError>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Fetching { driver: present, .. } if present == driver) {
            drop(state);
            // The lease of a driver that nobody waits for any more deletes its node.
            drop(result);
            return;
        }
        let next = match result {
            Ok(lease) => {
                state.turn = Turn::begin(&self.handoffs, self.now());
                self.grant_first(&mut state, Arc::new(lease))
            }
            Err(error) if once => {
                state.phase = Phase::Idle;
                let waker = match state.waiters.first() {
                    Some(first) if first.once => state.waiters.settle_first(|_| Err(error)),
                    _ => None,
                };
                let again =
                    if state.waiters.is_empty() { Next::Nothing } else { state.fetch(false) };
                drop(state);
                self.carry_out(Next::Wake(waker));
                return self.carry_out(again);
            }
            Err(error) => {
                state.phase = Phase::Idle;
                Next::WakeAll(state.waiters.settle_all(|_| Err(error.clone())))
            }
        };
        drop(state);
        self.carry_out(next);
    }

    /// Gives the lock to the first waiter.
    fn grant_first(self: &Arc<Self>, state: &mut State, lease: Arc<Lease>) -> Next {
        let mut by = Weak::new();
        let now = self.now();
        let waker = state.waiters.settle_first(|waiting| {
            let possession = Possession::new(self.clone(), lease.clone(), waiting.who, now);
            let possession = Arc::new(possession);
            by = Arc::downgrade(&possession);
            Ok(possession.hold())
        });
        state.last_grant = Some(now);
        state.phase = Phase::Held { lease, by };
        Next::Wake(waker)
    }

    /// Whether another contender stands behind our node. If in doubt, yes.
    async fn is_anybody_behind(&self, lease: &Lease) -> bool {
        let coordinator = lease.generation().coordinator();
        let Ok(children) = coordinator.children(self.target.directory.as_str()).await else {
            return true;
        };
        let mine = lease.path().rsplit('/').next().unwrap_or_default();
        let queue = Contender::queue(&children);
        queue.last().is_none_or(|last| last.name != mine)
    }

    fn asked(self: &Arc<Self>, lease: &Arc<Lease>, behind: bool) {
        let mut state = self.lock();
        let present =
            matches!(&state.phase, Phase::Asking { lease: asked } if Arc::ptr_eq(asked, lease));
        if !present {
            return;
        }
        let next = if state.waiters.is_empty() {
            state.phase = Phase::Idle;
            drop(lease.release());
            Next::Nothing
        } else if behind || !lease.is_valid() {
            drop(lease.release());
            state.fetch(false)
        } else {
            state.turn = Turn::begin(&self.handoffs, self.now());
            self.grant_first(&mut state, lease.clone())
        };
        drop(state);
        self.carry_out(next);
        self.session.shelf().left();
    }

    /// Gives up a place.
    fn leave(self: &Arc<Self>, place: Place) {
        let mut state = self.lock();
        let untaken = state.waiters.leave(place);
        let mut idle = false;
        if state.waiters.is_empty()
            && let Phase::Fetching { cancel, .. } = &state.phase
        {
            // The node goes with the last who wanted it.
            cancel.notify_one();
            state.phase = Phase::Idle;
            idle = true;
        }
        drop(state);
        // A grant that nobody took goes on to the next.
        drop(untaken);
        if idle {
            self.session.shelf().left();
        }
    }
}

impl State {
    fn fetch(&mut self, once: bool) -> Next {
        self.drivers += 1;
        let (driver, cancel) = (self.drivers, Arc::new(Notify::new()));
        self.phase = Phase::Fetching { driver, cancel: cancel.clone() };
        Next::Fetch { driver, cancel, once }
    }
}

impl Origin for Queue {
    fn session(&self) -> &Session {
        &self.session
    }

    fn lock_name(&self) -> &Arc<str> {
        &self.target.lock
    }

    fn path(&self) -> &str {
        self.target.directory.as_str()
    }

    fn holder_here(&self) -> Option<Holder> {
        let state = self.lock();
        let Phase::Held { lease, .. } = &state.phase else { return None };
        let node = lease.path().rsplit('/').next().unwrap_or_default().to_owned();
        let owner = Owner::here(self.session.app());
        lease.is_valid().then(|| Holder { owner, node, ahead: 1 + state.waiters.len() })
    }

    fn release(self: Arc<Self>, possession: &Possession) -> Option<Deletion> {
        let lease = possession.lease();
        let mut state = self.lock();
        let present = match &state.phase {
            Phase::Held { lease: held, .. } => Arc::ptr_eq(held, lease),
            _ => false,
        };
        if !present {
            drop(state);
            return lease.release();
        }
        if state.waiters.is_empty() {
            state.phase = Phase::Idle;
            drop(state);
            let deletion = lease.release();
            self.session.shelf().left();
            return deletion;
        }
        let next = if !lease.is_valid() {
            // The deletion goes out before the new node's creation.
            drop(lease.release());
            state.fetch(false)
        } else if state.turn.take(self.now()) {
            self.grant_first(&mut state, lease.clone())
        } else {
            state.phase = Phase::Asking { lease: lease.clone() };
            Next::Ask(lease.clone())
        };
        drop(state);
        self.carry_out(next);
        None
    }
}

impl Resident for Queue {
    fn held(&self) -> Vec<Held> {
        let (state, now) = (self.lock(), self.now());
        let lock = &self.target.lock;
        let holder = match &state.phase {
            Phase::Held { by, .. } => by.upgrade(),
            _ => None,
        };
        let holder = holder.map(|by| Held::new(lock.clone(), true, now.since(by.since())));
        let waiting = |waiting: &Waiting| Held::new(lock.clone(), false, now.since(waiting.since));
        holder.into_iter().chain(state.waiters.iter().map(waiting)).collect()
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        if let Phase::Fetching { cancel, .. } = &state.phase {
            cancel.notify_one();
            state.phase = Phase::Idle;
        }
        let error = closed().on(self.target.lock.clone());
        let wakers = state.waiters.settle_all(|_| Err(error.clone()));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.session.shelf().left();
    }

    fn leases_lost(self: Arc<Self>) {
        let mut state = self.lock();
        let lost = matches!(&state.phase, Phase::Held { lease, .. } if !lease.is_valid());
        if !lost {
            return;
        }
        let next = if state.waiters.is_empty() {
            state.phase = Phase::Idle;
            Next::Nothing
        } else {
            state.fetch(false)
        };
        drop(state);
        self.carry_out(next);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.shared {
            self.session.shelf().forget(self.target.directory.as_str());
        }
    }
}

/// A place in the queue, as a future of its outcome. Dropped, it gives the place up.
#[derive(Debug)]
pub struct WaitInQueue {
    queue: Arc<Queue>,
    place: Option<Place>,
}

impl Future for WaitInQueue {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let Some(place) = self.place else { return Poll::Pending };
        let polled = self.queue.lock().waiters.poll(place, cx.waker());
        let Poll::Ready(outcome) = polled else { return Poll::Pending };
        self.place = None;
        Poll::Ready(outcome.unwrap_or_else(|| Err(closed())))
    }
}

impl Drop for WaitInQueue {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.queue.leave(place);
        }
    }
}
