//! Looking at a lock.

use std::io::{Write, stdout};

use serde_json::{Value, json};
use zklock::Participant;

use crate::exit::Failure;
use crate::ls::who;
use crate::server::connect;
use crate::text::printable;

/// Prints the queue of a lock, or its queues.
pub(crate) async fn show(name: &str, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let mut queues = Vec::new();
    for site in session.sites(name).await? {
        let queue = site.contenders().await?;
        let (path, layout) = (site.path(), site.layout());
        let head = format!("{name} ({path}, layout: {layout})");
        if as_json {
            queues.push(json!({
                "path": path,
                "layout": layout,
                "inner": site.is_inner(),
                "contenders": queue.iter().map(value).collect::<Vec<_>>(),
            }));
        } else if queue.is_empty() {
            say(&format!("{head}: nobody holds it, nobody waits"))?;
        } else {
            say(&head)?;
            queue.iter().try_for_each(|one| say(&line(one)))?;
        }
    }
    if as_json {
        say(&json!({ "name": name, "queues": queues }).to_string())?;
    }
    session.close().await;
    Ok(0)
}

/// Asks the holders of a lock to release it.
pub(crate) async fn revoke(name: &str, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let mut asked = 0;
    for site in session.sites(name).await?.iter().filter(|site| !site.is_inner()) {
        if !as_json {
            // Before the request overwrites what Curator and kazoo have written about a holder.
            let queue = site.contenders().await?;
            queue.iter().filter(|one| one.holder).try_for_each(|one| say(&line(one)))?;
        }
        asked += site.revoke().await?;
    }
    say(&match asked {
        asked if as_json => json!({ "name": name, "asked": asked }).to_string(),
        0 => format!("nobody holds {name}"),
        1 => format!("asked the holder of {name} to release it"),
        _ => format!("asked the {asked} holders of {name} to release it"),
    })?;
    session.close().await;
    Ok(0)
}

/// Prints a line. Who reads may have ended, which is the end of this command too.
pub(crate) fn say(line: &str) -> Result<(), Failure> {
    let written = writeln!(stdout(), "{line}");
    written.map_err(|error| Failure::own(format!("cannot write: {error}")))
}

/// A contender in one line.
pub(crate) fn line(one: &Participant) -> String {
    let does = if one.holder { "holds" } else { "waits" };
    let since = one.owner.granted.as_ref().or(one.owner.since.as_ref());
    let since = since.map(|since| format!(", since {}", printable(since))).unwrap_or_default();
    let revoked = if one.owner.revoked { ", asked to release it" } else { "" };
    let why = one.why.as_ref().map(|why| format!("\n       {why}")).unwrap_or_default();
    let (mode, owner) = (one.mode.to_string(), who(one));
    format!("{does} {mode:9} {owner}{since}{revoked}  [{}]{why}", one.node)
}

/// A contender as JSON.
pub(crate) fn value(one: &Participant) -> Value {
    json!({
        "node": one.node,
        "czxid": format!("{:#x}", one.czxid),
        "created": humantime::format_rfc3339_millis(one.created).to_string(),
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
