//! How long another process waits at most, while callers of this one want permits all the time.

use std::time::Duration;

use super::world::{Case, HOLD, Layout, WAY, Waited, waits};
use crate::base::clock::Instant;
use crate::base::policy::Handoffs;

const WITHIN: Duration = Duration::from_millis(500);
const A_WHILE: Handoffs = Handoffs { most: u32::MAX, within: WITHIN };
const LAYOUTS: [Layout; 2] = [Layout::Curator, Layout::Kazoo];

/// The limit; what callers of this process want; and what the other process wants.
const REQUESTS: [(u32, &[u32], u32); 13] = [
    (1, &[1], 1),
    (2, &[1], 1),
    (2, &[1], 2),
    (2, &[2], 1),
    (2, &[2], 2),
    (2, &[1, 2], 2),
    (3, &[1], 1),
    (3, &[1], 2),
    (3, &[1], 3),
    (3, &[2], 1),
    (3, &[3], 1),
    (3, &[3], 3),
    (3, &[1, 2, 3], 3),
];

/// The longest wait, over all these arrivals.
fn longest(case: &Case, arrivals: impl Iterator<Item = u64>) -> Waited {
    let mut longest = Waited { time: Duration::ZERO, passed: 0 };
    for millis in arrivals {
        let Waited { time, passed } = waits(case, Instant::ORIGIN + Duration::from_millis(millis));
        longest = Waited { time: longest.time.max(time), passed: longest.passed.max(passed) };
    }
    longest
}

/// A driver of this process may be just ahead of the other's node. It is told that it has the inner lock,
/// takes permits, is told of them, and leaves; then the other is told, and takes its own. Where there
/// must be room first, the driver is told of that, too, before it creates the nodes.
fn answers(layout: Layout) -> Duration {
    match layout {
        Layout::Curator => 6 * WAY,
        Layout::Kazoo => 8 * WAY,
    }
}

#[test]
fn another_process_waits_for_one_turn_and_the_answers_to_one_driver() {
    for layout in LAYOUTS {
        for (limit, ours, theirs) in REQUESTS {
            let (ours, handoffs) = (ours.to_vec(), A_WHILE);
            let case = Case { layout, limit, handoffs, ours, theirs, third: None };
            let Waited { time, .. } = longest(&case, (700..1_400).step_by(7));
            assert!(time <= WITHIN + 2 * HOLD + answers(layout), "{case:?}: {time:?}");
            // Otherwise nothing is handed on for so long.
            let is_all = limit == theirs && case.ours.len() == 1;
            assert!(!is_all || time > WITHIN, "{case:?}: {time:?}");
        }
    }
}

#[test]
fn another_process_waits_for_so_many_and_one() {
    for layout in LAYOUTS {
        for (limit, ours, theirs) in REQUESTS {
            for most in [0, 1, 2, 10] {
                let handoffs = Handoffs { most, within: Duration::from_secs(60) };
                let case =
                    Case { layout, limit, handoffs, ours: ours.to_vec(), theirs, third: None };
                let Waited { time, passed } = longest(&case, (700..1_000).step_by(3));
                let turn = (most + 1) * HOLD;
                assert!(time <= turn + HOLD + answers(layout), "{case:?}: {time:?}");
                assert!(passed <= most + 1, "{case:?}: {passed}");
            }
        }
    }
}

/// A permit of a third process may come to this one when the permits are no longer handed on that it
/// has, and before the first of them is given back.
#[test]
fn a_permit_that_comes_at_the_end_of_a_turn_begins_no_second_one() {
    for layout in LAYOUTS {
        for limit in 2..=3 {
            for until in (450..650).step_by(5) {
                let third = Some(Duration::from_millis(until));
                let case =
                    Case { layout, limit, handoffs: A_WHILE, ours: vec![1], theirs: limit, third };
                for millis in (90..400).step_by(31) {
                    let Waited { time, .. } = longest(&case, millis..=millis);
                    let rest = Duration::from_millis(until.saturating_sub(millis)).max(WITHIN);
                    assert!(
                        time <= rest + 2 * HOLD + answers(layout),
                        "{case:?} {millis}: {time:?}"
                    );
                }
            }
        }
    }
}
