//! The contender that is in the way, for the error of a busy lock.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::acquire::setback::refused;
use crate::base::error::{ErrorKind, Holder, LockError};
use crate::base::first::all;
use crate::base::mode::Mode;
use crate::coordinator::traits::RequestError;
use crate::layout::contender::Contender;
use crate::layout::driver::LockDriver;
use crate::layout::nested::is_other_lock;
use crate::name::path::name_of;
use crate::session::generation::Generation;

/// The contender that is in the way in ZooKeeper's queue, as the acquire loop last saw it.
#[derive(Clone, Debug)]
pub struct Obstacle {
    pub(crate) generation: Arc<Generation>,
    pub(crate) driver: Arc<dyn LockDriver>,
    pub(crate) head: Arc<str>,
    /// The mode in which the lock is acquired.
    pub(crate) mode: Mode,
    pub(crate) ahead: usize,
    /// Whether all who are ahead hold the lock, and nobody waits there.
    pub(crate) is_next: bool,
    /// Why the lock is unavailable although nobody holds it. The head is then the directory.
    pub(crate) unavailable: Option<Arc<str>>,
    /// Where to record that the head is not a contender.
    pub(crate) passed: Passed,
    /// Whether something has happened since: it may have left, and somebody else be in the way.
    pub(crate) is_old: bool,
}

/// The nodes that look like contenders, and are directories of other locks.
#[derive(Clone, Debug, Default)]
pub struct Passed(Arc<Mutex<Vec<String>>>);

impl Passed {
    /// Records a node by its path.
    pub(crate) fn add(&self, path: &str) {
        let mut passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !passed.iter().any(|known| known == name_of(path)) {
            passed.push(name_of(path).to_owned());
        }
    }

    /// The queue without the recorded nodes, if there are any.
    pub(crate) fn left_of(&self, queue: &[Contender]) -> Option<Vec<Contender>> {
        let passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_left = |contender: &&Contender| !passed.contains(&contender.name);
        (!passed.is_empty()).then(|| queue.iter().filter(is_left).cloned().collect())
    }
}

impl Obstacle {
    /// The generation in which it was seen.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// The same for a permit with this number of contenders ahead.
    pub fn instead(&self, driver: &Arc<dyn LockDriver>, path: &str, ahead: usize) -> Obstacle {
        let (generation, driver) = (self.generation.clone(), driver.clone());
        let (head, passed) = (path.into(), Passed::default());
        let (mode, is_next, unavailable, is_old) = (Mode::Permit, true, None, self.is_old);
        Obstacle { generation, driver, head, mode, ahead, is_next, unavailable, passed, is_old }
    }

    /// Asks ZooKeeper about the holder, with one read for all that ask at the same time. Returns the error
    /// of a busy lock.
    ///
    /// # Errors
    ///
    /// The error of the read; [`RequestError::NoNode`] if the holder released just now, or is not a
    /// contender.
    pub async fn ask(&self) -> Result<LockError, RequestError> {
        let (data, stat) = self.generation.read_together(&self.head).await?;
        if let Some(why) = &self.unavailable {
            return Ok(LockError::new(ErrorKind::Busy, &**why));
        }
        if is_other_lock(&*self.driver, self.mode, &stat) {
            self.passed.add(&self.head);
            return Err(RequestError::NoNode);
        }
        let node = name_of(&self.head).to_owned();
        let holder = Holder { owner: self.driver.owner(&node, &data), node, ahead: self.ahead };
        Ok(LockError::new(ErrorKind::Busy, "").held_by(Some(holder)))
    }

    /// Whether a holder lingers: the head, of which a busy lock was told, or another one of several.
    ///
    /// # Errors
    ///
    /// Those of [`ask`](Obstacle::ask).
    pub async fn does_linger(
        &self,
        busy: &LockError,
        paths: &[String],
    ) -> Result<bool, RequestError> {
        let lingers = |busy: &LockError| busy.holder().is_some_and(|holder| holder.owner.linger);
        let others = paths.iter().filter(|path| ***path != *self.head);
        if lingers(busy) || paths.len() < 2 {
            return Ok(lingers(busy));
        }
        let asked = others.map(|path| async {
            Obstacle { head: path.as_str().into(), ..self.clone() }.ask().await
        });
        Ok(all(asked).await?.iter().any(lingers))
    }

    /// The same for callers that only try. `None` if ZooKeeper did not say: the driver looks again, too.
    pub async fn ask_for_tries(&self) -> Option<LockError> {
        match self.ask().await {
            Ok(busy) => Some(busy),
            // The driver is ahead in any case.
            Err(RequestError::NoNode) => Some(LockError::new(ErrorKind::Busy, "")),
            Err(error) => refused(error),
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

    /// Asks who is in the way, as [`Obstacle::ask`]; `None` if nobody is known to be. If who was has left, the
    /// attempt lists the queue again: it may not be told, where an answer is lost, or wait behind somebody else.
    pub async fn ask(&self) -> Option<Result<LockError, RequestError>> {
        let asked = self.get()?.ask().await;
        if matches!(asked, Err(RequestError::NoNode)) {
            self.0.anew.notify_waiters();
            return None;
        }
        Some(asked)
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
