//! Why a run through the queue ends without the lock.

use std::sync::Arc;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::coordinator::request_error::RequestError;

/// Why one run through the queue ended without the lock.
pub(crate) enum Setback {
    /// The directory did not exist and was created.
    NoDirectory,
    /// The directory, or the node in it, was deleted by others.
    Vanished,
    /// The directory may be a container, must be replaced by a persistent one, and is in use.
    Shared,
    /// The session ended or the node was lost on the way: another attempt, which is not counted.
    Interrupted,
    /// The acquire fails.
    Failed(LockError),
}

/// The error of an acquire that does not begin again.
pub(crate) fn deleted_again(lock: &Arc<str>) -> LockError {
    let why = "others deleted the lock's directory or node again and again";
    LockError::new(ErrorKind::Unavailable, why).on(lock.clone())
}

/// The error of a request that ZooKeeper refuses for good: it is not silent.
pub(crate) fn refused(error: RequestError) -> Option<LockError> {
    match setback(error) {
        Setback::Failed(refused) => Some(refused),
        _ => None,
    }
}

/// What a failed request leads to.
pub(crate) fn setback(error: RequestError) -> Setback {
    let failed =
        |kind, detail: String| Setback::Failed(LockError::new(kind, detail).because(error.clone()));
    match &error {
        RequestError::NoNode => Setback::Vanished,
        RequestError::NoAuth | RequestError::InvalidAcl | RequestError::AuthFailed => {
            failed(ErrorKind::Unauthorized, error.in_short())
        }
        RequestError::QuotaExceeded | RequestError::TooManyNodes => {
            failed(ErrorKind::Unavailable, error.in_short())
        }
        RequestError::BadArguments(_) => failed(ErrorKind::InvalidName, error.in_short()),
        RequestError::Unimplemented | RequestError::LocalSession => {
            failed(ErrorKind::Unsupported, error.in_short())
        }
        RequestError::NoChildrenForEphemerals => failed(
            ErrorKind::InvalidName,
            "the lock's directory is an ephemeral node, which cannot have children; delete that \
             node, or use another name"
                .to_owned(),
        ),
        // Of several operations, the caller knows what it means that a node is not there.
        RequestError::Multi { error, .. } if **error != RequestError::NoNode => {
            setback((**error).clone())
        }
        _ => Setback::Interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_is_told_what_to_change() {
        let multi = |error| RequestError::Multi { index: 0, error: Box::new(error) };
        for (error, kind) in [
            (RequestError::NoAuth, ErrorKind::Unauthorized),
            (RequestError::InvalidAcl, ErrorKind::Unauthorized),
            (RequestError::BadArguments(String::new()), ErrorKind::InvalidName),
            (RequestError::Unimplemented, ErrorKind::Unsupported),
            (RequestError::LocalSession, ErrorKind::Unsupported),
            (RequestError::TooManyNodes, ErrorKind::Unavailable),
        ] {
            let told = refused(error.clone()).map(|told| told.kind());
            assert_eq!(told, Some(kind), "{error}");
            let told = refused(multi(error.clone())).map(|told| told.kind());
            assert_eq!(told, Some(kind), "several: {error}");
        }
        for error in [RequestError::NoNode, RequestError::BadVersion] {
            assert!(matches!(setback(multi(error)), Setback::Interrupted));
        }
        assert!(refused(RequestError::ConnectionLoss).is_none());
    }
}
