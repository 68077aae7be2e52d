//! What an attempt to acquire shares with its queue.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_lite::future::or;
use tokio::sync::Notify;

use crate::acquire::obstacle::Obstacle;
use crate::base::clock::Instant;
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::times;
use crate::coordinator::request_error::RequestError;

/// What an attempt to acquire shares with its queue: the obstacle, if there is one, and that it is to
/// stop.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<SeenState>);

#[derive(Debug, Default)]
struct SeenState {
    obstacle: Mutex<Option<Obstacle>>,
    news: Notify,
    anew: Notify,
    stop: Notify,
}

impl AsRef<Notify> for Seen {
    /// What is notified when the attempt is to stop.
    fn as_ref(&self) -> &Notify {
        &self.0.stop
    }
}

impl Seen {
    /// Sets who is in the way.
    pub fn set(&self, obstacle: Option<Obstacle>) {
        let news = obstacle.is_some();
        *self.0.obstacle.lock().unwrap_or_else(PoisonError::into_inner) = obstacle;
        if news {
            self.0.news.notify_one();
        }
    }

    /// Whoever is in the way may have left. It is known again with the next look.
    pub fn outdate(&self) {
        let mut obstacle = self.0.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(obstacle) = obstacle.as_mut() {
            obstacle.is_old = true;
        }
    }

    /// Whether it is known that somebody is in the way.
    pub fn is_known(&self) -> bool {
        let obstacle = self.0.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
        obstacle.as_ref().is_some_and(|obstacle| !obstacle.is_old)
    }

    /// Asks who is in the way, as [`Obstacle::ask`], and returns what is known at that time; `None` if nobody is known
    /// to be. What the attempt waits for may have happened without its being told, where an answer or a notification
    /// is lost: then it lists the queue again.
    pub async fn ask(&self, until: Instant) -> Option<Result<LockError, RequestError>> {
        let obstacle = self.get()?;
        let (mut blocked, mut is_blocked) = (pin!(obstacle.is_blocked()), None);
        let told = or(obstacle.ask(), async {
            is_blocked = Some(blocked.as_mut().await);
            pending().await
        });
        let told = told.await;
        if is_blocked.is_none() {
            // It was asked at the same time, and answers come in order: it is here soon, or lost.
            let clock = obstacle.generation().lease().clock();
            let soon = (clock.now() + times::LATE_HOLDER).min(until - times::SHORTEST_TRY);
            is_blocked = Deadline::at(clock.clone(), soon).bound(blocked).await.ok();
        }
        if let Some(Ok(false)) = is_blocked {
            self.list_again(&obstacle);
            return told.ok().filter(|_| obstacle.is_enough()).map(Ok);
        }
        match (told, is_blocked) {
            // The first one has left, and somebody else who is ahead has not.
            (Err(RequestError::NoNode), Some(Ok(true))) => {
                Some(Ok(LockError::new(ErrorKind::Busy, "")))
            }
            (Err(RequestError::NoNode), unknown) => Some(Err(unknown?.err()?)),
            (told, _) => Some(told),
        }
    }

    /// Makes the attempt list the queue again, unless it has since. Until then, nobody is known to be in the way.
    fn list_again(&self, obstacle: &Obstacle) {
        let seen = {
            let mut now = self.0.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
            now.take_if(|now| Arc::ptr_eq(&now.head, &obstacle.head))
        };
        // Not under the mutex: whoever is woken may set who is in the way.
        if seen.is_some() {
            self.0.anew.notify_waiters();
        }
    }

    /// Waits until the attempt has to list the queue again.
    pub async fn asked_anew(&self) {
        self.0.anew.notified().await;
    }

    /// Returns who is in the way.
    pub fn get(&self) -> Option<Obstacle> {
        self.0.obstacle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the attempt.
    pub fn stop(&self) {
        self.0.stop.notify_one();
    }

    /// Makes a caller that waits in [`next`](Seen::next) look at once.
    pub fn look_again(&self) {
        self.0.news.notify_one();
    }

    /// Waits until somebody is in the way.
    pub async fn next(&self) -> Obstacle {
        loop {
            self.0.news.notified().await;
            if let Some(obstacle) = self.get() {
                return obstacle;
            }
        }
    }
}
