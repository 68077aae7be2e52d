//! Running a body under a guard.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::context::{inside, inside_sync};
use crate::error::{Body, LockError};
use crate::guard::Guard;
use crate::guard::kind::Kind;

/// What happens to an async body when the lock is lost while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnLost {
    /// It is dropped at its next await.
    #[default]
    Cancel,
    /// It may finish.
    Finish,
}

/// Runs a body in the scope of a guard and drops it, with all that it owns, before it answers. The
/// guard is still held then.
///
/// # Errors
///
/// [`Lost`](crate::error::ErrorKind::Lost), which says what became of the body. A body that
/// returned while the guard was valid keeps its result.
///
/// # Cancel safety
///
/// The body is dropped.
pub async fn run<K: Kind, F: Future>(
    guard: &Guard<K>,
    on_lost: OnLost,
    body: F,
) -> Result<F::Output, LockError> {
    let lost = |body| Err(guard.possession().lost_error().with_body(body));
    if !guard.is_valid() {
        return lost(Body::NotStarted);
    }
    let mut body = pin!(inside(Some(guard.frame()), body));
    let mut losing = pin!(guard.lost());
    poll_fn(|cx| {
        // Read before the body goes on: it may have been asleep for longer than the lease.
        if on_lost == OnLost::Cancel && !guard.is_valid() {
            return Poll::Ready(lost(Body::Dropped));
        }
        match body.as_mut().poll(cx) {
            Poll::Ready(output) if guard.is_valid() => Poll::Ready(Ok(output)),
            Poll::Ready(_) => Poll::Ready(lost(Body::Finished)),
            Poll::Pending if on_lost == OnLost::Finish => Poll::Pending,
            Poll::Pending => losing.as_mut().poll(cx).map(|()| lost(Body::Dropped)),
        }
    })
    .await
}

/// The twin of [`run`] for a body that is no future: it always finishes.
///
/// # Errors
///
/// As [`run`].
pub fn run_sync<K: Kind, T>(guard: &Guard<K>, body: impl FnOnce() -> T) -> Result<T, LockError> {
    let lost = |body| guard.possession().lost_error().with_body(body);
    if !guard.is_valid() {
        return Err(lost(Body::NotStarted));
    }
    let output = inside_sync(Some(guard.frame()), body);
    if guard.is_valid() { Ok(output) } else { Err(lost(Body::Finished)) }
}
