//! TLS, for the connections to ZooKeeper. No type here prints a secret.

use std::fmt;

use zookeeper_client::{TlsCa, TlsCerts, TlsDynamicCerts, TlsIdentity, TlsOptions};

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;

/// TLS for all servers.
///
/// A server's certificate is checked against the trusted authorities, and must contain the name or
/// address that the connect string uses. With an [identity](Tls::identity), this process presents
/// its own certificate. ZooKeeper then identifies the client by the certificate's subject, and
/// [`Acl::CreatorAll`](super::Acl::CreatorAll) needs no other credentials.
///
/// A certificate that is about to expire is replaced by [`renew`](Tls::renew), while sessions use it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zklock::{Session, Tls};
///
/// let read = |name: &str| std::fs::read_to_string(format!("/etc/orders/{name}.pem"));
/// let tls = Tls::new(&read("authority")?)?.identity(&read("certificate")?, &read("key")?)?;
/// let session = Session::builder("zk1:2281,zk2:2281,zk3:2281").tls(tls).connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tls {
    ca: TlsCa,
    identity: Option<TlsIdentity>,
    /// What connections are opened with; shared by clones.
    current: TlsDynamicCerts,
}

impl Tls {
    /// Trusts servers whose certificates these authorities have signed. `authorities` are
    /// certificates in PEM.
    ///
    /// ```
    /// use zklock::{ErrorKind, Tls};
    ///
    /// let error = Tls::new("no certificate").err();
    /// assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::InvalidOption));
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] if the text contains no certificate.
    pub fn new(authorities: &str) -> Result<Self, LockError> {
        let ca = TlsCa::from_pem(authorities).map_err(|why| invalid("authorities", &why))?;
        Self::of(ca, None)
    }

    fn of(ca: TlsCa, identity: Option<TlsIdentity>) -> Result<Self, LockError> {
        let current = TlsDynamicCerts::new(certificates(&ca, identity.as_ref())?);
        Ok(Tls { ca, identity, current })
    }

    /// Presents this certificate to the servers: the certificate with its chain, and its private
    /// key, both in PEM.
    ///
    /// ```no_run
    /// use zklock::Tls;
    ///
    /// let read = |name: &str| std::fs::read_to_string(format!("/etc/orders/{name}.pem"));
    /// let tls = Tls::new(&read("authority")?)?;
    /// let tls = tls.identity(&read("certificate")?, &read("key")?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] if either is missing or cannot be read.
    pub fn identity(self, certificate: &str, key: &str) -> Result<Self, LockError> {
        if !certificate.contains("BEGIN CERTIFICATE") {
            return Err(LockError::new(ErrorKind::InvalidOption, "TLS identity: no certificate"));
        }
        let identity = TlsIdentity::from_pem(certificate, key);
        Self::of(self.ca, Some(identity.map_err(|why| invalid("identity", &why))?))
    }

    /// Replaces the authorities and the identity, for this and all its clones: those that sessions were
    /// opened with. Connections that are open stay as they are; every later one uses what `newer` was
    /// made of, also where a session comes back after a cut. Sessions and locks are not lost.
    ///
    /// If `newer` cannot be used, for instance because the key is not that of the certificate, the
    /// client library logs it at WARN, and goes on with what it has.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use zklock::{Session, Tls};
    ///
    /// fn from_files() -> Result<Tls, Box<dyn std::error::Error>> {
    ///     let read = |name: &str| std::fs::read_to_string(format!("/etc/orders/{name}.pem"));
    ///     Ok(Tls::new(&read("authority")?)?.identity(&read("certificate")?, &read("key")?)?)
    /// }
    ///
    /// let tls = from_files()?;
    /// let session = Session::builder("zk1:2281,zk2:2281").tls(tls.clone()).connect().await?;
    /// // Where certificates are renewed in their files, long before the old ones expire:
    /// loop {
    ///     tokio::time::sleep(Duration::from_secs(3600)).await;
    ///     match from_files() {
    ///         Ok(newer) => tls.renew(newer)?,
    ///         Err(why) => eprintln!("certificates cannot be read: {why}"),
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] if the client library does not accept them.
    pub fn renew(&self, newer: Tls) -> Result<(), LockError> {
        self.current.update(certificates(&newer.ca, newer.identity.as_ref())?);
        Ok(())
    }

    pub(super) fn options(&self) -> TlsOptions {
        TlsOptions::new().with_certs(self.current.clone())
    }
}

fn certificates(ca: &TlsCa, identity: Option<&TlsIdentity>) -> Result<TlsCerts, LockError> {
    let mut certificates = TlsCerts::builder().with_ca(ca.clone());
    if let Some(identity) = identity {
        certificates = certificates.with_identity(identity.clone());
    }
    certificates.build().map_err(|why| invalid("authorities", &why))
}

fn invalid(what: &str, why: &zookeeper_client::Error) -> LockError {
    LockError::new(ErrorKind::InvalidOption, format!("TLS {what}: {why}"))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
