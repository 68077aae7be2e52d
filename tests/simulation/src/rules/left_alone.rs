//! What is said of a lock at a deadline where a list is missing: of who was in the way, and has left or is still there.

use std::time::Duration;

use zklock_simulator::ensemble::Life;

use super::asking::{Ask, Asking};
use super::ledger::Ledger;
use crate::executor::Process;
use crate::workload::{BESIDE, Family, LockPlan};

/// How long before its deadline a caller asks who holds the lock, at most.
pub(super) const AHEAD: u64 = Duration::from_millis(500).as_micros() as u64;

/// How long it takes to hear of a deletion, at most.
pub(super) const HEARD: u64 = 60_000;

/// Whoever has longer to wait is told in time who is in the way, however slow the network is.
const SLOW: u64 = 200_000;

/// How long after it was shown them at most a caller knows who is in the way.
const SHOWN: u64 = 100_000;

/// How somebody has waited for a lock.
struct Wait<'a> {
    plan: &'a LockPlan,
    process: Process,
    /// What the paths of its nodes begin with.
    below: String,
    since: u64,
    /// Since when it has known, or could have, what happened before.
    left: u64,
    /// How many permits it wants.
    wanted: Option<u32>,
}

impl Ledger {
    /// Whether somebody who has waited for a lock, alone in its process, was shown who is first there, and that one has
    /// not left since; and all that is missing are later lists, and notifications.
    pub(super) fn is_still_there(&self, asking: &Asking, now: u64) -> bool {
        let state = self.lock();
        let is_long = |mine: &&Ask| mine.until > mine.since + SLOW;
        let Some(mine) = state.asks.get(&asking.id).filter(is_long) else { return false };
        let (plan, process, since) = (&self.plans[mine.lock], mine.process.clone(), mine.since);
        let near = |ask: &Ask| ask.lock == mine.lock && ask.process.id() == process.id();
        let alone = state.asks.values().filter(|ask| near(ask)).count() == 1;
        drop(state);
        let (ensemble, directory) = (self.store.ensemble(), plan.directory() + "/");
        let mut nodes: Vec<Life> = ensemble.lives();
        let is_contender = |name: &str| !name.contains('/') && !name.starts_with(BESIDE);
        nodes.retain(|life| {
            life.owner != 0 && life.path.strip_prefix(&directory).is_some_and(is_contender)
        });
        let mut there = nodes.iter().filter(|life| life.gone.is_none());
        let mut own = there.clone().filter(|life| ensemble.is_of(life.owner, &process));
        let (Some(first), Some(own)) = (there.next(), own.next_back()) else { return false };
        // Of several that hold, others may have left, and there may be room.
        let is_in_the_way = match plan.family {
            Family::Permits(limit) => limit == 1,
            _ => true,
        };
        let before_it = |life: &&Life| life.czxid < first.czxid;
        let has_left = |life: &Life| life.gone.is_some_and(|(at, _)| at < own.born);
        let before = now - since + self.timeout;
        alone
            && is_in_the_way
            && since <= own.born
            && nodes.iter().filter(before_it).all(has_left)
            && ensemble.was_shown_by(own, now.saturating_sub(SHOWN))
            // What kind of lock it is, other lists say.
            && !plan.confused
            && !plan.mixed
            && !ensemble.is_of(first.owner, &process)
            && !plan.rests()
            && !process.is_paused()
            && !self.is_closing(&process)
            && self.store.only_news_for(before)
            && self.store.meddled_at().is_none_or(|at| at + before <= now)
            && !self.shows_strays(plan, since, &process)
            && !self.had_locks_below(plan, since)
    }

    /// Whether those in the way of somebody who has waited for a lock, alone in its process, have left, whether or not
    /// it was told; and all that is missing lately are lists and notifications.
    pub(super) fn has_been_left(&self, asking: &Asking, now: u64) -> bool {
        let Some(wait) = self.waited_alone(asking, now) else { return false };
        let ensemble = self.store.ensemble();
        // Those of the session before are its own, and in its way.
        !ensemble.used_elsewhere(&wait.below, wait.left, &wait.process)
            && !ensemble.had_one(&wait.below, 0, wait.left, wait.since)
    }

    /// Whether the same is so of some of those who hold a semaphore, so that there has been room for what is wanted,
    /// and nobody else waits there; and whoever asked then had its answer.
    pub(super) fn has_had_room(&self, asking: &Asking, now: u64) -> bool {
        let Some(wait) = self.waited_alone(asking, now) else { return false };
        let (plan, ensemble) = (wait.plan, self.store.ensemble());
        let (Family::Permits(limit), Some(wanted)) = (plan.family, wait.wanted) else {
            return false;
        };
        let permits = plan.directory() + "/";
        let is_own =
            |life: &Life| life.born >= wait.since && ensemble.is_of(life.owner, &wait.process);
        let takes_place = |life: &&Life| {
            let there = life.gone.is_none_or(|(at, _)| at >= wait.left);
            life.owner != 0 && there && life.path.starts_with(&permits) && !is_own(life)
        };
        let taken = ensemble.lives().iter().filter(takes_place).count();
        !plan.confused
            && taken + wanted as usize <= limit as usize
            && !ensemble.used_elsewhere(&plan.queue(), wait.left, &wait.process)
            && self.store.answers_for(now - wait.left)
    }

    /// How somebody has waited for a lock, alone in its process, from which somebody else has left meanwhile; if all
    /// that is missing lately are lists and notifications.
    fn waited_alone(&self, asking: &Asking, now: u64) -> Option<Wait<'_>> {
        let state = self.lock();
        let mine = state.asks.get(&asking.id).filter(|mine| mine.until > mine.since)?;
        let (plan, process) = (&self.plans[mine.lock], mine.process.clone());
        let left = now.saturating_sub(mine.ahead() + HEARD);
        let here = |lock: usize, by: &Process| lock == mine.lock && by.id() == process.id();
        let asks = state.asks.values().filter(|ask| here(ask.lock, &ask.process)).count();
        let holds = state.held.values().any(|held| here(held.entry.lock, &held.entry.process));
        let let_go = state.let_go.get(&mine.lock).is_none_or(|at| *at < left);
        // One who wanted more permits may have been ahead until then.
        let asked = state.asked.get(&(mine.lock, process.id())).is_none_or(|at| *at < left);
        let (alone, waited) = (asks == 1 && !holds && asked, mine.since < left);
        let (since, wanted) = (mine.since, mine.wanted);
        drop(state);
        let (ensemble, below) = (self.store.ensemble(), format!("/zklock/{}", plan.name));
        let gone = |life: &Life| {
            let other = life.owner != 0 && !ensemble.is_of(life.owner, &process);
            life.gone.filter(|_| other && life.path.starts_with(&below)).map(|(at, _)| at)
        };
        let last = ensemble.lives().iter().filter_map(gone).max();
        let is_so = alone
            && last.is_some_and(|last| last >= since)
            && let_go
            && waited
            && !plan.lingers
            && !process.is_paused()
            && self.store.only_news_for(now - left + self.timeout)
            && !self.shows_strays(plan, left, &process)
            && !self.had_locks_below(plan, left);
        is_so.then_some(Wait { plan, process, below, since, left, wanted })
    }
}
