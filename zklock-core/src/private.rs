//! What generated code calls. Not for people: anything in here may change.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

#[doc(hidden)]
pub use ::std;

#[doc(hidden)]
pub use crate::body::OnLost;
use crate::error::LockError;
use crate::key::{LockName, NameBuilder as KeyBuilder, check_literal};
use crate::local::wait::Wait;
use crate::lock::mutex::Mutex;
use crate::registry::SessionRegistry;
use crate::session::handle::Session;
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

/// What an attribute says: which lock, and how it is taken.
#[derive(Debug)]
pub struct Call(Option<Wanted>);

#[derive(Debug)]
struct Wanted {
    name: Name,
    session: Option<Result<Session, LockError>>,
    timeout: Option<Duration>,
    retries: Option<u32>,
    reentrant: Option<bool>,
    fair: Option<bool>,
    linger: Option<Duration>,
    once: bool,
    on_lost: OnLost,
}

/// The value of a `condition`.
#[must_use]
pub const fn condition(condition: bool) -> bool {
    condition
}

impl Call {
    /// Takes a lock as the session's defaults say.
    #[must_use]
    pub const fn new(name: Name) -> Self {
        Call(Some(Wanted {
            name,
            session: None,
            timeout: None,
            retries: None,
            reentrant: None,
            fair: None,
            linger: None,
            once: false,
            on_lost: OnLost::Cancel,
        }))
    }

    /// Takes no lock: the condition that the programmer wrote is false.
    #[must_use]
    pub const fn without() -> Self {
        Call(None)
    }

    fn with(mut self, change: impl FnOnce(&mut Wanted)) -> Self {
        if let Some(wanted) = &mut self.0 {
            change(wanted);
        }
        self
    }

    /// Which session.
    #[must_use]
    pub fn session(self, session: &(impl ToSession + ?Sized)) -> Self {
        self.with(|wanted| wanted.session = Some(session.to_session()))
    }

    /// Bounds one try.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|wanted| wanted.timeout = Some(timeout))
    }

    /// The number of tries.
    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        self.with(|wanted| wanted.retries = Some(retries))
    }

    /// Asks once, without waiting for others.
    #[must_use]
    pub fn try_once(self, once: bool) -> Self {
        self.with(|wanted| wanted.once = once)
    }

    /// Whether it may be held already by the calls around.
    #[must_use]
    pub fn reentrant(self, reentrant: bool) -> Self {
        self.with(|wanted| wanted.reentrant = Some(reentrant))
    }

    /// Whether every waiter gets a node of its own.
    #[must_use]
    pub fn fair(self, fair: bool) -> Self {
        self.with(|wanted| wanted.fair = Some(fair))
    }

    /// How long the node is kept after the last release.
    #[must_use]
    pub fn linger(self, linger: Duration) -> Self {
        self.with(|wanted| wanted.linger = Some(linger))
    }

    /// What becomes of an async body when the lock is lost.
    #[must_use]
    pub fn on_lost(self, on_lost: OnLost) -> Self {
        self.with(|wanted| wanted.on_lost = on_lost)
    }
}

impl Wanted {
    fn mutex(self) -> Result<(Mutex, Wait), LockError> {
        let name = match self.name.0 {
            Source::Literal(literal) => LockName::new(literal)?,
            Source::Filled(name) => name?,
        };
        let session = self.session.unwrap_or_else(|| SessionRegistry::global().session(None));
        let session = session.map_err(|error| error.on(name.to_shared()))?;
        let mut options = session.defaults();
        if let Some(timeout) = self.timeout {
            options = options.timeout(timeout);
        }
        if let Some(retries) = self.retries {
            options = options.retries(retries);
        }
        if let Some(reentrant) = self.reentrant {
            options = options.reentrant(reentrant);
        }
        if let Some(fair) = self.fair {
            options = options.fair(fair);
        }
        if let Some(linger) = self.linger {
            options = options.linger(linger);
        }
        let mutex = Mutex::new(&session, name).with_options(options)?;
        if !self.once {
            let tries = mutex.tries();
            return Ok((mutex, tries));
        }
        mutex.check_try()?;
        Ok((mutex, Wait::Once(options.try_timeout())))
    }
}

/// What `session = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`session` is a session or the name of a registered one",
    label = "this is neither a `zklock::Session` nor a string"
)]
pub trait ToSession {
    /// The session.
    ///
    /// # Errors
    ///
    /// As [`SessionRegistry::session`].
    fn to_session(&self) -> Result<Session, LockError>;
}

impl ToSession for Session {
    fn to_session(&self) -> Result<Session, LockError> {
        Ok(self.clone())
    }
}

impl ToSession for str {
    fn to_session(&self) -> Result<Session, LockError> {
        SessionRegistry::global().session(Some(self))
    }
}

impl ToSession for String {
    fn to_session(&self) -> Result<Session, LockError> {
        self.as_str().to_session()
    }
}

#[diagnostic::do_not_recommend]
impl<S: ToSession + ?Sized> ToSession for &S {
    fn to_session(&self) -> Result<Session, LockError> {
        (**self).to_session()
    }
}

#[diagnostic::do_not_recommend]
impl<S: ToSession + ?Sized> ToSession for std::sync::Arc<S> {
    fn to_session(&self) -> Result<Session, LockError> {
        (**self).to_session()
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

    /// Adds text that the programmer wrote elsewhere.
    #[must_use]
    pub fn prefix(self, text: &(impl AsRef<str> + ?Sized)) -> Self {
        NameBuilder(self.0.text(text.as_ref()))
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
    note = "return `Result<_, E>` with `E: From<zklock::LockError>`, or say what to return: `on_error = |error| …`",
    note = "if there is nothing to do while somebody else holds the lock: `on_busy = skip`"
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

/// A result that has a natural "nothing", for `on_busy = skip`.
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` needs a function that can return nothing",
    label = "this has no natural \"nothing\"",
    note = "that is `()`, `Option<_>`, and `Result<(), E>` or `Result<Option<_>, E>` with `E: From<zklock::LockError>`; otherwise say what to return: `on_busy = |error| …`"
)]
pub trait Skip {
    /// The result of a function whose lock was busy.
    fn skip(error: LockError) -> Self;

    /// The result of a function whose lock was not to be had for another reason.
    fn fail(error: LockError) -> Self;
}

impl Skip for () {
    fn skip(error: LockError) {
        skipped(&error);
    }

    fn fail(error: LockError) {
        swallowed(&error);
    }
}

impl<T> Skip for Option<T> {
    fn skip(error: LockError) -> Self {
        skipped(&error);
        None
    }

    fn fail(error: LockError) -> Self {
        swallowed(&error);
        None
    }
}

#[diagnostic::do_not_recommend]
impl<E: From<LockError>> Skip for Result<(), E> {
    fn skip(error: LockError) -> Self {
        skipped(&error);
        Ok(())
    }

    fn fail(error: LockError) -> Self {
        Err(error.into())
    }
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> Skip for Result<Option<T>, E> {
    fn skip(error: LockError) -> Self {
        skipped(&error);
        Ok(None)
    }

    fn fail(error: LockError) -> Self {
        Err(error.into())
    }
}

fn skipped(error: &LockError) {
    tracing::debug!(%error, "skipped");
}

/// Nobody else is told.
fn swallowed(error: &LockError) {
    tracing::error!(%error, code = error.code(), "a guarded function that returns no error failed");
}

/// One answer for a busy lock, another for every other failure.
pub fn busy_or<T, B, O>(busy: B, other: O) -> impl FnOnce(LockError) -> T
where
    B: FnOnce(LockError) -> T,
    O: FnOnce(LockError) -> T,
{
    move |error| if error.is_busy() { busy(error) } else { other(error) }
}

/// Runs an async body under the lock, and empties its place, with all that the body owns, before
/// the release.
pub async fn run<T, E, F>(call: Call, failed: E, body: Pin<&mut Option<F>>) -> T
where
    E: FnOnce(LockError) -> T,
    F: Future<Output = T>,
{
    let body = Emptied(body);
    let Some(wanted) = call.0 else { return body.await };
    let guarded = async {
        let on_lost = wanted.on_lost;
        let (mutex, wait) = wanted.mutex()?;
        template::guarded(&mutex, wait, on_lost, |_| body).await
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

impl<F: Future> Future for Emptied<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.0.as_mut().as_pin_mut() {
            Some(body) => body.poll(cx),
            // The place is filled until this is dropped.
            None => Poll::Pending,
        }
    }
}

/// Runs a plain body under the lock.
#[cfg(feature = "blocking")]
pub fn run_blocking<T, E, B>(call: Call, failed: E, body: B) -> T
where
    E: FnOnce(LockError) -> T,
    B: FnOnce() -> T,
{
    let Some(wanted) = call.0 else { return body() };
    let guarded = || {
        let (mutex, wait) = wanted.mutex()?;
        let mutex = crate::blocking::mutex::Mutex::from(mutex);
        crate::blocking::template::guarded(&mutex, wait, |_| body())
    };
    guarded().unwrap_or_else(failed)
}
