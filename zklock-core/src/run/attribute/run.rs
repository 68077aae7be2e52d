//! Running the body of a guarded function.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::call::{Call, Entry, Locks};
use crate::base::error::LockError;
use crate::run::kept::Keep;
use crate::run::template;

/// Gives async blocks their type; never called.
pub fn never<T>() -> T {
    unreachable!("generated code never calls this")
}

/// Runs an async body under the lock, and empties its place, with all that the body owns, before
/// the release. It is `Send` if the body is and what it keeps.
///
/// The lock is made before there is a future: so this holds the lock, and not also what it is made
/// of.
pub fn run<T, E, K, F>(
    mut call: Call,
    failed: E,
    keep: K,
    body: Pin<&mut Option<F>>,
) -> impl Future<Output = T> + use<'_, T, E, K, F>
where
    E: FnOnce(LockError) -> T,
    K: Keep<T>,
    F: Future<Output = T>,
{
    let body = Emptied(body);
    let entry = call.entry();
    async move {
        let guarded = match entry {
            None => return body.await,
            Some(Err(error)) => Err(error),
            Some(Ok(Entry { lock: Locks::One(lock), how })) => {
                template::guarded(&lock, how, keep, |_| body).await
            }
            // In a place of its own, so that the future of one lock stays small.
            Some(Ok(Entry { lock: Locks::Several(locks), how })) => {
                Box::pin(async move { template::guarded(&locks, how, keep, |_| body).await }).await
            }
        };
        guarded.unwrap_or_else(failed)
    }
}

/// The place of a body, empty when this is dropped.
struct Emptied<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Drop for Emptied<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl<F: Future> Future for Emptied<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.0.as_mut().as_pin_mut() {
            Some(body) => body.poll(cx),
            // The place is filled until this is dropped.
            None => Poll::Pending,
        }
    }
}

/// Runs a plain body under the lock.
#[cfg(feature = "blocking")]
pub fn run_blocking<T, E, B>(mut call: Call, failed: E, body: B) -> T
where
    E: FnOnce(LockError) -> T,
    B: FnOnce() -> T,
{
    let Some(entry) = call.entry() else { return body() };
    let guarded = || {
        let Entry { lock, how } = entry?;
        match lock {
            Locks::One(lock) => crate::blocking::template::guarded(&lock, how, |_| body()),
            Locks::Several(locks) => crate::blocking::template::guarded(&locks, how, |_| body()),
        }
    };
    guarded().unwrap_or_else(failed)
}
