//! The contender that is in the way, for the error of a busy lock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::acquire::setback::refused;
use crate::base::error::{Holder, LockError};
use crate::base::error_kind::ErrorKind;
use crate::base::first::all;
use crate::base::mode::Mode;
use crate::base::owner::wall_clock;
use crate::cooldown::mark::Mark;
use crate::coordinator::request_error::RequestError;
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
    /// Whether the lock keeps marks, by which the head may only rest.
    pub(crate) marks: bool,
    /// What the attempt waits for, which need not be the head.
    pub(crate) blocked: Blocked,
    /// Where to record that the head is not a contender.
    pub(crate) passed: Passed,
    /// Whether something has happened since: it may have left, and somebody else be in the way.
    pub(crate) is_old: bool,
}

/// What an attempt waits for, as it last saw it.
#[derive(Clone, Debug)]
pub(crate) enum Blocked {
    /// Until one of these nodes is deleted.
    By(Arc<[String]>),
    /// While there are so many contenders, its own node among them if it has one.
    WhileThere(usize),
}

impl Blocked {
    /// Until this node is deleted.
    pub(crate) fn by(path: &str) -> Blocked {
        Blocked::By(Arc::from([path.to_owned()]))
    }
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

    /// This contender is first, with so many ahead of who acquires the lock in this mode.
    pub(crate) fn new(
        generation: &Arc<Generation>,
        driver: &Arc<dyn LockDriver>,
        head: &str,
        (mode, ahead): (Mode, usize),
        blocked: Blocked,
    ) -> Obstacle {
        Obstacle {
            generation: generation.clone(),
            driver: driver.clone(),
            head: head.into(),
            mode,
            ahead,
            is_next: ahead == 1,
            unavailable: None,
            marks: false,
            blocked,
            passed: Passed::default(),
            is_old: false,
        }
    }

    /// The same for a permit with this number of contenders ahead.
    pub fn instead(&self, driver: &Arc<dyn LockDriver>, path: &str, ahead: usize) -> Obstacle {
        Obstacle::new(&self.generation, driver, path, (Mode::Permit, ahead), Blocked::by(path))
    }

    /// The nodes of which one is to be deleted, if it waits for that.
    pub(crate) fn paths(&self) -> &[String] {
        match &self.blocked {
            Blocked::By(paths) => paths,
            Blocked::WhileThere(_) => &[],
        }
    }

    /// Asks ZooKeeper about the holder, with one read for all that ask at the same time, and another one of the
    /// mark, if the lock keeps marks. Returns the error of a busy lock.
    ///
    /// # Errors
    ///
    /// The error of the read; [`RequestError::NoNode`] if the holder released just now, or is not a
    /// contender.
    pub async fn ask(&self) -> Result<LockError, RequestError> {
        let has_head = self.unavailable.is_none();
        let marked =
            (self.marks && has_head).then(|| self.generation.read_together(self.directory()));
        let (data, stat) = self.generation.read_together(&self.head).await?;
        if let Some(why) = &self.unavailable {
            return Ok(LockError::new(ErrorKind::Busy, &**why));
        }
        if is_other_lock(&*self.driver, self.mode, &stat) {
            self.passed.add(&self.head);
            return Err(RequestError::NoNode);
        }
        let node = name_of(&self.head).to_owned();
        let owner = self.driver.owner(&node, &data);
        if let Some(marked) = marked
            && let Some(mark) = Mark::read(&marked.await?.0)
            && mark.rests(stat.czxid.cast_unsigned(), &owner, self.wall_clock())
        {
            return Ok(LockError::new(ErrorKind::Busy, mark.reason()));
        }
        let holder = Holder { owner, node, ahead: self.ahead };
        Ok(LockError::new(ErrorKind::Busy, "").held_by(Some(holder)))
    }

    fn directory(&self) -> &str {
        self.head.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    fn wall_clock(&self) -> SystemTime {
        wall_clock(self.generation.lease().clock().machine())
    }

    /// Whether what the attempt waits for has not happened yet.
    ///
    /// # Errors
    ///
    /// The error of the read.
    pub(crate) async fn is_blocked(&self) -> Result<bool, RequestError> {
        if let [path] = self.paths() {
            return match self.ask_about(path).await {
                Err(RequestError::NoNode) => Ok(false),
                asked => asked.map(|_| true),
            };
        }
        let queue = match self.generation.list_together(self.directory(), &self.driver).await {
            Err(RequestError::NoNode) => return Ok(false),
            listed => &listed?.queue,
        };
        Ok(match &self.blocked {
            Blocked::By(paths) => {
                paths.iter().all(|path| queue.iter().any(|one| one.name == name_of(path)))
            }
            Blocked::WhileThere(least) => queue.len() >= *least,
        })
    }

    /// Whether the first one alone keeps the lock from whoever waits for it.
    pub(crate) fn is_enough(&self) -> bool {
        let most = self.driver.most();
        let alone = match self.mode {
            // A driver that wraps another one need not say how many hold the lock.
            Mode::Mutex | Mode::Write => most.is_none_or(|most| most == 1),
            Mode::Permit => most == Some(1),
            Mode::Read => false,
        };
        alone && self.paths().len() < 2
    }

    /// Asks about another contender.
    async fn ask_about(&self, path: &str) -> Result<LockError, RequestError> {
        Obstacle { head: path.into(), ..self.clone() }.ask().await
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
        let asked = others.map(|path| self.ask_about(path));
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
