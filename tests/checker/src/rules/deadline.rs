//! No answer comes later than the caller asked for.

use super::{Rule, SLACK, Violation};
use crate::calls::Outcome;
use crate::history::History;

/// How long a call that tries once waits for the answers that it needs: the default of a try.
const ONCE: u64 = 2_000_000_000;

/// How long a process that stood still for so long needs to catch up, in nanoseconds.
const STOPPED: u64 = 200_000_000;
const CATCHES_UP: u64 = 500_000_000;

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    for call in &history.calls {
        let Some(timeout) = call.timeout else { continue };
        if history.starts[call.client].peer.is_some() || call.outcome == Outcome::Pending {
            continue;
        }
        let whole = if timeout == 0 { ONCE } else { timeout.saturating_mul(call.tries.into()) };
        let limit = call.begun.saturating_add(whole);
        let late = call.heard.saturating_sub(limit);
        // What a process that stands still is late by is not its fault.
        let still = history.trouble.stood_still(call.client, limit, call.heard);
        // Whoever was stopped has much to catch up with at once.
        let catches_up = history.trouble.stood_still(
            call.client,
            call.heard.saturating_sub(CATCHES_UP),
            call.heard,
        );
        if catches_up < STOPPED && late > SLACK.saturating_add(still) {
            let (who, millis) = (&history.clients[call.client], late / 1_000_000);
            let what = format!(
                "{who}: {} on {} was answered {millis} ms too late ({:?}), and stood still for {} ms",
                call.id,
                history.names(&call.locks),
                call.outcome,
                still / 1_000_000,
            );
            violations.push(Violation { rule: Rule::Deadline, what });
        }
    }
}
