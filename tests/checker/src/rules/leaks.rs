//! Nothing is left over.

use crate::history::History;
use crate::verdict::{Rule, Verdict};

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    verdict.judge_all(Rule::Leaks, "guards", history.holds.len() as u64);
    let Some(left) = &history.left else {
        return verdict.excuse(Rule::Leaks, "end at which nobody looked");
    };
    verdict.judge(Rule::Leaks, "end");
    let all = [
        ("node", &left.nodes),
        ("watch", &left.watches),
        ("session", &left.sessions),
        ("thread", &left.threads),
    ];
    for (what, names) in all {
        for name in names {
            verdict.violated(Rule::Leaks, format!("{what} {name}"));
        }
    }
}
