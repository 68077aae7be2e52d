//! When each step may have happened: the shortest time that changes no opinion.
//!
//! A hold that claims something enters after all that claimed the lock before it was granted, for
//! otherwise it would have left before it was granted. And it leaves before the next grant, for a
//! model in which it leaves earlier allows whatever one allows in which it leaves later. Among
//! permits the same goes for entering late: whoever enters later is in nobody's way for longer.

use std::collections::HashMap;

use crate::history::{History, Hold, Mode};
use crate::models::{Entry, Step};
use crate::parts::Span;

/// The hold in whose scope, directly or not, another was acquired, or itself.
pub(crate) fn outermost(history: &History, mut hold: usize) -> usize {
    while let Some(parent) = history.holds[hold].parent {
        hold = parent;
    }
    hold
}

/// The steps of these holds, which are of one lock.
pub(crate) fn spans(history: &History, holds: &[usize]) -> Vec<Span> {
    let entry = |id: usize| {
        let hold = &history.holds[id];
        let token = history.starts[hold.client].peer.is_none().then_some(hold.token);
        let root = outermost(history, id);
        Entry { id, root, mode: hold.mode, permits: hold.permits, token }
    };
    let stepped_down = |reader: &usize| Some((history.holds[*reader].stepped_down?, *reader));
    let reader_of: HashMap<_, _> = holds.iter().filter_map(stepped_down).collect();
    // A writer that is excused altogether is not among them.
    let stepped_down =
        |hold: &Hold| hold.stepped_down.is_some_and(|was| holds.binary_search(&was).is_ok());
    let mut order: Vec<usize> = holds.to_vec();
    order.sort_by_key(|hold| (history.holds[*hold].granted, *hold));
    let grants: Vec<u64> = order.iter().map(|hold| history.holds[*hold].granted).collect();
    let next_grant = |after: u64| grants.get(grants.partition_point(|at| *at <= after)).copied();
    let mut spans = Vec::new();
    for (place, id) in order.iter().copied().enumerate() {
        let hold = &history.holds[id];
        if !stepped_down(hold) {
            let from = enters_after(history, &order[..place], hold);
            spans.push(Span { from, to: hold.granted, step: Step::Enter(entry(id)) });
        }
        match reader_of.get(&id).copied() {
            Some(reader) => {
                let (from, to) = (history.holds[reader].granted, hold.released.unwrap_or(u64::MAX));
                spans.push(Span { from, to, step: Step::StepDown(entry(id), entry(reader)) });
            }
            None => {
                let from = hold.claimed.unwrap_or(hold.asked);
                let next = next_grant(from.max(hold.granted)).unwrap_or(u64::MAX);
                let to = hold.released.unwrap_or(u64::MAX).min(next).max(from);
                spans.push(Span { from, to, step: Step::Leave(entry(id)) });
            }
        }
    }
    spans
}

/// When a hold may have entered at the earliest, given those that were granted before.
fn enters_after(history: &History, before: &[usize], hold: &Hold) -> u64 {
    // Farther back than this there is nothing that ends later.
    const FAR: usize = 64;
    if hold.claimed.is_none_or(|claimed| claimed < hold.granted) || hold.parent.is_some() {
        return hold.asked;
    }
    let near = before.iter().rev().take(FAR).map(|other| &history.holds[*other]);
    let after = near.filter_map(|other| match hold.mode {
        Mode::Permit => Some(other.granted),
        _ if hold.mode.excludes(other.mode) => other.claimed,
        _ => None,
    });
    after.filter(|at| *at <= hold.granted).fold(hold.asked, u64::max)
}
