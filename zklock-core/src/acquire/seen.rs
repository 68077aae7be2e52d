//! What an attempt to acquire shares with its queue.

use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_lite::future::or;
use tokio::sync::Notify;

use crate::acquire::obstacle::Obstacle;
use crate::acquire::setback::refused;
use crate::base::clock::Instant;
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::times;
use crate::coordinator::request_error::RequestError;
use crate::layout::contender::Contender;
use crate::session::generation::Generation;

/// What is known of who is in the way of an attempt, now that ZooKeeper was asked.
#[derive(Debug)]
pub enum Asked {
    /// Somebody is: the error of a busy lock.
    Busy(LockError),
    /// No attempt is under way, so nobody is in its way.
    Nobody,
    /// That is not known: nobody was seen yet, who was seen has left, or not all was answered that would tell.
    Unknown,
    /// This is what the server, or the connection, says instead.
    Failed(RequestError),
}

impl Asked {
    /// The question failed in this session. Where that is used no more, perhaps because of another lock, the next session
    /// says who is in the way.
    pub fn failed(generation: &Generation, error: RequestError) -> Self {
        match generation.is_retired() && refused(error.clone()).is_none() {
            true => Asked::Unknown,
            false => Asked::Failed(error),
        }
    }
}

/// What an attempt to acquire shares with its queue: the obstacle, if there is one, and that it is to
/// stop.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<SeenState>);

#[derive(Debug, Default)]
struct SeenState {
    obstacle: Mutex<Option<Obstacle>>,
    /// What the names of the nodes begin with that the attempt may have made over a connection that it has left.
    abandoned: OnceLock<Mutex<Vec<String>>>,
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

    /// Remembers a node that the attempt may have made and does not want any more.
    pub fn abandon(&self, prefix: String) {
        let abandoned = self.0.abandoned.get_or_init(Mutex::default);
        abandoned.lock().unwrap_or_else(PoisonError::into_inner).push(prefix);
    }

    /// Those of these contenders whose nodes it has abandoned. No prefix of another's node, which may begin with it, has
    /// a number of ten digits behind it.
    pub fn abandoned_among(&self, queue: &[Contender]) -> Vec<String> {
        let Some(abandoned) = self.0.abandoned.get() else { return Vec::new() };
        let abandoned = abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_number =
            |rest: &str| rest.len() == 10 && rest.bytes().all(|digit| digit.is_ascii_digit());
        let is_one = |name: &&str| {
            abandoned.iter().any(|prefix| name.strip_prefix(&**prefix).is_some_and(is_number))
        };
        queue.iter().map(|one| &*one.name).filter(is_one).map(str::to_owned).collect()
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

    /// Asks who is in the way, as [`Obstacle::ask`], and returns what is known at that time. What the attempt waits
    /// for may have happened without its being told, where an answer or a notification is lost: then it lists the
    /// queue again.
    pub async fn ask(&self, until: Instant) -> Asked {
        let Some(obstacle) = self.get() else { return Asked::Unknown };
        if obstacle.is_old && obstacle.unavailable.is_some() {
            // Whether it still is, the answer to the next look says.
            self.list_again(&obstacle);
            return Asked::Unknown;
        }
        let (mut told, mut asking) = (None, pin!(obstacle.ask()));
        let mut is_blocked = None;
        let mut blocking = pin!(async {
            let is_blocked = obstacle.is_blocked().await;
            if let Ok(false) = is_blocked {
                self.list_again(&obstacle);
            }
            is_blocked
        });
        let first = or(async { told = Some(asking.as_mut().await) }, async {
            is_blocked = Some(blocking.as_mut().await);
        });
        first.await;
        // Both were asked at the same time, and answers come in order: the other one is here soon, or lost.
        let clock = obstacle.generation().lease().clock();
        let soon = (clock.now() + times::LATE_HOLDER).min(until - times::SHORTEST_TRY);
        let soon = Deadline::at(clock.clone(), soon);
        if told.is_none() {
            told = soon.bound(asking).await.ok();
        } else if is_blocked.is_none() {
            is_blocked = soon.bound(blocking).await.ok();
        }
        let failed = |error| Asked::failed(obstacle.generation(), error);
        match (told, is_blocked) {
            (Some(Ok(busy)), Some(Ok(true))) => Asked::Busy(busy),
            // Nobody may say who else is there.
            (Some(Ok(busy)), Some(Err(error))) if refused(error.clone()).is_some() => {
                Asked::Busy(busy)
            }
            (Some(Ok(busy)), _) if obstacle.is_enough() => Asked::Busy(busy),
            (_, Some(Ok(false))) => Asked::Unknown,
            // The first one has left, and somebody else who is ahead has not.
            (Some(Err(RequestError::NoNode)), Some(Ok(true))) => Asked::Busy(busy_without_holder()),
            (Some(Err(error)), _) if error != RequestError::NoNode => failed(error),
            // Whoever has time asks once more who is first.
            (None, Some(Ok(true))) if clock.now() + times::LATE_HOLDER < until => Asked::Unknown,
            (None, Some(Ok(true))) => Asked::Busy(busy_without_holder()),
            (Some(Err(_)) | None, Some(Err(error))) => failed(error),
            (_, _) => Asked::Unknown,
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
            self.look_anew();
        }
    }

    /// Whoever is in the way is not known any more.
    pub fn forget(&self) {
        *self.0.obstacle.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Makes the attempt list the queue again.
    pub fn look_anew(&self) {
        self.0.anew.notify_waiters();
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

/// Somebody is ahead, of whom nothing more is known.
fn busy_without_holder() -> LockError {
    LockError::new(ErrorKind::Busy, "")
}
