//! Limits in nodes, which whoever is granted a permit obeys.

use zklock_core::guard::view::GuardView;

use super::asking::LONG_WAIT;
use super::grants::UNDER_WAY;
use super::ledger::{Held, Ledger};
use crate::executor::Process;

impl Ledger {
    /// Somebody is granted a permit by ZooKeeper: with those of all others there are no more than the number in the
    /// node with the limit, which is known by now. What was handed out before it was lowered stays, and is handed on.
    pub fn check_lowered(
        &self,
        who: &str,
        (lock, process): (usize, &Process),
        share: u32,
        view: &GuardView,
    ) {
        let (now, plan) = (self.world.now(), &self.plans[lock]);
        if !plan.limited_at || !view.is_valid() {
            return;
        }
        let path = format!("/zklock/{}", plan.limit_node());
        let ensemble = self.store.ensemble();
        let Some((data, written)) = ensemble.written(&path) else { return };
        let Ok(limit) = data.try_into().map(u32::from_be_bytes) else { return };
        let (path, czxid) = (view.node_path(), view.fencing_token().czxid());
        let Some(life) = ensemble.life(path, Some(czxid as i64)) else { return };
        let state = self.lock();
        let is_first = !state.permits.contains_key(path);
        // Whoever gave up in its process may have had this node before.
        let given_up = state.given_up.get(&(lock, process.id())).copied();
        let is_new = life.born > written || given_up.is_none_or(|at| at < life.born);
        let is_there = |held: &&Held| {
            let there = held.entry.lock == lock && held.entry.view.is_valid();
            there && self.gone(&held.path, held.token).is_none()
        };
        let held = state.held.values().filter(is_there).map(|held| held.entry.share.0);
        let taken = share + held.sum::<u32>();
        drop(state);
        let long = now.saturating_sub(written) + self.timeout;
        // Of several permits one node is known here, and another may be the one that is gone.
        let is_whole = self.store.deleted_at(lock).is_none_or(|at| at + self.timeout < now);
        if taken > limit
            && is_first
            && is_new
            && is_whole
            && written + 2 * UNDER_WAY < now
            && self.calm_for(long)
            && !self.store.is_one_unheard(long + LONG_WAIT)
        {
            let what = format!("{who} got {path}, and {taken} of {limit} are taken");
            self.fail(super::LOWERED, what);
        }
    }
}
