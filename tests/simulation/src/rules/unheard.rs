//! What is said of a lock by who has heard nothing.

use zklock_core::base::error::LockError;

use super::asking::{Ask, Asking, NOTICE};
use super::ledger::Ledger;
use super::left_alone::HEARD;
use crate::executor::Process;

impl Ledger {
    /// Who is told that a lock is busy, alone in a process that was paused so often when it asked, has heard that from
    /// a server: since it asked, or, if it waited, since it asked who is in the way just before its deadline.
    pub fn check_heard(&self, who: &str, asking: &Asking, pauses: u32, error: &LockError) {
        if !error.is_busy() {
            return;
        }
        let now = self.world.now();
        let state = self.lock();
        let Some(mine) = state.asks.get(&asking.id) else { return };
        let (plan, process) = (&self.plans[mine.lock], mine.process.clone());
        let near = |lock: usize, by: &Process| lock == mine.lock && by.id() == process.id();
        let ahead = mine.ahead() + mine.ahead() * 2 * self.drift / 1_000_000 + HEARD;
        let since = match mine.until {
            0 => mine.since,
            _ => mine.since.max(now.saturating_sub(ahead)),
        };
        let before = |at: Option<&u64>| at.is_none_or(|at| at + NOTICE < since);
        let (lock, let_go) = (mine.lock, state.let_go.get(&mine.lock));
        let asks = |ask: &&Ask| near(ask.lock, &ask.process);
        // What its process holds and asks for, that knows by itself.
        let alone = state.asks.values().filter(asks).count() == 1
            && !state.held.values().any(|held| near(held.entry.lock, &held.entry.process))
            && before(let_go)
            && before(state.asked.get(&(lock, process.id())));
        drop(state);
        // Who steps down holds nothing meanwhile, and uses it.
        let alone = alone && !self.is_used_by_others(who, lock, &process, 1);
        let alone = alone && !self.has_left_stepping_down(lock, &process);
        // Until when a lock rests was told before.
        let rests = plan.hold() + plan.delay() > 0;
        let heard = self.store.ensemble().heard(&process);
        if alone && !rests && process.pauses() == pauses && heard.is_none_or(|at| at < since) {
            let what = format!("{who}: {} is busy, and no server has said so", plan.name);
            self.fail(super::ERROR, what);
        }
    }

    /// Whether a call was dropped in a process while a writer stepped down there: that goes on by itself, in silence
    /// for as long as a session lasts.
    fn has_left_stepping_down(&self, lock: usize, process: &Process) -> bool {
        let (ensemble, below) = (self.store.ensemble(), self.plans[lock].queue());
        let state = self.lock();
        let mut lives = ensemble.lives().into_iter();
        lives.any(|life| {
            let left = state.left_stepping_down.contains(&(life.czxid as u64));
            left && life.path.starts_with(&below) && ensemble.is_of(life.owner, process)
        })
    }
}
