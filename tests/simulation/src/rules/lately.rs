//! How old what a grant is based on may be, where answers are missing.

use zklock_simulator::ensemble::Life;

use super::grants::UNDER_WAY;
use super::ledger::{Entry, Ledger};
use crate::store::Ended;

impl Ledger {
    /// What a node is granted by was read just now: what was read before an answer that is missing is read again when
    /// that is there. So a node that is granted has not been gone for longer than answers are under way.
    pub(super) fn check_lately(
        &self,
        who: &str,
        entry: &Entry,
        path: &str,
        gone: Option<(u64, Ended)>,
    ) {
        let Some((at, Ended::ByOthers)) = gone else { return };
        let (now, plan) = (self.world.now(), &self.plans[entry.lock]);
        if now <= at + UNDER_WAY {
            return;
        }
        let (ensemble, czxid) = (self.store.ensemble(), entry.view.fencing_token().czxid());
        // Who waits is told of the deletion, and who was ended from outside knows nothing more.
        let told = |life: &Life| !ensemble.is_unheard(life) && !self.store.is_killed(life.owner);
        let told = ensemble.life(path, Some(czxid as i64)).is_some_and(|life| told(&life));
        // Of several permits, and of several locks, one waits for the others.
        let several = entry.view.fencing_tokens().len() > 1 || entry.has_other_nodes();
        let alone = !several && !self.was_part(entry.lock, &entry.process, at);
        // What was held, lingers or rests is granted later than it was read.
        let rests = plan.lingers || plan.hold() + plan.delay() > 0;
        let at_once = !rests && !self.lock().noted.contains(&czxid);
        if told && alone && at_once && self.store.is_reached_for(now - at + self.timeout) {
            let long = now - at;
            let what =
                format!("{who} got {path}, which was gone for {long} µs, by what was read before");
            self.fail(super::THERE, what);
        }
    }
}
