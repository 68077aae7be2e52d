//! Whether a session is opened, and is as it was asked for.

use std::env;
use std::time::Duration;

use zklock::{ErrorKind, Session};

use crate::doctor::Check;
use crate::when::span;

/// What is asked for without `ZKLOCK_SESSION_TIMEOUT`.
const DEFAULT: Duration = Duration::from_secs(10);

/// Opens a session, or returns why there is none.
pub(super) async fn open() -> Result<(Session, Vec<Check>), Check> {
    let session = Session::from_env().await.map_err(|error| {
        let says = format!("{error:#}");
        match error.kind() {
            ErrorKind::NoChroot => {
                let helps = "create that node (zkCli.sh create), or correct the path behind the \
                             servers in ZKLOCK_CONNECT";
                Check::wrong("chroot", says, helps)
            }
            ErrorKind::Unauthorized => Check::wrong("auth", says, "correct ZKLOCK_AUTH"),
            _ => Check::wrong("session", says, "look at the log of the servers"),
        }
    })?;
    let mut checks = vec![Check::well("chroot", "it exists, and a session is opened")];
    if let Some(timing) = session.timing() {
        checks.push(timeout(timing.session_timeout));
    }
    Ok((session, checks))
}

fn timeout(granted: Duration) -> Check {
    let asked = env::var("ZKLOCK_SESSION_TIMEOUT").ok();
    let asked = asked.and_then(|text| humantime::parse_duration(&text).ok()).unwrap_or(DEFAULT);
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
