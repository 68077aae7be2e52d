//! The queue of a mutex or a read/write lock in this process.

use std::cell::OnceCell;
use std::future::Future;
use std::iter::empty;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_lite::future::or;
use tokio::sync::{Notify, oneshot};

use crate::acquire::acquire_loop::acquire;
use crate::acquire::lease::Lease;
use crate::acquire::obstacle::Obstacle;
use crate::acquire::seen::{Asked, Seen};
use crate::acquire::send_order::SendTurn;
use crate::acquire::stand_in::stand_in;
use crate::acquire::target::{NodeRequest, Target};
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::policy::{Requeue, StopAt};
use crate::base::unharmed::unharming;
use crate::layout::driver::LockDriver;
use crate::layout::refusals::mixed;
use crate::local::callers::Decides;
use crate::local::grant::{Grant, GrantSource, Hold, Sole, SteppingDown, Terms};
use crate::local::itself::{self, is_stuck, starts_anew, stops_holder, stops_waiter};
use crate::local::kinds;
use crate::local::panics::catch;
use crate::local::queue::{Engine, Granting, InQueue, Queue};
use crate::local::singles::InOrder;
use crate::local::state::{Conflict, Phase, State};
use crate::local::todo::{Fetch, Joined as Decided};
use crate::local::waiter::Waiter;
use crate::local::waiters::Place;
use crate::session::handle::Session;
use crate::session::lane::{LanePermit, closed};
use crate::session::local_queues::{LocalQueue, of_type};

mod behind;
mod beside;
mod heir;
mod stuck;

use beside::is_stopped;
use heir::{Awaited, Heir};

/// The queue of a mutex or a read/write lock.
pub type LockQueue = Queue<Locks>;

/// What is peculiar to it.
#[derive(Debug)]
pub struct Locks {
    target: Target,
    /// How often to begin again after nodes were deleted by others.
    requeue: Requeue,
    /// Whether it was checked that this process does not use the lock in another layout.
    unrivalled: AtomicBool,
    /// Whether this session has, or had, another queue of the lock, for other options.
    divided: AtomicBool,
}

impl AsRef<Seen> for Seen {
    fn as_ref(&self) -> &Seen {
        self
    }
}

impl Queue<Locks> {
    /// Returns the queue of a lock in this process: the one in use, or a new one.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](crate::base::error_kind::ErrorKind::InvalidOption) if this process uses the lock in another
    /// layout.
    pub fn of(
        session: &Session,
        target: Target,
        (stop_at, requeue): (StopAt, Requeue),
    ) -> Result<Arc<Self>, LockError> {
        let (directory, key, driver) =
            (target.directory.clone(), target.key(stop_at, requeue), target.driver.clone());
        let (lock, local_queues) = (target.lock.clone(), session.local_queues());
        let make = |key| {
            let [unrivalled, divided] = [(); 2].map(|()| AtomicBool::new(false));
            Queue::new(session, Locks { target, requeue, unrivalled, divided }, key)
        };
        let refuse = |present: &dyn LockDriver| mixed(present, &*driver).on(lock.clone());
        let queue: Arc<Self> =
            local_queues.local_queue(key, make).map_err(|other| refuse(&**other.driver()))?;
        let is_rival = |present: &Arc<dyn LockDriver>| !driver.is_same_layout(&**present);
        if is_rival(queue.driver()) {
            return Err(refuse(&**queue.driver()));
        }
        // With other options, and in other sessions of this process. A queue that comes later finds
        // this one.
        let Locks { unrivalled, divided, .. } = queue.engine();
        if !unrivalled.load(Ordering::Acquire) {
            let mut others = local_queues.under(directory.as_str());
            for other in others.iter().filter_map(of_type::<Self>) {
                if !Arc::ptr_eq(&other, &queue) {
                    other.engine().divided.store(true, Ordering::Release);
                    divided.store(true, Ordering::Release);
                }
            }
            others.extend(local_queues.elsewhere(directory.as_str()));
            // A semaphore is another kind of lock, whatever its layout.
            others.retain(|other| !other.is_semaphore());
            if let Some(rival) = others.iter().map(|other| other.driver()).find(|d| is_rival(d)) {
                return Err(refuse(&**rival));
            }
            kinds::meet(local_queues, directory.as_str(), &*queue);
            unrivalled.store(true, Ordering::Release);
        }
        Ok(queue)
    }

    /// How a node is acquired for the present waiters.
    fn request(&self, fetch: &Fetch, has_many_nodes: bool) -> NodeRequest {
        let inner = self.lock();
        let lingers = inner.state.waiting().any(|waiting| !waiting.queue_policy.linger.is_zero());
        let label = inner.state.waiting().next().and_then(|first| first.label.clone());
        let request = NodeRequest::one(fetch.wants, fetch.once);
        NodeRequest { lingers, has_many_nodes, stop_at: fetch.stop_at, label, ..request }
    }

    /// Tells those who do not wait who is ahead of an attempt.
    async fn tell_of(self: &Arc<Self>, driver: u64, obstacle: Obstacle) {
        if let Some(told) = obstacle.ask_for_tries().await {
            drop(self.decide(|state| state.met(driver, || told.clone())));
        }
    }

    /// The same where a waiter blocks its thread: it is refused behind what that thread has lost.
    async fn tell_blocked(self: Arc<Self>, driver: u64, obstacle: Obstacle) {
        if self.lock().state.anybody_tries() {
            self.tell_of(driver, obstacle.clone()).await;
        }
        self.refuse_behind_lost(&obstacle).await;
    }

    /// Refuses those who wait for the reader that a writer was to become, if none is let in beside it and they keep
    /// it from its end.
    fn refuse_stuck_behind(self: &Arc<Self>, holder: &Grant) {
        let waits = |other: &Waiter| !other.once && stops_holder(&other.who, holder);
        for queue in self.queues_beside().chain([self.clone()]) {
            drop(queue.decide(|state| state.refuse(waits, itself::stuck)));
        }
    }

    /// Creates a reader's node in the place of a writer's, which is then deleted.
    async fn step_down_to_reader(
        self: Arc<Self>,
        sole: Sole,
        heir: Heir,
    ) -> Result<Hold, (LockError, Hold)> {
        let Some(writer) = sole.grant().cloned() else { return Err((closed(), Hold::none())) };
        let from = writer.lease.clone();
        let standing_in = stand_in(
            &self.engine().target,
            self.session().runtime(),
            (&from, writer.label.as_ref()),
        );
        let stood_in = catch(self.layout(), standing_in).await;
        let stood_in = stood_in.and_then(|to| to.ok_or_else(|| writer.lost_error()));
        let to = match stood_in {
            Ok(to) => Arc::new(to),
            Err(error) => {
                let hold = sole.put_back();
                self.refuse_stuck_behind(&writer);
                return Err((error, hold));
            }
        };
        let (kept, who) = writer.keeper();
        let now = self.now();
        let (lease, token, mode) = (to.clone(), to.next_token(), Mode::Read);
        let terms =
            Terms { lease, token, mode, who, ahead: 0, since: now, ..Terms::clone(&writer) };
        let reader = Grant::new(terms, empty());
        reader.keep(kept);
        heir.is_made(&reader);
        self.note_single(&reader);
        let granted = reader.clone().hold();
        let (nodes, by) = ((&from, to.clone()), Arc::downgrade(&reader));
        let beside = Granting::new(&self, now);
        // Before readers enter: whoever has a view of the writer must not write beside them.
        sole.forget();
        let in_doubt = from.has_unanswered_writes();
        drop(self.decide(|state| state.stepped_down(nodes, by, in_doubt, &beside)));
        beside.tell_handed_on();
        self.forget_single();
        if in_doubt || to.is_revoked() {
            self.refuse_stuck_behind(&reader);
        }
        if let Some(deletion) = from.release() {
            // If the server refuses it, the session is retired, and the observer is told. A waiter
            // has no guard meanwhile that could report a loss.
            or(async { drop(deletion.await) }, to.lost()).await;
        }
        // The writer has ended, and what is lost is the reader's.
        if to.is_valid() { Ok(granted) } else { Err((reader.lost_error(), Hold::none())) }
    }
}

impl Engine for Locks {
    type Wants = Mode;
    type State = State<Lease, Weak<Grant>, Hold>;
    type Looks = Seen;
    type Fetched = Lease;

    const IS_SEMAPHORE: bool = false;

    fn target(&self) -> &Target {
        &self.target
    }

    fn mode(wants: &Mode) -> Mode {
        *wants
    }

    fn seen(looks: &Seen) -> &Seen {
        looks
    }

    fn take_place(
        queue: &Arc<LockQueue>,
        waiting: Waiter,
        is_own: impl Fn(&Caller) -> bool,
    ) -> InQueue<Locks> {
        let (who, mode, since) = (waiting.who, waiting.wants, waiting.since);
        let may_stop = who.is_blocking() && !waiting.once;
        let mut inner = queue.lock();
        let own = OnceCell::new();
        let conflict = |by: &Weak<Grant>| {
            let Some(by) = by.upgrade() else { return Conflict::None };
            let stops = if stops_holder(&who, &by) { Conflict::Own } else { Conflict::None };
            // Only a holder that is the caller itself starts anew.
            let Some(keeper) = by.kept_by(&is_own) else { return stops };
            let conflict = match starts_anew(&who, &by) {
                // What goes is in nobody's way.
                true if by.begins_anew(&who) => return Conflict::LetGo,
                true => Conflict::None,
                false if by.is_valid() && by.mode == Mode::Read => Conflict::OwnRead,
                false if by.is_valid() => Conflict::Own,
                false => stops,
            };
            let _ = own.set((by, keeper));
            conflict
        };
        let by = Granting::new(queue, since);
        let seen = waiting.once && inner.looks().is_some_and(Seen::is_known);
        let (decided, todo) = inner.state.join(&waiting, &by, conflict, closed, seen);
        if let Decided::Granted(_) | Decided::Refused(_) = decided {
            drop(queue.carry_out(inner, todo));
            return (queue.joined(decided), None);
        }
        let others_may_hold = !inner.state.excludes_others();
        let looks = inner.looks().filter(|_| may_stop).cloned();
        let mut stuck = matches!(decided, Decided::Waits(_)) && may_stop;
        let mut ahead = Vec::new();
        if stuck {
            let holders = inner.state.in_the_way().filter_map(Weak::upgrade);
            ahead.extend(holders.map(|by| (by.mode_ahead(), stops_holder(&who, &by))));
            let before = inner.state.waiting().take(inner.state.waiters.len() - 1);
            ahead.extend(before.map(|other| (other.wants, is_stopped(&who, other))));
        }
        drop(queue.carry_out(inner, todo));
        if let Some(looks) = looks {
            // Whoever is in the way may be one that this caller stops.
            looks.look_again();
        }
        let joined = queue.joined(decided);
        let beside = if others_may_hold { queue.beside(&who) } else { Vec::new() };
        if stuck {
            stuck = queue.is_stuck_behind((&who, mode), ahead, &beside);
        }
        if stuck {
            joined.give_up();
            return (queue.refuse(itself::stuck()), None);
        }
        let of_own = |by: Arc<Grant>| by.kept_by(&is_own).map(|keeper| (by, keeper));
        let mut own = own.into_inner();
        if own.is_none() && others_may_hold {
            own = beside.into_iter().chain(queue.elsewhere()).find_map(of_own);
        }
        (joined, own.map(|(by, keeper)| queue.perhaps(&by, keeper)))
    }

    /// Not a future around another one, which each waiter would keep.
    fn acquire<'a>(
        queue: &'a LockQueue,
        (lane_permit, turn): (&'a LanePermit, Option<&'a SendTurn>),
        fetch: &'a Fetch,
        seen: &'a Seen,
    ) -> impl Future<Output = Result<Lease, LockError>> + Send {
        let Locks { target, requeue, .. } = queue.engine();
        let request = queue.request(fetch, turn.is_some());
        acquire(target, requeue, lane_permit, request, seen, turn)
    }

    async fn tell<T: Send>(
        queue: &Arc<LockQueue>,
        fetch: &Fetch,
        seen: &Seen,
        mut place: Option<InOrder>,
    ) -> T {
        loop {
            let obstacle = seen.next().await;
            // It has its node: later ones are behind it on any connection.
            drop(place.take());
            // Boxed, because most acquires meet nobody.
            if queue.blocks_a_thread() {
                Box::pin(queue.clone().tell_blocked(fetch.driver, obstacle)).await;
            } else if queue.lock().state.anybody_tries() {
                Box::pin(queue.tell_of(fetch.driver, obstacle)).await;
            }
        }
    }

    /// A waiter in another queue of this session, too, that blocks the thread of one of them.
    fn refuse_stuck(queue: &Arc<LockQueue>, tried: &[(Caller, Mode)]) {
        let (most, holders) = match queue.most() {
            1 => (1, Vec::new()),
            most => (most, queue.holders()),
        };
        let waits = |other: &Waiter| {
            if most > 1 {
                let stopped = holders.iter().filter(|by| stops_holder(&other.who, by)).count();
                return !other.once && stopped >= most;
            }
            let stops = |(who, mode): &(Caller, Mode)| (*mode, stops_waiter(&other.who, who));
            is_stuck(other.wants, tried.iter().map(stops))
        };
        for other in queue.queues_beside() {
            drop(other.decide(|state| state.refuse(waits, itself::stuck)));
        }
    }

    fn ask_behind(queue: &Arc<LockQueue>, lease: Arc<Lease>) {
        queue.session().spawner().spawn(queue.clone().ask_behind(lease));
    }

    fn accompany(queue: &Arc<LockQueue>, lease: Arc<Lease>, stop: Arc<Notify>) {
        queue.session().spawner().spawn(queue.clone().accompany(lease, stop));
    }

    fn holder_here(
        _: &LockQueue,
        state: &Self::State,
        place: Option<Place>,
        now: Instant,
    ) -> Option<(Arc<Lease>, Option<Arc<Grant>>)> {
        let Phase::Held { lease, .. } = state.phase() else { return None };
        let is_held = lease.is_valid_at(now) && state.excludes(place);
        is_held.then(|| (lease.clone(), state.holders().find_map(Weak::upgrade)))
    }

    async fn ask(queue: &LockQueue, until: Instant) -> Asked {
        let Some(seen) = queue.lock().looks().cloned() else { return Asked::Nobody };
        let asked = catch(queue.layout(), async { Ok(seen.ask(until).await) });
        // The result of the driver is that of the caller.
        asked.await.unwrap_or_else(Asked::Busy)
    }

    fn begin_anew(queue: &Arc<LockQueue>, grant: &Grant) {
        let is_it = |by: &Weak<Grant>| std::ptr::eq(by.as_ptr(), grant);
        drop(queue.decide(|state| state.begins_anew(is_it)));
    }

    /// When it is dropped, it continues in the background, and its result is released.
    fn step_down(queue: Arc<LockQueue>, writer: Sole) -> SteppingDown {
        let (tell, told) = oneshot::channel();
        let spawner = queue.session().spawner().clone();
        let heir = Heir::default();
        let awaited = Awaited(Some(heir.clone()));
        let work = queue.step_down_to_reader(writer, heir);
        spawner.spawn(async move { drop(tell.send(work.await)) });
        Box::pin(async move {
            let told = unharming(pin!(told)).await;
            awaited.end();
            let stepped = told.unwrap_or_else(|_| Err((closed(), Hold::none())))?;
            // It may have been told of long before it was polled.
            match stepped.grant().filter(|reader| !reader.is_valid()) {
                Some(reader) => Err((reader.lost_error(), Hold::none())),
                None => Ok(stepped),
            }
        })
    }
}
