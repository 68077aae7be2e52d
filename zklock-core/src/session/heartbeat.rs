//! The heartbeat: a commit that checks the held nodes, and writes into them who holds them.

use std::sync::Arc;

use crate::coordinator::traits::{Reply, RequestError, Stat};
use crate::observe::observer::{Event, LossReason};
use crate::session::generation::{Generation, HeldNode, MOST_CHECKED};
use crate::session::local_queues::LocalQueues;
use crate::session::own_watch::{heed, watch_own};

/// Commits that the held nodes exist, and finds those that do not, or whose data have changed. Writes
/// into them who holds them.
pub async fn heartbeat(generation: Arc<Generation>, local_queues: Arc<LocalQueues>) {
    let start = generation.lease().clock().now();
    let nodes = generation.held();
    // A node that is held for longer than a heartbeat is watched, so that its deletion is noticed
    // at once.
    let long = generation.lease().heartbeat() / 2;
    let long_held = nodes.iter().filter(|node| start.since(node.since) >= long);
    for node in long_held {
        watch_own(&generation, node);
    }
    for batch in nodes.chunks(MOST_CHECKED) {
        // A late heartbeat leaves the rest to the next one, which has begun.
        let batch = batch.iter().filter(|node| node.seen() <= start).cloned().collect();
        if !check(&generation, &local_queues, batch).await {
            return;
        }
    }
}

/// Checks a batch; removes the nodes that are gone, and checks the others again. One whose data change
/// all the time is left to the next heartbeat. Returns false if the server did not answer.
async fn check(
    generation: &Arc<Generation>,
    local_queues: &LocalQueues,
    mut batch: Vec<Arc<HeldNode>>,
) -> bool {
    // A client that writes to these nodes all the time must not prevent the check of the others.
    let mut looks = batch.len();
    loop {
        // A node that was released meanwhile would fail the whole batch, one node after the other.
        batch.retain(|node| generation.is_held(node));
        if batch.is_empty() {
            return true;
        }
        let sent = generation.lease().clock().now();
        let nodes: Vec<_> = batch.iter().map(|node| told(generation, local_queues, node)).collect();
        let written: Vec<_> =
            nodes.iter().map(|(_, version, data)| (*version, data.is_some())).collect();
        let checked = generation.check_held(nodes);
        // A node that another client has created at the same path passes the check. A read that is
        // sent behind a commit is as new as the commit.
        let coordinator = generation.coordinator();
        let recurring = batch.iter().filter(|node| node.is_recurring());
        let read: Vec<_> =
            recurring.map(|node| (node.clone(), coordinator.get(&node.path))).collect();
        let checked = checked.await;
        let writes = batch.iter().zip(&written).filter(|(_, (_, is_written))| *is_written);
        for (node, (version, _)) in writes {
            match &checked {
                Ok(()) => node.was_written(*version),
                Err(_) => node.unsure(),
            }
        }
        let (index, error) = match checked {
            Ok(()) => {
                for (node, look) in read {
                    if !heed_look(generation, &node, look).await {
                        return false;
                    }
                }
                batch.iter().for_each(|node| node.seen_at(sent));
                generation.events().tell(|| Event::Heartbeat {
                    nodes: batch.len(),
                    took: generation.lease().clock().now().since(sent),
                    undeleted: generation.undeleted(),
                });
                return true;
            }
            Err(RequestError::Multi { index, error }) if index < batch.len() => (index, *error),
            Err(error) => {
                tracing::debug!(%error, "a heartbeat was not answered");
                return false;
            }
        };
        match error {
            RequestError::NoNode => {
                generation.lost_node(&batch.swap_remove(index), LossReason::Deleted);
            }
            RequestError::BadVersion if looks == 0 => drop(batch.swap_remove(index)),
            RequestError::BadVersion if look_at(generation, &batch[index]).await => looks -= 1,
            RequestError::BadVersion => return false,
            // It may be looked at and not be written.
            error if error.is_definite() && written[index].1 => batch[index].refuses(),
            error if error.is_definite() => {
                // The server does not allow this check; the other nodes are checked.
                let node = batch.swap_remove(index);
                tracing::warn!(path = &*node.path, %error, "a held node could not be checked");
            }
            _ => return false,
        }
    }
}

/// What a heartbeat checks of a node: its version, and what is written at the same time.
fn told(
    generation: &Generation,
    local_queues: &LocalQueues,
    node: &Arc<HeldNode>,
) -> (Arc<HeldNode>, i32, Option<Vec<u8>>) {
    let lease = generation.lease();
    let holding = local_queues.holding(&node.path);
    // As for the watches of nodes that are held for longer than a heartbeat.
    let news = node.news(holding, lease.heartbeat() / 2, lease.clock());
    (node.clone(), node.version(), news)
}

/// Reads the data of a held node, which have changed. Returns false if the server did not answer.
async fn look_at(generation: &Arc<Generation>, node: &Arc<HeldNode>) -> bool {
    heed_look(generation, node, generation.coordinator().get(&node.path)).await
}

async fn heed_look(
    generation: &Arc<Generation>,
    node: &Arc<HeldNode>,
    look: Reply<(Vec<u8>, Stat)>,
) -> bool {
    match look.await {
        Ok((data, stat)) => {
            heed(generation, node, &data, &stat);
            true
        }
        // The next check finds out.
        Err(RequestError::NoNode) => true,
        Err(_) => false,
    }
}
