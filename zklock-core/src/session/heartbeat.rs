//! The heartbeat: a commit that checks the held nodes, and writes into them who holds them.

use std::convert::Infallible;
use std::sync::Arc;

use crate::base::first::all;
use crate::base::unharmed::unharmed;
use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Reply;
use crate::observe::observer::{Event, LossReason};
use crate::session::generation::{Checked, Generation, HeldNode};
use crate::session::local_queues::{Holdings, LocalQueues};
use crate::session::own_watch::{evaluate, watch_own};

/// How often the rest of a batch is read because the data of a node have changed. A request for release
/// is read, and is restored, and that is read.
const LOOKS: u32 = 4;

/// The bytes that are added to the data of a node when they are written: its label, and since when it is held.
const ADDED: usize = 768;

/// Commits that the held nodes exist, and finds those that do not, or whose data have changed. Writes
/// into them who holds them.
pub async fn heartbeat(generation: Arc<Generation>, local_queues: Arc<LocalQueues>) {
    let start = generation.lease().clock().now();
    let nodes = generation.held();
    // A node that is held for longer than a heartbeat is watched, so that its deletion is noticed
    // at once.
    let long = generation.lease().heartbeat() / 2;
    let long_held = nodes.iter().filter(|node| start.since(node.since()) >= long);
    for node in long_held {
        watch_own(&generation, node);
    }
    let holdings = local_queues.holdings();
    // Side by side: one after the other, the last of many batches would be checked long after the first,
    // and while others delete one node of a batch after the other, those behind it would not be checked.
    let bytes = |node: &Arc<HeldNode>| {
        node.path.len() + node.payload.as_ref().map_or(0, |payload| payload.len()) + ADDED
    };
    let checks = generation
        .in_requests(&nodes, bytes)
        .map(|batch| check(&generation, &holdings, batch.to_vec()));
    let checks = checks.map(|check| async {
        check.await;
        Ok::<(), Infallible>(())
    });
    drop(all(checks).await);
}

/// Checks a batch; removes the nodes that are gone, and checks the others again. Of one whose data change
/// all the time, only whether it exists. What the server did not answer is left to the next heartbeat.
async fn check(generation: &Arc<Generation>, holdings: &Holdings, mut batch: Vec<Arc<HeldNode>>) {
    // A client that writes to these nodes all the time must not prevent the check of the others.
    let mut looks = LOOKS;
    let mut describes = true;
    // Those that it writes to, which are checked whatever their data are.
    let mut restless = Vec::new();
    loop {
        // A node that was released meanwhile would fail the whole batch, one node after the other.
        batch.retain(|node| generation.is_held(node));
        if batch.is_empty() {
            return;
        }
        let sent = generation.lease().clock().now();
        let checks = batch.iter().map(|node| {
            match restless.iter().any(|restless| Arc::ptr_eq(restless, node)) {
                true => (node.clone(), None, None),
                false => told(generation, holdings, node, describes),
            }
        });
        let nodes: Vec<_> = checks.collect();
        let written: Vec<_> = nodes
            .iter()
            .map(|(node, version, data)| {
                let version = version.filter(|_| data.is_some())?;
                Some((version, node.writing()))
            })
            .collect();
        let checked = generation.check_held(nodes);
        // A node that another client has created at the same path passes the check. A read that is
        // sent behind a commit is as new as the commit.
        let read = look_at(generation, batch.iter().filter(|node| node.is_recurring()));
        let checked = checked.await;
        let is_written: Vec<_> = written.iter().map(Option::is_some).collect();
        for (node, written) in batch.iter().zip(written) {
            let Some((version, writing)) = written.filter(|_| checked.is_ok()) else { continue };
            node.was_written(version);
            writing.done();
        }
        let (index, error) = match checked {
            Ok(()) => {
                if !looked_at(generation, read).await {
                    return;
                }
                batch.iter().for_each(|node| node.seen_at(sent));
                generation.events().tell(|| Event::Heartbeat {
                    nodes: batch.len(),
                    took: generation.lease().clock().now().since(sent),
                    undeleted: generation.undeleted(),
                });
                return;
            }
            Err(RequestError::Multi { index, error }) if index < batch.len() => (index, *error),
            Err(error) => {
                unharmed(|| tracing::debug!(%error, "a heartbeat was not answered"));
                return;
            }
        };
        match error {
            RequestError::BadVersion if looks == 0 => restless.push(batch[index].clone()),
            // This process has released it meanwhile, which says nothing of the others: if somebody deleted one of
            // these, the next check names it.
            RequestError::NoNode if !generation.is_held(&batch[index]) => {}
            RequestError::NoNode | RequestError::BadVersion => {
                if error == RequestError::NoNode {
                    generation.lost_node(&batch.swap_remove(index), LossReason::Deleted);
                } else {
                    looks -= 1;
                }
                // Only the first one is named, and somebody may have deleted or written many.
                if !looked_at(generation, look_at(generation, &batch[index..])).await {
                    return;
                }
            }
            // It may be looked at and not be written. As each refusal costs a request, and proves nothing, the
            // rest is written with the next heartbeat.
            error if error.is_definite() && is_written[index] => {
                describes = false;
                batch[index].refuses();
                // The nodes of a session have the same permissions.
                if error == RequestError::NoAuth {
                    let others = batch.iter().zip(&is_written).filter(|(_, written)| **written);
                    others.for_each(|(node, _)| node.refuses());
                }
            }
            error if error.is_definite() => {
                // The server does not allow this check; the other nodes are checked.
                let node = batch.swap_remove(index);
                let path = &*node.path;
                unharmed(|| tracing::warn!(path, %error, "a held node could not be checked"));
            }
            _ => return,
        }
    }
}

/// What a heartbeat checks of a node: its version, and what is written at the same time if it describes nodes.
/// While an earlier write is under way, its version is not known.
fn told(
    generation: &Generation,
    holdings: &Holdings,
    node: &Arc<HeldNode>,
    describes: bool,
) -> Checked {
    if node.is_being_written() {
        return (node.clone(), None, None);
    }
    let lease = generation.lease();
    let holding = holdings.get(&node.path);
    // As for the watches of nodes that are held for longer than a heartbeat.
    let news = || node.news(holding, lease.heartbeat() / 2, lease.clock());
    (node.clone(), Some(node.version()), describes.then(news).flatten())
}

/// A held node that is read.
type Look = (Arc<HeldNode>, Reply<(Vec<u8>, Stat)>);

/// The reads of held nodes, which are sent by this call.
fn look_at<'a>(
    generation: &Generation,
    nodes: impl IntoIterator<Item = &'a Arc<HeldNode>>,
) -> Vec<Look> {
    let look = |node: &Arc<HeldNode>| (node.clone(), generation.coordinator().get(&node.path));
    nodes.into_iter().map(look).collect()
}

/// Evaluates what was read of held nodes; those that are gone are lost together. Returns false if the
/// server did not answer.
async fn looked_at(generation: &Arc<Generation>, looks: Vec<Look>) -> bool {
    let (mut gone, mut answered) = (Vec::new(), true);
    for (node, look) in looks {
        match look.await {
            Ok((data, stat)) => {
                evaluate(generation, &node, &data, &stat);
            }
            Err(RequestError::NoNode) => gone.push(node),
            // It may not be read: no reason not to check the others.
            Err(error) if error.is_definite() => {}
            Err(_) => answered = false,
        }
    }
    generation.lost_nodes(gone.iter().map(|node| &**node), LossReason::Deleted);
    answered
}
