//! Several nodes may hold a lock: waiting until there is room for more.

use std::sync::Arc;

use tokio::sync::watch;

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::obstacle::{Blocked, Obstacle};
use crate::acquire::setback::Setback;
use crate::base::clock::Instant;
use crate::divergence::head_age::Age;
use crate::session::generation::{Generation, Listed, Since};

impl AcquireLoop<'_> {
    /// Waits until there is room for all the nodes that are acquired together. The caller makes
    /// sure that nobody else creates one.
    pub(crate) async fn wait_for_places(
        &self,
        generation: &Arc<Generation>,
    ) -> Result<(), Setback> {
        let (driver, mut limit) = (&self.target.driver, self.target.limit());
        let mut known = None;
        loop {
            let listed = self.list(generation, known.take(), Since::Now).await?;
            let Some(looked) = listed else {
                // Without a directory there are no nodes in it.
                self.see(None);
                return Ok(());
            };
            // Nodes of another kind take up places. They are looked for again once the own node exists.
            let signs = self.signs(&looked);
            if !signs.is_empty() {
                self.check_kind(generation, signs).await?;
            }
            let most = driver.most().unwrap_or(usize::MAX);
            let (seen, others) = (looked.queue.len(), self.others(&looked.queue, ""));
            drop(looked);
            match (seen + self.request.together).saturating_sub(most) {
                0 => {
                    // The list of the next question has its own node in it.
                    self.see(None);
                    return Ok(());
                }
                excess => {
                    let limit = &mut limit;
                    known = self.crowded(generation, seen, others, excess, None, limit).await?;
                }
            }
        }
    }

    /// There are too many nodes: waits until the children have changed, and returns them if they
    /// are known. Ends an acquire that does not wait, or that would wait for ever.
    pub(crate) async fn crowded(
        &self,
        generation: &Arc<Generation>,
        seen: usize,
        mut others: Vec<String>,
        excess: usize,
        own: Option<Age>,
        limit: &mut Option<watch::Receiver<u32>>,
    ) -> Result<Option<Arc<Listed>>, Setback> {
        let there = others.len() + usize::from(own.is_some());
        // Whoever leaves, nobody gets more than the limit. The others may be those of the same call.
        if self.target.driver.most().is_some_and(|most| self.request.together > most) {
            others.clear();
        }
        let obstacle = match others.first() {
            Some(head) => {
                // One of them is gone when there are fewer than now by the excess.
                let blocked = Blocked::WhileThere((there + 1).saturating_sub(excess));
                self.obstacle(generation, head, excess, blocked)
            }
            None => self.closed_to_all(generation),
        };
        self.check_that_somebody_goes(&obstacle, &others, own).await?;
        drop(others);
        if self.request.once {
            return Box::pin(self.refuse(obstacle, &mut Some(Instant::ORIGIN)))
                .await
                .map(|()| None);
        }
        self.see(Some(obstacle));
        let known = self.until_anew(self.wait_for_room(generation, seen, limit)).await;
        self.seen.outdate();
        known.unwrap_or(Ok(None))
    }

    /// What a caller waits for that wants more permits than there are.
    fn closed_to_all(&self, generation: &Arc<Generation>) -> Obstacle {
        let most = self.target.driver.most().unwrap_or_default();
        let unavailable = Some(Arc::from(format!("its limit is {most}")));
        Obstacle { unavailable, ..self.of_directory(generation) }
    }
}
