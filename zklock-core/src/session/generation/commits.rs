//! What a generation commits. Only that feeds its lease clock.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use super::{Generation, HeldNode};
use crate::base::clock::Instant;
use crate::coordinator::traits::{Created, NodeKind, Operation, RequestError};
use crate::session::lease_clock::Condition;

/// How many nodes one request checks at most: a server takes tens of milliseconds for a thousand
/// checks in one request, and everybody waits for it. It is also far below the 1 MiB that a
/// request may have.
pub const MOST_CHECKED: usize = 200;

/// Lets one at a time make a node in a directory.
pub type Gate = tokio::sync::Mutex<()>;

impl Generation {
    /// The greatest czxid of a node that was made here so far.
    pub fn newest(&self) -> i64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Notes that a node was made here.
    pub fn made(&self, czxid: i64) {
        self.newest.fetch_max(czxid, Ordering::AcqRel);
    }

    /// What lets one at a time make a node in a directory.
    pub fn gate(&self, directory: &str) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(directory).and_then(Weak::upgrade) {
            return gate;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::new(Gate::default());
        gates.insert(directory.into(), Arc::downgrade(&gate));
        gate
    }

    /// Creates a node; an answer feeds the lease clock. The request is sent by this call.
    pub fn create(
        self: &Arc<Self>,
        path: &str,
        data: &[u8],
        kind: NodeKind,
    ) -> impl Future<Output = Result<Created, RequestError>> + Send + 'static + use<> {
        let sent = self.lease.clock().now();
        let reply = self.coordinator.create(path, data, kind);
        let this = self.clone();
        async move {
            let created = reply.await?;
            let owner = created.stat.owner;
            if owner != 0 && owner != this.coordinator.session_id() {
                // The server replaced the session silently: what was held before is gone.
                tracing::warn!("the server replaced the ZooKeeper session");
                this.end();
                return Err(RequestError::SessionExpired);
            }
            this.committed(sent);
            this.made(created.stat.czxid);
            Ok(created)
        }
    }

    /// Deletes a node; an answer feeds the lease clock. The request is sent by this call.
    pub fn delete(
        self: &Arc<Self>,
        path: &str,
    ) -> impl Future<Output = Result<(), RequestError>> + Send + 'static {
        self.feeding(self.lease.clock().now(), self.coordinator.delete(path))
    }

    /// Commits that nodes exist, or which one does not. The request is sent by this call.
    pub fn check(
        self: &Arc<Self>,
        paths: impl IntoIterator<Item = Arc<str>>,
    ) -> impl Future<Output = Result<(), RequestError>> + Send + 'static {
        let check = |path: Arc<str>| Operation::Check { path: path.to_string() };
        let sent = self.lease.clock().now();
        self.feeding(sent, self.coordinator.multi(paths.into_iter().map(check).collect()))
    }

    /// Commits that held nodes exist with the data that are known of them, or of which one that is
    /// not so. The request is sent by this call.
    pub fn check_held(
        self: &Arc<Self>,
        nodes: &[Arc<HeldNode>],
    ) -> impl Future<Output = Result<(), RequestError>> + Send + 'static + use<> {
        let check = |node: &Arc<HeldNode>| Operation::CheckVersion {
            path: node.path.to_string(),
            version: node.version(),
        };
        self.write(nodes.iter().map(check).collect())
    }

    /// Commits several operations, all or none. The request is sent by this call.
    pub fn write(
        self: &Arc<Self>,
        operations: Vec<Operation>,
    ) -> impl Future<Output = Result<(), RequestError>> + Send + 'static + use<> {
        let sent = self.lease.clock().now();
        self.feeding(sent, self.coordinator.multi(operations))
    }

    fn feeding<T, F>(
        self: &Arc<Self>,
        sent: Instant,
        reply: F,
    ) -> impl Future<Output = Result<T, RequestError>> + Send + 'static + use<T, F>
    where
        F: Future<Output = Result<T, RequestError>> + Send + 'static,
    {
        let this = self.clone();
        async move {
            let answer = reply.await?;
            this.committed(sent);
            Ok(answer)
        }
    }

    /// By when a node is gone whose deletion was sent at a moment, whether that is answered or not.
    ///
    /// What is sent on one connection arrives in order. So either the server has the deletion, or it
    /// hears nothing more on this connection and ends the session. An earlier request that was not
    /// answered says nothing: perhaps only its answer was lost.
    pub fn gone_by(&self, sent: Instant) -> Instant {
        let reconnected = Instant::from_nanos(self.reconnected_at.load(Ordering::Acquire));
        sent.max(reconnected) + self.lease.timing().kept_for()
    }

    fn committed(&self, sent: Instant) {
        let now = self.lease.clock().now();
        if self.lease.condition(now) != Condition::Held {
            // A coordinator that knows by itself when it was last in contact was not asked lately.
            self.observe();
        }
        match self.lease.committed(sent, now) {
            Condition::Held => {}
            Condition::Suspect => self.lose_doubted(),
            Condition::Lost => self.lose_leases(),
        }
    }
}
