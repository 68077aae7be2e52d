//! The kinds of failures, each with its stable code.

/// The kind of a failure.
///
/// ```
/// use zklock::{ErrorKind, LockError};
///
/// fn is_about_access(error: &LockError) -> bool {
///     matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Refused)
/// }
/// assert!(is_about_access(&LockError::new(ErrorKind::Unauthorized, "an ACL denies it")));
/// ```
///
#[doc = include_str!("../../errors.md")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Somebody else holds the lock, or is ahead in its queue. For a moment this may be a call of this
    /// process that has just been given up: until its node is deleted.
    Busy,
    /// The lease ran out, the ZooKeeper session ended, or the node was deleted.
    Lost,
    /// ZooKeeper could not be reached, or did not answer in time. Also where the session's connections have
    /// no room for another node, where a quota is used up, and where others deleted the node again and again.
    /// A fenced write that fails with it may have been applied.
    Unavailable,
    /// The session is draining or closed.
    Closing,
    /// The credentials are wrong, or an ACL denies access.
    Unauthorized,
    /// The chroot of the connect string does not exist.
    NoChroot,
    /// The lock's name is not accepted.
    InvalidName,
    /// An option or a connect string is not accepted.
    InvalidOption,
    /// No session has the requested name, and the environment describes none.
    NotConfigured,
    /// The caller would certainly wait for itself: a reader would become a writer inside its own
    /// scope, or a blocked thread would wait for a task that only this thread can run. If this is
    /// only likely, because the same task holds the lock, the acquire waits, a warning is logged
    /// after one second, and the busy error at the end says so. Also where a lock with
    /// [`reentrant`](crate::base::options::LockOptions::reentrant) off is acquired again inside its
    /// own scope, and where a writer is downgraded that a nested call, or a call around it, holds
    /// as well.
    ///
    /// A pending acquire, or a guarded body, that was polled in one task and moved to another counts
    /// for the first one until it ends: a blocking acquire of the same lock fails there, although it
    /// would not wait for itself. (For a guard that is moved there is `detach`.)
    Deadlock,
    /// The directory's sequence numbers are nearly used up.
    Exhausted,
    /// The lock's layout, the server or this runtime cannot do it.
    Unsupported,
    /// The server refused a fenced write.
    Refused,
    /// Somebody asked the holder to release the lock.
    Revoked,
    /// The lock was held for longer than
    /// [`hold_at_most`](crate::base::options::LockOptions::hold_at_most).
    HeldTooLong,
}

impl ErrorKind {
    /// Returns the stable code.
    ///
    /// ```
    /// use zklock::ErrorKind;
    ///
    /// assert_eq!(ErrorKind::Busy.code(), "1011");
    /// ```
    pub fn code(self) -> &'static str {
        self.told().0
    }

    /// Returns the kind as one lower-case word.
    ///
    /// ```
    /// use zklock::ErrorKind;
    ///
    /// assert_eq!(ErrorKind::NoChroot.as_str(), "no_chroot");
    /// ```
    pub fn as_str(self) -> &'static str {
        self.told().1
    }

    /// Its code and its word.
    fn told(self) -> (&'static str, &'static str) {
        match self {
            ErrorKind::Busy => ("1011", "busy"),
            ErrorKind::Lost => ("1012", "lost"),
            ErrorKind::Unavailable => ("1013", "unavailable"),
            ErrorKind::Closing => ("1014", "closing"),
            ErrorKind::Unauthorized => ("1015", "unauthorized"),
            ErrorKind::NoChroot => ("1016", "no_chroot"),
            ErrorKind::InvalidName => ("1017", "invalid_name"),
            ErrorKind::InvalidOption => ("1018", "invalid_option"),
            ErrorKind::NotConfigured => ("1019", "not_configured"),
            ErrorKind::Deadlock => ("1020", "deadlock"),
            ErrorKind::Exhausted => ("1021", "exhausted"),
            ErrorKind::Unsupported => ("1022", "unsupported"),
            ErrorKind::Refused => ("1023", "refused"),
            ErrorKind::Revoked => ("1024", "revoked"),
            ErrorKind::HeldTooLong => ("1025", "held_too_long"),
        }
    }
}
