//! The options of sessions on ZooKeeper's servers: how long to wait for them, and who may do what there.

use std::time::Duration;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
#[cfg(feature = "sasl")]
use crate::coordinator::zookeeper::Sasl;
#[cfg(feature = "tls")]
use crate::coordinator::zookeeper::Tls;
use crate::coordinator::zookeeper::{Acl, Auth, ZooKeeperOptions, validate_connect_string};
use crate::session::builder::SessionBuilder;
use crate::session::builder::store::Store;
#[cfg(doc)]
use crate::session::handle::Session;

impl SessionBuilder {
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

    /// Sets the session timeout to request, 10 s by default: after a crash of this process, its locks
    /// become free within this time and two ticks of the server (14 s). The server may grant a different timeout, within its own limits;
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
        match &mut self.store {
            Store::Embedded(_, requested) => *requested = timeout,
            Store::Custom(custom, Some(_)) => custom.session_timeout = timeout,
            _ => {}
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
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        if let Store::Custom(custom, Some(_)) = &mut self.store {
            custom.connect_timeout = timeout;
        }
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
    /// Where the servers let nobody in without SASL (`enforce.auth.enabled`, `sessionRequireClientSASLAuth`), the session sets
    /// no watches, because it would end when it connects again: the client library sends watches before SASL has come to its
    /// end. So a waiter looks at the queue each T/4 (5 s at most), and everything else that a watch tells is known with the
    /// next heartbeat, after T/6. The session finds out when it is opened, by a second connection without SASL.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::memory::Embedded;
    use crate::session::handle::Session;

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
