//! Of the callers of a process who are promised order, who asks first is granted first. Between them and
//! others of the same process there is none: those share nodes, which may be ahead.

use std::collections::HashMap;

use super::SLACK;
use crate::calls::{Call, Options};
use crate::history::{History, Mode};
use crate::verdict::{Rule, Verdict};

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let mut by_lock: HashMap<_, Vec<&Call>> = HashMap::new();
    for call in &history.calls {
        let Options { fair, stops_early, requeue, .. } = call.options;
        if let (true, None, [lock], Some(_)) = (fair, call.parent, &call.locks[..], call.hold) {
            // Where there is one node for all, there is an order only among those of a process who may pass
            // it to each other: by these options.
            let share = call.has_one_node.then_some((stops_early, requeue));
            by_lock.entry((call.client, *lock, share)).or_default().push(call);
        }
    }
    for calls in by_lock.values() {
        // Those who are granted later than the present one is asked for.
        let mut before: Vec<&Call> = Vec::new();
        for call in calls {
            let granted = |call: &Call| call.hold.map_or(0, |hold| history.holds[hold].granted);
            before.retain(|other| granted(other) > call.asked);
            for other in &before {
                let together = together(history, call, other);
                if together == u64::MAX {
                    continue;
                }
                // A thread waits from when it had a processor on.
                if other.blocking {
                    verdict.excuse(Rule::Order, "behind a thread");
                    continue;
                }
                let both = granted(call).max(granted(other));
                if let Err(why) = kept_its_place(history, other, both)
                    .and_then(|()| kept_its_place(history, call, both))
                {
                    verdict.excuse(Rule::Order, why);
                    continue;
                }
                verdict.judge(Rule::Order, "grants behind another");
                if granted(other) > granted(call).saturating_add(together) {
                    let (who, lock) = (&history.clients[call.client], history.names(&call.locks));
                    let (first, second) = (other.id, call.id);
                    let what = format!(
                        "{who}: {lock}: {second} was granted before {first}, which asked first"
                    );
                    verdict.violated(Rule::Order, what);
                }
            }
            before.push(call);
        }
    }
}

/// By how much a call may be granted before another that asked first, because both may be inside at
/// once: two permits that are granted together are told of in any order.
fn together(history: &History, call: &Call, first: &Call) -> u64 {
    match (&call.modes[..], &first.modes[..]) {
        ([Mode::Permit], [Mode::Permit]) => {
            let granted = |call: &Call| call.hold.map_or(0, |hold| history.holds[hold].granted);
            let (from, until) = (granted(call), granted(first));
            SLACK.saturating_add(history.trouble.stood_still(call.client, from, until))
        }
        ([one], [other]) if one.excludes(*other) => 0,
        _ => u64::MAX,
    }
}

/// Whether nothing has taken the place in the queue from a call until a moment, or what may have.
fn kept_its_place(history: &History, call: &Call, until: u64) -> Result<(), &'static str> {
    // A semaphore has several directories; kazoo's inner lock is beside the permits.
    let name = history.names(&call.locks);
    let places = [format!("/{name}/"), format!("/{name}-__lock__/")];
    let robbed = history.removals.iter().any(|removal| {
        removal.at >= call.asked
            && removal.from <= until
            && removal.owner.or(removal.session).is_none_or(|owner| owner == call.client)
            && places.iter().any(|place| removal.node.contains(place))
    });
    if robbed {
        return Err("a node of the lock was taken away from the process");
    }
    history.trouble.disturbed(call.client, call.asked, until).map_or(Ok(()), Err)
}
