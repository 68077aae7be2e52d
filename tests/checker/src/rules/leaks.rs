//! Nothing is left over.

use super::{Rule, Violation};
use crate::history::History;

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let Some(left) = &history.left else { return };
    let all = [
        ("node", &left.nodes),
        ("watch", &left.watches),
        ("session", &left.sessions),
        ("thread", &left.threads),
    ];
    for (what, names) in all {
        for name in names {
            violations.push(Violation { rule: Rule::Leaks, what: format!("{what} {name}") });
        }
    }
}
