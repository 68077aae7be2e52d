//! Why no session is opened, and whether one is as it was asked for.

use std::env;
use std::time::Duration;

use zklock::{ErrorKind, LockError, Session};

use crate::doctor::Check;
use crate::server::{auth, has_certificate};
use crate::when::span;

/// What is asked for without `ZKLOCK_SESSION_TIMEOUT`.
const DEFAULT: Duration = Duration::from_secs(10);

/// Why there is no session.
pub(super) fn refused(error: &LockError) -> Check {
    let says = format!("{error:#}");
    match error.kind() {
        ErrorKind::NoChroot => {
            let helps = "create that node (zkCli.sh create), or correct the path behind the \
                         servers in ZKLOCK_CONNECT";
            Check::wrong("chroot", says, helps)
        }
        ErrorKind::Unauthorized => Check::wrong("auth", says, other_credentials()),
        // Of what the servers have granted.
        ErrorKind::InvalidOption => {
            let helps = format!(
                "a longer ZKLOCK_SESSION_TIMEOUT (it is {}), and maxSessionTimeout in zoo.cfg of each server \
                 if that is shorter",
                span(asked())
            );
            Check::wrong("session", says, helps)
        }
        _ => Check::wrong("session", says, "look at the log of the servers"),
    }
}

/// What helps where the credentials of this client are not those that are asked for.
pub(super) fn other_credentials() -> &'static str {
    match (auth(), has_certificate()) {
        (Some(_), _) => "correct ZKLOCK_AUTH",
        (None, true) => {
            "set ZKLOCK_TLS_CERT and ZKLOCK_TLS_KEY to a certificate that the list names"
        }
        (None, false) => "set ZKLOCK_AUTH=digest:user:password",
    }
}

/// What a session tells that was opened.
pub(super) fn opened(session: &Session) -> Vec<Check> {
    let mut checks = vec![Check::well("chroot", "it exists, and a session is opened")];
    checks.extend(session.timing().map(|timing| timeout(timing.session_timeout)));
    checks
}

/// The session timeout that is asked for.
pub(super) fn asked() -> Duration {
    time("ZKLOCK_SESSION_TIMEOUT").unwrap_or(DEFAULT)
}

/// The tick that a session is told.
pub(super) fn tick() -> Option<Duration> {
    time("ZKLOCK_TICK_TIME")
}

fn time(variable: &str) -> Option<Duration> {
    humantime::parse_duration(&env::var(variable).ok()?).ok()
}

fn timeout(granted: Duration) -> Check {
    let asked = asked();
    let says = format!("asked for a session timeout of {}", span(asked));
    if asked == granted {
        return Check::well("timeout", format!("{says}, and got it"));
    }
    let setting = if granted < asked { "maxSessionTimeout" } else { "minSessionTimeout" };
    let helps = format!(
        "{setting}={} in zoo.cfg of each server, or ZKLOCK_SESSION_TIMEOUT={}ms",
        asked.as_millis(),
        granted.as_millis()
    );
    Check::wrong(
        "timeout",
        format!("{says}, and got {}: {setting} forbids it", span(granted)),
        helps,
    )
}
