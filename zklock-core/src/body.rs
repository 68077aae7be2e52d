//! Running a body under a guard.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::context::{inside, inside_sync};
use crate::error::{Body, LockError};
use crate::lock::any::Guarding;

/// What happens to an async body when the lock is lost while it runs.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let locks = zklock::testing::TestLocks::install();
/// # let session = locks.session().clone();
/// use zklock::{Body, OnLost, ZkLockTemplate};
///
/// let template = ZkLockTemplate::default().on_lost(OnLost::Finish);
/// let outcome = template.execute("orders", || async { locks.lose() }).await;
/// assert!(outcome.is_err_and(|error| error.body() == Body::Finished));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
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
pub async fn run<G: Guarding, F: Future>(
    guard: &G,
    on_lost: OnLost,
    body: F,
) -> Result<F::Output, LockError> {
    let lost = |body| Err(guard.lost_error().with_body(body));
    if !guard.is_valid() {
        return lost(Body::NotStarted);
    }
    let mut body = pin!(inside(guard.frame(), body));
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
pub fn run_sync<G: Guarding, T>(guard: &G, body: impl FnOnce() -> T) -> Result<T, LockError> {
    let lost = |body| guard.lost_error().with_body(body);
    if !guard.is_valid() {
        return Err(lost(Body::NotStarted));
    }
    let output = inside_sync(guard.frame(), body);
    if guard.is_valid() { Ok(output) } else { Err(lost(Body::Finished)) }
}
