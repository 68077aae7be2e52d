//! How to make a session.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{ErrorKind, LockError};
use crate::base::machine::Machine;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::coordinator::memory::Embedded;
use crate::coordinator::traits::{Connector, RequestError};
#[cfg(feature = "sasl")]
use crate::coordinator::zookeeper::Sasl;
#[cfg(feature = "tls")]
use crate::coordinator::zookeeper::Tls;
use crate::coordinator::zookeeper::{
    Acl, Auth, ZooKeeperConnector, ZooKeeperOptions, validate_connect_string,
};
use crate::layout::curator::Curator;
use crate::layout::driver::{LockDriver, check};
use crate::name::path::ZnodePath;
use crate::observe::observer::{Events, Observer};
use crate::session::handle::{Parts, Session};
use crate::session::local_queues::Place;
use crate::session::runtime::Host;

/// How long an embedded session without a connection lives.
const EMBEDDED_TIMEOUT: Duration = Duration::from_secs(10);

/// How many ZooKeeper sessions a session opens at most.
const MOST_CONNECTIONS: usize = 4;

/// Makes a [`Session`]. See [`Session::builder`].
///
/// ```
/// use zklock::{Embedded, Session};
///
/// let session = Session::embedded_builder(&Embedded::new()).root("/prod").app("orders").open()?;
/// assert_eq!(session.mutex("create")?.path(), "/prod/create");
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SessionBuilder {
    store: Store,
    root: String,
    app: Option<Arc<str>>,
    tick: Option<Duration>,
    most_connections: usize,
    defaults: LockOptions,
    driver: Arc<dyn LockDriver>,
    observers: Vec<Arc<dyn Observer>>,
    acl_is_chosen: bool,
}

#[derive(Clone, Debug)]
enum Store {
    ZooKeeper(Box<ZooKeeperOptions>),
    Embedded(Embedded, Duration),
    #[cfg_attr(not(any(test, feature = "testing")), allow(dead_code))]
    Simulated(Arc<dyn Connector>, Arc<dyn Machine>),
}

impl Store {
    /// Two that are named alike are the same.
    fn place(&self) -> Place {
        match self {
            Store::ZooKeeper(options) => {
                let connect = &options.connect;
                let (servers, chroot) =
                    connect.split_at(connect.find('/').unwrap_or(connect.len()));
                Place { servers: servers.into(), chroot: chroot.trim_end_matches('/').into() }
            }
            Store::Embedded(store, _) => {
                Place { servers: store.address().into(), chroot: "".into() }
            }
            Store::Simulated(_, machine) => {
                let (host, process) = machine.process();
                Place { servers: format!("simulated {host} {process}").into(), chroot: "".into() }
            }
        }
    }
}

impl SessionBuilder {
    fn new(store: Store) -> Self {
        SessionBuilder {
            store,
            root: "/zklock".to_owned(),
            app: None,
            tick: None,
            most_connections: MOST_CONNECTIONS,
            defaults: LockOptions::default(),
            driver: Arc::new(Curator),
            observers: Vec::new(),
            acl_is_chosen: false,
        }
    }

    fn zookeeper(mut self, change: impl FnOnce(&mut ZooKeeperOptions)) -> Self {
        if let Store::ZooKeeper(options) = &mut self.store {
            change(options);
        }
        self
    }

    /// The session timeout to ask for, 10 s by default: how long after a crash of this process its
    /// locks are free again. The server may grant another, within its own limits.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// use std::time::Duration;
    /// use zklock::{Embedded, Session};
    ///
    /// let timeout = Duration::from_secs(4);
    /// let session = Session::embedded_builder(&Embedded::new()).session_timeout(timeout).open()?;
    /// assert!(session.mutex("orders")?.acquire().await?.remaining() < timeout);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        if let Store::Embedded(_, embedded) = &mut self.store {
            *embedded = timeout;
        }
        self.zookeeper(|options| options.session_timeout = timeout)
    }

    /// How long one attempt to connect may take, 5 s by default.
    ///
    /// ```no_run
    /// # zklock::blocking::block_on(async {
    /// use std::time::Duration;
    /// use zklock::Session;
    ///
    /// let soon = Session::builder("zk1:2181").connect_timeout(Duration::from_secs(1));
    /// assert!(soon.connect().await.is_err_and(|error| error.is_unavailable()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        self.zookeeper(|options| options.connect_timeout = timeout)
    }

    /// Credentials to present, for instance `("digest", "user:password")`. They are never printed,
    /// but without TLS everybody on the way can read them.
    ///
    /// The client has secrets of its own: at level `debug` its target `zookeeper_client` logs the
    /// passwords of ZooKeeper sessions, with which a session can be taken over while it lives.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use zklock::{Acl, Session};
    ///
    /// let credentials = format!("orders:{}", std::env::var("ZK_PASSWORD")?);
    /// let builder = Session::builder("zk1:2181").auth("digest", credentials);
    /// let session = builder.acl(Acl::CreatorAll).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn auth(self, scheme: impl Into<String>, credentials: impl Into<Vec<u8>>) -> Self {
        let auth = Auth { scheme: scheme.into(), credentials: credentials.into() };
        self.zookeeper(|options| options.auth.push(auth))
    }

    /// Who may do what with the nodes of the locks; everybody everything by default.
    ///
    /// ```no_run
    /// # zklock::blocking::block_on(async {
    /// use zklock::{Acl, Session};
    ///
    /// let session = Session::builder("zk1:2181")
    ///     .auth("digest", "orders:secret")
    ///     .acl(Acl::ReadOnlyOthers)
    ///     .connect()
    ///     .await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl_is_chosen = true;
        self.zookeeper(|options| options.acl = acl)
    }

    /// TLS to all servers, with the feature `tls`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use zklock::{Session, Tls};
    ///
    /// let tls = Tls::new(&std::fs::read_to_string("/etc/orders/authority.pem")?)?;
    /// let session = Session::builder("zk1:2281").tls(tls).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(self, tls: impl Into<Tls>) -> Self {
        self.zookeeper(|options| options.tls = Some(tls.into()))
    }

    /// SASL, with the feature `sasl`. The password is never printed, and does not leave this
    /// process.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use zklock::{Sasl, Session};
    ///
    /// let sasl = Sasl::digest_md5("orders", std::env::var("ZK_PASSWORD")?);
    /// let session = Session::builder("zk1:2181").sasl(sasl).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sasl")]
    pub fn sasl(self, sasl: Sasl) -> Self {
        self.zookeeper(|options| options.sasl = Some(sasl))
    }

    /// The server's `tickTime`, if it is known. With it leases live a little longer without an
    /// answer: until a fifth of the session timeout and half a tick before its end, where otherwise
    /// a quarter of the timeout stands in for the half tick. Say it where the server grants timeouts
    /// below two ticks (`minSessionTimeout`). Connecting fails, with the numbers, where no lease would
    /// be safe; [`Session::timing`] tells what came of it.
    ///
    /// ```no_run
    /// # zklock::blocking::block_on(async {
    /// use std::time::Duration;
    /// use zklock::Session;
    ///
    /// // `tickTime=2000` in zoo.cfg.
    /// let session =
    ///     Session::builder("zk1:2181").tick_time(Duration::from_millis(2_000)).connect().await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.tick = Some(tick);
        self
    }

    /// How many ZooKeeper sessions it opens at most, 4 by default. It begins with one, and opens
    /// another when many acquires are under way at once; one that was idle for a minute is closed.
    /// A server takes 60 connections of one machine unless it is told otherwise
    /// (`maxClientCnxns`).
    ///
    /// ```
    /// use zklock::Session;
    ///
    /// // A hundred tasks on a hundred locks.
    /// let busy = Session::builder("zk1:2181").max_connections(8);
    /// ```
    ///
    /// # Errors
    ///
    /// Zero is [`InvalidOption`](ErrorKind::InvalidOption) when the session is opened.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.most_connections = most;
        self
    }

    /// The node below which the locks are, `/zklock` by default. The lock `orders/create` is
    /// `/zklock/orders/create` then, for clients in other languages too.
    ///
    /// ```
    /// use zklock::{Embedded, Session};
    ///
    /// let session = Session::embedded_builder(&Embedded::new()).root("/billing/locks").open()?;
    /// assert_eq!(session.mutex("orders")?.path(), "/billing/locks/orders");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn root(mut self, root: impl Into<String>) -> Self {
        self.root = root.into();
        self
    }

    /// The application's name, as other processes see it in a busy error. The program's name by
    /// default.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// use zklock::Session;
    ///
    /// let billing = Session::embedded_builder(&store).app("billing").open()?;
    /// let _guard = billing.mutex("orders")?.acquire().await?;
    /// let busy = session.mutex("orders")?.try_acquire().await;
    /// assert!(busy.is_err_and(|error| format!("{error:#}").contains("by billing on")));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn app(mut self, app: impl Into<Arc<str>>) -> Self {
        self.app = Some(app.into());
        self
    }

    /// The defaults of all locks of the session.
    ///
    /// ```
    /// use zklock::{Embedded, LockOptions, Session};
    ///
    /// let once = LockOptions::default().retries(1);
    /// let session = Session::embedded_builder(&Embedded::new()).defaults(once).open()?;
    /// assert_eq!(session.mutex("orders")?.options().tries(), 1);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn defaults(mut self, defaults: LockOptions) -> Self {
        self.defaults = defaults;
        self
    }

    /// How the locks of the session are laid out in ZooKeeper: as Curator's by default. The shipped
    /// layouts are in [`layout`](crate::layout).
    ///
    /// ```
    /// use zklock::Session;
    /// use zklock::layout::Kazoo;
    ///
    /// let beside_python = Session::builder("zk1:2181").driver(Kazoo::default());
    /// ```
    pub fn driver(mut self, driver: impl LockDriver) -> Self {
        self.driver = Arc::new(driver);
        self
    }

    /// Who is told what happens; each call adds another observer.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use zklock::{Event, Observer};
    /// # #[derive(Debug)]
    /// # struct Tell(std::sync::mpsc::Sender<Event>);
    /// # impl Observer for Tell {
    /// #     fn event(&self, event: &Event) { drop(self.0.send(event.clone())) }
    /// # }
    /// use std::sync::{Arc, mpsc};
    /// use zklock::{Embedded, Session};
    ///
    /// let (tell, events) = mpsc::channel();
    /// let observer = Arc::new(Tell(tell)); // Sends what it is told.
    /// let session = Session::embedded_builder(&Embedded::new()).observer(observer).open()?;
    /// drop(session.mutex("orders")?.acquire().await?);
    /// assert!(events.iter().any(|event| matches!(event, Event::Acquired { .. })));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Makes the session, which connects in the background. What waits for a lock waits for the
    /// connection too, under its own deadline.
    ///
    /// ```
    /// use zklock::Session;
    ///
    /// let session = Session::builder_for("embedded").open()?;
    /// assert!(session.is_ready());
    /// assert!(Session::builder("no port:x").open().is_err());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] and [`ErrorKind::InvalidName`] for options and roots that make
    /// no sense, found without any I/O.
    pub fn open(self) -> Result<Session, LockError> {
        let root = ZnodePath::new(&self.root)?;
        let checked = [Mode::Mutex, Mode::Read, Mode::Write].map(|mode| check(&*self.driver, mode));
        if !checked.iter().any(Result::is_ok) {
            checked.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        if self.most_connections == 0 {
            let why = "max_connections is at least 1";
            return Err(LockError::new(ErrorKind::InvalidOption, why));
        }
        let place = self.store.place();
        let (connector, host): (Arc<dyn Connector>, _) = match self.store {
            Store::ZooKeeper(options) => {
                validate_connect_string(&options.connect).map_err(|error| {
                    let why = "the connect string is wrong; expected is \
                               host:port[,host:port...][/chroot], for instance \
                               \"zk1:2181,zk2:2181/apps\"";
                    LockError::new(ErrorKind::InvalidOption, why).because(error)
                })?;
                if !options.auth.is_empty() && !self.acl_is_chosen {
                    tracing::warn!(
                        "the nodes of locks are open to everybody, although this session has \
                         credentials: say `.acl(Acl::CreatorAll)` or set ZKLOCK_ACL=creator, or \
                         `.acl(Acl::Open)` if it is meant so"
                    );
                }
                let invalid = |error: RequestError| match error {
                    RequestError::BadArguments(why) => {
                        LockError::new(ErrorKind::InvalidOption, why)
                    }
                    other => LockError::new(ErrorKind::InvalidOption, other.in_short()),
                };
                (Arc::new(ZooKeeperConnector::new(*options).map_err(invalid)?), Host::Thread)
            }
            Store::Embedded(store, timeout) => (Arc::new(store.connector(timeout)), Host::Callers),
            Store::Simulated(connector, machine) => (connector, Host::Machine(machine)),
        };
        Session::start(Parts {
            connector,
            host,
            tick: self.tick,
            place,
            most_connections: self.most_connections,
            root,
            app: self.app,
            defaults: self.defaults,
            driver: self.driver,
            events: Events::to(self.observers),
        })
    }

    /// Makes the session and waits until it is connected, at most for the connect timeout.
    ///
    /// ```no_run
    /// # zklock::blocking::block_on(async {
    /// use zklock::{ErrorKind, Session};
    ///
    /// match Session::builder("zk1:2181,zk2:2181/prod").connect().await {
    ///     Ok(session) => assert!(session.is_ready()),
    ///     Err(error) if error.kind() == ErrorKind::NoChroot => println!("create /prod first"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`open`](SessionBuilder::open); [`ErrorKind::Unavailable`] for a server that cannot
    /// be reached, [`ErrorKind::NoChroot`] for a chroot that does not exist,
    /// [`ErrorKind::Unauthorized`] for wrong credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the session.
    pub async fn connect(self) -> Result<Session, LockError> {
        let session = self.open()?;
        session.first_contact().await?;
        Ok(session)
    }
}

impl Session {
    /// Connects to ZooKeeper with the defaults of [`Session::builder`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// let session = zklock::Session::connect("zk1:2181,zk2:2181/locks").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SessionBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// As [`SessionBuilder::connect`].
    pub async fn connect(servers: &str) -> Result<Session, LockError> {
        Session::builder(servers).connect().await
    }

    /// A session in the making. `servers` is a connect string: `host:port` pairs with commas
    /// between them, then a chroot if the locks live below a node of their own.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// use std::time::Duration;
    /// use zklock::Session;
    ///
    /// let session = Session::builder("zk1:2181,zk2:2181,zk3:2181/prod")
    ///     .session_timeout(Duration::from_secs(15))
    ///     .app("orders")
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(servers: impl Into<String>) -> SessionBuilder {
        SessionBuilder::new(Store::ZooKeeper(Box::new(ZooKeeperOptions::new(servers))))
    }

    /// A session in the making, on what a configuration names: a connect string as of
    /// [`builder`](Session::builder), or the word `embedded` for an
    /// [embedded coordinator](Session::embedded) of its own. A server of that name is written
    /// `embedded:2181`.
    ///
    /// ```
    /// use zklock::Session;
    ///
    /// let connect = std::env::args().nth(1).unwrap_or_else(|| "embedded".to_owned());
    /// let session = Session::builder_for(&connect).app("orders").open()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn builder_for(connect: &str) -> SessionBuilder {
        match connect {
            "embedded" => Session::embedded_builder(&Embedded::new()),
            servers => Session::builder(servers),
        }
    }

    /// A session on an embedded coordinator of its own, in the memory of this process: for tests
    /// and demos. It excludes nobody outside of this process.
    ///
    /// ```
    /// let session = zklock::Session::embedded();
    /// assert!(session.is_ready());
    /// ```
    pub fn embedded() -> Session {
        match Session::builder_for("embedded").open() {
            Ok(session) => session,
            Err(error) => unreachable!("the default options are valid: {error}"),
        }
    }

    /// A session in the making, on an embedded coordinator that several can share.
    ///
    /// ```
    /// use zklock::{Embedded, Session};
    ///
    /// let store = Embedded::new();
    /// let (one, two) =
    ///     (Session::embedded_builder(&store).open()?, Session::embedded_builder(&store).open()?);
    /// assert_ne!(one.zookeeper_session(), two.zookeeper_session());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn embedded_builder(store: &Embedded) -> SessionBuilder {
        SessionBuilder::new(Store::Embedded(store.clone(), EMBEDDED_TIMEOUT))
    }

    /// A session in the making, in a world of its own: nothing of the computer it runs on decides
    /// anything in it.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn simulated_builder(
        connector: Arc<dyn Connector>,
        machine: Arc<dyn Machine>,
    ) -> SessionBuilder {
        SessionBuilder::new(Store::Simulated(connector, machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_servers_as_they_were_named_and_the_chroot() {
        let place = |connect: &str| Session::builder(connect).store.place();
        let (plain, below) = (place("zk1:2181,zk2:2181"), place("zk1:2181,zk2:2181/prod"));
        assert_eq!((&*plain.servers, &*plain.chroot), ("zk1:2181,zk2:2181", ""));
        assert_eq!((&*below.servers, &*below.chroot), ("zk1:2181,zk2:2181", "/prod"));
        assert_eq!(place("zk1:2181/"), place("zk1:2181"));
        let (one, other) = (Embedded::new(), Embedded::new());
        let place = |store: &Embedded| Session::embedded_builder(store).store.place();
        assert_eq!(place(&one), place(&one.clone()));
        assert_ne!(place(&one), place(&other));
    }
}
