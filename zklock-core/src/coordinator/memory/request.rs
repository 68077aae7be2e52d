//! Requests and replies as plain values, which can wait in a queue.

use super::path;
use super::watches::WatchId;
use crate::coordinator::limits::{check_multi, check_size};
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;

/// The kinds of requests.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let store = zklock::Embedded::new();
/// # let session = zklock::Session::embedded_builder(&store).open()?;
/// use zklock::testing::Op;
///
/// store.record();
/// let _guard = session.mutex("orders")?.acquire().await?;
/// let log = store.recorded();
/// assert!(log.iter().all(|one| one.op != Op::Set && one.op != Op::Delete));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// [`Coordinator::create`](crate::coordinator::requests::Coordinator::create).
    Create,
    /// [`Coordinator::delete`](crate::coordinator::requests::Coordinator::delete).
    Delete,
    /// [`Coordinator::children`](crate::coordinator::requests::Coordinator::children), watched or not.
    Children,
    /// [`Coordinator::get`](crate::coordinator::requests::Coordinator::get), watched or not.
    Get,
    /// [`Coordinator::set`](crate::coordinator::requests::Coordinator::set).
    Set,
    /// [`Coordinator::multi`](crate::coordinator::requests::Coordinator::multi).
    Multi,
    /// [`Coordinator::sync`](crate::coordinator::requests::Coordinator::sync).
    Sync,
}

/// A request to a session. The simulation in the tests uses the same type.
#[allow(missing_docs)]
#[derive(Clone, Debug)]
pub enum Request {
    Create { path: String, data: Vec<u8>, kind: NodeKind },
    Delete { path: String },
    Children { path: String, watch: bool },
    Get { path: String, watch: bool },
    Set { path: String, data: Vec<u8> },
    Multi(Vec<Operation>),
    Sync { path: String },
}

#[derive(Debug)]
pub(super) enum Answer {
    Created(Created),
    Done,
    Children(Vec<String>, Option<WatchId>),
    Data(Vec<u8>, Stat, Option<WatchId>),
    Stat(Stat),
}

impl Answer {
    pub(super) fn watch(&self) -> Option<WatchId> {
        match self {
            Answer::Children(_, watch) | Answer::Data(_, _, watch) => *watch,
            _ => None,
        }
    }
}

impl Request {
    pub(super) fn op(&self) -> Op {
        match self {
            Request::Create { .. } => Op::Create,
            Request::Delete { .. } => Op::Delete,
            Request::Children { .. } => Op::Children,
            Request::Get { .. } => Op::Get,
            Request::Set { .. } => Op::Set,
            Request::Multi(_) => Op::Multi,
            Request::Sync { .. } => Op::Sync,
        }
    }

    /// The path, or those of a multi.
    pub(super) fn paths(&self) -> Vec<&str> {
        match self {
            Request::Create { path, .. }
            | Request::Delete { path }
            | Request::Children { path, .. }
            | Request::Get { path, .. }
            | Request::Set { path, .. }
            | Request::Sync { path } => vec![path],
            Request::Multi(operations) => operations.iter().map(target).collect(),
        }
    }

    /// Errors that the client library finds before it sends anything.
    pub fn check(&self) -> Result<(), RequestError> {
        match self {
            Request::Create { path, data, kind } => {
                check_size(path, data)?;
                check_create(path, *kind)
            }
            Request::Delete { path } => check_delete(path),
            Request::Children { path, .. } | Request::Get { path, .. } | Request::Sync { path } => {
                path::check(path, false)
            }
            Request::Set { path, data } => {
                check_size(path, data)?;
                path::check(path, false)
            }
            Request::Multi(operations) => {
                check_multi(operations)?;
                for (index, operation) in operations.iter().enumerate() {
                    check_operation(operation)
                        .map_err(|error| RequestError::Multi { index, error: Box::new(error) })?;
                }
                Ok(())
            }
        }
    }
}

/// The path that an operation is about.
pub fn target(operation: &Operation) -> &str {
    match operation {
        Operation::Check { path }
        | Operation::CheckVersion { path, .. }
        | Operation::Create { path, .. }
        | Operation::Set { path, .. }
        | Operation::Replace { path, .. }
        | Operation::Delete { path } => path,
    }
}

fn check_operation(operation: &Operation) -> Result<(), RequestError> {
    match operation {
        // The client library checks for the root only outside of a `multi`.
        Operation::Create { path, kind, .. } => {
            path::check(path, *kind == NodeKind::EphemeralSequential)
        }
        Operation::Delete { path } => check_delete(path),
        Operation::Check { path }
        | Operation::CheckVersion { path, .. }
        | Operation::Set { path, .. }
        | Operation::Replace { path, .. } => path::check(path, false),
    }
}

fn check_create(path: &str, kind: NodeKind) -> Result<(), RequestError> {
    path::check(path, kind == NodeKind::EphemeralSequential)?;
    not_root(path, "created")
}

fn check_delete(path: &str) -> Result<(), RequestError> {
    path::check(path, false)?;
    not_root(path, "deleted")
}

fn not_root(path: &str, what: &str) -> Result<(), RequestError> {
    if path == "/" {
        return Err(RequestError::BadArguments(format!("the root cannot be {what}")));
    }
    Ok(())
}
