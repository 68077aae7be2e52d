//! The requests: what can be asked of ZooKeeper in one session, and how it is answered.
//!
//! A [`Coordinator`] is one ZooKeeper session. Every method sends its request when it is called,
//! not when the returned future is first polled, so the requests of one caller go out in order, and
//! several can be in flight. Dropping a reply does not take the request back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::coordinator::access::AclEntry;
use crate::coordinator::link::Link;
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::watch::Watch;

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
    /// keeps no such lists. A session also calls this each twelfth of its timeout, so that it is heard: the
    /// server is asked even where it keeps none.
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

    /// Whether the session outlives a reconnect while it has watches. One that does not sets none.
    #[doc(hidden)]
    fn keeps_watches(&self) -> bool {
        true
    }
}
