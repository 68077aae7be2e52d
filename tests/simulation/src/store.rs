//! The ensemble of a schedule, with what was done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ensemble::{Ensemble, Gone, Life, Tally};
use crate::executor::World;

/// There are no more locks than this.
pub(crate) const MOST_LOCKS: usize = 16;

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
    /// How many of them are sessions that were closed.
    closed: u64,
    /// The same, apart from answers that were swallowed; and when those were.
    hard: u64,
    forgotten: Vec<u64>,
    /// When anything else than a list or a notification was missing last.
    missed: u64,
    meddled: Option<u64>,
    /// The same, apart from what is not allowed any more.
    interfered: Option<u64>,
    /// When a notification was lost last.
    unheard: Option<u64>,
    /// Whether anything befell a server.
    servers: bool,
    /// Until when the world is disturbed, as far as that is known.
    until: u64,
    /// The same, as far as requests and their answers are concerned.
    unanswered: u64,
    tally: Tally,
}

/// What is looked at all the time.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// How many nodes are gone.
    pub deaths: u64,
    /// Since when every request was answered, whatever notifications were missing.
    pub unanswered: u64,
    /// How many faults there were.
    pub faults: u64,
    /// Whether a node was asked for without a connection.
    pub asked_while_down: bool,
    /// Whether one was asked for again and again.
    pub repeats: bool,
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
        done.unanswered = done.unanswered.max(done.until);
        done.hard = done.hard.max(done.until);
        done.missed = done.missed.max(done.until);
    }

    /// Notes that what goes wrong ends now, each in its own way, as far as there was any of it. That is no fault.
    pub fn ends(&self) {
        let now = self.world.now();
        let mut done = self.updated();
        let Done { until, unanswered, hard, missed, .. } = &mut *done;
        for at in [until, unanswered, hard, missed].into_iter().filter(|at| **at > 0) {
            *at = now.max(*at);
        }
    }

    /// Notes something that an outsider does: the network is as it was.
    pub fn meddle(&self) {
        self.refuses();
        self.lock().interfered = Some(self.world.now());
    }

    /// Notes that an outsider gives more to all who wait, at the end. That is no fault.
    pub fn gives_more(&self) {
        let now = self.world.now();
        let mut done = self.lock();
        (done.meddled, done.interfered) = (Some(now), Some(now));
    }

    /// Notes that something is not allowed any more: it is answered all the same.
    pub fn refuses(&self) {
        let now = self.world.now();
        let mut done = self.lock();
        done.faults += 1;
        done.meddled = Some(now);
    }

    /// Notes that a process closes its session.
    pub fn closes(&self) {
        self.meddle();
        self.lock().closed += 1;
    }

    /// Whether nothing went wrong but that sessions were closed.
    pub fn is_sound(&self) -> bool {
        self.faults() == self.lock().closed
    }

    /// When an outsider did something last.
    pub fn meddled_at(&self) -> Option<u64> {
        self.lock().meddled
    }

    /// Notes a fault of a server, which then perhaps counts sessions anew.
    pub fn strike_server(&self, until: u64) {
        self.lock().servers = true;
        self.disturb(until);
    }

    /// Whether anything ever befell a server.
    pub fn are_servers_struck(&self) -> bool {
        self.lock().servers
    }

    /// Since when nothing has disturbed the world, the future while something does; and how many
    /// nodes are gone.
    pub fn tally(&self) -> (u64, u64) {
        let done = self.updated();
        (done.until, done.tally.deaths)
    }

    /// What was done, up to now.
    fn updated(&self) -> MutexGuard<'_, Done> {
        let tally = self.ensemble.tally();
        let mut done = self.lock();
        if done.tally != tally {
            let old = std::mem::replace(&mut done.tally, tally);
            let now = self.world.now();
            if old.strikes != tally.strikes {
                done.until = done.until.max(now).max(tally.until);
            }
            if tally.strikes - old.strikes != tally.notices - old.notices {
                done.unanswered = done.unanswered.max(done.until);
            }
            let news = tally.lists - old.lists + tally.notices - old.notices;
            if tally.strikes - old.strikes != news {
                done.missed = done.missed.max(now).max(tally.until);
            }
            if tally.strikes - old.strikes != tally.forgets - old.forgets {
                done.hard = done.hard.max(now).max(tally.until);
            }
            if old.notices != tally.notices {
                done.unheard = Some(now);
            }
            done.forgotten.extend((old.forgets..tally.forgets).map(|_| now));
            if old.forbidden != tally.forbidden {
                done.faults += 1;
                done.meddled = Some(now);
            }
            if old.swept != tally.swept {
                done.faults += 1;
                (done.meddled, done.interfered) = (Some(now), Some(now));
            }
            if old.meddles != tally.meddles {
                (done.meddled, done.interfered) = (Some(now), Some(now));
                for lock in 0..MOST_LOCKS {
                    done.deleted.insert(lock, now);
                }
            }
        }
        done
    }

    /// What is looked at all the time.
    pub fn look(&self) -> Seen {
        let done = self.updated();
        Seen {
            deaths: done.tally.deaths,
            unanswered: done.unanswered,
            faults: done.faults + done.tally.strikes,
            asked_while_down: done.tally.asked_while_down,
            repeats: done.tally.repeats,
        }
    }

    /// Since when every request was answered, whatever notifications were missing.
    pub fn answered(&self) -> u64 {
        self.updated().unanswered
    }

    /// Whether an answer or a notification was ever swallowed.
    pub fn has_swallowed(&self) -> bool {
        let done = self.updated();
        done.unheard.is_some() || !done.forgotten.is_empty()
    }

    /// Whether nothing but answers was missing for so long.
    pub fn is_reached_for(&self, long: u64) -> bool {
        let hard = self.updated().hard;
        hard == 0 || hard + long <= self.world.now()
    }

    /// Whether a notification was lost in so long.
    pub fn is_one_unheard(&self, long: u64) -> bool {
        self.updated().unheard.is_some_and(|at| at + long > self.world.now())
    }

    /// Whether nothing ever went wrong but that answers and notifications were swallowed.
    pub fn only_forgot(&self) -> bool {
        let done = self.updated();
        done.faults == 0 && done.hard == 0
    }

    /// Whether nothing but one answer at most was missing for so long.
    pub fn lost_one_for(&self, long: u64) -> bool {
        self.lost_at_most(1, long)
    }

    /// Whether nothing but news was missing for so long: lists and notifications.
    pub fn only_news_for(&self, long: u64) -> bool {
        let (now, missed) = (self.world.now(), self.updated().missed);
        missed == 0 || missed + long <= now
    }

    /// Whether every answer came for so long.
    pub fn answers_for(&self, long: u64) -> bool {
        self.lost_at_most(0, long)
    }

    fn lost_at_most(&self, answers: usize, long: u64) -> bool {
        let (now, done) = (self.world.now(), self.updated());
        let lately = done.forgotten.iter().filter(|at| **at + long > now).count();
        let meddled = done.meddled.is_some_and(|at| at + long > now);
        (done.hard == 0 || done.hard + long <= now) && lately <= answers && !meddled
    }

    /// Whether every answer came for so long, whatever notifications were missing, and no outsider did anything but to
    /// forbid something.
    pub fn only_refused_for(&self, long: u64) -> bool {
        let (now, done) = (self.world.now(), self.updated());
        let interfered = done.interfered.is_some_and(|at| at + long > now);
        !interfered && (done.unanswered == 0 || done.unanswered + long <= now)
    }

    /// How many faults there were.
    pub fn faults(&self) -> u64 {
        self.lock().faults + self.ensemble.strikes()
    }

    /// Ends a session, as an administrator does.
    pub fn kill(&self, session: i64) {
        self.meddle();
        self.lock().killed.insert(session);
        self.ensemble.expire(session);
    }

    /// Whether somebody ended a session: its client may hear of it before its nodes are gone.
    pub fn is_killed(&self, session: i64) -> bool {
        self.lock().killed.contains(&session)
    }

    /// Notes that an outsider deletes a node of a lock now.
    pub fn deletes(&self, lock: usize) {
        let now = self.world.now();
        self.meddle();
        self.lock().deleted.insert(lock, now);
    }

    /// When an outsider deleted a node of a lock last.
    pub fn deleted_at(&self, lock: usize) -> Option<u64> {
        self.updated().deleted.get(&lock).copied()
    }

    /// The session that owns a node.
    pub fn owner_of(&self, path: &str, czxid: Option<i64>) -> i64 {
        self.life(path, czxid).map_or(0, |life| life.owner)
    }

    /// The life of a node, by its path and czxid. A reader that was a writer has the token of that one.
    fn life(&self, path: &str, czxid: Option<i64>) -> Option<Life> {
        let of_a_writer = || self.ensemble.life_beside(path, czxid?);
        self.ensemble.life(path, czxid).or_else(of_a_writer)
    }

    /// How a node ended, by its path and czxid.
    pub fn end_of(&self, path: &str, czxid: Option<i64>) -> Option<(u64, Ended)> {
        let life = self.life(path, czxid)?;
        let (at, gone) = life.gone?;
        let ended = match gone {
            Gone::SessionEnded | Gone::SessionClosed => {
                let killed = self.lock().killed.contains(&life.owner);
                if killed { Ended::ByOthers } else { Ended::Expired }
            }
            Gone::Deleted { by } if by == life.owner => Ended::BySelf,
            Gone::Deleted { .. } | Gone::Reaped | Gone::Outsider => Ended::ByOthers,
        };
        Some((at, ended))
    }

    /// Whether a node went because its session was closed by who had it, by its path and czxid.
    pub fn was_closed(&self, path: &str, czxid: Option<i64>) -> bool {
        let gone = self.life(path, czxid).and_then(|life| life.gone);
        matches!(gone, Some((_, Gone::SessionClosed)))
    }
}
