//! The ensemble of a schedule, with what was done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ensemble::{Ensemble, Gone};
use crate::executor::World;

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its session expired, or was closed by who had it.
    Expired,
    /// Its own session deleted it.
    BySelf,
    /// Somebody else deleted it, or ended its session.
    ByOthers,
}

#[derive(Debug, Default)]
struct Done {
    /// The sessions that somebody ended.
    killed: BTreeSet<i64>,
    /// When an outsider deleted a node of a lock last.
    deleted: BTreeMap<usize, u64>,
    faults: u64,
    /// Until when the world is disturbed, as far as that is known.
    until: u64,
    strikes: u64,
}

/// The ensemble, with what was done to it.
#[derive(Debug)]
pub struct Store {
    world: Arc<World>,
    ensemble: Ensemble,
    done: Mutex<Done>,
}

impl Store {
    /// Nothing was done yet.
    pub fn new(world: &Arc<World>, ensemble: Ensemble) -> Arc<Self> {
        Arc::new(Store { world: world.clone(), ensemble, done: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ensemble.
    pub fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    /// Notes a fault that lasts until a moment.
    pub fn disturb(&self, until: u64) {
        let mut done = self.lock();
        done.faults += 1;
        done.until = done.until.max(until).max(self.world.now());
    }

    /// Since when nothing has disturbed the world, the future while something does; and how many
    /// nodes are gone.
    pub fn tally(&self) -> (u64, u64) {
        let (strikes, deaths) = self.ensemble.tally();
        let mut done = self.lock();
        if std::mem::replace(&mut done.strikes, strikes) != strikes {
            done.until = done.until.max(self.world.now());
        }
        (done.until, deaths)
    }

    /// How many faults there were.
    pub fn faults(&self) -> u64 {
        self.lock().faults + self.ensemble.strikes()
    }

    /// Ends a session, as an administrator does.
    pub fn kill(&self, session: i64) {
        self.disturb(0);
        self.lock().killed.insert(session);
        self.ensemble.expire(session);
    }

    /// Notes that an outsider deletes a node of a lock now.
    pub fn deletes(&self, lock: usize) {
        let now = self.world.now();
        self.lock().deleted.insert(lock, now);
    }

    /// When an outsider deleted a node of a lock last.
    pub fn deleted_at(&self, lock: usize) -> Option<u64> {
        self.lock().deleted.get(&lock).copied()
    }

    /// How a node ended, by its path and czxid.
    pub fn end_of(&self, path: &str, czxid: Option<i64>) -> Option<(u64, Ended)> {
        let life = self.ensemble.life(path, czxid)?;
        let (at, gone) = life.gone?;
        let ended = match gone {
            Gone::SessionEnded if self.lock().killed.contains(&life.owner) => Ended::ByOthers,
            Gone::SessionEnded => Ended::Expired,
            Gone::Deleted { by } if by == life.owner => Ended::BySelf,
            Gone::Deleted { .. } | Gone::Reaped | Gone::Outsider => Ended::ByOthers,
        };
        Some((at, ended))
    }
}
