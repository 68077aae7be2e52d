//! The template on a blocked thread.

use crate::base::caller::Caller;
use crate::base::error::LockError;
use crate::blocking::park::{block_on, block_on_patiently};
use crate::guard::view::GuardView;
use crate::name::lock_name::IntoLockName;
use crate::run::body::run_sync;
use crate::run::entry::{Entry, Locks};
use crate::run::guarded::Entered;
use crate::run::template::ZkLockTemplate;
use crate::session::lane::closed;

impl ZkLockTemplate {
    /// Runs `body` on this thread while the caller holds the lock `name`.
    ///
    /// The body is a plain closure. A future that it returns is not run here, but by the caller,
    /// after the release: for an async body use [`execute`](ZkLockTemplate::execute).
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
    /// Those of [`execute`](ZkLockTemplate::execute). A plain body always finishes; if the lock was
    /// lost meanwhile, the error says so, and the result is discarded.
    pub fn blocking_execute<T>(
        &self,
        name: impl IntoLockName,
        body: impl FnOnce() -> T,
    ) -> Result<T, LockError> {
        self.blocking_execute_with(name, |_| body())
    }

    /// Like [`blocking_execute`](ZkLockTemplate::blocking_execute), and passes a view of the guard
    /// to the body.
    ///
    /// The body is a plain closure. A future that it returns is not run here, but by the caller,
    /// after the release: for an async body use [`execute_with`](ZkLockTemplate::execute_with).
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
        settled(body, |step| self.entry(name)?.block(step))
    }

    /// Runs a `body` that returns a `Result` on this thread while the caller holds the lock `name`.
    /// Returns that result, or the lock's error converted to the body's error type.
    ///
    /// ```
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let order: Result<u32, Box<dyn std::error::Error>> =
    ///     template.blocking_execute_fallible("createOrder", || Ok("42".parse()?));
    /// assert_eq!(order?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`blocking_execute`](ZkLockTemplate::blocking_execute), and those of the body.
    pub fn blocking_execute_fallible<T, E: From<LockError>>(
        &self,
        name: impl IntoLockName,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.blocking_execute(name, body)?
    }

    /// Runs `body` on this thread while the caller holds all the locks.
    ///
    /// The body is a plain closure. A future that it returns is not run here, but by the caller,
    /// after the release: for an async body use [`execute_all`](ZkLockTemplate::execute_all).
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let template = zklock::ZkLockTemplate::new(session);
    /// let both = ["accounts/a7", "accounts/a3"];
    /// let all_held = || both.iter().all(|name| zklock::is_held_in_scope(name));
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
        settled(|_| body(), |step| self.entry_to_all(names)?.block(step))
    }

    /// Like [`blocking_execute_all`](ZkLockTemplate::blocking_execute_all), for a body that returns
    /// a `Result`, as in [`blocking_execute_fallible`](ZkLockTemplate::blocking_execute_fallible).
    ///
    /// ```
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let none: [&str; 0] = [];
    /// let moved: Result<(), zklock::LockError> =
    ///     template.blocking_execute_all_fallible(none, || Ok(()));
    /// assert!(moved.is_err()); // There is no lock to hold.
    /// ```
    ///
    /// # Errors
    ///
    /// As [`execute_all`](ZkLockTemplate::execute_all), and those of the body.
    pub fn blocking_execute_all_fallible<T, E: From<LockError>>(
        &self,
        names: impl IntoIterator<Item = impl IntoLockName>,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.blocking_execute_all(names, body)?
    }
}

/// Runs a body if it is given the guard's view, and drops the rest of it if it is given `None`.
pub(crate) type Step<'a> = &'a mut dyn FnMut(Option<GuardView>);

/// Runs a body of a known type under the guard that `enter` acquires.
///
/// # Errors
///
/// Those of `enter`.
pub(crate) fn settled<T>(
    body: impl FnOnce(GuardView) -> T,
    enter: impl FnOnce(Step<'_>) -> Result<(), LockError>,
) -> Result<T, LockError> {
    let (mut body, mut result) = (Some(body), None);
    enter(&mut |view| {
        let body = body.take();
        result = view.and_then(|view| body.map(|body| body(view)));
    })?;
    // The body has run.
    result.ok_or_else(closed)
}

impl Entry {
    /// Acquires the lock on this thread, and lets `step` run its body. It does not depend on the
    /// type of the body, so it is compiled once, in this crate.
    ///
    /// # Errors
    ///
    /// The reason why the lock was not acquired, or was lost.
    pub(crate) fn block(self, step: Step<'_>) -> Result<(), LockError> {
        let (wait, cancel_policy) = (self.wait, self.lock.cancel_policy());
        let entered = match &self.lock {
            Locks::One(lock) => {
                let entering = lock.enter(Caller::thread(), wait, false);
                block_on_patiently(lock.name().as_str(), entering).map(Entered::One)
            }
            Locks::Several(locks) => {
                let entering = locks.enter(Caller::thread(), wait, false);
                block_on_patiently(locks.name(), entering).map(Entered::Several)
            }
        };
        let entered = entered.map_err(LockError::before_body)?;
        let view = entered.view();
        let outcome = run_sync(view, entered.frame(), cancel_policy, || step(Some(view.view())));
        if outcome.is_err() {
            step(None);
        }
        block_on(entered.release(&outcome));
        outcome
    }
}
