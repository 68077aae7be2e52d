//! A driver that panics: an error for the caller, and not the end of the queue.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_lite::FutureExt;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::unharmed::unharmed;
use crate::layout::driver::LockDriver;

/// Runs work that calls the driver, which may be a user's. After a panic, nothing half done is used
/// any more: nodes of this work are deleted when they are dropped.
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

/// The error with the driver's name and its panic message.
fn panicked(driver: &dyn LockDriver, panic: &(dyn Any + Send)) -> LockError {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    // Asking or printing the driver may panic again.
    let name = catch_unwind(AssertUnwindSafe(|| format!("the driver {}", driver.name())));
    let name = name.unwrap_or_else(|_| "the driver".to_owned());
    let printed = catch_unwind(AssertUnwindSafe(|| format!(" ({driver:?})"))).unwrap_or_default();
    let said = said.unwrap_or("the panic has no message");
    unharmed(|| tracing::error!("{name} panicked{printed}: {said}"));
    LockError::new(ErrorKind::InvalidOption, format!("{name} panicked")).aside(said)
}
