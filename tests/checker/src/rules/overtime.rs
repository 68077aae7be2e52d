//! Nobody who may hold for a time only is told of a longer one: the guard is invalid when it is over, and
//! says so by itself.
//!
//! That nobody else comes in while it is not given back is the rule of exclusion, and that its errors have
//! this kind then, and not before, that of kinds.

use super::SLACK;
use super::told::WAY;
use crate::history::{History, Hold};
use crate::verdict::{Rule, Verdict};

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for (index, hold) in history.holds.iter().enumerate() {
        let Some(over) = history.over_time_at(index) else { continue };
        let mut violated = |what: &str, at: u64| {
            let after = at.saturating_sub(over) / 1_000_000;
            let what = format!("{what} {after} ms after its time was over");
            verdict.violated(Rule::Overtime, history.describe(index, &what));
        };
        if let Some(valid) = hold.valid.filter(|valid| *valid > over) {
            violated("was valid", valid);
        } else if let Some(surely) = hold.surely.filter(|until| *until > over) {
            violated("was to be held until", surely);
        }
        // While a writer steps down, there is no guard to tell.
        let stepped_down = hold.stepped_down.and_then(|writer| history.holds[writer].released);
        let over = over.max(stepped_down.unwrap_or(0));
        // Whoever gives it back, or ends, need not be told any more.
        let gone = hold.closed.or(history.ended_at(hold.client)).unwrap_or(u64::MAX);
        let told = hold.lost.unwrap_or(u64::MAX).min(gone);
        let still = history.trouble.stood_still(hold.client, over, told);
        if told > over.saturating_add(WAY).saturating_add(still) {
            violated("was told", told);
        }
        let reached = told > over;
        verdict.judge(Rule::Overtime, if reached { "to the end" } else { "given back before" });
    }
}

impl History {
    /// When the time of a hold was surely over, and that of each hold of the same lock around it; and when
    /// that began.
    fn limits(&self, hold: usize) -> impl Iterator<Item = (u64, &Hold)> {
        let around = std::iter::successors(Some(hold), |one| self.holds[*one].parent);
        around.filter_map(|one| {
            let begun = self.begun(one);
            Some((begun.granted.saturating_add(self.options(one).at_most?), begun))
        })
    }

    /// When the first of these times was over.
    fn over_time_at(&self, hold: usize) -> Option<u64> {
        self.limits(hold).map(|(over, _)| over).min()
    }

    pub(crate) fn is_over_time(&self, hold: usize, at: u64) -> bool {
        self.over_time_at(hold).is_some_and(|over| at > over)
    }

    /// As what a hold began: as a writer if it was one.
    fn begun(&self, mut hold: usize) -> &Hold {
        while let Some(writer) = self.holds[hold].stepped_down {
            hold = writer;
        }
        &self.holds[hold]
    }

    /// Whether the time of a guard may have been over at a moment.
    pub(crate) fn may_be_over_time(&self, hold: usize, at: u64) -> bool {
        self.holds_with(hold).flat_map(|one| self.limits(one)).any(|(over, begun)| {
            // It begins with the grant, and what is known is when the caller told of that.
            let Hold { call, asked, granted, .. } = *begun;
            let still = self.trouble.stood_still_for(&self.calls[call], asked, granted);
            at.saturating_add(SLACK).saturating_add(still) >= over
        })
    }
}
