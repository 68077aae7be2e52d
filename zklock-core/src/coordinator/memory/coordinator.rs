//! The public types of the embedded coordinator.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::alarm::Alarm;
use super::pending::{LinkChanged, PendingWatch, SeenLink, send};
use super::request::{Answer, Request};
use super::store::Store;
use crate::base::clock::Instant;
use crate::base::times;
use crate::coordinator::access::AclEntry;
use crate::coordinator::connector::Connector;
use crate::coordinator::link::Link;
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::coordinator::watch::Watch;

/// Options of an [`Embedded`] store.
///
/// ```
/// use std::time::Duration;
/// use zklock::{Embedded, EmbeddedOptions};
///
/// let options = EmbeddedOptions::new();
/// assert_eq!(options.reap_after, Duration::from_secs(60));
/// let store = Embedded::with_options(options.reap_after(Duration::from_millis(100)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct EmbeddedOptions {
    /// How long an empty container stays after its last child was deleted; 60 s by default, as on a
    /// server.
    pub reap_after: Duration,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        EmbeddedOptions::new()
    }
}

impl EmbeddedOptions {
    /// Returns the default options.
    ///
    /// ```
    /// use zklock::EmbeddedOptions;
    ///
    /// assert_eq!(EmbeddedOptions::new(), EmbeddedOptions::default());
    /// ```
    pub fn new() -> Self {
        EmbeddedOptions { reap_after: Duration::from_secs(60) }
    }

    /// Sets how long an empty container stays after its last child was deleted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::EmbeddedOptions;
    ///
    /// let soon = EmbeddedOptions::new().reap_after(Duration::from_millis(100));
    /// assert!(soon.reap_after < EmbeddedOptions::new().reap_after);
    /// ```
    pub fn reap_after(mut self, time: Duration) -> Self {
        self.reap_after = time;
        self
    }
}

/// A tree of nodes in memory, which any number of sessions can share. Clones are the same store.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::{Embedded, Session};
///
/// // Two processes, in one test.
/// let store = Embedded::new();
/// let (one, other) = (Session::embedded_builder(&store), Session::embedded_builder(&store));
/// let _guard = one.open()?.mutex("orders")?.acquire().await?;
/// assert!(other.open()?.mutex("orders")?.try_acquire().await.is_err_and(|error| error.is_busy()));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Embedded {
    pub(super) store: Arc<Store>,
}

impl Embedded {
    /// Returns a new, empty store.
    ///
    /// ```
    /// use zklock::{Embedded, Session};
    ///
    /// let session = Session::embedded_builder(&Embedded::new()).app("orders").open()?;
    /// assert!(session.is_ready());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn new() -> Self {
        Embedded::with_options(EmbeddedOptions::new())
    }

    /// Returns a new, empty store with these options.
    ///
    /// ```
    /// use zklock::{Embedded, EmbeddedOptions, Session};
    ///
    /// let store = Embedded::with_options(EmbeddedOptions::new());
    /// assert!(Session::embedded_builder(&store).open()?.is_ready());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn with_options(options: EmbeddedOptions) -> Self {
        Embedded { store: Store::new(options.reap_after) }
    }

    /// Returns a connector that opens sessions on this store, for a
    /// [connector](crate::coordinator::connector::Connector) around it. A session whose connection is
    /// broken expires after `session_timeout`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// use zklock::driver::Connector;
    ///
    /// let server = zklock::Embedded::new().connector(Duration::from_secs(10)).connect().await?;
    /// assert!(server.children("/").await?.is_empty());
    /// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
    /// ```
    pub fn connector(&self, session_timeout: Duration) -> impl Connector + Clone + use<> {
        EmbeddedConnector { store: self.store.clone(), session_timeout }
    }

    /// A text that differs for each store.
    pub(crate) fn address(&self) -> String {
        format!("embedded {:p}", Arc::as_ptr(&self.store))
    }
}

impl Default for Embedded {
    fn default() -> Self {
        Embedded::new()
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

/// Opens sessions on an [`Embedded`] store.
#[doc(hidden)]
#[derive(Clone)]
pub struct EmbeddedConnector {
    store: Arc<Store>,
    session_timeout: Duration,
}

impl fmt::Debug for EmbeddedConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedConnector")
            .field("session_timeout", &self.session_timeout)
            .finish_non_exhaustive()
    }
}

impl Connector for EmbeddedConnector {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        let opened = self.store.access(|state, now| {
            let (session, at) = state.connect(self.session_timeout, now)?;
            Ok((session, (at > now).then_some(at)))
        });
        let (store, session_timeout) = (self.store.clone(), self.session_timeout);
        let opened = opened.map(|(session, at)| {
            let opened: Arc<dyn Coordinator> =
                Arc::new(EmbeddedCoordinator { store: store.clone(), session, session_timeout });
            (opened, at)
        });
        match opened {
            Ok((coordinator, Some(at))) => Box::pin(async move {
                store.clock.sleep_until(at).await;
                Ok(coordinator)
            }),
            answered => Box::pin(ready(answered.map(|(coordinator, _)| coordinator))),
        }
    }
}

/// A session on an [`Embedded`] store. Dropping it closes the session.
pub struct EmbeddedCoordinator {
    store: Arc<Store>,
    session: i64,
    session_timeout: Duration,
}

impl fmt::Debug for EmbeddedCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedCoordinator")
            .field("session", &format_args!("{:#x}", self.session))
            .field("session_timeout", &self.session_timeout)
            .finish_non_exhaustive()
    }
}

impl EmbeddedCoordinator {
    fn wait_for_link(&self, seen: SeenLink) -> LinkChanged {
        let (alarm, store) = (Alarm::new(self.store.clock.clone()), self.store.clone());
        LinkChanged { alarm, store, session: self.session, seen, slot: None }
    }

    fn done(&self, request: Request) -> Reply<()> {
        send(&self.store, self.session, request, |answer, _| match answer {
            Answer::Done => Some(()),
            _ => None,
        })
    }
}

impl Coordinator for EmbeddedCoordinator {
    fn session_id(&self) -> i64 {
        self.session
    }

    fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
        let request = Request::Create { path: path.to_owned(), data: data.to_vec(), kind };
        send(&self.store, self.session, request, |answer, _| match answer {
            Answer::Created(created) => Some(created),
            _ => None,
        })
    }

    fn delete(&self, path: &str) -> Reply<()> {
        self.done(Request::Delete { path: path.to_owned() })
    }

    fn children(&self, path: &str) -> Reply<Vec<String>> {
        let request = Request::Children { path: path.to_owned(), watch: false };
        send(&self.store, self.session, request, |answer, _| match answer {
            Answer::Children(names, _) => Some(names),
            _ => None,
        })
    }

    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
        let request = Request::Children { path: path.to_owned(), watch: true };
        send(&self.store, self.session, request, |answer, store| match answer {
            Answer::Children(names, Some(watch)) => {
                Some((names, PendingWatch::boxed(watch, store)))
            }
            _ => None,
        })
    }

    /// It keeps none.
    fn acl(&self, path: &str) -> Reply<Option<Vec<AclEntry>>> {
        let asked = self.sync(path);
        Box::pin(async move { asked.await.map(|()| None) })
    }

    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        let request = Request::Get { path: path.to_owned(), watch: false };
        send(&self.store, self.session, request, |answer, _| match answer {
            Answer::Data(data, stat, _) => Some((data, stat)),
            _ => None,
        })
    }

    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let request = Request::Get { path: path.to_owned(), watch: true };
        send(&self.store, self.session, request, |answer, store| match answer {
            Answer::Data(data, stat, Some(watch)) => {
                Some((data, stat, PendingWatch::boxed(watch, store)))
            }
            _ => None,
        })
    }

    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
        let request = Request::Set { path: path.to_owned(), data: data.to_vec() };
        send(&self.store, self.session, request, |answer, _| match answer {
            Answer::Stat(stat) => Some(stat),
            _ => None,
        })
    }

    fn multi(&self, operations: Vec<Operation>) -> Reply<()> {
        self.done(Request::Multi(operations))
    }

    fn sync(&self, path: &str) -> Reply<()> {
        self.done(Request::Sync { path: path.to_owned() })
    }

    fn link(&self) -> Link {
        self.store.look(|state, now| {
            state.sessions.get(&self.session).map_or(Link::Closed, |session| session.link(now))
        })
    }

    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
        Box::pin(self.wait_for_link(SeenLink::As(seen)))
    }

    fn link_lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let losses = self.store.access(|state, _| {
            state.sessions.get(&self.session).map_or(0, |session| session.losses)
        });
        let lost = self.wait_for_link(SeenLink::Lost(losses));
        Box::pin(async move {
            lost.await;
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let is_told = self.store.access(|state, now| {
            state.close(self.session, now);
            state.sessions.get(&self.session).is_none_or(|session| !session.alive)
        });
        match is_told {
            true => Box::pin(ready(())),
            // The nodes are there as long as the server cannot be told.
            false => Box::pin(self.store.clock.sleep(times::CLOSE)),
        }
    }

    fn last_contact(&self) -> Option<Instant> {
        self.store.look(|state, now| {
            state.sessions.get(&self.session).map(|session| session.last_contact().unwrap_or(now))
        })
    }
}

impl Drop for EmbeddedCoordinator {
    fn drop(&mut self) {
        self.store.access(|state, now| {
            state.close(self.session, now);
            if let Some(session) = state.sessions.get_mut(&self.session) {
                session.orphan = true;
            }
            state.settle(self.session);
        });
    }
}
