//! What travels: between clients and servers, and between servers.

use std::sync::Arc;

use zklock_core::coordinator::memory::shared::Request;
use zklock_core::coordinator::node::{Created, Stat};
use zklock_core::coordinator::request_error::RequestError;

use super::prepare::{Author, Write};
use super::txn::{Access, Origin, Path, Txn};
use super::watches::{Aspect, Notice, WatchList};

/// From a client to its server.
#[derive(Clone, Debug)]
pub(super) enum ToServer {
    /// The connection, which TCP makes before anything is said.
    Dial,
    Connect(Hello),
    SetWatches(WatchList),
    Request(u64, Request),
    /// `None`: whatever is watched there.
    RemoveWatches(u64, Path, Option<Aspect>),
    Ping,
    Close(u64),
    /// The client has closed the connection.
    End,
}

/// How a client introduces itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hello {
    /// 0 for a new one.
    pub(super) session: i64,
    pub(super) seen: i64,
    pub(super) timeout: u64,
    pub(super) credentials: Option<u32>,
    pub(super) access: Access,
}

/// From a server to a client.
#[derive(Clone, Debug)]
pub(super) enum ToClient {
    Accepted,
    /// There is no such session where `session` is 0.
    Connected {
        session: i64,
        timeout: u64,
    },
    Reply {
        xid: u64,
        zxid: i64,
        answer: Result<Answer, RequestError>,
    },
    Notice(Notice, Path),
    WatchesSet {
        zxid: i64,
    },
    Pong,
    /// The server has closed the connection in an orderly way.
    End,
    /// The connection is broken.
    Reset,
}

/// A successful answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Created(Created),
    Done,
    Children(Vec<String>),
    Data(Vec<u8>, Stat),
    Stat(Stat),
}

/// From server to server.
#[derive(Clone, Debug)]
pub(super) enum ToPeer {
    /// A follower passes a write on.
    Forward(Author, Write, Option<Origin>),
    Propose(Arc<Txn>),
    Logged(i64),
    Commit(i64),
    Sync(Origin),
    Synced(Origin),
    Ping,
    /// The sessions that were heard of.
    Pong(Vec<i64>),
    Revalidate {
        session: i64,
        connection: u64,
    },
    Revalidated {
        session: i64,
        connection: u64,
        valid: bool,
    },
}
