//! Who is in the way of a driver: for callers that only try, and for the error at the end of a wait.

use std::sync::Arc;

use super::Permits;
use crate::acquire::obstacle::Obstacle;
use crate::acquire::seen::Seen;
use crate::acquire::setback::refused;
use crate::acquire::target::Target;
use crate::base::error::LockError;
use crate::base::times;
use crate::coordinator::request_error::RequestError;
use crate::local::callers::Decides;
use crate::local::grant::GrantSource;
use crate::local::permits::PermitRequest;
use crate::local::queue::{Queue, busy};
use crate::local::singles::InOrder;
use crate::local::todo::Fetch;

impl Queue<Permits> {
    /// Tells callers that only try who holds the permits, if there are too few. Does not end.
    pub(super) async fn tell_of_holders<T>(
        self: &Arc<Self>,
        fetch: &Fetch<PermitRequest>,
        seen: &Seen,
    ) -> T {
        loop {
            let obstacle = seen.next().await;
            if self.blocks_a_thread() {
                // Boxed, because most acquires meet nobody.
                Box::pin(self.refuse_behind_lost(&obstacle)).await;
            }
            // Who was in the way before may have gone, and room may be there.
            if !obstacle.is_old
                && self.lock().state.anybody_tries()
                && let Some(told) = obstacle.ask_for_tries().await
            {
                self.turn_away(fetch, told);
            }
        }
    }

    /// Tells callers that only try that nothing is left, while another contender holds the inner
    /// lock. The holder may be waiting for a permit, but also be taking one, or have found that
    /// there are too few: what is seen twice is reported. Does not end.
    pub(super) async fn tell_of_others<T>(
        self: &Arc<Self>,
        fetch: &Fetch<PermitRequest>,
        seen: &Seen,
        mut place: Option<InOrder>,
    ) -> T {
        let (clock, permits) = (self.session().clock(), fetch.wants.permits as usize);
        loop {
            let other = seen.next().await;
            // It has its node: later ones are behind it on any connection.
            drop(place.take());
            if self.blocks_a_thread() {
                Box::pin(self.refuse_behind_lost(&other)).await;
            }
            let mut obstacle = Some(other);
            let (mut before, mut looks) = (None, 0);
            while let Some(other) = obstacle.filter(|_| self.lock().state.anybody_tries()) {
                match self.find_holder(&other, permits).await {
                    Ok(Some(holder)) if before.as_ref() == Some(&holder.0) => {
                        let busy = || holder.1.clone();
                        drop(self.decide(|state| state.lacks_room(fetch.driver, busy)));
                        break;
                    }
                    Ok(found) => {
                        before = found.map(|(nodes, _)| nodes);
                        looks += 1;
                    }
                    Err(error) => {
                        if let Some(refused) = refused(error) {
                            self.turn_away(fetch, refused);
                            break;
                        }
                        // Without a reply, the lock is not reported as busy.
                    }
                }
                if looks > times::PERMIT_LEFT.0 {
                    self.turn_away(fetch, busy(None));
                    break;
                }
                clock.sleep(times::PERMIT_LEFT.1).await;
                obstacle = seen.get();
            }
        }
    }

    fn turn_away(self: &Arc<Self>, fetch: &Fetch<PermitRequest>, busy: LockError) {
        drop(self.decide(|state| state.met(fetch.driver, || busy.clone())));
    }

    /// The nodes that take up the permits, and the error with the first of them, if fewer permits
    /// are left than needed.
    pub(super) async fn find_holder(
        &self,
        other: &Obstacle,
        permits: usize,
    ) -> Result<Option<(Vec<String>, LockError)>, RequestError> {
        let Target { directory, driver, .. } = &self.engine().targets.leases;
        let listed = match other.generation().list_together(directory.as_str(), driver).await {
            Err(RequestError::NoNode) => return Ok(None),
            listed => listed?,
        };
        let queue = &listed.queue;
        let most = driver.most().unwrap_or(usize::MAX);
        let ahead = (queue.len() + permits).saturating_sub(most);
        let Some(first) = queue.first().filter(|_| ahead > 0) else { return Ok(None) };
        let holder = other.instead(driver, directory.join(&first.name).as_str(), ahead);
        let busy = match holder.ask().await {
            Err(RequestError::NoNode) => return Ok(None),
            busy => busy?,
        };
        Ok(Some((queue.iter().map(|node| node.name.clone()).collect(), busy)))
    }
}
