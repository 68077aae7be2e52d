//! What was lost, and keeps its node: until whoever acquired it lets go of it, or acquires the lock anew.

use std::collections::BTreeMap;

use zklock_core::guard::view::GuardView;

use super::Rule;
use super::asking::{Ask, Asking};
use super::ledger::{Entry, Ledger, State};
use crate::executor::{Process, ProcessId, current_task};
use crate::store::Ended;

/// The task that calls: the number of its process, and its own.
pub type Caller = Option<(ProcessId, u32)>;

/// What is noted is perhaps noted so much later than it was seen.
const NOTED: u64 = 2_000;

/// Who asks for locks, and when each had its last answer.
pub(super) type Answered = BTreeMap<(usize, Caller), u64>;

/// Somebody who keeps what was lost.
struct Keeper<'a> {
    lock: usize,
    process: &'a Process,
    view: &'a GuardView,
    who: Caller,
}

impl Asking {
    /// It has its answer, and is kept for as long as what came of it.
    pub fn has_answer(&self) {
        let now = self.ledger.world.now();
        let mut state = self.ledger.lock();
        let Some(ask) = state.asks.get_mut(&self.id) else { return };
        ask.answered = true;
        let key = (ask.lock, ask.who);
        state.answered.insert(key, now);
    }
}

impl State {
    /// Whether a task has asked for a lock since then.
    fn has_asked(&self, lock: usize, who: Caller, since: u64) -> bool {
        let asks = |ask: &Ask| ask.lock == lock && ask.who == who && !ask.answered;
        let answered = self.answered.get(&(lock, who)).is_some_and(|at| *at >= since);
        answered || self.asks.values().any(asks)
    }
}

impl Ledger {
    /// Whether nobody else of a process has a lock, be it valid or lost, nor a detached guard.
    pub fn has_it_alone(&self, lock: usize, process: &Process) -> bool {
        let (state, who) = (self.lock(), current_task());
        let near = |of: usize, by: &Process| of == lock && by.id() == process.id();
        let other = |by: Caller| by != who;
        let mut held =
            state.held.values().filter(|held| near(held.entry.lock, &held.entry.process));
        let mut scopes = state.scopes.held().filter(|scope| near(scope.lock, &scope.process));
        !held.any(|held| other(held.entry.who))
            && !scopes.any(|scope| other(scope.who) || scope.detached)
    }

    /// Whoever has lost a lock keeps its node.
    pub(super) fn kept_out(&self, state: &State) -> Option<(Rule, String)> {
        let lost = state.held.values().filter(|held| held.lost.is_some());
        let held = lost.map(|held| {
            let Entry { lock, process, view, who, .. } = &held.entry;
            Keeper { lock: *lock, process, view, who: *who }
        });
        let mut keepers = held.chain(state.scopes.lost().map(|scope| {
            let (lock, process) = (scope.lock, &scope.process);
            Keeper { lock, process, view: &scope.view, who: scope.who }
        }));
        keepers.find_map(|keeper| {
            let (path, token) = (keeper.view.node_path(), keeper.view.fencing_token());
            let (at, ended) = self.gone(path, token)?;
            let lost = state.losses.get(&token.czxid()).copied().unwrap_or(at);
            let since = at.min(lost).saturating_sub(NOTED);
            // Of its own: it also closes no session, as long as its process does not.
            let closed = self.store.was_closed(path, Some(token.czxid() as i64));
            let excused = ended != Ended::BySelf && !closed
                || state.closing.contains(&keeper.process.id())
                || state.broken.contains(path)
                || state.stepped_down.contains(&token.czxid())
                || self.may_be_mistaken(keeper.lock, at)
                || state.has_asked(keeper.lock, keeper.who, since);
            let what = || format!("{path} is gone, and who has lost it keeps it");
            (!excused).then(|| (super::KEPT_OUT, what()))
        })
    }
}
