//! Phantom nodes: nodes that a server shows and its leader does not know.
//!
//! After a crash, the data of a ZooKeeper server may differ from its leader's for good
//! ([ZOOKEEPER-5010](https://issues.apache.org/jira/browse/ZOOKEEPER-5010); seen with 3.8.0): it
//! still shows a node that the others have deleted. A server answers reads by itself, so a client
//! that waits for that node there waits for ever.

use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;

/// A node that a server shows and its leader does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhantomNode {
    /// Its path.
    pub path: String,
    /// Its czxid, because a later node may have the same path.
    pub czxid: i64,
}

impl PhantomNode {
    /// Whether a server shows it.
    ///
    /// # Errors
    ///
    /// The error of a request that the server did not answer.
    pub async fn is_shown(&self, coordinator: &dyn Coordinator) -> Result<bool, RequestError> {
        Ok(shown(coordinator.get(&self.path).await)? == Some(self.czxid))
    }
}

/// The czxid of a node that was read, if the server shows it.
///
/// # Errors
///
/// The error of a request that the server did not answer.
pub fn shown<T>(read: Result<(T, Stat), RequestError>) -> Result<Option<i64>, RequestError> {
    match read {
        Ok((_, stat)) => Ok(Some(stat.czxid)),
        Err(error) if error.is_definite() => Ok(None),
        Err(error) => Err(error),
    }
}
