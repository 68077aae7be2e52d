//! Phantom nodes: nodes that a server shows and its leader does not know.
//!
//! After a crash, the data of a ZooKeeper server may differ from its leader's for good
//! ([ZOOKEEPER-5010](https://issues.apache.org/jira/browse/ZOOKEEPER-5010); seen with 3.8.0): it
//! still shows a node that the others have deleted. A server answers reads by itself, so a client
//! that waits for that node there waits for ever.

use tokio::sync::watch;

use crate::base::unharmed::unharmed;
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

/// How many are remembered. A server that differs is left with the first one that is found there.
const MOST: usize = 16;

/// The phantom nodes that a session has found, on whichever connection: a server that shows one of them is not
/// used any more.
#[derive(Debug, Default)]
pub struct Phantoms(watch::Sender<Vec<PhantomNode>>);

impl Phantoms {
    /// Adds one, in the place of the oldest if there are too many.
    pub fn add(&self, phantom: &PhantomNode) {
        // Those who are woken may panic.
        unharmed(|| {
            self.0.send_if_modified(|known| {
                let is_new = !known.contains(phantom);
                if is_new {
                    known.drain(..(known.len() + 1).saturating_sub(MOST));
                    known.push(phantom.clone());
                }
                is_new
            });
        });
    }

    /// Those that are known, and the news of others.
    pub fn subscribe(&self) -> watch::Receiver<Vec<PhantomNode>> {
        self.0.subscribe()
    }
}

/// The first of these nodes that a server shows. A read that is not answered says nothing.
pub async fn shown_of<'a>(
    phantoms: &'a [PhantomNode],
    coordinator: &dyn Coordinator,
) -> Option<&'a PhantomNode> {
    for phantom in phantoms {
        if phantom.is_shown(coordinator).await == Ok(true) {
            return Some(phantom);
        }
    }
    None
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
