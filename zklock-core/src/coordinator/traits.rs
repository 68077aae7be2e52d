//! The coordinator: what the locks need from ZooKeeper, as a trait.
//!
//! A [`Coordinator`] is one ZooKeeper session. Every method sends its request when it is called,
//! not when the returned future is first polled, so the requests of one caller go out in order, and
//! several can be in flight. Dropping a reply does not take the request back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::coordinator::access::AclEntry;

/// The reply to a request that was sent.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::{NodeKind, Reply, Created};
///
/// // Sent here, and answered later.
/// let created: Reply<Created> = server.create("/a", b"", NodeKind::Persistent);
/// assert_eq!(created.await?.path, "/a");
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
pub type Reply<T> = Pin<Box<dyn Future<Output = Result<T, RequestError>> + Send>>;

/// Resolves once, when a watch fires.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::{Watch, WatchEvent};
///
/// let (_, watch): (_, Watch) = server.children_watched("/").await?;
/// server.create("/a", b"", zklock::driver::NodeKind::Persistent).await?;
/// assert_eq!(watch.await, WatchEvent::Changed);
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
pub type Watch = Pin<Box<dyn Future<Output = WatchEvent> + Send>>;

/// The reason why a request failed.
///
/// ```
/// use zklock::driver::RequestError;
///
/// let what_next = match RequestError::NodeExists {
///     RequestError::NodeExists => "it is taken",
///     error if error.is_definite() => "it was refused",
///     _ => "it may have been applied",
/// };
/// assert_eq!(what_next, "it is taken");
/// ```
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The node, or the parent of a node to create, does not exist.
    #[error("the node does not exist")]
    NoNode,
    /// The node exists already.
    #[error("the node already exists")]
    NodeExists,
    /// The node has children.
    #[error("the node has children")]
    NotEmpty,
    /// The version is not the expected one.
    #[error("the node has another version")]
    BadVersion,
    /// The parent is ephemeral, and ephemeral nodes have no children.
    #[error("an ephemeral node cannot have children")]
    NoChildrenForEphemerals,
    /// The ACL of the node denies it.
    #[error("the node's ACL denies it")]
    NoAuth,
    /// The ACL to set was refused, for instance because the session is not authenticated.
    #[error("the ACL is invalid for this session")]
    InvalidAcl,
    /// The credentials were refused; the session is over.
    #[error("the credentials were refused")]
    AuthFailed,
    /// The quota of the path is exceeded.
    #[error("the path's quota is exceeded")]
    QuotaExceeded,
    /// The request itself is invalid.
    #[error("invalid request: {0}")]
    BadArguments(String),
    /// The server is too old to know the request.
    #[error("the server does not know the request: ZooKeeper 3.5.3 or later is needed")]
    Unimplemented,
    /// One operation of a `multi` failed, so none was applied.
    #[error("operation {index}: {error}")]
    Multi {
        /// The position of the first operation that failed, from 0.
        index: usize,
        /// The reason why it failed.
        error: Box<RequestError>,
    },
    /// The connection broke before the reply: the request may have been applied.
    #[error("the connection was lost")]
    ConnectionLoss,
    /// The session expired; its ephemeral nodes are or will be deleted.
    #[error("the ZooKeeper session expired")]
    SessionExpired,
    /// The session was closed by this client.
    #[error("the ZooKeeper session was closed")]
    Closed,
    /// No server could be reached in time.
    #[error("no server could be reached: {0}")]
    Unreachable(String),
    /// Any other error of the client library; the request may have been applied.
    #[error("{0}")]
    Other(String),
}

impl RequestError {
    /// Returns whether the server answered, so that the request has certainly not been applied.
    ///
    /// ```
    /// use zklock::driver::RequestError;
    ///
    /// assert!(RequestError::NoNode.is_definite());
    /// assert!(!RequestError::ConnectionLoss.is_definite());
    /// ```
    pub fn is_definite(&self) -> bool {
        !matches!(
            self,
            RequestError::ConnectionLoss
                | RequestError::SessionExpired
                | RequestError::Closed
                | RequestError::Unreachable(_)
                | RequestError::Other(_)
        )
    }

    /// Returns whether the session is over.
    ///
    /// ```
    /// use zklock::driver::RequestError;
    ///
    /// assert!(RequestError::SessionExpired.ends_session());
    /// assert!(!RequestError::ConnectionLoss.ends_session());
    /// ```
    pub fn ends_session(&self) -> bool {
        matches!(
            self,
            RequestError::SessionExpired | RequestError::Closed | RequestError::AuthFailed
        )
    }
}

impl RequestError {
    /// The error without servers, paths, and data written by others.
    pub(crate) fn in_short(&self) -> String {
        match self {
            RequestError::Unreachable(_) => "no server could be reached".to_owned(),
            RequestError::BadArguments(_) => "invalid request".to_owned(),
            RequestError::Other(_) => "the request failed".to_owned(),
            RequestError::Multi { error, .. } => error.in_short(),
            other => other.to_string(),
        }
    }
}

/// The kind of a node to create.
///
/// A coordinator has to know every kind: a lock whose node were created as one that stays would
/// never be free again. So a new kind is a breaking change, and the compiler names what misses it.
///
/// ```
/// use zklock::driver::{LockDriver, NodeKind};
/// use zklock::layout::{Kazoo, OneNode};
///
/// assert_eq!(Kazoo::default().directory(), NodeKind::Persistent);
/// assert_eq!(OneNode.kind(), NodeKind::Ephemeral);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Stays until it is deleted.
    Persistent,
    /// Deleted when its session ends.
    Ephemeral,
    /// Deleted when its session ends; the server appends a number of ten digits to its name.
    EphemeralSequential,
    /// Deleted by the server some time after its last child was deleted.
    Container,
}

/// The properties of a node that the server keeps.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::{NodeKind, Stat};
///
/// server.create("/a", b"", NodeKind::Persistent).await?;
/// let stat: Stat = server.set("/a", b"1").await?;
/// assert_eq!((stat.version, stat.ephemeral_owner, stat.num_children), (1, 0, 0));
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The transaction that created the node; it grows over the whole ensemble. Signed, as ZooKeeper
    /// sends it; never negative.
    pub czxid: i64,
    /// The number of times that its data changed.
    pub version: i32,
    /// The session that owns an ephemeral node, 0 for all others.
    pub ephemeral_owner: i64,
    /// The number of its children.
    pub num_children: i32,
    /// The number of times that a child was created or deleted; 0 if the node never had a child.
    pub cversion: i32,
    /// The time of its creation by the server's clock, in milliseconds since 1970.
    pub ctime: i64,
    /// The time when its data were written last, by the same clock; at first that of its creation.
    pub mtime: i64,
}

impl Stat {
    /// Returns the properties of a node that this transaction created and nothing has changed since:
    /// it is not ephemeral and has no children. Its times are 0 until they are set.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// // In a coordinator of one's own.
    /// let stat = Stat::new(41).ephemeral_owner(7).ctime(1_760_000_000_000);
    /// assert_eq!((stat.czxid, stat.ephemeral_owner, stat.version), (41, 7, 0));
    /// ```
    pub const fn new(czxid: i64) -> Self {
        Stat {
            czxid,
            version: 0,
            ephemeral_owner: 0,
            num_children: 0,
            cversion: 0,
            ctime: 0,
            mtime: 0,
        }
    }

    /// Sets the number of times that its data changed.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).version(1).version, 1);
    /// ```
    pub const fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    /// Sets the session that owns an ephemeral node.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).ephemeral_owner(7).ephemeral_owner, 7);
    /// ```
    pub const fn ephemeral_owner(mut self, ephemeral_owner: i64) -> Self {
        self.ephemeral_owner = ephemeral_owner;
        self
    }

    /// Sets the number of its children.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).num_children(2).num_children, 2);
    /// ```
    pub const fn num_children(mut self, num_children: i32) -> Self {
        self.num_children = num_children;
        self
    }

    /// Sets the number of times that a child was created or deleted.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).num_children(2).cversion(4).cversion, 4);
    /// ```
    pub const fn cversion(mut self, cversion: i32) -> Self {
        self.cversion = cversion;
        self
    }

    /// Sets the time of its creation by the server's clock, in milliseconds since 1970.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).ctime(1_760_000_000_000).ctime, 1_760_000_000_000);
    /// ```
    pub const fn ctime(mut self, ctime: i64) -> Self {
        self.ctime = ctime;
        self
    }

    /// Sets the time when its data were written last, by the same clock.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).mtime(1_760_000_000_500).mtime, 1_760_000_000_500);
    /// ```
    pub const fn mtime(mut self, mtime: i64) -> Self {
        self.mtime = mtime;
        self
    }
}

/// A node that was created.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::{Created, NodeKind};
///
/// let node: Created = server.create("/n-", b"", NodeKind::EphemeralSequential).await?;
/// assert_eq!((node.path.as_str(), node.stat.ephemeral_owner), ("/n-0000000000", server.session_id()));
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// The full path, with the sequence number of a sequential node.
    pub path: String,
    /// Its properties.
    pub stat: Stat,
}

impl Created {
    /// Returns a node that was created at this path.
    ///
    /// ```
    /// use zklock::driver::{Created, Stat};
    ///
    /// let created = Created::new("/n-0000000000", Stat::new(41).ephemeral_owner(7));
    /// assert_eq!(created.path, "/n-0000000000");
    /// ```
    pub fn new(path: impl Into<String>, stat: Stat) -> Self {
        Created { path: path.into(), stat }
    }
}

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

/// The event of a one-shot data watch.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::{NodeKind, WatchEvent};
///
/// server.create("/a", b"", NodeKind::Persistent).await?;
/// let (_, _, watch) = server.get_watched("/a").await?;
/// server.delete("/a").await?;
/// assert_eq!(watch.await, WatchEvent::Deleted);
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The node was deleted.
    Deleted,
    /// The node's data or its children changed.
    Changed,
    /// The session ended; no further event will come.
    SessionEnded,
}

/// The state of the connection, as the client library reports it. It can say "connected" for more
/// than a session timeout after the connection died, so no lock is granted because of it.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::Link;
///
/// assert_eq!(server.link(), Link::Up);
/// server.close().await;
/// assert_eq!(server.link(), Link::Closed);
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// Connected.
    Up,
    /// Not connected; the client is trying to connect.
    Down,
    /// The session is over: it expired.
    Expired,
    /// The session is over: the credentials were refused.
    AuthFailed,
    /// The session is over: this client closed it.
    Closed,
}

impl Link {
    /// Returns whether the session is over.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::Link;
    ///
    /// assert!(Link::Expired.is_over() && !Link::Down.is_over());
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    pub fn is_over(self) -> bool {
        !matches!(self, Link::Up | Link::Down)
    }
}

/// One ZooKeeper session.
///
/// Hidden methods are not part of the API: they may change in any release. Each has a default that is
/// right for every coordinator, also for one that wraps another and does not pass them on; what is lost
/// is a round trip on the embedded one.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::NodeKind;
///
/// // Both requests go out before anything is awaited.
/// let made = server.create("/a", b"1", NodeKind::Persistent);
/// let read = server.get("/a");
/// made.await?;
/// assert_eq!(read.await?.0, b"1");
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
pub trait Coordinator: Send + Sync + fmt::Debug + 'static {
    /// Returns the session's id as it was when it connected. A server may silently replace a session, so
    /// code that adopts a node compares its [`Stat::ephemeral_owner`] with that of another node of its own.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// assert_ne!(server.session_id(), 0);
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn session_id(&self) -> i64;

    /// Returns the session timeout that the server granted.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// assert_eq!(server.session_timeout(), Duration::from_secs(10));
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn session_timeout(&self) -> Duration;

    /// Creates a node. The parent must exist.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::{NodeKind, RequestError};
    ///
    /// server.create("/a", b"", NodeKind::Persistent).await?;
    /// let again = server.create("/a", b"", NodeKind::Persistent).await;
    /// assert_eq!(again, Err(RequestError::NodeExists));
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created>;

    /// Deletes a node, whatever its version.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::RequestError;
    ///
    /// assert_eq!(server.delete("/a").await, Err(RequestError::NoNode));
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn delete(&self, path: &str) -> Reply<()>;

    /// Returns the names of a node's children, in no order.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::NodeKind;
    ///
    /// server.create("/a", b"", NodeKind::Persistent).await?;
    /// assert_eq!(server.children("/").await?, ["a"]);
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn children(&self, path: &str) -> Reply<Vec<String>>;

    /// Returns the same, and sets a one-shot watch that fires when the children change or the node
    /// is deleted.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::{NodeKind, WatchEvent};
    ///
    /// let (children, watch) = server.children_watched("/").await?;
    /// server.create("/a", b"", NodeKind::Persistent).await?;
    /// assert_eq!((children.len(), watch.await), (0, WatchEvent::Changed));
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)>;

    /// Returns a node's data.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::NodeKind;
    ///
    /// server.create("/a", b"1", NodeKind::Persistent).await?;
    /// let (data, stat) = server.get("/a").await?;
    /// assert_eq!((data.as_slice(), stat.version), (&b"1"[..], 0));
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)>;

    /// Returns the same, and sets a one-shot watch that fires when the data change or the node is
    /// deleted. If the node does not exist, no watch is set.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::{NodeKind, WatchEvent};
    ///
    /// server.create("/a", b"1", NodeKind::Persistent).await?;
    /// let (_, _, watch) = server.get_watched("/a").await?;
    /// server.set("/a", b"2").await?;
    /// assert_eq!(watch.await, WatchEvent::Changed);
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)>;

    /// Returns the access control list of a node: who may do what with it. `None` if the coordinator
    /// keeps no such lists.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::NodeKind;
    ///
    /// server.create("/a", b"", NodeKind::Persistent).await?;
    /// assert_eq!(server.acl("/a").await?, None); // The embedded coordinator keeps none.
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn acl(&self, path: &str) -> Reply<Option<Vec<AclEntry>>>;

    /// Sets a node's data, whatever their version.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::RequestError;
    ///
    /// assert_eq!(server.set("/a", b"1").await, Err(RequestError::NoNode));
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat>;

    /// Applies all operations or none. This is a commit, even if all operations are checks.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::{Operation, RequestError};
    ///
    /// let checked = server.multi(vec![Operation::Check { path: "/a".to_owned() }]).await;
    /// assert!(checked.is_err_and(|error| matches!(error, RequestError::Multi { index: 0, .. })));
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn multi(&self, operations: Vec<Operation>) -> Reply<()>;

    /// Waits until the server that answers has applied everything committed before.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// server.sync("/").await?;
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn sync(&self, path: &str) -> Reply<()>;

    /// Returns the state of the connection.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// assert!(!server.link().is_over());
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn link(&self) -> Link;

    /// Resolves when [`link`](Coordinator::link) is no longer `seen`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::Link;
    ///
    /// let changed = server.link_changed(Link::Up);
    /// server.close().await;
    /// assert_eq!(changed.await, Link::Closed);
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>>;

    /// Resolves when the connection is lost at any time after this call, even if it is back before
    /// anybody looks. After a reconnect, the events of watches come in no order.
    ///
    /// By default, a coordinator is assumed to show every loss in [`link`](Coordinator::link) for
    /// long enough.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// let lost = server.link_lost();
    /// server.close().await;
    /// lost.await;
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn link_lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let changed = self.link_changed(self.link());
        Box::pin(async move {
            changed.await;
        })
    }

    /// Ends the session; the server deletes its ephemeral nodes. Requests that were sent before are
    /// answered first.
    ///
    /// If it resolves within a second and [`link`](Self::link) is [`Link::Closed`] then, the server has
    /// confirmed that the nodes are gone: a release of a lock relies on it. A coordinator that could not
    /// tell the server waits for that second.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # let store = zklock::Embedded::new();
    /// # use zklock::driver::Connector as _;
    /// # let server = store.connector(Duration::from_secs(10)).connect().await?;
    /// use zklock::driver::RequestError;
    ///
    /// server.close().await;
    /// assert_eq!(server.sync("/").await, Err(RequestError::Closed));
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Returns the time when the last commit was sent that the server has certainly received, for a
    /// coordinator that cannot lose one: the embedded one returns the present time while it is
    /// connected. `None` means that only replies to commits are evidence.
    #[doc(hidden)]
    fn last_contact(&self) -> Option<crate::base::clock::Instant> {
        None
    }
}

/// Opens ZooKeeper sessions, one after the other: the next one when the last has ended.
///
/// The futures that it and its [`Coordinator`]s return are polled on a thread of the session and on the
/// threads of callers, perhaps outside of any runtime: one that needs tokio enters a runtime itself,
/// through a `tokio::runtime::Handle`. A panic of `connect` counts as [`RequestError::Unreachable`].
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use zklock::driver::{Connector, Coordinator, Reply};
/// use zklock::{Embedded, Session};
///
/// /// Says when a session is opened.
/// #[derive(Debug)]
/// struct Loud<C>(C);
///
/// impl<C: Connector> Connector for Loud<C> {
///     fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
///         println!("a session is opened");
///         self.0.connect()
///     }
/// }
///
/// # zklock::blocking::block_on(async {
/// let loud = Loud(Embedded::new().connector(Duration::from_secs(10)));
/// let session = Session::builder_on(loud).connect().await?;
/// session.mutex("orders")?.acquire().await?.release().await?;
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub trait Connector: Send + Sync + fmt::Debug + 'static {
    /// Opens a session.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// use zklock::driver::Connector;
    ///
    /// let connector = zklock::Embedded::new().connector(Duration::from_secs(10));
    /// assert_ne!(connector.connect().await?.session_id(), connector.connect().await?.session_id());
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`RequestError::AuthFailed`], [`RequestError::BadArguments`] and [`RequestError::NoNode`]
    /// (the chroot does not exist) are final; after [`RequestError::Unreachable`] another attempt
    /// may succeed.
    fn connect(&self) -> Reply<Arc<dyn Coordinator>>;

    /// Returns whether a server may have opened a session for a `connect` that is pending. If not,
    /// the `connect` can be dropped, and no session is left behind.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use zklock::driver::Connector;
    ///
    /// let connector = zklock::Embedded::new().connector(Duration::from_secs(10));
    /// let _pending = connector.connect();
    /// assert!(connector.is_opening());
    /// ```
    fn is_opening(&self) -> bool {
        true
    }
}
