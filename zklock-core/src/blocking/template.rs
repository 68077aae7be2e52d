//! The template on a thread.

use crate::base::error::LockError;
use crate::blocking::any::enter;
use crate::blocking::park::block_on;
use crate::guard::view::GuardView;
use crate::local::wait::Wait;
use crate::lock::any::{Enter, Guarding};
use crate::name::lock_name::IntoLockName;
use crate::run::body::run_sync;
use crate::run::template::ZkLockTemplate;

impl ZkLockTemplate {
    /// Runs `body` on this thread while the caller holds the lock `name`.
    ///
    /// ```
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let _held = locks.hold("createOrder")?;
    /// # let short = zklock::LockOptions::new().timeout(std::time::Duration::from_millis(20));
    /// # let template = zklock::ZkLockTemplate::default().with_options(short);
    /// let order = template.blocking_execute("createOrder", || 42);
    /// assert_eq!(order.map_err(|error| error.code()), Err("1011")); // Somebody else is at it.
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`execute`](ZkLockTemplate::execute). A body that is no future always finishes; if the
    /// lock was lost meanwhile, the error says so and its result is discarded.
    pub fn blocking_execute<T>(
        &self,
        name: impl IntoLockName,
        body: impl FnOnce() -> T,
    ) -> Result<T, LockError> {
        self.blocking_execute_with(name, |_| body())
    }

    /// As [`blocking_execute`](ZkLockTemplate::blocking_execute), with a view of the guard for the
    /// body.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let template = zklock::ZkLockTemplate::new(session);
    /// let token = template.blocking_execute_with("orders", |guard| guard.fencing_token())?;
    /// assert!(template.blocking_execute_with("orders", |guard| guard.fencing_token())? > token);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`blocking_execute`](ZkLockTemplate::blocking_execute).
    pub fn blocking_execute_with<T>(
        &self,
        name: impl IntoLockName,
        body: impl FnOnce(GuardView) -> T,
    ) -> Result<T, LockError> {
        let lock = self.lock(name).map_err(LockError::before_body)?;
        guarded(&lock, lock.tries(), body)
    }

    /// Runs `body` on this thread while the caller holds all the locks.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let template = zklock::ZkLockTemplate::new(session);
    /// let both = ["accounts/a7", "accounts/a3"];
    /// let all_held = || both.iter().all(|name| zklock::is_held(name));
    /// let held = template.blocking_execute_all(&both, all_held)?;
    /// assert!(held);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`execute_all`](ZkLockTemplate::execute_all).
    pub fn blocking_execute_all<T>(
        &self,
        names: impl IntoIterator<Item = impl IntoLockName>,
        body: impl FnOnce() -> T,
    ) -> Result<T, LockError> {
        let locks = self.locks(names).map_err(LockError::before_body)?;
        guarded(&locks, locks.tries(), |_| body())
    }
}

/// Acquires, runs the body, releases.
pub(crate) fn guarded<L: Enter, T>(
    lock: &L,
    how: Wait,
    body: impl FnOnce(GuardView) -> T,
) -> Result<T, LockError> {
    let guard = enter(lock, how, false).map_err(LockError::before_body)?;
    let view = guard.view();
    let outcome = run_sync(&guard, lock.cancel_policy(), move || body(view));
    // The result stands whatever becomes of the release; the observer hears of that.
    let _ = block_on(guard.release()).inspect_err(|error| tracing::warn!("released: {error:#}"));
    outcome
}

/// As [`guarded`], for a body whose type is not known here: `step(true)` runs it, `step(false)` drops
/// what is left of it.
pub(crate) fn stepwise<L: Enter>(
    lock: &L,
    how: Wait,
    step: &mut dyn FnMut(bool),
) -> Result<(), LockError> {
    let guard = enter(lock, how, false).map_err(LockError::before_body)?;
    let outcome = run_sync(&guard, lock.cancel_policy(), || step(true));
    if outcome.is_err() {
        step(false);
    }
    let _ = block_on(guard.release()).inspect_err(|error| tracing::warn!("released: {error:#}"));
    outcome
}
