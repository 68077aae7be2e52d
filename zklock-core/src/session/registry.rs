//! The registry: which session the attribute and the template use.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, ThreadId};

use once_cell::sync::Lazy;
use tokio::runtime;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::on_drop::OnDrop;
use crate::session::environment::from_environment;
use crate::session::handle::Session;

/// The sessions of this process: a default session and named ones.
///
/// A session that is not registered is made from the environment on first use, if `ZKLOCK_CONNECT`
/// (for a session named `billing`, `ZKLOCK_BILLING_CONNECT`) is set; [`Session::from_env`] lists
/// the variables.
///
/// ```
/// use zklock::{Session, SessionRegistry};
///
/// SessionRegistry::global().register(Some("billing"), Session::embedded());
/// assert!(SessionRegistry::global().session(Some("billing"))?.is_ready());
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Debug, Default)]
pub struct SessionRegistry {
    default: RwLock<Option<Session>>,
    named: RwLock<HashMap<Arc<str>, Session>>,
    /// Sessions that only one runtime or thread sees.
    local: RwLock<HashMap<Place, Vec<Local>>>,
    locals: AtomicUsize,
    /// Held while a session is opened; nobody else waits for it.
    opening: Mutex<()>,
}

/// One installed session: the number of its installation, its name, and the session.
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
    /// Returns the registry of this process.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionRegistry;
    ///
    /// SessionRegistry::global().register(None, session.clone());
    /// assert_eq!(SessionRegistry::global().session(None)?.id(), session.id());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn global() -> &'static SessionRegistry {
        &GLOBAL
    }

    /// Registers a session under a name, or as the default session for `None`, which [`init`] does, too.
    /// Returns the one that it replaces.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionRegistry;
    ///
    /// // For `#[zk_locked("…", session = "billing")]`.
    /// SessionRegistry::global().register(Some("billing"), session.clone());
    /// assert_eq!(SessionRegistry::global().session(Some("billing"))?.id(), session.id());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn register(&self, name: Option<&str>, session: Session) -> Option<Session> {
        match name {
            None => self.default.write().unwrap_or_else(PoisonError::into_inner).replace(session),
            Some(name) => {
                let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
                named.insert(name.into(), session)
            }
        }
    }

    /// Removes a session, or the default session for `None`, and returns it. It closes when its
    /// last clone, lock, guard and view are dropped, and the last task has ended that carries one of its scopes.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::SessionRegistry;
    ///
    /// let registry = SessionRegistry::default();
    /// registry.register(Some("billing"), session);
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

    /// Installs a session under a name, or as the default session for `None`, that only the present tokio
    /// runtime sees, or outside of a runtime only the present thread. It is for tests, which share one process: the tasks that a test
    /// spawns see its session, and other tests do not. Dropping the returned value removes the
    /// session.
    ///
    /// ```
    /// use zklock::{Session, SessionRegistry};
    ///
    /// let _session = SessionRegistry::global().install_here(None, Session::embedded());
    /// assert!(SessionRegistry::global().session(None).is_ok());
    /// ```
    pub fn install_here(&'static self, name: Option<&str>, session: Session) -> Installed {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let (place, id) = (Place::here(), NEXT.fetch_add(1, Ordering::Relaxed) as u64);
        let mut local = self.local.write().unwrap_or_else(PoisonError::into_inner);
        local.entry(place).or_default().push((id, name.map(Arc::from), session));
        self.locals.fetch_add(1, Ordering::Release);
        Installed { registry: self, place, id }
    }

    fn local(&self, name: Option<&str>) -> Option<Session> {
        if self.locals.load(Ordering::Acquire) == 0 {
            return None;
        }
        let local = self.local.read().unwrap_or_else(PoisonError::into_inner);
        // A blocking call on a thread of a runtime sees what was installed for the runtime or the
        // thread.
        let places = [Place::here(), Place::Thread(thread::current().id())];
        let installed = places.iter().filter_map(|place| local.get(place)).flatten().rev();
        let mut matching = installed.filter(|(_, known, _)| known.as_deref() == name);
        matching.next().map(|(_, _, session)| session.clone())
    }

    /// Returns the session with a name, or the default session for `None`. A session that is not
    /// registered is made from the environment.
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
    /// [`ErrorKind::NotConfigured`] if there is none, with what to set; also if a log subscriber or a
    /// metrics recorder that is called while a session is opened asks for a session that is not
    /// registered. [`ErrorKind::InvalidOption`] for a
    /// variable whose value is not accepted, and for a name that is not registered and whose variables
    /// are those of another session: `connect` and `session`, because of `ZKLOCK_CONNECT_TIMEOUT` and
    /// `ZKLOCK_SESSION_TIMEOUT`.
    pub fn session(&self, name: Option<&str>) -> Result<Session, LockError> {
        if let Some(session) = self.local(name) {
            return Ok(session);
        }
        match self.known(name) {
            Some(session) => Ok(session),
            None => self.make(name, || from_environment(name)?.open()),
        }
    }

    fn known(&self, name: Option<&str>) -> Option<Session> {
        match name {
            None => self.default.read().unwrap_or_else(PoisonError::into_inner).clone(),
            Some(name) => {
                self.named.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
            }
        }
    }

    /// Opens a session that is not registered, one after the other. What the opening calls (a
    /// subscriber of logs, a recorder of metrics) may ask the registry as well.
    fn make(
        &self,
        name: Option<&str>,
        open: impl FnOnce() -> Result<Session, LockError>,
    ) -> Result<Session, LockError> {
        if OPENS.replace(true) {
            let why = "a log subscriber or metrics recorder asked for a session that is not registered, \
                       while a session was being opened";
            return Err(LockError::new(ErrorKind::NotConfigured, why));
        }
        let _opens = OnDrop::new(|| OPENS.set(false));
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = self.known(name) {
            return Ok(session);
        }
        let opened = open()?;
        let session = match name {
            None => {
                let mut default = self.default.write().unwrap_or_else(PoisonError::into_inner);
                default.get_or_insert_with(|| opened.clone()).clone()
            }
            Some(name) => {
                let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
                named.entry(Arc::from(name)).or_insert_with(|| opened.clone()).clone()
            }
        };
        // If another one was registered meanwhile, this one closes, where nothing is locked.
        drop(opened);
        Ok(session)
    }
}

thread_local! {
    /// Whether this thread opens a session.
    static OPENS: Cell<bool> = const { Cell::new(false) };
}

/// Keeps a session installed until it is dropped. Returned by [`SessionRegistry::install_here`].
///
/// ```
/// # let session = zklock::Session::embedded();
/// use zklock::{Session, SessionRegistry};
///
/// let installed = SessionRegistry::global().install_here(Some("billing"), Session::embedded());
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
        // Dropped outside of this lock, because closing a session takes other locks.
        drop(gone);
    }
}

/// Registers the default session of this process. Returns the previous one.
///
/// ```
/// zklock::init(zklock::Session::embedded());
/// # Ok::<(), zklock::LockError>(())
/// ```
pub fn init(session: Session) -> Option<Session> {
    SessionRegistry::global().register(None, session)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// A subscriber of logs, or a recorder of metrics.
    #[test]
    fn what_opens_a_session_may_ask_the_registry() {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let registry = SessionRegistry::default();
            let known = registry.register(Some("known"), Session::embedded());
            assert!(known.is_none());
            for name in [None, Some("billing")] {
                let opened = registry.make(name, || {
                    assert!(registry.session(Some("known")).is_ok());
                    let error = registry.session(name).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::NotConfigured);
                    Ok(Session::embedded())
                });
                let opened = opened.unwrap();
                assert_eq!(registry.session(name).unwrap().id(), opened.id());
                // One that is registered meanwhile is not replaced.
                let registered = Session::embedded();
                drop(registry.remove(name));
                let found = registry.make(name, || {
                    drop(registry.register(name, registered.clone()));
                    Ok(Session::embedded())
                });
                assert_eq!(found.unwrap().id(), registered.id());
            }
            let _ = tell.send(());
        });
        told.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn nothing_configured_is_an_error_that_says_what_to_set() {
        let registry = SessionRegistry::default();
        let error = registry.session(Some("bill-ing")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConfigured);
        assert!(error.to_string().contains("ZKLOCK_BILL_ING_CONNECT"), "{error}");
    }

    #[tokio::test]
    async fn an_installed_session_is_seen_by_spawned_tasks_only() {
        let session = Session::embedded();
        let id = session.id();
        let installed = SessionRegistry::global().install_here(None, session);
        let find = || SessionRegistry::global().local(None).map(|session| session.id());
        assert_eq!(tokio::spawn(async move { find() }).await.unwrap(), Some(id));
        assert_eq!(thread::spawn(find).join().unwrap(), None);
        drop(installed);
        assert_eq!(find(), None);
    }
}
