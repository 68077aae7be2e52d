//! The states of a session.

use std::fmt;

/// The state of a session: what it can do for a lock at present. For health checks use
/// [`Session::is_ready`](crate::session::Session::is_ready).
///
/// ```
/// # let session = zklock::Session::embedded();
/// use zklock::SessionState;
///
/// assert_eq!(session.state(), SessionState::Connected);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// Not yet connected; or opening a new ZooKeeper session, after the last one ended or is no
    /// longer used for new locks (the server refused a deletion, or differs from its leader). What is
    /// held in one that is only no longer used stays held.
    Connecting,
    /// Connected, and a write was answered within the last third of the session timeout, if a lock
    /// is held.
    Connected,
    /// Suspect: not connected, or, while a lock is held, no write was answered for a third of the
    /// session timeout. Held locks stay held until their lease runs out, unless they
    /// [stop at this point](crate::base::policy::StopAt::Suspect).
    Suspended,
    /// No lock is granted any more; holders may finish.
    Draining,
    /// The session is closed.
    Closed,
}

impl SessionState {
    /// Returns the state as one lower-case word.
    ///
    /// ```
    /// use zklock::SessionState;
    ///
    /// assert_eq!(SessionState::Suspended.as_str(), "suspended");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            SessionState::Connecting => "connecting",
            SessionState::Connected => "connected",
            SessionState::Suspended => "suspended",
            SessionState::Draining => "draining",
            SessionState::Closed => "closed",
        }
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
