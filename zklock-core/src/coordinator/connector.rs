//! The connector: what opens ZooKeeper sessions.

use std::fmt;
use std::sync::Arc;

#[cfg(doc)]
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};

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
