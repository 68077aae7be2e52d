//! The queue of one semaphore in this process: the state, and what carries out its decisions.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::Notify;

use crate::acquire::{How, Obstacle, Seen, Target, acquire};
use crate::clock::Instant;
use crate::error::{ErrorKind, Holder, LockError};
use crate::first::all;
use crate::lease::Lease;
use crate::local::itself::{self, Perhaps, stops_holder, stops_waiter};
use crate::local::limit::{Limit, LimitSource};
use crate::local::line::{Joined, Line, WaitInLine, describe_waiter};
use crate::local::permits::{Fetch, Joined as Decided, State, Todo, Wanting};
use crate::local::possession::{Hold, Origin, Possession, SteppingDown};
use crate::local::waiters::{Outcome, Place};
use crate::mode::Mode;
use crate::owner::Owner;
use crate::recipe::driver::LockDriver;
use crate::session::handle::Session;
use crate::session::lane::{Ride, closed};
use crate::session::releaser::Deletion;
use crate::session::shelf::{Held, Resident};
use crate::who::Who;

/// A semaphore in ZooKeeper.
#[derive(Clone, Debug)]
pub struct Targets {
    /// The mutex of those who take permits.
    pub locks: Target,
    /// Where the permits are.
    pub leases: Target,
    /// Whether a node is made only where there is room for it.
    pub counts_first: bool,
}

/// The queue of one semaphore in this process. It lives as long as somebody uses it.
#[derive(Debug)]
pub struct PermitQueue {
    session: Session,
    targets: Targets,
    limit: Limit,
    key: Arc<str>,
    handles: AtomicUsize,
    used: AtomicBool,
    seen: Seen,
    state: Mutex<Inner>,
}

/// What users hold of a queue. A driver that is about to end holds the queue itself.
#[derive(Debug)]
pub struct Handle(Arc<PermitQueue>);

impl Handle {
    /// A handle of a queue in which it was [counted](PermitQueue::count_handle).
    pub fn counted(queue: Arc<PermitQueue>) -> Self {
        Handle(queue)
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.count_handle();
        Handle(self.0.clone())
    }
}

impl Deref for Handle {
    type Target = Arc<PermitQueue>;

    fn deref(&self) -> &Arc<PermitQueue> {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.handles.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Inner {
    state: State<Lease, Weak<Possession>, Hold>,
    /// Stops the present driver.
    driver: Option<Arc<Notify>>,
}

/// How often somebody who only tries looks again while another takes a permit, and the pause.
const LOOKS: (u32, Duration) = (20, Duration::from_millis(10));

impl PermitQueue {
    /// A queue for a semaphore, which stands under `key` on the session's shelf.
    pub fn new(session: Session, targets: Targets, limit: Limit, key: Arc<str>) -> Arc<Self> {
        let state = Mutex::new(Inner { state: State::new(session.is_closing()), driver: None });
        let (handles, used, seen) = (AtomicUsize::new(0), AtomicBool::new(false), Seen::default());
        Arc::new(PermitQueue { session, targets, limit, key, handles, used, seen, state })
    }

    /// Counts a handle.
    pub fn count_handle(&self) {
        self.handles.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether somebody has a handle, holds permits or waits for some.
    pub fn is_wanted(&self) -> bool {
        let state = &self.lock().state;
        self.handles.load(Ordering::SeqCst) > 0
            || state.waiting().next().is_some()
            || state.holders().any(|by| by.strong_count() > 0)
    }

    /// Says whether somebody is about to take permits, and answers whether that was so before: a
    /// handle may only have been made on the way to one of another layout.
    pub fn use_it(&self, used: bool) -> bool {
        self.used.swap(used, Ordering::SeqCst)
    }

    /// Whether somebody took permits, or is about to.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::SeqCst)
    }

    /// The limit.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Where its nodes are.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.session.clock().now()
    }

    /// Takes the last place. Says also whether that may be a wait for oneself: `is_own` knows
    /// whether somebody acts for the caller.
    pub fn join(
        self: &Arc<Self>,
        wanting: Wanting,
        is_own: impl Fn(&Who) -> bool,
    ) -> (Joined<Self>, Option<Perhaps>) {
        let (who, permits) = (wanting.who, wanting.permits);
        let may_stop = who.is_blocking() && !wanting.once;
        let mut inner = self.lock();
        let (decided, todo) = inner.state.join(wanting, closed);
        let held: Vec<_> = inner.state.holders().filter_map(Weak::upgrade).collect();
        let mut stopped = 0;
        if matches!(decided, Decided::Waits(_)) && may_stop {
            stopped = sum(held.iter().filter(|by| stops_holder(&who, by)));
            let before = inner.state.waiting().take(inner.state.ahead_of(None) - 1);
            let ahead = before.filter(|other| stops_waiter(&who, &other.who));
            stopped += ahead.map(|other| u64::from(other.permits)).sum::<u64>();
        }
        self.carry_out(inner, todo);
        let joined = match decided {
            Decided::Waits(place) => Joined::Waits(WaitInLine::new(self.clone(), place)),
            Decided::Busy => Joined::Busy(self.clone()),
            Decided::Refused(error) => return (self.refuse(error), None),
        };
        // One that is in a node may be raised meanwhile.
        let fixed = !matches!(self.limit.source(), LimitSource::Node(..));
        if fixed && self.is_too_much(stopped, permits) {
            return (self.refuse(itself::stuck()), None);
        }
        let mut own = held;
        own.retain(|by| by.is_kept_by_guard() && is_own(by.who()));
        let perhaps = self.is_too_much(sum(own.iter()), permits).then(|| self.perhaps(&own));
        (joined, perhaps)
    }

    fn refuse(&self, error: LockError) -> Joined<Self> {
        Joined::Refused(error.on(self.lock_name().clone()))
    }

    /// Whether somebody who wants so many waits for those who have the others.
    fn is_too_much(&self, held: u64, wanted: u32) -> bool {
        let limit = u64::from(self.limit.now());
        held > 0 && limit > 0 && held + u64::from(wanted) > limit
    }

    /// The caller holds these permits itself.
    fn perhaps(self: &Arc<Self>, own: &[Arc<Possession>]) -> Perhaps {
        let own: Vec<_> = own.iter().map(Arc::downgrade).collect();
        let (queue, clock) = (Arc::downgrade(self), self.session.clock().clone());
        Perhaps::new(clock, self.lock_name().clone(), move || {
            let own: Vec<_> = own.iter().filter_map(Weak::upgrade).collect();
            let own: Vec<_> = own.iter().filter(|by| by.is_kept_by_guard()).collect();
            let (held, limit) = (sum(own.iter().copied()), queue.upgrade()?.limit.now());
            let who = own.first()?.who();
            Some(format!("{who} holds {held} of {limit} permits itself, outside any scope"))
        })
    }

    fn grant(
        self: &Arc<Self>,
        wanting: &Wanting,
        leases: Vec<Arc<Lease>>,
        now: Instant,
    ) -> Option<(Weak<Possession>, Hold)> {
        let mut leases = leases.into_iter();
        let first = leases.next()?;
        let (origin, token): (Arc<dyn Origin>, _) = (self.clone(), first.next_token());
        let who = (wanting.who, Mode::Permit);
        let possession = Possession::new(origin, first, token, who, Duration::ZERO, now);
        let possession = possession.with_more(leases).with_label(wanting.label.clone());
        let possession = Arc::new(possession);
        Some((Arc::downgrade(&possession), possession.hold()))
    }

    fn carry_out(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner>,
        todo: Todo<Lease>,
    ) -> Deletions {
        let cancelled = todo.cancel.then(|| inner.driver.take()).flatten();
        let fetch = todo.fetch.map(|fetch| {
            let cancel = Arc::new(Notify::new());
            inner.driver = Some(cancel.clone());
            (fetch, cancel)
        });
        drop(inner);
        if let Some(stop) = cancelled {
            stop.notify_one();
        }
        let quiet = todo.cancel || !todo.release.is_empty();
        let deletions = todo.release.iter().filter_map(|lease| lease.release()).collect();
        if let Some((fetch, cancel)) = fetch {
            let queue = self.clone();
            self.session.drive(cancel, move |ride| queue.fetch(ride, fetch));
        }
        todo.wake.into_iter().for_each(Waker::wake);
        if quiet {
            self.session.shelf().left();
        }
        Deletions(deletions)
    }

    async fn fetch(self: Arc<Self>, ride: Ride, fetch: Fetch) {
        let result = self.acquire(&ride, fetch).await;
        drop(ride);
        self.seen.set(None);
        let (now, mut inner) = (self.now(), self.lock());
        let grant = |wanting: &Wanting, leases| self.grant(wanting, leases, now);
        let todo = inner.state.fetched(fetch.driver, result, now, grant, no_lease);
        drop(self.carry_out(inner, todo));
    }

    /// Takes permits under one hold of the inner lock, all or none. Two who wait for permits without
    /// it, each with a part of what it wants, would wait for each other.
    async fn acquire(&self, ride: &Ride, fetch: Fetch) -> Result<Vec<Arc<Lease>>, LockError> {
        self.limit.known(&self.session).await?;
        loop {
            let inner = self.enter(ride, fetch.once).await?;
            let taking = async { Some(self.take(ride, fetch).await) };
            let lost = async {
                inner.lost().await;
                None
            };
            let Some(taken) = or(taking, lost).await else { continue };
            let leases: Vec<_> = taken?.into_iter().map(Arc::new).collect();
            // Without the lock others may have counted at the same time.
            if inner.is_valid() && leases.iter().all(|lease| lease.is_valid()) {
                return Ok(leases);
            }
        }
    }

    /// Makes the nodes of permits. Where every node is a holder, it is seen first that there is
    /// room for all of them.
    async fn take(&self, ride: &Ride, fetch: Fetch) -> Result<Vec<Lease>, LockError> {
        let (target, together) = (&self.targets.leases, fetch.permits as usize);
        let how = How::one(Mode::Permit, fetch.once);
        let how = How { together, stop_at: fetch.stop_at, ..how };
        let mut taken = Vec::with_capacity(together);
        if self.targets.counts_first {
            let first = How { counts_first: true, ..how };
            taken.push(acquire(target, ride, first, &self.seen).await?);
        }
        let taking = (taken.len()..together).map(|_| acquire(target, ride, how, &self.seen));
        let rest = all(taking).await?;
        taken.extend(rest);
        Ok(taken)
    }

    /// Takes the inner lock. Whoever waits for a permit holds it, but also who just takes one: a
    /// try that meets it looks again for a moment.
    async fn enter(&self, ride: &Ride, once: bool) -> Result<Lease, LockError> {
        let (how, clock) = (How::one(Mode::Mutex, once), self.session.clock());
        for _ in 0..LOOKS.0 {
            match acquire(&self.targets.locks, ride, how, &self.seen).await {
                Err(error) if once && error.is_busy() => {
                    clock.sleep_until(clock.now() + LOOKS.1).await;
                }
                result => return result,
            }
        }
        acquire(&self.targets.locks, ride, how, &self.seen).await
    }

    fn lock_error(&self) -> LockError {
        closed().on(self.lock_name().clone())
    }
}

/// How many permits these are.
fn sum<'a>(held: impl Iterator<Item = &'a Arc<Possession>>) -> u64 {
    held.map(|by| by.leases().count() as u64).sum()
}

fn no_lease() -> LockError {
    LockError::new(ErrorKind::Lost, "it was lost while it was granted")
}

/// Deletions on their way; dropped, they go on in the background.
struct Deletions(Vec<Deletion>);

impl Origin for PermitQueue {
    fn session(&self) -> &Session {
        &self.session
    }

    fn lock_name(&self) -> &Arc<str> {
        &self.targets.leases.lock
    }

    fn path(&self) -> &str {
        self.targets.leases.directory.as_str()
    }

    fn layout(&self) -> &dyn LockDriver {
        &*self.targets.leases.driver
    }

    fn holder_here(&self, place: Option<Place>) -> Option<Holder> {
        let (inner, now) = (self.lock(), self.now());
        let by = inner.state.holders().find_map(Weak::upgrade)?;
        if !by.is_leased_at(now) {
            return None;
        }
        let owner = Owner::here(self.session.app()).since_ago(now.since(by.since()));
        let node = by.lease().node_name().to_owned();
        Some(Holder { owner, node, ahead: 1 + inner.state.ahead_of(place) })
    }

    fn step_down(self: Arc<Self>, _: Arc<Possession>, _: Hold) -> SteppingDown {
        let error = LockError::new(ErrorKind::Unsupported, "a permit is not downgraded");
        Box::pin(std::future::ready(Err(error)))
    }

    fn release(self: Arc<Self>, possession: &Possession, now: Instant) -> Option<Deletion> {
        let mut inner = self.lock();
        let is_holder = |by: &Weak<Possession>| std::ptr::eq(by.as_ptr(), possession);
        let leases = possession.leases().cloned().collect();
        let grant = |wanting: &Wanting, leases| self.grant(wanting, leases, now);
        let todo = inner.state.release(leases, is_holder, now, grant, no_lease);
        // The last one tells for all: they go out in order.
        self.carry_out(inner, todo).0.pop()
    }
}

impl Line for PermitQueue {
    fn poll(&self, place: Place, waker: &Waker) -> Poll<Option<Outcome<Hold>>> {
        self.lock().state.poll(place, waker)
    }

    fn leave(self: &Arc<Self>, place: Place) {
        let mut inner = self.lock();
        let (untaken, todo) = inner.state.leave(place);
        drop(self.carry_out(inner, todo));
        drop(untaken);
    }

    fn is_between_holders(&self) -> bool {
        false
    }

    fn obstacle(&self) -> Option<Obstacle> {
        self.seen.get()
    }

    fn trouble(&self) -> Option<LockError> {
        self.session.lane().trouble()
    }
}

impl Resident for PermitQueue {
    fn driver(&self) -> &Arc<dyn LockDriver> {
        &self.targets.leases.driver
    }

    fn held(&self) -> Vec<Held> {
        let (inner, now) = (self.lock(), self.now());
        let lock = self.lock_name();
        let holders = inner.state.holders().filter_map(Weak::upgrade);
        let holders = holders.map(|by| by.describe(now));
        let waiting = |waiting: &Wanting| {
            describe_waiter(lock, &waiting.who, &waiting.label, now.since(waiting.since))
        };
        holders.chain(inner.state.waiting().map(waiting)).collect()
    }

    fn close(self: Arc<Self>) {
        let mut inner = self.lock();
        let todo = inner.state.close(|| self.lock_error());
        drop(self.carry_out(inner, todo));
    }

    fn leases_lost(self: Arc<Self>) {
        // The nodes of lost permits are deleted by their holders.
    }
}

impl Drop for PermitQueue {
    fn drop(&mut self) {
        self.session.shelf().forget(&self.key);
    }
}
