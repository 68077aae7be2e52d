//! A driver that panics: an error of whoever asked for the lock, and not the end of its queue.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_lite::FutureExt;

use crate::base::error::{ErrorKind, LockError};
use crate::layout::driver::LockDriver;

/// Does work in which the driver, which may be a user's, is asked. Nobody goes on with what a panic
/// left half done: what was under way deletes itself.
///
/// # Errors
///
/// Those of the work; [`ErrorKind::InvalidOption`] if the driver panics.
pub async fn catch<T>(
    driver: &dyn LockDriver,
    work: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    let result = AssertUnwindSafe(work).catch_unwind().await;
    result.unwrap_or_else(|panic| Err(panicked(driver, &*panic)))
}

/// The error that names the driver, and what it said.
fn panicked(driver: &dyn LockDriver, panic: &(dyn Any + Send)) -> LockError {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // It may panic again.
    let name = catch_unwind(AssertUnwindSafe(|| format!("the driver {driver:?}")));
    let name = name.unwrap_or_else(|_| "the driver".to_owned());
    let said = said.unwrap_or("the panic has no message");
    tracing::error!("{name} panicked: {said}");
    LockError::new(ErrorKind::InvalidOption, format!("{name} panicked")).aside(said)
}
