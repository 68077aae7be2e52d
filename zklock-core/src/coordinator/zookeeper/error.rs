//! The meaning of the client library's errors.

use zookeeper_client::{Error, MultiWriteError};

use crate::coordinator::request_error::RequestError;

/// The code with which a server refuses an ephemeral node to a local session. The client library does not know
/// it.
const EPHEMERAL_ON_LOCAL_SESSION: i32 = -120;

/// Only replies of a server are definite: every error that the client library makes itself, and
/// every unexpected one, becomes a lost connection or [`RequestError::Other`].
pub(super) fn request_error(error: Error) -> RequestError {
    match error {
        Error::NoNode => RequestError::NoNode,
        Error::NodeExists => RequestError::NodeExists,
        Error::NotEmpty => RequestError::NotEmpty,
        Error::BadVersion => RequestError::BadVersion,
        Error::NoChildrenForEphemerals => RequestError::NoChildrenForEphemerals,
        Error::NoAuth => RequestError::NoAuth,
        Error::InvalidAcl => RequestError::InvalidAcl,
        Error::AuthFailed => RequestError::AuthFailed,
        Error::QuotaExceeded => RequestError::QuotaExceeded,
        Error::BadArguments(why) => RequestError::BadArguments((*why).to_owned()),
        Error::Unimplemented => RequestError::Unimplemented,
        Error::UnexpectedErrorCode(EPHEMERAL_ON_LOCAL_SESSION) => RequestError::LocalSession,
        Error::MarshallingError => {
            RequestError::BadArguments("the server could not read the request".to_owned())
        }
        Error::ConnectionLoss => RequestError::ConnectionLoss,
        Error::SessionExpired => RequestError::SessionExpired,
        Error::ClientClosed => RequestError::Closed,
        // Timeouts, resets and other failures of a connection arrive as `Error::Custom`.
        other => RequestError::Other(other.to_string()),
    }
}

pub(super) fn multi_error(error: MultiWriteError) -> RequestError {
    match error {
        MultiWriteError::RequestFailed { source } => request_error(source),
        MultiWriteError::OperationFailed { index, source } => {
            RequestError::Multi { index, error: Box::new(request_error(source)) }
        }
    }
}

/// Whether a server has certainly answered with it. The client library makes some of the others itself.
pub(super) fn is_of_server(error: &Error) -> bool {
    use Error::{BadVersion, NoAuth, NoNode, NodeExists, NotEmpty};
    matches!(error, NoNode | NodeExists | NotEmpty | BadVersion | NoAuth)
}

/// Whether the task that serves the connection has died without a report: the reply was dropped, or
/// the request could not be sent.
pub(super) fn is_zombie(error: &Error) -> bool {
    matches!(error, Error::UnexpectedError(why)
        if why.starts_with("BUG: ") || why.starts_with("expect error state"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_of_a_server_are_definite() {
        for unknown in [
            Error::Timeout,
            Error::ConnectionLoss,
            Error::ClientClosed,
            Error::SessionExpired,
            Error::SessionMoved,
            Error::NoHosts,
            Error::UnexpectedErrorCode(-7),
            Error::UnexpectedError("?".into()),
        ] {
            assert!(!request_error(unknown.clone()).is_definite(), "{unknown}");
        }
        // It lives on, by another connection.
        assert!(!request_error(Error::SessionMoved).ends_session());
        for definite in [Error::NoNode, Error::NoAuth, Error::Unimplemented, Error::InvalidAcl] {
            assert!(request_error(definite.clone()).is_definite(), "{definite}");
        }
        let local = request_error(Error::UnexpectedErrorCode(-120));
        assert!(local == RequestError::LocalSession && local.is_definite());
        let failed = MultiWriteError::OperationFailed { index: 2, source: Error::NoNode };
        assert!(multi_error(failed).is_definite());
    }
}
