//! The later has the greater token.

use std::collections::HashMap;

use super::{Rule, Violation, by_lock, related};
use crate::history::{History, Mode, Token};

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let mut violated = |index, what: &str| {
        violations.push(Violation { rule: Rule::Tokens, what: history.describe(index, what) });
    };
    for (index, hold) in history.holds.iter().enumerate() {
        if let Some(writer) = hold.stepped_down
            && hold.token <= history.holds[writer].token
        {
            violated(index, "stepped down to a token that is not greater");
        }
        if let Some(parent) = hold.parent
            && hold.stepped_down.is_none()
            && hold.token != history.holds[parent].token
        {
            violated(index, "is nested and does not repeat the token");
        }
    }
    for holds in by_lock(history) {
        let mut owners = HashMap::<Token, usize>::new();
        for index in holds.iter().copied() {
            let hold = &history.holds[index];
            if hold.mode == Mode::Permit || !has_token(history, index) {
                continue;
            }
            let first = *owners.entry(hold.token).or_insert(index);
            if hold.mode.excludes(history.holds[first].mode)
                && first != index
                && !shares_a_node(history, first, index)
            {
                violated(index, "has the token of another");
            }
        }
        // What was granted before somebody asked has a smaller token, whatever both claim.
        in_order(history, &holds, |hold| Some((hold.asked, hold.granted)), &mut violated);
        // And what was held before, too, where both are sure of it.
        in_order(history, &holds, |hold| Some((hold.granted, hold.claimed?)), &mut violated);
    }
}

/// Peers have none.
fn has_token(history: &History, hold: usize) -> bool {
    history.starts[history.holds[hold].client].peer.is_none()
}

/// Nested holds repeat the token of the outermost.
fn shares_a_node(history: &History, one: usize, other: usize) -> bool {
    let root = |mut hold: usize| {
        while let Some(parent) = history.holds[hold].parent {
            hold = parent;
        }
        hold
    };
    related(history, one, other) || root(one) == root(other)
}

/// Holds that begin after others have ended must have greater tokens than those.
fn in_order(
    history: &History,
    holds: &[usize],
    time: impl Fn(&crate::history::Hold) -> Option<(u64, u64)>,
    violated: &mut impl FnMut(usize, &str),
) {
    let mut moments = Vec::new();
    for index in holds.iter().copied() {
        let hold = &history.holds[index];
        let nested = hold.parent.is_some() || hold.stepped_down.is_some();
        if hold.is_excused() {
            continue;
        }
        if let Some((begin, end)) = time(hold)
            && hold.mode != Mode::Permit
            && has_token(history, index)
            && !nested
        {
            moments.push((begin, true, index));
            moments.push((end.max(begin), false, index));
        }
    }
    // A beginning comes before an end of the same moment: those two are not ordered.
    moments.sort_by_key(|(at, begins, index)| (*at, !*begins, *index));
    let (mut all, mut alone) = (None, None);
    for (_, begins, index) in moments {
        let hold = &history.holds[index];
        let reads = hold.mode == Mode::Read;
        if begins {
            let before: Option<Token> = if reads { alone } else { all };
            if before.is_some_and(|before| hold.token <= before) {
                violated(index, "came later with a smaller token");
            }
        } else {
            all = all.max(Some(hold.token));
            if !reads {
                alone = alone.max(Some(hold.token));
            }
        }
    }
}
