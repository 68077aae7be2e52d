//! A lease: a node of this process at the head of its queue, and whether it is still valid.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::futures::Notified;
use tokio::sync::watch;

use crate::base::cancel_policy::{CancelPolicy, OnLost, OnRevoked};
use crate::base::clock::Instant;
use crate::base::policy::StopAt;
use crate::base::token::FencingToken;
use crate::cooldown::release_mark::ReleaseMark;
use crate::coordinator::link::Link;
use crate::coordinator::node::Stat;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::watch::WatchEvent;
use crate::divergence::head_age::Age;
use crate::name::path::name_of;
use crate::observe::observer::LossReason;
use crate::session::generation::{Generation, HeldNode, OfLock};
use crate::session::lease_clock::Term;
use crate::session::own_watch::{OwnWatch, evaluate, watch_own};
use crate::session::releaser::{DeleteOptions, Deletion, Doomed, Told, or_forgotten};

/// A node that holds a lock. When it is dropped, the releaser deletes the node.
#[derive(Debug)]
pub struct Lease {
    generation: Arc<Generation>,
    node: Arc<HeldNode>,
    delete_options: DeleteOptions,
    mark: Option<Box<ReleaseMark>>,
    released: AtomicBool,
    /// The deletion of a node that was let go, for its holder, who has not given it back.
    let_go: OnceLock<Told>,
    lingers: bool,
    /// The fenced writes whose outcome nobody knows.
    unanswered: AtomicU32,
    /// The number of contenders that were ahead of its node at first.
    ahead: u32,
}

/// A node that waits in its queue. When it is dropped, the releaser deletes the node.
#[derive(Debug)]
pub struct QueuedNode {
    generation: Arc<Generation>,
    path: Arc<str>,
    czxid: i64,
    /// When it was first asked how old it is.
    since: Option<Instant>,
    delete_options: DeleteOptions,
    mark: Option<Box<ReleaseMark>>,
    own: Option<Box<OwnWatch>>,
    payload: Arc<[u8]>,
    kept: bool,
    lingers: bool,
    has_waited: bool,
    /// The number of contenders that were ahead at first, once they were counted.
    ahead: Option<NonZeroU32>,
}

impl QueuedNode {
    /// Takes responsibility for a node with this payload.
    pub fn new(
        generation: Arc<Generation>,
        path: Arc<str>,
        czxid: i64,
        payload: Arc<[u8]>,
        delete_options: DeleteOptions,
    ) -> Self {
        // Until its lease counts it, or it is dropped.
        generation.nodes().begin(&path);
        QueuedNode {
            generation,
            path,
            czxid,
            since: None,
            delete_options,
            mark: None,
            own: None,
            payload,
            kept: true,
            lingers: false,
            has_waited: false,
            ahead: None,
        }
    }

    /// Sets the mark that it keeps in its directory.
    pub fn marking(mut self, mark: Option<Box<ReleaseMark>>) -> Self {
        self.mark = mark;
        self
    }

    /// Sets whether it says that it may be kept for a while after the last release.
    pub fn lingering(mut self, lingers: bool) -> Self {
        self.lingers = lingers;
        self
    }

    /// The mark that it keeps in its directory.
    pub fn mark(&mut self) -> Option<&mut ReleaseMark> {
        self.mark.as_deref_mut()
    }

    /// Records that it has waited, so that it is watched when it is held. Perhaps nobody watches it just before: no deletion
    /// was to be the grant, it waited for the one two places ahead, and both have gone, or the connection was lost, and its
    /// watch with it.
    pub fn waited(&mut self) {
        self.has_waited = true;
    }

    /// Records how many contenders are ahead, the first time.
    pub fn was_behind(&mut self, ahead: usize) {
        let count = || u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1);
        self.ahead = self.ahead.or_else(|| NonZeroU32::new(count()));
    }

    /// Whether a later node, of another contender, may have the same path.
    pub fn is_recurring(&self) -> bool {
        self.delete_options.only.is_some()
    }

    /// The node's path.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Its czxid.
    pub fn czxid(&self) -> i64 {
        self.czxid
    }

    /// What its own age says about that of other nodes.
    pub fn age(&mut self) -> Age {
        let since = *self.since.get_or_insert_with(|| self.generation.lease().clock().now());
        Age { czxid: self.czxid, since }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        name_of(&self.path)
    }

    /// Sets the watch on the node while it waits.
    pub fn watch(&mut self, own: OwnWatch) {
        self.own = Some(Box::new(own));
    }

    /// Whether the node is watched. A watch that was set before the connection was lost is dropped: another one is
    /// needed.
    pub fn is_watched(&mut self) -> bool {
        self.own.take_if(|own| !own.tells(&self.generation));
        self.own.is_some()
    }

    /// The event of the watch on the node, if it has fired; the watch is then used up.
    pub fn poll_own(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        let Some(own) = &mut self.own else { return Poll::Pending };
        let event = ready!(own.poll(cx));
        self.own = None;
        Poll::Ready(event)
    }

    /// Turns the node into a lease if the lease clock allows a grant now; otherwise returns the
    /// node.
    pub fn grant(self, of: OfLock, stop_at: StopAt) -> Result<Lease, QueuedNode> {
        match self.generation.grantable(stop_at) {
            Some(term) => self.hold(of, term),
            None => Err(self),
        }
    }

    /// Turns the node into a lease of this term, if it is the present one.
    fn hold(mut self, of: OfLock, term: Term) -> Result<Lease, QueuedNode> {
        let generation = self.generation.clone();
        let (path, payload) = (self.path.clone(), Some(self.payload.clone()));
        let held = generation.hold(path, of, self.czxid, term, payload);
        let Some(node) = held else { return Err(self) };
        self.kept = false;
        if self.delete_options.only.is_some() {
            node.recurs();
        }
        if self.is_watched()
            && let Some(own) = self.own.take()
        {
            own.hold(&generation, &node);
        } else if self.has_waited || generation.is_self_aware() || node.is_recurring() {
            watch_own(&generation, &node);
        }
        let (released, let_go) = (AtomicBool::new(false), OnceLock::new());
        let delete_options = self.delete_options;
        let (mark, lingers, unanswered) = (self.mark.take(), self.lingers, AtomicU32::new(0));
        let ahead = self.ahead.map_or(0, |ahead| ahead.get() - 1);
        Ok(Lease {
            generation,
            node,
            delete_options,
            mark,
            released,
            let_go,
            lingers,
            unanswered,
            ahead,
        })
    }

    /// Turns a node that replaces another one of this process into a lease, if that of the other one is
    /// valid. Nobody can come in between, so it asks for no more than that: where answers come too late for
    /// a grant, or in a session that grants nothing any more, a hold goes on. It
    /// continues with the tokens of that one, because its own would be greater than that of a
    /// waiting writer; and whoever asked for the release of that one asked for the release of this one.
    pub fn succeed(self, of: OfLock, other: &Lease) -> Result<Lease, QueuedNode> {
        if !other.is_valid() {
            return Err(self);
        }
        let lease = self.hold(of, other.node.term)?;
        lease.node.continues(&other.node);
        if other.node.is_watched() {
            lease.watch();
        }
        Ok(lease)
    }

    /// Drops a node that is deleted, or that the caller deletes.
    pub fn forget(mut self) {
        self.kept = false;
    }
}

impl Drop for QueuedNode {
    fn drop(&mut self) {
        self.generation.nodes().end(&self.path);
        if !self.kept || self.generation.is_over() {
            return;
        }
        if let Some(mark) = &self.mark {
            drop(mark.release(&self.generation, (&self.path, None), Instant::ORIGIN));
        } else {
            let options = DeleteOptions { directory: false, ..self.delete_options };
            let doomed = Doomed { options, ..Doomed::new(self.path.clone()) };
            drop(Deletion::send(&self.generation, doomed));
        }
    }
}

impl Lease {
    /// The number of contenders that were ahead of its node at first.
    pub fn ahead(&self) -> u32 {
        self.ahead
    }

    /// Whether its node says that it may be kept for a while after the last release. A try in another process
    /// waits only for such a node to give way.
    pub fn lingers(&self) -> bool {
        self.lingers
    }

    /// A fenced write is sent, until it [is answered](Lease::write_is_answered).
    pub fn writes(&self) {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
    }

    /// It is known what became of a fenced write.
    pub fn write_is_answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether fenced writes may still be applied, as long as the node is there.
    pub fn has_unanswered_writes(&self) -> bool {
        // Whoever counts one later sees that the guard has been given back, which the caller did before.
        self.unanswered.fetch_or(0, Ordering::AcqRel) > 0
    }

    /// The path of the node.
    pub fn path(&self) -> &Arc<str> {
        &self.node.path
    }

    /// The node's czxid.
    pub fn czxid(&self) -> u64 {
        self.node.czxid.unsigned_abs()
    }

    /// The name of the node in its directory.
    pub fn node_name(&self) -> &str {
        name_of(&self.node.path)
    }

    /// Whether the lease is valid now.
    pub fn is_valid(&self) -> bool {
        self.is_valid_at(self.generation.lease().clock().now())
    }

    /// Whether the lease is valid at `now`, which was just read.
    pub fn is_valid_at(&self, now: Instant) -> bool {
        !self.released.load(Ordering::Acquire) && !self.is_lost_at(now)
    }

    /// Whether it was lost, be it released or not, at `now`, which was just read.
    pub fn is_lost_at(&self, now: Instant) -> bool {
        self.node.is_gone() || !self.generation.is_valid_at(self.node.term, now)
    }

    /// When the lease counts as lost.
    pub fn stop_at(&self) -> StopAt {
        self.node.term.stop_at()
    }

    /// For how long the lease is certainly valid if ZooKeeper sends nothing more.
    pub fn remaining(&self) -> Duration {
        if !self.is_valid() {
            return Duration::ZERO;
        }
        let until = self.generation.valid_until(self.stop_at());
        until.since(self.generation.lease().clock().now())
    }

    /// The token of the next grant on this node.
    pub fn next_token(&self) -> FencingToken {
        self.node.tokens.next()
    }

    /// Resolves when the lease is lost: before ZooKeeper can delete the node because of silence,
    /// and within a heartbeat after somebody else deleted it.
    pub async fn lost(&self) {
        self.until(|lease| !lease.is_valid()).await;
    }

    /// Resolves when the lease is lost, or new acquires use another generation than its own.
    pub async fn retired(&self) {
        or(self.lost(), self.generation.until(|| self.generation.is_retired())).await;
    }

    /// Resolves when something happens that ends a body.
    pub async fn ended(&self, cancel_policy: CancelPolicy) {
        if cancel_policy.lost == OnLost::Cancel {
            self.until(|lease| lease.is_ended(cancel_policy)).await;
        } else {
            self.node.until(|| self.is_ended(cancel_policy)).await;
        }
    }

    /// Whether something happened that ends a body.
    pub fn is_ended(&self, cancel_policy: CancelPolicy) -> bool {
        cancel_policy.lost == OnLost::Cancel && !self.is_valid()
            || cancel_policy.revoked == OnRevoked::Cancel && self.is_revoked()
    }

    /// The node's czxid, if a later node, of another contender, may have the same path.
    pub fn only(&self) -> Option<i64> {
        self.node.is_recurring().then_some(self.node.czxid)
    }

    /// Whether it is known that somebody else deleted the node.
    pub fn is_deleted(&self) -> bool {
        self.node.is_gone()
    }

    /// Whether its node probably stays until it is released, be it lost or not: nobody is known to have
    /// deleted it, and its ZooKeeper session lives, in use or not.
    pub fn stays(&self) -> bool {
        let released = self.released.load(Ordering::Acquire);
        let goes = released || self.is_deleted() || self.generation.is_over();
        !goes && self.generation.coordinator().link() == Link::Up
    }

    /// Takes notice of what was read of the node: perhaps somebody asks for its release.
    pub fn was_read(&self, data: &[u8], stat: &Stat) {
        evaluate(&self.generation, &self.node, data, stat);
    }

    /// Records that somebody else deleted the node.
    pub fn node_is_gone(&self) {
        self.generation.lost_node(&self.node, LossReason::Deleted);
    }

    /// Watches the node from now on, instead of from the next heartbeat on.
    pub fn watch(&self) {
        watch_own(&self.generation, &self.node);
    }

    /// Whether somebody asked for the release of the lock.
    pub fn is_revoked(&self) -> bool {
        self.node.is_revoked()
    }

    /// Resolves when somebody asks for the release of the lock: at once if the node is
    /// [watched](Lease::watch), otherwise within a heartbeat.
    pub async fn revoked(&self) {
        self.node.until(|| self.is_revoked()).await;
    }

    /// Waits for its loss, or for a request for its release. Enable the future before looking.
    pub fn changed(&self) -> Notified<'_> {
        self.node.changed()
    }

    /// Makes those look again who wait for such a change.
    pub fn look_again(&self) {
        self.node.look_again();
    }

    /// Waits for a condition that its loss fulfils.
    async fn until(&self, so: impl Fn(&Lease) -> bool) {
        self.generation.until_over(&self.node, || so(self)).await;
    }

    /// Records whether a caller was given the lock; only then does `hold_at_least` apply.
    pub fn take(&self, taken: bool) {
        if let Some(mark) = &self.mark {
            mark.take(taken);
        }
    }

    /// Sends the deletion of the node, or waits for it if the node was let go. `None` if that was done before in
    /// another way, or if the node stays for a while.
    pub fn release(&self) -> Option<Deletion> {
        let going = || Some(Deletion::of_another(&self.generation, self.let_go.get()?.clone()));
        self.begin_release().or_else(going)
    }

    fn begin_release(&self) -> Option<Deletion> {
        if self.released.swap(true, Ordering::AcqRel) {
            return None;
        }
        // Counted before nothing is held, so that a session that is retired is not closed in between.
        let _pending = self.generation.pending_deletion();
        self.generation.unhold(&self.node);
        match &self.mark {
            None => {
                let (held, options) = (Some(self.node.clone()), self.delete_options);
                let doomed = Doomed { held, options, ..Doomed::new(self.node.path.clone()) };
                Some(Deletion::send(&self.generation, doomed))
            }
            Some(mark) => {
                let node = (&self.node.path, Some(&self.node));
                mark.release(&self.generation, node, self.node.since())
            }
        }
    }

    /// Deletes the node, and returns whether it was there until then: nobody is told of a loss. If that
    /// remains unknown for this time, the node is deleted when the lease is dropped.
    ///
    /// # Errors
    ///
    /// The error of the request.
    pub async fn delete(&self, patience: Duration) -> Result<bool, RequestError> {
        let (generation, path) = (&self.generation, self.node.path.to_string());
        generation.unhold(&self.node);
        let deleted = generation.write(vec![Operation::Delete { path }]);
        let was_there = match or_forgotten(generation, patience, deleted).await {
            Ok(()) => true,
            Err(RequestError::Multi { error, .. }) if *error == RequestError::NoNode => {
                self.node.was_deleted();
                false
            }
            Err(RequestError::Multi { error, .. }) => return Err(*error),
            Err(error) => return Err(error),
        };
        self.released.store(true, Ordering::Release);
        Ok(was_there)
    }

    /// Tells of the loss of a lease that is over, unless that was done before.
    pub fn was_lost(&self) {
        self.generation.lost_lease(&self.node);
    }

    /// Deletes the node for its holder, who has lost this lease, or another one of several, and has been told
    /// so.
    pub fn let_go(&self) {
        if !self.is_valid() {
            self.was_lost();
        }
        let (tell, told) = watch::channel(None);
        // Before it is deleted, so that whoever gives it back then finds it.
        if self.let_go.set(told).is_ok()
            && let Some(deletion) = self.begin_release()
        {
            let going = async move { drop(tell.send_replace(Some(deletion.await))) };
            self.generation.spawner().spawn(going);
        }
    }

    /// The generation that the lease belongs to.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.begin_release());
    }
}
