//! Permits are taken under an inner lock, all or none.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::or;

use super::{Looks, Permits, Targets};
use crate::acquire::acquire_loop::acquire;
use crate::acquire::lease::Lease;
use crate::acquire::seen::Seen;
use crate::acquire::send_order::SendTurn;
use crate::acquire::setback::{Setback, deleted_again, setback};
use crate::acquire::target::NodeRequest;
use crate::base::error::LockError;
use crate::base::first::all;
use crate::base::mode::Mode;
use crate::base::policy::pause_after;
use crate::base::unharmed::unharmed;
use crate::local::grant::GrantSource;
use crate::local::permits::PermitRequest;
use crate::local::queue::Queue;
use crate::local::todo::Fetch;
use crate::session::lane::LanePermit;
use crate::session::releaser::{Deletions, more};

/// So many nodes are looked for in a list of each, which is sent behind its creation. More share their lists, of which the
/// second is sent when the first was answered.
const FEW: usize = 10;

impl Queue<Permits> {
    /// Takes permits under one hold of the inner lock, all or none. Without it, two callers that
    /// each have a part of their permits would wait for each other.
    pub(super) async fn take_together(
        &self,
        (lane_permit, turn): (&LanePermit, Option<&SendTurn>),
        fetch: &Fetch<PermitRequest>,
        looks: &Looks,
    ) -> Result<Vec<Arc<Lease>>, LockError> {
        let known =
            or(self.limit().known(lane_permit), async { Err(lane_permit.elsewhere().await) });
        let known = known.await;
        // They leave in their order.
        if let (true, Some(turn)) = (lane_permit.leaves(), turn) {
            turn.comes().await;
        }
        known?;
        let Targets { locks, counts_first, .. } = &self.engine().targets;
        let requeue = &fetch.wants.requeue;
        let (mut losses, mut interruptions, mut patience) = (0, 0, None);
        loop {
            // By then, callers that only try have been told if nothing is left.
            let request = NodeRequest {
                has_many_nodes: turn.is_some(),
                ..NodeRequest::one(Mode::Mutex, false)
            };
            let inner = acquire(locks, requeue, lane_permit, request, &looks.locks, turn).await?;
            looks.locks.set(None);
            let taking = async { Some(self.take(lane_permit, fetch, &looks.leases).await) };
            // Where the deletion of a permit was refused, its node goes with its session, and that with the
            // last guard in it: which may be this one, and wait for the place of that permit.
            let retired = async {
                inner.retired().await;
                None
            };
            let taken = or(taking, retired).await;
            looks.leases.set(None);
            let taken: Vec<_> = taken.transpose()?.into_iter().flatten().map(Arc::new).collect();
            // Without the lock, others may have counted at the same time.
            let is_whole = inner.is_valid() && !taken.is_empty();
            let was_alone =
                is_whole && (!counts_first || self.let_go(&inner, &mut patience).await?);
            if was_alone && taken.iter().all(|lease| lease.is_valid()) {
                return Ok(taken);
            }
            // The next count must not find them. Nobody hears when those of a session that is over go: who counts
            // in the next one watches them like anybody else's.
            let deletions = taken.iter().filter_map(|lease| lease.release());
            let gone = async { drop(deletions.collect::<Deletions>().await) };
            let generation = inner.generation();
            or(gone, generation.until(|| generation.is_over())).await;
            let pause = if inner.is_deleted() {
                if losses >= requeue.attempts {
                    return Err(deleted_again(&locks.lock));
                }
                losses += 1;
                requeue.pause(losses - 1)
            } else {
                interruptions += 1;
                pause_after(interruptions)
            };
            drop(inner);
            self.session().clock().sleep(pause).await;
        }
    }

    /// Deletes the node of the inner lock, and returns whether it was there until then: clients of kazoo
    /// do not count again when their node exists, so if somebody else deletes it, two may count at the
    /// same time. If the answer is lost, nobody knows; the next one gets more time.
    async fn let_go(
        &self,
        inner: &Lease,
        patience: &mut Option<Duration>,
    ) -> Result<bool, LockError> {
        let generation = inner.generation();
        let time = patience.unwrap_or_else(|| generation.patience());
        *patience = Some(more(generation, time));
        match inner.delete(time).await.map_err(setback) {
            Ok(true) => Ok(true),
            Ok(false) => {
                unharmed(|| {
                    tracing::warn!(
                        "the node of a semaphore's inner lock was deleted by somebody else"
                    );
                });
                Ok(false)
            }
            Err(Setback::Failed(error)) => {
                let locks = &self.engine().targets.locks;
                Err(error.at(locks.directory.as_str()).on(locks.lock.clone()))
            }
            Err(_) => Ok(false),
        }
    }

    /// Creates the nodes of permits. If every node is a holder, it first makes sure that there is
    /// room for all of them.
    async fn take(
        &self,
        lane_permit: &LanePermit,
        fetch: &Fetch<PermitRequest>,
        seen: &Seen,
    ) -> Result<Vec<Lease>, LockError> {
        let (target, requeue) = (&self.engine().targets.leases, &fetch.wants.requeue);
        let together = fetch.wants.permits as usize;
        let request = NodeRequest::one(Mode::Permit, fetch.once);
        let label = self.lock().state.waiting().next().and_then(|first| first.label.clone());
        let (stop_at, has_many_nodes) = (fetch.stop_at, together > FEW);
        let request = NodeRequest { together, has_many_nodes, stop_at, label, ..request };
        let mut taken = Vec::with_capacity(together);
        if self.engine().targets.counts_first {
            let first = NodeRequest { counts_first: true, ..request.clone() };
            taken.push(acquire(target, requeue, lane_permit, first, seen, None).await?);
        }
        let taking = (taken.len()..together)
            .map(|_| acquire(target, requeue, lane_permit, request.clone(), seen, None));
        let rest = all(taking).await?;
        taken.extend(rest);
        Ok(taken)
    }
}
