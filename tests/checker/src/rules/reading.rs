//! What is judged while a history is read: its form, that all is answered, that what is lost stays lost, and
//! that several locks are taken as one.

use crate::calls::Outcome;
use crate::history::History;
use crate::verdict::{Rule, Verdict};

pub(super) fn count(history: &History, verdict: &mut Verdict) {
    let seen = &history.seen;
    verdict.judge_all(Rule::Format, "lines", seen.lines);
    verdict.judge_all(Rule::Answers, "requests", seen.requests.saturating_sub(seen.cut_short));
    verdict.excuse_all(Rule::Answers, "of processes that were killed", seen.cut_short);
    verdict.judge_all(Rule::Lost, "looks at lost guards", seen.looks_at_lost);
    for call in history.calls.iter().filter(|call| call.locks.len() > 1) {
        match call.outcome {
            Outcome::Granted => verdict.judge(Rule::Whole, "grants of several locks"),
            Outcome::Refused(_) => verdict.judge(Rule::Whole, "refusals of several locks"),
            Outcome::Pending => {}
        }
    }
}
