//! The releaser: deletes every node of this session that is no longer wanted, whatever was
//! cancelled and whichever request or reply was lost.
//!
//! Both futures in this module send their request when they are created. If they are dropped before
//! they are done, they continue in the background, for as long as the ZooKeeper session lives.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::base::clock::{Instant, Sleep};
use crate::base::deadline::Deadline;
use crate::base::times;
use crate::cooldown::mark_removal::MarkRemoval;
use crate::coordinator::io_thread::is_io_thread;
use crate::coordinator::traits::{Created, Link, NodeKind, RequestError};
use crate::coordinator::wakes::Together;
use crate::layout::driver::{NewNode, Proof};
use crate::session::generation::{Generation, PendingDeletion};

type Background<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The deletion of a node. Resolves when the node is gone: either the server has confirmed it, or
/// it must have ended the session by now, whatever the client library reports.
#[derive(Debug)]
pub struct Deletion {
    generation: Arc<Generation>,
    begun: Instant,
    sent: Sent,
    work: Unfinished<Result<(), RequestError>>,
    limit: Option<Sleep>,
    together: Together,
    /// Whether its own node is gone.
    gone: bool,
    /// Those that it waits for as well.
    others: Vec<Deletion>,
}

/// When a deletion was sent first on the present connection, if it may have been applied there; 0 if not.
#[derive(Clone, Debug, Default)]
struct Sent(Arc<AtomicU64>);

impl Sent {
    fn at(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Acquire))
    }

    /// Records that it is sent. What was sent on an earlier connection may be lost.
    fn now(&self, generation: &Generation) {
        if self.at() <= generation.reconnected_at() {
            self.0.store(generation.lease().clock().now().as_nanos(), Ordering::Release);
        }
    }

    /// Waits for the reply to an attempt. After one that says nothing of the node, the session lives on if
    /// the connection is there, or a server has refused the credentials, and the deletion may never be
    /// applied.
    async fn answer(
        &self,
        generation: &Arc<Generation>,
        patience: Duration,
        attempt: Background<Result<(), RequestError>>,
    ) -> Result<(), RequestError> {
        let answer = in_time(generation, patience, attempt).await;
        if let Some(Err(_)) = answer
            && matches!(generation.coordinator().link(), Link::Up | Link::AuthFailed)
        {
            self.0.store(0, Ordering::Release);
        }
        answer.unwrap_or(Err(RequestError::ConnectionLoss))
    }
}

/// Options of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The node's czxid, if a later node may have the same path: the node is then read first.
    pub only: Option<i64>,
    /// Whether the directory is deleted too, if it is empty then.
    pub directory: bool,
}

impl Deletion {
    /// Sends the deletion of a node with a unique path.
    pub fn send(generation: &Arc<Generation>, path: Arc<str>) -> Self {
        Deletion::heeding(generation, path, DeleteOptions::default())
    }

    /// Sends the deletion of a node.
    pub fn heeding(generation: &Arc<Generation>, path: Arc<str>, heed: DeleteOptions) -> Self {
        Deletion::begin(generation, path, heed, None)
    }

    /// Sends the deletion of a node and of its mark in the directory.
    pub fn clearing(generation: &Arc<Generation>, path: Arc<str>, mark: MarkRemoval) -> Self {
        Deletion::begin(generation, path, DeleteOptions::default(), Some(Box::new(mark)))
    }

    fn begin(
        generation: &Arc<Generation>,
        path: Arc<str>,
        heed: DeleteOptions,
        mark: Option<Box<MarkRemoval>>,
    ) -> Self {
        // Counted from here on, so that a session that is closed at once waits for it.
        let cleaning = generation.cleaning();
        let begun = generation.lease().clock().now();
        let DeleteOptions { only, directory } = heed;
        let target = Target { path, only, mark, directory, sent: Sent::default() };
        let (sent, first) = (target.sent.clone(), target.attempt(generation));
        let work = delete_until_gone(cleaning, generation.clone(), target, first);
        let (generation, work) = (generation.clone(), Unfinished(Some(Box::pin(work) as _)));
        let (limit, together, gone, others) = (None, Together::default(), false, Vec::new());
        Deletion { generation, begun, sent, work, limit, together, gone, others }
    }

    /// One deletion for several. If one fails, the others go on in the background.
    pub fn all(mut deletions: Vec<Self>) -> Option<Self> {
        let mut last = deletions.pop()?;
        last.others = deletions;
        Some(last)
    }

    /// When the deletion was sent, or the last request before it; `None` if another request may still be
    /// sent.
    fn sent(&self) -> Option<Instant> {
        let sent = self.sent.at();
        if sent > self.generation.reconnected_at() {
            return Some(sent);
        }
        self.generation.down_since()
    }

    fn poll_own(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
        let polled = match self.generation.is_self_aware() || is_io_thread() {
            true => self.work.poll(cx),
            false => self.work.poll(&mut self.together.context(cx)),
        };
        // The rest is done in the background, in case the server comes back with the session.
        if polled.is_ready() { polled } else { self.poll_gone(cx).map(Ok) }
    }

    /// Resolves when the session can no longer keep the node. A coordinator that knows when it was
    /// last in contact knows this as well.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.generation.lease().clock();
        // A caller that waits for the reply looks again by then.
        let is_late = clock.now() >= self.begun + self.generation.patience();
        if self.generation.is_self_aware() || !is_late {
            return Poll::Pending;
        }
        loop {
            let Some(sent) = self.sent() else { return Poll::Pending };
            // The time is later if the connection comes back.
            let gone_by = self.generation.gone_by(sent);
            if clock.now() >= gone_by {
                return Poll::Ready(());
            }
            let limit = self.limit.get_or_insert_with(|| clock.sleep_until(gone_by));
            ready!(Pin::new(limit).poll(cx));
            self.limit = None;
        }
    }
}

impl Future for Deletion {
    /// An error means that the node is deleted only when its session ends.
    type Output = Result<(), RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Each is sent again where it has to be, however long another one takes.
        let mut refused = None;
        if !this.gone
            && let Poll::Ready(outcome) = this.poll_own(cx)
        {
            (this.gone, refused) = (true, outcome.err());
        }
        this.others.retain_mut(|one| match Pin::new(one).poll(cx) {
            Poll::Ready(outcome) => {
                refused = refused.take().or(outcome.err());
                false
            }
            Poll::Pending => true,
        });
        match refused {
            Some(error) => Poll::Ready(Err(error)),
            None if this.gone && this.others.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.generation.spawner().spawn(async move { drop(work.await) });
        }
    }
}

/// What is deleted.
struct Target {
    path: Arc<str>,
    only: Option<i64>,
    mark: Option<Box<MarkRemoval>>,
    directory: bool,
    sent: Sent,
}

impl Target {
    /// Sends the deletion of a node: with its mark, or of the one with this czxid only. The caller bounds
    /// the wait. Between a read and the deletion nobody else can create a node at this path, because the
    /// present one is in the way: unless a stranger deletes that one within this round trip. ZooKeeper can
    /// compare the version of a node with a given one, which is the same in each new node, and not its
    /// czxid.
    fn attempt(&self, generation: &Arc<Generation>) -> Background<Result<(), RequestError>> {
        let path = &self.path;
        if let Some(mark) = &self.mark {
            // Perhaps after a look at the mark.
            return mark.clone().send(generation, path);
        }
        let Some(only) = self.only else {
            self.sent.now(generation);
            return Box::pin(generation.delete(path));
        };
        // This server may not know yet that an earlier request, or a stranger, has deleted it.
        let synced = generation.coordinator().sync(path);
        let looked = generation.coordinator().get(path);
        let (generation, path, sent) = (generation.clone(), path.clone(), self.sent.clone());
        Box::pin(async move {
            synced.await?;
            match looked.await {
                Ok((_, stat)) if stat.czxid == only => {
                    sent.now(&generation);
                    generation.delete(&path).await
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

async fn delete_until_gone(
    cleaning: PendingDeletion,
    generation: Arc<Generation>,
    target: Target,
    first: Background<Result<(), RequestError>>,
) -> Result<(), RequestError> {
    let Target { path, directory, sent, .. } = &target;
    let (mut pause, mut patience) = (times::DELETE.0, generation.patience());
    let mut outcome = sent.answer(&generation, patience, first).await;
    loop {
        match outcome {
            Ok(()) | Err(RequestError::NoNode) => {
                if *directory && let Some((directory, _)) = path.rsplit_once('/') {
                    // Others may be in the directory; its deletion is only tidiness.
                    let removal = generation.delete(directory);
                    let limit = generation.lease().timeout();
                    generation.clone().spawner().spawn(async move {
                        drop(in_time(&generation, limit, removal).await);
                        drop(cleaning);
                    });
                }
                return Ok(());
            }
            Err(error) if error.ends_session() || generation.is_over() => {
                generation.end();
                generation.ended().await;
                return Ok(());
            }
            Err(error) if error.is_definite() => {
                generation.retire(path, &error);
                return Err(error);
            }
            Err(error) => tracing::debug!(%path, %error, "deleting again"),
        }
        back_off(&generation, &mut pause).await;
        patience = more(&generation, patience);
        outcome = sent.answer(&generation, patience, target.attempt(&generation)).await;
    }
}

/// The creation of a contender's node. Resolves to the node once it is known to belong to this
/// session; if the outcome of the request is unknown, the node is looked up.
#[derive(Debug)]
pub struct PendingCreate {
    generation: Arc<Generation>,
    heed: bool,
    /// Whether the request was sent, if it may have to wait.
    sent: Option<Arc<AtomicBool>>,
    work: Unfinished<Result<(Created, Turn), RequestError>>,
}

/// The turn of a creation, where one at a time may be under way in a directory.
type Turn = Option<tokio::sync::OwnedMutexGuard<()>>;

impl PendingCreate {
    /// Sends the creation of a node under `directory`. A node that looks like others of this
    /// session waits until nobody else creates one there.
    pub fn send(generation: &Arc<Generation>, directory: Arc<str>, node: NewNode) -> Self {
        let heed = node.proof != Proof::Name;
        let mut sent = None;
        let gate = heed.then(|| generation.gate(&directory));
        let task = CreateTask { generation: generation.clone(), directory, node };
        let work: Background<_> = if let Some(gate) = gate {
            match gate.clone().try_lock_owned() {
                Ok(turn) => task.begin(Some(turn)),
                Err(_) => {
                    let sending = Arc::new(AtomicBool::new(false));
                    sent = Some(sending.clone());
                    Box::pin(async move {
                        let turn = gate.lock_owned().await;
                        sending.store(true, Ordering::Release);
                        task.begin(Some(turn)).await
                    })
                }
            }
        } else {
            task.begin(None)
        };
        PendingCreate { generation: generation.clone(), heed, sent, work: Unfinished(Some(work)) }
    }

    /// Whether the request was sent, so that later requests come after it.
    pub fn is_sent(&self) -> bool {
        self.sent.as_ref().is_none_or(|sent| sent.load(Ordering::Acquire))
    }
}

impl Future for PendingCreate {
    /// [`RequestError::ConnectionLoss`] means that the request was lost, and the node does not
    /// exist.
    type Output = Result<Created, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.work.poll(cx).map_ok(|(created, _)| created)
    }
}

impl Drop for PendingCreate {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        if !self.is_sent() {
            return;
        }
        let (generation, cleaning) = (self.generation.clone(), self.generation.cleaning());
        let heed = self.heed;
        self.generation.spawner().spawn(async move {
            let _cleaning = cleaning;
            // The turn ends with the node: the next one of this session would find it in its way.
            if let Ok((Created { path, stat }, _turn)) = work.await {
                let heed = DeleteOptions { only: heed.then_some(stat.czxid), directory: false };
                drop(Deletion::heeding(&generation, path.into(), heed).await);
            }
        });
    }
}

/// A pending creation.
struct CreateTask {
    generation: Arc<Generation>,
    directory: Arc<str>,
    node: NewNode,
}

impl CreateTask {
    /// Sends the request; the future completes the creation.
    fn begin(self, turn: Turn) -> Background<Result<(Created, Turn), RequestError>> {
        let path = [&*self.directory, "/", &self.node.prefix].concat();
        // All earlier nodes of this session have a smaller czxid.
        let before = self.generation.newest();
        let first = self.generation.create(&path, &self.node.payload, self.node.kind);
        Box::pin(async move {
            // A reply that nobody polls would keep the session open: it is dropped here.
            let answered = self.answer_or_find(before, pin!(first)).await;
            let created = match answered {
                Ok(Some(created)) => created,
                Ok(None) => return Err(RequestError::ConnectionLoss),
                Err(error) if error.is_definite() || error.ends_session() => return Err(error),
                // Boxed, because it is rare and every acquire has this future.
                Err(error) => Box::pin(self.find_at_last(before, error)).await?,
            };
            Ok((created, turn))
        })
    }

    async fn find_at_last(
        &self,
        before: i64,
        error: RequestError,
    ) -> Result<Created, RequestError> {
        let CreateTask { generation, directory, .. } = self;
        tracing::debug!(%directory, %error, "a creation is in doubt, looking for its node");
        let mut pause = times::DELETE.0;
        loop {
            back_off(generation, &mut pause).await;
            match self.find(before).await {
                Ok(Some(created)) => return Ok(created),
                Ok(None) => return Err(RequestError::ConnectionLoss),
                Err(error)
                    if error.is_definite() || error.ends_session() || generation.is_over() =>
                {
                    return Err(error);
                }
                Err(error) => tracing::debug!(%directory, %error, "looking again"),
            }
        }
    }

    /// Waits for the reply to a creation. After a while it also looks for the node, because the
    /// reply alone may be lost; a reply that is not lost arrives before those of the search.
    async fn answer_or_find(
        &self,
        before: i64,
        mut first: Pin<&mut (impl Future<Output = Result<Created, RequestError>> + Send)>,
    ) -> Result<Option<Created>, RequestError> {
        let patience = self.generation.patience();
        if let Some(answer) = in_time(&self.generation, patience, first.as_mut()).await {
            return answer.map(Some);
        }
        let answered = async { first.await.map(Some) };
        Box::pin(futures_lite::future::or(answered, self.find(before))).await
    }

    /// Looks for the node of an attempt. If the server refuses to show it, the node goes only with its
    /// session.
    async fn find(&self, before: i64) -> Result<Option<Created>, RequestError> {
        match self.look(before).await {
            // There is no directory.
            Err(RequestError::NoNode) => Ok(None),
            Err(error) if error.is_definite() => {
                let path = format!("{}/{}", self.directory, self.node.prefix);
                self.generation.retire(&path, &error);
                Err(error)
            }
            found => found,
        }
    }

    /// The node counts only if the present session owns it; that of an earlier session will be
    /// deleted.
    async fn look(&self, before: i64) -> Result<Option<Created>, RequestError> {
        let coordinator = self.generation.coordinator();
        let synced = coordinator.sync(&self.directory);
        let listed = coordinator.children(&self.directory);
        synced.await?;
        let NewNode { prefix, payload, proof, kind } = &self.node;
        let whole = *kind == NodeKind::Ephemeral;
        let mut names = listed.await?;
        names.retain(|name| if whole { name == prefix } else { name.starts_with(prefix) });
        let paths = names.into_iter().map(|name| format!("{}/{name}", self.directory));
        let asked: Vec<_> = paths.map(|path| (coordinator.get(&path), path)).collect();
        for (reply, path) in asked {
            let (data, stat) = match reply.await {
                Ok(answer) => answer,
                // Another contender's, which is gone.
                Err(RequestError::NoNode) => continue,
                Err(error) => return Err(error),
            };
            let ours = stat.owner == coordinator.session_id()
                && match proof {
                    Proof::Name => true,
                    // Somebody may have overwritten the data meanwhile, for instance to ask for the
                    // release. These nodes are created one at a time, so only the one in doubt is
                    // newer.
                    Proof::Payload => data == *payload || stat.czxid > before,
                    Proof::Owner => stat.czxid > before,
                };
            if ours {
                self.generation.made(stat.czxid);
                return Ok(Some(Created { path, stat }));
            }
        }
        Ok(None)
    }
}

/// Waits for a reply for the given time. After that the reply counts as lost, and a read finds out
/// what happened: requests of one connection are processed in order.
pub async fn or_forgotten<T>(
    generation: &Arc<Generation>,
    patience: Duration,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let answer = in_time(generation, patience, answer).await;
    answer.unwrap_or(Err(RequestError::ConnectionLoss))
}

/// How long to wait for the next reply.
pub fn more(generation: &Arc<Generation>, patience: Duration) -> Duration {
    (patience * 2).min(generation.lease().timeout())
}

/// Waits for a reply for the given time, and while there is no connection for a session timeout.
async fn in_time<F: Future>(
    generation: &Arc<Generation>,
    limit: Duration,
    answer: F,
) -> Option<F::Output> {
    let mut answer = pin!(answer);
    let clock = generation.lease().clock();
    let mut next = clock.now();
    let last = next + generation.lease().timeout();
    loop {
        next = last.min(next + limit);
        match Deadline::at(clock.clone(), next).bound(answer.as_mut()).await {
            Ok(answer) => return Some(answer),
            Err(_) if next < last && generation.coordinator().link() == Link::Down => {}
            Err(_) => return None,
        }
    }
}

/// Waits a little, or until something about the session changed.
pub(super) async fn back_off(generation: &Arc<Generation>, pause: &mut Duration) {
    generation.pause(*pause).await;
    *pause = (*pause * 2).min(times::DELETE.1);
}

/// Work that continues in the background if its owner is dropped before the end.
struct Unfinished<T>(Option<Background<T>>);

impl<T> Unfinished<T> {
    fn take(&mut self) -> Option<Background<T>> {
        self.0.take()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let output = ready!(work.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(output)
    }
}

impl<T> std::fmt::Debug for Unfinished<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Unfinished" } else { "Finished" })
    }
}
