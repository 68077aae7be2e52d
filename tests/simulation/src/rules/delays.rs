//! A lock rests after the loss of who had it alone.

use super::ledger::{Entry, Ledger};
use crate::store::Ended;

/// Who had a lock alone last, and so wrote into its directory for how long it rests.
#[derive(Debug)]
pub(super) struct Alone {
    path: String,
    czxid: u64,
    /// Whether it let go of the lock, or stepped down.
    released: bool,
}

impl Ledger {
    /// A lock that rests after a loss is granted.
    pub(super) fn check_delay(&self, who: &str, entry: &Entry, path: &str) {
        let (now, delay) = (self.world.now(), self.plans[entry.lock].delay());
        if delay == 0 {
            return;
        }
        let czxid = entry.view.fencing_token().czxid();
        let mut state = self.lock();
        let is_new = !state.noted.contains(&czxid);
        let lost = state.alone.get(&entry.lock).filter(|last| is_new && !last.released);
        let lost = lost.map(|last| (last.path.clone(), last.czxid as i64));
        if entry.share.0 == entry.share.1 {
            let last = Alone { path: path.to_owned(), czxid, released: false };
            state.alone.insert(entry.lock, last);
        }
        drop(state);
        let Some((old, czxid)) = lost else { return };
        let Some((at, ended)) = self.store.end_of(&old, Some(czxid)) else { return };
        // Outsiders may delete what it wrote.
        let born = self.store.ensemble().life(&old, Some(czxid)).map_or(0, |life| life.born);
        let untouched = self.store.deleted_at(entry.lock).is_none_or(|at| at < born);
        if untouched && ended != Ended::BySelf && now + 2_000 < at + delay {
            let what = format!("{who} got {path} {} µs after the loss of another", now - at);
            self.fail(super::DELAY, what);
        }
    }

    /// The holder of a node lets go of it: after a release there is no delay.
    pub(super) fn needs_no_delay(&self, lock: usize, czxid: u64) {
        let mut state = self.lock();
        if let Some(last) = state.alone.get_mut(&lock).filter(|last| last.czxid == czxid) {
            last.released = true;
        }
    }
}
