//! What the decisions of a local queue lead to.

use std::sync::Arc;
use std::task::Waker;

use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::policy::StopAt;
use crate::local::waiter::Waiter;
use crate::local::waiters::{Place, Ticket};

/// What the decisions need to know about a lease.
pub trait Lent {
    /// Whether it is certainly held now.
    fn is_valid(&self, now: Instant) -> bool;

    /// Whether it is held at this moment.
    fn is_held(&self) -> bool;

    /// Whether somebody asked for its release. Then it is not handed on.
    fn is_revoked(&self) -> bool;

    /// Whether its ZooKeeper session is used no more. That ends with the last node in it, so nobody keeps
    /// this one for longer than it is held.
    fn is_retired(&self) -> bool;

    /// Whether it may be kept when its holder lets go: it is valid, and neither revoked nor retired, and nothing that its
    /// holder wrote under it may still be applied.
    fn may_stay(&self, now: Instant) -> bool {
        self.is_valid(now) && !self.is_revoked() && !self.is_retired()
    }

    /// When it counts as lost.
    fn stop_at(&self) -> StopAt;
}

/// A lease in tests of the decisions, which is valid for ever or was lost.
#[cfg(test)]
#[derive(Debug)]
pub struct TestLease<T = ()> {
    /// Which of both.
    pub is_valid: bool,
    /// Its node.
    pub node: T,
}

#[cfg(test)]
impl<T> Lent for TestLease<T> {
    fn is_valid(&self, _: Instant) -> bool {
        self.is_valid
    }
    fn is_held(&self) -> bool {
        self.is_valid
    }
    fn is_revoked(&self) -> bool {
        false
    }
    fn is_retired(&self) -> bool {
        false
    }

    fn stop_at(&self) -> StopAt {
        StopAt::Lost
    }
}

/// A driver: an attempt to acquire what the first waiter wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch<W = Mode> {
    /// Its number.
    pub driver: u64,
    /// What it acquires.
    pub wants: W,
    /// When a lease counts as lost.
    pub stop_at: StopAt,
    /// Whether it waits for ZooKeeper's reply only, and not for other contenders.
    pub once: bool,
    /// Waiters from this number on came while it was running: its reply may be older than their
    /// call.
    pub since: Ticket,
}

impl<W: PartialEq> Fetch<W> {
    /// Whether it is what this waiter needs.
    pub fn is_for(&self, waiter: &Waiter<W>) -> bool {
        self.wants == waiter.wants && self.stop_at == waiter.queue_policy.stop_at
    }
}

/// What is to be done, in this order.
#[derive(Debug)]
#[must_use]
pub struct Todo<L, W = Mode> {
    /// Delete the node.
    pub release: Option<Arc<L>>,
    /// Of several permits: delete the other nodes.
    pub more: Vec<Arc<L>>,
    /// Stop the running driver.
    pub cancel: bool,
    /// Start a driver.
    pub fetch: Option<Fetch<W>>,
    /// Wake these.
    pub wake: Option<Waker>,
    /// And these.
    pub wake_all: Vec<Waker>,
    /// What is rarely to be done, before anybody is woken.
    pub rare: Option<Box<Rare<L, W>>>,
}

/// What is rarely to be done. It is kept apart, because each acquire and each release passes a [`Todo`] on
/// and drops it.
#[derive(Debug)]
pub struct Rare<L, W> {
    /// Ask whether a contender is behind the node.
    pub ask: Option<Arc<L>>,
    /// Whoever let go of this node waits until it is decided what becomes of it.
    pub undecided: Option<Arc<L>>,
    /// Watch for contenders behind the node from now on.
    pub accompany: Option<Arc<L>>,
    /// Wake the companion of this node, which would sleep for too long.
    pub awake: Option<Arc<L>>,
    /// Delete the nodes of these leases as well, which were lost and are only in the way.
    pub let_go: Vec<Arc<L>>,
    /// These only tried, and were given what they want.
    pub tried: Vec<(Caller, W)>,
}

impl<L, W> Default for Rare<L, W> {
    fn default() -> Self {
        let (ask, undecided, accompany, awake) = (None, None, None, None);
        Rare { ask, undecided, accompany, awake, let_go: Vec::new(), tried: Vec::new() }
    }
}

impl<L, W> Default for Todo<L, W> {
    fn default() -> Self {
        Todo {
            release: None,
            more: Vec::new(),
            cancel: false,
            fetch: None,
            wake: None,
            wake_all: Vec::new(),
            rare: None,
        }
    }
}

impl<L, W> Todo<L, W> {
    /// Whether there is nothing to do but to wake waiters: most often, this is all.
    pub fn only_wakes(&self) -> bool {
        let drives = self.cancel || self.fetch.is_some();
        self.release.is_none() && self.more.is_empty() && self.rare.is_none() && !drives
    }

    /// What is rarely to be done.
    pub fn rare(&mut self) -> &mut Rare<L, W> {
        self.rare.get_or_insert_default()
    }

    /// This waiter was given what it wants: whether it only tried matters to those whom it stops.
    pub fn was_given(&mut self, waiter: &Waiter<W>)
    where
        W: Copy,
    {
        if waiter.once {
            self.rare().tried.push((waiter.who, waiter.wants));
        }
    }

    /// Those who only tried, and were given what they want.
    pub fn tried(&self) -> &[(Caller, W)] {
        self.rare.as_ref().map_or(&[], |rare| &rare.tried)
    }
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
