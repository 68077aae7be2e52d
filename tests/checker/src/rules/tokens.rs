//! The later has the greater token.

use std::collections::HashMap;

use super::{by_lock, related};
use crate::history::{History, Mode, Token};
use crate::verdict::{Rule, Verdict};

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for (index, hold) in history.holds.iter().enumerate() {
        if let Some(writer) = hold.stepped_down {
            verdict.judge(Rule::Tokens, "stepped down");
            if hold.token <= history.holds[writer].token {
                violated(history, index, "stepped down to a token that is not greater", verdict);
            }
        }
        if let Some(parent) = hold.parent
            && hold.stepped_down.is_none()
        {
            verdict.judge(Rule::Tokens, "nested");
            if hold.token != history.holds[parent].token {
                violated(history, index, "is nested and does not repeat the token", verdict);
            }
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
                violated(history, index, "has the token of another", verdict);
            }
        }
        // What was granted before somebody asked has a smaller token, whatever both claim.
        in_order(history, &holds, "asked after a grant", verdict, |hold| {
            Some((hold.asked, hold.granted))
        });
        // And what was held before, too, where both are sure of it.
        in_order(history, &holds, "granted after a hold", verdict, |hold| {
            Some((hold.granted, hold.claimed?))
        });
    }
}

fn violated(history: &History, index: usize, what: &str, verdict: &mut Verdict) {
    verdict.violated(Rule::Tokens, history.describe(index, what));
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
    what: &'static str,
    verdict: &mut Verdict,
    time: impl Fn(&crate::history::Hold) -> Option<(u64, u64)>,
) {
    let mut moments = Vec::new();
    for index in holds.iter().copied() {
        let hold = &history.holds[index];
        let nested = hold.parent.is_some() || hold.stepped_down.is_some();
        if hold.is_excused() {
            verdict.excuse(Rule::Tokens, "node taken away before the grant");
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
            if before.is_some() {
                verdict.judge(Rule::Tokens, what);
            }
            if before.is_some_and(|before| hold.token <= before) {
                violated(history, index, "came later with a smaller token", verdict);
            }
        } else {
            all = all.max(Some(hold.token));
            if !reads {
                alone = alone.max(Some(hold.token));
            }
        }
    }
}
