//! `zklock doctor`: whether an ensemble is set up as locks need it.

mod buffer;
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

use self::servers::Distinct;
use crate::exit::{Failure, PROBLEM};
use crate::inspect::say;
use crate::server::open;
use crate::text::{json_text, wrapped};

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

    /// A check that could not be made. The others are told all the same.
    fn failed(code: &'static str, failure: &Failure) -> Self {
        Check::unchecked(code, format!("not checked, because {}", failure.message))
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

/// What was found, and why not all was, if a check could not be made.
#[derive(Debug, Default)]
struct Examined {
    checks: Vec<Check>,
    failure: Option<Failure>,
}

impl Examined {
    /// Takes in a check, or why it was not made.
    fn take(&mut self, code: &'static str, made: Result<Check, Failure>) {
        let failed = |failure| {
            let check = Check::failed(code, &failure);
            self.failure.get_or_insert(failure);
            check
        };
        let check = made.unwrap_or_else(failed);
        self.checks.push(check);
    }

    fn code(&self) -> u8 {
        let is_wrong = self.checks.iter().any(|check| check.state == State::Wrong);
        match &self.failure {
            _ if is_wrong => PROBLEM,
            Some(failure) => failure.code,
            None => 0,
        }
    }
}

/// Checks the ensemble and prints the results.
pub(crate) async fn doctor(
    containers: Option<Duration>,
    within: Duration,
    as_json: bool,
) -> Result<u8, Failure> {
    let examined = examine(containers, within).await?;
    let (code, checks) = (examined.code(), examined.checks);
    let wrong = checks.iter().filter(|check| check.state == State::Wrong).count();
    let unchecked = unchecked(&checks);
    if as_json {
        let all: Vec<_> = checks.iter().map(Check::value).collect();
        let document = json!({ "well": wrong == 0, "unchecked": unchecked, "checks": all });
        say(&json_text(&document))?;
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
    Ok(code)
}

async fn examine(containers: Option<Duration>, within: Duration) -> Result<Examined, Failure> {
    let servers = crate::server::servers()?;
    let quorum = servers::quorum(&servers, within).await;
    let mut examined = Examined { checks: vec![quorum.check], failure: None };
    let checks = &mut examined.checks;
    if quorum.serving.is_empty() {
        return Ok(examined);
    }
    // What can be said of the others does not wait for those that are down.
    let Distinct { names: servers, are_spoken_for } =
        servers::distinct(quorum.serving, within).await;
    // Before the servers are asked for many connections at once, after which they may have no room.
    checks.push(words::words(&servers, within).await);
    let ticks = tick::ask(&servers, within).await;
    checks.push(limits::connections(&servers, within).await);
    // Before whatever writes: a server compares its data at each transaction.
    let digests = digests::ask(&servers, &are_spoken_for, within).await;
    // A wrong setting is noticed here, before the servers are asked: what they refuse is another thing.
    let session = open()?;
    if let Err(error) = session.root_acl().await {
        // Too few servers are the reason why none opens a session.
        if !quorum.are_too_few || error.kind() != ErrorKind::Unavailable {
            checks.push(session::refused(&error));
        }
        session.close().await;
        return Ok(examined);
    }
    checks.extend(session::opened(&session));
    checks.push(ticks.check(session.timing().map(|timing| timing.session_timeout)));
    match locks::access(&session).await {
        Ok((access, may_lock)) => {
            checks.extend(access);
            if may_lock {
                let checked = locks::containers(&session, containers).await;
                examined.take("containers", checked);
            }
        }
        Err(failure) => examined.take("auth", Err(failure)),
    }
    examined.take("buffer", buffer::check(&session, &servers).await);
    session.close().await;
    examined.checks.extend(digests::compare(&servers, &digests, within).await);
    Ok(examined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::UNREACHABLE;
    use zklock::Session;

    #[tokio::test]
    async fn a_check_that_fails_is_told_with_the_others() {
        let session = Session::embedded();
        session.close().await;
        let mut examined = Examined::default();
        examined.take("quorum", Ok(Check::well("quorum", "3 of 3 servers serve")));
        examined.take("buffer", buffer::check(&session, &[]).await);
        let [quorum, checked] = &*examined.checks else { panic!("{examined:?}") };
        assert_eq!((quorum.state, checked.state), (State::Well, State::Unchecked));
        let why = "not checked, because the list of locks: ";
        assert!(checked.says.starts_with(why), "{checked:?}");
        assert!(unchecked(&examined.checks).contains(&"buffer"));
        assert_eq!(examined.code(), UNREACHABLE);
        // What is known to be wrong comes first.
        examined.take("acl", Ok(Check::wrong("acl", "everybody may change it", "an ACL")));
        assert_eq!(examined.code(), PROBLEM);
    }
}
