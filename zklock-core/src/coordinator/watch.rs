//! A watch: what the server tells of a node once, without being asked again.

use std::future::Future;
use std::pin::Pin;

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
