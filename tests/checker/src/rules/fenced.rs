//! No write of an earlier holder after one of a later holder.

use crate::history::{History, Token};
use crate::verdict::{Rule, Verdict};

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let mut by_path = vec![Vec::new(); history.paths.len()];
    for (index, write) in history.writes.iter().enumerate() {
        by_path[write.path].push((write.asked, true, index));
        by_path[write.path].push((write.done, false, index));
    }
    for (path, mut moments) in by_path.into_iter().enumerate() {
        moments.sort_by_key(|(at, begins, index)| (*at, !*begins, *index));
        let mut done: Option<Token> = None;
        for (at, begins, index) in moments {
            let token = history.writes[index].token;
            if begins && done.is_some() {
                verdict.judge(Rule::Fenced, "writes after another");
            }
            if !begins {
                done = done.max(Some(token));
            } else if let Some(done) = done.filter(|done| token < *done) {
                let (path, what) = (&history.paths[path], "was written later");
                let what = format!("{path} with {token:x?} at {at} after {done:x?} {what}");
                verdict.violated(Rule::Fenced, what);
            }
        }
    }
}
