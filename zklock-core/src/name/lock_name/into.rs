//! What names a lock.

use std::borrow::Cow;
use std::sync::Arc;

use super::LockName;
use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;

#[diagnostic::on_unimplemented(
    message = "`{Self}` names no lock",
    label = "this is neither text nor a `LockName`",
    note = "write `\"orders/create\"`, or with values `lock_name!(\"orders/{{id}}\")`"
)]
/// The types that name a lock: text, a [`LockName`], or the result of `lock_name!`, whose error the
/// call then returns.
///
/// Text is used as it is: with `format!`, a value may add segments. `lock_name!` escapes values.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::{LockName, lock_name};
///
/// let (id, text) = ("a/b", String::from("orders/7"));
/// let name = LockName::new("orders/create")?;
/// assert_eq!(session.mutex("orders/7")?.path(), session.mutex(&text)?.path());
/// assert_eq!(session.mutex(&name)?.path(), "/zklock/orders/create");
/// assert_eq!(session.mutex(lock_name!("orders/{id}"))?.path(), "/zklock/orders/a~2Fb");
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub trait IntoLockName: sealed::Sealed {
    /// Returns the name, or the reason why it is not accepted.
    ///
    /// ```
    /// use zklock::IntoLockName;
    ///
    /// assert_eq!("orders".into_lock_name()?.as_str(), "orders");
    /// assert!("orders//7".into_lock_name().is_err());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    fn into_lock_name(self) -> Result<LockName, LockError>;
}

mod sealed {
    /// Implemented here only.
    pub trait Sealed {}
}

macro_rules! text {
    ($($ty:ty),*) => {$(
        impl sealed::Sealed for $ty {}

        #[diagnostic::do_not_recommend]
        impl IntoLockName for $ty {
            fn into_lock_name(self) -> Result<LockName, LockError> {
                LockName::new(&self)
            }
        }
    )*};
}
text!(&str, &&str, String, &String, Cow<'_, str>, &Cow<'_, str>, Arc<str>, &Arc<str>);

impl sealed::Sealed for LockName {}

impl IntoLockName for LockName {
    fn into_lock_name(self) -> Result<LockName, LockError> {
        Ok(self)
    }
}

impl sealed::Sealed for &LockName {}

impl IntoLockName for &LockName {
    fn into_lock_name(self) -> Result<LockName, LockError> {
        Ok(self.clone())
    }
}

impl sealed::Sealed for Result<LockName, LockError> {}

impl IntoLockName for Result<LockName, LockError> {
    fn into_lock_name(self) -> Result<LockName, LockError> {
        self
    }
}
