//! Why a request failed.

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
    /// The ACL of the node, or of the one above it, denies it.
    #[error(
        "an ACL denies it: compare the session's credentials with `getAcl` of the path, and of \
         those above it"
    )]
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
    /// The server knows the session alone, and such a session has no ephemeral nodes.
    #[error(
        "the server opens local sessions, which cannot have ephemeral nodes: it needs \
         localSessionsUpgradingEnabled=true"
    )]
    LocalSession,
    /// The nodes of this session take as many bytes as servers bear at its end, so this one was not asked for.
    #[error(
        "this connection has no room for another node: release locks, or raise `max_connections`"
    )]
    TooManyNodes,
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
    /// The error without servers, paths, data written by others, and advice.
    pub(crate) fn in_short(&self) -> String {
        match self {
            RequestError::Unreachable(_) => "no server could be reached".to_owned(),
            RequestError::NoAuth => "an ACL denies it".to_owned(),
            RequestError::BadArguments(_) => "invalid request".to_owned(),
            RequestError::Other(_) => "the request failed".to_owned(),
            RequestError::Multi { error, .. } => error.in_short(),
            other => other.to_string(),
        }
    }
}
