//! What generated code calls: the contract between the attribute and the library.
//!
//! - [`check_pattern`] is evaluated when compiling, with the name as it was written, braces and
//!   all. It is `#[track_caller]`, so that the error stands at the name.
//! - [`Name`] and [`Call`] are made before the wait, from borrowed parameters. Nothing of them
//!   borrows; a name that cannot be filled carries its error into the run.
//! - [`run`] gets the body by a pinned place that it must empty before the release, whether the
//!   body has finished, the run is cancelled or the lock was lost. It is `Send` when the body is.
//!   By value the future would be held twice: 7 KiB instead of 3 for a parameter of 1,000 bytes,
//!   and 80 KiB instead of 8 where three guarded functions call each other.
//! - [`run_blocking`] gets the body as a closure that owns the parameters: one that finishes after
//!   the lease was lost is told so, also when it ended with `?` or `return`.
//! - `failed` makes the function's own result from an error. The bound [`FromLockError`] is asked
//!   for there and nowhere else, so that a function that cannot carry the error is told once.
//! - [`never`] is only compiled.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

pub use ::std;

use crate::{
    LockError,
    events::{self, Outcome},
};

/// Validates a name or a pattern when compiling.
///
/// # Panics
///
/// If a segment is empty.
#[track_caller]
pub const fn check_pattern(literal: &str) {
    let bytes = literal.as_bytes();
    let mut at = 0;
    let mut empty = true;
    while at < bytes.len() {
        if bytes[at] == b'/' {
            assert!(
                !empty,
                "a lock's name is made of segments that are not empty: `orders/create`"
            );
            empty = true;
        } else {
            empty = false;
        }
        at += 1;
    }
    assert!(!empty, "a lock's name is made of segments that are not empty: `orders/create`");
}

/// What an attribute says beside the name.
#[derive(Clone, Copy)]
pub struct Call {
    timeout: Option<Duration>,
    retries: Option<u32>,
    session: Option<&'static str>,
}

impl Call {
    #[must_use]
    pub const fn new(_literal: &'static str) -> Self {
        Self { timeout: None, retries: None, session: None }
    }

    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    #[must_use]
    pub const fn session(mut self, session: &'static str) -> Self {
        self.session = Some(session);
        self
    }

    fn describe(self, name: &str) -> String {
        let mut text = format!("acquire {name}");
        if let Some(timeout) = self.timeout {
            let _ = write!(text, " timeout={timeout:?}");
        }
        if let Some(retries) = self.retries {
            let _ = write!(text, " retries={retries}");
        }
        if let Some(session) = self.session {
            let _ = write!(text, " session={session}");
        }
        text
    }
}

/// A name with its values filled in, or the reason why that cannot be.
pub struct Name(Result<Cow<'static, str>, LockError>);

impl Name {
    #[must_use]
    pub const fn literal(name: &'static str) -> Self {
        Self(Ok(Cow::Borrowed(name)))
    }

    #[must_use]
    pub const fn pattern() -> NameBuilder {
        NameBuilder { text: String::new(), error: None }
    }
}

/// Puts a name together.
pub struct NameBuilder {
    text: String,
    error: Option<LockError>,
}

impl NameBuilder {
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    #[must_use]
    pub fn value(mut self, value: &dyn Display) -> Self {
        let value = value.to_string();
        if value.is_empty() {
            self.error = Some(LockError::BadName("a value is empty".to_owned()));
        }
        self.text.push_str(&value.replace('/', "~2F"));
        self
    }

    #[must_use]
    pub fn build(self) -> Name {
        Name(self.error.map_or(Ok(Cow::Owned(self.text)), Err))
    }
}

/// A result that can say that the lock was not to be had.
#[diagnostic::on_unimplemented(
    message = "a function guarded by #[zk_locked] must be able to return a LockError",
    label = "this cannot carry a LockError",
    note = "return `Result<_, E>` with `E: From<zklock::LockError>`"
)]
pub trait FromLockError {
    fn from_lock_error(error: LockError) -> Self;
}

// So that the message above is shown, and not one about `From`.
#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

/// Stands for a value where only its type matters; never called.
///
/// # Panics
///
/// Always.
#[must_use]
pub fn never<T>() -> T {
    unreachable!("generated code never calls this")
}

/// Runs an async body under the lock, and empties its place before the release.
pub async fn run<T, F>(
    call: Call,
    name: Name,
    failed: fn(LockError) -> T,
    body: Pin<&mut Option<F>>,
) -> T
where
    F: Future<Output = T>,
{
    events::record("wait");
    once_pending().await;
    let guard = match Guard::take(call, name) {
        Ok(guard) => guard,
        Err(error) => return failed(error),
    };
    // Declared after the guard, so that it drops before it wherever this is cancelled.
    let mut body = Body(body);
    let result = poll_fn(|context| match body.0.as_mut().as_pin_mut() {
        Some(body) => body.poll(context),
        None => Poll::Pending,
    });
    let result = result.await;
    drop(body);
    let result = guard.finish(failed, result);
    once_pending().await;
    result
}

/// Drops what is left of a body, with all that it owns.
struct Body<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Drop for Body<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Runs a plain body under the lock.
pub fn run_blocking<T, B>(call: Call, name: Name, failed: fn(LockError) -> T, body: B) -> T
where
    B: FnOnce() -> T,
{
    let guard = match Guard::take(call, name) {
        Ok(guard) => guard,
        Err(error) => return failed(error),
    };
    let result = body();
    guard.finish(failed, result)
}

struct Guard {
    lock: String,
    outcome: Outcome,
}

impl Guard {
    fn take(call: Call, name: Name) -> Result<Self, LockError> {
        let lock = name.0?.into_owned();
        let outcome = events::outcome();
        if outcome == Outcome::Busy {
            return Err(LockError::Busy(lock));
        }
        events::record(call.describe(&lock));
        Ok(Self { lock, outcome })
    }

    fn finish<T>(self, failed: fn(LockError) -> T, result: T) -> T {
        match self.outcome {
            Outcome::Lost => failed(LockError::LostFinished(self.lock.clone())),
            _ => result,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        events::record("release");
    }
}

/// Leaves a gap to be cancelled in.
fn once_pending() -> impl Future<Output = ()> + Send {
    let mut first = true;
    poll_fn(move |context| {
        if std::mem::take(&mut first) {
            context.waker().wake_by_ref();
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
}
