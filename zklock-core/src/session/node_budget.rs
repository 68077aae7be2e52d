//! The budget of ephemeral nodes of a ZooKeeper session.
//!
//! From 3.6 on, a server writes the paths of all ephemeral nodes of a session that ends into one
//! transaction (`CloseSessionTxn`). If that takes more than 2 MiB (`jute.maxbuffer` and as much again, by
//! default), followers refuse it, and no server that has it in its log starts again (ZOOKEEPER-4306; tried
//! with 3.8.0: 24,000 locks of a process that was killed). So a session that holds much opens another
//! connection, and a node that would be too much is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// From how many bytes on another connection is used.
const MUCH: usize = 700 * 1024;

/// How many bytes there may be at most when another node is asked for. The rest is for those that stand in for a
/// writer's.
const MOST: usize = 1_800 * 1024;

/// What is left where there may be no room for another node.
const LAST: usize = 8 * 1024;

/// What a path takes besides its text, in bytes: its length.
const EACH: usize = 4;

/// The digits that a server appends to the name of a node.
const DIGITS: usize = 10;

/// The bytes that the nodes of a ZooKeeper session take, until they are known to be deleted.
#[derive(Debug)]
pub struct NodeBudget {
    /// The bytes of the chroot, which precedes each path.
    chroot: usize,
    all: AtomicUsize,
}

impl NodeBudget {
    /// No nodes yet.
    pub fn new(chroot: usize) -> Arc<Self> {
        Arc::new(NodeBudget { chroot, all: AtomicUsize::new(0) })
    }

    fn bytes(&self, length: usize) -> usize {
        self.chroot + length + EACH
    }

    /// Counts a node that is to be created with a prefix of this length, if there is room for it, until the returned
    /// value is dropped.
    pub fn take(self: &Arc<Self>, length: usize) -> Option<Counted> {
        let bytes = self.bytes(length) + DIGITS;
        let add = |now: usize| now.checked_add(bytes).filter(|sum| *sum <= MOST);
        self.all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Counted { budget: self.clone(), bytes: AtomicUsize::new(bytes) })
    }

    /// Counts a node that exists, until it is [deleted](Counted::is_deleted), or the returned value is dropped.
    pub fn count(self: &Arc<Self>, path: &str) -> Counted {
        self.begin(path);
        let bytes = self.bytes(path.len());
        Counted { budget: self.clone(), bytes: AtomicUsize::new(bytes) }
    }

    /// Counts a node that exists, until the [end](Self::end): for those who have no place for more.
    pub fn begin(&self, path: &str) {
        self.all.fetch_add(self.bytes(path.len()), Ordering::Relaxed);
    }

    /// Counts it no more.
    pub fn end(&self, path: &str) {
        self.all.fetch_sub(self.bytes(path.len()), Ordering::Relaxed);
    }

    /// How full it is.
    pub fn load(&self) -> NodeLoad {
        NodeLoad(self.all.load(Ordering::Relaxed))
    }
}

/// How much a session holds: the bytes of its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeLoad(usize);

impl NodeLoad {
    /// Whether another connection is better.
    pub fn is_much(self) -> bool {
        self.0 >= MUCH
    }

    /// Whether there may be no room for another node.
    pub fn is_full(self) -> bool {
        self.0 > MOST - LAST
    }
}

/// A counted node.
#[derive(Debug)]
pub struct Counted {
    budget: Arc<NodeBudget>,
    bytes: AtomicUsize,
}

impl Counted {
    /// It counts no more, whoever keeps what is known of it.
    pub fn is_deleted(&self) {
        self.budget.all.fetch_sub(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.is_deleted();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_fills_it_a_server_can_read_the_end_of_the_session() {
        // `jute.maxbuffer` and `jute.maxbuffer.extrasize`, both by default.
        const SERVERS_LIMIT: usize = 2 * 1_048_575;
        let longest = "/n".repeat(512 + 40);
        let (budget, mut nodes) = (NodeBudget::new(100), Vec::new());
        let each = 100 + longest.len() + EACH + DIGITS;
        while let Some(node) = budget.take(longest.len()) {
            nodes.push(node);
            let load = budget.load();
            assert_eq!(load.is_much(), nodes.len() * each >= MUCH);
            assert_eq!(load.is_full(), nodes.len() * each > MOST - LAST);
        }
        assert!(budget.load().is_full());
        // Writers that step down.
        let more: Vec<_> = (0..200).map(|_| budget.count(&longest)).collect();
        assert!(budget.load().0 < SERVERS_LIMIT);
        drop(more);
        nodes[0].is_deleted();
        assert!(budget.take(longest.len()).is_some());
        drop(nodes);
        assert_eq!(budget.load(), NodeLoad::default());
    }
}
