//! Rules on frames.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::frame::{Direction, Frame};
use super::state::Shared;
use crate::wire::OpCode;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// In order: the other side reads the end of the stream.
    Fin,
    /// At once: the other side gets "connection reset by peer".
    Reset,
}

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Forwards it. For counting and waiting: see [`Rule`].
    Pass,
    /// Swallows it; the connection goes on.
    Drop,
    /// Swallows it and cuts the connection on both sides.
    ///
    /// On a request: it was never applied. On a reply: the request was applied for sure, and the
    /// client does not know.
    DropAndCut(Cut),
    /// Forwards it and then cuts the connection. The frame arrives first.
    ///
    /// On a request: the server gets it and applies it, but perhaps only after the client has
    /// come back. On a reply: the client knows, and is disconnected.
    ForwardAndCut(Cut),
    /// Forwards the first half of it and then cuts the connection: a frame that is torn.
    TearAndCut(Cut),
    /// Holds it, and all behind it in its direction, until [`Rule::release`].
    Hold,
    /// Holds it, and all behind it in its direction, for a time.
    Delay(Duration),
}

/// Which frames a rule is for.
///
/// ```
/// use zklock_test_support::{Matcher, OpCode};
///
/// // The reply to the second create below /locks/a.
/// let matcher = Matcher::reply(OpCode::Create).or(OpCode::Create2).path("/locks/a/").nth(2);
/// # drop(matcher);
/// ```
#[derive(Clone, Debug)]
pub struct Matcher {
    direction: Direction,
    opcodes: Vec<OpCode>,
    path: Option<String>,
    session: Option<i64>,
    err: Option<i32>,
    skip: u64,
    take: u64,
}

impl Matcher {
    /// Matches all frames of a direction, pings and connects included.
    pub fn any(direction: Direction) -> Self {
        Self {
            direction,
            opcodes: Vec::new(),
            path: None,
            session: None,
            err: None,
            skip: 0,
            take: u64::MAX,
        }
    }

    /// Matches requests of an operation.
    pub fn request(opcode: OpCode) -> Self {
        Self::any(Direction::ToServer).or(opcode)
    }

    /// Matches replies to requests of an operation.
    pub fn reply(opcode: OpCode) -> Self {
        Self::any(Direction::ToClient).or(opcode)
    }

    /// Matches watch notifications.
    pub fn notification() -> Self {
        Self::reply(OpCode::Notification)
    }

    /// Matches frames of this operation too.
    pub fn or(mut self, opcode: OpCode) -> Self {
        self.opcodes.push(opcode);
        self
    }

    /// Only frames whose path contains this text; see [`Frame::path`].
    pub fn path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    /// Only frames of this session.
    pub fn session(mut self, id: i64) -> Self {
        self.session = Some(id);
        self
    }

    /// Only replies with this error code; 0 is success.
    pub fn err(mut self, code: i32) -> Self {
        self.err = Some(code);
        self
    }

    /// Only the n-th frame that fits, counting from 1 when the rule is made.
    pub fn nth(self, n: u64) -> Self {
        assert!(n > 0, "the first is 1");
        self.after(n - 1).first(1)
    }

    /// Only the first n frames that fit.
    pub fn first(mut self, n: u64) -> Self {
        self.take = n;
        self
    }

    /// Only frames after the first n that fit.
    pub fn after(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    fn fits(&self, frame: &Frame) -> bool {
        let path = || frame.path.as_deref().unwrap_or_default();
        self.direction == frame.direction
            && (self.opcodes.is_empty() || self.opcodes.contains(&frame.opcode))
            && self.path.as_ref().is_none_or(|part| path().contains(part.as_str()))
            && self.session.is_none_or(|id| id == frame.session)
            && self.err.is_none_or(|code| code == frame.err)
    }
}

/// A rule as the proxy keeps it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) action: Action,
    pub(super) hits: u64,
    pub(super) refuses: bool,
    matcher: Matcher,
    seen: u64,
}

impl Entry {
    pub(super) fn new(id: u64, matcher: Matcher, action: Action, refuses: bool) -> Self {
        Self { id, action, hits: 0, refuses, matcher, seen: 0 }
    }

    /// Counts the frame where it fits, and tells whether the action is due.
    pub(super) fn applies(&mut self, frame: &Frame) -> bool {
        if !self.matcher.fits(frame) {
            return false;
        }
        self.seen += 1;
        let nth = self.seen - self.matcher.skip.min(self.seen);
        let due = nth > 0 && nth <= self.matcher.take;
        self.hits += u64::from(due);
        due
    }
}

/// A rule that the proxy follows, also after this value is dropped.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
}

impl Rule {
    /// Returns how many frames the rule was applied to.
    pub fn hits(&self) -> u64 {
        self.shared.lock().hits(self.id)
    }

    /// Waits until the rule was applied `n` times; false when it was not within `limit`.
    #[must_use = "false means that it did not happen"]
    pub fn wait(&self, n: u64, limit: Duration) -> bool {
        let done = |hits| if hits >= n { Some(()) } else { None };
        let deadline = Some(Instant::now() + limit);
        self.shared.wait_until(deadline, |state| done(state.hits(self.id))).is_some()
    }

    /// Ends the rule and lets go what it held.
    pub fn release(&self) {
        self.shared.update(|state| state.remove_rule(self.id));
    }
}
