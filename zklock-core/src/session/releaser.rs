//! The releaser: whatever node we made and no longer want is deleted, whoever was cancelled, and
//! whatever was lost on the way.
//!
//! Both futures here send their request when they are made. Dropped before they are done, they
//! finish in the background of the session, for as long as its ZooKeeper session lives.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::base::clock::{Instant, Sleep};
use crate::base::deadline::Deadline;
use crate::base::owner::REVOKE;
use crate::cooldown::mark_removal::MarkRemoval;
use crate::coordinator::traits::{Created, Link, NodeKind, RequestError};
use crate::layout::driver::{NewNode, Proof};
use crate::session::generation::{Generation, PendingDeletion};

type Background<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Between two tries to delete, at first and at most.
pub(super) const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The deletion of a node. Resolves when the node is gone: the server has said so, or it has ended
/// the session by now, whatever the client makes of its silence.
#[derive(Debug)]
pub struct Deletion {
    generation: Arc<Generation>,
    sent: Instant,
    work: Unfinished<Result<(), RequestError>>,
    limit: Option<Sleep>,
}

/// What is to be heeded when a node is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The node's czxid, where another's node may have its path later: then it is looked at first.
    pub only: Option<i64>,
    /// Whether the directory goes too, if it is empty then.
    pub directory: bool,
}

impl Deletion {
    /// Sends the deletion of a node whose path is its own for ever.
    pub fn send(generation: &Arc<Generation>, path: Arc<str>) -> Self {
        Deletion::heeding(generation, path, DeleteOptions::default())
    }

    /// Sends the deletion of a node.
    pub fn heeding(generation: &Arc<Generation>, path: Arc<str>, heed: DeleteOptions) -> Self {
        // Counted from here on: a session that is closed at once must not miss it.
        let cleaning = generation.cleaning();
        let sent = generation.lease().clock().now();
        let first = delete(generation, &path, heed.only);
        let work = delete_until_gone(cleaning, generation.clone(), path, heed, None, first);
        Deletion::by(generation, sent, Box::pin(work))
    }

    fn by(
        generation: &Arc<Generation>,
        sent: Instant,
        work: Background<Result<(), RequestError>>,
    ) -> Self {
        let (generation, work) = (generation.clone(), Unfinished(Some(work)));
        Deletion { generation, sent, work, limit: None }
    }

    /// Sends the deletion of a node and of the mark that it left in its directory.
    pub fn clearing(generation: &Arc<Generation>, path: Arc<str>, mark: MarkRemoval) -> Self {
        let (cleaning, heed) = (generation.cleaning(), DeleteOptions::default());
        let sent = generation.lease().clock().now();
        let (first, mark) = (mark.clone().send(generation, &path), Some(Box::new(mark)));
        let work = delete_until_gone(cleaning, generation.clone(), path, heed, mark, first);
        Deletion::by(generation, sent, Box::pin(work))
    }

    /// Resolves when the session cannot keep the node any more. A coordinator that knows by itself
    /// when it was last in contact knows that, too.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.generation.lease().clock();
        // Whoever waits for the answer looks again by then.
        let is_late = clock.now() >= self.sent + self.generation.patience();
        if self.generation.is_self_aware() || !is_late {
            return Poll::Pending;
        }
        loop {
            // It moves on when the connection comes back.
            let gone_by = self.generation.gone_by(self.sent);
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
    /// An error means that the node goes with its session only.
    type Output = Result<(), RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(outcome) = self.work.poll(cx) {
            return Poll::Ready(outcome);
        }
        // The rest is done in the background, should the server be back with the session.
        self.poll_gone(cx).map(Ok)
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.generation.spawner().spawn(async move { drop(work.await) });
        }
    }
}

/// Deletes a node, or only the one with this czxid. Between the look and the deletion nobody else
/// can make a node there: ours is in the way.
fn delete(
    generation: &Arc<Generation>,
    path: &Arc<str>,
    only: Option<i64>,
) -> Background<Result<(), RequestError>> {
    let Some(czxid) = only else { return Box::pin(generation.delete(path)) };
    let looked = generation.coordinator().get(path);
    let (generation, path) = (generation.clone(), path.clone());
    Box::pin(async move {
        match looked.await {
            Ok((_, stat)) if stat.czxid == czxid => generation.delete(&path).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    })
}

async fn delete_until_gone(
    cleaning: PendingDeletion,
    generation: Arc<Generation>,
    path: Arc<str>,
    heed: DeleteOptions,
    mark: Option<Box<MarkRemoval>>,
    first: Background<Result<(), RequestError>>,
) -> Result<(), RequestError> {
    let (mut pause, mut patience) = (PAUSE.0, generation.patience());
    let mut outcome = or_forgotten(&generation, patience, first).await;
    loop {
        match outcome {
            Ok(()) | Err(RequestError::NoNode) => {
                if let Some((directory, _)) = path.rsplit_once('/').filter(|_| heed.directory) {
                    // Others may be in it; and it is only tidiness.
                    let removal = generation.delete(directory);
                    generation.spawner().spawn(async move {
                        drop(removal.await);
                        drop(cleaning);
                    });
                }
                return Ok(());
            }
            Err(error) if error.ends_session() || generation.is_over() => {
                generation.end();
                return Ok(());
            }
            Err(error) if error.is_definite() => {
                generation.retire(&path, &error);
                return Err(error);
            }
            Err(error) => tracing::debug!(%path, %error, "deleting again"),
        }
        back_off(&generation, &mut pause).await;
        patience = more(&generation, patience);
        let next = match &mark {
            None => delete(&generation, &path, heed.only),
            Some(mark) => mark.as_ref().clone().send(&generation, &path),
        };
        outcome = or_forgotten(&generation, patience, next).await;
    }
}

/// The creation of a contender's node. Resolves to the node once it is known to be ours; a
/// creation whose outcome is unknown is looked for.
#[derive(Debug)]
pub struct PendingCreate {
    generation: Arc<Generation>,
    heed: bool,
    sent: Arc<AtomicBool>,
    work: Unfinished<Result<Created, RequestError>>,
}

impl PendingCreate {
    /// Sends the creation of a node under `directory`. A node that cannot be told from others of
    /// this session waits until nobody else makes one there.
    pub fn send(generation: &Arc<Generation>, directory: &str, node: NewNode) -> Self {
        let heed = node.proof != Proof::Name;
        let sent = Arc::new(AtomicBool::new(true));
        let task = CreateTask::new(generation, directory, node);
        let work: Background<_> = if heed {
            let gate = generation.gate(directory);
            match gate.clone().try_lock_owned() {
                Ok(turn) => {
                    let work = task.begin();
                    Box::pin(async move {
                        let _turn = turn;
                        work.await
                    })
                }
                Err(_) => {
                    let sending = sent.clone();
                    sent.store(false, Ordering::Release);
                    Box::pin(async move {
                        let _turn = gate.lock_owned().await;
                        sending.store(true, Ordering::Release);
                        task.begin().await
                    })
                }
            }
        } else {
            Box::pin(task.begin())
        };
        PendingCreate { generation: generation.clone(), heed, sent, work: Unfinished(Some(work)) }
    }

    /// Whether the creation was sent, so that what is sent from now on comes after it.
    pub fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }
}

impl Future for PendingCreate {
    /// [`RequestError::ConnectionLoss`] means that the node was lost on the way and does not exist.
    type Output = Result<Created, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.work.poll(cx)
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
            if let Ok(Created { path, stat }) = work.await {
                let heed = DeleteOptions { only: heed.then_some(stat.czxid), directory: false };
                drop(Deletion::heeding(&generation, path.into(), heed).await);
            }
        });
    }
}

/// A creation under way.
struct CreateTask {
    generation: Arc<Generation>,
    directory: String,
    node: NewNode,
}

impl CreateTask {
    fn new(generation: &Arc<Generation>, directory: &str, node: NewNode) -> Self {
        CreateTask { generation: generation.clone(), directory: directory.to_owned(), node }
    }

    /// Sends the creation; the future brings it to its end.
    fn begin(self) -> impl Future<Output = Result<Created, RequestError>> + Send + 'static {
        let path = format!("{}/{}", self.directory, self.node.prefix);
        // Whatever was made here before has a smaller czxid.
        let before = self.generation.newest();
        let first = self.generation.create(&path, &self.node.payload, self.node.kind);
        self.create_or_find(before, first)
    }

    async fn create_or_find(
        self,
        before: i64,
        first: impl Future<Output = Result<Created, RequestError>> + Send + 'static,
    ) -> Result<Created, RequestError> {
        let CreateTask { generation, directory, .. } = &self;
        let error = match self.answer_or_find(before, first).await {
            Ok(Some(created)) => return Ok(created),
            Ok(None) => return Err(RequestError::ConnectionLoss),
            Err(error) if error.is_definite() || error.ends_session() => return Err(error),
            Err(error) => error,
        };
        tracing::debug!(%directory, %error, "a creation is in doubt, looking for its node");
        let mut pause = PAUSE.0;
        loop {
            back_off(generation, &mut pause).await;
            match self.find(before).await {
                Ok(Some(created)) => return Ok(created),
                Ok(None) | Err(RequestError::NoNode) => return Err(RequestError::ConnectionLoss),
                Err(error) if error.ends_session() || generation.is_over() => return Err(error),
                Err(error) => tracing::debug!(%directory, %error, "looking again"),
            }
        }
    }

    /// Waits for the answer to a creation; after a while it looks for the node meanwhile: the answer
    /// may be lost alone, and one that is not comes before those of the search.
    async fn answer_or_find(
        &self,
        before: i64,
        first: impl Future<Output = Result<Created, RequestError>> + Send + 'static,
    ) -> Result<Option<Created>, RequestError> {
        let mut first = pin!(first);
        let patience = self.generation.patience();
        if let Some(answer) = in_time(&self.generation, patience, first.as_mut()).await {
            return answer.map(Some);
        }
        let answered = async { first.await.map(Some) };
        let found = async {
            match self.find(before).await {
                Err(RequestError::NoNode) => Ok(None),
                found => found,
            }
        };
        futures_lite::future::or(answered, found).await
    }

    /// Looks for the node of an attempt. It is ours only if the present session owns it: that of an
    /// earlier one is about to go.
    async fn find(&self, before: i64) -> Result<Option<Created>, RequestError> {
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
                // Another's, which is gone.
                Err(RequestError::NoNode) => continue,
                Err(error) => return Err(error),
            };
            let ours = stat.owner == coordinator.session_id()
                && match proof {
                    Proof::Name => true,
                    // It may have been asked to let go meanwhile, and that is what its data say.
                    Proof::Payload => data == *payload || data == REVOKE && stat.czxid > before,
                    // One at a time is made, so only the one in doubt is newer.
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

/// Waits for an answer for so long. After that it is lost, and what became of the request is seen
/// by a look: what is asked on one connection is done in order.
pub async fn or_forgotten<T>(
    generation: &Arc<Generation>,
    patience: Duration,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let answer = in_time(generation, patience, answer).await;
    answer.unwrap_or(Err(RequestError::ConnectionLoss))
}

/// How long the next answer is waited for.
pub fn more(generation: &Arc<Generation>, patience: Duration) -> Duration {
    (patience * 2).min(generation.lease().timeout())
}

/// Waits for an answer for so long, and longer while there is no connection.
async fn in_time<F: Future>(
    generation: &Arc<Generation>,
    limit: Duration,
    answer: F,
) -> Option<F::Output> {
    let mut answer = pin!(answer);
    loop {
        let limit = Deadline::after(generation.lease().clock().clone(), limit);
        match limit.bound(answer.as_mut()).await {
            Ok(answer) => return Some(answer),
            Err(_) if generation.coordinator().link() == Link::Down => {}
            Err(_) => return None,
        }
    }
}

/// Waits a little, or until something about the session changed.
pub(super) async fn back_off(generation: &Arc<Generation>, pause: &mut Duration) {
    let clock = generation.lease().clock();
    let timer = clock.sleep_until(clock.now() + *pause);
    futures_lite::future::or(timer, generation.changed()).await;
    *pause = (*pause * 2).min(PAUSE.1);
}

/// Work that its owner hands on if it is dropped before the end.
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
