//! The nodes that are held in a generation, and their watches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Generation;
use super::told::Told;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::base::clock::Instant;
use crate::base::mode::Mode;
use crate::base::pattern::Pattern;
use crate::base::policy::StopAt;
use crate::base::token::FencingToken;
use crate::base::unharmed::{tell_all, unharmed};
use crate::base::until::{until, until_by};
use crate::observe::observer::{Event, Events, LossReason};
use crate::session::lease_clock::Term;
use crate::session::node_budget::Counted;
use crate::session::watch_budget::Watching;

/// A lock, as the events of its nodes name it.
#[derive(Clone, Debug)]
pub struct OfLock {
    /// Its name.
    pub name: Arc<str>,
    /// The pattern of its name.
    pub pattern: Pattern,
    /// The mode in which it is held.
    pub mode: Mode,
}

impl OfLock {
    /// What events tell of it.
    pub(super) fn told(&self) -> (Arc<str>, &'static str, Mode) {
        (self.name.clone(), self.pattern.text(), self.mode)
    }
}

impl From<&str> for OfLock {
    fn from(name: &str) -> Self {
        OfLock { name: name.into(), pattern: Pattern::default(), mode: Mode::Mutex }
    }
}

/// The tokens of the grants under a node.
#[derive(Debug)]
pub struct Tokens {
    /// The czxid with which they begin: the node's, unless it continues with those of another one.
    czxid: AtomicU64,
    /// How many there were.
    grants: AtomicU64,
}

impl Tokens {
    fn of(czxid: i64) -> Self {
        Tokens { czxid: AtomicU64::new(czxid.unsigned_abs()), grants: AtomicU64::new(0) }
    }

    /// The token of the next grant.
    pub fn next(&self) -> FencingToken {
        let grant = self.grants.fetch_add(1, Ordering::Relaxed);
        FencingToken::new(self.czxid.load(Ordering::Relaxed), grant)
    }

    /// The token of the latest grant.
    fn latest(&self) -> Option<FencingToken> {
        let grant = self.grants.load(Ordering::Relaxed).checked_sub(1)?;
        Some(FencingToken::new(self.czxid.load(Ordering::Relaxed), grant))
    }

    /// Continues with the tokens of another node of this process, before there is a grant.
    pub fn continue_with(&self, other: &Tokens) {
        self.czxid.store(other.czxid.load(Ordering::Relaxed), Ordering::Relaxed);
        self.grants.store(other.grants.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The node of a lease.
#[derive(Debug)]
pub struct HeldNode {
    /// The node's path.
    pub path: Arc<str>,
    /// The lock, and the mode in which it is held.
    pub of: OfLock,
    /// Its czxid, because a later node may have the same path.
    pub czxid: i64,
    /// The tokens of the grants under it.
    pub tokens: Tokens,
    /// The term of its lease.
    pub term: Term,
    /// The data with which it was created.
    pub payload: Option<Arc<[u8]>>,
    pub(super) told: Mutex<Told>,
    /// Since when it is in the heartbeat's care, or the node was that it replaces.
    since: AtomicU64,
    /// When it was last known to exist.
    seen: AtomicU64,
    /// The version of its data, if known: when it changes, somebody may be asking for its release.
    version: AtomicI32,
    /// How many writes of its data are under way.
    writes: AtomicU32,
    gone: AtomicBool,
    /// Whether its lease was lost, and it keeps others out until it is given back.
    lost: AtomicBool,
    watched: AtomicBool,
    revoked: AtomicBool,
    recurring: AtomicBool,
    /// Whether this process is deleting it although it is held.
    broken: AtomicBool,
    /// Fires when its lease is lost, and when its owner is asked to release.
    news: Notify,
    /// Counts it until it is deleted.
    pub counted: Counted,
}

impl HeldNode {
    /// Logs its loss.
    fn log_loss(&self, reason: LossReason) {
        let (lock, path) = (&*self.of.name, &*self.path);
        match self.tokens.latest() {
            Some(_) => tracing::error!(lock, path, ?reason, "a held lock was lost"),
            // Its waiters acquire it again.
            None => tracing::info!(
                lock,
                path,
                ?reason,
                "a node was lost under which nobody was granted the lock"
            ),
        }
    }

    /// Tells the observers of its loss.
    fn tell_loss(&self, events: &Events, reason: LossReason) {
        events.tell(|| {
            let (lock, pattern, mode) = self.of.told();
            let (czxid, token) = self.told_by();
            Event::Lost { lock, pattern, mode, czxid, token, reason }
        });
    }

    /// The numbers by which events tell it: its czxid, and the token of the latest grant under it.
    fn told_by(&self) -> (u64, Option<FencingToken>) {
        (self.czxid.unsigned_abs(), self.tokens.latest())
    }

    /// Whether the node is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Records that somebody else deleted it, where nobody has to be told.
    pub fn was_deleted(&self) {
        self.gone.store(true, Ordering::Release);
        self.counted.is_deleted();
    }

    /// When it was last known to exist.
    pub fn seen(&self) -> Instant {
        Instant::from_nanos(self.seen.load(Ordering::Acquire))
    }

    /// Records that it existed at a time.
    pub fn seen_at(&self, at: Instant) {
        self.seen.fetch_max(at.as_nanos(), Ordering::AcqRel);
    }

    /// The version of its data when they were last read.
    pub fn version(&self) -> i32 {
        self.version.load(Ordering::Acquire)
    }

    /// Records the version of its data.
    pub fn has_version(&self, version: i32) {
        self.version.store(version, Ordering::Release);
    }

    /// Records the version of its data that were read, unless a later one is known by now: answers to several who
    /// asked are not told in their order.
    pub fn was_read(&self, version: i32) {
        let is_later = |known: i32| known == i32::MIN || version.wrapping_sub(known) > 0;
        let later = |known: i32| is_later(known).then_some(version);
        let _ = self.version.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// Since when it is in the heartbeat's care, or the node was that it replaces.
    pub fn since(&self) -> Instant {
        Instant::from_nanos(self.since.load(Ordering::Acquire))
    }

    /// It replaces another node of this process: there was no grant under it. It is checked and watched when
    /// that one would have been.
    pub fn continues(&self, other: &HeldNode) {
        self.tokens.continue_with(&other.tokens);
        self.revoked.fetch_or(other.is_revoked(), Ordering::AcqRel);
        for (own, its) in [(&self.since, &other.since), (&self.seen, &other.seen)] {
            own.fetch_min(its.load(Ordering::Acquire), Ordering::AcqRel);
        }
    }

    /// A write of its data is under way until the returned value is dropped. Meanwhile nobody knows their
    /// version.
    pub fn writing(self: &Arc<Self>) -> Writing {
        self.writes.fetch_add(1, Ordering::AcqRel);
        Writing { node: self.clone(), is_done: false }
    }

    /// Whether a write of its data is under way.
    pub fn is_being_written(&self) -> bool {
        self.writes.load(Ordering::Acquire) > 0
    }

    /// Records that its data were written when they had this version. If they were read since then,
    /// that is newer.
    pub fn was_written(&self, version: i32) {
        let next = version.wrapping_add(1);
        let _ = self.version.compare_exchange(version, next, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Records that a later node, of another contender, may have the same path.
    pub fn recurs(&self) {
        self.recurring.store(true, Ordering::Release);
    }

    /// Whether a later node, of another contender, may have the same path.
    pub fn is_recurring(&self) -> bool {
        self.recurring.load(Ordering::Acquire)
    }

    /// Records whether this process is deleting it although it is held.
    pub fn is_being_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::Release);
    }

    /// Whether it is watched.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    /// Records whether it is watched.
    pub fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Release);
    }

    /// Whether its owner was asked to release.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Waits for the loss of its lease, or the request for its release. Enable the future before looking.
    pub fn changed(&self) -> Notified<'_> {
        self.news.notified()
    }

    /// Makes all look again that wait for such news.
    pub fn look_again(&self) {
        tell_all(&self.news);
    }

    /// Waits for a condition that its loss or such a request may fulfil.
    pub async fn until(&self, so: impl Fn() -> bool) {
        until(&self.news, so).await;
    }
}

impl Generation {
    pub(super) fn lock_held(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<HeldNode>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a node into the heartbeat's care. Returns `None` if its term has ended meanwhile.
    pub fn hold(
        &self,
        path: Arc<str>,
        of: OfLock,
        czxid: i64,
        term: Term,
        payload: Option<Arc<[u8]>>,
    ) -> Option<Arc<HeldNode>> {
        let [gone, lost, watched, revoked, recurring, broken] =
            [const { AtomicBool::new(false) }; 6];
        let now = self.lease.clock().now().as_nanos();
        let [since, seen] = [now; 2].map(AtomicU64::new);
        let version = AtomicI32::new(0);
        let writes = AtomicU32::new(0);
        let counted = self.nodes.count(&path);
        let node = Arc::new(HeldNode {
            path: path.clone(),
            of,
            czxid,
            tokens: Tokens::of(czxid),
            term,
            payload,
            told: Mutex::default(),
            since,
            seen,
            version,
            writes,
            gone,
            lost,
            watched,
            revoked,
            recurring,
            broken,
            news: Notify::new(),
            counted,
        });
        let before = self.lock_held().insert(path, node.clone());
        // This session made a node at the path of one that it held: somebody had deleted that one.
        if let Some(before) = before.filter(|before| before.czxid != czxid) {
            self.tell_gone(&before, LossReason::Deleted);
            self.keeper.notify_one();
        }
        // The thread that ends a term removes its nodes afterwards, so one of the two sees the other.
        if !self.lease.is_present(term) {
            self.unhold(&node);
            return None;
        }
        if term.stop_at() == StopAt::Suspect && self.keeper_rests.swap(false, Ordering::AcqRel) {
            self.keeper.notify_one();
        }
        Some(node)
    }

    /// Ends the care for a node, which its owner gives back, whether its lease was lost or not.
    pub fn unhold(&self, node: &HeldNode) {
        let left = {
            let mut held = self.lock_held();
            if !remove(&mut held, node) && node.lost.swap(false, Ordering::AcqRel) {
                self.lost.fetch_sub(1, Ordering::AcqRel);
            }
            held.len()
        };
        if left == 0 && self.retired.load(Ordering::Acquire) {
            tell_all(&self.changed);
        }
    }

    /// The nodes in care, those that were not checked for longest first.
    pub fn held(&self) -> Vec<Arc<HeldNode>> {
        let mut nodes: Vec<_> = self.lock_held().values().cloned().collect();
        nodes.sort_by_cached_key(|node| (node.seen().as_nanos(), node.czxid));
        nodes
    }

    /// The longest time since which a node in care has not been checked.
    pub fn unseen_since(&self) -> Option<Instant> {
        let held = self.lock_held();
        held.values().map(|node| node.seen()).min_by_key(|seen| seen.as_nanos())
    }

    /// Whether a node is still in care.
    pub fn is_held(&self, node: &Arc<HeldNode>) -> bool {
        self.lock_held().get(&node.path).is_some_and(|held| Arc::ptr_eq(held, node))
    }

    /// Whether something is held. If nothing is, the keeper sleeps for half a heartbeat, which may be late
    /// for a lease that stops where the session is suspect: such a grant [wakes](Self::keeper_is_due)
    /// it.
    pub fn keeper_holds(&self) -> bool {
        self.keeper_rests.store(true, Ordering::Release);
        let holds = !self.holds_nothing();
        if holds {
            self.keeper_rests.store(false, Ordering::Release);
        }
        holds
    }

    /// Resolves when the keeper has to look: it rests, or leases were lost.
    pub fn keeper_is_due(&self) -> Notified<'_> {
        self.keeper.notified()
    }

    /// Whether nothing is held.
    pub fn holds_nothing(&self) -> bool {
        self.lock_held().is_empty()
    }

    /// Records that a node that was just in care keeps others out until it is [given back](Self::unhold),
    /// though its lease was lost. The caller still locks what is held, so that nobody gives it back before.
    pub(super) fn keeps(&self, node: &HeldNode) {
        node.lost.store(true, Ordering::Release);
        self.lost.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a node whose lease was lost keeps others out. Look after [`holds_nothing`](Self::holds_nothing).
    pub fn keeps_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire) > 0
    }

    /// Records that a held node was deleted, and not by its owner.
    pub fn lost_node(&self, node: &HeldNode, reason: LossReason) {
        self.lost_nodes([node], reason);
    }

    /// The same for several. The keeper looks once.
    pub fn lost_nodes<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a HeldNode>,
        reason: LossReason,
    ) {
        let before = self.losses();
        for node in nodes {
            if remove(&mut self.lock_held(), node) {
                self.tell_gone(node, reason);
            }
        }
        if self.losses() != before {
            self.keeper.notify_one();
        }
    }

    /// Records that a node that was in care is gone, and tells of it.
    fn tell_gone(&self, node: &HeldNode, reason: LossReason) {
        node.was_deleted();
        let reason = match node.broken.load(Ordering::Acquire) {
            true => LossReason::Broken,
            // ZooKeeper deletes the nodes of a session that ends.
            false if self.is_over() => LossReason::SessionEnded,
            false => reason,
        };
        self.tell_lost(node, reason);
    }

    /// Tells of the loss of a lease. The caller wakes the keeper, which tells the queues.
    pub(super) fn tell_lost(&self, node: &HeldNode, reason: LossReason) {
        // The log is the application's, and others are to be told all the same.
        unharmed(|| node.log_loss(reason));
        node.tell_loss(&self.events, reason);
        self.losses.fetch_add(1, Ordering::AcqRel);
        tell_all(&node.news);
    }

    /// Makes all look again that wait for news of held nodes.
    pub(super) fn look_at_all(&self) {
        self.held().iter().for_each(|node| node.look_again());
    }

    /// Waits for a condition that the loss of a held node's lease fulfils. Who tells of that may stand still, for
    /// instance because a log that it writes is full: the time of the lease counts here as well.
    pub async fn until_over(&self, node: &HeldNode, so: impl Fn() -> bool) {
        let time = || self.runs_out(node.term);
        until_by(&node.news, self.lease.clock(), time, so).await;
    }

    /// Tells the observers that the connection is in doubt, for each held node.
    pub fn tell_suspect(&self) {
        if !self.events.are_heard() {
            return;
        }
        for node in self.held() {
            self.events.tell(|| {
                let (lock, pattern, mode) = node.of.told();
                let (czxid, token) = node.told_by();
                Event::Suspect { lock, pattern, mode, czxid, token }
            });
        }
    }

    /// Records that a held node's lease is not valid any more, if nobody has seen it yet.
    pub fn lost_lease(&self, node: &HeldNode) {
        let was_held = {
            let mut held = self.lock_held();
            let was_held = remove(&mut held, node);
            if was_held {
                self.keeps(node);
            }
            was_held
        };
        if was_held {
            self.tell_lost(node, self.why_over(node.term));
            self.keeper.notify_one();
        }
    }

    /// Records that the owner of a held node was asked to release.
    pub fn revoked_node(&self, node: &HeldNode) {
        if !node.revoked.swap(true, Ordering::AcqRel) {
            self.events.tell(|| {
                let (lock, pattern, mode) = node.of.told();
                let (czxid, token) = node.told_by();
                Event::Revoked { lock, pattern, mode, czxid, token }
            });
            tell_all(&node.news);
        }
    }

    /// Begins to watch a held node, unless it is watched, or there are too many watches.
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

/// Removes a node, but not a later one with the same path.
fn remove(held: &mut HashMap<Arc<str>, Arc<HeldNode>>, node: &HeldNode) -> bool {
    match held.remove(&node.path) {
        Some(later) if later.czxid != node.czxid => {
            held.insert(later.path.clone(), later);
            false
        }
        removed => removed.is_some(),
    }
}

/// A write of a node's data that is under way. If it is dropped before it is done, nobody knows whether the
/// data were written.
#[derive(Debug)]
pub struct Writing {
    node: Arc<HeldNode>,
    is_done: bool,
}

impl Writing {
    /// Ends the write, of which it is known what came of it.
    pub fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_done {
            self.node.unsure();
        }
        self.node.writes.fetch_sub(1, Ordering::AcqRel);
    }
}
