//! Builds a session from its settings.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::settings::Settings;
use crate::divergence::phantom::Phantoms;
use crate::layout::check::check;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::layout::to_driver::ToDriver;
use crate::name::path::ZnodePath;
use crate::observe::observer::{Events, Observer};
use crate::session::handle::{About, Session};
use crate::session::health::SessionHealth;
use crate::session::lane::LaneConfig;
use crate::session::local_queues::LocalQueues;
use crate::session::runtime::Runtime;

mod begin;
mod servers;
mod store;

use store::Store;

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

    /// Sets the server's `tickTime`, if it is known. The lease ends T/5 and half a tick before the end
    /// of the session timeout T, and an unknown tick counts as T/2: so a known one usually makes the
    /// lease longer. It must be set where the servers grant timeouts of less than two ticks
    /// (`minSessionTimeout`): there it makes the lease as short as it has to be. If no safe lease is
    /// left, connecting fails with an error that contains these numbers; [`Session::timing`] returns
    /// the resulting times.
    ///
    /// Where clients use observers behind an `observerMasterPort`, give twice the tick: an observer tells its
    /// sessions to a follower, and that tells the leader, half a tick each.
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
    /// opens another when more than eight acquires at once have no answer of ZooKeeper yet, when 500 are under way, those
    /// that wait included, or when it holds nodes with more than 700 KiB of paths, and closes one that was idle for half a minute to a minute. Where all of them
    /// have 1,800 KiB, acquires fail with [`Unavailable`](ErrorKind::Unavailable): more than 2 MiB in one
    /// ZooKeeper session would keep servers from starting again when it ends. A server accepts 60 connections from one host, unless its
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
        let (connector, host) = self.store.open(self.acl_is_chosen)?;
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
            phantoms: Phantoms::default(),
            stuck: Arc::default(),
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
}
