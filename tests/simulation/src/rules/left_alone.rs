//! Locks of which nobody can say any more that they are busy.

use std::time::Duration;

use super::asking::{Ask, Asking, LONG_WAIT};
use super::ledger::Ledger;

/// How long before its deadline a caller asks who holds the lock, at most.
const AHEAD: u64 = Duration::from_millis(500).as_micros() as u64;

/// How long it takes to hear of a deletion, at most.
const HEARD: u64 = 60_000;

impl Ledger {
    /// Whether somebody who has waited for a lock, alone in its process, was told that those in the way have left, and
    /// the one answer that is missing is the list of those who are there now.
    pub(super) fn has_been_left(&self, asking: &Asking, now: u64) -> bool {
        let state = self.lock();
        let Some(mine) = state.asks.get(&asking.id).filter(|mine| mine.until > mine.since) else {
            return false;
        };
        let (plan, process) = (&self.plans[mine.lock], mine.process.clone());
        let ahead = ((mine.until - mine.since) / 4).min(AHEAD);
        let left = now.saturating_sub(ahead + HEARD);
        let near = |ask: &Ask| ask.lock == mine.lock && ask.process.id() == process.id();
        let alone = state.asks.values().filter(|ask| near(ask)).count() == 1;
        let let_go = state.let_go.get(&mine.lock).is_none_or(|at| *at < left);
        let (waited, long) = (mine.since < left, now - mine.since);
        drop(state);
        let below = format!("/zklock/{}", plan.name);
        alone
            && let_go
            && waited
            && !plan.lingers
            && !process.is_paused()
            && self.store.only_lists_for(now - left + self.timeout)
            // Whose watch fired unheard looks again after so long.
            && !self.store.is_one_unheard(long + self.timeout.max(LONG_WAIT))
            && !self.shows_strays(plan, left, &process)
            && !self.had_locks_below(plan, left)
            && !self.store.ensemble().used_elsewhere(&below, left, &process)
    }
}
