//! Permits that are split off: of one hold there are two, both since the grant.

use std::iter::once;

use super::{History, token};
use crate::calls::Call;
use crate::line::{Answer, Request};
use crate::verdict::Rule;

impl History {
    pub(super) fn split(&mut self, client: usize, asked: u64, request: &Request, answer: &Answer) {
        let Some(rest) = self.holds_of(client, request.handle.unwrap_or_default()).next() else {
            return;
        };
        let token = token(answer.token.as_deref().unwrap_or_default());
        let (Some(token), Some(handle), Some(path)) = (token, answer.handle, &answer.path) else {
            let what = format!("{}: a split without token, handle or path", self.clients[client]);
            return self.violated(Rule::Format, what);
        };
        // The agent splits only what is valid, and so it was until that was asked for.
        if self.holds[rest].lost.is_some() {
            let what = self.describe(rest, "was lost, and was split");
            self.violated(Rule::Lost, what);
        }
        self.claim(rest, asked);
        let permits = request.permits.unwrap_or(1);
        let whole = self.holds[rest].split_from.unwrap_or(rest);
        let mut part = self.holds[rest].clone();
        (part.permits.0, part.split_from) = (permits, Some(whole));
        (part.handle, part.token, part.nodes) = (handle, token, vec![path.clone()]);
        let left = &mut self.holds[rest].permits.0;
        *left = left.saturating_sub(permits);
        let first = self.holds.len();
        self.holds.push(part);
        self.keep(client, handle, first);
        self.parts.entry(whole).or_default().push(first);
    }

    /// What a call brought, or wanted: how many permits, and when they were surely given back. Of what was
    /// split, each part.
    pub(crate) fn pieces(&self, call: &Call) -> impl Iterator<Item = (u32, u64)> {
        let wanted = call.hold.is_none().then_some((call.permits.0, call.heard));
        let held = call.hold.into_iter().flat_map(|hold| {
            let parts = self.parts.get(&hold).into_iter().flatten();
            once(hold).chain(parts.copied()).map(|piece| {
                let piece = &self.holds[piece];
                (piece.permits.0, piece.released.unwrap_or(u64::MAX))
            })
        });
        wanted.into_iter().chain(held)
    }
}
