//! The queue of one semaphore in this process: the state, and the effects of its decisions.

use std::iter::empty;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_lite::future::or;

use crate::acquire::acquire_loop::{How, Setback, Target, acquire, deleted_again, setback};

use crate::acquire::lease::Lease;
use crate::acquire::obstacle::{Obstacle, Seen};
use crate::acquire::send_order::SendTurn;
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::{ErrorKind, Holder, LockError};
use crate::base::first::all;
use crate::base::mode::Mode;
use crate::base::pattern::Pattern;
use crate::base::policy::RetryPolicy;
use crate::base::times;
use crate::coordinator::traits::RequestError;
use crate::coordinator::wakes::wake;
use crate::layout::driver::LockDriver;
use crate::local::grant::{Grant, GrantSource, Hold, Sole, SteppingDown};
use crate::local::itself::{self, Perhaps, stops_holder, stops_waiter};
use crate::local::kinds;
use crate::local::limit::{Limit, LimitSource};
use crate::local::panics::catch;
use crate::local::permits::{Fetch, Joined as Decided, PermitWaiter, State, Todo};
use crate::local::singles::{InOrder, Singles};
use crate::local::wait_queue::{Joined, PlaceInQueue, WaitQueue, describe_waiter};
use crate::local::waiters::{Outcome, Place};
use crate::name::path::ZnodePath;
use crate::observe::observer::Event;
use crate::session::handle::Session;
use crate::session::lane::{LanePermit, closed};
use crate::session::local_queues::{Held, Holding, LocalQueue, LocalQueues, of_type};
use crate::session::releaser::{Deletion, more};

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

/// The queue of one semaphore in this process. It lives as long as it is in use.
#[derive(Debug)]
pub struct PermitQueue {
    key: Arc<str>,
    common: Arc<Common>,
    /// For the queue of a single acquire: the queue of the semaphore.
    main: Option<Arc<PermitQueue>>,
    state: Mutex<Inner>,
}

/// What the queue of a semaphore has in common with those of its single acquires.
#[derive(Debug)]
struct Common {
    session: Session,
    /// The path of the semaphore: where a lock of another kind would have its nodes.
    path: ZnodePath,
    targets: Targets,
    limit: Limit,
    /// Each handle has a clone.
    handles: Arc<()>,
    used: AtomicBool,
    /// The queues of single acquires.
    singles: Singles,
    /// Whether this process has, or had, another kind of lock of the same name.
    beside: AtomicBool,
}

/// A user's reference to a queue. A task that is about to end refers to the queue itself.
#[derive(Clone, Debug)]
pub struct Handle(Arc<PermitQueue>, #[allow(dead_code, reason = "it is counted")] Arc<()>);

impl Deref for Handle {
    type Target = Arc<PermitQueue>;

    fn deref(&self) -> &Arc<PermitQueue> {
        &self.0
    }
}

#[derive(Debug)]
struct Inner {
    state: State<Lease, Weak<Grant>, Hold>,
    /// What the present driver reports, and what stops it.
    attempt: Option<Looks>,
}

impl Inner {
    /// What the present driver reports.
    fn looks(&self) -> Option<&Looks> {
        self.attempt.as_ref().filter(|_| self.state.fetching().is_some())
    }
}

/// Who is in the way of a driver.
#[derive(Clone, Debug, Default)]
struct Looks {
    /// In the queue of the inner lock.
    locks: Seen,
    /// Among the permits.
    leases: Seen,
}

impl PermitQueue {
    /// A queue for a semaphore, with this key among the session's local queues.
    pub fn new(
        session: Session,
        path: ZnodePath,
        targets: Targets,
        limit: Limit,
        key: Arc<str>,
    ) -> Arc<Self> {
        let (handles, singles) = (Arc::new(()), Singles::default());
        let [used, beside] = [false, false].map(AtomicBool::new);
        let common = Common { session, path, targets, limit, handles, used, singles, beside };
        PermitQueue::make(Arc::new(common), key, None)
    }

    /// A queue for a single acquire, which has its own place in ZooKeeper's queue, and whose permits
    /// are not handed on. It refers to the queue of the semaphore, which others find.
    ///
    /// # Errors
    ///
    /// Never: nobody else has its key.
    pub fn single(main: &Arc<PermitQueue>) -> Result<Arc<Self>, LockError> {
        let make = |key| PermitQueue::make(main.common.clone(), key, Some(main.clone()));
        main.local_queues().single_queue(main.lock_path().as_str(), make)
    }

    fn make(common: Arc<Common>, key: Arc<str>, main: Option<Arc<PermitQueue>>) -> Arc<Self> {
        let state = State::new(common.session.is_closing());
        let state = Mutex::new(Inner { state, attempt: None });
        Arc::new(PermitQueue { key, common, main, state })
    }

    /// What its session has in use.
    pub fn local_queues(&self) -> &LocalQueues {
        self.common.session.local_queues()
    }

    /// The path of the semaphore, above that of its permits.
    pub fn lock_path(&self) -> &ZnodePath {
        &self.common.path
    }

    /// A handle.
    pub fn handle(self: &Arc<Self>) -> Handle {
        Handle(self.clone(), self.common.handles.clone())
    }

    /// Whether somebody has a handle, holds permits or waits for some.
    pub fn is_wanted(&self) -> bool {
        let is_used = || {
            let state = &self.lock().state;
            state.waiting().next().is_some() || state.holders().any(|by| by.strong_count() > 0)
        };
        Arc::strong_count(&self.common.handles) > 1
            || is_used()
            || !self.common.singles.holders().is_empty()
    }

    /// Who holds permits in this session, through whichever queue.
    fn holders(&self) -> Vec<Arc<Grant>> {
        let main = self.main.as_deref().unwrap_or(self);
        let mut held: Vec<_> = main.lock().state.holders().filter_map(Weak::upgrade).collect();
        held.extend(self.common.singles.holders());
        held
    }

    /// The other queues of this semaphore in this session.
    fn others(&self) -> impl Iterator<Item = Arc<PermitQueue>> {
        let queues = self.local_queues().all_under(self.lock_path().as_str());
        let queues = queues.into_iter().filter_map(|queue| of_type::<PermitQueue>(&queue));
        queues.filter(|other| !std::ptr::eq(&**other, self))
    }

    /// Sets whether a caller is about to take permits, and returns the earlier value: a handle
    /// alone may have been created on the way to one with another layout.
    pub fn use_it(&self, used: bool) -> bool {
        self.common.used.swap(used, Ordering::SeqCst)
    }

    /// Whether permits were taken, or are about to be.
    pub fn is_used(&self) -> bool {
        self.common.used.load(Ordering::SeqCst)
    }

    /// The limit.
    pub fn limit(&self) -> &Limit {
        &self.common.limit
    }

    /// The directories of its nodes.
    pub fn targets(&self) -> &Targets {
        &self.common.targets
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.session().clock().now()
    }

    /// Takes the last place. The result also says whether this may be a wait for oneself: `is_own`
    /// returns whether a caller acts for this one.
    pub fn join(
        self: &Arc<Self>,
        wanting: PermitWaiter,
        is_own: impl Fn(&Caller) -> bool,
    ) -> (Joined<Self>, Option<Perhaps>) {
        let joined = self.take_place(wanting, is_own);
        let (queues, path) = (self.local_queues(), self.lock_path().as_str());
        match kinds::check(queues, path, &**self, Mode::Permit) {
            Ok(()) => joined,
            Err(error) => (self.refuse(error), None),
        }
    }

    fn take_place(
        self: &Arc<Self>,
        wanting: PermitWaiter,
        is_own: impl Fn(&Caller) -> bool,
    ) -> (Joined<Self>, Option<Perhaps>) {
        let (who, permits, once) = (wanting.who, wanting.permits, wanting.once);
        let may_stop = who.is_blocking() && !once;
        let held = self.holders();
        let mut inner = self.lock();
        let seen = once && inner.looks().is_some_and(|looks| looks.leases.get().is_some());
        let (decided, todo) = inner.state.join(wanting, closed, seen);
        let looks = inner.looks().filter(|_| once).cloned();
        let may_stop = may_stop && matches!(decided, Decided::Waits(_));
        let mut stopped = 0;
        if may_stop {
            stopped = sum(held.iter().filter(|by| stops_holder(&who, by)));
            let before = inner.state.waiting().take(inner.state.ahead_of(None) - 1);
            stopped += needed(before, &who);
        }
        self.carry_out(inner, todo);
        if let Some(looks) = looks {
            // An embedded session runs a woken task on the spot, and that task locks the queue.
            looks.locks.look_again();
        }
        let joined = match decided {
            Decided::Waits(place) => Joined::Waits(PlaceInQueue::new(self.clone(), place)),
            Decided::Busy => Joined::Busy(self.clone()),
            Decided::Refused(error) => return (self.refuse(error), None),
        };
        if may_stop {
            stopped +=
                self.others().map(|other| needed(other.lock().state.waiting(), &who)).sum::<u64>();
            if self.is_fixed() && self.is_too_much(stopped, permits) {
                return (self.refuse(itself::stuck()), None);
            }
        }
        let mut own = held;
        own.retain(|by| by.is_kept_by_guard() && is_own(by.who()));
        let perhaps = self.is_too_much(sum(own.iter()), permits).then(|| self.perhaps(&own));
        (joined, perhaps)
    }

    fn refuse(&self, error: LockError) -> Joined<Self> {
        Joined::Refused(error.on(self.lock_name().clone()))
    }

    /// Whether the limit stays the same. A limit in a node may be raised meanwhile.
    fn is_fixed(&self) -> bool {
        !matches!(self.common.limit.source(), LimitSource::Node(..))
    }

    /// A caller that only tried has permits now. If its thread is blocked by another waiter, it cannot
    /// release them, so that waiter may wait for ever: it gets an error.
    fn refuse_stuck(self: &Arc<Self>) {
        if !self.is_fixed() {
            return;
        }
        let held = self.holders();
        let is_stuck = |waiting: &PermitWaiter| {
            let stopped = held.iter().filter(|by| stops_holder(&waiting.who, by));
            !waiting.once && self.is_too_much(sum(stopped), waiting.permits)
        };
        for queue in self.others().chain([self.clone()]) {
            let mut inner = queue.lock();
            let todo = inner.state.refuse(is_stuck, itself::stuck);
            drop(queue.carry_out(inner, todo));
        }
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
            let own: Vec<_> = own.iter().filter(|by| by.is_kept_by_guard()).collect();
            let (held, limit) = (sum(own.iter().copied()), queue.upgrade()?.limit().now());
            let who = own.first()?.who();
            Some(format!("{who} holds {held} of {limit} permits itself, outside of any scope"))
        })
    }

    fn grant(
        self: &Arc<Self>,
        wanting: &PermitWaiter,
        leases: Vec<Arc<Lease>>,
        now: Instant,
    ) -> Option<(Weak<Grant>, Hold)> {
        let mut leases = leases.into_iter();
        let first = leases.next()?;
        let (source, token): (Arc<dyn GrantSource>, _) = (self.clone(), first.next_token());
        let who = (wanting.who, Mode::Permit);
        let grant = Grant::new(source, first, token, who, Duration::ZERO, now);
        let grant = grant.with_more(leases).with_label(wanting.label.clone());
        let grant = grant.behind(wanting.ahead);
        let grant = Arc::new(grant);
        self.note_single(&grant);
        Some((Arc::downgrade(&grant), grant.hold()))
    }

    /// The queue of a single acquire reports its holder.
    fn note_single(&self, holder: &Arc<Grant>) {
        if self.main.is_some() {
            self.common.singles.note(holder);
        }
    }

    fn carry_out(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner>,
        todo: Todo<Lease>,
    ) -> Option<Deletion> {
        let cancelled = todo.cancel.then(|| inner.attempt.take()).flatten();
        let fetch = todo.fetch.map(|fetch| {
            let looks = Looks::default();
            inner.attempt = Some(looks.clone());
            (fetch, looks)
        });
        drop(inner);
        if let Some(attempt) = cancelled {
            attempt.locks.stop();
        }
        let quiet = todo.cancel || !todo.release.is_empty();
        let sent = todo.release.iter().filter_map(|lease| lease.release());
        let deletions = sent.collect();
        if let Some((fetch, looks)) = fetch {
            let (queue, session) = (self.clone(), self.session());
            let (lane_permit, place) = match self.main {
                None => (session.assign(), None),
                Some(_) => {
                    let assign = || session.assign();
                    let (lane_permit, place, turn) = self.common.singles.assign(empty(), assign);
                    (lane_permit, Some((place, turn)))
                }
            };
            let stop = looks.locks.clone();
            let spawner = lane_permit.lane().spawner().clone();
            spawner.spawn_until(stop, move || queue.fetch(lane_permit, place, fetch, looks));
        }
        todo.wake.into_iter().for_each(wake);
        if quiet {
            self.local_queues().left();
        }
        if todo.tried {
            self.refuse_stuck();
        }
        Deletion::all(deletions)
    }

    async fn fetch(
        self: Arc<Self>,
        lane_permit: LanePermit,
        place: Option<(InOrder, SendTurn)>,
        fetch: Fetch,
        looks: Looks,
    ) {
        let (place, turn) = place.unzip();
        let result = {
            let acquiring = pin!(self.acquire(&lane_permit, turn.as_ref(), fetch, &looks));
            let telling = pin!(or(
                self.tell_of_holders(fetch, &looks.leases),
                self.tell_of_others(fetch, &looks.locks, place),
            ));
            catch(self.layout(), or(acquiring, telling)).await
        };
        drop((lane_permit, turn));
        let (now, mut inner) = (self.now(), self.lock());
        let grant = |wanting: &PermitWaiter, leases| self.grant(wanting, leases, now);
        // What it looked at keeps its generation.
        if inner.state.fetching().is_some_and(|present| present.driver == fetch.driver) {
            inner.attempt = None;
        }
        let todo = inner.state.fetched(fetch.driver, result, now, grant, no_lease);
        drop(self.carry_out(inner, todo));
    }

    /// Takes permits under one hold of the inner lock, all or none. Without it, two callers that
    /// each have a part of their permits would wait for each other.
    async fn acquire(
        &self,
        lane_permit: &LanePermit,
        turn: Option<&SendTurn>,
        fetch: Fetch,
        looks: &Looks,
    ) -> Result<Vec<Arc<Lease>>, LockError> {
        self.limit().known(self.session()).await?;
        let Targets { locks, counts_first, .. } = &self.common.targets;
        let vanished = &fetch.vanished;
        let (mut losses, mut interruptions, mut patience) = (0, 0, None);
        loop {
            // By then, callers that only try have been told if nothing is left.
            let how = How { has_many_nodes: turn.is_some(), ..How::one(Mode::Mutex, false) };
            let inner = acquire(locks, vanished, lane_permit, how, &looks.locks, turn).await?;
            looks.locks.set(None);
            let taking = async { Some(self.take(lane_permit, &fetch, &looks.leases).await) };
            // Where the deletion of a permit was refused, its node goes with its session, and that with the
            // last guard in it: which may be this one, and wait for the place of that permit.
            let retired = async {
                inner.retired().await;
                None
            };
            let taken = or(taking, retired).await;
            looks.leases.set(None);
            let taken: Vec<_> = taken.transpose()?.into_iter().flatten().map(Arc::new).collect();
            // Without the lock, others may have counted at the same time.
            let is_whole = inner.is_valid() && !taken.is_empty();
            let was_alone =
                is_whole && (!counts_first || self.let_go(&inner, &mut patience).await?);
            if was_alone && taken.iter().all(|lease| lease.is_valid()) {
                return Ok(taken);
            }
            // The next count must not find them.
            all(taken.iter().filter_map(|lease| lease.release())).await.ok();
            let pause = if inner.is_deleted() {
                if losses >= vanished.attempts {
                    return Err(deleted_again(&locks.lock));
                }
                losses += 1;
                vanished.pause(losses - 1)
            } else {
                interruptions += 1;
                RetryPolicy::default().pause(interruptions)
            };
            drop(inner);
            let clock = self.session().clock();
            clock.sleep_until(clock.now() + pause).await;
        }
    }

    /// Deletes the node of the inner lock, and returns whether it was there until then: clients of kazoo
    /// do not count again when their node exists, so if somebody else deletes it, two may count at the
    /// same time. If the answer is lost, nobody knows; the next one gets more time.
    async fn let_go(
        &self,
        inner: &Lease,
        patience: &mut Option<Duration>,
    ) -> Result<bool, LockError> {
        let generation = inner.generation();
        let time = patience.unwrap_or_else(|| generation.patience());
        *patience = Some(more(generation, time));
        match inner.delete(time).await.map_err(setback) {
            Ok(true) => Ok(true),
            Ok(false) => {
                tracing::warn!("the node of a semaphore's inner lock was deleted by somebody else");
                Ok(false)
            }
            Err(Setback::Failed(error)) => Err(error.on(self.common.targets.locks.lock.clone())),
            Err(_) => Ok(false),
        }
    }

    /// Creates the nodes of permits. If every node is a holder, it first makes sure that there is
    /// room for all of them.
    async fn take(
        &self,
        lane_permit: &LanePermit,
        fetch: &Fetch,
        seen: &Seen,
    ) -> Result<Vec<Lease>, LockError> {
        let (target, vanished) = (&self.common.targets.leases, &fetch.vanished);
        let together = fetch.permits as usize;
        let how = How::one(Mode::Permit, fetch.once);
        let label = self.lock().state.waiting().next().and_then(|first| first.label.clone());
        let how = How { together, stop_at: fetch.stop_at, label, ..how };
        let mut taken = Vec::with_capacity(together);
        if self.common.targets.counts_first {
            let first = How { counts_first: true, ..how.clone() };
            taken.push(acquire(target, vanished, lane_permit, first, seen, None).await?);
        }
        let taking = (taken.len()..together)
            .map(|_| acquire(target, vanished, lane_permit, how.clone(), seen, None));
        let rest = all(taking).await?;
        taken.extend(rest);
        Ok(taken)
    }

    /// Tells callers that only try who holds the permits, if there are too few. Does not end.
    async fn tell_of_holders<T>(self: &Arc<Self>, fetch: Fetch, seen: &Seen) -> T {
        loop {
            let obstacle = seen.next().await;
            if self.anybody_tries() {
                match obstacle.ask().await {
                    Ok(busy) => self.turn_away(fetch, busy),
                    // The driver is ahead in any case.
                    Err(RequestError::NoNode) => self.turn_away(fetch, busy()),
                    // The driver looks again, too.
                    Err(_) => {}
                }
            }
        }
    }

    /// Tells callers that only try that nothing is left, while another contender holds the inner
    /// lock. The holder may be waiting for a permit, but also be taking one, or have found that
    /// there are too few: what is seen twice is reported. Does not end.
    async fn tell_of_others<T>(
        self: &Arc<Self>,
        fetch: Fetch,
        seen: &Seen,
        mut place: Option<InOrder>,
    ) -> T {
        let (clock, permits) = (self.session().clock(), fetch.permits as usize);
        loop {
            let mut obstacle = Some(seen.next().await);
            // It has its node: later ones are behind it on any connection.
            drop(place.take());
            let (mut before, mut looks) = (None, 0);
            while let Some(other) = obstacle.filter(|_| self.anybody_tries()) {
                match self.find_holder(&other, permits).await {
                    Ok(Some(holder)) if before.as_ref() == Some(&holder.0) => {
                        self.turn_away(fetch, holder.1);
                        break;
                    }
                    Ok(found) => {
                        before = found.map(|(nodes, _)| nodes);
                        looks += 1;
                    }
                    // Without a reply, the lock is not reported as busy.
                    Err(_) => {}
                }
                if looks > times::PERMIT_LEFT.0 {
                    self.turn_away(fetch, busy());
                    break;
                }
                clock.sleep_until(clock.now() + times::PERMIT_LEFT.1).await;
                obstacle = seen.get();
            }
        }
    }

    fn anybody_tries(&self) -> bool {
        self.lock().state.anybody_tries()
    }

    fn turn_away(self: &Arc<Self>, fetch: Fetch, busy: LockError) {
        let mut inner = self.lock();
        let todo = inner.state.met(fetch.driver, || busy.clone());
        drop(self.carry_out(inner, todo));
    }

    /// The nodes that take up the permits, and the error with the first of them, if fewer permits
    /// are left than needed.
    async fn find_holder(
        &self,
        other: &Obstacle,
        permits: usize,
    ) -> Result<Option<(Vec<String>, LockError)>, RequestError> {
        let Target { directory, driver, .. } = &self.common.targets.leases;
        let listed = match other.generation().coordinator().children(directory.as_str()).await {
            Err(RequestError::NoNode) => return Ok(None),
            listed => listed?,
        };
        let queue = driver.queue(&listed);
        let most = driver.most().unwrap_or(usize::MAX);
        let ahead = (queue.len() + permits).saturating_sub(most);
        let Some(first) = queue.first().filter(|_| ahead > 0) else { return Ok(None) };
        let holder = other.instead(driver, directory.join(&first.name).as_str(), ahead);
        let busy = match holder.ask().await {
            Err(RequestError::NoNode) => return Ok(None),
            busy => busy?,
        };
        Ok(Some((queue.into_iter().map(|node| node.name).collect(), busy)))
    }
}

/// The number of permits that those of these waiters need which `who` stops.
fn needed<'a>(waiting: impl Iterator<Item = &'a PermitWaiter>, who: &Caller) -> u64 {
    let stopped = waiting.filter(|other| !other.once && stops_waiter(who, &other.who));
    stopped.map(|other| u64::from(other.permits)).sum()
}

/// The number of permits.
fn sum<'a>(held: impl Iterator<Item = &'a Arc<Grant>>) -> u64 {
    held.map(|by| by.leases().count() as u64).sum()
}

/// The error if somebody is ahead, and it is not known who.
fn busy() -> LockError {
    LockError::new(ErrorKind::Busy, "")
}

fn no_lease() -> LockError {
    LockError::new(ErrorKind::Lost, "its lease ran out during the grant")
}

impl GrantSource for PermitQueue {
    fn session(&self) -> &Session {
        &self.common.session
    }

    fn lock_name(&self) -> &Arc<str> {
        &self.common.targets.leases.lock
    }

    fn pattern(&self) -> Pattern {
        self.common.targets.leases.pattern
    }

    fn path(&self) -> &str {
        self.common.targets.leases.directory.as_str()
    }

    fn layout(&self) -> &dyn LockDriver {
        &*self.common.targets.leases.driver
    }

    fn holder_here(&self, place: Option<Place>) -> Option<Holder> {
        let (inner, now) = (self.lock(), self.now());
        let mut held: Vec<_> = inner.state.holders().filter_map(Weak::upgrade).collect();
        held.retain(|by| by.is_leased_at(now));
        let by = held.first()?;
        if let Some(place) = place {
            let (wanted, ahead) = inner.state.needed(place)?;
            if !self.is_too_much(sum(held.iter()) + ahead, wanted) {
                // Only ZooKeeper knows whether there are others.
                return None;
            }
        }
        let owner = self.session().runtime().holder(self.session().app(), now.since(by.since()));
        let owner = owner.labelled(by.label().map(|label| &**label));
        let node = by.lease().node_name().to_owned();
        Some(Holder { owner, node, ahead: 1 + inner.state.ahead_of(place) })
    }

    fn step_down(self: Arc<Self>, permit: Sole) -> SteppingDown {
        let error = LockError::new(ErrorKind::Unsupported, "only a write guard can be downgraded");
        Box::pin(std::future::ready(Err((error, permit.put_back()))))
    }

    fn split(self: Arc<Self>, grant: &Grant, permits: usize) -> Option<Hold> {
        let mut inner = self.lock();
        let part = Arc::new(grant.split(permits)?);
        let is_whole = |by: &Weak<Grant>| std::ptr::eq(by.as_ptr(), grant);
        inner.state.split_off(Arc::downgrade(&part), is_whole);
        self.note_single(&part);
        Some(part.hold())
    }

    fn release(self: Arc<Self>, grant: &Grant, now: Instant) -> Option<Deletion> {
        let mut inner = self.lock();
        let is_holder = |by: &Weak<Grant>| std::ptr::eq(by.as_ptr(), grant);
        let leases = grant.leases().cloned().collect();
        let mut handed = None;
        let grant = |wanting: &PermitWaiter, leases| {
            let granted = self.grant(wanting, leases, now)?;
            handed = handed.or_else(|| Some(granted.1.grant()?.token()));
            Some(granted)
        };
        let todo = inner.state.release(leases, is_holder, now, grant, no_lease);
        let deletion = self.carry_out(inner, todo);
        if let Some(token) = handed {
            self.session().events().tell(|| {
                let (lock, pattern) = (self.lock_name().clone(), self.pattern().text());
                Event::HandedOn { lock, pattern, mode: Mode::Permit, token }
            });
        }
        deletion
    }
}

impl WaitQueue for PermitQueue {
    fn poll(&self, place: Place, waker: &Waker) -> Poll<Option<Outcome<Hold>>> {
        self.lock().state.poll(place, waker)
    }

    fn leave(self: &Arc<Self>, place: Place) {
        let mut inner = self.lock();
        let (untaken, todo) = inner.state.leave(place);
        drop(self.carry_out(inner, todo));
        drop(untaken);
    }

    fn waiter(&self, place: Place) -> Option<(Mode, Instant)> {
        let inner = self.lock();
        inner.state.waiter(place).map(|waiter| (Mode::Permit, waiter.since))
    }

    fn is_between_holders(&self, _: Option<Place>) -> bool {
        false
    }

    async fn ask(&self) -> Option<Result<LockError, RequestError>> {
        let (looks, permits) = {
            let inner = self.lock();
            (inner.looks()?.clone(), inner.state.fetching()?.permits as usize)
        };
        if let Some(holder) = looks.leases.get() {
            return Some(holder.ask().await);
        }
        let other = looks.locks.get()?;
        let found = self.find_holder(&other, permits).await;
        Some(found.map(|holder| holder.map_or_else(busy, |(_, busy)| busy)))
    }
}

impl LocalQueue for PermitQueue {
    fn driver(&self) -> &Arc<dyn LockDriver> {
        &self.common.targets.leases.driver
    }

    fn held(&self) -> Vec<Held> {
        let (inner, now) = (self.lock(), self.now());
        let lock = self.lock_name();
        let holders = inner.state.holders().filter_map(Weak::upgrade);
        let holders = holders.map(|by| by.describe(now));
        let waiting = |waiting: &PermitWaiter| {
            describe_waiter(lock, &waiting.who, &waiting.label, now.since(waiting.since))
        };
        holders.chain(inner.state.waiting().map(waiting)).collect()
    }

    fn tally(&self, each: &mut dyn FnMut(Pattern, Mode, bool)) {
        let (inner, pattern) = (self.lock(), self.pattern());
        let holders = inner.state.holders().filter(|by| by.strong_count() > 0);
        holders.for_each(|_| each(pattern, Mode::Permit, true));
        inner.state.waiting().for_each(|_| each(pattern, Mode::Permit, false));
    }

    fn holding(&self, path: &str) -> Option<Holding> {
        Grant::holding(self.lock().state.holders(), path, self.now())
    }

    fn close(self: Arc<Self>) {
        let mut inner = self.lock();
        let todo = inner.state.close(|| closed().on(self.lock_name().clone()));
        drop(self.carry_out(inner, todo));
    }

    fn leases_lost(self: Arc<Self>) {
        // The nodes of lost permits are deleted by their holders.
    }

    fn is_semaphore(&self) -> bool {
        true
    }

    fn user(&self) -> Option<(Mode, Held)> {
        self.held().into_iter().next().map(|held| (Mode::Permit, held))
    }

    fn is_beside_another(&self) -> &AtomicBool {
        &self.common.beside
    }
}

impl Drop for PermitQueue {
    fn drop(&mut self) {
        self.local_queues().forget(&self.key);
    }
}
