//! What is held in a generation, and what is watched there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::Generation;
use crate::base::clock::Instant;
use crate::base::policy::StopAt;
use crate::observe::observer::Event;
use crate::session::lease_clock::Term;
use crate::session::watch_budget::Watching;

/// A node that a lease stands on.
#[derive(Debug)]
pub struct HeldNode {
    /// The node's path.
    pub path: Arc<str>,
    /// The lock's name.
    pub lock: Arc<str>,
    /// Its czxid: another node may have its path later.
    pub czxid: i64,
    /// What its lease belongs to.
    pub term: Term,
    /// Its data, to be written again after somebody asked that it be let go.
    pub payload: Option<Arc<[u8]>>,
    /// Since when it is under the care of the heartbeat.
    pub since: Instant,
    /// When it was last known to be there.
    seen: AtomicU64,
    /// Of its data, as far as is known: if they change, somebody may ask that it be let go.
    version: AtomicI32,
    gone: AtomicBool,
    watched: AtomicBool,
    revoked: AtomicBool,
    recurring: AtomicBool,
}

impl HeldNode {
    /// Whether the node was seen to be gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// When it was last known to be there.
    pub fn seen(&self) -> Instant {
        Instant::from_nanos(self.seen.load(Ordering::Acquire))
    }

    /// Notes that it was there at a moment.
    pub fn seen_at(&self, at: Instant) {
        self.seen.fetch_max(at.as_nanos(), Ordering::AcqRel);
    }

    /// The version of its data when they were last looked at.
    pub fn version(&self) -> i32 {
        self.version.load(Ordering::Acquire)
    }

    /// Notes the version of its data, which were looked at.
    pub fn has_version(&self, version: i32) {
        self.version.store(version, Ordering::Release);
    }

    /// Notes that another's node may have its path later.
    pub fn recurs(&self) {
        self.recurring.store(true, Ordering::Release);
    }

    /// Whether another's node may have its path later.
    pub fn is_recurring(&self) -> bool {
        self.recurring.load(Ordering::Acquire)
    }

    /// Notes that it is watched.
    pub fn remember_watch(&self) {
        self.watched.store(true, Ordering::Release);
    }

    /// Notes that it is not watched.
    pub fn forget_watch(&self) {
        self.watched.store(false, Ordering::Release);
    }

    /// Whether its owner was asked to let go.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }
}

impl Generation {
    pub(super) fn lock_held(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<HeldNode>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a node under the care of the heartbeat. Answers `None` if its term ended meanwhile.
    pub fn hold(
        &self,
        path: Arc<str>,
        lock: Arc<str>,
        czxid: i64,
        term: Term,
        payload: Option<Arc<[u8]>>,
    ) -> Option<Arc<HeldNode>> {
        let [gone, watched, revoked, recurring] = [const { AtomicBool::new(false) }; 4];
        let since = self.lease.clock().now();
        let (seen, version) = (AtomicU64::new(since.as_nanos()), AtomicI32::new(0));
        let node = Arc::new(HeldNode {
            path: path.clone(),
            lock,
            czxid,
            term,
            payload,
            since,
            seen,
            version,
            gone,
            watched,
            revoked,
            recurring,
        });
        let first = {
            let mut held = self.lock_held();
            held.insert(path, node.clone());
            held.len() == 1
        };
        // Who ends a term takes out afterwards what belongs to it: so either sees the other.
        if !self.lease.is_present(term) {
            self.unhold(&node);
            return None;
        }
        if first && term.stop_at() == StopAt::Suspect {
            // The keeper sleeps for a heartbeat while nothing is held, and then it would be late.
            self.changed.notify_waiters();
        }
        Some(node)
    }

    /// Ends the care for a node.
    pub fn unhold(&self, node: &HeldNode) {
        let left = {
            let mut held = self.lock_held();
            remove(&mut held, node);
            held.len()
        };
        if left == 0 && self.retired.load(Ordering::Acquire) {
            self.changed.notify_waiters();
        }
    }

    /// The nodes under care, first those that were not seen for longest.
    pub fn held(&self) -> Vec<Arc<HeldNode>> {
        let mut nodes: Vec<_> = self.lock_held().values().cloned().collect();
        nodes.sort_by_cached_key(|node| (node.seen().as_nanos(), node.czxid));
        nodes
    }

    /// Since when a node under care was not seen, of all these the longest.
    pub fn unseen_since(&self) -> Option<Instant> {
        let held = self.lock_held();
        held.values().map(|node| node.seen()).min_by_key(|seen| seen.as_nanos())
    }

    /// Whether a node is still under care.
    pub fn is_held(&self, node: &Arc<HeldNode>) -> bool {
        self.lock_held().get(&node.path).is_some_and(|held| Arc::ptr_eq(held, node))
    }

    /// Whether nothing is held.
    pub fn holds_nothing(&self) -> bool {
        self.lock_held().is_empty()
    }

    /// Notes that a held node is gone, deleted by somebody else.
    pub fn lost_node(&self, node: &HeldNode) {
        if !remove(&mut self.lock_held(), node) {
            return;
        }
        let path = &*node.path;
        node.gone.store(true, Ordering::Release);
        tracing::warn!(path, "the node of a held lock was deleted by somebody else");
        self.losses.fetch_add(1, Ordering::AcqRel);
        self.events.tell(|| Event::Lost { lock: node.lock.clone() });
        self.changed.notify_waiters();
    }

    /// Notes that the owner of a held node was asked to let go.
    pub fn revoked_node(&self, node: &HeldNode) {
        if !node.revoked.swap(true, Ordering::AcqRel) {
            self.events.tell(|| Event::Revoked { lock: node.lock.clone() });
            self.changed.notify_waiters();
        }
    }

    /// Begins to watch a held node, unless it is watched or too many are.
    pub fn begin_watching(&self, node: &HeldNode) -> Option<Watching> {
        if node.watched.swap(true, Ordering::AcqRel) {
            return None;
        }
        let watching = self.watches.take_for_held(&node.path);
        if watching.is_none() {
            node.watched.store(false, Ordering::Release);
        }
        watching
    }
}

/// Removes a node, but not a later one with its path.
fn remove(held: &mut HashMap<Arc<str>, Arc<HeldNode>>, node: &HeldNode) -> bool {
    let same = held.get(&node.path).is_some_and(|present| present.czxid == node.czxid);
    same && held.remove(&node.path).is_some()
}
