//! A trait for code that accepts any template: an object-safe part, and the methods that callers
//! use.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::base::error::LockError;
use crate::name::lock_name::{IntoLockName, LockName};
use crate::run::template::ZkLockTemplate;
use crate::session::lane::closed;

/// A boxed future, like `futures::future::BoxFuture`.
///
/// ```
/// let answer: zklock::BoxFuture<'_, u32> = Box::pin(async { 42 });
/// assert_eq!(zklock::blocking::block_on(answer), 42);
/// ```
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs bodies under locks. [`ZkLockTemplate`] is the implementation on ZooKeeper; code that
/// accepts any template can be tested with another one.
///
/// Callers use [`LockTemplateExt`], which every template implements, also as a trait object:
///
/// ```
/// # zklock::blocking::block_on(async {
/// use std::sync::Arc;
/// use zklock::{BoxFuture, LockError, LockName, LockTemplate, LockTemplateExt};
/// use zklock::{Session, ZkLockTemplate};
///
/// struct Service {
///     locks: Arc<dyn LockTemplate>,
/// }
///
/// impl Service {
///     async fn issue(&self) -> Result<u64, LockError> {
///         self.locks.execute("orderNumber", || async { 42 }).await
///     }
/// }
///
/// /// For tests of code whose locks are of no interest.
/// #[derive(Debug)]
/// struct NoLock;
///
/// impl LockTemplate for NoLock {
///     fn execute_boxed<'a>(
///         &'a self,
///         _: LockName,
///         body: BoxFuture<'a, ()>,
///     ) -> BoxFuture<'a, Result<(), LockError>> {
///         Box::pin(async { Ok(body.await) })
///     }
/// }
///
/// let production = Service { locks: Arc::new(ZkLockTemplate::new(Session::embedded())) };
/// let test = Service { locks: Arc::new(NoLock) };
/// assert_eq!(production.issue().await?, test.issue().await?);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub trait LockTemplate: fmt::Debug + Send + Sync {
    /// Runs `body` while this process holds the lock `name`, which excludes all other processes.
    /// The body must do nothing before it is polled. Callers use [`LockTemplateExt::execute`],
    /// which calls this.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{LockName, LockTemplate, Session, ZkLockTemplate};
    ///
    /// let template: &dyn LockTemplate = &ZkLockTemplate::new(Session::embedded());
    /// let mut held = false;
    /// let body = Box::pin(async { held = zklock::is_held_in_scope("orders") });
    /// template.execute_boxed(LockName::new("orders")?, body).await?;
    /// assert!(held);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The reason why the lock was not acquired, or was lost. The body did not run, unless the
    /// error is [lost](crate::base::error_kind::ErrorKind::Lost),
    /// [revoked](crate::base::error_kind::ErrorKind::Revoked) or
    /// [held for too long](crate::base::error_kind::ErrorKind::HeldTooLong), and says otherwise. An
    /// implementation that returns `Ok` has run the body to its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body, which may have taken effect, and releases the lock.
    fn execute_boxed<'a>(
        &'a self,
        name: LockName,
        body: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<(), LockError>>;
}

/// The methods of every [`LockTemplate`], for bodies with any result.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::{LockError, LockTemplate, LockTemplateExt, Session, ZkLockTemplate};
///
/// async fn issue(locks: &impl LockTemplate) -> Result<u64, LockError> {
///     locks.execute("orderNumber", || async { 42 }).await
/// }
/// assert_eq!(issue(&ZkLockTemplate::new(Session::embedded())).await?, 42);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub trait LockTemplateExt: LockTemplate {
    /// Runs `body` while the caller holds the lock `name`. The body is created only then. A result that does not
    /// count, because the lock was lost, is dropped after the release.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use zklock::{LockTemplate, LockTemplateExt, Session, ZkLockTemplate};
    ///
    /// let locks: Box<dyn LockTemplate> = Box::new(ZkLockTemplate::new(Session::embedded()));
    /// assert!(locks.execute("orders", || async { zklock::is_held_in_scope("orders") }).await?);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`execute_boxed`](LockTemplate::execute_boxed);
    /// [`InvalidName`](crate::base::error_kind::ErrorKind::InvalidName) for a name that is not accepted.
    ///
    /// # Cancel safety
    ///
    /// As [`execute_boxed`](LockTemplate::execute_boxed).
    fn execute<T, F, B>(
        &self,
        name: impl IntoLockName + Send,
        body: F,
    ) -> impl Future<Output = Result<T, LockError>> + Send
    where
        T: Send,
        F: FnOnce() -> B + Send,
        B: Future<Output = T> + Send,
    {
        async move {
            let name = name.into_lock_name().map_err(LockError::before_body)?;
            let mut result = None;
            let body = async { result = Some(body().await) };
            self.execute_boxed(name, Box::pin(body)).await?;
            // Only a template that breaks its contract has no result.
            result.ok_or_else(closed)
        }
    }

    /// Runs a `body` that returns a `Result` while the caller holds the lock `name`. Returns that
    /// result, or the lock's error converted to the body's error type.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use std::{error::Error, sync::Arc};
    /// use zklock::{LockTemplate, LockTemplateExt, Session, ZkLockTemplate};
    ///
    /// type Outcome = Result<u32, Box<dyn Error + Send + Sync>>;
    ///
    /// let locks: Arc<dyn LockTemplate> = Arc::new(ZkLockTemplate::new(Session::embedded()));
    /// let order: Outcome = locks.execute_fallible("orders", || async { Ok("42".parse()?) }).await;
    /// assert_eq!(order?, 42);
    /// # Ok::<(), Box<dyn Error + Send + Sync>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`execute`](LockTemplateExt::execute), and those of the body.
    ///
    /// # Cancel safety
    ///
    /// As [`execute_boxed`](LockTemplate::execute_boxed).
    fn execute_fallible<T, E, F, B>(
        &self,
        name: impl IntoLockName + Send,
        body: F,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send,
        E: From<LockError> + Send,
        F: FnOnce() -> B + Send,
        B: Future<Output = Result<T, E>> + Send,
    {
        async move { self.execute(name, body).await? }
    }
}

impl<L: LockTemplate + ?Sized> LockTemplateExt for L {}

impl LockTemplate for ZkLockTemplate {
    fn execute_boxed<'a>(
        &'a self,
        name: LockName,
        body: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(self.execute(name, || body))
    }
}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<L: LockTemplate + ?Sized> LockTemplate for $pointer {
            fn execute_boxed<'a>(
                &'a self,
                name: LockName,
                body: BoxFuture<'a, ()>,
            ) -> BoxFuture<'a, Result<(), LockError>> {
                (**self).execute_boxed(name, body)
            }
        }
    )*};
}

pointers!(&L, Box<L>, Arc<L>);
