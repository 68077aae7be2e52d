//! Where the lock is, as far as this process knows.

use std::sync::Arc;

use crate::base::clock::Instant;
use crate::base::mode::Mode;
use crate::local::todo::Fetch;

/// The state of the lock in this process.
#[derive(Debug)]
pub enum Phase<L> {
    /// No node.
    Idle,
    /// A driver is acquiring a node.
    Fetching(Fetch),
    /// A caller of this process holds the lock, or several readers do.
    Held {
        /// The node.
        lease: Arc<L>,
        /// The mode.
        mode: Mode,
    },
    /// No caller of this process holds the lock; a request finds out whether another process waits.
    Asking {
        /// The node.
        lease: Arc<L>,
        /// The mode in which it is held.
        mode: Mode,
        /// Until when it lingers if those who wait here give up meanwhile.
        until: Instant,
    },
    /// No caller of this process wants the lock; the node is kept for a while.
    Lingering {
        /// The node.
        lease: Arc<L>,
        /// The mode in which it is held.
        mode: Mode,
        /// Until when it is kept.
        until: Instant,
    },
}

impl<L> Phase<L> {
    fn lease(&self) -> Option<&Arc<L>> {
        match self {
            Phase::Idle | Phase::Fetching(_) => None,
            Phase::Held { lease, .. }
            | Phase::Asking { lease, .. }
            | Phase::Lingering { lease, .. } => Some(lease),
        }
    }

    pub(super) fn stands_on(&self, lease: &Arc<L>) -> bool {
        self.lease().is_some_and(|present| Arc::ptr_eq(present, lease))
    }
}
