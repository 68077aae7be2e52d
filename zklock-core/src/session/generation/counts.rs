//! What a generation still has to delete, and the nodes that stay in it for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Generation;
use crate::base::unharmed::tell_all;
use crate::base::until::until;

impl Generation {
    /// Counts a deletion until the returned value is dropped.
    pub fn pending_deletion(self: &Arc<Self>) -> PendingDeletion {
        self.deletions.fetch_add(1, Ordering::AcqRel);
        PendingDeletion(self.clone())
    }

    /// Counts a node that stays for a while, until the returned value is dropped. `close` does not
    /// wait for it.
    pub fn kept_node(self: &Arc<Self>) -> KeptNode {
        self.kept_nodes.fetch_add(1, Ordering::AcqRel);
        KeptNode(self.clone())
    }

    /// Whether a node stays for a while after its release.
    pub fn has_kept_nodes(&self) -> bool {
        self.kept_nodes.load(Ordering::Acquire) > 0
    }

    /// The number of deletions that are not yet confirmed.
    pub fn undeleted(&self) -> usize {
        self.deletions.load(Ordering::Acquire)
    }

    /// Counts a deletion that is asked for again, until the returned value is dropped.
    pub fn overdue_deletion(self: &Arc<Self>) -> OverdueDeletion {
        self.overdue.fetch_add(1, Ordering::AcqRel);
        OverdueDeletion(self.clone())
    }

    /// The number of deletions that were not confirmed at first, and are asked for again.
    pub fn overdue(&self) -> usize {
        self.overdue.load(Ordering::Acquire)
    }

    /// Whether every deletion is confirmed.
    pub fn is_clean(&self) -> bool {
        self.deletions.load(Ordering::Acquire) == 0
    }

    /// Waits until every deletion is confirmed, or nothing is left to delete.
    pub async fn clean(&self) {
        until(&self.cleaned, || self.is_clean() || self.is_over()).await;
    }
}

/// A node that stays for a while after its release.
#[derive(Debug)]
pub struct KeptNode(Arc<Generation>);

impl Drop for KeptNode {
    fn drop(&mut self) {
        self.0.kept_nodes.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A deletion that is asked for again.
#[derive(Debug)]
pub struct OverdueDeletion(Arc<Generation>);

impl Drop for OverdueDeletion {
    fn drop(&mut self) {
        self.0.overdue.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A pending deletion; `close` waits for all of them.
#[derive(Debug)]
pub struct PendingDeletion(Arc<Generation>);

impl Drop for PendingDeletion {
    fn drop(&mut self) {
        if self.0.deletions.fetch_sub(1, Ordering::AcqRel) == 1 {
            tell_all(&self.0.cleaned);
            // The keeper closes one that is used no more.
            if self.0.was_retired() {
                tell_all(&self.0.changed);
            }
        }
    }
}
