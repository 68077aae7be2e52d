//! The watch on a node of this session, which notices its deletion and a request for its release.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::base::owner::{Owner, REVOKE};
use crate::base::unharmed::unharmed;
use crate::coordinator::node::Stat;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Reply;
use crate::coordinator::watch::{Watch, WatchEvent};
use crate::observe::observer::LossReason;
use crate::session::generation::{Generation, HeldNode};
use crate::session::watch_budget::Watching;

/// Evaluates what was read of a held node. Returns whether the node still belongs to this session.
pub fn evaluate(
    generation: &Arc<Generation>,
    node: &Arc<HeldNode>,
    data: &[u8],
    stat: &Stat,
) -> bool {
    if stat.czxid != node.czxid {
        // Another node has the same path.
        generation.lost_node(node, LossReason::Deleted);
        return false;
    }
    node.was_read(stat.version);
    if data == REVOKE {
        generation.revoked_node(node);
        write_again(generation, node, stat.version);
    }
    true
}

/// Restores the data of a held node after a request for release has replaced them, with a mark that
/// says so: as long as it holds the lock, its owner must be known. A node that another client has
/// just created at the same path has another version.
fn write_again(generation: &Arc<Generation>, node: &Arc<HeldNode>, version: i32) {
    let Some(payload) = node.data() else { return };
    let (path, data) = (node.path.to_string(), Owner::asked_to_let_go(&payload));
    let writing = node.writing();
    let written = generation.write(vec![Operation::Replace { path, data, version }]);
    let (living, node) = (generation.clone(), node.clone());
    generation.spawner().spawn(async move {
        match living.unless_over(written).await {
            Ok(()) => node.has_version(version.wrapping_add(1)),
            // The next heartbeat reads it again.
            Err(error) if !error.is_definite() => node.has_version(i32::MIN),
            Err(error) => unharmed(|| {
                tracing::debug!(path = &*node.path, %error, "the data of a held node could not \
                                                             be restored");
            }),
        }
        writing.done();
    });
}

/// Watches a held node, once, to notice its deletion, and a request for its release.
pub fn watch_own(generation: &Arc<Generation>, node: &Arc<HeldNode>) {
    let Some(watching) = generation.begin_watching(node) else { return };
    let first = generation.coordinator().get_watched(&node.path);
    let watches = go_on_watching(generation.clone(), node.clone(), watching, first);
    generation.spawner().spawn(watches);
}

/// Reads a held node, and watches it until it is gone.
async fn go_on_watching(
    generation: Arc<Generation>,
    node: Arc<HeldNode>,
    _watching: Watching,
    mut reply: Reply<(Vec<u8>, Stat, Watch)>,
) {
    loop {
        match generation.unless_over(reply).await {
            Ok((data, stat, watch)) => {
                if !evaluate(&generation, &node, &data, &stat) {
                    return;
                }
                match watch.await {
                    WatchEvent::Deleted => return generation.lost_node(&node, LossReason::Deleted),
                    WatchEvent::Changed => {}
                    WatchEvent::SessionEnded => return,
                }
            }
            Err(RequestError::NoNode) => return generation.lost_node(&node, LossReason::Deleted),
            // The next heartbeat watches it again.
            Err(_) => return node.set_watched(false),
        }
        reply = generation.coordinator().get_watched(&node.path);
    }
}

/// The watch on this session's own waiting node: it shows whether the node still exists when the
/// one ahead is deleted. It is kept when the waiter becomes the holder.
pub struct OwnWatch {
    watch: Watch,
    /// What was read when the watch was set.
    read: (Vec<u8>, Stat),
    watching: Watching,
    link_lost: LinkLost,
    /// How often the connection was there again when the watch was set: a coordinator may show no loss that is over.
    reconnects: u64,
}

/// Resolves when the connection is lost.
pub type LinkLost = Pin<Box<dyn Future<Output = ()> + Send>>;

impl OwnWatch {
    /// A watch that was just set, with what was read. Whether the connection is lost, and how often it was there
    /// again, is from before that.
    pub fn new(
        watch: Watch,
        read: (Vec<u8>, Stat),
        watching: Watching,
        (link_lost, reconnects): (LinkLost, u64),
    ) -> Self {
        OwnWatch { watch, read, watching, link_lost, reconnects }
    }

    /// Whether it still tells what happens in this generation: with the connection, it may have been lost.
    pub fn tells(&mut self, generation: &Generation) -> bool {
        self.reconnects == generation.reconnects()
            && self.link_lost.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// The event of the watch.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        self.watch.as_mut().poll(cx)
    }

    /// Watches the node from now on as a held one.
    pub fn hold(self, generation: &Arc<Generation>, node: &Arc<HeldNode>) {
        // Locks that are held for long leave room for waiters; the heartbeats check them without
        // watches.
        let Some(watching) = self.watching.for_held() else { return };
        node.set_watched(true);
        let (data, stat) = self.read;
        let first: Reply<_> = Box::pin(ready(Ok((data, stat, self.watch))));
        let watches = go_on_watching(generation.clone(), node.clone(), watching, first);
        generation.spawner().spawn(watches);
    }
}

impl fmt::Debug for OwnWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnWatch")
    }
}
