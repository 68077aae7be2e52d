//! Waiting for ever behind a node whose lease is over, because the one who lost it cannot give it back.

use std::sync::Arc;

use super::Locks;
use crate::acquire::granting::ask_for_node;
use crate::acquire::obstacle::Obstacle;
use crate::local::callers::Decides;
use crate::local::grant::Grant;
use crate::local::itself::{is_stuck, stops_owner, stuck};
use crate::local::queue::Queue;
use crate::local::waiter::Waiter;

impl Queue<Locks> {
    /// Refuses those who wait for the head of the queue if they keep its owner from giving it back. A commit
    /// shows that it exists and its ZooKeeper session lives on: otherwise it goes by itself.
    pub(super) async fn refuse_behind_lost(self: &Arc<Self>, obstacle: &Obstacle) {
        while let Some(lost) = self.head_that_stays(obstacle) {
            match ask_for_node(&lost.lease).await {
                Some(true) if lost.lease.stays() => {
                    // Perhaps readers of other threads have lost it as well, whom others wait for.
                    drop(self.decide(|state| state.refuse(|waiting| waits(waiting, &lost), stuck)));
                }
                Some(_) => return,
                None => {}
            }
        }
    }

    /// The grant of the head of the queue, if it is one of this session, and somebody waits here who keeps it
    /// from its end.
    fn head_that_stays(self: &Arc<Self>, obstacle: &Obstacle) -> Option<Arc<Grant>> {
        // Of several leases, another one may become free.
        if self.most() > 1 || obstacle.is_old || !self.blocks_a_thread() {
            return None;
        }
        // On whatever connection it was acquired.
        let is_head = |by: &&Arc<Grant>| *by.lease.path() == obstacle.head && by.lease.stays();
        let holders = self.holders();
        let inner = self.lock();
        let is_waited_for =
            |by: &&Arc<Grant>| inner.state.waiting().any(|waiting| waits(waiting, by));
        holders.iter().filter(is_head).find(is_waited_for).cloned()
    }
}

fn waits(waiting: &Waiter, head: &Grant) -> bool {
    let stopped = stops_owner(&waiting.who, head);
    !waiting.once && is_stuck(waiting.wants, [(head.mode, stopped)])
}
