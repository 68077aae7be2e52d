//! What the decisions of all local queues have in common: who waits, and who only tries.

use std::mem::take;
use std::ops::DerefMut;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::local::todo::{Fetch, Todo};
use crate::local::waiter::Waiter;
use crate::local::waiters::{Outcome, Place, Waiters};

/// The callers in a local queue. `W` is what they want, `O` a grant.
#[derive(Debug)]
pub struct Callers<W, O> {
    /// Those who wait, in their order.
    pub waiters: Waiters<Waiter<W>, Outcome<O>>,
    /// Whether the queue is closed.
    pub(super) closed: bool,
    /// Whether some waiter waits for ZooKeeper's reply only.
    tries: bool,
    drivers: u64,
}

impl<W: Copy, O> Callers<W, O> {
    /// Nobody.
    pub fn new(closed: bool) -> Self {
        Callers { waiters: Waiters::default(), closed, tries: false, drivers: 0 }
    }

    /// The waiters, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiter<W>> {
        self.waiters.iter()
    }

    /// The number of waiters ahead of the one in a place, or of a newcomer.
    pub fn ahead_of(&self, place: Option<Place>) -> usize {
        place.map_or(self.waiters.len(), |place| self.waiters.ahead_of(place))
    }

    /// The waiter in a place, perhaps with an outcome that it has not taken yet.
    pub fn waiter(&self, place: Place) -> Option<&Waiter<W>> {
        self.waiters.info(place)
    }

    /// Whether some waiter waits for ZooKeeper's reply only.
    pub fn anybody_tries(&self) -> bool {
        self.tries
    }

    /// Gives a newcomer the last place, behind so many holders.
    pub(super) fn enqueue(&mut self, waiter: &Waiter<W>, holders: usize) -> Place {
        self.tries |= waiter.once;
        let ahead = u32::try_from(self.waiters.len() + holders).unwrap_or(u32::MAX);
        self.waiters.join(Waiter { ahead, ..waiter.clone() })
    }

    /// A driver for the first waiter.
    pub(super) fn fetch(&mut self) -> Option<Fetch<W>> {
        let Waiter { wants, once, queue_policy, .. } = *self.waiters.first()?;
        self.drivers += 1;
        let (driver, since, stop_at) = (self.drivers, self.waiters.next(), queue_policy.stop_at);
        Some(Fetch { driver, wants, stop_at, once, since })
    }

    /// Tells callers that do not wait that somebody is in the way.
    pub(super) fn turn_away(&mut self, busy: impl Fn() -> LockError) -> Vec<Waker> {
        if !take(&mut self.tries) {
            return Vec::new();
        }
        self.waiters.settle_where(|other, _| other.once, |_| Err(busy()))
    }

    /// Closes the queue: waiters fail.
    pub(super) fn close(&mut self, error: impl Fn() -> LockError) -> Vec<Waker> {
        self.closed = true;
        self.waiters.settle_where(|_, _| true, |_| Err(error()))
    }
}

/// Makes grants, at one time.
pub trait Grants<L, W, B, O> {
    /// The time.
    fn now(&self) -> Instant;

    /// A holder and its grant, for a waiter, on one lease or several.
    fn grant(&self, to: &Waiter<W>, lease: &Arc<L>, more: impl Iterator<Item = Arc<L>>) -> (B, O);

    /// The error of a lock that another caller of this process was just given.
    fn busy(&self, lease: &Arc<L>) -> LockError;
}

/// The decisions of a local queue, without their effects. `L` is a lease, `W` what a waiter wants,
/// `B` a holder, `O` a grant.
pub trait Decides<L, W, B, O>: DerefMut<Target = Callers<W, O>> + Sized {
    /// What a driver acquires.
    type Fetched;

    /// No holders and no waiters.
    fn new(closed: bool) -> Self;

    /// The holders.
    fn holders<'a>(&'a self) -> impl Iterator<Item = &'a B>
    where
        B: 'a;

    /// Whether this driver is running.
    fn is_fetching(&self, driver: u64) -> bool;

    /// After some waiters left: makes sure that a running driver is for the first one, or for nobody.
    fn adjust(&mut self, todo: &mut Todo<L, W>);

    /// A driver is done. What it acquired is returned to be released if nobody wants it any more.
    fn fetched(
        &mut self,
        driver: u64,
        result: Result<Self::Fetched, LockError>,
        by: &impl Grants<L, W, B, O>,
    ) -> Todo<L, W>;

    /// A holder gave back what it held.
    fn release(
        &mut self,
        leases: impl IntoIterator<Item = Arc<L>>,
        is_holder: impl Fn(&B) -> bool,
        linger: Duration,
        by: &impl Grants<L, W, B, O>,
    ) -> Todo<L, W>;

    /// Closes the queue: waiters fail.
    fn close(&mut self, error: impl Fn() -> LockError) -> Todo<L, W>;

    /// Leases were lost, perhaps one of these.
    fn leases_lost(&mut self, now: Instant) -> Todo<L, W>;

    /// A driver saw somebody in its way, and waits: callers that only try are told.
    fn met(&mut self, driver: u64, busy: impl Fn() -> LockError) -> Todo<L, W>
    where
        W: Copy,
    {
        let mut todo = Todo::default();
        if self.is_fetching(driver) {
            todo.wake_all = self.turn_away(busy);
            self.adjust(&mut todo);
        }
        todo
    }

    /// Ends the wait of some with an error.
    fn refuse(
        &mut self,
        whom: impl Fn(&Waiter<W>) -> bool,
        error: impl Fn() -> LockError,
    ) -> Todo<L, W> {
        let wake_all = self.waiters.settle_where(|other, _| whom(other), |_| Err(error()));
        let mut todo = Todo { wake_all, ..Todo::default() };
        self.adjust(&mut todo);
        todo
    }

    /// A waiter gave up. Returns an outcome that it did not take, or its waker, to be dropped.
    fn leave(&mut self, place: Place) -> (Result<Outcome<O>, Option<Waker>>, Todo<L, W>) {
        let mut todo = Todo::default();
        let untaken = self.waiters.leave(place);
        self.adjust(&mut todo);
        (untaken, todo)
    }
}
