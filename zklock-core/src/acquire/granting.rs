//! The end of the loop: a node becomes a lease.

use std::future::Future;
use std::sync::Arc;

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::lease::{Lease, QueuedNode};
use crate::acquire::setback::Setback;
use crate::base::mode::Mode;
use crate::base::policy::pause_after;
use crate::coordinator::request_error::RequestError;
use crate::session::generation::Generation;

impl AcquireLoop<'_> {
    /// Grants the lock if nothing has to be asked before: in most cases. Otherwise returns the node.
    pub(crate) fn grant_at_once(
        &self,
        node: QueuedNode,
        is_own: bool,
    ) -> Result<Lease, QueuedNode> {
        if !is_own || self.target.marks.any() {
            return Err(node);
        }
        node.grant(self.target.of_lock(self.request.mode), self.request.stop_at)
    }

    /// Grants the lock if the lease clock allows it and the node `is_own`; otherwise a commit must be
    /// answered first.
    pub(crate) async fn grant(
        &self,
        generation: &Arc<Generation>,
        mut node: QueuedNode,
        mut is_own: bool,
    ) -> Result<Lease, Setback> {
        let (mut asked, mut rests) = (None, self.target.marks.any());
        loop {
            let now = || self.lane_permit.lane().clock().now();
            if rests && !node.mark().is_some_and(|mark| mark.is_enough(now())) {
                node = Box::pin(self.mark(generation, node, &mut is_own)).await?;
                // Nobody writes a mark while a reader's node is there.
                rests = self.request.mode != Mode::Read;
            }
            let of = self.target.of_lock(self.request.mode);
            if is_own {
                node = match node.grant(of, self.request.stop_at) {
                    Ok(lease) => return Ok(lease),
                    Err(_) if generation.is_retired() => return Err(Setback::Interrupted),
                    Err(node) => node,
                };
            }
            if let Some((since, took)) = asked {
                generation.tell_late(&self.target.lock, since, took);
            }
            let (path, only) = (node.path().clone(), node.is_recurring().then(|| node.czxid()));
            let proven = async {
                // In one that is retired meanwhile, nothing is proven: it begins anew.
                generation.settled(self.request.stop_at).await;
                if generation.is_retired() {
                    return Err(RequestError::ConnectionLoss);
                }
                let sent = now();
                is_there(generation, path, only).await.map(|is_there| (is_there, sent))
            };
            match Box::pin(proven).await {
                Ok((true, sent)) => {
                    is_own = true;
                    asked = Some((asked.map_or(sent, |(since, _)| since), now().since(sent)));
                }
                Ok((false, _)) => {
                    node.forget();
                    return Err(Setback::Vanished);
                }
                Err(error) => {
                    self.after(generation, error).await?;
                    // Nobody has watched the node since the question was sent.
                    is_own = false;
                }
            }
        }
    }
}

/// Commits a check that the node with this czxid exists. This call sends the requests.
pub(crate) fn is_there(
    generation: &Arc<Generation>,
    path: Arc<str>,
    only: Option<i64>,
) -> impl Future<Output = Result<bool, RequestError>> + Send {
    let sent = generation.lease().clock().now();
    let checked = generation.check([path.clone()]);
    let read = only.map(|czxid| (czxid, generation.coordinator().get(&path)));
    let generation = generation.clone();
    async move {
        match checked.await {
            Err(RequestError::Multi { error, .. }) if *error == RequestError::NoNode => Ok(false),
            Err(error) => Err(error),
            Ok(()) => match read {
                None => Ok(true),
                Some((czxid, read)) => match generation.read_beside(sent, &path, read).await {
                    Err(RequestError::NoNode) => Ok(false),
                    read => read.map(|(_, stat)| stat.czxid == czxid),
                },
            },
        }
    }
}

/// Asks once by a commit whether the node of a lease is there; false if that may not be asked. `None`, after a
/// pause, if ZooKeeper did not answer within a session timeout: what is missing is asked for again meanwhile.
pub(crate) async fn ask_for_node(lease: &Lease) -> Option<bool> {
    let generation = lease.generation();
    let there = is_there(generation, lease.path().clone(), lease.only());
    match there.await {
        Err(error) if !error.is_definite() => {
            generation.pause(pause_after(3)).await;
            None
        }
        there => Some(there.unwrap_or(false)),
    }
}
