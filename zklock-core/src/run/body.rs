//! Running a body under a guard.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::task::Poll;

use crate::base::cancel_policy::{CancelPolicy, OnLost, OnRevoked};
use crate::base::error::{Body, LockError};
use crate::guard::context::{inside, inside_sync};
use crate::guard::view::GuardView;
use crate::lock::any::Guarding;

/// Runs a body in the scope of a guard and drops it, with all that it owns, before it answers. The
/// guard is still held then.
///
/// # Errors
///
/// [`Lost`](crate::base::error::ErrorKind::Lost) and [`Revoked`](crate::base::error::ErrorKind::Revoked), which
/// say what became of the body. A body that returned while the guard was valid keeps its result,
/// revoked or not.
///
/// # Cancel safety
///
/// The body is dropped.
pub async fn run<G: Guarding, F: Future>(
    guard: &G,
    cancel_policy: CancelPolicy,
    body: F,
) -> Result<F::Output, LockError> {
    may_begin(guard, cancel_policy)?;
    let mut body = pin!(inside(guard.frame(), body));
    let mut ending = pin!(guard.ended(cancel_policy));
    let mut begun = false;
    poll_fn(|cx| {
        // Asked before the body goes on: it may have been asleep for longer than the lease.
        if mem::replace(&mut begun, true)
            && let Some(error) = over(guard, cancel_policy)
        {
            return Poll::Ready(Err(error.with_body(Body::Dropped)));
        }
        match body.as_mut().poll(cx) {
            Poll::Ready(output) if guard.is_valid() => Poll::Ready(Ok(output)),
            Poll::Ready(_) => Poll::Ready(Err(guard.lost_error().with_body(Body::Finished))),
            Poll::Pending if !cancel_policy.any() => Poll::Pending,
            Poll::Pending => ending.as_mut().poll(cx).map(|()| {
                let error = over(guard, cancel_policy).unwrap_or_else(|| guard.lost_error());
                Err(error.with_body(Body::Dropped))
            }),
        }
    })
    .await
}

/// The twin of [`run`] for a body that is no future: it always finishes if it begins.
///
/// # Errors
///
/// As [`run`].
pub fn run_sync<G: Guarding, T>(
    guard: &G,
    cancel_policy: CancelPolicy,
    body: impl FnOnce() -> T,
) -> Result<T, LockError> {
    may_begin(guard, cancel_policy)?;
    let output = inside_sync(guard.frame(), body);
    if guard.is_valid() { Ok(output) } else { Err(guard.lost_error().with_body(Body::Finished)) }
}

/// A body that may finish once it runs still does not begin without the lock.
///
/// # Errors
///
/// As [`run`], with [`Body::NotStarted`].
pub fn may_begin(view: &GuardView, cancel_policy: CancelPolicy) -> Result<(), LockError> {
    let cancel_policy = CancelPolicy { lost: OnLost::Cancel, ..cancel_policy };
    over(view, cancel_policy).map_or(Ok(()), |error| Err(error.with_body(Body::NotStarted)))
}

/// What ends the body now. A lock that is lost and revoked is lost.
pub fn over(view: &GuardView, cancel_policy: CancelPolicy) -> Option<LockError> {
    if cancel_policy.lost == OnLost::Cancel && !view.is_valid() {
        Some(view.lost_error())
    } else if cancel_policy.revoked == OnRevoked::Cancel && view.is_revoked() {
        Some(view.revoked_error())
    } else {
        None
    }
}
