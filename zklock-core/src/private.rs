//! What generated code calls. Not for people: anything in here may change.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

#[doc(hidden)]
pub use ::std;

use crate::body::OnLost;
use crate::error::LockError;
use crate::key::{LockName, NameBuilder as KeyBuilder, check_literal};
use crate::lock::mutex::Mutex;
use crate::registry::SessionRegistry;
use crate::template;

/// Validates a name or a pattern when compiling.
///
/// # Panics
///
/// When compiling, with a sentence that says what is accepted.
#[track_caller]
#[allow(clippy::panic)]
pub const fn check_pattern(literal: &str) {
    if let Err(flaw) = check_literal(literal.as_bytes(), true) {
        panic!("{}", flaw.message());
    }
}

/// What an attribute says beside the name.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    timeout: Option<Duration>,
    retries: Option<u32>,
    session: Option<&'static str>,
}

impl Call {
    /// Nothing beside the name.
    #[must_use]
    pub const fn new(_literal: &'static str) -> Self {
        Call { timeout: None, retries: None, session: None }
    }

    /// Bounds one try.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The number of tries.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// Which session.
    #[must_use]
    pub const fn session(mut self, session: &'static str) -> Self {
        self.session = Some(session);
        self
    }

    fn mutex(self, name: Name) -> Result<Mutex, LockError> {
        let name = match name.0 {
            Source::Literal(literal) => LockName::new(literal)?,
            Source::Filled(name) => name?,
        };
        let session = SessionRegistry::global().session(self.session);
        let session = session.map_err(|error| error.on(name.to_shared()))?;
        let mut options = session.defaults();
        if let Some(timeout) = self.timeout {
            options = options.timeout(timeout);
        }
        if let Some(retries) = self.retries {
            options = options.retries(retries);
        }
        Mutex::new(&session, name).with_options(options)
    }
}

/// A name with its values filled in, or the reason why that cannot be.
#[derive(Debug)]
pub struct Name(Source);

#[derive(Debug)]
enum Source {
    Literal(&'static str),
    Filled(Result<LockName, LockError>),
}

impl Name {
    /// A name without values.
    #[must_use]
    pub const fn literal(name: &'static str) -> Self {
        Name(Source::Literal(name))
    }

    /// A name with values.
    #[must_use]
    pub fn pattern() -> NameBuilder {
        NameBuilder(LockName::build())
    }
}

/// Puts a name together.
#[derive(Debug)]
pub struct NameBuilder(KeyBuilder);

impl NameBuilder {
    /// Adds text that the programmer wrote.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        NameBuilder(self.0.text(text))
    }

    /// Adds a value, escaped.
    #[must_use]
    pub fn value(self, value: &dyn Display) -> Self {
        NameBuilder(self.0.value(value))
    }

    /// Ends the name.
    #[must_use]
    pub fn build(self) -> Name {
        Name(Source::Filled(self.0.finish()))
    }
}

/// A result that can say that the lock was not to be had.
#[diagnostic::on_unimplemented(
    message = "a function guarded by #[zk_locked] must be able to return a LockError",
    label = "this cannot carry a LockError",
    note = "return `Result<_, E>` with `E: From<zklock::LockError>`"
)]
pub trait FromLockError {
    /// The result of a function whose lock was not to be had.
    fn from_lock_error(error: LockError) -> Self;
}

// So that the message above is shown, and not one about `From`.
#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

/// Gives async blocks their type; never called.
pub fn never<T>() -> T {
    unreachable!("generated code never calls this")
}

/// Runs an async body under the lock, and empties its place, with all that the body owns, before
/// the release.
pub async fn run<T, F>(
    call: Call,
    name: Name,
    failed: fn(LockError) -> T,
    body: Pin<&mut Option<F>>,
) -> T
where
    F: Future<Output = T>,
{
    let body = Emptied(body);
    let guarded = async {
        let mutex = call.mutex(name)?;
        template::guarded(&mutex, OnLost::Cancel, |_| async move {
            let mut body = body;
            poll_fn(|cx| match body.0.as_mut().as_pin_mut() {
                Some(body) => body.poll(cx),
                None => Poll::Pending,
            })
            .await
        })
        .await
    };
    guarded.await.unwrap_or_else(failed)
}

/// The place of a body, empty when this is dropped.
struct Emptied<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Drop for Emptied<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Runs a plain body under the lock.
#[cfg(feature = "blocking")]
pub fn run_blocking<T, B>(call: Call, name: Name, failed: fn(LockError) -> T, body: B) -> T
where
    B: FnOnce() -> T,
{
    let guarded = || {
        let mutex = crate::blocking::mutex::Mutex::from(call.mutex(name)?);
        crate::blocking::template::guarded(&mutex, |_| body())
    };
    guarded().unwrap_or_else(failed)
}
