//! The queue of a semaphore in this process.

use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_lite::future::or;

use crate::acquire::lease::Lease;
use crate::acquire::seen::{Asked, Seen};
use crate::acquire::send_order::SendTurn;
use crate::acquire::target::Target;
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::layout::driver::LockDriver;
use crate::local::callers::Decides;
use crate::local::grant::{Grant, GrantSource, Hold, Sole, SteppingDown};
use crate::local::itself::{self, Perhaps, stops_holder, stops_owner, stops_waiter};
use crate::local::limit::{Limit, LimitSource};
use crate::local::permits::{PermitRequest, State};
use crate::local::queue::{Engine, InQueue, Joined, Queue, busy};
use crate::local::singles::{InOrder, those};
use crate::local::todo::{Fetch, Joined as Decided};
use crate::local::waiter::Waiter;
use crate::local::waiters::Place;
use crate::session::handle::Session;
use crate::session::lane::{LanePermit, closed};

mod obstacles;
mod stuck;
mod taking;

/// The queue of a semaphore.
pub type PermitQueue = Queue<Permits>;

/// The nodes of a semaphore in ZooKeeper.
#[derive(Debug)]
pub struct Targets {
    /// The mutex under which permits are taken.
    pub locks: Target,
    /// The directory of the permits.
    pub leases: Target,
    /// Whether a node is created only if there is room for it.
    pub counts_first: bool,
}

/// What is peculiar to it.
#[derive(Debug)]
pub struct Permits {
    targets: Targets,
    limit: Limit,
    /// Each handle has a clone.
    handles: Arc<()>,
    used: AtomicBool,
}

/// A user's reference to a queue. A task that is about to end refers to the queue itself.
#[derive(Clone, Debug)]
pub struct Handle(Arc<PermitQueue>, #[allow(dead_code, reason = "it is counted")] Arc<()>);

impl Handle {
    /// Is not counted any more: nobody will acquire anything by it.
    pub fn let_go(&mut self) {
        self.1 = Arc::default();
    }
}

impl Deref for Handle {
    type Target = Arc<PermitQueue>;

    fn deref(&self) -> &Arc<PermitQueue> {
        &self.0
    }
}

/// What is in the way of a driver.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// In the queue of the inner lock.
    locks: Seen,
    /// Among the permits.
    leases: Seen,
}

impl AsRef<Seen> for Looks {
    /// That of the inner lock, which stops the driver.
    fn as_ref(&self) -> &Seen {
        &self.locks
    }
}

impl Queue<Permits> {
    /// A queue for a semaphore, with this key among the session's local queues.
    pub fn of_permits(
        session: &Session,
        targets: Targets,
        limit: Limit,
        key: Arc<str>,
    ) -> Arc<Self> {
        let (handles, used) = (Arc::new(()), AtomicBool::new(false));
        Queue::new(session, Permits { targets, limit, handles, used }, key)
    }

    /// A handle.
    pub fn handle(self: &Arc<Self>) -> Handle {
        Handle(self.clone(), self.engine().handles.clone())
    }

    /// Whether somebody has a handle, has permits, which may be lost, or waits for some.
    pub fn is_wanted(&self) -> bool {
        let has_users = || {
            let state = &self.lock().state;
            !state.waiters.is_empty() || state.holders().any(|by| by.strong_count() > 0)
        };
        Arc::strong_count(&self.engine().handles) > 1 || has_users() || self.singles().is_held()
    }

    /// The holders of permits in this session, through all queues.
    fn holders(self: &Arc<Self>) -> Vec<Arc<Grant>> {
        self.holders_where(|_| true)
    }

    /// Those of whom this is so.
    fn holders_where(self: &Arc<Self>, so: impl Fn(&Grant) -> bool) -> Vec<Arc<Grant>> {
        let mut ended = Vec::new();
        let mut held = those(self.main().lock().state.holders(), &so, &mut ended);
        held.extend(self.singles().holders_where(so));
        #[cfg(test)]
        tests::KEPT.set(tests::KEPT.get() + held.len());
        held
    }

    /// Sets whether a caller is about to take permits, and returns the earlier value: a handle
    /// alone may have been created on the way to one with another layout.
    pub fn use_it(&self, used: bool) -> bool {
        self.engine().used.swap(used, Ordering::SeqCst)
    }

    /// The layout of the inner lock.
    pub fn inner_layout(&self) -> &Arc<dyn LockDriver> {
        &self.engine().targets.locks.driver
    }

    /// Whether permits were taken, or are about to be.
    pub fn is_used(&self) -> bool {
        self.engine().used.load(Ordering::SeqCst)
    }

    /// The limit.
    pub fn limit(&self) -> &Limit {
        &self.engine().limit
    }

    /// Whether the limit stays the same. A limit in a node may be raised meanwhile.
    fn is_fixed(&self) -> bool {
        !matches!(self.limit().source, LimitSource::Node(..))
    }

    /// Whether a caller that wants this number of permits waits for the holders of the others.
    fn is_too_much(&self, held: u64, wanted: u32) -> bool {
        let limit = u64::from(self.limit().now());
        held > 0 && limit > 0 && held + u64::from(wanted) > limit
    }

    /// Describes the permits that the caller holds itself.
    fn perhaps(self: &Arc<Self>, own: &[Arc<Grant>]) -> Perhaps {
        let own: Vec<_> = own.iter().map(Arc::downgrade).collect();
        let (queue, clock) = (Arc::downgrade(self), self.session().clock().clone());
        Perhaps::new(clock, self.lock_name().clone(), move || {
            let own: Vec<_> = own.iter().filter_map(Weak::upgrade).collect();
            let own: Vec<_> = own.iter().filter(|by| by.kept_by(|_| true).is_some()).collect();
            let (held, limit) = (sum(own.iter().copied()), queue.upgrade()?.limit().now());
            let who = own.first()?.kept_by(|_| true)?;
            Some(format!("{who} holds {held} of {limit} permits itself, outside of any scope"))
        })
    }
}

impl Engine for Permits {
    type Wants = PermitRequest;
    type State = State<Lease, Weak<Grant>, Hold>;
    type Looks = Looks;
    type Fetched = Vec<Arc<Lease>>;

    const IS_SEMAPHORE: bool = true;

    fn target(&self) -> &Target {
        &self.targets.leases
    }

    fn mode(_: &PermitRequest) -> Mode {
        Mode::Permit
    }

    fn seen(looks: &Looks) -> &Seen {
        &looks.leases
    }

    fn take_place(
        queue: &Arc<PermitQueue>,
        waiting: Waiter<PermitRequest>,
        is_own: impl Fn(&Caller) -> bool,
    ) -> InQueue<Permits> {
        let (who, permits, once) = (waiting.who, waiting.wants.permits, waiting.once);
        let may_stop = who.is_blocking() && !once;
        // There may be hundreds of holders, of whom most often none is the caller.
        let is_caller = |other: &Caller| who.is_same(other) || is_own(other);
        let matters =
            |by: &Grant| by.kept_by(is_caller).is_some() || may_stop && stops_owner(&who, by);
        let mut held = queue.holders_where(matters);
        itself::let_go(&who, &mut held);
        let mut inner = queue.lock();
        let seen = once && inner.looks().is_some_and(|looks| looks.leases.is_known());
        let (decided, todo) = inner.state.join(&waiting, closed, seen);
        let looks = inner.looks().filter(|_| once || may_stop).cloned();
        let may_stop = may_stop && matches!(decided, Decided::Waits(_));
        let mut stopped = 0;
        if may_stop {
            stopped = sum(held.iter().filter(|by| stops_holder(&who, by)));
            let before = inner.state.waiting().take(inner.state.waiters.len() - 1);
            stopped += needed(before, &who);
        }
        drop(queue.carry_out(inner, todo));
        if let Some(looks) = looks {
            // An embedded session runs a woken task on the spot, and that task locks the queue.
            looks.locks.look_again();
            if may_stop {
                // Whoever is in the way may be one that this caller stops.
                looks.leases.look_again();
            }
        }
        let joined = queue.joined(decided);
        if matches!(joined, Joined::Refused(_)) {
            return (joined, None);
        }
        if may_stop {
            // Of another queue, those behind the first come to ZooKeeper later.
            let first =
                |other: Arc<PermitQueue>| needed(other.lock().state.waiting().take(1), &who);
            stopped += queue.queues_beside().map(first).sum::<u64>();
            if queue.is_fixed() && queue.is_too_much(stopped, permits) {
                joined.give_up();
                return (queue.refuse(itself::stuck()), None);
            }
        }
        let mut own = held;
        own.retain(|by| by.kept_by(&is_own).is_some());
        let perhaps = queue.is_too_much(sum(own.iter()), permits).then(|| queue.perhaps(&own));
        (joined, perhaps)
    }

    fn acquire<'a>(
        queue: &'a PermitQueue,
        with: (&'a LanePermit, Option<&'a SendTurn>),
        fetch: &'a Fetch<PermitRequest>,
        looks: &'a Looks,
    ) -> impl Future<Output = Result<Vec<Arc<Lease>>, LockError>> + Send {
        queue.take_together(with, fetch, looks)
    }

    fn tell<T: Send>(
        queue: &Arc<PermitQueue>,
        fetch: &Fetch<PermitRequest>,
        looks: &Looks,
        place: Option<InOrder>,
    ) -> impl Future<Output = T> + Send {
        let holders = queue.tell_of_holders(fetch, &looks.leases);
        or(holders, queue.tell_of_others(fetch, &looks.locks, place))
    }

    /// It cannot release them, so that a waiter may wait for ever.
    fn refuse_stuck(queue: &Arc<PermitQueue>, _: &[(Caller, PermitRequest)]) {
        if !queue.is_fixed() {
            return;
        }
        let held = queue.holders();
        let is_stuck = |waiting: &Waiter<PermitRequest>| {
            let stopped = held.iter().filter(|by| stops_holder(&waiting.who, by));
            !waiting.once && queue.is_too_much(sum(stopped), waiting.wants.permits)
        };
        for queue in queue.queues_beside().chain([queue.clone()]) {
            drop(queue.decide(|state| state.refuse(is_stuck, itself::stuck)));
        }
    }

    fn holder_here(
        queue: &PermitQueue,
        state: &Self::State,
        place: Option<Place>,
        now: Instant,
    ) -> Option<(Arc<Lease>, Option<Arc<Grant>>)> {
        let mut held: Vec<_> = state.holders().filter_map(Weak::upgrade).collect();
        held.retain(|by| by.is_leased_at(now));
        let by = held.first()?;
        let wanted = match place {
            Some(place) => state.needed(place)?,
            // A newcomer wants one at least.
            None => 1,
        };
        // Only ZooKeeper knows whether there are others, and whether a limit in a node was raised.
        let is_full = queue.is_fixed() && queue.is_too_much(sum(held.iter()), wanted);
        is_full.then(|| (by.lease.clone(), Some(by.clone())))
    }

    async fn ask(queue: &PermitQueue, until: Instant) -> Asked {
        let fetching = {
            let inner = queue.lock();
            inner.looks().cloned().zip(inner.state.fetching().map(|by| by.wants.permits as usize))
        };
        let Some((looks, permits)) = fetching else { return Asked::Nobody };
        if looks.leases.get().is_some() {
            return looks.leases.ask(until).await;
        }
        let Some(other) = looks.locks.get() else { return Asked::Unknown };
        match queue.find_holder(&other, permits).await {
            Ok(Some((_, busy))) => Asked::Busy(busy),
            // Who is ahead in the inner lock may be about to take the last permit, or have left.
            Ok(None) => match looks.locks.ask(until).await {
                Asked::Busy(_) => Asked::Busy(busy(None)),
                asked => asked,
            },
            Err(error) => Asked::failed(other.generation(), error),
        }
    }

    fn step_down(_: Arc<PermitQueue>, permit: Sole) -> SteppingDown {
        let error = LockError::new(ErrorKind::Unsupported, "only a write guard can be downgraded");
        Box::pin(std::future::ready(Err((error, permit.put_back()))))
    }

    /// Each permit is held by one caller.
    fn begin_anew(_: &Arc<PermitQueue>, grant: &Grant) {
        grant.leases().for_each(|lease| lease.let_go());
    }

    fn split(queue: &Arc<PermitQueue>, grant: &Grant, permits: usize) -> Option<Hold> {
        let mut inner = queue.lock();
        let part = grant.split(permits)?;
        let is_whole = |by: &Weak<Grant>| std::ptr::eq(by.as_ptr(), grant);
        inner.state.split_off(Arc::downgrade(&part), is_whole);
        queue.note_single(&part);
        Some(part.hold())
    }
}

/// The number of permits that those of these waiters need which `who` stops.
fn needed<'a>(waiting: impl Iterator<Item = &'a Waiter<PermitRequest>>, who: &Caller) -> u64 {
    let stopped = waiting.filter(|other| !other.once && stops_waiter(who, &other.who));
    stopped.map(|other| u64::from(other.wants.permits)).sum()
}

/// The number of permits.
fn sum<'a>(held: impl Iterator<Item = &'a Arc<Grant>>) -> u64 {
    held.map(|by| by.leases().count() as u64).sum()
}

#[cfg(test)]
mod tests;
