//! What the ensemble agrees on: transactions, and who may do what with a node.

use std::sync::Arc;

/// What a leader answers who hears of a session by another server than before.
pub(super) const SESSION_MOVED: &str = "SessionMoved";

use zklock_core::coordinator::node::Stat;
use zklock_core::coordinator::request_error::RequestError;

/// A path that many places know.
pub(super) type Path = Arc<str>;

/// The owner that marks a container: no session has this id.
pub(super) const CONTAINER: i64 = i64::MIN;

/// What somebody may do with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Read,
    Write,
    Create,
    Delete,
}

/// Who may do what with a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Everybody may do everything.
    #[default]
    Open,
    /// Only who has these credentials may do anything.
    Private(u32),
    /// Everybody may read, the rest is for who has these credentials.
    ReadOnly(u32),
    /// Everybody may do everything but write what it says, which is for who has these credentials.
    Kept(u32),
}

impl Access {
    pub(super) fn check(self, right: Right, credentials: Option<u32>) -> Result<(), RequestError> {
        let allowed = match self {
            Access::Open => true,
            Access::Private(owner) => credentials == Some(owner),
            Access::ReadOnly(owner) => right == Right::Read || credentials == Some(owner),
            Access::Kept(owner) => right != Right::Write || credentials == Some(owner),
        };
        if allowed { Ok(()) } else { Err(RequestError::NoAuth) }
    }
}

/// What a transaction does to the tree. It says everything, so that it does the same on every server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// `cversion` is that of the parent afterwards.
    Create {
        path: Path,
        data: Arc<[u8]>,
        owner: i64,
        access: Access,
        cversion: i32,
    },
    Delete {
        path: Path,
    },
    /// `version` is that of the node afterwards.
    Set {
        path: Path,
        data: Arc<[u8]>,
        version: i32,
    },
    Check,
    Multi(Vec<Change>),
    OpenSession {
        session: i64,
        timeout: u64,
    },
    CloseSession {
        session: i64,
        paths: Vec<Path>,
    },
    /// A write that was refused takes a number, too.
    Refused(RequestError),
}

/// Who waits for the answer to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) server: usize,
    pub(super) connection: u64,
    pub(super) xid: u64,
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub(super) struct Txn {
    pub(super) zxid: i64,
    /// The leader's wall clock, in milliseconds since 1970.
    pub(super) time: i64,
    pub(super) session: i64,
    pub(super) change: Change,
    pub(super) origin: Option<Origin>,
}

/// What a transaction gave.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Applied {
    Done,
    Created(Path, Stat),
    Stat(Stat),
    Opened(i64),
}
