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

/// How many bytes there may be at most. The rest is for the nodes of those who wait: some 500 for each
/// connection, of a kilobyte at most.
const MOST: usize = 1_400 * 1024;

/// What a path takes besides its text, in bytes: its length.
const EACH: usize = 4;

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

    fn bytes(&self, path: &str) -> usize {
        self.chroot + path.len() + EACH
    }

    /// Counts a node until it is [deleted](Counted::is_deleted), or the returned value is dropped.
    pub fn count(self: &Arc<Self>, path: &str) -> Counted {
        let bytes = self.bytes(path);
        self.all.fetch_add(bytes, Ordering::Relaxed);
        Counted { budget: self.clone(), bytes: AtomicUsize::new(bytes) }
    }

    /// Whether another connection is better.
    pub fn is_much(&self) -> bool {
        self.all.load(Ordering::Relaxed) >= MUCH
    }

    /// Whether there is room for another node.
    pub fn has_room(&self, path: &str) -> bool {
        self.all.load(Ordering::Relaxed) + self.bytes(path) <= MOST
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
        while budget.has_room(&longest) {
            assert_eq!(budget.is_much(), nodes.len() * (100 + longest.len() + 4) >= MUCH);
            nodes.push(budget.count(&longest));
        }
        let waiting = 500 * (100 + longest.len() + 4);
        assert!(budget.all.load(Ordering::Relaxed) + waiting < SERVERS_LIMIT);
        nodes[0].is_deleted();
        assert!(budget.has_room(&longest));
        drop(nodes);
        assert_eq!(budget.all.load(Ordering::Relaxed), 0);
    }
}
