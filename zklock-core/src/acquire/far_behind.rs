//! Looking again in a long queue. Each list of it has every name, and each process that waits looks again after a
//! session timeout: together they would ask for the square of their number. Nobody comes in ahead, so a few nodes
//! tell whether anything has changed for this contender.

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::lease::QueuedNode;
use crate::acquire::obstacle::Obstacle;
use crate::acquire::setback::Setback;
use crate::acquire::watching::Woken;
use crate::base::clock::Instant;
use crate::coordinator::node::NodeKind;
use crate::coordinator::request_error::RequestError;
use crate::layout::new_node::Proof;
use crate::session::generation::Listed;

/// From so many names on, a list is longer than what the few reads take.
const LONG: usize = 50;

/// Of so many that it waits for, it reads each.
const FEW: usize = 2;

/// So many times in a row it does without a list, which says how many are ahead: by that number it asks whether those
/// whom it waits for live.
const QUIET: u32 = 7;

impl AcquireLoop<'_> {
    /// Whether this queue is so long that it is not listed because time has passed. Those of one process that wait
    /// with nodes of their own share their lists.
    pub(crate) fn is_long(&self, looked: &Listed) -> bool {
        let (driver, names) = (&self.target.driver, looked.queue.len() + looked.others.len());
        // The number first, which most queues do not reach: every acquire looks.
        names >= LONG
            && !self.request.has_many_nodes
            && driver.proof() == Proof::Name
            && driver.kind() == NodeKind::EphemeralSequential
    }

    /// Waits as [`stand_behind`](AcquireLoop::stand_behind) does, and goes on where nothing has changed.
    pub(crate) async fn stand_far_behind(
        &self,
        obstacle: Obstacle,
        node: &mut QueuedNode,
        deletion_grants: bool,
        give_way: &mut Option<Instant>,
    ) -> Result<Woken, Setback> {
        let mut quiet = if obstacle.paths().len() <= FEW { QUIET } else { 0 };
        loop {
            let (age, own) = (Some(node.age()), deletion_grants.then_some(&mut *node));
            let woken = self.stand_behind(obstacle.clone(), age, own, give_way).await?;
            if !matches!(woken, Woken::Time | Woken::Reconnected)
                || quiet == 0
                || !self.is_still_so(&obstacle, (node.path(), node.czxid())).await?
            {
                return Ok(woken);
            }
            quiet -= 1;
        }
    }

    /// Whether its own node is there, the first one of the queue, and those that it waits for.
    async fn is_still_so(
        &self,
        obstacle: &Obstacle,
        (own, czxid): (&str, i64),
    ) -> Result<bool, Setback> {
        let generation = &obstacle.generation;
        let coordinator = generation.coordinator();
        let head =
            Some(&*obstacle.head).filter(|head| obstacle.paths().iter().all(|path| path != head));
        let read = |path| (path, coordinator.get(path));
        let own = coordinator.get(own);
        let asked: Vec<_> =
            obstacle.paths().iter().map(|path| &**path).chain(head).map(read).collect();
        let mut is_so = match own.await {
            Ok((_, stat)) => stat.czxid == czxid,
            // It is there. Who waits need not read it.
            Err(RequestError::NoAuth) => true,
            Err(RequestError::NoNode) => false,
            Err(error) => return self.after(generation, error).await.map(|()| false),
        };
        for (path, reply) in asked {
            match reply.await {
                Ok((_, stat)) if self.is_other_lock(&stat) => {
                    self.passed().add(path);
                    is_so = false;
                }
                Ok(_) => {}
                Err(RequestError::NoAuth) if Some(path) == head => {}
                Err(RequestError::NoNode) => is_so = false,
                Err(error) => return self.after(generation, error).await.map(|()| false),
            }
        }
        Ok(is_so)
    }
}
