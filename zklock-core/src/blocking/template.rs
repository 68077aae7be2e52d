//! The blocking twin of the template.

use crate::blocking::park::{block_on, block_on_patiently};
use crate::body::run_sync;
use crate::error::LockError;
use crate::local::wait::Wait;
use crate::lock::any::{Enter, Guarding};
use crate::template;
use crate::view::GuardView;
use crate::who::Who;

/// A [`ZkLockTemplate`](template::ZkLockTemplate) for threads.
///
/// ```
/// # fn main() -> Result<(), zklock_core::error::LockError> {
/// use zklock_core::{blocking, session::Session, template::ZkLockTemplate};
///
/// let template = blocking::ZkLockTemplate::from(ZkLockTemplate::new(Session::embedded()));
/// assert_eq!(template.execute("createOrder", || 42)?, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ZkLockTemplate(template::ZkLockTemplate);

impl From<template::ZkLockTemplate> for ZkLockTemplate {
    fn from(template: template::ZkLockTemplate) -> Self {
        ZkLockTemplate(template)
    }
}

impl ZkLockTemplate {
    /// Runs `body` while the caller holds the lock `name`.
    ///
    /// # Errors
    ///
    /// As [`ZkLockTemplate::execute`](template::ZkLockTemplate::execute). A body that is no future
    /// always finishes; if the lock was lost meanwhile, the error says so and its result is
    /// discarded.
    pub fn execute<T>(&self, name: &str, body: impl FnOnce() -> T) -> Result<T, LockError> {
        self.execute_with(name, |_| body())
    }

    /// As [`execute`](ZkLockTemplate::execute), with a view of the guard for the body.
    ///
    /// # Errors
    ///
    /// As [`execute`](ZkLockTemplate::execute).
    pub fn execute_with<T>(
        &self,
        name: &str,
        body: impl FnOnce(GuardView) -> T,
    ) -> Result<T, LockError> {
        let lock = self.0.lock(name)?;
        guarded(&lock, lock.tries(), body)
    }

    /// Runs `body` while the caller holds all the locks.
    ///
    /// # Errors
    ///
    /// As [`ZkLockTemplate::execute_all`](template::ZkLockTemplate::execute_all).
    pub fn execute_all<T>(&self, names: &[&str], body: impl FnOnce() -> T) -> Result<T, LockError> {
        let locks = self.0.locks(names)?;
        guarded(&locks, locks.tries(), |_| body())
    }
}

/// Acquires, runs the body, releases.
pub(crate) fn guarded<L: Enter, T>(
    lock: &L,
    how: Wait,
    body: impl FnOnce(GuardView) -> T,
) -> Result<T, LockError> {
    let guard = block_on_patiently(lock.name(), lock.enter(Who::thread(), how, false))?;
    let view = guard.view();
    let outcome = run_sync(&guard, lock.ends(), move || body(view));
    // The result stands whatever becomes of the release; the observer hears of that.
    let _ = block_on(guard.release()).inspect_err(|error| tracing::warn!(%error, "released"));
    outcome
}
