//! The creation of a contender's node.

use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_lite::future::or;

use super::deletion::{DeleteOptions, Deletion, Doomed, Which};
use super::replies::{back_off, in_time};
use super::{Background, Turn, Unfinished};
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::coordinator::node::{Created, NodeKind};
use crate::coordinator::request_error::RequestError;
use crate::layout::new_node::{NewNode, Proof};
use crate::session::generation::Generation;
use crate::session::node_budget::Counted;

/// The creation of a contender's node. Resolves to the node once it is known to belong to this
/// session; if the outcome of the request is unknown, the node is looked up.
#[derive(Debug)]
pub struct PendingCreate {
    generation: Arc<Generation>,
    /// Whether a later node may have the same path.
    recurs: bool,
    /// Whether the request was sent, if it may have to wait.
    sent: Option<Arc<AtomicBool>>,
    work: Unfinished<Result<(Created, Turn), RequestError>>,
    /// Counts the node until whoever gets it does.
    counted: Option<Counted>,
}

impl PendingCreate {
    /// Sends the creation of a node under `directory`. A node that looks like others of this
    /// session waits until nobody else creates one there. One that would be too much for the end of the session
    /// is refused.
    pub fn send(generation: &Arc<Generation>, directory: Arc<str>, node: NewNode) -> Self {
        let recurs = node.proof != Proof::Name;
        let mut sent = None;
        let length = directory.len() + "/".len() + node.prefix.len();
        let Some(counted) = generation.nodes().take(length) else {
            let refused = Box::pin(ready(Err(RequestError::TooManyNodes))) as _;
            let (generation, work) = (generation.clone(), Unfinished(Some(refused)));
            let sent = Some(Arc::new(AtomicBool::new(false)));
            return PendingCreate { generation, recurs, sent, work, counted: None };
        };
        let gate = recurs.then(|| generation.gate(&directory));
        let task = CreateTask { generation: generation.clone(), directory, node };
        let work: Background<_> = if let Some(gate) = gate {
            match gate.clone().try_lock_owned() {
                Ok(turn) => task.begin(Some(turn)),
                Err(_) => {
                    let sending = Arc::new(AtomicBool::new(false));
                    sent = Some(sending.clone());
                    Box::pin(async move {
                        let over = task.generation.until(|| task.generation.is_over());
                        let turn = or(async { Some(gate.lock_owned().await) }, async {
                            over.await;
                            None
                        });
                        // What was created before it may go only with the session.
                        let turn = turn.await.ok_or(RequestError::ConnectionLoss)?;
                        // The one before may have ended because its session was given up.
                        if !task.generation.connected().await {
                            return Err(RequestError::ConnectionLoss);
                        }
                        sending.store(true, Ordering::Release);
                        task.begin(Some(turn)).await
                    })
                }
            }
        } else {
            task.begin(None)
        };
        let (generation, work) = (generation.clone(), Unfinished(Some(work)));
        PendingCreate { generation, recurs, sent, work, counted: Some(counted) }
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
        let (generation, pending) = (self.generation.clone(), self.generation.pending_deletion());
        let (recurs, counted) = (self.recurs, self.counted.take());
        self.generation.spawner().spawn(async move {
            let (_pending, _counted, mut work) = (pending, counted, work);
            let created = match in_time(&generation, generation.patience(), work.as_mut()).await {
                Some(created) => created,
                None => {
                    let _overdue = generation.overdue_deletion();
                    work.await
                }
            };
            if let Ok((Created { path, stat }, turn)) = created {
                let only = recurs.then_some(Which::Czxid(stat.czxid));
                let options = DeleteOptions { only, directory: false };
                let doomed = Doomed { options, turn, ..Doomed::new(path) };
                drop(Deletion::send(&generation, doomed).await);
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
        unharmed(
            || tracing::debug!(%directory, %error, "a creation is in doubt, looking for its node"),
        );
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
                Err(error) => unharmed(|| tracing::debug!(%directory, %error, "looking again")),
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
        Box::pin(or(answered, self.find(before))).await
    }

    /// Looks for the node of an attempt. If the server refuses to show it, the node goes only with its
    /// session.
    async fn find(&self, before: i64) -> Result<Option<Created>, RequestError> {
        match self.look(before).await {
            // There is no directory.
            Err(RequestError::NoNode) => Ok(None),
            Err(error) if error.is_definite() => {
                let path = format!("{}/{}", self.directory, self.node.prefix);
                self.generation.retire(&path, None, &error);
                Err(error)
            }
            found => found,
        }
    }

    /// The node counts only if the present session owns it; that of an earlier session will be
    /// deleted.
    async fn look(&self, before: i64) -> Result<Option<Created>, RequestError> {
        let coordinator = self.generation.coordinator();
        let listed = self.generation.synced(&self.directory, |server, path| server.children(path));
        let NewNode { prefix, payload, proof, kind } = &self.node;
        let whole = *kind == NodeKind::Ephemeral;
        let mut names = listed.await?;
        names.retain(|name| if whole { name == prefix } else { name.starts_with(prefix) });
        let paths = names.into_iter().map(|name| format!("{}/{name}", self.directory));
        let asked: Vec<_> = paths.map(|path| (coordinator.get(&path), path)).collect();
        let mut refused = None;
        for (reply, path) in asked {
            let (data, stat) = match reply.await {
                Ok(answer) => answer,
                // Another contender's, which is gone.
                Err(RequestError::NoNode) => continue,
                // Perhaps another contender's as well, whose ACL hides it.
                Err(error) if error.is_definite() && !error.ends_session() => {
                    refused = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let ours = stat.ephemeral_owner == coordinator.session_id()
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
        refused.map_or(Ok(None), Err)
    }
}
