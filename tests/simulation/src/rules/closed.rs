//! What is left of a session that was closed.

use super::ledger::Ledger;
use crate::executor::Process;

/// How long servers take to find a leader, at most.
const ELECTION: u64 = 2_000_000;

/// How long closing a session waits for deletions, at least: its clock may be fast by a thousandth.
const FLUSH: u64 = 5_000_000 - 5_000_000 / 1_000;

/// A node that its holder let go of, and that nobody else of its process can have got.
#[derive(Debug)]
pub(super) struct Left {
    path: String,
    czxid: i64,
    at: u64,
}

impl Left {
    pub(super) fn is_at(&self, path: &str) -> bool {
        self.path == path
    }
}

impl Ledger {
    /// The holder of a node lets go of it, and nobody else of its process can have got it.
    pub fn leaves(&self, lock: usize, (path, czxid): (String, i64)) {
        let plan = &self.plans[lock];
        // It stays for a while: closing a session does not wait for that.
        if plan.hold() == 0 {
            let at = self.world.now();
            self.lock().left.push(Left { path, czxid, at });
        }
    }

    /// A session that was opened under a label is closed, which began at a moment.
    pub fn has_closed(&self, process: &Process, label: u64, begun: u64) {
        let (now, ensemble) = (self.world.now(), self.store.ensemble());
        let who = process.id();
        self.world.say(|| format!("{who}: has closed its session"));
        let sessions = ensemble.sessions_for(label);
        // A server that is started again gives all sessions their time once more.
        if !sessions.is_empty() && self.calm_for(2 * self.timeout + ELECTION) {
            self.fail(super::CLOSED, format!("{who}: sessions {sessions:x?} are left"));
        }
        // Where the client has given the session up, nothing can be deleted any more. A node whose deletion the
        // server refuses goes with its session.
        let can_delete = |session| ensemble.has_client(session) && sessions.contains(&session);
        let mut state = self.lock();
        let mut left = None;
        state.left.retain(|node| {
            let life = ensemble.life(&node.path, Some(node.czxid));
            let Some(life) = life.filter(|life| life.gone.is_none()) else { return false };
            if node.at < begun && can_delete(life.owner) && !ensemble.is_stuck(&node.path) {
                left = left.take().or(Some(life.path));
            }
            true
        });
        drop(state);
        let excused = self.store.are_servers_struck();
        if let Some(path) = left.filter(|_| now < begun + FLUSH && !excused) {
            let what = format!("{who}: {path} is left, {} µs after it was closed", now - begun);
            self.fail(super::CLOSED, what);
        }
    }
}
