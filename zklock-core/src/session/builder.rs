//! Builds a session from its settings.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{ErrorKind, LockError};
use crate::base::machine::Machine;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::settings::Settings;
use crate::base::times;
use crate::coordinator::connector::Connector;
use crate::coordinator::limits::check_session_timeout;
use crate::coordinator::memory::Embedded;
use crate::coordinator::request_error::RequestError;
#[cfg(feature = "sasl")]
use crate::coordinator::zookeeper::Sasl;
#[cfg(feature = "tls")]
use crate::coordinator::zookeeper::Tls;
use crate::coordinator::zookeeper::{
    Acl, Auth, ZooKeeperConnector, ZooKeeperOptions, validate_connect_string,
};
use crate::layout::check::check;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::layout::to_driver::ToDriver;
use crate::name::path::ZnodePath;
use crate::observe::observer::{Events, Observer};
use crate::session::handle::{About, Session};
use crate::session::health::SessionHealth;
use crate::session::lane::LaneConfig;
use crate::session::local_queues::{LocalQueues, Place};
use crate::session::runtime::{Host, Runtime};

/// The default of `max_connections`: ZooKeeper sessions per session.
const MOST_CONNECTIONS: usize = 4;

/// Builds a [`Session`]. Created by [`Session::builder`].
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
    #[cfg(feature = "metrics")]
    has_metrics: bool,
    acl_is_chosen: bool,
    /// An option that a connector of the user's decides itself.
    decided: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum Store {
    ZooKeeper(Box<ZooKeeperOptions>),
    Embedded(Embedded, Duration),
    /// A coordinator of the user's; in a simulation, with the machine that is simulated.
    Custom(Arc<dyn Connector>, Option<Arc<dyn Machine>>),
}

impl Store {
    /// The servers and the chroot, as they are written. Two stores that are written alike are the
    /// same.
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
            Store::Custom(connector, machine) => {
                let servers = match machine {
                    Some(machine) => format!("simulated {}", machine.place()),
                    None => format!("connector {:p}", Arc::as_ptr(connector)),
                };
                Place { servers: servers.into(), chroot: "".into() }
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
            defaults: LockOptions::new(),
            driver: Arc::new(Curator),
            observers: Vec::new(),
            #[cfg(feature = "metrics")]
            has_metrics: false,
            acl_is_chosen: false,
            decided: None,
        }
    }

    /// Sets an option of sessions on ZooKeeper's servers. What stands in for them in tests, the embedded coordinator
    /// or a simulation, has nobody to keep out.
    fn zookeeper(
        mut self,
        option: &'static str,
        change: impl FnOnce(&mut ZooKeeperOptions),
    ) -> Self {
        match &mut self.store {
            Store::ZooKeeper(options) => change(options),
            Store::Embedded(..) | Store::Custom(_, Some(_)) => {}
            Store::Custom(_, None) => _ = self.decided.get_or_insert(option),
        }
        self
    }

    /// Sets the session timeout to request, 10 s by default: how long after a crash of this process
    /// its locks become free. The server may grant a different timeout, within its own limits;
    /// [`Session::timing`] returns the granted one.
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
        self.zookeeper("session_timeout", |options| options.session_timeout = timeout)
    }

    /// Sets the longest time for one attempt to connect, over all servers of the list; 5 s by
    /// default.
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
        self.zookeeper("connect_timeout", |options| options.connect_timeout = timeout)
    }

    /// Adds credentials, for instance `("digest", "user:password")`. zklock never prints them, but
    /// without TLS they can be read on the network.
    ///
    /// The client library has secrets of its own: its log target `zookeeper_client` prints, at
    /// level `debug`, the passwords of ZooKeeper sessions, with which somebody else could take over
    /// a session.
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
        self.zookeeper("auth", |options| options.auth.push(auth))
    }

    /// Sets who may access the nodes of the locks. By default, [`Acl::Open`]: everybody may do
    /// everything. The embedded coordinator keeps nobody out, whatever the ACL is.
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
        self.zookeeper("acl", |options| options.acl = acl)
    }

    /// Uses TLS for all servers. Requires the feature `tls`.
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
        self.zookeeper("tls", |options| options.tls = Some(tls.into()))
    }

    /// Authenticates by SASL. Requires the feature `sasl`. The password is never printed, and is
    /// not sent to the server.
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
        self.zookeeper("sasl", |options| options.sasl = Some(sasl))
    }

    /// Sets the server's `tickTime`, if it is known. The lease ends T/5 and half a tick before the end
    /// of the session timeout T, and an unknown tick counts as T/2: so a known one usually makes the
    /// lease longer. It must be set where the servers grant timeouts of less than two ticks
    /// (`minSessionTimeout`): there it makes the lease as short as it has to be. If no safe lease is
    /// left, connecting fails with an error that contains these numbers; [`Session::timing`] returns
    /// the resulting times.
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

    /// Sets how many ZooKeeper sessions this session may open, 4 by default. It begins with one,
    /// opens another when more than eight acquires are pending at once, and closes one that was
    /// idle for half a minute to a minute. A server accepts 60 connections from one host, unless its
    /// `maxClientCnxns` says otherwise.
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
    /// [`open`](SessionBuilder::open) and [`connect`](SessionBuilder::connect) refuse zero with
    /// [`InvalidOption`](ErrorKind::InvalidOption).
    pub fn max_connections(mut self, most: usize) -> Self {
        self.most_connections = most;
        self
    }

    /// Sets the node below which all locks are, `/zklock` by default. The lock `orders/create` is
    /// then the node `/zklock/orders/create`, for clients in other languages as well.
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

    /// Sets the application's name, which other processes see in their busy errors. By default it
    /// is the name of the program.
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

    /// Sets the default options of all locks of the session. What is not set in `defaults` stays as an
    /// earlier call or the library says.
    ///
    /// ```
    /// use zklock::{Embedded, LockOptions, Session};
    ///
    /// let once = LockOptions::new().retries(1);
    /// let session = Session::embedded_builder(&Embedded::new()).defaults(once).open()?;
    /// assert_eq!(session.mutex("orders")?.options().retries, Some(1));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn defaults(mut self, defaults: LockOptions) -> Self {
        self.defaults = defaults.or(self.defaults);
        self
    }

    /// Sets the layout of the session's locks in ZooKeeper: Curator's by default. The module
    /// [`layout`](crate::layout) contains those that the crate provides.
    ///
    /// ```
    /// use zklock::Session;
    /// use zklock::layout::Kazoo;
    ///
    /// let beside_python = Session::builder("zk1:2181").driver(Kazoo::default());
    /// ```
    pub fn driver(mut self, driver: impl ToDriver) -> Self {
        self.driver = driver.to_driver();
        self
    }

    /// Sets [`LockOptions::warn_waiting`] for all locks of the session that set none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::{Embedded, Session};
    ///
    /// let builder = Session::embedded_builder(&Embedded::new());
    /// let session = builder.warn_waiting(Duration::from_secs(10)).open()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn warn_waiting(mut self, longer_than: Duration) -> Self {
        self.defaults = self.defaults.warn_waiting(longer_than);
        self
    }

    /// Sets [`LockOptions::warn_holding`] for all locks of the session that set none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::{Embedded, Session};
    ///
    /// let builder = Session::embedded_builder(&Embedded::new());
    /// let session = builder.warn_holding(Duration::from_secs(60)).open()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn warn_holding(mut self, longer_than: Duration) -> Self {
        self.defaults = self.defaults.warn_holding(longer_than);
        self
    }

    /// Adds an observer of the session's events. A session may have several.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use zklock::{Event, Observer};
    /// # #[derive(Debug)]
    /// # struct Tell(std::sync::mpsc::Sender<Event>);
    /// # impl Observer for Tell {
    /// #     fn event(&self, event: &Event) { drop(self.0.send(event.clone())) }
    /// # }
    /// use std::sync::mpsc;
    /// use zklock::{Embedded, Session};
    ///
    /// let (tell, events) = mpsc::channel(); // `Tell` sends what it is told.
    /// let session = Session::embedded_builder(&Embedded::new()).observer(Tell(tell)).open()?;
    /// drop(session.mutex("orders")?.acquire().await?);
    /// assert!(events.iter().any(|event| matches!(event, Event::Acquired { .. })));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Counts what happens to the session's locks, with the crate `metrics`: `docs/metrics.md` lists all
    /// metrics. The program installs a recorder, such as that of `metrics-exporter-prometheus`, and
    /// calls [`sample`](crate::observe::gauges::sample) before the metrics are read.
    ///
    /// ```
    /// use zklock::{Embedded, Session};
    ///
    /// let session = Session::embedded_builder(&Embedded::new()).metrics().open()?;
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self) -> Self {
        if !std::mem::replace(&mut self.has_metrics, true) {
            self.observers.push(Arc::new(crate::observe::metrics::Counting));
        }
        self
    }

    /// Creates the session, which connects in the background. A call that needs a lock before the
    /// connection is up waits for it, within its own deadline.
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
    /// [`ErrorKind::InvalidOption`] for options that are not accepted, among them those that
    /// [`Session::builder_on`] refuses, and [`ErrorKind::InvalidName`] for such a root; both are checked
    /// without any I/O.
    /// [`ErrorKind::Unavailable`] if the system cannot start a thread.
    pub fn open(self) -> Result<Session, LockError> {
        let root = ZnodePath::new(&self.root)?;
        let checked = [Mode::Mutex, Mode::Read, Mode::Write].map(|mode| check(&*self.driver, mode));
        if !checked.iter().any(Result::is_ok) {
            checked.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        if self.most_connections == 0 {
            let why = "max_connections must be at least 1";
            return Err(LockError::new(ErrorKind::InvalidOption, why));
        }
        if self.tick.is_some_and(|tick| tick.is_zero()) {
            let why = "`tick_time` must be longer than zero";
            return Err(LockError::new(ErrorKind::InvalidOption, why));
        }
        if let Some(option) = self.decided {
            let why = format!(
                "`{option}` is not accepted by `builder_on`: the connector that it is given decides that"
            );
            return Err(LockError::new(ErrorKind::InvalidOption, why));
        }
        self.check_servers()?;
        let place = self.store.place();
        let invalid = |error: RequestError| match error {
            RequestError::BadArguments(why) => LockError::new(ErrorKind::InvalidOption, why),
            other => LockError::new(ErrorKind::InvalidOption, other.in_short()),
        };
        let (connector, host): (Arc<dyn Connector>, _) = match self.store {
            Store::ZooKeeper(options) => {
                if !options.auth.is_empty() && !self.acl_is_chosen {
                    tracing::warn!(
                        "this session has credentials and no ACL, so the nodes of its locks are \
                         open to everybody: use `.acl(Acl::CreatorAll)` or ZKLOCK_ACL=creator, or \
                         `.acl(Acl::Open)` if this is intended"
                    );
                }
                (Arc::new(ZooKeeperConnector::new(*options).map_err(invalid)?), Host::Thread)
            }
            Store::Embedded(store, timeout) => {
                check_session_timeout(timeout).map_err(invalid)?;
                (Arc::new(store.connector(timeout)), Host::Callers)
            }
            Store::Custom(connector, machine) => {
                (connector, machine.map_or(Host::Thread, Host::Machine))
            }
        };
        let settings = Settings::default().with(&self.defaults);
        settings.check(Mode::Mutex, &settings)?;
        let (runtime, io) = Runtime::start(host)?;
        let lane_config = LaneConfig {
            connector,
            runtime,
            tick: self.tick,
            most: self.most_connections,
            events: Events::to(self.observers),
            health: SessionHealth::connecting(),
            local_queues: LocalQueues::new(place),
        };
        let about = About { root, app: self.app, settings, driver: self.driver };
        let session = Session::start(lane_config, io, about);
        #[cfg(feature = "metrics")]
        if self.has_metrics {
            crate::observe::gauges::add(&session);
        }
        Ok(session)
    }

    /// Creates the session and waits until it is connected, at most for the
    /// [connect timeout](SessionBuilder::connect_timeout).
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
    /// Those of [`open`](SessionBuilder::open); [`ErrorKind::Unavailable`] if no server can be
    /// reached in time, [`ErrorKind::NoChroot`] if the chroot does not exist,
    /// [`ErrorKind::Unauthorized`] if the credentials are wrong.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the session in the background.
    pub async fn connect(self) -> Result<Session, LockError> {
        let session = self.open()?;
        session.first_contact().await?;
        Ok(session)
    }

    /// Checks the connect string.
    pub(crate) fn check_servers(&self) -> Result<(), LockError> {
        let Store::ZooKeeper(options) = &self.store else { return Ok(()) };
        validate_connect_string(&options.connect).map_err(|error| {
            let why = "the connect string is not valid; accepted is \
                       host:port[,host:port...][/chroot], for instance \"zk1:2181,zk2:2181/apps\"";
            LockError::new(ErrorKind::InvalidOption, why).because(error)
        })
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

    /// Returns a builder for a session on ZooKeeper. `servers` is a connect string: `host:port`
    /// pairs separated by commas, and optionally a chroot, the node below which all paths are.
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

    /// Returns a builder for what a configuration names: a connect string, as in
    /// [`builder`](Session::builder), or the word `embedded`, which stands for a new
    /// [embedded coordinator](Session::embedded). A server whose name is `embedded` is written
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

    /// Returns a session on a new embedded coordinator, in the memory of this process: for tests
    /// and demonstrations. It does not exclude other processes.
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

    /// Returns a builder for a session on an embedded coordinator, which several sessions can
    /// share. It has no servers, and so no use for [`auth`](SessionBuilder::auth),
    /// [`acl`](SessionBuilder::acl), `tls`, `sasl` and
    /// [`connect_timeout`](SessionBuilder::connect_timeout).
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
        SessionBuilder::new(Store::Embedded(store.clone(), times::SESSION_TIMEOUT))
    }

    /// Returns a builder for a session on a custom coordinator, or on a wrapper of another one. Sessions
    /// of one process that share locks must be built from clones of one builder.
    ///
    /// The connector decides the session timeout, how long an attempt to connect takes, who may
    /// connect, and who may access the nodes:
    /// [`session_timeout`](SessionBuilder::session_timeout),
    /// [`connect_timeout`](SessionBuilder::connect_timeout), [`auth`](SessionBuilder::auth),
    /// [`acl`](SessionBuilder::acl), `tls` and `sasl` are refused here. Locks of equal paths on
    /// two such builders have no order that other processes know of: two processes that acquire them
    /// as one [`MultiLock`](crate::lock::MultiLock) can wait for each other.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # use std::time::Duration;
    /// # use zklock::{Embedded, Session};
    /// let connector = Embedded::new().connector(Duration::from_secs(10));
    /// let session = Session::builder_on(connector).connect().await?;
    /// assert!(session.is_ready());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn builder_on(connector: impl Connector) -> SessionBuilder {
        SessionBuilder::new(Store::Custom(Arc::new(connector), None))
    }

    /// A session in the making, in a world of its own: nothing of the computer it runs on decides
    /// anything in it.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn simulated_builder(
        connector: Arc<dyn Connector>,
        machine: Arc<dyn Machine>,
    ) -> SessionBuilder {
        SessionBuilder::new(Store::Custom(connector, Some(machine)))
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

    #[test]
    fn what_the_connector_decides_is_refused() {
        let second = Duration::from_secs(1);
        let on = || Session::builder_on(Embedded::new().connector(second));
        assert!(on().open().is_ok());
        for (option, builder) in [
            ("acl", on().acl(Acl::CreatorAll)),
            ("auth", on().auth("digest", "orders:secret").acl(Acl::CreatorAll)),
            ("session_timeout", on().session_timeout(second)),
            ("connect_timeout", on().connect_timeout(second)),
        ] {
            let error = builder.open().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains(&format!("`{option}`")), "{error}");
        }
    }

    #[test]
    fn a_session_timeout_that_the_protocol_cannot_carry_is_refused_on_any_store() {
        for timeout in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
            let builders = [Session::embedded_builder(&Embedded::new()), Session::builder("zk1")];
            for builder in builders {
                let error = builder.session_timeout(timeout).open().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidOption);
                assert!(error.to_string().contains("between 1 ms and 24 days"), "{error}");
            }
        }
    }
}
