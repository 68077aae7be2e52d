//! The queue of one lock or semaphore in this process: what both have in common.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::acquire::lease::Lease;
use crate::acquire::target::Target;
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::{Holder, LockError};
use crate::base::owner::Owner;
use crate::base::policy::StopAt;
use crate::local::callers::Decides;
use crate::local::grant::{Grant, GrantSource, Hold};
use crate::local::kinds;
use crate::local::singles::Singles;
use crate::local::todo::{Joined as Decided, Lent};
use crate::local::waiter::Waiter;
use crate::session::handle::Session;
use crate::session::local_queues::{LocalQueues, of_type};
use crate::session::releaser::Deletions;

mod effects;
mod engine;
mod faces;
mod granting;
mod place;
mod untaken;

pub use engine::{Engine, InQueue, Shared, TodoOf};
pub use granting::Granting;
pub use place::{Joined, PlaceInQueue, busy, drop_unsaid, goes_on};

impl Lent for Lease {
    fn is_valid(&self, now: Instant) -> bool {
        self.is_valid_at(now)
    }

    fn is_held(&self) -> bool {
        Lease::is_valid(self)
    }

    fn is_revoked(&self) -> bool {
        Lease::is_revoked(self)
    }

    fn is_retired(&self) -> bool {
        self.generation().is_retired()
    }

    /// The ZooKeeper session of a valid lease is not over, which is not asked a second time. A fenced write that may still
    /// be applied must not be, once somebody else holds the lock: the deletion of the node comes behind it.
    fn may_stay(&self, now: Instant) -> bool {
        self.is_valid_at(now)
            && !self.is_revoked()
            && !self.generation().was_retired()
            && !self.has_unanswered_writes()
    }

    fn stop_at(&self) -> StopAt {
        Lease::stop_at(self)
    }
}

/// The queue of one lock or semaphore in this process. It lives as long as it is in use.
#[derive(Debug)]
pub struct Queue<E: Engine> {
    /// Its key among the session's local queues.
    key: Arc<str>,
    common: Arc<Common<E>>,
    /// For the queue of a single acquire: the queue of the lock.
    main: Option<Shared<E>>,
    state: Mutex<Inner<E>>,
}

/// What the queue of a lock has in common with those of its single acquires, of which there may be
/// thousands.
#[derive(Debug)]
struct Common<E> {
    session: Session,
    engine: E,
    /// The queues of single acquires.
    singles: Singles,
    /// Whether this process has, or had, another kind of lock of the same name.
    beside: AtomicBool,
}

/// What changes.
#[derive(Debug)]
pub struct Inner<E: Engine> {
    /// What decides.
    pub state: E::State,
    /// What the present driver reports, and what stops it.
    driver: Option<E::Looks>,
    /// Stops the present companion, with its lease.
    companion: Option<(Weak<Lease>, Arc<Notify>)>,
    /// Tells whoever let go of this lease of its deletion, or, when it is dropped, that there is none.
    undecided: Option<(Weak<Lease>, oneshot::Sender<Deletions>)>,
}

impl<E: Engine> Inner<E> {
    /// What the present driver has seen.
    pub fn looks(&self) -> Option<&E::Looks> {
        self.driver.as_ref()
    }

    /// Takes out who waits until it is decided what becomes of this lease, if anybody does.
    pub fn undecided(&mut self, lease: &Lease) -> Option<oneshot::Sender<Deletions>> {
        let is_its = |waits: &mut (Weak<Lease>, _)| std::ptr::eq(waits.0.as_ptr(), lease);
        self.undecided.take_if(is_its).map(|(_, tell)| tell)
    }
}

impl<E: Engine> Queue<E> {
    /// A queue with this key among the session's local queues.
    pub fn new(session: &Session, engine: E, key: Arc<str>) -> Shared<E> {
        let (session, singles, beside) =
            (session.clone(), Singles::default(), AtomicBool::new(false));
        Queue::make(Arc::new(Common { session, engine, singles, beside }), key, None)
    }

    /// A queue for a single acquire, which has its own place in ZooKeeper's queue and is not handed on.
    /// It refers to the queue of the lock, which others find: nobody looks at all pending acquires.
    pub fn single(main: &Shared<E>) -> Shared<E> {
        let make = |key| Queue::make(main.common.clone(), key, Some(main.clone()));
        main.local_queues().single_queue(main.lock_path(), make)
    }

    fn make(common: Arc<Common<E>>, key: Arc<str>, main: Option<Shared<E>>) -> Shared<E> {
        let state = E::State::new(common.session.is_closing());
        let state = Inner { state, driver: None, companion: None, undecided: None };
        let state = Mutex::new(state);
        Arc::new(Queue { key, common, main, state })
    }

    /// What it does in its own way.
    pub fn engine(&self) -> &E {
        &self.common.engine
    }

    /// The path of the name, where a lock of another kind has its nodes: of a semaphore, above that of
    /// its permits.
    pub fn lock_path(&self) -> &str {
        let Target { beside, directory, .. } = self.target();
        beside.as_ref().unwrap_or(directory).as_str()
    }

    /// The queues of single acquires of this lock.
    pub fn singles(&self) -> &Singles {
        &self.common.singles
    }

    /// The queue of the lock: this one, unless it is that of a single acquire.
    pub fn main(self: &Arc<Self>) -> &Shared<E> {
        self.main.as_ref().unwrap_or(self)
    }

    /// What its session has in use.
    pub fn local_queues(&self) -> &LocalQueues {
        self.common.session.local_queues()
    }

    /// The other queues of this lock in this session, those for a single acquire included.
    pub fn queues_beside(&self) -> impl Iterator<Item = Shared<E>> {
        let queues = self.local_queues().all_under(self.lock_path());
        let queues = queues.into_iter().filter_map(|queue| of_type::<Queue<E>>(&queue));
        queues.filter(|other| !std::ptr::eq(&**other, self))
    }

    /// Locks what changes.
    pub fn lock(&self) -> MutexGuard<'_, Inner<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of its session.
    pub fn now(&self) -> Instant {
        self.session().clock().now()
    }

    /// Takes the last place, or the lock if it is free. The result also says whether this may be a
    /// wait for oneself: `is_own` returns whether a caller acts for this one.
    pub fn join(
        self: &Arc<Self>,
        waiting: Waiter<E::Wants>,
        is_own: impl Fn(&Caller) -> bool,
    ) -> InQueue<E> {
        let mode = E::mode(&waiting.wants);
        let joined = E::take_place(self, waiting, is_own);
        if !self.common.beside.load(Ordering::Acquire) {
            return joined;
        }
        match kinds::check(self.local_queues(), self.lock_path(), mode) {
            Ok(()) => joined,
            Err(error) => {
                joined.0.give_up();
                (self.refuse(error), None)
            }
        }
    }

    /// Whether somebody waits here who blocks a thread.
    pub fn blocks_a_thread(&self) -> bool {
        self.lock().state.waiting().any(|waiting| !waiting.once && waiting.who.is_blocking())
    }

    /// What a caller gets who joined.
    pub fn joined(self: &Arc<Self>, decided: Decided<Hold>) -> Joined<E> {
        match decided {
            Decided::Granted(hold) => Joined::Granted(hold),
            Decided::Waits(place) => Joined::Waits(PlaceInQueue::new(self.clone(), place)),
            Decided::Busy => Joined::Busy(self.clone()),
            Decided::Refused(error) => self.refuse(error),
        }
    }

    /// A refusal that names the lock.
    pub fn refuse(&self, error: LockError) -> Joined<E> {
        Joined::Refused(error.on(self.lock_name().clone()))
    }

    /// Describes this process as the holder of a lease, which it has had for so long.
    fn holder(&self, lease: &Lease, held_for: Duration) -> Holder {
        let session = self.session();
        let owner = session.runtime().holder(session.app(), held_for);
        let owner = Owner { revoked: lease.is_revoked(), ..owner };
        Holder { owner, node: lease.node_name().to_owned(), ahead: 1 }
    }

    /// The queue of a single acquire reports its holder.
    pub fn note_single(&self, holder: &Arc<Grant>) {
        if self.main.is_some() {
            self.common.singles.note(holder);
        }
    }

    /// The same, when that holder has ended.
    pub fn forget_single(&self) {
        if self.main.is_some() {
            self.common.singles.forget_one();
        }
    }
}

impl<E: Engine> Drop for Queue<E> {
    fn drop(&mut self) {
        self.local_queues().forget(&self.key);
    }
}
