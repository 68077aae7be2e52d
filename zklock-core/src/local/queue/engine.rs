//! What the queues of locks and of semaphores do differently.

use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::{Joined, Queue};
use crate::acquire::lease::Lease;
use crate::acquire::seen::{Asked, Seen};
use crate::acquire::send_order::SendTurn;
use crate::acquire::target::Target;
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::local::callers::Decides;
use crate::local::grant::{Grant, Hold, Sole, SteppingDown};
use crate::local::itself::Perhaps;
use crate::local::singles::InOrder;
use crate::local::todo::{Fetch, Todo};
use crate::local::waiter::Waiter;
use crate::local::waiters::Place;
use crate::session::lane::LanePermit;

/// A queue as something to refer to.
pub type Shared<E> = Arc<Queue<E>>;

/// What is to be done for a queue.
pub type TodoOf<E> = Todo<Lease, <E as Engine>::Wants>;

/// The result of joining, and whether the caller may wait for itself.
pub type InQueue<E> = (Joined<E>, Option<Perhaps>);

/// What the queues of locks and of semaphores do differently.
pub trait Engine: Sized + Debug + Send + Sync + 'static {
    /// What a waiter wants.
    type Wants: Copy + Debug + Send + 'static;

    /// What decides.
    type State: Decides<Lease, Self::Wants, Weak<Grant>, Hold, Fetched: From<Self::Fetched>>
        + Debug
        + Send;

    /// What a driver has seen of those who are in its way.
    type Looks: Clone + Debug + Default + Send + Sync + AsRef<Seen>;

    /// What a driver acquires.
    type Fetched: Send;

    /// Whether it is one of permits.
    const IS_SEMAPHORE: bool;

    /// The nodes that are held.
    fn target(&self) -> &Target;

    /// The mode of those who want this.
    fn mode(wants: &Self::Wants) -> Mode;

    /// What a driver has seen by which a lock is busy.
    fn seen(looks: &Self::Looks) -> &Seen;

    /// Takes the last place, or the lock if it is free.
    fn take_place(
        queue: &Shared<Self>,
        waiting: Waiter<Self::Wants>,
        is_own: impl Fn(&Caller) -> bool,
    ) -> InQueue<Self>;

    /// Acquires what is wanted from ZooKeeper.
    fn acquire<'a>(
        queue: &'a Queue<Self>,
        with: (&'a LanePermit, Option<&'a SendTurn>),
        fetch: &'a Fetch<Self::Wants>,
        looks: &'a Self::Looks,
    ) -> impl Future<Output = Result<Self::Fetched, LockError>> + Send;

    /// Tells callers that only try who is in the way, as soon as that is known. Does not end.
    fn tell<T: Send>(
        queue: &Shared<Self>,
        fetch: &Fetch<Self::Wants>,
        looks: &Self::Looks,
        place: Option<InOrder>,
    ) -> impl Future<Output = T> + Send;

    /// These only tried, and were given what they want. A waiter that blocks the thread of one of
    /// them gets an error.
    fn refuse_stuck(queue: &Shared<Self>, tried: &[(Caller, Self::Wants)]);

    /// Finds out whether a contender is behind this node.
    fn ask_behind(_: &Shared<Self>, _: Arc<Lease>) {}

    /// Watches for contenders behind this node, until it is stopped.
    fn accompany(_: &Shared<Self>, _: Arc<Lease>, _stop: Arc<Notify>) {}

    /// A valid lease of a caller of this process who keeps out the waiter in a place, and that caller.
    fn holder_here(
        queue: &Queue<Self>,
        state: &Self::State,
        place: Option<Place>,
        now: Instant,
    ) -> Option<(Arc<Lease>, Option<Arc<Grant>>)>;

    /// Asks ZooKeeper who is in the way of the running driver, and returns what is known at that time.
    fn ask(queue: &Queue<Self>, until: Instant) -> impl Future<Output = Asked> + Send;

    /// As that of [`GrantSource`](crate::local::grant::GrantSource).
    fn step_down(queue: Shared<Self>, writer: Sole) -> SteppingDown;

    /// As that of [`GrantSource`](crate::local::grant::GrantSource).
    fn begin_anew(queue: &Shared<Self>, grant: &Grant);

    /// As that of [`GrantSource`](crate::local::grant::GrantSource).
    fn split(_: &Shared<Self>, _: &Grant, _permits: usize) -> Option<Hold> {
        None
    }
}
