//! Faults as values: which request, and what becomes of it.

use super::request::{Op, Request};
use crate::coordinator::RequestError;

/// A fault that strikes chosen requests of one session.
///
/// Without further words it strikes the next request; [`on`](Fault::on), [`path`](Fault::path)
/// and [`skip`](Fault::skip) choose another, [`times`](Fault::times) makes it strike more than
/// once. Requests are looked at in the order in which they reach the server.
#[derive(Clone, Debug)]
pub struct Fault {
    effect: Effect,
    op: Option<Op>,
    path: Option<String>,
    skip: u64,
    times: u64,
}

/// What becomes of a request that was struck.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Refuse(RequestError),
    LoseRequest,
    LoseReply,
    CutBefore,
    CutAfter,
    Expire,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Fault { effect, op: None, path: None, skip: 0, times: 1 }
    }

    /// The server answers `error`; nothing is applied.
    pub fn refuse(error: RequestError) -> Self {
        Fault::new(Effect::Refuse(error))
    }

    /// The request is not applied and answered with a lost connection. The link stays up.
    pub fn lose_request() -> Self {
        Fault::new(Effect::LoseRequest)
    }

    /// The request is applied and answered with a lost connection. The link stays up.
    pub fn lose_reply() -> Self {
        Fault::new(Effect::LoseReply)
    }

    /// The connection breaks before the request is applied. It fails with a lost connection, those
    /// after it wait until [`Faults::reconnect`](super::Faults::reconnect).
    pub fn cut_before() -> Self {
        Fault::new(Effect::CutBefore)
    }

    /// The connection breaks after the request was applied and before its reply.
    pub fn cut_after() -> Self {
        Fault::new(Effect::CutAfter)
    }

    /// The session expires before the request is applied.
    pub fn expire() -> Self {
        Fault::new(Effect::Expire)
    }

    /// Strikes only requests of one kind.
    #[must_use]
    pub fn on(mut self, op: Op) -> Self {
        self.op = Some(op);
        self
    }

    /// Strikes only requests on paths that contain `part`.
    #[must_use]
    pub fn path(mut self, part: impl Into<String>) -> Self {
        self.path = Some(part.into());
        self
    }

    /// Lets that many matching requests pass first.
    #[must_use]
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes that many times; `u64::MAX` means for ever.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, request: &Request) -> bool {
        self.op.is_none_or(|op| op == request.op())
            && self
                .path
                .as_deref()
                .is_none_or(|part| request.paths().iter().any(|path| path.contains(part)))
    }
}

/// A request that reached the server, or was lost on its way there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The session that sent it.
    pub session: i64,
    /// Its kind.
    pub op: Op,
    /// Its path, or that of the first operation of a multi.
    pub path: String,
}

/// The faults of one session that are still to come.
#[derive(Debug, Default)]
pub(super) struct Plan {
    faults: Vec<Fault>,
}

impl Plan {
    pub(super) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.faults.clear();
    }

    /// What strikes this request: the first fault that matches and has nothing left to skip.
    pub(super) fn strike(&mut self, request: &Request) -> Option<Effect> {
        let mut effect = None;
        for fault in &mut self.faults {
            if !fault.matches(request) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 && effect.is_none() {
                effect = Some(fault.effect.clone());
                if fault.times != u64::MAX {
                    fault.times -= 1;
                }
            }
        }
        self.faults.retain(|fault| fault.times > 0);
        effect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_the_chosen_requests_only() {
        let get = |path: &str| Request::Get { path: path.into(), watch: false };
        let mut plan = Plan::default();
        plan.add(Fault::lose_reply().on(Op::Get).path("b").skip(1).times(2));
        let struck: Vec<bool> =
            ["/b", "/a", "/b", "/b", "/b"].map(|path| plan.strike(&get(path)).is_some()).into();
        assert_eq!(struck, [false, false, true, true, false]);
        assert!(plan.strike(&Request::Sync { path: "/b".into() }).is_none());
    }
}
