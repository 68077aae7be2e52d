//! Who holds what, and whether that can be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zklock_core::base::token::FencingToken;
use zklock_core::guard::view::GuardView;

use super::Rule;
use crate::executor::{Process, World};
use crate::store::{Ended, Store};

/// A rule that does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// What was seen.
    pub what: String,
}

/// A guard that somebody has.
#[derive(Debug)]
pub struct Entry {
    /// The number of the lock.
    pub lock: usize,
    /// How much of the lock it takes, and how much there is.
    pub share: (u32, u32),
    /// Who has it.
    pub process: Process,
    /// The guard.
    pub view: GuardView,
    /// Whether the lock is a semaphore.
    pub lock_has_permits: bool,
    /// Whether its node has the token's czxid. That of a downgraded guard does not.
    pub of_token: bool,
}

impl Entry {
    /// Whether it has more nodes than the one that its view tells of: those of several permits.
    fn has_other_nodes(&self) -> bool {
        self.lock_has_permits && self.share.0 > 1
    }
}

#[derive(Debug)]
struct Held {
    entry: Entry,
    path: String,
    token: FencingToken,
    since: u64,
    /// Since when it is not valid.
    lost: Option<u64>,
    /// Whether somebody waits for `lost()`.
    awaited: bool,
    /// How its node ended, as far as it was known when so many nodes were gone.
    gone: Option<(u64, Ended)>,
    deaths: u64,
}

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<u64, Held>,
    next: u64,
    greatest: BTreeMap<usize, FencingToken>,
    violation: Option<Violation>,
    grants: u64,
    refusals: u64,
}

/// Who holds what.
#[derive(Debug)]
pub struct Ledger {
    world: Arc<World>,
    store: Arc<Store>,
    /// The session timeout, in microseconds.
    timeout: u64,
    state: Mutex<State>,
}

impl Ledger {
    /// Nobody holds anything.
    pub fn new(world: &Arc<World>, store: &Arc<Store>, timeout: u64) -> Self {
        let (world, store) = (world.clone(), store.clone());
        Ledger { world, store, timeout, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a rule does not hold. The first counts.
    pub fn fail(&self, rule: Rule, what: impl Into<String>) {
        let (what, mut state) = (what.into(), self.lock());
        if state.violation.is_none() {
            self.world.say(|| format!("VIOLATION of {}: {what}", rule.name));
            state.violation = Some(Violation { rule, what });
        }
    }

    /// What does not hold.
    pub fn violation(&self) -> Option<Violation> {
        self.lock().violation.clone()
    }

    /// How many grants and refusals there were.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.grants, state.refusals)
    }

    /// Notes that somebody was refused.
    pub fn refused(&self) {
        self.lock().refusals += 1;
    }

    /// Whether nothing disturbed the world for so long.
    pub fn calm_for(&self, long: u64) -> bool {
        self.store.tally().0 + long <= self.world.now()
    }

    /// Notes a grant; the answer takes it back.
    pub fn granted(self: &Arc<Self>, who: &str, entry: Entry) -> Holding {
        let (now, token) = (self.world.now(), entry.view.fencing_token());
        let path = entry.view.path().to_owned();
        let valid = entry.view.is_valid();
        self.world.say(|| {
            let valid = if valid { "" } else { ", which is lost already" };
            format!("{who}: has {path}, token {token}{valid}")
        });
        let gone = self.gone(&entry, &path, token);
        let (exclusive, lock) = (entry.share.0 == entry.share.1, entry.lock);
        let calm = self.calm_for(self.timeout);
        if !valid && calm && gone.is_none() {
            self.fail(super::VALID, format!("{who} got {path}, which was not valid"));
        }
        let mut state = self.lock();
        state.grants += 1;
        state.next += 1;
        let id = state.next;
        let greatest = state.greatest.get(&lock).copied();
        let old = greatest.filter(|old| valid && gone.is_none() && *old >= token && entry.of_token);
        if valid && gone.is_none() && exclusive {
            state.greatest.insert(lock, token);
        }
        let held =
            Held { entry, path, token, since: now, lost: None, awaited: false, gone, deaths: 0 };
        state.held.insert(id, held);
        drop(state);
        self.world.note(&[id, token.czxid()]);
        if let Some(old) = old {
            self.fail(super::TOKENS, format!("{who} got {token} after {old}"));
        }
        Holding { ledger: self.clone(), id }
    }

    /// How the node of a guard ended.
    fn gone(&self, entry: &Entry, path: &str, token: FencingToken) -> Option<(u64, Ended)> {
        let czxid = entry.of_token.then(|| token.czxid() as i64);
        self.store.end_of(path, czxid)
    }

    /// Looks at everything; called between any two steps.
    pub fn check(&self) {
        let (disturbed, deaths) = self.store.tally();
        let now = self.world.now();
        let mut state = self.lock();
        if state.held.is_empty() || state.violation.is_some() {
            return;
        }
        let most_late = self.timeout;
        let mut found = None;
        let mut taken: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
        for held in state.held.values_mut() {
            // Who stands still does nothing.
            if held.entry.process.is_paused() || !held.entry.process.is_alive() {
                continue;
            }
            let valid = held.entry.view.is_valid();
            match (valid, held.lost) {
                (true, Some(_)) => {
                    found = Some((super::FOR_GOOD, format!("{} is valid again", held.path)));
                }
                (false, None) => held.lost = Some(now),
                _ => {}
            }
            if let Some(lost) = held.lost
                && held.awaited
                && now > lost + 50_000
            {
                found = Some((super::LOST, format!("{}: {} µs late", held.path, now - lost)));
            }
            if !valid {
                continue;
            }
            if std::mem::replace(&mut held.deaths, deaths) != deaths && held.gone.is_none() {
                held.gone = self.gone(&held.entry, &held.path, held.token);
            }
            match held.gone {
                // Of several permits one node is known here, and another may be the one that is gone.
                None if held.entry.has_other_nodes()
                    && self
                        .store
                        .deleted_at(held.entry.lock)
                        .is_some_and(|at| now < at + most_late) => {}
                None => {
                    let taken = taken.entry(held.entry.lock).or_default();
                    taken.0 += held.entry.share.0;
                    taken.1 = held.entry.share.1;
                }
                Some((at, Ended::Expired)) => {
                    let what = format!("{}: its session expired {} µs ago", held.path, now - at);
                    found = Some((super::IN_TIME, what));
                }
                Some((_, Ended::BySelf)) => {
                    let what = format!("{}: its own session deleted it", held.path);
                    found = Some((super::TOLD, what));
                }
                Some((at, Ended::ByOthers)) => {
                    // A heartbeat and its answer; with trouble on the way, no longer than a lease.
                    let calm = disturbed + self.timeout < at;
                    let most = if calm { self.timeout / 6 + 100_000 } else { self.timeout };
                    let since = at.max(held.since);
                    if now > since + most {
                        let what = format!("{}: gone for {} ms", held.path, (now - at) / 1_000);
                        found = Some((super::TOLD, what));
                    }
                }
            }
        }
        drop(state);
        let over = taken.iter().find(|(_, (taken, room))| taken > room);
        if let Some((lock, (taken, room))) = over {
            let what = format!("lock {lock}: {taken} of {room} are taken");
            self.fail(super::EXCLUSION, what);
        }
        if let Some((rule, what)) = found {
            self.fail(rule, what);
        }
    }

    /// Forgets everything, so that what is held can go.
    pub fn clear(&self) {
        let held = std::mem::take(&mut self.lock().held);
        drop(held);
    }
}

/// Somebody holds. Dropped before the guard is let go of.
#[derive(Debug)]
pub struct Holding {
    ledger: Arc<Ledger>,
    id: u64,
}

impl Holding {
    /// Says that somebody waits for `lost()` from now on.
    pub fn awaits(&self) {
        if let Some(held) = self.ledger.lock().held.get_mut(&self.id) {
            held.awaited = true;
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let held = self.ledger.lock().held.remove(&self.id);
        drop(held);
    }
}
