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
use crate::layout::verdict::Verdict;
use crate::name::path::name_of;
use crate::session::releaser::or_forgotten;

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
        // node, as readers behind a writer, are all the nearest: each process checks for itself. Beside that, each
        // reads the head once in that time.
        let is_next = others.iter().any(|path| **path == *obstacle.head);
        let behind = obstacle.ahead.saturating_sub(others.len()).max(usize::from(!is_next));
        let times = u32::try_from(behind).ok().and_then(|behind| 1_u32.checked_shl(behind));
        let times = times.unwrap_or(u32::MAX);
        let (head_ages, clock) = (generation.head_ages(), generation.lease().clock());
        let directory = self.directory();
        let is_due = |awaited: &str, times| {
            head_ages.take_due_check(directory, &obstacle.head, awaited, times, clock.now())
        };
        // What stays at the head, nobody ahead need notice: those may be clients that wait for ever.
        let waits_far = !is_next && !self.request.once;
        if waits_far && is_due(&["the head, ahead of ", awaited].concat(), 1) {
            self.check_head(obstacle, own).await?;
        }
        if !is_due(awaited, times) {
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
                    if head_ages.note_orphan(directory, stat.czxid, own, clock.now()) {
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

    /// Checks the head of the queue for who waits for somebody behind it.
    async fn check_head(&self, obstacle: &Obstacle, own: Option<Age>) -> Result<(), Setback> {
        let (generation, driver, head) =
            (&obstacle.generation, &self.target.driver, &*obstacle.head);
        // Whoever holds the lock beside the head may go first, and let this one in.
        let holds_beside = || {
            let first = driver.parse(name_of(head))?;
            let behind = driver.parse(&driver.example(self.request.mode, first.sequence + 1))?;
            let queue = [first, behind];
            Some(driver.verdict(&queue, &queue[1]) == Verdict::Held)
        };
        if driver.holders_may_stay() || holds_beside().unwrap_or(true) {
            return Ok(());
        }
        let read = generation.read_together(head);
        // Nothing else hangs on it, and without an answer it asks again.
        let Ok((data, stat)) = or_forgotten(generation, generation.patience(), read).await else {
            return Ok(());
        };
        if self.is_other_lock(&stat) {
            self.passed().add(head);
            return Ok(());
        }
        let now = generation.lease().clock().now();
        let ages = generation.head_ages();
        if stat.ephemeral_owner == 0 && ages.note_orphan(self.directory(), stat.czxid, own, now) {
            return Err(Setback::Failed(self.for_ever(head, &data, obstacle.ahead)));
        }
        Ok(())
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
