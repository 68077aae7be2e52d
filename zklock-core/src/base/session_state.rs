//! The states of a session.

use std::fmt;

/// What a session can do for a lock right now.
///
/// ```
/// # let session = zklock::Session::embedded();
/// use zklock::SessionState;
///
/// let healthy = matches!(session.state(), SessionState::Connected | SessionState::Suspended);
/// assert!(healthy);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// No connection yet, or a new ZooKeeper session is being made after the last one was lost.
    Connecting,
    /// Connected, and a commit was answered lately.
    Connected,
    /// Suspect: not connected, or no commit was answered for a third of the session timeout while
    /// something is held. What is held stays held until its lease runs out, unless it
    /// [stops here](crate::base::policy::StopAt::Suspect).
    Suspended,
    /// No new grants; holders finish.
    Draining,
    /// Over.
    Closed,
}

impl SessionState {
    /// The state as one lower-case word.
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
