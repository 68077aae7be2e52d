//! No answer comes later than the caller asked for.

use super::SLACK;
use crate::calls::Outcome;
use crate::history::History;
use crate::verdict::{Rule, Verdict};

/// How long a call that tries once waits for the answers that it needs: the default of a try.
const ONCE: u64 = 2_000_000_000;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for call in &history.calls {
        let Some(timeout) = call.timeout else { continue };
        if history.starts[call.client].peer.is_some() || call.outcome == Outcome::Pending {
            continue;
        }
        let whole = if timeout == 0 { ONCE } else { timeout.saturating_mul(call.tries.into()) };
        let limit = call.begun.saturating_add(whole);
        let late = call.answered.saturating_sub(limit);
        // What a process that stands still is late by is not its fault; what it is late with while it
        // runs, is, however often it stood still before.
        let still = history.trouble.stood_still_for(call, limit, call.answered);
        if late > SLACK.saturating_add(still) {
            let (who, millis) = (&history.clients[call.client], late / 1_000_000);
            let what = format!(
                "{who}: {} on {} was answered {millis} ms too late ({:?}), and stood still for {} ms",
                call.id,
                history.names(&call.locks),
                call.outcome,
                still / 1_000_000,
            );
            verdict.violated(Rule::Deadline, what);
        }
        if late > SLACK && late <= SLACK.saturating_add(still) {
            verdict.excuse(Rule::Deadline, "late while the process did not run");
        } else if limit < call.answered.saturating_add(SLACK) {
            verdict.judge(Rule::Deadline, "answered about when the time was over");
        } else {
            verdict.judge(Rule::Deadline, "answered before");
        }
    }
}
