//! Whoever is asked to let go lets nobody else of its process in.

use super::grants::TOLD;
use super::ledger::{Entry, Held, Ledger};

/// The last who let go of a node, and had been asked to.
#[derive(Debug)]
pub(super) struct Asked {
    at: u64,
    /// How often its process had stood still.
    pauses: u32,
    /// Whether nobody had the node beside it.
    alone: bool,
}

impl Entry {
    /// Whether nobody has its node beside it: whoever reads may share it with others.
    fn is_alone(&self) -> bool {
        self.share.0 == self.share.1 || self.lock_has_permits
    }
}

impl Ledger {
    /// The holder of a node is about to let go of it. Of several permits it may have been another node that says so.
    pub(super) fn lets_go_if_asked(&self, held: &Held) {
        let entry = &held.entry;
        if entry.has_other_nodes() || !entry.view.is_revoked() {
            return;
        }
        let (at, pauses) = (self.world.now(), entry.process.pauses());
        let asked = Asked { at, pauses, alone: entry.is_alone() };
        self.lock().asked_to.entry(held.token.czxid()).or_insert(asked);
    }

    /// Nobody is let in by the node of one that was asked to let go before that: if both read, perhaps just before.
    pub(super) fn check_asked(&self, who: &str, entry: &Entry, path: &str) {
        let (now, czxid) = (self.world.now(), entry.view.fencing_token().czxid());
        let state = self.lock();
        let Some(asked) = state.asked_to.get(&czxid) else { return };
        let late = match entry.is_alone() {
            true => asked.alone,
            // A writer that steps down has the same token as a reader. Of several, each is noted with the last.
            false => {
                !asked.alone && now > asked.at + TOLD && entry.process.pauses() == asked.pauses
            }
        };
        let long = now - asked.at;
        // Who reads already does so again.
        let again = |held: &Held| held.token.czxid() == czxid && held.entry.who == entry.who;
        let again = !entry.is_alone() && state.held.values().any(again);
        drop(state);
        if late && !again && (entry.is_alone() || !self.is_part(entry.lock, &entry.process)) {
            let what = format!("{who} got {path}, {long} µs after one that was asked to let go");
            self.fail(super::ASKED_TO, what);
        }
    }
}
