//! In a process that promises order, who asks first is granted first.

use std::collections::HashMap;

use super::{Rule, Violation};
use crate::calls::Call;
use crate::history::History;

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let mut by_lock: HashMap<(usize, usize), Vec<&Call>> = HashMap::new();
    for call in &history.calls {
        if let (true, None, [lock], Some(_)) =
            (history.starts[call.client].fair, call.parent, &call.locks[..], call.hold)
        {
            by_lock.entry((call.client, *lock)).or_default().push(call);
        }
    }
    for calls in by_lock.values() {
        // Those who are granted later than the present one is asked for.
        let mut before: Vec<&Call> = Vec::new();
        for call in calls {
            let granted = |call: &Call| call.hold.map_or(0, |hold| history.holds[hold].granted);
            before.retain(|other| granted(other) > call.asked);
            for other in &before {
                if granted(other) > granted(call)
                    && call.mode.excludes(other.mode)
                    && kept_its_place(history, other, granted(other))
                    && kept_its_place(history, call, granted(other))
                {
                    let (who, lock) = (&history.clients[call.client], history.names(&call.locks));
                    let (first, second) = (other.id, call.id);
                    let what = format!(
                        "{who}: {lock}: {second} was granted before {first}, which asked first"
                    );
                    violations.push(Violation { rule: Rule::Order, what });
                }
            }
            before.push(call);
        }
    }
}

/// Whether nothing has taken the place in the queue from a call until a moment.
fn kept_its_place(history: &History, call: &Call, until: u64) -> bool {
    let Some(hold) = call.hold.map(|hold| &history.holds[hold]) else { return false };
    let directory = |node: &str| node.rsplit_once('/').map(|(directory, _)| directory.to_owned());
    let queue: Vec<_> = hold.nodes.iter().map(|node| directory(node)).collect();
    let robbed = history.removals.iter().any(|removal| {
        removal.at >= call.asked
            && removal.from <= until
            && queue.contains(&directory(&removal.node))
    });
    !robbed && history.trouble.is_quiet(call.client, call.asked, until)
}
