//! Nodes that nobody deletes: those of a server that differs from its leader, and those that belong to
//! no session.

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::obstacle::Obstacle;
use crate::acquire::setback::Setback;
use crate::base::error::{Holder, LockError};
use crate::base::error_kind::ErrorKind;
use crate::coordinator::request_error::RequestError;
use crate::divergence::check::phantom_among;
use crate::divergence::head_age::Age;
use crate::name::path::name_of;

impl AcquireLoop<'_> {
    /// Checks the nodes that it waits for if the head has been the same for longer than a session
    /// timeout. If the owners of too many of them are gone for ever, there is no point in waiting, at
    /// least not on this server. A contender behind the head may still delete its own node.
    pub(crate) async fn check_that_somebody_goes(
        &self,
        obstacle: &Obstacle,
        others: &[String],
        own: Option<Age>,
    ) -> Result<(), Setback> {
        let generation = &obstacle.generation;
        let Some(awaited) = others.first() else { return Ok(()) };
        // Of those that wait for others, the nearest to the head checks first, and goes if nobody else
        // does. But those ahead may be gone for ever as well, so each checks, half as often as the one
        // ahead of it: together they ask twice as often as the first. Those that wait for the same
        // node, as readers behind a writer, are all the nearest: each process checks for itself.
        let is_next = others.iter().any(|path| **path == *obstacle.head);
        let behind = obstacle.ahead.saturating_sub(others.len()).max(usize::from(!is_next));
        let times = u32::try_from(behind).ok().and_then(|behind| 1_u32.checked_shl(behind));
        let times = times.unwrap_or(u32::MAX);
        let (head_ages, clock) = (generation.head_ages(), generation.lease().clock());
        let (directory, now) = (self.directory(), clock.now());
        if !head_ages.take_due_check(directory, &obstacle.head, awaited, times, now) {
            return Ok(());
        }
        match phantom_among(generation, others).await {
            Ok(None) => {}
            Ok(Some(phantom)) => {
                generation.leave(phantom, &self.target.of_lock(self.request.mode));
                return Err(Setback::Interrupted);
            }
            Err(error) => return self.after(generation, error).await,
        }
        if self.target.driver.holders_may_stay() {
            return Ok(());
        }
        let coordinator = generation.coordinator();
        let asked: Vec<_> = others.iter().map(|path| (path, coordinator.get(path))).collect();
        let mut staying = Vec::new();
        for (path, reply) in asked {
            match reply.await {
                Ok((_, stat)) if self.is_other_lock(&stat) => self.passed().add(path),
                Ok((data, stat)) if stat.ephemeral_owner == 0 => {
                    if head_ages.has_stayed(directory, stat.czxid, own, clock.now()) {
                        staying.push((path, data));
                    }
                }
                Ok(_) | Err(RequestError::NoNode) => {}
                Err(error) => return self.after(generation, error).await,
            }
        }
        let most = self.target.driver.most().unwrap_or(1);
        match staying.first() {
            Some((path, data)) if staying.len() + self.request.together > most => {
                Err(Setback::Failed(self.for_ever(path, data, obstacle.ahead)))
            }
            _ => Ok(()),
        }
    }

    /// The error for a node at the head whose owner no longer lives.
    pub(crate) fn for_ever(&self, path: &str, data: &[u8], ahead: usize) -> LockError {
        let node = name_of(path).to_owned();
        let owner = self.target.driver.owner(&node, data);
        let why = format!(
            "{path} is not an ephemeral node, so it stays until somebody deletes it, and nobody \
             has for a session timeout; if nobody uses it, delete it by hand"
        );
        LockError::new(ErrorKind::Busy, why).held_by(Some(Holder { owner, node, ahead }))
    }
}
