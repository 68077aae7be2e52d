//! The library's error: what was to be locked, who holds it, and what became of the body.

use std::error::Error;
use std::sync::Arc;

use crate::base::error_kind::ErrorKind;
use crate::base::owner::Owner;

mod questions;
mod shown;

/// What happened to the body when its lock was lost, revoked or held for too long.
///
/// ```
/// use zklock::{Body, ErrorKind, LockError};
///
/// let lost = LockError::new(ErrorKind::Lost, "its lease ran out").with_body(Body::Dropped);
/// let may_have_effects = lost.body() != Some(Body::NotStarted);
/// assert!(may_have_effects && !lost.is_temporary());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Body {
    /// The body did not begin.
    NotStarted,
    /// The body was dropped at an await; what it did before may have taken effect.
    Dropped,
    /// The body ran to its end, perhaps without the lock in its last part. Its result was
    /// discarded.
    Finished,
}

/// The holder of a busy lock.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let locks = zklock::testing::TestLocks::install();
/// # let session = locks.session().clone();
/// # let _held = locks.hold("orders")?;
/// let busy = session.mutex("orders")?.try_acquire().await.err();
/// let holder = busy.as_ref().and_then(|error| error.holder());
/// assert_eq!(holder.map(|holder| holder.ahead), Some(1));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The process that holds the lock, as its node describes it.
    pub owner: Owner,
    /// The name of the holder's node.
    pub node: String,
    /// The number of contenders ahead of the caller, the holder included.
    pub ahead: usize,
}

/// Why a lock was not acquired, or not kept.
///
/// Match on [`kind`](LockError::kind), or use the predicates.
///
/// `Display` is for the service's own clients: it names the lock, and no host, process, server or
/// path. A busy lock always prints one sentence: `orders/7 is being processed`. The alternate form
/// `{:#}` is for logs: it adds the holder, the number of contenders ahead, paths, and the causes.
///
/// ```
/// use zklock::{ErrorKind, LockError};
///
/// fn status(error: &LockError) -> u16 {
///     match error.kind() {
///         ErrorKind::Busy => 409,
///         _ if error.is_temporary() => 503,
///         _ => 500, // An error of the program or its configuration, or work that was cut short.
///     }
/// }
/// assert_eq!(status(&LockError::new(ErrorKind::Deadlock, "")), 500);
/// ```
#[derive(Clone)]
pub struct LockError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    lock: Option<Arc<str>>,
    detail: String,
    /// Text for operators only.
    aside: String,
    holder: Option<Holder>,
    body: Option<Body>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl LockError {
    /// Creates an error of a kind, with a sentence that says what happened or what is accepted.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockError};
    ///
    /// // In a test double of a client that takes locks.
    /// let error = LockError::new(ErrorKind::Unavailable, "no answer in 2 s");
    /// assert!(error.is_unavailable());
    /// assert_eq!(error.to_string(), "no answer in 2 s");
    /// ```
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        LockError(Box::new(Inner {
            kind,
            lock: None,
            detail: detail.into(),
            aside: String::new(),
            holder: None,
            body: None,
            source: None,
        }))
    }

    /// Sets the name of the lock.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockError};
    ///
    /// let error = LockError::new(ErrorKind::Busy, "").on("createOrder");
    /// assert_eq!(error.to_string(), "createOrder is being processed");
    /// ```
    pub fn on(mut self, lock: impl Into<Arc<str>>) -> Self {
        self.0.lock = Some(lock.into());
        self
    }

    /// Sets the holder of a busy lock.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockError};
    ///
    /// fn renamed(error: &LockError, lock: &str) -> LockError {
    ///     LockError::new(error.kind(), "").on(lock).held_by(error.holder().cloned())
    /// }
    /// let error = renamed(&LockError::new(ErrorKind::Busy, "").on("a7"), "imports");
    /// assert_eq!(error.to_string(), "imports is being processed");
    /// ```
    pub fn held_by(mut self, holder: Option<Holder>) -> Self {
        self.0.holder = holder;
        self
    }

    /// Sets what happened to the body.
    ///
    /// ```
    /// use zklock::{Body, ErrorKind, LockError};
    ///
    /// let error = LockError::new(ErrorKind::Lost, "its node is gone").with_body(Body::Finished);
    /// assert!(error.to_string().ends_with("the body finished, and its result was discarded"));
    /// ```
    pub fn with_body(mut self, body: Body) -> Self {
        self.0.body = Some(body);
        self
    }

    /// Sets the cause, which [`source`](Error::source) returns.
    ///
    /// ```
    /// use std::error::Error;
    /// use zklock::{ErrorKind, LockError};
    ///
    /// let cause = std::io::Error::other("connection reset");
    /// let error = LockError::new(ErrorKind::Unavailable, "no answer").because(cause);
    /// assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("connection reset"));
    /// ```
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Adds to the sentence of the error.
    pub(crate) fn detailed(mut self, more: &str) -> Self {
        let between = if self.0.detail.is_empty() { "" } else { "; " };
        self.0.detail.push_str(between);
        self.0.detail.push_str(more);
        self
    }

    /// Adds text for operators, which clients must not see: paths, hosts, data written by others.
    pub(crate) fn aside(mut self, aside: impl Into<String>) -> Self {
        self.0.aside = aside.into();
        self
    }

    /// Says to operators where it happened, unless something else is said to them: of a busy lock, who holds it.
    pub(crate) fn at(mut self, path: &str) -> Self {
        if self.0.aside.is_empty() && self.0.kind != ErrorKind::Busy {
            self.0.aside.push_str(path);
        }
        self
    }

    /// Returns the kind of the failure.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::ErrorKind;
    ///
    /// let error = session.mutex("orders//create").err();
    /// assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::InvalidName));
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the stable code of the kind, `"1011"` for a busy lock. See the table at
    /// [`ErrorKind`].
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// let busy = session.mutex("orders")?.try_acquire().await;
    /// assert_eq!(busy.err().map(|error| error.code()), Some("1011"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// Returns the name of the lock, if the error is about one.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// let busy = session.mutex("orders")?.try_acquire().await;
    /// assert!(busy.is_err_and(|error| error.lock_name() == Some("orders")));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lock_name(&self) -> Option<&str> {
        self.0.lock.as_deref()
    }

    /// Returns the holder of a busy lock, if it is known: it may have gone at the moment when
    /// ZooKeeper was asked. For a name that is [in use](ErrorKind::InvalidOption) as another kind of
    /// lock, returns who uses it.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// let busy = session.mutex("orders")?.try_acquire().await.err();
    /// let holder = busy.as_ref().and_then(|error| error.holder());
    /// assert_eq!(holder.and_then(|holder| holder.owner.pid), Some(std::process::id()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn holder(&self) -> Option<&Holder> {
        self.0.holder.as_ref()
    }

    /// Returns what happened to the body of a template or an annotated function. `None` where there
    /// was no body, as in the errors of a lock and of its guard. The body has not begun, unless the
    /// lock was [lost](ErrorKind::Lost), [revoked](ErrorKind::Revoked) or
    /// [held for too long](ErrorKind::HeldTooLong).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// use zklock::Body;
    ///
    /// let outcome = zklock::execute("orders", || async {
    ///     locks.lose();
    ///     std::future::pending::<()>().await
    /// });
    /// assert!(outcome.await.is_err_and(|error| error.body() == Some(Body::Dropped)));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn body(&self) -> Option<Body> {
        self.0.body
    }

    /// Sets that the body did not begin, unless it is known what happened to it.
    pub(crate) fn before_body(mut self) -> Self {
        self.0.body.get_or_insert(Body::NotStarted);
        self
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_may_be_no_body() {
        let error = LockError::new(ErrorKind::Lost, "its lease ran out").on("a");
        assert_eq!(error.body(), None);
        let before = error.before_body();
        assert_eq!(before.body(), Some(Body::NotStarted));
        let dropped = before.with_body(Body::Dropped).before_body();
        assert_eq!(dropped.body(), Some(Body::Dropped));
    }

    #[test]
    fn errors_are_small_and_can_be_sent() {
        fn sendable<T: Send + Sync + Clone + 'static>() {}
        sendable::<LockError>();
        assert_eq!(size_of::<LockError>(), size_of::<usize>());
    }
}
