//! Locks that are free, and that somebody waits for.

use zklock_core::base::error::LockError;
use zklock_simulator::ensemble::Life;

use super::Rule;
use super::asking::{Ask, LONG, LONG_WAIT};
use super::grants::UNDER_WAY;
use super::ledger::{Held, Ledger, State};
use crate::store::Ended;
use crate::workload::{Family, Layout, LockPlan};

/// How often it is looked at whether there is room for permits, in microseconds.
const LOOK: u64 = 100_000;

impl Ledger {
    /// What somebody waits for and nobody has, where nothing has gone wrong.
    pub(super) fn left_free(&self, state: &State, now: u64, faults: u64) -> Option<(Rule, String)> {
        // Most have not waited for so long.
        let waits_for = |long: u64| state.asks.values().any(|ask| ask.waits_for(long, now));
        if !waits_for(LONG) {
            return None;
        }
        if faults == 0 {
            let free = self.free_for(state, now, LONG, |_| true)?;
            return Some((super::FREE, format!("{free} is free for {LONG} µs")));
        }
        // After a sixth, and again after twice as long.
        let long = LONG + self.timeout / 3;
        let alone = waits_for(long)
            && self.store.only_forgot()
            && self.store.lost_one_for(long + self.timeout)
            && !self.store.is_one_unheard(long + self.timeout.max(LONG_WAIT));
        if !alone {
            return None;
        }
        let free = self.free_for(state, now, long, |_| true)?;
        Some((super::ANSWERS, format!("{free} is free for {long} µs")))
    }

    /// A lock that somebody waits for and that nobody has had for so long.
    pub(super) fn free_for(
        &self,
        state: &State,
        now: u64,
        long: u64,
        is_served: impl Fn(&Ask) -> bool,
    ) -> Option<&'static str> {
        let since = now.saturating_sub(long);
        let is_free = |lock: usize| {
            let plan = &self.plans[lock];
            !plan.rests()
                && !plan.lingers
                && !plan.confused
                && state.let_go.get(&lock).is_none_or(|at| at + long <= now)
                && !state.held.values().any(|held| held.entry.lock == lock)
                && !state.asks.values().any(|ask| ask.may_hold && ask.lock == lock)
                && !self.has_locks_below(plan)
                && !self.store.ensemble().was_contended_since(&plan.queue(), since)
        };
        let mut waits = state.asks.values().filter(|ask| {
            ask.waits_for(long, now)
                && !state.closing.contains(&ask.process.id())
                && is_free(ask.lock)
                && is_served(ask)
        });
        waits.next().map(|ask| self.plans[ask.lock].name)
    }

    /// Somebody waits in the process of a holder that was told that another deleted its node, and does not queue up.
    pub(super) fn left_waiting(&self, state: &State, now: u64) -> Option<(Rule, String)> {
        let ensemble = self.store.ensemble();
        let is_left = |held: &Held| {
            let (lock, process) = (held.entry.lock, &held.entry.process);
            let plan = &self.plans[lock];
            let (Some((at, Ended::ByOthers)), Some(told)) = (held.gone, held.lost) else {
                return false;
            };
            // Who waits for the only node has none.
            let queues = plan.layout != Layout::OneNode && !plan.has_permits() && !plan.mixed;
            let since = at.saturating_sub(self.timeout);
            let waits = |ask: &Ask| {
                let here = ask.lock == lock && ask.process.id() == process.id();
                here && !ask.may_hold && ask.since < at && ask.until > now
            };
            told.max(at) + UNDER_WAY < now
                && queues
                && !plan.rests()
                && process.is_alive()
                && !process.is_paused()
                && !state.closing.contains(&process.id())
                && state.asks.values().any(waits)
                && self.hears_at_once(held, (at, self.store.answered()))
                && self.calm_for(now - since)
                // That was the last that happened to its nodes.
                && self.store.meddled_at().is_none_or(|meddled| meddled <= at)
                && !ensemble.refused_since(since, process)
                && !self.shows_strays(plan, since, process)
                && ensemble.made_since(&plan.queue(), 0, process).is_empty()
        };
        let held = state.held.values().find(|held| is_left(held))?;
        Some((super::NEXT, format!("{} is gone, and nobody there queues up", held.path)))
    }

    /// Permits that somebody waits for, while there is room for all who have nodes.
    pub(super) fn room_left(&self, state: &mut State, now: u64) -> Option<(Rule, String)> {
        if now < state.looked_for_room + LOOK {
            return None;
        }
        state.looked_for_room = now;
        let long = |at: Option<&u64>| at.is_none_or(|at| at + LONG <= now);
        for (lock, plan) in self.plans.iter().enumerate() {
            if !plan.has_permits() || !self.has_room(plan) {
                state.room.remove(&lock);
            } else {
                state.room.entry(lock).or_insert(now);
            }
        }
        let waits = |lock: usize| {
            let mut asks = state.asks.values().filter(|ask| ask.lock == lock && !ask.may_hold);
            asks.any(|ask| {
                let waits = ask.until > now && ask.since + LONG <= now;
                waits && !ask.process.is_paused() && !state.closing.contains(&ask.process.id())
            })
        };
        // Whoever has kazoo's inner lock and is shown a node that nobody has keeps all others out, until its
        // server is left.
        let is_misled = |lock: usize, plan: &LockPlan| {
            if plan.layout != Layout::Kazoo {
                return false;
            }
            let mut asks = state.asks.values().filter(|ask| ask.lock == lock);
            asks.any(|ask| self.shows_strays(plan, ask.since, &ask.process))
        };
        let is_left = |lock: usize, plan: &LockPlan| {
            plan.has_permits()
                && !plan.confused
                && long(state.let_go.get(&lock))
                && long(state.granted.get(&lock))
                // Another program waits for its turn, and makes no use of it.
                && !self.store.ensemble().was_contended_since(&plan.queue(), now.saturating_sub(LONG))
                && waits(lock)
                && state.room.get(&lock).is_some_and(|at| at + LONG <= now)
                && !is_misled(lock, plan)
        };
        let mut plans = self.plans.iter().enumerate();
        let (_, plan) = plans.find(|(lock, plan)| is_left(*lock, plan))?;
        // What was lost on the way goes with its session.
        let what = || format!("there has been room in {} for {LONG} µs", plan.name);
        // A server that is started again gives all sessions their time once more.
        let all_heard = !self.store.has_swallowed()
            && !self.store.are_servers_struck()
            && self.quiet_for(LONG + self.timeout);
        all_heard.then(|| (super::RAISED, what()))
    }

    /// Whether there are directories of other locks in that of a lock. While one is new and has had no
    /// contender, it looks like one.
    pub(super) fn has_locks_below(&self, plan: &LockPlan) -> bool {
        let below = || format!("/zklock/{}/", plan.name);
        !plan.has_permits() && self.store.ensemble().has_lasting(&below())
    }

    /// Whether there have been such directories since then.
    pub(super) fn had_locks_below(&self, plan: &LockPlan, since: u64) -> bool {
        let (ensemble, below) = (self.store.ensemble(), format!("/zklock/{}/", plan.name));
        let was_there = |life: &Life| {
            let there = life.gone.is_none_or(|(at, _)| at >= since);
            life.owner == 0 && there && life.path.starts_with(&below)
        };
        !plan.has_permits() && ensemble.lives().iter().any(was_there)
    }

    /// The directory of another lock that somebody is told to delete, if nobody has ever used it. It
    /// cannot be told from a contender that stays, so who has no time limit gets this answer as well.
    pub fn unused_directory(&self, plan: &LockPlan, error: &LockError) -> Option<String> {
        let holder = error.holder().filter(|_| error.is_busy())?;
        let path = format!("{}/{}", plan.directory(), holder.node);
        let (ensemble, below) = (self.store.ensemble(), format!("{path}/"));
        let stays = ensemble.life(&path, None).is_some_and(|life| life.owner == 0);
        let is_used = ensemble.lives().iter().any(|life| life.path.starts_with(&below));
        (stays && !is_used).then_some(path)
    }

    /// Whether all permits for which there are nodes can be held at a time.
    fn has_room(&self, plan: &LockPlan) -> bool {
        let (ensemble, Family::Permits(limit)) = (self.store.ensemble(), plan.family) else {
            return false;
        };
        let data =
            plan.limited_at.then(|| ensemble.data(&format!("/zklock/{}", plan.limit_node())));
        let number = |data: Vec<u8>| data.try_into().map_or(0, u32::from_be_bytes);
        let limit = data.map_or(limit, |data| data.map_or(0, number));
        let nodes = ensemble.ephemerals(&format!("{}/", plan.directory())).len();
        match plan.layout {
            // Nodes are made only where there is room.
            Layout::Kazoo => nodes == 0,
            _ => nodes <= limit as usize,
        }
    }
}
