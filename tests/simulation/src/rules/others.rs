//! The nodes of others, which nobody deletes.

use super::Rule;
use super::ledger::{Ledger, State};

impl Ledger {
    /// A session deletes the node of another process only on purpose, or where names recur, just after somebody has
    /// deleted its own.
    pub(super) fn taken_away(&self, state: &mut State) -> Option<(Rule, String)> {
        let taken = self.store.ensemble().taken_away(state.taken);
        state.taken += taken.len();
        let others = taken.into_iter().filter(|(_, here)| !here).map(|(life, _)| life);
        let mut others = others.filter(|life| !state.aimed_at.contains(&life.czxid.unsigned_abs()));
        let life = others.find(|life| {
            let (at, lock) = (life.gone.map_or(0, |(at, _)| at), self.lock_of(&life.path));
            !lock.map_or(self.corner, |lock| self.may_be_mistaken(lock, at))
                && self.store.is_reached_for(self.timeout)
        })?;
        Some((super::OTHERS, format!("{}: a session of another process deleted it", life.path)))
    }

    /// The lock to which a node belongs.
    pub(super) fn lock_of(&self, path: &str) -> Option<usize> {
        let rest = path.strip_prefix("/zklock/")?;
        let is_of = |name: &str| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
        self.plans.iter().position(|plan| is_of(plan.name))
    }
}
