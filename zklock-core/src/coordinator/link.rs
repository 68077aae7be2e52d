//! The link: the state of the connection to the server.

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
