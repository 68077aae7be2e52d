//! A generation: one ZooKeeper session in the life of a lane, and what is held in it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::Instant;
use crate::coordinator::{Coordinator, Created, Link, NodeKind, Operation, RequestError};
use crate::error::{ErrorKind, LockError};
use crate::observer::{Event, Events};
use crate::policy::StopAt;
use crate::session::answered::Answered;
use crate::session::heads::Heads;
use crate::session::lease_clock::{Condition, LeaseClock, Term};
use crate::session::spawner::Spawner;
use crate::session::stray::Stray;

/// One ZooKeeper session. Guards belong to one generation and are lost with it.
#[derive(Debug)]
pub struct Generation {
    number: u64,
    coordinator: Arc<dyn Coordinator>,
    /// Whether that knows by itself when it was last in contact.
    self_aware: bool,
    lease: LeaseClock,
    spawner: Spawner,
    events: Events,
    over: AtomicBool,
    retired: AtomicBool,
    /// Shows that the server is not to be trusted.
    stray: OnceLock<Stray>,
    heads: Heads,
    /// Counts how often the connection came back.
    reconnects: AtomicU64,
    /// Fires on every change above and when a held node is gone.
    changed: Notify,
    /// Counts the losses of leases.
    losses: AtomicU64,
    held: Mutex<HashMap<Arc<str>, Arc<HeldNode>>>,
    /// How many held nodes are watched.
    watching: AtomicUsize,
    /// The greatest czxid of a node that was made here.
    newest: AtomicI64,
    /// By directory: who makes a node that cannot be told from others of this session.
    gates: Mutex<HashMap<Arc<str>, Weak<Gate>>>,
    /// Deletions that are not yet confirmed.
    cleaning: AtomicUsize,
    cleaned: Notify,
    /// Nodes that stay for a while after their release.
    resting: AtomicUsize,
}

/// How many nodes one request checks at most: a server takes tens of milliseconds for a thousand
/// checks in one request, and everybody waits for it. It is also far below the 1 MiB that a
/// request may have.
pub const MOST_CHECKED: usize = 200;

/// Who is at the head of a queue for so long, and for a session timeout, is looked into.
pub const LONG: Duration = Duration::from_secs(5);

/// Lets one at a time make a node in a directory.
pub type Gate = tokio::sync::Mutex<()>;

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
    gone: AtomicBool,
    watched: AtomicBool,
    revoked: AtomicBool,
}

impl HeldNode {
    /// Whether the node was seen to be gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
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
    /// Wraps a ZooKeeper session that was just opened; `opened` is when that was asked for.
    pub fn new(
        number: u64,
        coordinator: Arc<dyn Coordinator>,
        lease: LeaseClock,
        spawner: Spawner,
        events: Events,
    ) -> Arc<Self> {
        let heads = Heads::new(lease.timeout().max(LONG));
        Arc::new(Generation {
            number,
            self_aware: coordinator.last_contact().is_some(),
            coordinator: Arc::new(Answered::new(coordinator, lease.clock().clone())),
            lease,
            spawner,
            events,
            over: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            stray: OnceLock::new(),
            heads,
            reconnects: AtomicU64::new(0),
            changed: Notify::new(),
            losses: AtomicU64::new(0),
            held: Mutex::default(),
            watching: AtomicUsize::new(0),
            newest: AtomicI64::new(0),
            gates: Mutex::default(),
            cleaning: AtomicUsize::new(0),
            cleaned: Notify::new(),
            resting: AtomicUsize::new(0),
        })
    }

    /// Which generation of its lane this is, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The ZooKeeper session. What it does not answer for a session timeout has failed.
    pub fn coordinator(&self) -> &Arc<dyn Coordinator> {
        &self.coordinator
    }

    /// The lease clock.
    pub fn lease(&self) -> &LeaseClock {
        &self.lease
    }

    /// Where background work goes.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Where events go.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Whether the coordinator itself knows when it was last in contact: then no heartbeats are
    /// needed, and expiry is found by asking.
    pub fn is_self_aware(&self) -> bool {
        self.self_aware
    }

    /// Asks a self-aware coordinator where it stands.
    fn refresh(&self) {
        if !self.self_aware {
            return;
        }
        if let Some(at) = self.coordinator.last_contact() {
            self.lease.observed(at);
            if !self.over.load(Ordering::Acquire) && self.coordinator.link().is_over() {
                self.end();
            }
        }
    }

    /// Whether the ZooKeeper session is over.
    pub fn is_over(&self) -> bool {
        self.refresh();
        self.over.load(Ordering::Acquire)
    }

    /// Whether it was taken out of use while its ZooKeeper session lives.
    pub fn was_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Whether new acquires should use a fresh generation.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire) || self.is_over()
    }

    /// What a lease granted now belongs to, if a commit was answered lately enough: a grant needs so
    /// much time left that the keeper is sure to look before it runs out.
    pub fn grantable(&self, stop_at: StopAt) -> Option<Term> {
        let (term, now) = (self.lease.term(stop_at), self.lease.clock().now());
        let valid = self.is_valid_at(term, now);
        let fresh = match stop_at {
            // The next heartbeat is not even due.
            StopAt::Suspect => now < self.lease.last_commit() + self.lease.heartbeat(),
            StopAt::Lost => self.lease.condition(now) == Condition::Held,
        };
        (valid && fresh).then_some(term)
    }

    /// Whether a lease of a term is valid at a moment that was just read.
    pub fn is_valid_at(&self, term: Term, now: Instant) -> bool {
        let valid = !self.is_over() && self.lease.is_present(term);
        match term.stop_at() {
            StopAt::Lost => valid && now < self.lease.valid_until(),
            StopAt::Suspect => valid && !self.is_suspect_at(now),
        }
    }

    /// Whether the connection is in doubt. Who sees that has seen it for good: the keeper may not
    /// look before the connection is back.
    fn is_suspect_at(&self, now: Instant) -> bool {
        let suspect =
            self.coordinator.link() != Link::Up || self.lease.condition(now) != Condition::Held;
        if suspect {
            self.lease.doubt();
        }
        suspect
    }

    /// Until when leases are valid if nothing more is heard.
    pub fn valid_until(&self, stop_at: StopAt) -> Instant {
        self.refresh();
        match stop_at {
            StopAt::Suspect => self.lease.suspect_at(),
            StopAt::Lost => self.lease.valid_until(),
        }
    }

    /// Waits for the next change of anything in here. Enable it before looking.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// How often the connection came back.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Acquire)
    }

    /// Notes that the connection came back.
    pub fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Ends the generation: everything held in it is lost.
    pub fn end(&self) {
        if !self.over.swap(true, Ordering::AcqRel) {
            self.lose_leases();
        }
    }

    /// Loses every lease granted so far; the nodes may still be there.
    pub fn lose_leases(&self) {
        self.lease.end_epoch();
        self.losses.fetch_add(1, Ordering::AcqRel);
        let lost: Vec<_> = self.lock_held().drain().map(|(_, node)| node).collect();
        for node in lost {
            self.events.tell(|| Event::Lost { lock: node.lock.clone() });
        }
        self.changed.notify_waiters();
    }

    /// Notes that the connection is in doubt: those leases are lost that stop there.
    pub fn doubt(&self) {
        self.lease.doubt();
        self.lose_doubted();
    }

    /// Tells of the leases that were lost because the connection was in doubt.
    pub fn lose_doubted(&self) {
        let lost: Vec<_> = {
            let mut held = self.lock_held();
            held.extract_if(|_, node| !self.lease.is_present(node.term)).collect()
        };
        if lost.is_empty() {
            return;
        }
        self.losses.fetch_add(1, Ordering::AcqRel);
        for (path, node) in lost {
            tracing::warn!(%path, "the session is suspect, where this lock stops");
            self.events.tell(|| Event::Lost { lock: node.lock.clone() });
        }
        self.changed.notify_waiters();
    }

    /// Takes the generation out of use because a node cannot be deleted: new acquires go to a
    /// fresh one, and this one is closed when nothing is held in it.
    pub fn retire(&self, path: &str, why: &RequestError) {
        tracing::error!(path, %why, "the server refuses to delete a lock's node");
        self.events.tell(|| Event::StuckNode {
            path: path.to_owned(),
            error: LockError::new(ErrorKind::Unauthorized, why.to_string()),
        });
        self.take_out_of_use();
    }

    /// Takes the generation out of use because the data of its server differ from its leader's.
    pub fn leave(&self, stray: Stray) {
        let path = &stray.path;
        tracing::error!(path, "the server shows a node that its leader does not know");
        self.events.tell(|| Event::Diverged { path: path.clone() });
        // Others may have found another.
        let _ = self.stray.set(stray);
        self.take_out_of_use();
    }

    /// The node that shows that the data of the server differ from its leader's.
    pub fn stray(&self) -> Option<&Stray> {
        self.stray.get()
    }

    /// Whether a node has been at the head of a queue for long, as far as those know who waited
    /// there. Once in so long only.
    pub fn is_long_at_head(&self, directory: &str, path: &Arc<str>) -> bool {
        self.heads.is_long_there(directory, path, self.lease.clock().now())
    }

    fn take_out_of_use(&self) {
        self.retired.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    fn lock_held(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<HeldNode>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a node under the care of the heartbeat.
    pub fn hold(&self, path: Arc<str>, lock: Arc<str>, czxid: i64, term: Term) -> Arc<HeldNode> {
        let [gone, watched, revoked] = [const { AtomicBool::new(false) }; 3];
        let node = HeldNode { path: path.clone(), lock, czxid, term, gone, watched, revoked };
        let node = Arc::new(node);
        let first = {
            let mut held = self.lock_held();
            held.insert(path, node.clone());
            held.len() == 1
        };
        if first && term.stop_at() == StopAt::Suspect {
            // The keeper sleeps for a heartbeat while nothing is held, and then it would be late.
            self.changed.notify_waiters();
        }
        node
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

    /// The nodes under care.
    pub fn held(&self) -> Vec<Arc<HeldNode>> {
        self.lock_held().values().cloned().collect()
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
    pub fn begin_watching(self: &Arc<Self>, node: &HeldNode, most: usize) -> Option<Watching> {
        if node.watched.swap(true, Ordering::AcqRel) {
            return None;
        }
        let watching = self.room_for_watches(1, most);
        if watching.is_none() {
            node.watched.store(false, Ordering::Release);
        }
        watching
    }

    /// Counts watches until the returned value is dropped, unless there are too many. After a
    /// reconnect the client sends all its watches in one request, and loses the session if that is
    /// longer than 128 KiB.
    pub fn room_for_watches(self: &Arc<Self>, count: usize, most: usize) -> Option<Watching> {
        let more = |now: usize| (now + count <= most).then_some(now + count);
        let counted = self.watching.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.ok().map(|_| Watching(self.clone(), count))
    }

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

    /// How often leases were lost.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
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

    fn committed(&self, sent: Instant) {
        let now = self.lease.clock().now();
        if self.lease.condition(now) != Condition::Held {
            // A coordinator that knows by itself when it was last in contact was not asked lately.
            self.refresh();
        }
        match self.lease.committed(sent, now) {
            Condition::Held => {}
            Condition::Suspect => self.lose_doubted(),
            Condition::Lost => self.lose_leases(),
        }
    }

    /// Counts a deletion until the returned value is dropped.
    pub fn cleaning(self: &Arc<Self>) -> Cleaning {
        self.cleaning.fetch_add(1, Ordering::AcqRel);
        Cleaning(self.clone())
    }

    /// Counts a node that stays for a while until the returned value is dropped. No close waits for
    /// it.
    pub fn resting(self: &Arc<Self>) -> Resting {
        self.resting.fetch_add(1, Ordering::AcqRel);
        Resting(self.clone())
    }

    /// Whether a node stays for a while after its release.
    pub fn has_resting(&self) -> bool {
        self.resting.load(Ordering::Acquire) > 0
    }

    /// Whether every deletion is confirmed.
    pub fn is_clean(&self) -> bool {
        self.cleaning.load(Ordering::Acquire) == 0
    }

    /// Waits until every deletion is confirmed, or nothing is left to delete.
    pub async fn clean(&self) {
        loop {
            let mut cleaned = std::pin::pin!(self.cleaned.notified());
            cleaned.as_mut().enable();
            if self.is_clean() || self.is_over() {
                return;
            }
            cleaned.await;
        }
    }
}

/// A node that stays for a while after its release.
#[derive(Debug)]
pub struct Resting(Arc<Generation>);

impl Drop for Resting {
    fn drop(&mut self) {
        self.0.resting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Removes a node, but not a later one with its path.
fn remove(held: &mut HashMap<Arc<str>, Arc<HeldNode>>, node: &HeldNode) -> bool {
    let same = held.get(&node.path).is_some_and(|present| present.czxid == node.czxid);
    same && held.remove(&node.path).is_some()
}

/// A watch on a held node.
#[derive(Debug)]
pub struct Watching(Arc<Generation>, usize);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watching.fetch_sub(self.1, Ordering::AcqRel);
    }
}

/// A deletion under way; `close` waits for all of them.
#[derive(Debug)]
pub struct Cleaning(Arc<Generation>);

impl Drop for Cleaning {
    fn drop(&mut self) {
        if self.0.cleaning.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.cleaned.notify_waiters();
        }
    }
}
