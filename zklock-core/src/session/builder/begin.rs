//! Where a session begins: on which coordinator, and with which builder.

use std::sync::Arc;
#[cfg(any(test, feature = "testing"))]
use std::time::Duration;

use crate::base::error::LockError;
#[cfg(any(test, feature = "testing"))]
use crate::base::machine::Machine;
use crate::base::times;
use crate::coordinator::connector::Connector;
use crate::coordinator::memory::Embedded;
use crate::coordinator::zookeeper::ZooKeeperOptions;
use crate::session::builder::SessionBuilder;
use crate::session::builder::store::{Custom, Store};
use crate::session::handle::Session;

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
    /// fn open(configured: Option<&str>) -> Result<Session, Box<dyn std::error::Error>> {
    ///     // No fallback to `embedded`: it excludes no other process.
    ///     let connect = configured.ok_or("no servers are configured")?;
    ///     Ok(Session::builder_for(connect).app("orders").open()?)
    /// }
    /// assert!(open(None).is_err());
    /// assert!(open(Some("embedded"))?.is_ready());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
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
        let connector: Arc<dyn Connector> = Arc::new(connector);
        let custom = Custom::new(move |_, _| connector.clone());
        SessionBuilder::new(Store::Custom(custom, None))
    }

    /// A session in the making, in a world of its own: nothing of the computer it runs on decides
    /// anything in it, and the connector decides the times.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn simulated_builder(
        connector: Arc<dyn Connector>,
        machine: Arc<dyn Machine>,
    ) -> SessionBuilder {
        Session::simulated_builder_by(move |_, _| connector.clone(), machine)
    }

    /// The same. The connector is made with the session timeout and the connect timeout of the builder.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn simulated_builder_by(
        connector: impl Fn(Duration, Duration) -> Arc<dyn Connector> + Send + Sync + 'static,
        machine: Arc<dyn Machine>,
    ) -> SessionBuilder {
        SessionBuilder::new(Store::Custom(Custom::new(connector), Some(machine)))
    }
}
