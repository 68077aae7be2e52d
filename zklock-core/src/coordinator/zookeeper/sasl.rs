//! SASL, for the connections to ZooKeeper. No type here prints a secret.

use std::fmt;

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
#[derive(Clone)]
pub struct Sasl {
    pub(super) user: String,
    pub(super) password: String,
}

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

impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("user", &self.user).finish_non_exhaustive()
    }
}
