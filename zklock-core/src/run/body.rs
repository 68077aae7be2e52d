//! Running a body under a guard.

use std::sync::Arc;

use crate::base::cancel_policy::{CancelPolicy, OnLost, OnRevoked};
use crate::base::error::{Body, LockError};
use crate::guard::context::{Frame, inside_sync};
use crate::guard::view::GuardView;

/// Runs a plain body in the scope of a guard. Once it has begun, it finishes.
///
/// # Errors
///
/// [`Lost`](crate::base::error_kind::ErrorKind::Lost) and
/// [`Revoked`](crate::base::error_kind::ErrorKind::Revoked), which say what happened to the body. If the
/// body returned while the guard was valid, its result is kept, even if the lock was revoked.
pub fn run_sync<T>(
    guard: &GuardView,
    frame: Option<Arc<Frame>>,
    cancel_policy: CancelPolicy,
    body: impl FnOnce() -> T,
) -> Result<T, LockError> {
    may_begin(guard, cancel_policy)?;
    let output = inside_sync(frame, body);
    if guard.is_valid() { Ok(output) } else { Err(guard.lost_error().with_body(Body::Finished)) }
}

/// Checks that the lock is held. A body that may finish after a loss does not begin without the
/// lock either.
///
/// # Errors
///
/// As [`run_sync`], with [`Body::NotStarted`].
pub fn may_begin(view: &GuardView, cancel_policy: CancelPolicy) -> Result<(), LockError> {
    let cancel_policy = CancelPolicy { lost: OnLost::Cancel, ..cancel_policy };
    over(view, cancel_policy).map_or(Ok(()), |error| Err(error.with_body(Body::NotStarted)))
}

/// What ends the body now. A lock that is both lost and revoked counts as lost.
pub fn over(view: &GuardView, cancel_policy: CancelPolicy) -> Option<LockError> {
    if cancel_policy.lost == OnLost::Cancel && !view.is_valid() {
        Some(view.lost_error())
    } else if let Some(error) = view.over_time_error() {
        // Also where the lock was lost before: the body was to finish.
        Some(error)
    } else if cancel_policy.revoked == OnRevoked::Cancel && view.is_revoked() {
        Some(view.revoked_error())
    } else {
        None
    }
}
