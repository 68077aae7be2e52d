//! A name that some take for one kind of lock and others for another, or with another limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use zklock_core::base::error::LockError;

use super::asking::{LONG, NOTICE};
use super::grants::UNDER_WAY;
use super::ledger::{Entry, Ledger};
use crate::executor::{Process, ProcessId};
use crate::workload::Layout;

/// How many tasks of a process have handles of a lock, or use it, and when each one ended last, by its name.
pub(super) type Uses = BTreeMap<(usize, ProcessId), (u32, BTreeMap<String, u64>)>;

/// A task uses a lock, until this is dropped.
#[derive(Debug)]
pub struct Using {
    ledger: Arc<Ledger>,
    key: (usize, ProcessId),
    who: String,
}

impl Drop for Using {
    fn drop(&mut self) {
        let now = self.ledger.world.now();
        if let Some((many, ended)) = self.ledger.lock().uses.get_mut(&self.key) {
            *many -= 1;
            ended.insert(std::mem::take(&mut self.who), now);
        }
    }
}

impl Ledger {
    /// Notes that a task uses a lock.
    pub fn uses(self: &Arc<Self>, who: &str, lock: usize, process: &Process) -> Using {
        let key = (lock, process.id());
        self.lock().uses.entry(key).or_default().0 += 1;
        Using { ledger: self.clone(), key, who: who.to_owned() }
    }

    /// Whether another task of a process has used a lock since then.
    fn is_used_here(&self, lock: usize, process: &Process, since: u64) -> bool {
        let state = self.lock();
        let used = state.uses.get(&(lock, process.id()));
        used.is_some_and(|(many, ended)| *many > 1 || ended.values().any(|at| *at >= since))
    }

    /// Whether more tasks of a process than so many use a lock, or another one than this did until a moment ago: what
    /// it left to be done may go on.
    pub fn is_used_by_others(&self, who: &str, lock: usize, process: &Process, mine: u32) -> bool {
        let (state, now) = (self.lock(), self.world.now());
        let Some((many, ended)) = state.uses.get(&(lock, process.id())) else { return false };
        let mut others = ended.iter().filter(|(other, _)| *other != who);
        *many > mine || others.any(|(_, at)| at + LONG > now)
    }

    /// Somebody was refused a handle: only what this process itself does can be in the way.
    pub fn check_handle(&self, who: &str, lock: usize, process: &Process, error: &LockError) {
        if !self.is_used_here(lock, process, self.world.now()) {
            let what = format!("{who}: nobody else uses {}: {error}", self.plans[lock].name);
            self.fail(super::MIXED, what);
        }
    }

    /// Somebody was told that its process uses the layout with another identifier: nobody does who let go of it, even if
    /// that was just now.
    pub fn check_identifier(&self, who: &str, lock: usize, process: &Process, error: &LockError) {
        if !self.is_used_here(lock, process, self.world.now() + 1) {
            let what = format!("{who}: nobody else uses {}: {error}", self.plans[lock].name);
            self.fail(super::MIXED, what);
        }
    }

    /// Somebody was told, since then, that a name is used in another way.
    pub(super) fn check_used(&self, who: &str, lock: usize, process: &Process, since: u64) {
        let plan = &self.plans[lock];
        if plan.has_permits() && plan.layout == Layout::Kazoo {
            // The limit is in ZooKeeper, and stays there.
            return;
        }
        let ensemble = self.store.ensemble();
        let under_way = if ensemble.size() > 1 { UNDER_WAY } else { 0 };
        let (here, name) = (self.is_used_here(lock, process, since), plan.name);
        let below = format!("/zklock/{name}");
        let before = since.saturating_sub(NOTICE + under_way);
        let elsewhere = ensemble.used_elsewhere(&below, before, process);
        // Where a server died, a deletion may be lost: then its own node is there until its session ends.
        let left = self.store.are_servers_struck() && ensemble.contended(&below, before, process);
        if !here && !elsewhere && !left {
            self.fail(super::MIXED, format!("{who}: nobody uses {name} as another kind"));
        }
    }

    /// Somebody got a permit of kazoo's, with this limit.
    pub fn check_limit(&self, who: &str, process: &Process, lock: usize, limit: u32) {
        // Who may not write there and finds nothing has nothing to compare: others may write later.
        let path = self.plans[lock].directory();
        if self.store.ensemble().has_left_empty(&path, process) {
            return;
        }
        let first = *self.lock().limits.entry(lock).or_insert(limit);
        // With the directory, the limit goes.
        if first != limit && self.store.deleted_at(lock).is_none() {
            let what = format!("{who} has a permit of {limit}, another one had one of {first}");
            self.fail(super::ONE_LIMIT, what);
        }
    }

    /// A process never uses a name as two kinds of lock at a time; and of two who come at a time, the one
    /// whose node is later sees the other.
    pub(super) fn check_kinds(&self, who: &str, entry: &Entry, path: &str) {
        let (now, here) = (self.world.now(), entry.process.id());
        let is_mutex = |share: (u32, u32)| share.0 == share.1;
        let state = self.lock();
        let others = state.held.values().filter(|held| {
            held.entry.lock == entry.lock
                && is_mutex(held.entry.share) != is_mutex(entry.share)
                && held.lost.is_none()
                && held.gone.is_none()
                && held.entry.view.is_valid()
        });
        // A follower may not show it yet.
        let ensemble = self.store.ensemble();
        let under_way = if ensemble.size() > 1 { UNDER_WAY } else { 0 };
        // What may not be read when a node was made shows nobody, and whoever has the node does not look again.
        let unread = |process: &Process, (path, czxid): (&str, u64), other: &str| {
            let born = ensemble.life(path, Some(czxid as i64)).map_or(0, |life| life.born);
            ensemble.may_not_read_since(born, process, other)
        };
        let mine = (path, entry.view.fencing_token().czxid());
        let (mut near, mut far) = (false, false);
        for held in others {
            near |= held.entry.process.id() == here;
            let theirs = (held.path.as_str(), held.token.czxid());
            let has_read = !unread(&held.entry.process, theirs, path)
                && !unread(&entry.process, mine, &held.path);
            far |= now >= held.since + under_way && has_read;
        }
        drop(state);
        if near || far && self.quiet_for(self.timeout) {
            self.fail(super::MIXED, format!("{who} got {path} beside a lock of another kind"));
        }
    }
}
