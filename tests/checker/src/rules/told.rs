//! Whoever has lost a node to an outsider is told within a heartbeat, or, where the network or the
//! servers are in trouble, when its lease is over.

use crate::history::History;
use crate::verdict::{Rule, Verdict};

/// What the way of a heartbeat and of its answer may take, in nanoseconds.
pub(super) const WAY: u64 = 250_000_000;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for (index, hold) in history.holds.iter().enumerate() {
        let Some(removal) = hold.removed.map(|removed| &history.removals[removed]) else {
            continue;
        };
        if history.starts[hold.client].peer.is_some() {
            continue;
        }
        if hold.perhaps_removed {
            verdict.excuse(Rule::Told, "perhaps not removed");
            continue;
        }
        let (client, timeout) = (hold.client, history.session_timeout(hold.client));
        let quiet = |moment: u64| history.trouble.is_quiet(client, removal.from, moment);
        let late = |moment: u64| {
            let quiet = quiet(moment);
            let term = if quiet { timeout / 6 } else { timeout };
            let still = history.trouble.stood_still(client, removal.at, moment);
            let limit = removal.at.saturating_add(term + WAY).saturating_add(still);
            (moment > limit).then_some(if quiet { "a heartbeat" } else { "its lease" })
        };
        let mut violated = |what: &str, at: u64, term: &str| {
            let after = at.saturating_sub(removal.at) / 1_000_000;
            let what = format!("{what} {after} ms after its node was removed, beyond {term}");
            verdict.violated(Rule::Told, history.describe(index, &what));
        };
        // Whoever gives it back, or ends, need not be told any more.
        let gone = hold.closed.or(history.ended_at(client)).unwrap_or(u64::MAX);
        let told = hold.lost.unwrap_or(u64::MAX).min(gone);
        // It is granted where a process hands it on that does not know yet.
        if let Some(term) = late(hold.granted) {
            violated("was granted", hold.granted, term);
        } else if let Some((valid, term)) = hold.valid.and_then(|at| Some((at, late(at)?))) {
            violated("was valid", valid, term);
        } else if let Some(term) = late(told).filter(|_| told != u64::MAX) {
            violated("was told", told, term);
        }
        verdict.judge(
            Rule::Told,
            match (hold.lost.is_some_and(|lost| lost <= gone), quiet(told)) {
                (true, true) => "within a heartbeat",
                (true, false) => "within the lease",
                (false, _) => "given back before",
            },
        );
    }
}
