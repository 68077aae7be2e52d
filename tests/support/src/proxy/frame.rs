//! What the log holds.

use std::time::Instant;

use super::rule::Action;
use crate::wire::OpCode;

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Requests: from the client to the server.
    ToServer,
    /// Replies and notifications: from the server to the client.
    ToClient,
}

impl Direction {
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// One frame that arrived at the proxy.
#[derive(Clone, Debug)]
pub struct Frame {
    /// When it arrived.
    pub at: Instant,
    /// The same on the clock of [`monotonic_ns`](crate::monotonic_ns).
    pub at_ns: u64,
    /// The connection's number, from 1 on.
    pub connection: u64,
    /// The session that the connection belongs to; 0 until the server has answered the connect.
    pub session: i64,
    /// Which way it went.
    pub direction: Direction,
    /// The request's number; −1 notification, −2 ping, −4 auth, −8 watches set again.
    pub xid: i32,
    /// The operation, of a reply that of its request.
    pub opcode: OpCode,
    /// The path; the paths of a `multi` joined by commas. A reply has that of its request, but
    /// the reply to a create the path of the node that was made.
    pub path: Option<String>,
    /// Of a reply: 0 or ZooKeeper's error code.
    pub err: i32,
    /// Bytes, the length prefix included.
    pub len: usize,
    /// What a rule did to it.
    pub action: Option<Action>,
}

impl Frame {
    /// Tells whether a rule kept it from its receiver.
    pub fn was_dropped(&self) -> bool {
        matches!(self.action, Some(Action::Drop | Action::DropAndCut(_) | Action::TearAndCut(_)))
    }
}
