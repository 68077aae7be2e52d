//! Creating a node and those above it.

use std::future::Future;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::coordinator::request_error::RequestError;
use crate::name::path::ZnodePath;

/// What became of a node that was missing.
pub(crate) enum Made {
    /// It is there.
    There,
    /// One above it was removed again in between.
    Removed,
    /// Nothing can be created: the chroot is missing.
    NoChroot,
}

/// Creates a node, and those above it that are missing. It begins with the deepest: ZooKeeper asks whether
/// a node may be created before it looks whether the node exists, and above the root that may be forbidden.
pub(crate) async fn make<'a, F>(
    path: &'a ZnodePath,
    create: impl Fn(&'a str) -> F,
) -> Result<Made, RequestError>
where
    F: Future<Output = Result<(), RequestError>>,
{
    let (all, mut missing): (Vec<_>, Vec<_>) = (path.ancestors_and_self().collect(), Vec::new());
    for path in all.iter().rev() {
        match create(path).await {
            Ok(()) | Err(RequestError::NodeExists) => break,
            Err(RequestError::NoNode) => missing.push(*path),
            Err(error) => return Err(error),
        }
    }
    if missing.len() == all.len() {
        return Ok(Made::NoChroot);
    }
    for path in missing.into_iter().rev() {
        match create(path).await {
            Ok(()) | Err(RequestError::NodeExists) => {}
            Err(RequestError::NoNode) => return Ok(Made::Removed),
            Err(error) => return Err(error),
        }
    }
    Ok(Made::There)
}

/// The error if the chroot is missing.
pub(crate) fn no_chroot() -> LockError {
    let why = "the chroot of the connect string no longer exists: create it again";
    LockError::new(ErrorKind::NoChroot, why)
}
