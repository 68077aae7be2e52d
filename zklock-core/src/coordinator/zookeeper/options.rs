//! Options of a connection.

use std::fmt;
use std::time::Duration;

use super::acl::Acl;
use super::connect_string::{parse, without_certificate};
use crate::base::times;
use crate::coordinator::limits::check_session_timeout;
use crate::coordinator::request_error::RequestError;

/// Credentials of a session.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// The scheme, for instance `digest`.
    pub scheme: String,
    /// The credentials of that scheme, for instance `user:password`. Never printed.
    pub credentials: Vec<u8>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// The servers to connect to, and the options of the connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ZooKeeperOptions {
    /// The servers and the chroot; see
    /// [`validate_connect_string`](super::validate_connect_string).
    pub connect: String,
    /// The session timeout to request, 10 s by default. The server may grant another one.
    pub session_timeout: Duration,
    /// The longest time of one attempt to open a session, 5 s by default.
    pub connect_timeout: Duration,
    /// The credentials; none by default.
    pub auth: Vec<Auth>,
    /// The access control list of the nodes that are created.
    pub acl: Acl,
    /// TLS for all servers; none by default.
    #[cfg(feature = "tls")]
    pub tls: Option<super::Tls>,
    /// The SASL user; none by default.
    #[cfg(feature = "sasl")]
    pub sasl: Option<super::Sasl>,
}

impl ZooKeeperOptions {
    /// Returns the options for these servers, with defaults for everything else.
    pub fn new(connect: impl Into<String>) -> Self {
        ZooKeeperOptions {
            connect: connect.into(),
            session_timeout: times::SESSION_TIMEOUT,
            connect_timeout: times::CONNECT_TIMEOUT,
            auth: Vec::new(),
            acl: Acl::Open,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "sasl")]
            sasl: None,
        }
    }

    /// Whether the connection is not encrypted.
    pub(super) fn is_plain(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_none();
        #[cfg(not(feature = "tls"))]
        return true;
    }

    /// The same without any credentials, if SASL is used.
    pub(super) fn without_sasl(&self) -> Option<Self> {
        #[cfg(feature = "sasl")]
        return self.sasl.is_some().then(|| ZooKeeperOptions {
            sasl: None,
            auth: Vec::new(),
            ..self.clone()
        });
        #[cfg(not(feature = "sasl"))]
        return None;
    }

    /// Checks the options without any I/O.
    ///
    /// # Errors
    ///
    /// [`RequestError::BadArguments`], which says what is wrong.
    pub fn validate(&self) -> Result<(), RequestError> {
        let wrong = |why: &str| Err(RequestError::BadArguments(why.to_owned()));
        let servers = parse(&self.connect)?.servers;
        if !self.is_plain()
            && let Some(host) = without_certificate(&servers)
        {
            return wrong(&format!(
                "the host {host:?} cannot be in a certificate: with TLS a host is an IP address or a \
                 name whose parts begin and end with a letter, a digit or '_', and whose last part is \
                 no number"
            ));
        }
        check_session_timeout(self.session_timeout).map_err(RequestError::BadArguments)?;
        if self.connect_timeout.is_zero() {
            return wrong("the connect timeout must not be zero");
        }
        if matches!(&self.acl, Acl::Custom(entries) if entries.is_empty()) {
            return wrong("the access control list is empty; give at least one entry");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_printed() {
        let mut options = ZooKeeperOptions::new("a:1");
        options.auth.push(Auth { scheme: "digest".into(), credentials: b"me:hunter2".to_vec() });
        let printed = format!("{options:?}");
        assert!(printed.contains("digest") && !printed.contains("hunter2"));
        assert!(!printed.contains(&format!("{:?}", b"me:hunter2")));
    }

    #[test]
    fn options_without_sense_are_refused() {
        let good = ZooKeeperOptions::new("a:1");
        assert_eq!(good.validate(), Ok(()));
        for change in [
            (|o| o.connect = String::new()) as fn(&mut ZooKeeperOptions),
            |o| o.session_timeout = Duration::from_micros(999),
            |o| o.session_timeout = Duration::MAX,
            |o| o.connect_timeout = Duration::ZERO,
            |o| o.acl = Acl::Custom(vec![]),
        ] {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(matches!(bad.validate(), Err(RequestError::BadArguments(_))));
        }
    }
}
