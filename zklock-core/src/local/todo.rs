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

    /// Whether somebody asked for its release. Then it is not handed on.
    fn is_revoked(&self) -> bool;

    /// Whether its ZooKeeper session is used no more. That ends with the last node in it, so nobody keeps
    /// this one for longer than it is held.
    fn is_retired(&self) -> bool;

    /// Whether it may be kept when its holder lets go.
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
    /// Delete the nodes of these leases as well, which were lost and are only in the way.
    pub let_go: Vec<Arc<L>>,
    /// Stop the running driver.
    pub cancel: bool,
    /// Start a driver.
    pub fetch: Option<Fetch<W>>,
    /// Ask whether a contender is behind the node.
    pub ask: Option<Arc<L>>,
    /// Watch for contenders behind the node from now on.
    pub accompany: Option<Arc<L>>,
    /// These only tried, and were given what they want.
    pub tried: Vec<(Caller, W)>,
    /// Wake these.
    pub wake: Option<Waker>,
    /// And these.
    pub wake_all: Vec<Waker>,
}

impl<L, W> Default for Todo<L, W> {
    fn default() -> Self {
        Todo {
            release: None,
            more: Vec::new(),
            let_go: Vec::new(),
            cancel: false,
            fetch: None,
            ask: None,
            accompany: None,
            tried: Vec::new(),
            wake: None,
            wake_all: Vec::new(),
        }
    }
}

impl<L, W> Todo<L, W> {
    /// Whether there is nothing to do but to wake waiters: most often, this is all.
    pub fn only_wakes(&self) -> bool {
        let leases = self.release.is_some() || self.ask.is_some() || self.accompany.is_some();
        let drives = self.cancel || self.fetch.is_some();
        let lists = self.more.is_empty() && self.let_go.is_empty() && self.tried.is_empty();
        lists && !leases && !drives
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
