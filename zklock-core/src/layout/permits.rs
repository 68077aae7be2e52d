//! The rule of a semaphore.
//!
//! ```text
//! Curator   <semaphore>/leases     three nodes and a limit of 3: the fourth waits until one is deleted
//!           <semaphore>/locks      a mutex, held by the one that waits in `leases`
//!
//! kazoo     <semaphore>            data `3`, and three nodes: nobody creates a fourth
//!           <semaphore>-__lock__   a mutex, held by the one that waits until there are fewer
//! ```

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::mode::Mode;
use crate::base::owner::Owner;
use crate::coordinator::node::NodeKind;
use crate::layout::contender::{Attempt, Contender};
use crate::layout::driver::LockDriver;
use crate::layout::kinds::LEASE;
use crate::layout::verdict::Verdict;

/// What follows the name of kazoo's semaphore in the name of its inner lock.
pub const KAZOO_INNER: &str = "-__lock__";

/// The permits of Curator's `InterProcessSemaphoreV2`: every child is a permit, also those of other clients.
#[derive(Clone)]
pub struct Permits {
    limit: Arc<AtomicU32>,
}

/// As it appears in errors.
impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Curator's InterProcessSemaphoreV2")
    }
}

impl Permits {
    /// Permits up to a limit, which may change.
    pub fn new(limit: Arc<AtomicU32>) -> Self {
        Permits { limit }
    }
}

fn read(limit: &AtomicU32) -> usize {
    limit.load(Ordering::Acquire) as usize
}

fn verdict(queue: &[Contender], mine: &Contender, limit: usize) -> Verdict {
    if mine.place_in(queue).is_none() {
        return Verdict::Missing;
    }
    match queue.len().saturating_sub(limit) {
        0 => Verdict::Held,
        excess => Verdict::Crowded { excess },
    }
}

impl LockDriver for Permits {
    fn name(&self) -> String {
        "Curator's InterProcessSemaphoreV2".to_owned()
    }

    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        ["_c_", &attempt.hyphenated(), LEASE].concat()
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let sequence = Contender::sequence_after(name, LEASE).unwrap_or_default();
        Some(Contender::new(name, sequence, Mode::Permit))
    }

    fn most(&self) -> Option<usize> {
        Some(read(&self.limit))
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        verdict(queue, mine, read(&self.limit))
    }

    /// Whatever the limit, which is compared elsewhere.
    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        (other as &dyn Any).is::<Self>()
    }
}

/// The permits of kazoo's `Semaphore`. Every child is a holder, so a node is created only if there
/// is room for it, and the nodes are counted once more when it exists.
#[derive(Clone)]
pub struct KazooPermits {
    limit: Arc<AtomicU32>,
    identifier: Option<String>,
}

impl KazooPermits {
    /// Permits up to a limit. The data of the nodes are `identifier`, or describe the process.
    pub fn new(limit: Arc<AtomicU32>, identifier: Option<String>) -> Self {
        KazooPermits { limit, identifier }
    }
}

/// As it appears in errors.
impl fmt::Debug for KazooPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kazoo's Semaphore")
    }
}

impl LockDriver for KazooPermits {
    fn name(&self) -> String {
        "kazoo's Semaphore".to_owned()
    }

    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        attempt.simple()
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        Some(Contender::new(name, 0, Mode::Permit))
    }

    fn payload(&self, _: &Attempt, _: Mode, owner: &Owner) -> Vec<u8> {
        owner.to_payload_or(self.identifier.as_deref())
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Ephemeral
    }

    fn directory(&self) -> NodeKind {
        NodeKind::Persistent
    }

    fn most(&self) -> Option<usize> {
        Some(read(&self.limit))
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        verdict(queue, mine, read(&self.limit))
    }

    /// Whatever the limit, which is compared elsewhere.
    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        (other as &dyn Any).is::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_child_counts_and_the_limit_may_change() {
        let limit = Arc::new(AtomicU32::new(2));
        let permits = Permits::new(limit.clone());
        let names = ["_c_x-lease-0000000007", "foreign", "_c_y-lease-0000000009"];
        let queue = permits.queue(&names.map(str::to_owned));
        let mine = permits.parse(names[2]).unwrap();
        assert_eq!(permits.verdict(&queue, &mine), Verdict::Crowded { excess: 1 });
        limit.store(3, Ordering::Release);
        assert_eq!(permits.verdict(&queue, &mine), Verdict::Held);
        let gone = permits.parse("_c_z-lease-0000000001").unwrap();
        assert_eq!(permits.verdict(&queue, &gone), Verdict::Missing);
    }

    #[test]
    fn a_permit_of_kazoo_is_one_node_with_a_name_of_its_own() {
        let permits = KazooPermits::new(Arc::new(AtomicU32::new(2)), Some("printer 7".into()));
        let [one, other] = [Attempt::new(), Attempt::new()]
            .map(|attempt| permits.node(&attempt, Mode::Permit, &Owner::default()));
        assert_eq!((one.prefix.len(), one.kind), (32, NodeKind::Ephemeral));
        assert_eq!(one.payload, b"printer 7");
        let queue = permits.queue(&[one.prefix, other.prefix, "foreign".to_owned()]);
        let mine = queue[0].clone();
        assert_eq!(permits.verdict(&queue, &mine), Verdict::Crowded { excess: 1 });
        assert_eq!(permits.verdict(&queue[..2], &mine), Verdict::Held);
    }
}
