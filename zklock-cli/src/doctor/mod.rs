//! `zklock doctor`: whether an ensemble is set up as locks need it.

mod digests;
mod limits;
mod locks;
mod servers;
mod session;
mod tick;
mod words;

use std::time::Duration;

use serde_json::{Value, json};
use zklock::ErrorKind;

use crate::exit::{Failure, PROBLEM};
use crate::inspect::say;
use crate::server::open;
use crate::text::wrapped;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// As it should be.
    Well,
    /// A matter of taste, or of the past.
    Note,
    /// Not looked at: it may be wrong.
    Unchecked,
    /// It breaks locks, or will.
    Wrong,
}

/// A check and its result.
#[derive(Debug)]
struct Check {
    /// A stable word.
    code: &'static str,
    state: State,
    says: String,
    /// What to write where, to repair it.
    helps: Option<String>,
}

impl Check {
    fn well(code: &'static str, says: impl Into<String>) -> Self {
        Check { code, state: State::Well, says: says.into(), helps: None }
    }

    fn note(code: &'static str, says: impl Into<String>) -> Self {
        Check { code, state: State::Note, says: says.into(), helps: None }
    }

    fn unchecked(code: &'static str, says: impl Into<String>) -> Self {
        Check { code, state: State::Unchecked, says: says.into(), helps: None }
    }

    /// What is asked without encryption is not asked over TLS.
    fn over_tls(code: &'static str) -> Self {
        Check::unchecked(code, "not checked over TLS")
    }

    fn wrong(code: &'static str, says: impl Into<String>, helps: impl Into<String>) -> Self {
        Check { code, state: State::Wrong, says: says.into(), helps: Some(helps.into()) }
    }

    fn value(&self) -> Value {
        let state = match self.state {
            State::Well => "well",
            State::Note | State::Unchecked => "note",
            State::Wrong => "wrong",
        };
        json!({ "code": self.code, "state": state, "says": self.says, "helps": self.helps })
    }

    fn text(&self) -> String {
        let head = match self.state {
            State::Well => "ok",
            State::Note | State::Unchecked => "note",
            State::Wrong => "WRONG",
        };
        let mut text = wrapped(&format!("{:<12}{head:<6}{}", self.code, self.says), 18);
        if let Some(helps) = &self.helps {
            text += &format!("\n{:18}helps: {helps}", "");
        }
        text
    }
}

/// What there is to look at.
const ALL: [&str; 11] = [
    "quorum",
    "words",
    "connections",
    "chroot",
    "timeout",
    "tick",
    "auth",
    "acl",
    "containers",
    "buffer",
    "digests",
];

/// What was not looked at, because it is not wanted or not told, or because of what is wrong before.
fn unchecked(checks: &[Check]) -> Vec<&'static str> {
    let is_known =
        |code: &str| checks.iter().any(|one| one.code == code && one.state != State::Unchecked);
    ALL.into_iter().filter(|code| !is_known(code)).collect()
}

/// Checks the ensemble and prints the results.
pub(crate) async fn doctor(
    containers: Option<Duration>,
    within: Duration,
    as_json: bool,
) -> Result<u8, Failure> {
    let checks = examine(containers, within).await?;
    let wrong = checks.iter().filter(|check| check.state == State::Wrong).count();
    let unchecked = unchecked(&checks);
    if as_json {
        let all: Vec<_> = checks.iter().map(Check::value).collect();
        say(&json!({ "well": wrong == 0, "unchecked": unchecked, "checks": all }).to_string())?;
    } else {
        checks.iter().try_for_each(|check| say(&check.text()))?;
        let mut verdict = match wrong {
            0 if unchecked.is_empty() => "Everything is well.".to_owned(),
            0 => "Nothing is wrong.".to_owned(),
            1 => "One thing is wrong.".to_owned(),
            wrong => format!("{wrong} things are wrong."),
        };
        if !unchecked.is_empty() {
            verdict += &format!(" Not looked at: {}.", unchecked.join(", "));
        }
        say(&format!("\n{}", wrapped(&verdict, 0)))?;
    }
    Ok(if wrong == 0 { 0 } else { PROBLEM })
}

async fn examine(containers: Option<Duration>, within: Duration) -> Result<Vec<Check>, Failure> {
    let servers = crate::server::servers()?;
    let quorum = servers::quorum(&servers, within).await;
    let mut checks = vec![quorum.check];
    if quorum.serving.is_empty() {
        return Ok(checks);
    }
    // What can be said of the others does not wait for those that are down.
    let servers = servers::distinct(quorum.serving, within).await;
    // Before the servers are asked for many connections at once, after which they may have no room.
    checks.push(words::words(&servers, within).await);
    let ticks = tick::ask(&servers, within).await;
    checks.push(limits::connections(&servers, within).await);
    // Before whatever writes: a server compares its data at each transaction.
    let digests = digests::ask(&servers, within).await;
    // A wrong setting is noticed here, before the servers are asked: what they refuse is another thing.
    let session = open()?;
    if let Err(error) = session.root_acl().await {
        // Too few servers are the reason why none opens a session.
        if quorum.is_there || error.kind() != ErrorKind::Unavailable {
            checks.push(session::refused(&error));
        }
        session.close().await;
        return Ok(checks);
    }
    checks.extend(session::opened(&session));
    checks.push(ticks.check(session.timing().map(|timing| timing.session_timeout)));
    let (access, may_lock) = locks::access(&session).await?;
    checks.extend(access);
    if may_lock {
        checks.push(locks::containers(&session, containers).await?);
    }
    checks.push(limits::buffer(&session, &servers).await?);
    session.close().await;
    checks.extend(digests::compare(&servers, &digests, within).await);
    Ok(checks)
}
