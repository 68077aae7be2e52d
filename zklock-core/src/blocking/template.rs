//! The blocking twin of the template.

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::blocking::park::{block_on, block_on_patiently};
use crate::guard::view::GuardView;
use crate::local::wait::Wait;
use crate::lock::any::{Enter, Guarding};
use crate::name::lock_name::IntoLockName;
use crate::run::body::run_sync;
use crate::run::template;

/// A [`ZkLockTemplate`](template::ZkLockTemplate) for threads.
///
/// ```
/// use zklock::{Session, ZkLockTemplate, blocking};
///
/// let template = blocking::ZkLockTemplate::from(ZkLockTemplate::new(Session::embedded()));
/// assert_eq!(template.execute("createOrder", || 42)?, 42);
/// # Ok::<(), zklock::LockError>(())
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
    /// ```
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let template = zklock::ZkLockTemplate::new(session.clone());
    /// # let template = zklock::blocking::ZkLockTemplate::from(template);
    /// # let _held = locks.hold("createOrder")?;
    /// # let short = zklock::LockOptions::default().timeout(std::time::Duration::from_millis(20));
    /// # let template = zklock::ZkLockTemplate::default().with_options(short)?;
    /// # let template = zklock::blocking::ZkLockTemplate::from(template);
    /// let order = template.execute("createOrder", || 42);
    /// assert_eq!(order.map_err(|error| error.code()), Err("1011")); // Somebody else is at it.
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ZkLockTemplate::execute`](template::ZkLockTemplate::execute). A body that is no future
    /// always finishes; if the lock was lost meanwhile, the error says so and its result is
    /// discarded.
    pub fn execute<T>(
        &self,
        name: impl IntoLockName,
        body: impl FnOnce() -> T,
    ) -> Result<T, LockError> {
        self.execute_with(name, |_| body())
    }

    /// As [`execute`](ZkLockTemplate::execute), with a view of the guard for the body.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let template = zklock::ZkLockTemplate::new(session.clone());
    /// # let template = zklock::blocking::ZkLockTemplate::from(template);
    /// let token = template.execute_with("orders", |guard| guard.fencing_token())?;
    /// assert!(template.execute_with("orders", |guard| guard.fencing_token())? > token);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`execute`](ZkLockTemplate::execute).
    pub fn execute_with<T>(
        &self,
        name: impl IntoLockName,
        body: impl FnOnce(GuardView) -> T,
    ) -> Result<T, LockError> {
        let lock = self.0.lock(name)?;
        guarded(&lock, lock.tries(), body)
    }

    /// Runs `body` while the caller holds all the locks.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let template = zklock::ZkLockTemplate::new(session.clone());
    /// # let template = zklock::blocking::ZkLockTemplate::from(template);
    /// let both = ["accounts/a7", "accounts/a3"];
    /// let held = template.execute_all(&both, || both.iter().all(|name| zklock::is_held(name)))?;
    /// assert!(held);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ZkLockTemplate::execute_all`](template::ZkLockTemplate::execute_all).
    pub fn execute_all<T>(
        &self,
        names: impl IntoIterator<Item = impl IntoLockName>,
        body: impl FnOnce() -> T,
    ) -> Result<T, LockError> {
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
    let guard = block_on_patiently(lock.name(), lock.enter(Caller::thread(), how, false))?;
    let view = guard.view();
    let outcome = run_sync(&guard, lock.cancel_policy(), move || body(view));
    // The result stands whatever becomes of the release; the observer hears of that.
    let _ = block_on(guard.release()).inspect_err(|error| tracing::warn!(%error, "released"));
    outcome
}
