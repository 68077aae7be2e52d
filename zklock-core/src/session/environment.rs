//! Sessions that environment variables describe.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::options::LockOptions;
use crate::base::unharmed::unharmed;
use crate::coordinator::limits::check_session_timeout;
use crate::coordinator::zookeeper::Acl;
use crate::name::path::ZnodePath;
use crate::session::builder::SessionBuilder;
use crate::session::handle::Session;

impl Session {
    /// Connects as the environment variables say. Called when the program starts, it reports a
    /// wrong value then, and not at the first use of a lock.
    ///
    /// [`timing`](Session::timing) returns what the server granted.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// let session = zklock::Session::from_env().await?;
    /// zklock::init(session);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotConfigured`] without `ZKLOCK_CONNECT`; [`ErrorKind::InvalidOption`] for a
    /// value that is not accepted, with the name of its variable; and those of
    /// [`SessionBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the session in the background.
    ///
    #[doc = include_str!("../../environment.md")]
    pub async fn from_env() -> Result<Session, LockError> {
        Session::builder_from_env()?.connect().await
    }

    /// Returns a builder as the environment variables say, to which settings without a variable can be
    /// added: [`from_env`](Session::from_env) connects it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// let session = zklock::Session::builder_from_env()?.max_connections(8).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotConfigured`] without `ZKLOCK_CONNECT`; [`ErrorKind::InvalidOption`] for a
    /// value that is not accepted, with the name of its variable.
    pub fn builder_from_env() -> Result<SessionBuilder, LockError> {
        from_environment(None)
    }

    /// Returns a builder as [`builder_from_env`](Session::builder_from_env), but for a connect string of
    /// one's own in place of `ZKLOCK_CONNECT`, as [`builder_for`](Session::builder_for) takes it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// // What does this one server say?
    /// let session = zklock::Session::builder_from_env_for("zk2:2181")?.connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for a value that is not accepted, with the name of its variable.
    pub fn builder_from_env_for(connect: &str) -> Result<SessionBuilder, LockError> {
        let get = |name: &str| match name {
            "CONNECT" => Some(OsString::from(connect)),
            name => env::var_os(format!("ZKLOCK_{name}")),
        };
        described("ZKLOCK_", get)?.ok_or_else(|| not_configured(None))
    }
}

/// Returns a builder for the session of this name, or for the default session.
///
/// # Errors
///
/// Those of [`Session::from_env`], except those of connecting.
pub fn from_environment(name: Option<&str>) -> Result<SessionBuilder, LockError> {
    if let Some(name) = name {
        check_name(name, |variable| env::var_os(variable).is_some_and(|value| !value.is_empty()))?;
    }
    let prefix = name.map_or_else(|| "ZKLOCK_".to_owned(), prefix);
    let get = |name: &str| env::var_os(format!("{prefix}{name}"));
    described(&prefix, get)?.ok_or_else(|| not_configured(name))
}

fn prefix(name: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("ZKLOCK_{}_", name.chars().map(upper).collect::<String>())
}

/// Refuses a name one of whose variables is that of another session: the `TIMEOUT` of a session named
/// `connect` would be the `CONNECT_TIMEOUT` of the default session. The same goes for `a_connect` where a
/// session `a` is described as well.
fn check_name(name: &str, is_set: impl Fn(&str) -> bool) -> Result<(), LockError> {
    let prefix = prefix(name);
    let other = ["CONNECT_", "SESSION_"].iter().find_map(|word| prefix.strip_suffix(word));
    let Some(other) = other.filter(|other| other.ends_with('_')) else { return Ok(()) };
    let whose = match other {
        "ZKLOCK_" => "the default session".to_owned(),
        other if is_set(&format!("{other}CONNECT")) => {
            format!("the session that {other}CONNECT describes")
        }
        _ => return Ok(()),
    };
    let why = format!(
        "a session named `{name}` cannot be made from environment variables, because \
         {prefix}TIMEOUT is one of {whose}; give it another name, or call \
         `SessionRegistry::global().register(Some({name:?}), …)` when the program starts"
    );
    Err(LockError::new(ErrorKind::InvalidOption, why))
}

fn not_configured(name: Option<&str>) -> LockError {
    let detail = match name {
        None => "no session is configured: call `zklock::init(Session::connect(\"host:2181\")\
                 .await?)` when the program starts, or set ZKLOCK_CONNECT to a connect string or \
                 to `embedded`"
            .to_owned(),
        Some(name) => format!(
            "no session `{name}` is configured: call `SessionRegistry::global().register(Some({name:?}), \
             …)` when the program starts, or set {}CONNECT to a connect string or to `embedded`",
            prefix(name)
        ),
    };
    LockError::new(ErrorKind::NotConfigured, detail)
}

/// Evaluates the variables, which `get` returns, so that tests need not set any.
fn described(
    prefix: &str,
    get: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<SessionBuilder>, LockError> {
    // A value names hosts, files and paths: it is for operators only.
    let invalid = |name: &str, what: &str| {
        LockError::new(ErrorKind::InvalidOption, format!("{prefix}{name}: {what}"))
    };
    let get = |name: &str| -> Result<Option<String>, LockError> {
        let value = get(name).filter(|value| !value.is_empty()).map(OsString::into_string);
        // The value may be a secret: the error does not repeat it.
        value.transpose().map_err(|_| invalid(name, "the value is not UTF-8"))
    };
    let Some(connect) = get("CONNECT")? else { return Ok(None) };
    let duration = |name: &str| -> Result<Option<Duration>, LockError> {
        let Some(text) = get(name)? else { return Ok(None) };
        let (why, aside) = match humantime::parse_duration(&text) {
            Ok(Duration::ZERO) => ("it must be longer than zero; ", format!("{text:?}")),
            // Which nobody means here; the attribute refuses it, too.
            Ok(_) if text.contains('M') => {
                ("`M` is a month, and `m` a minute; ", format!("{text:?}"))
            }
            Ok(duration) => return Ok(Some(duration)),
            Err(why) => ("", format!("{text:?}: {why}")),
        };
        let what = format!("the value is not accepted; {why}accepted is, for instance, 10s");
        Err(invalid(name, &what).aside(aside))
    };
    if connect == "embedded" {
        // In production this is a mistake that nothing else shows.
        let what = "the session is embedded: its locks exclude only callers in this process";
        unharmed(|| tracing::warn!("{what}"));
    }
    let mut builder = Session::builder_for(&connect);
    builder
        .check_servers()
        .map_err(|error| invalid("CONNECT", &error.to_string()).because(error))?;
    if let Some(timeout) = duration("SESSION_TIMEOUT")? {
        check_session_timeout(timeout).map_err(|why| invalid("SESSION_TIMEOUT", &why))?;
        builder = builder.session_timeout(timeout);
    }
    if let Some(timeout) = duration("CONNECT_TIMEOUT")? {
        builder = builder.connect_timeout(timeout);
    }
    if let Some(tick) = duration("TICK_TIME")? {
        builder = builder.tick_time(tick);
    }
    let mut defaults = LockOptions::new();
    if let Some(timeout) = duration("TIMEOUT")? {
        defaults = defaults.timeout(timeout);
    }
    if let Some(text) = get("RETRIES")? {
        let retries = text.parse().ok().filter(|retries| *retries > 0).ok_or_else(|| {
            let what = "the value is not a number of tries; accepted are integers from 1";
            invalid("RETRIES", what).aside(format!("{text:?}"))
        })?;
        defaults = defaults.retries(retries);
    }
    builder = builder.defaults(defaults);
    if let Some(root) = get("ROOT")? {
        ZnodePath::new(&root)
            .map_err(|error| invalid("ROOT", &error.to_string()).aside(format!("{root:?}")))?;
        builder = builder.root(root);
    }
    if let Some(app) = get("APP")? {
        builder = builder.app(app);
    }
    if let Some(auth) = get("AUTH")? {
        // The value is a secret: the error does not repeat it.
        let (scheme, credentials) = auth.split_once(':').ok_or_else(|| {
            invalid("AUTH", "the value does not have the form digest:user:password")
        })?;
        builder = builder.auth(scheme, credentials);
    }
    if let Some(text) = get("ACL")? {
        builder = builder.acl(match text.as_str() {
            "open" => Acl::Open,
            "creator" => Acl::CreatorAll,
            "read-only-others" => Acl::ReadOnlyOthers,
            _ => {
                let what =
                    "the value is not accepted; accepted are open, creator and read-only-others";
                return Err(invalid("ACL", what).aside(format!("{text:?}")));
            }
        });
    }
    let file = |name: &str| -> Result<Option<String>, LockError> {
        let Some(path) = get(name)? else { return Ok(None) };
        let text = fs::read_to_string(&path);
        text.map(Some)
            .map_err(|why| invalid(name, "the file cannot be read").aside(path).because(why))
    };
    let identity = match (file("TLS_CERT")?, file("TLS_KEY")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => {
            return Err(invalid("TLS_KEY", "missing, although TLS_CERT is set"));
        }
        (None, Some(_)) => {
            return Err(invalid("TLS_CERT", "missing, although TLS_KEY is set"));
        }
    };
    match file("TLS_CA")? {
        Some(authorities) => with_tls(builder, &authorities, identity, invalid).map(Some),
        None if identity.is_some() => {
            Err(invalid("TLS_CA", "missing, although TLS_CERT and TLS_KEY are set"))
        }
        None => Ok(Some(builder)),
    }
}

#[cfg(feature = "tls")]
fn with_tls(
    builder: SessionBuilder,
    authorities: &str,
    identity: Option<(String, String)>,
    invalid: impl Fn(&str, &str) -> LockError,
) -> Result<SessionBuilder, LockError> {
    let tls = crate::coordinator::zookeeper::Tls::new(authorities);
    let tls = tls.map_err(|error| invalid("TLS_CA", &format!("{error:#}")))?;
    let Some((certificate, key)) = identity else { return Ok(builder.tls(tls)) };
    let tls = tls.identity(&certificate, &key);
    Ok(builder.tls(tls.map_err(|error| invalid("TLS_CERT", &format!("{error:#}")))?))
}

#[cfg(not(feature = "tls"))]
fn with_tls(
    _: SessionBuilder,
    _: &str,
    _: Option<(String, String)>,
    invalid: impl Fn(&str, &str) -> LockError,
) -> Result<SessionBuilder, LockError> {
    Err(invalid("TLS_CA", "zklock was built without its feature `tls`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::block_on::block_on;
    use crate::session::timing::Timing;

    fn builder_of(pairs: &[(&str, &str)]) -> Result<Option<SessionBuilder>, LockError> {
        described("ZKLOCK_", |name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn session_of(pairs: &[(&str, &str)]) -> Result<Option<Session>, LockError> {
        builder_of(pairs)?.map(SessionBuilder::open).transpose()
    }

    #[test]
    fn the_environment_can_configure_everything() {
        assert!(session_of(&[]).unwrap().is_none());
        let mut pairs = [
            ("CONNECT", "embedded"),
            ("ROOT", "/a/b"),
            ("APP", "x"),
            ("SESSION_TIMEOUT", "3s"),
            ("CONNECT_TIMEOUT", "2s"),
            ("TIMEOUT", "300ms"),
            ("RETRIES", "7"),
            ("TICK_TIME", "200ms"),
            ("AUTH", "digest:a:b"),
            ("ACL", "creator"),
        ];
        let session = block_on(builder_of(&pairs).unwrap().unwrap().connect()).unwrap();
        assert_eq!((session.root().as_str(), session.app()), ("/a/b", Some("x")));
        let LockOptions { timeout, retries, .. } = session.defaults();
        assert_eq!((timeout, retries), (Some(Duration::from_millis(300)), Some(7)));
        let Timing { session_timeout, margin, .. } = session.timing().unwrap();
        // A fifth of the timeout, and half a tick.
        let expected = [3_000, 600 + 100].map(Duration::from_millis);
        assert_eq!([session_timeout, margin], expected);
        // What only a server can be asked for.
        pairs[0].1 = "zk1:2181/prod";
        let shown = format!("{:?}", builder_of(&pairs).unwrap().unwrap());
        for part in [
            "zk1:2181/prod",
            "session_timeout: 3s",
            "connect_timeout: 2s",
            "acl: CreatorAll",
            "acl_is_chosen: true",
            r#"scheme: "digest""#,
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn an_environment_without_sense_is_an_error_that_names_the_variable() {
        for (pair, part) in [
            (("ROOT", "x"), "ZKLOCK_ROOT: "),
            (("SESSION_TIMEOUT", "2 parsecs"), "ZKLOCK_SESSION_TIMEOUT"),
            (("TICK_TIME", "2"), "ZKLOCK_TICK_TIME"),
            (("TIMEOUT", "soon"), "ZKLOCK_TIMEOUT"),
            (("TIMEOUT", "0s"), "ZKLOCK_TIMEOUT"),
            (("TIMEOUT", "1M"), "`M` is a month"),
            (("CONNECT_TIMEOUT", "0s"), "ZKLOCK_CONNECT_TIMEOUT"),
            (("SESSION_TIMEOUT", "0s"), "ZKLOCK_SESSION_TIMEOUT"),
            (("SESSION_TIMEOUT", "500us"), "ZKLOCK_SESSION_TIMEOUT: "),
            (("SESSION_TIMEOUT", "30days"), "ZKLOCK_SESSION_TIMEOUT: "),
            (("TICK_TIME", "0s"), "ZKLOCK_TICK_TIME"),
            (("RETRIES", "-1"), "ZKLOCK_RETRIES"),
            (("RETRIES", "0"), "ZKLOCK_RETRIES"),
            (("AUTH", "hunter2"), "ZKLOCK_AUTH"),
            (("ACL", "owner"), "read-only-others"),
            (("TLS_CA", "/no/such/file"), "ZKLOCK_TLS_CA"),
            (("TLS_CERT", "/no/such/file"), "ZKLOCK_TLS_CERT"),
            (("CONNECT", "a b c:x"), "ZKLOCK_CONNECT"),
        ] {
            let error = session_of(&[pair, ("CONNECT", "embedded")]).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
        }
    }

    /// An application that configures itself by the environment does so at the first use of a lock, and its
    /// clients are told of the error.
    #[test]
    fn hosts_files_and_paths_of_the_environment_are_for_those_who_run_the_service() {
        for (pair, secret) in [
            (("CONNECT", "zk1:2181,db 7:2181"), "db 7"),
            (("CONNECT", "zk1:2181,zk2:x"), "zk2:x"),
            (("CONNECT", "zk1:2181/prod//"), "/prod//"),
            (("ROOT", "/prod/"), "\"/prod/\""),
            (("TLS_CA", "/etc/zk/ca.pem"), "/etc/zk/ca.pem"),
            (("TLS_KEY", "/etc/zk/client.key"), "/etc/zk/client.key"),
            (("TIMEOUT", "zk1:2181"), "zk1:2181"),
            (("RETRIES", "zk1:2181"), "zk1:2181"),
            (("ACL", "/prod"), "/prod"),
        ] {
            let error = session_of(&[pair, ("CONNECT", "embedded")]).unwrap_err();
            let (said, all) = (error.to_string(), format!("{error:#}"));
            let variable = format!("ZKLOCK_{}: ", pair.0);
            assert!(said.starts_with(&variable) && !said.contains(secret), "{said}");
            assert!(all.starts_with(&variable) && all.contains(secret), "{all}");
        }
    }

    /// It is not the same as none: a missing `ZKLOCK_ACL` opens the nodes to everybody.
    #[cfg(unix)]
    #[test]
    fn a_value_that_is_no_text_is_an_error() {
        use std::os::unix::ffi::OsStringExt;

        for variable in ["CONNECT", "ROOT", "APP", "TIMEOUT", "RETRIES", "AUTH", "ACL", "TLS_CA"] {
            let get = |name: &str| match name {
                _ if name == variable => Some(OsString::from_vec(b"hunter\xff".to_vec())),
                "CONNECT" => Some(OsString::from("embedded")),
                _ => None,
            };
            let error = described("ZKLOCK_", get).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            let text = format!("{error:#}");
            assert!(text.contains(&format!("ZKLOCK_{variable}: ")), "{text}");
            assert!(!text.contains("hunter"), "{text}");
        }
    }

    #[test]
    fn a_name_whose_variables_are_those_of_another_session_is_refused() {
        let none = |_: &str| false;
        for name in ["connect", "session", "Session"] {
            let error = check_name(name, none).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(
                error.to_string().contains("_TIMEOUT is one of the default session"),
                "{error}"
            );
        }
        for name in ["billing", "reconnect", "sessions", "a-session", "connect2"] {
            assert!(check_name(name, none).is_ok(), "{name}");
        }
        let error = check_name("a-session", |name| name == "ZKLOCK_A_CONNECT").unwrap_err();
        assert!(error.to_string().contains("ZKLOCK_A_SESSION_TIMEOUT"), "{error}");
        assert!(
            from_environment(Some("session")).unwrap_err().to_string().contains("another name")
        );
    }

    #[test]
    fn nothing_configured_says_what_to_set() {
        assert!(not_configured(None).to_string().contains("ZKLOCK_CONNECT"));
    }
}
