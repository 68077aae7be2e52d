//! Looking at a lock.

use std::io::{Write, stdout};

use serde_json::{Value, json};
use zklock::{LockEvent, Participant};

use crate::exit::Failure;
use crate::server::connect;

/// Prints the queue of a lock.
pub(crate) async fn show(name: &str, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let site = session.site(name)?;
    let queue = site.contenders().await?;
    if as_json {
        let contenders: Vec<_> = queue.iter().map(value).collect();
        say(&json!({ "name": name, "path": site.path(), "contenders": contenders }).to_string())?;
    } else if queue.is_empty() {
        say(&format!("{name} ({}): nobody holds it, nobody waits", site.path()))?;
    } else {
        say(&format!("{name} ({})", site.path()))?;
        queue.iter().try_for_each(|one| say(&line(one)))?;
    }
    session.close().await;
    Ok(0)
}

/// Prints what happens to a lock, until it is interrupted.
pub(crate) async fn watch(name: &str, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let mut events = session.site(name)?.events();
    while let Some(event) = events.next().await {
        let (word, who) = match &event {
            LockEvent::Joined(who) => ("joined", Some(who)),
            LockEvent::Granted(who) => ("granted", Some(who)),
            LockEvent::Left(who) => ("left", Some(who)),
            LockEvent::Lost(who) => ("lost", Some(who)),
            LockEvent::Blind => ("blind", None),
            _ => continue,
        };
        let text = match (as_json, who) {
            (true, who) => json!({ "event": word, "contender": who.map(value) }).to_string(),
            (false, Some(who)) => format!("{word:8}{}", line(who)),
            (false, None) => {
                format!("{word:8}the connection is lost; changes are shown when it is back")
            }
        };
        say(&text)?;
    }
    Ok(0)
}

/// Asks the holders of a lock to release it.
pub(crate) async fn revoke(name: &str) -> Result<u8, Failure> {
    let session = connect().await?;
    let asked = session.site(name)?.revoke().await?;
    say(&match asked {
        0 => format!("nobody holds {name}"),
        1 => format!("asked the holder of {name} to release it"),
        _ => format!("asked the {asked} holders of {name} to release it"),
    })?;
    session.close().await;
    Ok(0)
}

/// Prints a line. Who reads may have ended, which is the end of this command too.
fn say(line: &str) -> Result<(), Failure> {
    let written = writeln!(stdout(), "{line}");
    written.map_err(|error| Failure::own(format!("cannot write: {error}")))
}

fn line(one: &Participant) -> String {
    let does = if one.holder { "holds" } else { "waits" };
    let since = one.owner.granted.as_ref().or(one.owner.since.as_ref());
    let since = since.map(|since| format!(", since {since}")).unwrap_or_default();
    let revoked = if one.owner.revoked { ", asked to release it" } else { "" };
    let why = one.why.as_ref().map(|why| format!("\n       {why}")).unwrap_or_default();
    let (mode, owner) = (one.mode.to_string(), &one.owner);
    format!("{does} {mode:9} {owner}{since}{revoked}  [{}]{why}", one.node)
}

fn value(one: &Participant) -> Value {
    json!({
        "node": one.node,
        "mode": one.mode.to_string(),
        "holds": one.holder,
        "host": one.owner.host,
        "process": one.owner.pid,
        "application": one.owner.app,
        "label": one.owner.label,
        "since": one.owner.since,
        "granted": one.owner.granted,
        "asked_to_release": one.owner.revoked,
        "why": one.why,
    })
}
