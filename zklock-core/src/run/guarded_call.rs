//! Running a body of a known type under a lock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::base::error::LockError;
use crate::run::guarded::{ErasedBody, Guarded, Place, Step};
use crate::run::kept::Keep;

/// The future of a guarded function, or of a call of the template. Everything except polling the
/// body is done by [`Guarded`], which does not depend on the body's type.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct GuardedCall<'a, T, E, K: Keep<T>, F> {
    /// `None` if the condition of the attribute is false.
    lock: Option<Guarded>,
    body: Body<'a, F>,
    /// The part of the result that waits for the release.
    kept: Option<K::Part>,
    failed: Option<E>,
}

impl<'a, T, E, K: Keep<T>, F> GuardedCall<'a, T, E, K, F> {
    /// Runs the body in a place, and empties the place before the release.
    pub fn new(lock: Option<Guarded>, failed: E, body: Pin<&'a mut Option<F>>) -> Self {
        GuardedCall { lock, body: Body(body), kept: None, failed: Some(failed) }
    }
}

impl<T, E, K: Keep<T>, F> std::fmt::Debug for GuardedCall<'_, T, E, K, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardedCall").field("lock", &self.lock).finish_non_exhaustive()
    }
}

// Only the body is pinned, and it is elsewhere.
impl<T, E, K: Keep<T>, F> Unpin for GuardedCall<'_, T, E, K, F> {}

impl<T, E, K, F> Future for GuardedCall<'_, T, E, K, F>
where
    E: FnOnce(LockError) -> T,
    K: Keep<T>,
    F: Future<Output = T>,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let Some(lock) = &mut this.lock else { return this.body.poll(cx) };
        loop {
            let mut body = Running { body: &mut this.body, result: None };
            match ready!(lock.poll(cx, &mut body)) {
                Step::Returned => match body.result.map(K::part) {
                    Some(Ok(part)) => {
                        this.kept = Some(part);
                        lock.leave(Ok(()));
                    }
                    Some(Err(result)) => {
                        this.lock = None;
                        return Poll::Ready(result);
                    }
                    // The body has returned, so there is a result.
                    None => return Poll::Pending,
                },
                Step::Over(Ok(())) => match this.kept.take() {
                    Some(part) => return Poll::Ready(K::whole(part)),
                    None => return Poll::Pending,
                },
                Step::Over(Err(error)) => match this.failed.take() {
                    Some(failed) => return Poll::Ready(failed(error)),
                    None => return Poll::Pending,
                },
            }
        }
    }
}

impl<T, E, K: Keep<T>, F> Drop for GuardedCall<'_, T, E, K, F> {
    fn drop(&mut self) {
        match &mut self.lock {
            Some(lock) => lock.drop_body(&mut self.body),
            None => self.body.empty(),
        }
    }
}

/// The place of a body.
struct Body<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Place for Body<'_, F> {
    fn empty(&mut self) {
        self.0.set(None);
    }
}

impl<F: Future> Body<'_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.0.as_mut().as_pin_mut() {
            Some(body) => body.poll(cx),
            // It is filled until the body has returned.
            None => Poll::Pending,
        }
    }
}

/// A body, and its result when it has returned.
struct Running<'r, 'a, F: Future> {
    body: &'r mut Body<'a, F>,
    result: Option<F::Output>,
}

impl<F: Future> Place for Running<'_, '_, F> {
    fn empty(&mut self) {
        self.body.empty();
    }
}

impl<F: Future> ErasedBody for Running<'_, '_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.body.poll(cx).map(|result| self.result = Some(result))
    }

    fn discard(&mut self) {
        self.result = None;
    }
}
