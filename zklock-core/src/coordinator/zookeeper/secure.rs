//! Authentication and encryption: TLS and SASL.
//!
//! No type of this module prints a secret.

use std::fmt;

#[cfg(feature = "tls")]
use crate::base::error::{ErrorKind, LockError};

/// TLS for all servers.
///
/// A server's certificate is checked against the trusted authorities, and must contain the name or
/// address that the connect string uses. With an [identity](Tls::identity), this process presents
/// its own certificate. ZooKeeper then identifies the client by the certificate's subject, and
/// [`Acl::CreatorAll`](super::Acl::CreatorAll) needs no other credentials.
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
#[cfg(feature = "tls")]
#[derive(Clone)]
pub struct Tls(pub(super) zookeeper_client::TlsOptions);

#[cfg(feature = "tls")]
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
        let options = zookeeper_client::TlsOptions::new().with_pem_ca(authorities);
        options.map(Tls).map_err(|why| invalid("authorities", &why))
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
        let options = self.0.with_pem_identity(certificate, key);
        options.map(Tls).map_err(|why| invalid("identity", &why))
    }
}

#[cfg(feature = "tls")]
fn invalid(what: &str, why: &zookeeper_client::Error) -> LockError {
    LockError::new(ErrorKind::InvalidOption, format!("TLS {what}: {why}"))
}

#[cfg(feature = "tls")]
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A user for SASL, with the mechanism DIGEST-MD5.
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
#[derive(Clone)]
pub struct Sasl {
    pub(super) user: String,
    pub(super) password: String,
}

#[cfg(feature = "sasl")]
impl Sasl {
    /// Returns credentials of a user and a password, which is never printed.
    ///
    /// ```
    /// use zklock::Sasl;
    ///
    /// let printed = format!("{:?}", Sasl::digest_md5("orders", "secret"));
    /// assert!(printed.contains("orders") && !printed.contains("secret"));
    /// ```
    pub fn digest_md5(user: impl Into<String>, password: impl Into<String>) -> Self {
        Sasl { user: user.into(), password: password.into() }
    }
}

#[cfg(feature = "sasl")]
impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("user", &self.user).finish_non_exhaustive()
    }
}
