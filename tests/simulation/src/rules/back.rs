//! Locks that are free, and that somebody waits for whose connection is there again.

use zklock_simulator::ensemble::Life;

use super::Rule;
use super::asking::{Ask, LONG, LONG_WAIT};
use super::ledger::{Ledger, State};

/// How often it is looked at, in microseconds.
const LOOK: u64 = 50_000;

impl Ledger {
    /// Somebody waits for a lock that nobody has or asks ZooKeeper for, and its process has been connected for long.
    pub(super) fn left_free_since_back(
        &self,
        state: &mut State,
        now: u64,
    ) -> Option<(Rule, String)> {
        if now < state.looked_back + LOOK {
            return None;
        }
        state.looked_back = now;
        let ensemble = self.store.ensemble();
        let leads = ensemble.leader().is_some();
        let mut seen = Vec::new();
        for ask in state.asks.values() {
            // Several of a process are connected alike.
            if seen.contains(&ask.process.id()) {
                continue;
            }
            seen.push(ask.process.id());
            let sessions = ensemble.sessions_of(&ask.process);
            let is_up = |session: i64| ensemble.has_client(session) && !ensemble.is_down(session);
            let is_up = leads && sessions.into_iter().any(is_up);
            if is_up && !ask.process.is_paused() {
                state.back.entry(ask.process.id()).or_insert(now);
            } else {
                state.back.remove(&ask.process.id());
            }
        }
        let long = LONG + self.timeout / 3;
        // Who misses a notification looks again after a long wait.
        let unheard = self.store.is_one_unheard(long + self.timeout.max(LONG_WAIT));
        if unheard || ensemble.differs() || !self.quiet_for(long) || !self.store.answers_for(long) {
            return None;
        }
        let is_back =
            |ask: &Ask| state.back.get(&ask.process.id()).is_some_and(|at| at + long <= now);
        // What others left behind goes with their sessions.
        let since = now.saturating_sub(long);
        let is_served = |life: &Life| {
            let mut asks = state.asks.values();
            let is_its = |ask: &Ask| ensemble.is_of(life.owner, &ask.process);
            let is_up = ensemble.has_client(life.owner) && !ensemble.is_down(life.owner);
            // What may not be deleted stays until its session ends.
            asks.any(is_its) && is_up && !ensemble.refused_in(life.owner)
        };
        let is_left = |lock: usize| {
            let below = format!("/zklock/{}", self.plans[lock].name);
            let there = |life: &&Life| {
                let there = life.gone.is_none_or(|(at, _)| at >= since);
                life.owner != 0 && there && life.path.starts_with(&below)
            };
            !ensemble.lives().iter().filter(there).all(is_served)
        };
        let is_back = |ask: &Ask| is_back(ask) && !is_left(ask.lock);
        let free = self.free_for(state, now, long, is_back)?;
        Some((
            super::FREE,
            format!("{free} is free for {long} µs, and who waits for it is connected"),
        ))
    }
}
