//! The queue of one lock in this process: the state, and the effects of its decisions.

use std::cell::OnceCell;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::{Notify, oneshot};

use crate::acquire::acquire_loop::{How, Target, acquire};

use crate::acquire::obstacle::{Obstacle, Seen};
use crate::acquire::send_order::SendTurn;

use crate::acquire::lease::Lease;
use crate::acquire::stand_in::stand_in;
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::{ErrorKind, Holder, LockError};
use crate::base::mode::Mode;
use crate::base::pattern::Pattern;
use crate::base::policy::{RetryPolicy, StopAt};
use crate::base::times;
use crate::base::token::FencingToken;
use crate::coordinator::traits::{Link, RequestError, Watch};
use crate::coordinator::wakes::wake;
use crate::layout::driver::{LockDriver, is_same_layout, mixed};
use crate::local::grant::{Grant, GrantSource, Hold, Sole, SteppingDown};
use crate::local::itself::{self, Perhaps, is_stuck, stops_holder, stops_waiter};
use crate::local::kinds;
use crate::local::panics::catch;
use crate::local::singles::{InOrder, Singles};
use crate::local::state::{Conflict, Fetch, Joined as Decided, Lent, Phase, State, Todo, Waiter};
use crate::local::wait_queue::{Joined, PlaceInQueue, WaitQueue, describe_waiter};
use crate::local::waiters::{Outcome, Place};
use crate::observe::observer::Event;
use crate::session::handle::Session;
use crate::session::lane::{LanePermit, closed};
use crate::session::local_queues::{Held, Holding, LocalQueue, of_type};
use crate::session::releaser::Deletion;

/// The queue of one lock in this process. It lives as long as it is in use.
#[derive(Debug)]
pub struct Queue {
    /// Its key among the session's local queues.
    key: Arc<str>,
    common: Arc<Common>,
    /// For the queue of a single acquire: the queue of the lock.
    main: Option<Arc<Queue>>,
    state: Mutex<Inner>,
}

/// What the queue of a lock has in common with those of its single acquires, of which there may be
/// thousands.
#[derive(Debug)]
struct Common {
    session: Session,
    target: Target,
    /// How often to begin again after nodes were deleted by others.
    vanished: RetryPolicy,
    /// The queues of single acquires.
    singles: Singles,
    /// Whether it was checked that this process does not use the lock in another layout.
    unrivalled: AtomicBool,
    /// Whether this session has, or had, another queue of the lock, for other options.
    divided: AtomicBool,
    /// Whether this process has, or had, a semaphore of the same name.
    beside: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    state: State<Lease, Weak<Grant>, Hold>,
    /// What the present driver reports, and what stops it.
    driver: Option<Seen>,
    /// Stops the present companion, with its lease.
    companion: Option<(Weak<Lease>, Arc<Notify>)>,
}

impl Inner {
    /// Who is in the way of the present driver.
    fn obstacle(&self) -> Option<Obstacle> {
        let fetching = matches!(self.state.phase(), Phase::Fetching { .. });
        self.driver.as_ref().filter(|_| fetching).and_then(Seen::get)
    }
}

impl Lent for Lease {
    fn is_valid(&self, now: Instant) -> bool {
        self.is_valid_at(now)
    }

    fn is_revoked(&self) -> bool {
        Lease::is_revoked(self)
    }

    fn stop_at(&self) -> StopAt {
        Lease::stop_at(self)
    }
}

impl Queue {
    /// Returns the queue of a lock in this process: the one in use, or a new one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] if this process uses the lock in another layout.
    pub fn of(
        session: &Session,
        target: Target,
        (stop_at, vanished): (StopAt, RetryPolicy),
    ) -> Result<Arc<Self>, LockError> {
        let (directory, key, driver) =
            (target.directory.clone(), target.key(stop_at, vanished), target.driver.clone());
        let (lock, local_queues) = (target.lock.clone(), session.local_queues());
        let make = |key| {
            let [unrivalled, divided, beside] = [(); 3].map(|()| AtomicBool::new(false));
            let (session, singles) = (session.clone(), Singles::default());
            let common = Common { session, target, vanished, singles, unrivalled, divided, beside };
            Queue::make(Arc::new(common), key, None)
        };
        let refuse = |present: &dyn LockDriver| mixed(present, &*driver).on(lock.clone());
        let queue: Arc<Self> =
            local_queues.local_queue(key, make).map_err(|other| refuse(&**other.driver()))?;
        let is_rival = |present: &Arc<dyn LockDriver>| !is_same_layout(&**present, &*driver);
        if is_rival(queue.driver()) {
            return Err(refuse(&**queue.driver()));
        }
        // With other options, and in other sessions of this process. A queue that comes later finds
        // this one.
        if !queue.common.unrivalled.load(Ordering::Acquire) {
            let mut others = local_queues.under(directory.as_str());
            for other in others.iter().filter_map(of_type::<Queue>) {
                if !Arc::ptr_eq(&other, &queue) {
                    other.common.divided.store(true, Ordering::Release);
                    queue.common.divided.store(true, Ordering::Release);
                }
            }
            others.extend(local_queues.elsewhere(directory.as_str()));
            // A semaphore is another kind of lock, whatever its layout.
            others.retain(|other| !other.is_semaphore());
            if let Some(rival) = others.iter().map(|other| other.driver()).find(|d| is_rival(d)) {
                return Err(refuse(&**rival));
            }
            kinds::meet(local_queues, directory.as_str(), &*queue);
            queue.common.unrivalled.store(true, Ordering::Release);
        }
        Ok(queue)
    }

    /// A queue for a single acquire, which has its own node and is not handed on. It refers to the
    /// queue of the lock, which others find: nobody looks at all pending acquires.
    ///
    /// # Errors
    ///
    /// Never: nobody else has its key.
    pub fn single(main: &Arc<Queue>) -> Result<Arc<Self>, LockError> {
        let make = |key| Queue::make(main.common.clone(), key, Some(main.clone()));
        main.session().local_queues().single_queue(main.path(), make)
    }

    /// A queue with this key among the session's local queues.
    fn make(common: Arc<Common>, key: Arc<str>, main: Option<Arc<Queue>>) -> Arc<Self> {
        let state = State::new(common.session.is_closing());
        let state = Mutex::new(Inner { state, driver: None, companion: None });
        Arc::new(Queue { key, common, main, state })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.session().clock().now()
    }

    /// Takes the last place, or the lock if it is free. The result also says whether this may be a
    /// wait for oneself: `is_own` returns whether a caller acts for this one.
    pub fn join(
        self: &Arc<Self>,
        waiting: Waiter,
        is_own: impl Fn(&Caller) -> bool,
    ) -> (Joined<Self>, Option<Perhaps>) {
        let mode = waiting.mode;
        let joined = self.take_place(waiting, is_own);
        match kinds::check(self.session().local_queues(), self.path(), &**self, mode) {
            Ok(()) => joined,
            Err(error) => (self.refuse(error), None),
        }
    }

    fn take_place(
        self: &Arc<Self>,
        waiting: Waiter,
        is_own: impl Fn(&Caller) -> bool,
    ) -> (Joined<Self>, Option<Perhaps>) {
        let (who, mode, since) = (waiting.who, waiting.mode, waiting.since);
        let may_stop = who.is_blocking() && !waiting.once;
        let mut inner = self.lock();
        let is_own = |holder: &Grant| holder.is_kept_by_guard() && is_own(holder.who());
        let own = OnceCell::new();
        let conflict = |by: &Weak<Grant>| {
            let Some(by) = by.upgrade() else { return Conflict::None };
            let (is_own, stops) = (is_own(&by), stops_holder(&who, &by));
            let conflict = match starts_anew(&who, &by) {
                true => Conflict::LetGo(by.lease().clone()),
                false if is_own && by.is_valid() || stops => Conflict::Own,
                false => Conflict::None,
            };
            if is_own {
                let _ = own.set(by);
            }
            conflict
        };
        let give = |waiting: &Waiter, lease: &Arc<Lease>| self.grant(waiting, lease, since);
        let seen = waiting.once && inner.obstacle().is_some();
        let (decided, todo) = inner.state.join(waiting, give, conflict, closed, seen);
        if let Decided::Granted(hold) = decided {
            self.carry_out(inner, todo);
            return (Joined::Granted(hold), None);
        }
        let others_may_hold = !inner.state.excludes_others();
        let mut stuck = matches!(decided, Decided::Waits(_)) && may_stop;
        let mut ahead = Vec::new();
        if stuck {
            let holders = inner.state.in_the_way().filter_map(Weak::upgrade);
            ahead.extend(holders.map(|by| (by.mode(), stops_holder(&who, &by))));
            let before = inner.state.waiting().take(inner.state.waiting_count() - 1);
            ahead.extend(before.map(|other| (other.mode, is_stopped(&who, other))));
        }
        self.carry_out(inner, todo);
        let joined = match decided {
            Decided::Granted(hold) => Joined::Granted(hold),
            Decided::Waits(place) => Joined::Waits(PlaceInQueue::new(self.clone(), place)),
            Decided::Busy => Joined::Busy(self.clone()),
            Decided::Refused(error) => return (self.refuse(error), None),
        };
        let beside = if others_may_hold { self.beside(&who) } else { Vec::new() };
        if stuck {
            let theirs = beside.iter().map(|by| (by.mode(), stops_holder(&who, by)));
            stuck = is_stuck(mode, theirs.chain(ahead)) || self.is_stuck_beside(&who, mode);
        }
        if stuck {
            return (self.refuse(itself::stuck()), None);
        }
        let own = own.into_inner().or_else(|| beside.into_iter().find(|by| is_own(by)));
        let elsewhere =
            if own.is_none() && others_may_hold { self.elsewhere() } else { Vec::new() };
        let own = own.or_else(|| elsewhere.into_iter().find(|by| is_own(by)));
        (joined, own.map(|by| self.perhaps(&by)))
    }

    fn refuse(&self, error: LockError) -> Joined<Self> {
        Joined::Refused(error.on(self.lock_name().clone()))
    }

    /// Holders of this lock in another queue of this session, for other options.
    fn beside(self: &Arc<Self>, who: &Caller) -> Vec<Arc<Grant>> {
        let mut holders = if self.common.divided.load(Ordering::Acquire) {
            self.holders_in(&self.session().local_queues().under(self.path()))
        } else {
            self.holders_of([self.main.as_ref().unwrap_or(self).clone()])
        };
        // The caller may have been granted it meanwhile.
        let own = Arc::as_ptr(self).cast::<()>();
        holders.retain(|by| !std::ptr::eq(Arc::as_ptr(by.queue()).cast(), own));
        holders.retain(|holder| {
            let gone = starts_anew(who, holder);
            if gone {
                holder.lease().let_go();
            }
            !gone
        });
        holders
    }

    /// Holders of this lock in another session of this process.
    fn elsewhere(self: &Arc<Self>) -> Vec<Arc<Grant>> {
        self.holders_in(&self.session().local_queues().elsewhere(self.path()))
    }

    fn holders_in(self: &Arc<Self>, queues: &[Arc<dyn LocalQueue>]) -> Vec<Arc<Grant>> {
        self.holders_of(queues.iter().filter_map(of_type::<Queue>))
    }

    /// Holders of this lock in these queues, besides this one.
    fn holders_of(
        self: &Arc<Self>,
        queues: impl IntoIterator<Item = Arc<Queue>>,
    ) -> Vec<Arc<Grant>> {
        let mut holders = Vec::new();
        for other in queues {
            if !Arc::ptr_eq(&other, self) {
                holders.extend(other.in_the_way());
            }
            holders.extend(other.common.singles.holders());
        }
        holders
    }

    /// The other queues of this lock in this session, those for a single acquire included.
    fn queues_beside(self: &Arc<Self>) -> impl Iterator<Item = Arc<Queue>> {
        let queues = self.session().local_queues().all_under(self.path());
        queues
            .into_iter()
            .filter_map(|queue| of_type(&queue))
            .filter(|other| !Arc::ptr_eq(other, self))
    }

    /// Whether another queue of this session is creating a node for a caller that this one stops.
    /// That node is ahead.
    fn is_stuck_beside(self: &Arc<Self>, who: &Caller, mode: Mode) -> bool {
        self.queues_beside().any(|other| {
            let inner = other.lock();
            let first = inner.state.waiting().next();
            let first = first.filter(|_| matches!(inner.state.phase(), Phase::Fetching { .. }));
            first.is_some_and(|first| is_stuck(mode, [(first.mode, is_stopped(who, first))]))
        })
    }

    /// These callers only tried, and hold the lock now. A waiter in another queue of this session
    /// that blocks the thread of one of them gets an error.
    fn refuse_beside(self: &Arc<Self>, tried: &[(Caller, Mode)]) {
        for other in self.queues_beside() {
            let mut inner = other.lock();
            let todo = inner.state.refuse_behind(tried);
            drop(other.carry_out(inner, todo));
        }
    }

    /// Who holds and who waits, and in which way.
    fn users<'a>(
        &'a self,
        inner: &'a Inner,
        now: Instant,
    ) -> impl Iterator<Item = (Mode, Held)> + 'a {
        let holders = inner.state.holders().filter_map(Weak::upgrade);
        let holders = holders.map(move |by| (by.mode(), by.describe(now)));
        let waiting = move |waiting: &Waiter| {
            let waited = now.since(waiting.since);
            let lock = &self.common.target.lock;
            (waiting.mode, describe_waiter(lock, &waiting.who, &waiting.label, waited))
        };
        holders.chain(inner.state.waiting().map(waiting))
    }

    fn in_the_way(&self) -> Vec<Arc<Grant>> {
        self.lock().state.in_the_way().filter_map(Weak::upgrade).collect()
    }

    /// Describes that the caller holds this lock itself.
    fn perhaps(&self, by: &Arc<Grant>) -> Perhaps {
        let (by, clock) = (Arc::downgrade(by), self.session().clock().clone());
        Perhaps::new(clock, self.lock_name().clone(), move || {
            let by = by.upgrade().filter(|by| by.is_kept_by_guard())?;
            Some(format!("{} holds the lock itself, by a guard outside of any scope", by.who()))
        })
    }

    fn grant(
        self: &Arc<Self>,
        waiting: &Waiter,
        lease: &Arc<Lease>,
        now: Instant,
    ) -> (Weak<Grant>, Hold) {
        let (source, lease, linger) = (self.clone(), lease.clone(), waiting.queue_policy.linger);
        let token = lease.next_token();
        let grant = Grant::new(source, lease, token, (waiting.who, waiting.mode), linger, now)
            .with_label(waiting.label.clone())
            .behind(waiting.ahead);
        let grant = Arc::new(grant);
        self.note_single(&grant);
        (Arc::downgrade(&grant), grant.hold())
    }

    /// Tells the observers of a grant that was passed on.
    fn tell_handed_on(&self, to: Option<&HandedOn>) {
        let Some(&(mode, token)) = to else { return };
        self.session().events().tell(|| {
            let (lock, pattern) = (self.lock_name().clone(), self.pattern().text());
            Event::HandedOn { lock, pattern, mode, token }
        });
    }

    /// The queue of a single acquire reports its holder.
    fn note_single(&self, holder: &Arc<Grant>) {
        if self.main.is_some() {
            self.common.singles.note(holder);
        }
    }

    /// Carries out what the state decided, after the state is unlocked. Returns the deletion of the
    /// node.
    fn carry_out(
        self: &Arc<Self>,
        inner: MutexGuard<'_, Inner>,
        mut todo: Todo<Lease>,
    ) -> Option<Deletion> {
        let (next, others) = (todo.wake.take(), std::mem::take(&mut todo.wake_all));
        let deletion = match todo.only_wakes() {
            true => {
                drop(inner);
                None
            }
            false => self.carry_out_more(inner, todo),
        };
        next.into_iter().for_each(wake);
        others.into_iter().for_each(wake);
        deletion
    }

    /// The rest of it, before anybody is woken.
    fn carry_out_more(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner>,
        todo: Todo<Lease>,
    ) -> Option<Deletion> {
        // A lost lease that is given back late has no companion any more: the present one is
        // another's.
        let ended = todo.release.as_ref().and_then(|released| {
            let is_its = |lease: &Weak<Lease>| std::ptr::eq(lease.as_ptr(), &raw const **released);
            let companion = inner.companion.take_if(|(lease, _)| is_its(lease));
            companion.map(|(_, stop)| stop)
        });
        let cancelled = todo.cancel.then(|| inner.driver.take()).flatten();
        let fetch = todo.fetch.map(|Fetch { driver, once, mode }| {
            let seen = Seen::default();
            inner.driver = Some(seen.clone());
            let lingers =
                inner.state.waiting().any(|waiting| !waiting.queue_policy.linger.is_zero());
            let first = inner.state.waiting().next();
            let stop_at = first.map_or(StopAt::Lost, |first| first.queue_policy.stop_at);
            let label = first.and_then(|first| first.label.clone());
            let has_many_nodes = self.main.is_some();
            let how = How { lingers, has_many_nodes, stop_at, label, ..How::one(mode, once) };
            (driver, how, seen)
        });
        let accompany = todo.accompany.map(|lease| {
            let stop = Arc::new(Notify::new());
            inner.companion = Some((Arc::downgrade(&lease), stop.clone()));
            (lease, stop)
        });
        drop(inner);
        if let Some(stop) = ended {
            stop.notify_one();
        }
        if let Some(driver) = cancelled {
            driver.stop();
        }
        // The deletion is sent before the creation of the next node.
        let quiet = todo.release.is_some() || todo.cancel;
        let deletion = todo.release.and_then(|lease| lease.release());
        todo.let_go.into_iter().for_each(|lease| lease.let_go());
        if let Some((driver, how, seen)) = fetch {
            let (queue, stop) = (self.clone(), seen.clone());
            let (lane_permit, place) = self.assign();
            let spawner = lane_permit.lane().spawner().clone();
            spawner.spawn_until(stop, move || queue.fetch(lane_permit, place, (driver, how), seen));
        }
        if let Some(lease) = todo.ask {
            let queue = self.clone();
            self.session().spawner().spawn(async move {
                let behind = loop {
                    if let Some(behind) = queue.is_anybody_behind(&lease).await {
                        break behind;
                    }
                    if !queue.lock().state.asks_again(&lease) {
                        break true;
                    }
                    lease.generation().pause(RetryPolicy::default().pause(3)).await;
                };
                let (now, mut inner) = (queue.now(), queue.lock());
                let handed = OnceCell::new();
                let give =
                    |w: &Waiter, lease: &Arc<Lease>| noted(queue.grant(w, lease, now), &handed);
                let busy = |lease: &Arc<Lease>| queue.busy(lease);
                let todo = inner.state.asked(&lease, behind, now, give, busy);
                drop(queue.carry_out(inner, todo));
                queue.tell_handed_on(handed.get());
            });
        }
        if let Some((lease, stop)) = accompany {
            self.session().spawner().spawn(self.clone().accompany(lease, stop));
        }
        if quiet {
            self.session().local_queues().left();
        }
        if !todo.tried.is_empty() {
            self.refuse_beside(&todo.tried);
        }
        deletion
    }

    /// A place on a connection. Acquires of one lock with nodes of their own use the same
    /// connection while any of these requests is pending: requests on several connections may
    /// overtake each other, and an order is promised.
    fn assign(&self) -> (LanePermit, Option<(InOrder, SendTurn)>) {
        let Common { session, singles, .. } = &*self.common;
        if self.main.is_none() {
            return (session.assign(), None);
        }
        // Acquires with other options are in another queue.
        let under = session.local_queues().under(self.path());
        let mains: Vec<_> = under.iter().filter_map(of_type::<Queue>).collect();
        let others = mains.iter().map(|other| &other.common.singles);
        let (lane_permit, place, turn) = singles.assign(others, || session.assign());
        (lane_permit, Some((place, turn)))
    }

    /// Acquires a node.
    async fn fetch(
        self: Arc<Self>,
        lane_permit: LanePermit,
        place: Option<(InOrder, SendTurn)>,
        (driver, how): (u64, How),
        seen: Seen,
    ) {
        let (place, turn) = place.unzip();
        // Pinned here: a future that is passed by value takes up its memory again in each caller.
        let result = {
            let Common { target, vanished, .. } = &*self.common;
            let turn = turn.as_ref();
            let acquiring = pin!(acquire(target, vanished, &lane_permit, how, &seen, turn));
            let telling = pin!(self.tell_of_obstacles(driver, &seen, place));
            catch(self.layout(), or(acquiring, telling)).await
        };
        drop((lane_permit, turn));
        let (now, mut inner) = (self.now(), self.lock());
        let give = |w: &Waiter, lease: &Arc<Lease>| self.grant(w, lease, now);
        let busy = |lease: &Arc<Lease>| self.busy(lease);
        // A lock may be held for long, and what stops its driver need not be.
        if inner.state.is_fetching(driver) {
            inner.driver = None;
        }
        let todo = inner.state.fetched(driver, result.map(Arc::new), now, give, busy);
        drop(self.carry_out(inner, todo));
    }

    /// Tells callers that do not wait who is in the way, as soon as that is known. Does not end.
    async fn tell_of_obstacles<T>(
        self: &Arc<Self>,
        driver: u64,
        seen: &Seen,
        mut place: Option<InOrder>,
    ) -> T {
        loop {
            let obstacle = seen.next().await;
            // It has its node: later ones are behind it on any connection.
            drop(place.take());
            if !self.lock().state.anybody_tries() {
                continue;
            }
            let busy = match obstacle.ask().await {
                Ok(busy) => busy,
                // The driver is ahead in any case.
                Err(RequestError::NoNode) => LockError::new(ErrorKind::Busy, ""),
                // The driver looks again, too.
                Err(_) => continue,
            };
            let mut inner = self.lock();
            let todo = inner.state.met(driver, || busy.clone());
            drop(self.carry_out(inner, todo));
        }
    }

    /// The error of a lock that another caller of this process was just given.
    fn busy(&self, lease: &Lease) -> LockError {
        let owner = self.session().runtime().holder(self.session().app(), Duration::ZERO);
        let holder = Holder { owner, node: lease.node_name().to_owned(), ahead: 1 };
        LockError::new(ErrorKind::Busy, "").held_by(Some(holder))
    }

    fn stands_behind(&self, children: &[String], lease: &Lease) -> bool {
        let driver = &self.common.target.driver;
        driver.anybody_behind(&driver.queue(children), lease.node_name())
    }

    /// Whether another contender waits behind this node; `None` if nobody replies.
    async fn is_anybody_behind(&self, lease: &Lease) -> Option<bool> {
        let coordinator = lease.generation().coordinator();
        let listed = match coordinator.children(self.path()).await {
            Ok(listed) => listed,
            Err(error) if error.is_definite() => return Some(true),
            Err(_) => return None,
        };
        let looked = async { Ok(self.stands_behind(&listed, lease)) };
        Some(catch(self.layout(), looked).await.unwrap_or(true))
    }

    /// Watches for contenders behind a node, and ends its lingering.
    async fn accompany(self: Arc<Self>, lease: Arc<Lease>, stop: Arc<Notify>) {
        let stopped = async {
            stop.notified().await;
            Ok(())
        };
        let watching = async {
            let mut watch: Option<Watch> = None;
            // If there are too many watches, no node lingers.
            let Some(_watching) = lease.generation().watches().take([self.path()]) else {
                return self.looked_behind(&lease, Some(true));
            };
            loop {
                if watch.is_none() {
                    let coordinator = lease.generation().coordinator();
                    let listed = coordinator.children_watched(self.path()).await;
                    let behind = match listed {
                        Ok((children, watching)) => {
                            watch = Some(watching);
                            Some(self.stands_behind(&children, &lease))
                        }
                        // It may not look, or the directory is gone.
                        Err(error) if error.is_definite() => Some(true),
                        // It looks again. A connection in doubt ends the lingering in any case.
                        Err(_) => None,
                    };
                    self.looked_behind(&lease, behind);
                }
                let mut changed = std::pin::pin!(lease.generation().changed());
                changed.as_mut().enable();
                let link = lease.generation().coordinator().link();
                let Some(until) = self.linger_on(&lease, link != Link::Up) else { return };
                // While a caller holds the lock, there is nothing to end; it looks again from time
                // to time.
                let until = until.min(self.now() + times::LINGERING);
                let fired = async {
                    match watch.as_mut() {
                        Some(watching) => {
                            watching.await;
                        }
                        None => std::future::pending().await,
                    }
                    true
                };
                let other = async {
                    let timer = self.session().clock().sleep_until(until);
                    let relinked = async {
                        lease.generation().coordinator().link_changed(link).await;
                    };
                    let news = or(changed, relinked);
                    or(timer, news).await;
                    false
                };
                if or(fired, other).await {
                    watch = None;
                }
            }
        };
        let watching = async {
            watching.await;
            Ok(())
        };
        if catch(self.layout(), or(stopped, watching)).await.is_err() {
            self.looked_behind(&lease, Some(true));
        }
    }

    fn looked_behind(self: &Arc<Self>, lease: &Arc<Lease>, behind: Option<bool>) {
        let mut inner = self.lock();
        let todo = inner.state.looked_behind(lease, behind);
        drop(self.carry_out(inner, todo));
    }

    fn linger_on(self: &Arc<Self>, lease: &Arc<Lease>, doubt: bool) -> Option<Instant> {
        let (now, mut inner) = (self.now(), self.lock());
        let (sleep, todo) = inner.state.linger_on(lease, doubt, now);
        drop(self.carry_out(inner, todo));
        sleep
    }

    /// Creates a reader's node in the place of a writer's, which is then deleted.
    async fn step_down_to_reader(self: Arc<Self>, sole: Sole) -> Result<Hold, (LockError, Hold)> {
        let Some(writer) = sole.grant().cloned() else { return Err((closed(), Hold::none())) };
        let from = writer.lease().clone();
        let standing_in =
            stand_in(&self.common.target, self.session().runtime(), (&from, writer.label()));
        let stood_in = catch(self.layout(), standing_in).await;
        let stood_in = stood_in.and_then(|to| to.ok_or_else(|| writer.lost_error()));
        let to = match stood_in {
            Ok(to) => Arc::new(to),
            Err(error) => return Err((error, sole.put_back())),
        };
        let now = self.now();
        let source: Arc<dyn GrantSource> = self.clone();
        let (who, token) = ((*writer.who(), Mode::Read), to.next_token());
        let reader = Grant::new(source, to.clone(), token, who, writer.linger(), now);
        let reader = Arc::new(reader.with_label(writer.label().cloned()));
        self.note_single(&reader);
        let granted = reader.clone().hold();
        self.stepped_down((&from, to.clone()), Arc::downgrade(&reader), now);
        sole.forget();
        if let Some(deletion) = from.release() {
            // If the server refuses it, the session is retired, and the observer is told. A waiter
            // has no guard meanwhile that could report a loss.
            or(async { drop(deletion.await) }, to.lost()).await;
        }
        // The writer has ended, and what is lost is the reader's.
        if to.is_valid() { Ok(granted) } else { Err((reader.lost_error(), Hold::none())) }
    }

    fn stepped_down(
        self: &Arc<Self>,
        nodes: (&Arc<Lease>, Arc<Lease>),
        by: Weak<Grant>,
        now: Instant,
    ) {
        let mut inner = self.lock();
        let give = |w: &Waiter, lease: &Arc<Lease>| self.grant(w, lease, now);
        let busy = |lease: &Arc<Lease>| self.busy(lease);
        let todo = inner.state.stepped_down(nodes, by, now, give, busy);
        drop(self.carry_out(inner, todo));
    }
}

/// The mode and the token of a grant that was passed on.
type HandedOn = (Mode, FencingToken);

/// Notes the first grant that is passed on.
fn noted(granted: (Weak<Grant>, Hold), first: &OnceCell<HandedOn>) -> (Weak<Grant>, Hold) {
    if let Some(grant) = granted.1.grant() {
        let _ = first.set((grant.mode(), grant.token()));
    }
    granted
}

/// Whether a waiter can only continue when `who` does. One that only tries may be refused.
fn is_stopped(who: &Caller, waiter: &Waiter) -> bool {
    !waiter.once && stops_waiter(who, &waiter.who)
}

/// Whether a newcomer is the holder that lost this lease. Another branch of it may still work under
/// the lost guard; it was told, and only the token protects from it. The branch that starts over
/// would wait for itself for ever.
fn starts_anew(who: &Caller, holder: &Grant) -> bool {
    holder.is_kept_by_guard() && who.is_same(holder.who()) && !holder.lease().is_valid()
}

impl GrantSource for Queue {
    fn session(&self) -> &Session {
        &self.common.session
    }

    fn lock_name(&self) -> &Arc<str> {
        &self.common.target.lock
    }

    fn pattern(&self) -> Pattern {
        self.common.target.pattern
    }

    fn path(&self) -> &str {
        self.common.target.directory.as_str()
    }

    fn layout(&self) -> &dyn LockDriver {
        &*self.common.target.driver
    }

    fn holder_here(&self, place: Option<Place>) -> Option<Holder> {
        let (inner, now) = (self.lock(), self.now());
        let Phase::Held { lease, .. } = inner.state.phase() else { return None };
        if !lease.is_valid_at(now) || !inner.state.excludes(place) {
            return None;
        }
        let node = lease.node_name().to_owned();
        let by = inner.state.holders().find_map(Weak::upgrade);
        let held_for = by.as_ref().map(|by| now.since(by.since())).unwrap_or_default();
        let label = by.as_ref().and_then(|by| by.label().map(|label| &**label));
        let owner = self.session().runtime().holder(self.session().app(), held_for).labelled(label);
        Some(Holder { owner, node, ahead: 1 + inner.state.ahead_of(place) })
    }

    /// When it is dropped, it continues in the background, and its result is released.
    fn step_down(self: Arc<Self>, writer: Sole) -> SteppingDown {
        let (tell, told) = oneshot::channel();
        let spawner = self.session().spawner().clone();
        let work = self.step_down_to_reader(writer);
        spawner.spawn(async move { drop(tell.send(work.await)) });
        Box::pin(async move { told.await.unwrap_or_else(|_| Err((closed(), Hold::none()))) })
    }

    fn release(self: Arc<Self>, grant: &Grant, now: Instant) -> Option<Deletion> {
        let (mut inner, handed) = (self.lock(), OnceCell::new());
        let give = |w: &Waiter, lease: &Arc<Lease>| noted(self.grant(w, lease, now), &handed);
        let is_holder = |by: &Weak<Grant>| std::ptr::eq(by.as_ptr(), grant);
        let (lease, linger) = (grant.lease(), grant.linger());
        let busy = |lease: &Arc<Lease>| self.busy(lease);
        let todo = inner.state.release(lease, is_holder, linger, now, give, busy);
        let deletion = self.carry_out(inner, todo);
        self.tell_handed_on(handed.get());
        deletion
    }
}

impl WaitQueue for Queue {
    fn poll(&self, place: Place, waker: &Waker) -> Poll<Option<Outcome<Hold>>> {
        self.lock().state.poll(place, waker)
    }

    fn leave(self: &Arc<Self>, place: Place) {
        let mut inner = self.lock();
        let (untaken, todo) = inner.state.leave(place);
        drop(self.carry_out(inner, todo));
        // A grant that nobody took passes to the next.
        drop(untaken);
    }

    fn waiter(&self, place: Place) -> Option<(Mode, Instant)> {
        let inner = self.lock();
        inner.state.waiter(place).map(|waiter| (waiter.mode, waiter.since))
    }

    fn is_between_holders(&self, place: Option<Place>) -> bool {
        let state = &self.lock().state;
        let between = matches!(state.phase(), Phase::Asking { .. } | Phase::Lingering { .. });
        between && state.excludes(place)
    }

    async fn ask(&self) -> Option<Result<LockError, RequestError>> {
        let obstacle = self.lock().obstacle()?;
        let asked = catch(self.layout(), async { Ok(obstacle.ask().await) });
        // The result of the driver is that of the caller.
        Some(asked.await.unwrap_or_else(Ok))
    }
}

impl LocalQueue for Queue {
    fn driver(&self) -> &Arc<dyn LockDriver> {
        &self.common.target.driver
    }

    fn held(&self) -> Vec<Held> {
        let (inner, now) = (self.lock(), self.now());
        self.users(&inner, now).map(|(_, held)| held).collect()
    }

    fn tally(&self, each: &mut dyn FnMut(Pattern, Mode, bool)) {
        let inner = self.lock();
        let holders = inner.state.holders().filter_map(Weak::upgrade);
        holders.for_each(|by| each(self.common.target.pattern, by.mode(), true));
        inner.state.waiting().for_each(|other| each(self.common.target.pattern, other.mode, false));
    }

    fn holding(&self, path: &str) -> Option<Holding> {
        Grant::holding(self.lock().state.holders(), path, self.now())
    }

    fn is_semaphore(&self) -> bool {
        false
    }

    fn user(&self) -> Option<(Mode, Held)> {
        let (inner, now) = (self.lock(), self.now());
        let user = self.users(&inner, now).next();
        // Those of single acquires are in queues of their own, which other sessions do not look at.
        let single = || self.common.singles.holders().into_iter().next();
        user.or_else(|| single().map(|by| (by.mode(), by.describe(now))))
    }

    fn is_beside_another(&self) -> &AtomicBool {
        &self.common.beside
    }

    fn close(self: Arc<Self>) {
        let mut inner = self.lock();
        let todo = inner.state.close(|| closed().on(self.common.target.lock.clone()));
        drop(self.carry_out(inner, todo));
    }

    fn leases_lost(self: Arc<Self>) {
        let (now, mut inner) = (self.now(), self.lock());
        let todo = inner.state.leases_lost(now);
        drop(self.carry_out(inner, todo));
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.session().local_queues().forget(&self.key);
    }
}
