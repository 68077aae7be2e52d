//! The commits of a generation. Only they feed its lease clock.

use std::future::Future;
use std::iter::from_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use futures_lite::future::or;

use super::{Generation, HeldNode};
use crate::base::clock::Instant;
use crate::base::unharmed::unharmed;
use crate::coordinator::limits::fitting;
use crate::coordinator::link::Link;
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::session::lease_clock::Condition;

/// The largest number of nodes that one request checks: a server takes tens of milliseconds for a
/// thousand checks in one request, and delays everybody meanwhile. It is also far below the limit
/// of 1 MiB for a request.
pub const MOST_CHECKED: usize = 200;

impl Generation {
    /// What is to be checked, in parts of which each fits into one request: a larger one would be refused, or break the
    /// connection, which matters where a root or a chroot has some thousand characters. `bytes` is what one of them takes
    /// besides the chroot, which the client library puts before each path.
    pub fn in_requests<'a, T>(
        &self,
        mut rest: &'a [T],
        bytes: impl Fn(&T) -> usize,
    ) -> impl Iterator<Item = &'a [T]> {
        let chroot = self.watches().chroot();
        from_fn(move || {
            let some = rest.iter().take(MOST_CHECKED).map(|one| chroot + bytes(one));
            let (part, others) = rest.split_at(fitting(some).min(rest.len()));
            rest = others;
            (!part.is_empty()).then_some(part)
        })
    }
}

/// A commit that is under way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// From when on it counts once it is answered.
    at: Instant,
    /// From when on the last one counts that was answered before.
    earlier: Instant,
}

/// Lets one task at a time create a node in a directory.
pub type Gate = tokio::sync::Mutex<()>;

/// What is checked of a held node: the version of its data, if that is known, and what they become, if anything.
pub type Checked = (Arc<HeldNode>, Option<i32>, Option<Vec<u8>>);

impl Generation {
    /// The greatest czxid of a node that was created in this session so far.
    pub fn newest(&self) -> i64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Records that a node was created in this session.
    pub fn made(&self, czxid: i64) {
        self.newest.fetch_max(czxid, Ordering::AcqRel);
    }

    /// The gate of a directory.
    pub fn gate(&self, directory: &str) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(directory).and_then(Weak::upgrade) {
            return gate;
        }
        if gates.len() == gates.capacity() {
            gates.retain(|_, gate| {
                #[cfg(test)]
                super::tests::VISITED.set(super::tests::VISITED.get() + 1);
                gate.strong_count() > 0
            });
            // Looked through again when there are twice as many, so that each creation costs little.
            let left = gates.len();
            gates.shrink_to(2 * left);
            gates.reserve(left + 1);
        }
        let gate = Arc::new(Gate::default());
        gates.insert(directory.into(), Arc::downgrade(&gate));
        gate
    }

    /// Creates a node; a reply feeds the lease clock. The request is sent by this call. The caller
    /// bounds the wait for an ephemeral node, which is looked for if there is no reply.
    pub fn create(
        self: &Arc<Self>,
        path: &str,
        data: &[u8],
        kind: NodeKind,
    ) -> impl Future<Output = Result<Created, RequestError>> + Send + 'static + use<> {
        let coordinator = match kind {
            NodeKind::Persistent | NodeKind::Container => &self.coordinator,
            NodeKind::Ephemeral | NodeKind::EphemeralSequential => &self.patient,
        };
        let (this, sent) = (self.clone(), self.sends());
        let reply = coordinator.create(path, data, kind);
        async move {
            let created = reply.await?;
            let owner = created.stat.ephemeral_owner;
            if owner != 0 && owner != this.coordinator.session_id() {
                // The server silently replaced the session: what was held before is lost.
                this.end();
                let session = format!("{:#x}", this.coordinator.session_id());
                unharmed(|| tracing::warn!(session, "the server replaced the ZooKeeper session"));
                return Err(RequestError::SessionExpired);
            }
            this.committed(sent);
            this.made(created.stat.czxid);
            Ok(created)
        }
    }

    /// Deletes a node; a reply feeds the lease clock. The request is sent by this call. The caller
    /// bounds the wait.
    pub fn delete(
        self: &Arc<Self>,
        path: &str,
    ) -> impl Future<Output = Result<(), RequestError>> + Send + 'static + use<> {
        self.feeding(self.sends(), self.patient.delete(path))
    }

    /// Lists the children of a node. The request is sent by this call. The caller bounds the wait, and
    /// asks again if there is no reply.
    pub fn children(&self, path: &str) -> Reply<Vec<String>> {
        self.patient.children(path)
    }

    /// Reads what the leader knows at present: this server may not have heard yet that an earlier request,
    /// or somebody else, has changed it. Both requests are sent by this call.
    pub fn synced<T: Send + 'static>(
        self: &Arc<Self>,
        path: &str,
        read: fn(&dyn Coordinator, &str) -> Reply<T>,
    ) -> Reply<T> {
        let (this, sent, path) = (self.clone(), self.lease.clock().now(), path.to_owned());
        let (synced, first) = (self.coordinator.sync(&path), read(&*self.coordinator, &path));
        Box::pin(async move {
            synced.await?;
            if this.was_asked_once(sent) {
                first.await
            } else {
                read(&*this.coordinator, &path).await
            }
        })
    }

    /// A read that was sent at this time, right behind a request that has been answered now, or that read anew:
    /// so it is as new as that answer.
    pub fn read_beside(
        &self,
        sent: Instant,
        path: &str,
        read: Reply<(Vec<u8>, Stat)>,
    ) -> Reply<(Vec<u8>, Stat)> {
        if self.was_asked_once(sent) { read } else { self.coordinator.get(path) }
    }

    /// Whether a request that was sent at this time, and has been answered now, was not sent again. The answers to
    /// what was sent beside it may be older than the second one by any time.
    pub fn was_asked_once(&self, sent: Instant) -> bool {
        self.lease.clock().now() < sent + self.patience()
    }

    /// Commits that nodes exist, or finds out which one does not. The request is sent by this call.
    pub fn check(
        self: &Arc<Self>,
        paths: impl IntoIterator<Item = Arc<str>>,
    ) -> impl Future<Output = Result<(), RequestError>> + Send + 'static {
        let check = |path: Arc<str>| Operation::Check { path: path.to_string() };
        let sent = self.sends();
        self.feeding(sent, self.coordinator.multi(paths.into_iter().map(check).collect()))
    }

    /// Commits that held nodes exist and have these data versions, if they are known, or finds out which one
    /// does not. Those with data get them. The request is sent by this call.
    pub fn check_held(
        self: &Arc<Self>,
        nodes: Vec<Checked>,
    ) -> impl Future<Output = Result<(), RequestError>> + Send + 'static + use<> {
        let check = |(node, version, data): Checked| {
            let path = node.path.to_string();
            match (version, data) {
                (Some(version), Some(data)) => Operation::Replace { path, data, version },
                (Some(version), None) => Operation::CheckVersion { path, version },
                (None, _) => Operation::Check { path },
            }
        };
        self.write(nodes.into_iter().map(check).collect())
    }

    /// Commits several operations, all or none. The request is sent by this call.
    pub fn write(
        self: &Arc<Self>,
        operations: Vec<Operation>,
    ) -> impl Future<Output = Result<(), RequestError>> + Send + 'static + use<> {
        let sent = self.sends();
        self.feeding(sent, self.coordinator.multi(operations))
    }

    /// From when on a commit counts that is sent now. Reads the clock.
    fn sends(&self) -> Sent {
        let now = self.lease.clock().now();
        self.look_whether_awake(now);
        let at = if self.self_aware { now } else { self.heard.counts_from(now) };
        Sent { at, earlier: self.lease.last_commit() }
    }

    fn feeding<T, F>(
        self: &Arc<Self>,
        sent: Sent,
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

    /// Returns by when a node is gone whose deletion was sent at `sent` on the present connection, and is
    /// not answered.
    ///
    /// Requests of one connection arrive in order. So either the server has received the deletion,
    /// or it receives nothing more on this connection and ends the session. An earlier request that
    /// was not answered proves nothing: perhaps only its reply was lost.
    pub fn gone_by(&self, sent: Instant) -> Instant {
        sent + self.lease.timing().kept_for()
    }

    /// Since when there is no connection; the server has heard nothing since then.
    pub fn down_since(&self) -> Option<Instant> {
        let lost = self.lost_at();
        let is_down = lost > self.reconnected_at() && self.coordinator.link() == Link::Down;
        is_down.then_some(lost)
    }

    /// Waits until the server has ended the session, which is over here.
    ///
    /// The keeper may still be closing it. And a client that reaches no server gives its session up, a
    /// session timeout or more after the last answer, however late the loss of the connection was seen and
    /// whether or not it was back meanwhile, while the server counts from the last request, and looks each
    /// tick only. If a session expires sooner than that, the server said so. A server that refuses the
    /// credentials keeps the session. A coordinator that knows when it was last in contact lets a session expire
    /// no sooner than the server does.
    pub async fn ended(&self) {
        let Some(end) = self.end.get().filter(|end| !self.self_aware || !end.of_itself) else {
            return;
        };
        let clock = self.lease.clock();
        let closed = async {
            self.until(|| self.closed.load(Ordering::Acquire)).await;
            true
        };
        let at_last = async {
            clock.sleep_until(self.gone_by(end.at)).await;
            false
        };
        if !or(closed, at_last).await {
            return;
        }
        let (lost, back) = (self.lost_at(), self.reconnected_at());
        let last = match self.coordinator.link() {
            // The server has answered.
            Link::Closed => return,
            Link::Expired if end.of_itself => {
                // The client knew a little earlier.
                let at = end.at + self.lease.heartbeat();
                if at < self.lease.last_commit() + self.lease.timeout() {
                    return;
                }
                // A client that stood still loses the connection and gives up in one step.
                if lost > back { lost } else { end.at }
            }
            _ if end.of_itself => end.at,
            _ => clock.now(),
        };
        clock.sleep_until(self.gone_by(last)).await;
    }

    fn committed(&self, sent: Sent) {
        let now = self.lease.clock().now();
        self.look_whether_awake(now);
        if self.lease.condition(now) != Condition::Held {
            // A coordinator that knows when it was last in contact may not have been asked
            // recently.
            self.observe();
        }
        self.lease.committed(sent.at, sent.earlier, now);
        self.lose_what_ended();
    }
}
