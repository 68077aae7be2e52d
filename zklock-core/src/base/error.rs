//! The library's error type.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::base::owner::Owner;

/// The kind of a failure.
///
/// ```
/// use zklock::{ErrorKind, LockError};
///
/// fn status(error: &LockError) -> u16 {
///     match error.kind() {
///         ErrorKind::Busy => 409,
///         ErrorKind::Unavailable | ErrorKind::Closing => 503,
///         _ => 500,
///     }
/// }
/// assert_eq!(status(&LockError::new(ErrorKind::Busy, "")), 409);
/// ```
///
#[doc = include_str!("../../errors.md")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Somebody else holds the lock, or is ahead in its queue. For a moment this may be a call of this
    /// process that has just been given up: until its node is deleted.
    Busy,
    /// The lease ran out, the ZooKeeper session ended, or the node was deleted.
    Lost,
    /// ZooKeeper could not be reached, or did not answer in time.
    Unavailable,
    /// The session is draining or closed.
    Closing,
    /// The credentials are wrong, or an ACL denies access.
    Unauthorized,
    /// The chroot of the connect string does not exist.
    NoChroot,
    /// The lock's name is not accepted.
    InvalidName,
    /// An option or a connect string is not accepted.
    InvalidOption,
    /// No session has the requested name, and the environment describes none.
    NotConfigured,
    /// The caller would certainly wait for itself: a reader would become a writer inside its own
    /// scope, or a blocked thread would wait for a task that only this thread can run. If this is
    /// only likely, because the same task holds the lock, the acquire waits, a warning is logged
    /// after one second, and the busy error at the end says so. Also where a lock with
    /// [`reentrant`](crate::base::options::LockOptions::reentrant) off is acquired again inside its
    /// own scope, and where a writer is downgraded that a nested call holds as well.
    Deadlock,
    /// The directory's sequence numbers are nearly used up.
    Exhausted,
    /// The lock's layout, the server or this runtime cannot do it.
    Unsupported,
    /// The server refused a fenced write.
    Refused,
    /// Somebody asked the holder to release the lock.
    Revoked,
    /// The lock was held for longer than
    /// [`hold_at_most`](crate::base::options::LockOptions::hold_at_most).
    HeldTooLong,
}

impl ErrorKind {
    /// Returns the stable code.
    ///
    /// ```
    /// use zklock::ErrorKind;
    ///
    /// assert_eq!(ErrorKind::Busy.code(), "1011");
    /// ```
    pub fn code(self) -> &'static str {
        self.told().0
    }

    /// Returns the kind as one lower-case word.
    ///
    /// ```
    /// use zklock::ErrorKind;
    ///
    /// assert_eq!(ErrorKind::NoChroot.as_str(), "no_chroot");
    /// ```
    pub fn as_str(self) -> &'static str {
        self.told().1
    }

    /// Its code and its word.
    fn told(self) -> (&'static str, &'static str) {
        match self {
            ErrorKind::Busy => ("1011", "busy"),
            ErrorKind::Lost => ("1012", "lost"),
            ErrorKind::Unavailable => ("1013", "unavailable"),
            ErrorKind::Closing => ("1014", "closing"),
            ErrorKind::Unauthorized => ("1015", "unauthorized"),
            ErrorKind::NoChroot => ("1016", "no_chroot"),
            ErrorKind::InvalidName => ("1017", "invalid_name"),
            ErrorKind::InvalidOption => ("1018", "invalid_option"),
            ErrorKind::NotConfigured => ("1019", "not_configured"),
            ErrorKind::Deadlock => ("1020", "deadlock"),
            ErrorKind::Exhausted => ("1021", "exhausted"),
            ErrorKind::Unsupported => ("1022", "unsupported"),
            ErrorKind::Refused => ("1023", "refused"),
            ErrorKind::Revoked => ("1024", "revoked"),
            ErrorKind::HeldTooLong => ("1025", "held_too_long"),
        }
    }
}

/// What happened to the body when its lock was lost, revoked or held for too long.
///
/// ```
/// use zklock::{Body, ErrorKind, LockError};
///
/// let lost = LockError::new(ErrorKind::Lost, "its lease ran out").with_body(Body::Dropped);
/// let try_again = match lost.body() {
///     None | Some(Body::NotStarted) => true,
///     Some(_) => false, // It may have taken effect.
/// };
/// assert!(!try_again);
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
///         ErrorKind::Unavailable | ErrorKind::Closing => 503,
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

    /// Returns whether somebody else holds the lock.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// let busy = session.mutex("orders")?.try_acquire().await;
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_busy(&self) -> bool {
        self.0.kind == ErrorKind::Busy
    }

    /// Returns whether the lock was held and lost.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// locks.lose();
    /// assert!(guard.release().await.is_err_and(|error| error.is_lost()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_lost(&self) -> bool {
        self.0.kind == ErrorKind::Lost
    }

    /// Returns whether the lock was held, and the body ended because somebody asked for its
    /// release.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockError};
    ///
    /// assert!(LockError::new(ErrorKind::Revoked, "").is_revoked());
    /// assert!(!LockError::new(ErrorKind::Lost, "").is_revoked());
    /// ```
    pub fn is_revoked(&self) -> bool {
        self.0.kind == ErrorKind::Revoked
    }

    /// Returns whether the lock was held for longer than
    /// [`hold_at_most`](crate::base::options::LockOptions::hold_at_most). [`body`](LockError::body)
    /// says whether the body was dropped or finished.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockError};
    ///
    /// assert!(LockError::new(ErrorKind::HeldTooLong, "").is_held_too_long());
    /// assert!(!LockError::new(ErrorKind::Lost, "").is_held_too_long());
    /// ```
    pub fn is_held_too_long(&self) -> bool {
        self.0.kind == ErrorKind::HeldTooLong
    }

    /// Returns whether ZooKeeper could not be reached, or did not answer in time.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// use std::time::Duration;
    ///
    /// locks.begin_outage();
    /// let outcome = session.mutex("orders")?.acquire_timeout(Duration::from_millis(20)).await;
    /// assert!(outcome.is_err_and(|error| error.is_unavailable()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    /// Returns whether the caller would certainly have waited for itself.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// let reading = prices.read().await?;
    /// // The writer would wait for this reader, and this reader for the writer.
    /// let nested = reading.scope(prices.write()).await;
    /// assert!(nested.is_err_and(|error| error.is_deadlock()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_deadlock(&self) -> bool {
        self.0.kind == ErrorKind::Deadlock
    }

    /// Returns whether the session is draining or closed.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// session.close().await;
    /// assert!(session.mutex("orders")?.acquire().await.is_err_and(|error| error.is_closing()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_closing(&self) -> bool {
        self.0.kind == ErrorKind::Closing
    }

    /// Returns whether trying again is useless without a change of the program or its
    /// configuration.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert!(session.mutex("orders/..").is_err_and(|error| error.is_permanent()));
    /// ```
    pub fn is_permanent(&self) -> bool {
        !matches!(
            self.0.kind,
            ErrorKind::Busy
                | ErrorKind::Lost
                | ErrorKind::Revoked
                | ErrorKind::HeldTooLong
                | ErrorKind::Unavailable
                | ErrorKind::Closing
        )
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, lock, detail, aside, holder, body, source } = &*self.0;
        let lock = lock.as_deref().unwrap_or("the lock");
        match kind {
            ErrorKind::Busy => {
                write!(f, "{lock} is being processed")?;
                if !f.alternate() {
                    return Ok(());
                }
                if let Some(holder) = holder {
                    write!(f, " by {}", holder.owner)?;
                    if holder.ahead > 1 {
                        write!(f, ", {} ahead", holder.ahead)?;
                    }
                }
                if !detail.is_empty() {
                    write!(f, " ({detail})")?;
                }
            }
            ErrorKind::Lost | ErrorKind::Revoked | ErrorKind::HeldTooLong => {
                let what = match kind {
                    ErrorKind::Lost => "lost",
                    ErrorKind::Revoked => "revoked",
                    _ => "held for too long",
                };
                write!(f, "{lock} was {what}: {detail}")?;
                f.write_str(match body {
                    None => "",
                    Some(Body::NotStarted) => "; the body did not run",
                    Some(Body::Dropped) => "; the body was dropped and may have taken effect",
                    Some(Body::Finished) => "; the body finished, and its result was discarded",
                })?;
            }
            _ if self.0.lock.is_some() => write!(f, "{lock}: {detail}")?,
            _ => f.write_str(detail)?,
        }
        if !f.alternate() {
            return Ok(());
        }
        if !aside.is_empty() {
            write!(f, ": {aside}")?;
        }
        let mut said = detail.clone();
        let mut cause = source.as_deref().map(|source| source as &(dyn Error + 'static));
        while let Some(error) = cause {
            let text = error.to_string();
            // What a cause has in common with what was printed last is not repeated.
            match text.strip_prefix(&*said) {
                Some(more) if more.starts_with(": ") => f.write_str(more)?,
                _ if said.ends_with(&text) => {}
                _ => write!(f, ": {text}")?,
            }
            (said, cause) = (text, error.source());
        }
        Ok(())
    }
}

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, lock, detail, aside, holder, body, source } = &*self.0;
        let mut out = f.debug_struct("LockError");
        out.field("kind", kind).field("code", &kind.code()).field("lock", lock);
        out.field("detail", detail);
        if !aside.is_empty() {
            out.field("aside", aside);
        }
        if let Some(holder) = holder {
            out.field("holder", holder);
        }
        if let Some(body) = body {
            out.field("body", body);
        }
        if let Some(source) = source {
            out.field("source", source);
        }
        out.finish()
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
    fn a_busy_error_reads_as_in_the_documents() {
        let error = LockError::new(ErrorKind::Busy, "").on("createOrder");
        assert_eq!(error.to_string(), "createOrder is being processed");
        assert_eq!(error.code(), "1011");
        assert!(error.is_busy() && !error.is_unavailable());
    }

    #[test]
    fn a_busy_error_names_the_holder_to_those_who_run_the_service() {
        let owner = Owner { host: "db7".into(), pid: Some(42), ..Owner::default() };
        let holder = Holder { owner, node: "n".into(), ahead: 3 };
        let error = LockError::new(ErrorKind::Busy, "").on("a").held_by(Some(holder));
        let error = error.detailed("it rests");
        assert_eq!(error.to_string(), "a is being processed");
        let told = "a is being processed by db7 (process 42), 3 ahead (it rests)";
        assert_eq!(format!("{error:#}"), told);
    }

    #[test]
    fn causes_and_asides_are_for_those_who_run_the_service() {
        let cause = std::io::Error::other("db7:2181 refused");
        let error = LockError::new(ErrorKind::Unavailable, "no answer").on("a");
        let error = error.aside("/zklock/a/n1").because(cause);
        assert_eq!(error.to_string(), "a: no answer");
        assert_eq!(format!("{error:#}"), "a: no answer: /zklock/a/n1: db7:2181 refused");
        // The same is not said twice.
        let error =
            LockError::new(ErrorKind::Unavailable, "no").because(std::io::Error::other("no"));
        assert_eq!(format!("{error:#}"), "no");
        let cause = std::io::Error::other("no server: db7:2181 refused");
        let error = LockError::new(ErrorKind::Unavailable, "no server").because(cause);
        assert_eq!(format!("{error:#}"), "no server: db7:2181 refused");
    }

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
    fn a_lost_error_says_what_became_of_the_body() {
        let lost = LockError::new(ErrorKind::Lost, "its lease ran out").on("a");
        assert!(
            lost.clone().with_body(Body::Dropped).to_string().contains("may have taken effect")
        );
        assert!(lost.with_body(Body::Finished).to_string().contains("finished"));
    }

    #[test]
    fn a_revoked_error_is_no_lost_one_and_says_what_became_of_the_body() {
        let revoked = LockError::new(ErrorKind::Revoked, "somebody asked for it").on("a");
        let revoked = revoked.with_body(Body::Dropped);
        assert_eq!(
            revoked.to_string(),
            "a was revoked: somebody asked for it; the body was dropped and may have taken effect"
        );
        assert_eq!((revoked.code(), revoked.body()), ("1024", Some(Body::Dropped)));
        assert!(revoked.is_revoked() && !revoked.is_lost() && !revoked.is_permanent());
    }

    #[test]
    fn errors_are_small_and_can_be_sent() {
        fn sendable<T: Send + Sync + Clone + 'static>() {}
        sendable::<LockError>();
        assert_eq!(size_of::<LockError>(), size_of::<usize>());
    }
}
