//! The registry: which session the attribute and the template use.

use std::collections::HashMap;
use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use once_cell::sync::Lazy;
use tokio::runtime;

use crate::base::error::{ErrorKind, LockError};
use crate::session::handle::Session;

/// The sessions of this process: a default one and named ones.
///
/// A session that was not registered is made on first use from the environment, if it says where:
///
/// | variable | meaning |
/// | --- | --- |
/// | `ZKLOCK_CONNECT` | a connect string, or `embedded` |
/// | `ZKLOCK_ROOT` | the node below which the locks are, `/zklock` |
/// | `ZKLOCK_SESSION_TIMEOUT` | for instance `10s` |
/// | `ZKLOCK_CONNECT_TIMEOUT` | for instance `5s` |
/// | `ZKLOCK_AUTH` | credentials, for instance `digest:user:password` |
/// | `ZKLOCK_APP` | the application's name, as other processes see it |
///
/// For the session `billing` they are `ZKLOCK_BILLING_CONNECT` and so on.
///
/// ```
/// use zklock::{Session, SessionRegistry};
///
/// SessionRegistry::global().register("billing", Session::embedded());
/// assert!(SessionRegistry::global().session(Some("billing"))?.is_ready());
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Debug, Default)]
pub struct SessionRegistry {
    default: RwLock<Option<Session>>,
    named: RwLock<HashMap<Arc<str>, Session>>,
    /// Sessions for one runtime or thread only.
    local: RwLock<HashMap<Place, Vec<Local>>>,
    locals: AtomicUsize,
}

/// A session for one place: which installation, under which name.
type Local = (u64, Option<Arc<str>>, Session);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Runtime(runtime::Id),
    Thread(ThreadId),
}

impl Place {
    fn here() -> Self {
        match runtime::Handle::try_current() {
            Ok(handle) => Place::Runtime(handle.id()),
            Err(_) => Place::Thread(thread::current().id()),
        }
    }
}

static GLOBAL: Lazy<SessionRegistry> = Lazy::new(SessionRegistry::default);

impl SessionRegistry {
    /// The registry of this process.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionRegistry;
    ///
    /// SessionRegistry::global().register_default(session.clone());
    /// assert_eq!(SessionRegistry::global().session(None)?.id(), session.id());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn global() -> &'static SessionRegistry {
        &GLOBAL
    }

    /// Makes a session the default one. Answers the one before.
    ///
    /// ```
    /// use zklock::{Session, SessionRegistry};
    ///
    /// let registry = SessionRegistry::default();
    /// assert!(registry.register_default(Session::embedded()).is_none());
    /// assert!(registry.register_default(Session::embedded()).is_some());
    /// ```
    pub fn register_default(&self, session: Session) -> Option<Session> {
        self.default.write().unwrap_or_else(PoisonError::into_inner).replace(session)
    }

    /// Registers a session under a name. Answers the one before.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionRegistry;
    ///
    /// // For `#[zk_locked("…", session = "billing")]`.
    /// SessionRegistry::global().register("billing", session.clone());
    /// assert_eq!(SessionRegistry::global().session(Some("billing"))?.id(), session.id());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn register(&self, name: impl Into<Arc<str>>, session: Session) -> Option<Session> {
        self.named.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), session)
    }

    /// Takes a session out, the default one for `None`. It closes when its last user is gone.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionRegistry;
    ///
    /// let registry = SessionRegistry::default();
    /// registry.register("billing", session);
    /// if let Some(session) = registry.remove(Some("billing")) {
    ///     session.close().await;
    /// }
    /// assert!(registry.remove(Some("billing")).is_none());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn remove(&self, name: Option<&str>) -> Option<Session> {
        match name {
            None => self.default.write().unwrap_or_else(PoisonError::into_inner).take(),
            Some(name) => self.named.write().unwrap_or_else(PoisonError::into_inner).remove(name),
        }
    }

    /// Installs a default session for the present tokio runtime only, or outside of one for the
    /// present thread: for tests, which run side by side in one process. The tasks that a test
    /// spawns see it, those of other tests do not. It ends when the answer is dropped.
    ///
    /// ```
    /// use zklock::{Session, SessionRegistry};
    ///
    /// let _session = SessionRegistry::global().install_here(Session::embedded());
    /// assert!(SessionRegistry::global().session(None).is_ok());
    /// ```
    pub fn install_here(&'static self, session: Session) -> Installed {
        self.install(None, session)
    }

    /// The same for a named session.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::{Session, SessionRegistry};
    ///
    /// let registry = SessionRegistry::global();
    /// let _session = registry.install_named_here("billing", Session::embedded());
    /// assert!(registry.session(Some("billing"))?.is_ready());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn install_named_here(
        &'static self,
        name: impl Into<Arc<str>>,
        session: Session,
    ) -> Installed {
        self.install(Some(name.into()), session)
    }

    fn install(&'static self, name: Option<Arc<str>>, session: Session) -> Installed {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let (place, id) = (Place::here(), NEXT.fetch_add(1, Ordering::Relaxed) as u64);
        let mut local = self.local.write().unwrap_or_else(PoisonError::into_inner);
        local.entry(place).or_default().push((id, name, session));
        self.locals.fetch_add(1, Ordering::Release);
        Installed { registry: self, place, id }
    }

    fn local(&self, name: Option<&str>) -> Option<Session> {
        if self.locals.load(Ordering::Acquire) == 0 {
            return None;
        }
        let local = self.local.read().unwrap_or_else(PoisonError::into_inner);
        // A blocking call on a thread of a runtime sees what was installed for either.
        let places = [Place::here(), Place::Thread(thread::current().id())];
        let installed = places.iter().filter_map(|place| local.get(place)).flatten().rev();
        let mut matching = installed.filter(|(_, known, _)| known.as_deref() == name);
        matching.next().map(|(_, _, session)| session.clone())
    }

    /// The session of a name, or the default one for `None`; made from the environment if it was
    /// not registered.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::{ErrorKind, SessionRegistry};
    ///
    /// let nowhere = SessionRegistry::default().session(Some("nowhere"));
    /// assert!(nowhere.is_err_and(|error| error.kind() == ErrorKind::NotConfigured));
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotConfigured`], which says what to set; [`ErrorKind::InvalidOption`] for an
    /// environment that makes no sense.
    pub fn session(&self, name: Option<&str>) -> Result<Session, LockError> {
        if let Some(session) = self.local(name) {
            return Ok(session);
        }
        match name {
            None => {
                let default = self.default.read().unwrap_or_else(PoisonError::into_inner).clone();
                default.map_or_else(|| self.make_default(), Ok)
            }
            Some(name) => {
                let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
                let known = named.get(name).cloned();
                drop(named);
                known.map_or_else(|| self.make_named(name), Ok)
            }
        }
    }

    fn make_default(&self) -> Result<Session, LockError> {
        let mut default = self.default.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &*default {
            return Ok(session.clone());
        }
        let session = from_environment("ZKLOCK_")?.ok_or_else(|| not_configured(None))?;
        Ok(default.insert(session).clone())
    }

    fn make_named(&self, name: &str) -> Result<Session, LockError> {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = named.get(name) {
            return Ok(session.clone());
        }
        let session = from_environment(&prefix(name))?.ok_or_else(|| not_configured(Some(name)))?;
        named.insert(Arc::from(name), session.clone());
        Ok(session)
    }
}

/// Keeps a session installed. See [`SessionRegistry::install_here`].
///
/// ```
/// # let session = zklock::Session::embedded();
/// use zklock::{Session, SessionRegistry};
///
/// let installed = SessionRegistry::global().install_named_here("billing", Session::embedded());
/// drop(installed);
/// assert!(SessionRegistry::global().session(Some("billing")).is_err());
/// ```
#[derive(Debug)]
#[must_use = "the session is installed until this is dropped"]
pub struct Installed {
    registry: &'static SessionRegistry,
    place: Place,
    id: u64,
}

impl Drop for Installed {
    fn drop(&mut self) {
        let mut local = self.registry.local.write().unwrap_or_else(PoisonError::into_inner);
        let mut gone = None;
        if let Some(sessions) = local.get_mut(&self.place) {
            if let Some(at) = sessions.iter().position(|(id, _, _)| *id == self.id) {
                gone = Some(sessions.remove(at));
            }
            if sessions.is_empty() {
                local.remove(&self.place);
            }
        }
        self.registry.locals.fetch_sub(1, Ordering::Release);
        drop(local);
        // A session that closes does work of its own, not under this lock.
        drop(gone);
    }
}

/// Makes a session the default one of this process. Answers the one before.
///
/// ```
/// zklock::init(zklock::Session::embedded());
/// # Ok::<(), zklock::LockError>(())
/// ```
pub fn init(session: Session) -> Option<Session> {
    SessionRegistry::global().register_default(session)
}

fn prefix(name: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("ZKLOCK_{}_", name.chars().map(upper).collect::<String>())
}

fn not_configured(name: Option<&str>) -> LockError {
    let detail = match name {
        None => "no session is configured: call `zklock::init(Session::connect(\"host:2181\")\
                 .await?)` when the program starts, or set ZKLOCK_CONNECT to a connect string or \
                 to `embedded`"
            .to_owned(),
        Some(name) => format!(
            "no session `{name}` is configured: call `SessionRegistry::global().register({name:?}, \
             …)` when the program starts, or set {}CONNECT to a connect string or to `embedded`",
            prefix(name)
        ),
    };
    LockError::new(ErrorKind::NotConfigured, detail)
}

fn from_environment(prefix: &str) -> Result<Option<Session>, LockError> {
    let get = |name: &str| env::var(format!("{prefix}{name}")).ok().filter(|v| !v.is_empty());
    configured(prefix, get)
}

/// Makes a session of what `get` says; apart from the environment, so that it can be tested.
fn configured(
    prefix: &str,
    get: impl Fn(&str) -> Option<String>,
) -> Result<Option<Session>, LockError> {
    let Some(connect) = get("CONNECT") else { return Ok(None) };
    let invalid = |name: &str, what: String| {
        LockError::new(ErrorKind::InvalidOption, format!("{prefix}{name}: {what}"))
    };
    let duration = |name: &str| -> Result<Option<Duration>, LockError> {
        let Some(text) = get(name) else { return Ok(None) };
        let parsed = humantime::parse_duration(&text);
        parsed
            .map(Some)
            .map_err(|why| invalid(name, format!("{text:?} is no time ({why}); 10s is")))
    };
    let mut builder = Session::builder_for(&connect);
    if let Some(timeout) = duration("SESSION_TIMEOUT")? {
        builder = builder.session_timeout(timeout);
    }
    if let Some(timeout) = duration("CONNECT_TIMEOUT")? {
        builder = builder.connect_timeout(timeout);
    }
    if let Some(root) = get("ROOT") {
        builder = builder.root(root);
    }
    if let Some(app) = get("APP") {
        builder = builder.app(app);
    }
    if let Some(auth) = get("AUTH") {
        // The value is a secret: the error does not repeat it.
        let (scheme, credentials) = auth
            .split_once(':')
            .ok_or_else(|| invalid("AUTH", "not of the form digest:user:password".to_owned()))?;
        builder = builder.auth(scheme, credentials);
    }
    builder.open().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session_of(pairs: &[(&str, &str)]) -> Result<Option<Session>, LockError> {
        configured("ZKLOCK_", |name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_can_configure_everything() {
        assert!(session_of(&[]).unwrap().is_none());
        let pairs =
            [("CONNECT", "embedded"), ("ROOT", "/a/b"), ("APP", "x"), ("SESSION_TIMEOUT", "3s")];
        let session = session_of(&pairs).unwrap().unwrap();
        assert_eq!((session.root().as_str(), session.app()), ("/a/b", Some("x")));
    }

    #[test]
    fn an_environment_without_sense_is_an_error_that_names_the_variable() {
        for (pairs, part) in [
            ([("CONNECT", "embedded"), ("ROOT", "x")], "absolute"),
            ([("CONNECT", "embedded"), ("SESSION_TIMEOUT", "2 parsecs")], "ZKLOCK_SESSION_TIMEOUT"),
            ([("CONNECT", "embedded"), ("AUTH", "hunter2")], "ZKLOCK_AUTH"),
            ([("CONNECT", "a b c:x"), ("APP", "")], ""),
        ] {
            let error = session_of(&pairs).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn nothing_configured_is_an_error_that_says_what_to_set() {
        let registry = SessionRegistry::default();
        let error = registry.session(Some("bill-ing")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConfigured);
        assert!(error.to_string().contains("ZKLOCK_BILL_ING_CONNECT"), "{error}");
        assert!(not_configured(None).to_string().contains("ZKLOCK_CONNECT"));
    }

    #[tokio::test]
    async fn an_installed_session_is_seen_by_spawned_tasks_only() {
        let session = Session::embedded();
        let id = session.id();
        let installed = SessionRegistry::global().install_here(session);
        let find = || SessionRegistry::global().local(None).map(|session| session.id());
        assert_eq!(tokio::spawn(async move { find() }).await.unwrap(), Some(id));
        assert_eq!(thread::spawn(find).join().unwrap(), None);
        drop(installed);
        assert_eq!(find(), None);
    }
}
