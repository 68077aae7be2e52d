//! The deletion of a node.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::watch;

use super::replies::{back_off, in_time, more};
use super::{Background, Turn, Unfinished};
use crate::base::clock::{Instant, Sleep};
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::cooldown::mark_removal::MarkRemoval;
use crate::coordinator::io_thread::is_io_thread;
use crate::coordinator::link::Link;
use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::wakes::Together;
use crate::session::generation::{Generation, HeldNode, PendingDeletion};
use crate::session::node_budget::Counted;

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

/// The outcome of a deletion, as soon as there is one, for those who wait for it.
pub type Told = watch::Receiver<Option<Result<(), RequestError>>>;

/// Options of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Which node it must be, if another one may have the same path: the node is then read first.
    pub only: Option<Which>,
    /// Whether the directory is deleted too, if it is empty then.
    pub directory: bool,
}

/// Which of the nodes that have the same path one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with this czxid.
    Czxid(i64),
    /// That of the present ZooKeeper session which is newer than the node with this czxid: what a creation
    /// in doubt has made. Nothing else may be created at this path meanwhile.
    Newer(i64),
}

impl Which {
    /// Whether it is the node with this status.
    pub fn is(self, stat: &Stat, generation: &Generation) -> bool {
        match self {
            Which::Czxid(czxid) => stat.czxid == czxid,
            Which::Newer(czxid) => {
                stat.czxid > czxid && stat.ephemeral_owner == generation.coordinator().session_id()
            }
        }
    }
}

impl Deletion {
    /// Sends the deletion.
    pub fn send(generation: &Arc<Generation>, doomed: Doomed) -> Self {
        // Counted from here on, so that a session that is closed at once waits for it.
        let pending = generation.pending_deletion();
        let (begun, sent) = (generation.lease().clock().now(), Sent::default());
        let first = doomed.attempt(generation, &sent);
        // A held one is counted itself.
        let counted = doomed.held.is_none().then(|| generation.nodes().count(&doomed.path));
        let counted = (pending, counted);
        let work = delete_until_gone(counted, generation.clone(), doomed, sent.clone(), first);
        let (generation, work) = (generation.clone(), Unfinished(Some(Box::pin(work) as _)));
        let (limit, together) = (None, Together::default());
        Deletion { generation, begun, sent, work, limit, together }
    }

    /// The same of a deletion that somebody else sees to, and tells the outcome of. If nobody does any more, the
    /// node has gone in another way.
    pub fn of_another(generation: &Arc<Generation>, mut told: Told) -> Self {
        let (begun, sent) = (generation.lease().clock().now(), Sent::default());
        let work = async move {
            let outcome = told.wait_for(Option::is_some).await.ok();
            outcome.and_then(|outcome| outcome.clone()).unwrap_or(Ok(()))
        };
        let (generation, work) = (generation.clone(), Unfinished(Some(Box::pin(work) as _)));
        let (limit, together) = (None, Together::default());
        Deletion { generation, begun, sent, work, limit, together }
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
        let polled = match this.generation.is_self_aware() || is_io_thread() {
            true => this.work.poll(cx),
            false => this.work.poll(&mut this.together.context(cx)),
        };
        // The rest is done in the background, in case the server comes back with the session.
        if polled.is_ready() { polled } else { this.poll_gone(cx).map(Ok) }
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.generation.spawner().spawn(async move { drop(work.await) });
        }
    }
}

/// A node that is to be deleted.
#[derive(Debug)]
pub struct Doomed {
    /// Its path, which is unique unless the options say otherwise.
    pub path: Arc<str>,
    /// Of which lock it is, if it was held.
    pub held: Option<Arc<HeldNode>>,
    /// Its mark in the directory, which goes with it.
    pub mark: Option<Box<MarkRemoval>>,
    /// What else is to be known.
    pub options: DeleteOptions,
    /// Ends when the node is gone: the next creation of this session in its directory would take it for its own,
    /// or make another one that this deletion takes for it.
    pub turn: Turn,
}

impl Doomed {
    /// A node with a unique path, of which nothing else is known.
    pub fn new(path: impl Into<Arc<str>>) -> Self {
        let (path, options) = (path.into(), DeleteOptions::default());
        Doomed { path, held: None, mark: None, options, turn: None }
    }

    /// Sends the deletion of a node: with its mark, or of one only of those with this path. The caller bounds
    /// the wait. Between a read and the deletion nobody else can create a node at this path, because the
    /// present one is in the way: unless a stranger deletes that one within this round trip. ZooKeeper can
    /// compare the version of a node with a given one, which is the same in each new node, and not its
    /// czxid.
    fn attempt(
        &self,
        generation: &Arc<Generation>,
        sent: &Sent,
    ) -> Background<Result<(), RequestError>> {
        let path = &self.path;
        if let Some(mark) = &self.mark {
            // Perhaps after a look at the mark.
            return mark.clone().send(generation, path);
        }
        let Some(only) = self.options.only else {
            sent.now(generation);
            return Box::pin(generation.delete(path));
        };
        let looked = generation.synced(path, |server, path| server.get(path));
        let (generation, path, sent) = (generation.clone(), path.clone(), sent.clone());
        Box::pin(async move {
            match looked.await {
                Ok((_, stat)) if only.is(&stat, &generation) => {
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
    (pending, _counted): (PendingDeletion, Option<Counted>),
    generation: Arc<Generation>,
    doomed: Doomed,
    sent: Sent,
    first: Background<Result<(), RequestError>>,
) -> Result<(), RequestError> {
    let Doomed { path, held, options: DeleteOptions { directory, .. }, .. } = &doomed;
    let (mut pause, mut patience) = (times::DELETE.0, generation.patience());
    let mut overdue = None;
    let mut outcome = sent.answer(&generation, patience, first).await;
    loop {
        match outcome {
            Ok(()) | Err(RequestError::NoNode) => {
                if let Some(held) = held {
                    held.counted.is_deleted();
                }
                if *directory && let Some((directory, _)) = path.rsplit_once('/') {
                    // Others may be in the directory; its deletion is only tidiness.
                    let removal = generation.delete(directory);
                    generation.clone().spawner().spawn(async move {
                        let removal = generation.unless_over(removal);
                        drop(in_time(&generation, generation.patience(), removal).await);
                        drop(pending);
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
                generation.is_stuck(path, &error);
                generation.retire(path, held.as_ref().map(|node| &node.of), &error);
                return Err(error);
            }
            Err(error) => {
                overdue.get_or_insert_with(|| generation.overdue_deletion());
                unharmed(|| tracing::debug!(%path, %error, "deleting again"));
            }
        }
        back_off(&generation, &mut pause).await;
        patience = more(&generation, patience);
        outcome = sent.answer(&generation, patience, doomed.attempt(&generation, &sent)).await;
    }
}
