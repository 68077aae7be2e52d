//! Running the body of a guarded function.

use std::future::Future;
use std::pin::Pin;

use super::call::Call;
use crate::base::error::LockError;
use crate::run::guarded_call::GuardedCall;
use crate::run::kept::Keep;

/// Gives async blocks their type; never called.
pub fn never<T>() -> T {
    unreachable!("generated code never calls this")
}

/// Names what a function returns: `!` cannot be written as the type of anything else.
pub trait Returns {
    /// What it returns.
    type Output;
}

impl<T> Returns for fn() -> T {
    type Output = T;
}

/// Runs an async body under the lock, and empties its place, with all that the body owns, before
/// the release. It is `Send` if the body is and what it keeps.
pub fn run<T, E, K, F>(
    mut call: Call,
    failed: E,
    _: K,
    body: Pin<&mut Option<F>>,
) -> GuardedCall<'_, T, E, K, F>
where
    E: FnOnce(LockError) -> T,
    K: Keep<T>,
    F: Future<Output = T>,
{
    GuardedCall::new(call.guarded(), failed, body)
}

/// Runs a plain body under the lock.
#[cfg(feature = "blocking")]
pub fn run_blocking<T, E, B>(mut call: Call, failed: E, body: B) -> T
where
    E: FnOnce(LockError) -> T,
    B: FnOnce() -> T,
{
    use crate::blocking::template::settled;

    let Some(entry) = call.entry() else { return body() };
    settled(|_| body(), |step| entry?.block(step)).unwrap_or_else(failed)
}
