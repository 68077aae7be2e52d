//! What a function returns when its lock could not be acquired.

use crate::base::error::LockError;
use crate::base::unharmed::unharmed;

/// A result that can contain a `LockError`.
#[diagnostic::on_unimplemented(
    message = "a function guarded by #[zk_locked] must be able to return a LockError",
    label = "this type cannot contain a LockError",
    note = "return `Result<_, E>` with `E: From<zklock::LockError>`, or say what its error is: `map_err = ApiError::Lock`, or what it returns: `on_error = |error| …`",
    note = "if there is nothing to do while somebody else holds the lock: `on_busy = skip`"
)]
pub trait FromLockError {
    /// The result of a function whose lock could not be acquired.
    fn from_lock_error(error: LockError) -> Self;
}

// So that the message above is shown, and not one about `From`.
#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

/// A result with an error, for `map_err`.
#[diagnostic::on_unimplemented(
    message = "`map_err` is for a function that returns a `Result`",
    label = "this has no error",
    note = "otherwise say what to return: `on_error = |error| …`"
)]
pub trait MapError<E> {
    /// The result with this error.
    fn from_error(error: E) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E> MapError<E> for Result<T, E> {
    fn from_error(error: E) -> Self {
        Err(error)
    }
}

/// Makes the result of a function from what `map` makes of the error. Of the result nothing is asked
/// here, so that a function without an error is told once.
pub fn map_err<T, E, M>(map: M, into: fn(E) -> T) -> impl FnOnce(LockError) -> T
where
    M: FnOnce(LockError) -> E,
{
    move |error| into(map(error))
}

/// A result that has an empty value, for `on_busy = skip` beside `map_err` or `on_error`, where
/// its error need not be made of a `LockError`.
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` needs a return type with an empty value",
    label = "this type has no empty value",
    note = "`()`, `Option<_>`, `Result<(), _>` and `Result<Option<_>, _>` have one; otherwise say what to return: `on_busy = |error| …`"
)]
pub trait SkipBusy {
    /// The result of a function whose lock was busy.
    fn skip(error: LockError) -> Self;
}

impl SkipBusy for () {
    fn skip(error: LockError) {
        unharmed(|| tracing::debug!("skipped: {error:#}"));
    }
}

impl<T> SkipBusy for Option<T> {
    fn skip(error: LockError) -> Self {
        <() as SkipBusy>::skip(error);
        None
    }
}

#[diagnostic::do_not_recommend]
impl<E> SkipBusy for Result<(), E> {
    fn skip(error: LockError) -> Self {
        <() as SkipBusy>::skip(error);
        Ok(())
    }
}

#[diagnostic::do_not_recommend]
impl<T, E> SkipBusy for Result<Option<T>, E> {
    fn skip(error: LockError) -> Self {
        <() as SkipBusy>::skip(error);
        Ok(None)
    }
}

/// The same, which also has something for every other failure, for `on_busy = skip` alone.
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` needs a return type with an empty value",
    label = "this type has no empty value",
    note = "`()` and `Option<_>` have one, and so have `Result<(), E>` and `Result<Option<_>, E>` with `E: From<zklock::LockError>` or a `map_err`; otherwise say what to return: `on_busy = |error| …`"
)]
pub trait Skip: SkipBusy + Sized {
    /// The result of a function whose lock was busy.
    fn skip(error: LockError) -> Self {
        SkipBusy::skip(error)
    }

    /// The result of a function that failed for another reason.
    fn fail(error: LockError) -> Self;
}

impl Skip for () {
    fn fail(error: LockError) {
        swallowed(&error);
    }
}

impl<T> Skip for Option<T> {
    fn fail(error: LockError) -> Self {
        swallowed(&error);
        None
    }
}

#[diagnostic::do_not_recommend]
impl<E: From<LockError>> Skip for Result<(), E> {
    fn fail(error: LockError) -> Self {
        Err(error.into())
    }
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> Skip for Result<Option<T>, E> {
    fn fail(error: LockError) -> Self {
        Err(error.into())
    }
}

/// Nobody else is told.
fn swallowed(error: &LockError) {
    let code = error.code();
    unharmed(|| {
        tracing::error!(code, "a guarded function that returns no error failed: {error:#}");
    });
}

/// Makes a pointer of a function: as an item it would be asked for its bounds a second time. A cast is
/// what some lints refuse.
#[must_use]
pub const fn pointer<T>(made: fn(LockError) -> T) -> fn(LockError) -> T {
    made
}

/// One result for a busy lock, another for every other failure.
pub fn busy_or<T, B, O>(busy: B, other: O) -> impl FnOnce(LockError) -> T
where
    B: FnOnce(LockError) -> T,
    O: FnOnce(LockError) -> T,
{
    move |error| if error.is_busy() { busy(error) } else { other(error) }
}
