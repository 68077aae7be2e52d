//! What is acquired.

use std::sync::Arc;

use tokio::sync::watch;

use crate::base::mode::Mode;
use crate::base::pattern::Pattern;
use crate::base::policy::{Requeue, StopAt};
use crate::cooldown::mark::Marks;
use crate::layout::driver::LockDriver;
use crate::name::lock_name::LockName;
use crate::name::path::ZnodePath;
use crate::session::generation::OfLock;
use crate::session::handle::Session;

/// The lock to acquire.
#[derive(Clone, Debug)]
pub struct Target {
    /// The lock's name.
    pub lock: Arc<str>,
    /// The pattern of its name.
    pub pattern: Pattern,
    /// Its directory.
    pub directory: ZnodePath,
    /// Where a lock of another kind would have its nodes, if not there.
    pub beside: Option<ZnodePath>,
    /// The application's name, as other processes see it.
    pub app: Option<Arc<str>>,
    /// The layout and the rule.
    pub driver: Arc<dyn LockDriver>,
    /// The marks that it keeps in its directory.
    pub marks: Marks,
    /// For permits: what only they need.
    pub permits: Option<Box<OfPermits>>,
    /// What its directory says from the beginning, if it has to be made.
    pub said: Option<Arc<str>>,
}

/// What only the acquire of permits needs.
#[derive(Clone, Debug)]
pub struct OfPermits {
    /// The limit, if it may change.
    pub limit: Option<watch::Receiver<u32>>,
    /// The layout of the session, in which locks of the name may have their nodes.
    pub layout: Arc<dyn LockDriver>,
}

impl Target {
    /// A lock without marks and without a limit.
    pub fn new(
        session: &Session,
        name: &LockName,
        directory: ZnodePath,
        driver: Arc<dyn LockDriver>,
    ) -> Self {
        Target {
            lock: name.to_shared(),
            pattern: name.pattern_number(),
            directory,
            beside: None,
            app: session.shared_app().cloned(),
            driver,
            marks: Marks::default(),
            permits: None,
            said: None,
        }
    }

    /// The changes from now on of a semaphore's limit, if it may change. Taken before a verdict, which reads the
    /// present one.
    pub fn limit(&self) -> Option<watch::Receiver<u32>> {
        let mut changes = self.permits.as_ref()?.limit.clone()?;
        changes.mark_unchanged();
        Some(changes)
    }

    /// The lock, as the events of a node in this mode name it.
    pub fn of_lock(&self, mode: Mode) -> OfLock {
        OfLock { name: self.lock.clone(), pattern: self.pattern, mode }
    }

    /// What callers have in common that may pass a node to each other.
    pub fn key(&self, stop_at: StopAt, requeue: Requeue) -> Arc<str> {
        let (directory, marks) = (self.directory.as_str(), self.marks);
        // A node has the marks and the stop point of the caller that acquired it, as patiently as that
        // caller is. No path contains a NUL.
        if (marks, stop_at, requeue) == Default::default() {
            return self.directory.to_shared();
        }
        format!("{directory}\0{marks:?} {stop_at:?} {requeue:?}").into()
    }
}

/// What is asked of ZooKeeper: one node in the queue of a lock.
#[derive(Clone, Debug)]
pub struct NodeRequest {
    /// The mode in which the lock is acquired.
    pub mode: Mode,
    /// Whether it waits for ZooKeeper's replies only, and not for other contenders.
    pub once: bool,
    /// Whether its node may be kept for a while after the last release; the node says so.
    pub lingers: bool,
    /// How many nodes are acquired together, this one included.
    pub together: usize,
    /// Whether this node is created only when there is room for all of them.
    pub counts_first: bool,
    /// Whether this process may have many nodes in the same queue.
    pub has_many_nodes: bool,
    /// When the lease counts as lost.
    pub stop_at: StopAt,
    /// What it is acquired for; the node says so.
    pub label: Option<Arc<str>>,
}

impl NodeRequest {
    /// A node by itself.
    pub fn one(mode: Mode, once: bool) -> NodeRequest {
        let (stop_at, label) = (StopAt::Lost, None);
        let [lingers, counts_first, has_many_nodes] = [false; 3];
        Self { mode, once, lingers, together: 1, counts_first, has_many_nodes, stop_at, label }
    }
}
