//! What generated code calls: the contract between the attribute and the library.
//!
//! - [`check_pattern`] is evaluated when compiling, with the name as it was written, braces and
//!   all. It is `#[track_caller]`, so that the error stands at the name.
//! - [`Name`] and [`Call`] are made before the wait, from borrowed parameters. Nothing of them
//!   borrows; a name that cannot be filled carries its error into the run. A condition that is
//!   false makes a call that takes no lock.
//! - [`run`] gets the body by a pinned place that it must empty before the release, whether the
//!   body has finished, the run is cancelled or the lock was lost. It is `Send` when the body is.
//!   By value the future would be held twice: 7 KiB instead of 3 for a parameter of 1,000 bytes,
//!   and 80 KiB instead of 8 where three guarded functions call each other.
//! - As much of the result as is `Send` waits for the release, which [`Choose`] finds out where the
//!   type is known; what is not is handed over at once, and the release goes on behind it.
//! - [`run_blocking`] gets the body as a closure that owns the parameters: one that finishes after
//!   the lease was lost is told so, also when it ended with `?` or `return`.
//! - `failed` makes the function's own result from an error. The bounds [`FromLockError`] and
//!   [`Skip`] are asked for there and nowhere else, so that a function that cannot carry the error
//!   is told once.
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

use crate::output::Keep;
pub use crate::output::{Choose, Output};
use crate::{
    LockDriver, LockError, LockName, LockOptions, Session,
    events::{self, Outcome},
};

/// Validates a name that is a constant, when compiling.
///
/// # Panics
///
/// If it is a pattern, or a segment is empty.
#[track_caller]
pub const fn constant(name: &'static str) -> &'static str {
    let (bytes, mut at) = (name.as_bytes(), 0);
    while at < bytes.len() {
        assert!(bytes[at] != b'{', "a constant is a whole name; values stand in a literal");
        at += 1;
    }
    check_pattern(name);
    name
}

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

/// What becomes of an async body when the lock is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnLost {
    Cancel,
    Finish,
}

/// What becomes of a body when its lock is to be let go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnRevoked {
    Cancel,
    Ignore,
}

/// Stops at.
#[derive(Clone, Copy, Debug)]
pub enum StopAt {
    Suspect,
    Lost,
}

/// The value of a `condition`.
#[must_use]
pub const fn condition(condition: bool) -> bool {
    condition
}

/// What an attribute says: which lock, and how it is taken. `None` takes none.
pub struct Call(Option<Wanted>);

struct Wanted {
    name: Name,
    said: String,
}

impl Call {
    #[must_use]
    pub const fn new(name: Name) -> Self {
        Self(Some(Wanted { name, said: String::new() }))
    }

    /// The recording has all of them in one name.
    #[must_use]
    pub fn several(start: NameBuilder, keys: &[&dyn Value]) -> Self {
        let names: Result<Vec<_>, _> =
            keys.iter().map(|key| start.clone().value(*key).build().0).collect();
        Self::new(Name(names.map(|names| Cow::Owned(names.join(" + ")))))
    }

    #[must_use]
    pub const fn without() -> Self {
        Self(None)
    }

    fn say(mut self, said: std::fmt::Arguments<'_>) -> Self {
        if let Some(wanted) = &mut self.0 {
            let _ = write!(wanted.said, " {said}");
        }
        self
    }

    #[must_use]
    pub fn read(self) -> Self {
        self.say(format_args!("read"))
    }

    #[must_use]
    pub fn write(self) -> Self {
        self.say(format_args!("write"))
    }

    #[must_use]
    pub fn semaphore(self, limit: u32) -> Self {
        self.say(format_args!("semaphore={limit}"))
    }

    #[must_use]
    pub fn session(self, session: &(impl ToSession + ?Sized)) -> Self {
        self.say(format_args!("session={}", session.to_session()))
    }

    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.say(format_args!("timeout={timeout:?}"))
    }

    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        self.say(format_args!("retries={retries}"))
    }

    #[must_use]
    pub fn try_once(self, once: bool) -> Self {
        self.say(format_args!("once={once}"))
    }

    #[must_use]
    pub fn reentrant(self, reentrant: bool) -> Self {
        self.say(format_args!("reentrant={reentrant}"))
    }

    #[must_use]
    pub fn fair(self, fair: bool) -> Self {
        self.say(format_args!("fair={fair}"))
    }

    #[must_use]
    pub fn linger(self, linger: Duration) -> Self {
        self.say(format_args!("linger={linger:?}"))
    }

    #[must_use]
    pub fn hold_at_least(self, hold: Duration) -> Self {
        self.say(format_args!("hold={hold:?}"))
    }

    #[must_use]
    pub fn hold_at_most(self, hold: Duration) -> Self {
        self.say(format_args!("at_most={hold:?}"))
    }

    #[must_use]
    pub fn lock_delay(self, delay: Duration) -> Self {
        self.say(format_args!("delay={delay:?}"))
    }

    #[must_use]
    pub fn label(self, label: &(impl Text + ?Sized)) -> Self {
        self.say(format_args!("label={}", label.as_ref()))
    }

    #[must_use]
    pub fn options(self, options: impl ToOptions) -> Self {
        self.say(format_args!("options={}", options.to_options()))
    }

    #[must_use]
    pub fn on_lost(self, on_lost: OnLost) -> Self {
        self.say(format_args!("finish={}", on_lost == OnLost::Finish))
    }

    #[must_use]
    pub fn on_revoked(self, on_revoked: OnRevoked) -> Self {
        self.say(format_args!("heeds={}", on_revoked == OnRevoked::Cancel))
    }

    #[must_use]
    pub fn stop_at(self, stop_at: StopAt) -> Self {
        self.say(format_args!("stop_at={stop_at:?}"))
    }

    #[must_use]
    pub fn driver(self, driver: impl ToDriver) -> Self {
        self.say(format_args!("driver={}", driver.to_driver()))
    }
}

/// What `session = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`session` is a session or the name of a registered one",
    label = "this is neither a `zklock::Session` nor a string"
)]
pub trait ToSession {
    fn to_session(&self) -> String;
}

impl ToSession for Session {
    fn to_session(&self) -> String {
        format!("own({})", self.0)
    }
}

impl ToSession for str {
    fn to_session(&self) -> String {
        self.to_owned()
    }
}

impl ToSession for String {
    fn to_session(&self) -> String {
        self.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<S: ToSession + ?Sized> ToSession for &S {
    fn to_session(&self) -> String {
        (**self).to_session()
    }
}

#[diagnostic::do_not_recommend]
impl<S: ToSession + ?Sized> ToSession for std::sync::Arc<S> {
    fn to_session(&self) -> String {
        (**self).to_session()
    }
}

/// What `driver = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`driver` is a layout: a value of a type that is a `zklock::driver::LockDriver`",
    label = "this is no layout",
    note = "those that are shipped are in `zklock::layout`: `driver = zklock::layout::Kazoo::default()`"
)]
pub trait ToDriver {
    fn to_driver(self) -> String;
}

#[diagnostic::do_not_recommend]
impl<D: LockDriver> ToDriver for D {
    fn to_driver(self) -> String {
        format!("{self:?}")
    }
}

impl ToDriver for std::sync::Arc<dyn LockDriver> {
    fn to_driver(self) -> String {
        format!("{self:?}")
    }
}

/// What `options = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`options` is a `zklock::LockOptions`, which the other arguments override",
    label = "these are no options",
    note = "for instance `options = zklock::LockOptions::new().fair(true)`"
)]
pub trait ToOptions {
    fn to_options(self) -> String;
}

impl ToOptions for LockOptions {
    fn to_options(self) -> String {
        format!("{self:?}")
    }
}

impl ToOptions for &LockOptions {
    fn to_options(self) -> String {
        (*self).to_options()
    }
}

#[derive(Debug, Default)]
pub struct Label(String);

impl Label {
    #[must_use]
    pub fn pattern() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0.push_str(text);
        self
    }

    #[must_use]
    pub fn value(mut self, value: &dyn Value) -> Self {
        let _ = write!(self.0, "{value}");
        self
    }
}

impl AsRef<str> for Label {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// A name with its values filled in, or the reason why that cannot be.
pub struct Name(Result<Cow<'static, str>, LockError>);

/// A name without values.
pub struct Literal(&'static str);

impl Literal {
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    #[must_use]
    pub const fn name(&self) -> Name {
        Name(Ok(Cow::Borrowed(self.0)))
    }
}

impl Name {
    /// The name alone.
    ///
    /// # Errors
    ///
    /// If a value is empty.
    pub fn made(self) -> Result<LockName, LockError> {
        self.0.map(|name| LockName(name.into_owned()))
    }

    #[must_use]
    pub const fn pattern() -> NameBuilder {
        NameBuilder { text: String::new(), error: None }
    }
}

/// Puts a name together.
#[derive(Clone)]
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
    pub fn prefix(self, text: &(impl Text + ?Sized)) -> Self {
        self.text(text.as_ref())
    }

    #[must_use]
    pub fn value(mut self, value: &dyn Value) -> Self {
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

/// What can be filled into a name.
#[diagnostic::on_unimplemented(
    message = "a value in a lock's name or label is written with `Display`, which `{Self}` does not implement",
    label = "this cannot be written as text",
    note = "name a field of it that can: `{{order.id}}`, or an expression: `key = order.id()`"
)]
pub trait Value: Display {}

#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized> Value for T {}

/// What a namespace can be.
#[diagnostic::on_unimplemented(
    message = "a namespace or a label is a string, which `{Self}` is not",
    label = "this is no string"
)]
pub trait Text: AsRef<str> {}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + ?Sized> Text for T {}

/// A result that can say that the lock was not to be had.
#[diagnostic::on_unimplemented(
    message = "a function guarded by #[zk_locked] must be able to return a LockError",
    label = "this cannot carry a LockError",
    note = "return `Result<_, E>` with `E: From<zklock::LockError>`, or say what its error is: `map_err = ApiError::Lock`, or what it returns: `on_error = |error| …`",
    note = "if there is nothing to do while somebody else holds the lock: `on_busy = skip`"
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

/// A result that has a natural "nothing", for `on_busy = skip` beside `map_err` or `on_error`, where
/// its error need not be made of a `LockError`.
#[diagnostic::on_unimplemented(
    message = "`on_busy = skip` needs a function that can return nothing",
    label = "this has no natural \"nothing\"",
    note = "that is `()`, `Option<_>`, `Result<(), _>` and `Result<Option<_>, _>`; otherwise say what to return: `on_busy = |error| …`"
)]
pub trait SkipBusy {
    /// The result of a function whose lock was busy.
    fn skip(error: LockError) -> Self;
}

impl SkipBusy for () {
    fn skip(error: LockError) {
        let _ = error;
        events::record("skipped");
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
    message = "`on_busy = skip` needs a function that can return nothing",
    label = "this has no natural \"nothing\"",
    note = "that is `()`, `Option<_>`, and `Result<(), E>` or `Result<Option<_>, E>` with `E: From<zklock::LockError>` or a `map_err`; otherwise say what to return: `on_busy = |error| …`"
)]
pub trait Skip: Sized {
    /// The result of a function whose lock was busy.
    fn skip(error: LockError) -> Self;

    /// The result of a function whose lock was not to be had for another reason.
    fn fail(error: LockError) -> Self;
}

impl Skip for () {
    fn skip(error: LockError) {
        <() as SkipBusy>::skip(error);
    }

    fn fail(error: LockError) {
        events::record(format!("swallowed {error}"));
    }
}

impl<T> Skip for Option<T> {
    fn skip(error: LockError) -> Self {
        SkipBusy::skip(error)
    }

    fn fail(error: LockError) -> Self {
        events::record(format!("swallowed {error}"));
        None
    }
}

#[diagnostic::do_not_recommend]
impl<E: From<LockError>> Skip for Result<(), E> {
    fn skip(error: LockError) -> Self {
        SkipBusy::skip(error)
    }

    fn fail(error: LockError) -> Self {
        Err(error.into())
    }
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> Skip for Result<Option<T>, E> {
    fn skip(error: LockError) -> Self {
        SkipBusy::skip(error)
    }

    fn fail(error: LockError) -> Self {
        Err(error.into())
    }
}

/// One answer for a busy lock, another for every other failure.
pub fn busy_or<T, B, O>(busy: B, other: O) -> impl FnOnce(LockError) -> T
where
    B: FnOnce(LockError) -> T,
    O: FnOnce(LockError) -> T,
{
    move |error| if error.is_busy() { busy(error) } else { other(error) }
}

/// Runs an async body under the lock, and empties its place before the release.
pub async fn run<T, E, K, F>(call: Call, failed: E, _: K, body: Pin<&mut Option<F>>) -> T
where
    E: FnOnce(LockError) -> T,
    K: Keep<T>,
    F: Future<Output = T>,
{
    let mut body = Body(body);
    let Some(wanted) = call.0 else {
        events::record("without");
        return body.run().await;
    };
    events::record("wait");
    once_pending().await;
    let guard = match Guard::take(wanted) {
        Ok(guard) => guard,
        Err(error) => return failed(error),
    };
    // Moved behind the guard, so that it drops before it wherever this is cancelled.
    let mut body = body;
    let result = body.run().await;
    drop(body);
    let part = match K::part(guard.finish(failed, result)) {
        Ok(part) => part,
        Err(result) => {
            events::record("unawaited");
            return result;
        }
    };
    once_pending().await;
    K::whole(part)
}

/// Drops what is left of a body, with all that it owns.
struct Body<'a, F>(Pin<&'a mut Option<F>>);

impl<F: Future> Body<'_, F> {
    async fn run(&mut self) -> F::Output {
        poll_fn(|context| match self.0.as_mut().as_pin_mut() {
            Some(body) => body.poll(context),
            None => Poll::Pending,
        })
        .await
    }
}

impl<F> Drop for Body<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Runs a plain body under the lock.
pub fn run_blocking<T, E, B>(call: Call, failed: E, body: B) -> T
where
    E: FnOnce(LockError) -> T,
    B: FnOnce() -> T,
{
    let Some(wanted) = call.0 else {
        events::record("without");
        return body();
    };
    let guard = match Guard::take(wanted) {
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
    fn take(wanted: Wanted) -> Result<Self, LockError> {
        let lock = wanted.name.0?.into_owned();
        let outcome = events::outcome();
        match outcome {
            Outcome::Busy => return Err(LockError::Busy(lock)),
            Outcome::Unavailable => return Err(LockError::Unavailable(lock)),
            Outcome::Granted | Outcome::Lost => {}
        }
        events::record(format!("acquire {lock}{}", wanted.said));
        Ok(Self { lock, outcome })
    }

    fn finish<T>(self, failed: impl FnOnce(LockError) -> T, result: T) -> T {
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
