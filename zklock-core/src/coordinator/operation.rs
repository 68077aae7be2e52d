//! One operation of several that are applied together or not at all.

use crate::coordinator::node::NodeKind;
#[cfg(doc)]
use crate::coordinator::request_error::RequestError;

/// One operation of an atomic `multi`.
///
/// A coordinator has to know every operation: a write whose check were passed over would not be
/// fenced. So a new operation is a breaking change, and the compiler names what misses it.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::{NodeKind, Operation, RequestError};
///
/// let (path, data, kind) = ("/a".to_owned(), Vec::new(), NodeKind::Persistent);
/// let create = Operation::Create { path, data, kind };
/// let check = Operation::Check { path: "/b".to_owned() };
/// let refused = server.multi(vec![create, check]).await;
/// let error = Box::new(RequestError::NoNode);
/// assert_eq!(refused, Err(RequestError::Multi { index: 1, error }));
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Fails unless the node exists.
    Check {
        /// The node's path.
        path: String,
    },
    /// Fails unless the node exists and its data have this version; otherwise
    /// [`RequestError::BadVersion`].
    CheckVersion {
        /// The node's path.
        path: String,
        /// The required version; -1 for any.
        version: i32,
    },
    /// Creates a node.
    Create {
        /// The node's path.
        path: String,
        /// Its data.
        data: Vec<u8>,
        /// Its kind.
        kind: NodeKind,
    },
    /// Sets a node's data, whatever their version.
    Set {
        /// The node's path.
        path: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// Sets a node's data if they have this version; otherwise fails with
    /// [`RequestError::BadVersion`].
    Replace {
        /// The node's path.
        path: String,
        /// Its data.
        data: Vec<u8>,
        /// The required version.
        version: i32,
    },
    /// Deletes a node, whatever its version.
    Delete {
        /// The node's path.
        path: String,
    },
}
