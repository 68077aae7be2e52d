//! What is wrong with locks, for all who ask: a few questions at a time, and one for each lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, Semaphore};
use tokio::time::{Instant, timeout};

use crate::serve::detached::detached;
use crate::server::Again;
use crate::why::known;

/// How long the servers may take to answer, and how long an answer is given to others.
const WITHIN: Duration = Duration::from_secs(2);
/// So many questions are asked at the same time: each opens a session at every server.
const AT_ONCE: usize = 4;
/// Whoever waits so long for others is told so. Together with the question it is less than browsers wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// An answer, and when it was given.
type Answer = Arc<Turn<Option<(Instant, Result<String, String>)>>>;

/// What was asked of late.
#[derive(Debug)]
pub(super) struct Whys {
    again: Again,
    room: Arc<Semaphore>,
    answers: Mutex<HashMap<String, Answer>>,
}

impl Whys {
    pub(super) fn new(again: Again) -> Self {
        Whys { again, room: Arc::new(Semaphore::new(AT_ONCE)), answers: Mutex::default() }
    }

    /// Returns what `zklock why` says about a lock, as JSON. Fails with what is in the way.
    pub(super) async fn ask(&self, name: &str) -> Result<String, String> {
        let answer = self.answer(name);
        let turn = timeout(PATIENCE, async {
            let answer = answer.lock_owned().await;
            let is_new = |known: &(Instant, _)| known.0.elapsed() < WITHIN;
            match answer.as_ref().filter(|known| is_new(known)) {
                Some((_, known)) => Err(known.clone()),
                // It is never closed.
                None => Ok((answer, self.room.clone().acquire_owned().await.ok())),
            }
        });
        let (mut answer, room) = match turn.await {
            Ok(Ok(turn)) => turn,
            Ok(Err(known)) => return known,
            Err(_) => {
                // It may be one question about the same lock, or many about others.
                let slow = "ZooKeeper is slow to answer what others have asked: ask again";
                return Err(slow.to_owned());
            }
        };
        let (name, again) = (name.to_owned(), self.again.clone());
        // Whoever asks may leave before the servers have answered: until then there is no room for another question.
        let asking = detached(async move {
            let known = known(&name, WITHIN, &again, true).await;
            let known = known.map(|known| known.says).map_err(|failure| failure.message);
            *answer = Some((Instant::now(), known.clone()));
            drop(room);
            known
        });
        asking.await
    }

    fn answer(&self, name: &str) -> Answer {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |answer: &Answer| {
            let known = answer.try_lock();
            known.is_ok_and(|known| known.as_ref().is_some_and(|known| known.0.elapsed() < WITHIN))
        };
        // What is old, unless somebody waits for it.
        answers.retain(|_, answer| Arc::strong_count(answer) > 1 || is_recent(answer));
        answers.entry(name.to_owned()).or_default().clone()
    }
}
