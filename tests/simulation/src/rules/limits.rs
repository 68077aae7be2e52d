//! Whether the time of a guard may be over whose lock is held for so long at most.

use std::collections::BTreeMap;

use zklock_core::base::token::FencingToken;

use super::check::{MOMENT, SOON};
use super::ledger::{Entry, Ledger, State};

/// Since when at the earliest the time of whoever got each node last runs, by its czxid.
#[derive(Debug, Default)]
pub(super) struct Began(BTreeMap<u64, (FencingToken, u64)>);

impl State {
    /// Notes that the time of a guard runs, which was asked for then, if that is known.
    pub(super) fn begins(&mut self, entry: &Entry, asked: Option<u64>, now: u64) {
        let token = entry.view.fencing_token();
        let reads = entry.share.0 < entry.share.1 && !entry.lock_has_permits;
        if let Some((last, _)) = self.began.0.get_mut(&token.czxid())
            && (*last == token || reads)
        {
            // A reader that was a writer, or what is held inside, has no time of its own.
            *last = token;
        } else if !entry.again {
            // Who stood still learns late of its grant.
            let late = self.stood_still.contains(&entry.process.id());
            let since = if late { asked.unwrap_or(0) } else { now };
            self.began.0.insert(token.czxid(), (token, since));
        }
    }
}

impl Ledger {
    /// Whether the time of what was asked for, or else granted, at one moment may be over at another.
    pub(super) fn may_be_over(&self, lock: usize, since: u64, at: u64) -> bool {
        let most = self.plans[lock].most();
        // By a clock that is fast.
        most.is_some_and(|most| at + MOMENT + most * self.drift / 1_000_000 >= since + most)
    }

    /// Whether the time of a guard may be over at a moment. Of the parts of what was split nothing is known.
    pub(super) fn is_over(
        &self,
        began: &Began,
        (lock, token): (usize, FencingToken),
        at: u64,
    ) -> bool {
        let began = began.0.get(&token.czxid()).filter(|(last, _)| *last == token);
        self.may_be_over(lock, began.map_or(0, |(_, since)| *since), at + SOON)
    }

    /// The same, of a guard that somebody has.
    pub fn may_be_held_too_long(&self, lock: usize, token: FencingToken) -> bool {
        self.is_over(&self.lock().began, (lock, token), self.world.now())
    }
}
