//! Looking at a lock.

use std::io::{Write, stdout};
use std::time::SystemTime;

use serde_json::{Value, json};
use zklock::{ContenderInfo, Site};

use crate::exit::Failure;
use crate::ls::who;
use crate::near;
use crate::parts::{head_and_while, whole};
use crate::server::connect;
use crate::text::{json_text, printable, tell};
use crate::when::{span, until};

/// Prints the queue of a lock, or its queues.
pub(crate) async fn show(name: &str, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let (mut queues, mut is_used) = (Vec::new(), false);
    for site in session.sites(name).await? {
        let queue = whole(&site, &[]).await?;
        is_used |= !queue.is_empty();
        if as_json {
            queues.push(document(&site, &queue));
        } else {
            let head = format!("{name} ({}, layout: {})", site.path(), site.layout());
            let rests = rests_until(&site, &queue);
            lines(&head, &queue, rests).iter().try_for_each(|line| say(line))?;
        }
    }
    if as_json {
        say(&json_text(&json!({ "name": name, "queues": queues })))?;
    } else if !is_used {
        let near = near::names(&session, name).await;
        if !near.is_empty() {
            tell(printable(&format!("in use, with a similar name: {}", near.join(", "))));
        }
    }
    session.close().await;
    Ok(0)
}

/// Until when nobody gets a lock that nobody holds, as far as this queue tells.
pub(crate) fn rests_until(site: &Site, queue: &[ContenderInfo]) -> Option<SystemTime> {
    let is_free = !queue.iter().any(|one| one.holds);
    site.unavailable_until().filter(|moment| is_free && until(*moment).is_some())
}

/// A queue as JSON.
fn document(site: &Site, queue: &[ContenderInfo]) -> Value {
    json!({
        "path": site.path(),
        "layout": site.layout(),
        "inner": site.is_inner(),
        "contenders": queue.iter().map(value).collect::<Vec<_>>(),
        "unavailable_until": rests_until(site, queue).map(moment),
    })
}

/// A queue, for people.
fn lines(head: &str, queue: &[ContenderInfo], rests: Option<SystemTime>) -> Vec<String> {
    let rests = rests.and_then(until).map(|left| {
        format!(
            "nobody gets it for {}: its last holder was lost (lock_delay), or got it a short time ago \
             (hold_at_least)",
            span(left)
        )
    });
    if queue.is_empty() {
        let but = rests.map(|rests| format!(", and {rests}")).unwrap_or_default();
        return vec![format!("{head}: nobody holds it, nobody waits{but}")];
    }
    let mut lines = vec![head.to_owned()];
    lines.extend(queue.iter().map(line));
    lines.extend(rests.map(|rests| format!("nobody holds it, and {rests}")));
    lines
}

/// Asks the holders of a lock to release it.
pub(crate) async fn revoke(name: &str, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let mut asked = 0;
    for site in session.sites(name).await?.iter().filter(|site| !site.is_inner()) {
        if !as_json {
            // Before the request overwrites what Curator and kazoo have written about a holder.
            // What is behind the holders is not read: of a queue that is long they are asked all the same.
            let all_hold = |queue: &[ContenderInfo]| queue.last().is_none_or(|one| one.holds);
            let queue = head_and_while(site, all_hold).await?;
            queue.iter().filter(|one| one.holds).try_for_each(|one| say(&line(one)))?;
        }
        asked += site.revoke().await?;
    }
    say(&match asked {
        asked if as_json => json_text(&json!({ "name": name, "asked": asked })),
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
pub(crate) fn line(one: &ContenderInfo) -> String {
    let does = if one.holds { "holds" } else { "waits" };
    // A holder may have waited since its node was made.
    let joined = time(one.owner.since.as_deref()).map(str::to_owned);
    let joined = joined.unwrap_or_else(|| moment(one.created));
    let since = match time(one.owner.granted.as_deref()) {
        _ if !one.holds => format!("in the queue since {joined}"),
        Some(granted) => format!("holding since {granted}"),
        None => format!("holding since {joined} at the earliest"),
    };
    let revoked = if one.owner.revoked { ", asked to release it" } else { "" };
    let why = one.why.as_ref().map(|why| format!("\n       {why}")).unwrap_or_default();
    let (mode, owner) = (one.mode.to_string(), who(one));
    format!("{does} {mode:9} {owner}, {since}{revoked}  [{}]{why}", one.node)
}

/// What a node says of a time, if it is one: whoever may create nodes chooses what is in them.
fn time(said: Option<&str>) -> Option<&str> {
    said.filter(|said| humantime::parse_rfc3339(said).is_ok())
}

/// A time as it is printed.
pub(crate) fn moment(moment: SystemTime) -> String {
    humantime::format_rfc3339_millis(moment).to_string()
}

/// A contender as JSON.
pub(crate) fn value(one: &ContenderInfo) -> Value {
    json!({
        "node": one.node,
        "czxid": format!("{:#x}", one.czxid),
        "created": moment(one.created),
        "mode": one.mode.to_string(),
        "holds": one.holds,
        "host": one.owner.host,
        "process": one.owner.pid,
        "application": one.owner.app,
        "label": one.owner.label,
        "since": time(one.owner.since.as_deref()),
        "granted": time(one.owner.granted.as_deref()),
        "asked_to_release": one.owner.revoked,
        "why": one.why,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use zklock::{Embedded, LockOptions, Session};

    /// Its holder is gone, and the lock is kept from its grant on.
    #[tokio::test]
    async fn a_lock_that_nobody_gets_for_a_while_is_shown_as_such() {
        let store = Embedded::new();
        let open = || Session::embedded_builder(&store).open().unwrap();
        let (gone, session) = (open(), open());
        let lock = |session: &Session| {
            let kept = LockOptions::new().hold_at_least(Duration::from_secs(590));
            session.mutex("a").unwrap().with_options(kept)
        };
        let shown = async || {
            let site = session.sites("a").await.unwrap().remove(0);
            let queue = site.contenders().await.unwrap();
            lines("a", &queue, rests_until(&site, &queue))
        };
        // What `show` and `ls` tell programs.
        let told = async || {
            let site = session.sites("a").await.unwrap().remove(0);
            let shown = document(&site, &site.contenders().await.unwrap());
            let listed = crate::ls::find(&session, None).await.unwrap().locks[0].value();
            [shown, listed].map(|told| told.get("unavailable_until").cloned())
        };
        let held = lock(&gone).acquire().await.unwrap();
        assert_eq!(told().await, [Some(Value::Null), Some(Value::Null)]);
        let lines = shown().await;
        assert!(lines.len() == 2 && lines[1].starts_with("holds mutex "), "{lines:?}");
        held.release().await.unwrap();
        gone.close().await;
        let lines = shown().await;
        let nobody = "a: nobody holds it, nobody waits, and nobody gets it for 9 min ";
        assert!(lines.len() == 1 && lines[0].starts_with(nobody), "{lines:?}");
        let next = lock(&session);
        let waiting = tokio::spawn(async move { next.acquire().await });
        let lines = loop {
            let lines = shown().await;
            if lines.len() > 1 {
                break lines;
            }
            tokio::task::yield_now().await;
        };
        assert!(lines.len() == 3 && lines[1].starts_with("waits mutex "), "{lines:?}");
        let nobody = "nobody holds it, and nobody gets it for 9 min ";
        assert!(lines[2].starts_with(nobody), "{lines:?}");
        let lock = crate::ls::find(&session, None).await.unwrap().locks.remove(0);
        assert_eq!((lock.holders.len(), lock.waiters.len()), (0, 1), "{lock:?}");
        assert!(lock.until.is_some(), "{lock:?}");
        let told = told().await;
        assert!(told[0] == told[1] && told[0].as_ref().is_some_and(Value::is_string), "{told:?}");
        waiting.abort();
    }

    #[tokio::test]
    async fn what_is_no_time_is_not_told_as_one() {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        for (written, told) in [
            ("yesterday", Value::Null),
            ("2026-11-22T20:20:01.154Z\n", Value::Null),
            ("2026-11-22T20:20:01.154Z", "2026-11-22T20:20:01.154Z".into()),
        ] {
            one.owner.since = Some(written.to_owned());
            one.owner.granted = Some(written.to_owned());
            let value = value(&one);
            assert_eq!((&value["since"], &value["granted"]), (&told, &told));
            assert_eq!(line(&one).contains(written), told.is_string());
        }
    }

    #[tokio::test]
    async fn since_when_a_lock_is_held_is_told_as_far_as_it_is_known() {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
        let [joined, granted] = ["2026-11-22T20:20:01.154Z", "2026-11-22T20:21:01.154Z"];
        let ends = |one: &ContenderInfo, words: String| {
            let line = line(one);
            assert!(line.contains(&format!("), {words}  [")), "{line}");
        };
        one.owner.since = Some(joined.to_owned());
        one.owner.granted = Some(granted.to_owned());
        ends(&one, format!("holding since {granted}"));
        one.owner.granted = None;
        ends(&one, format!("holding since {joined} at the earliest"));
        // Others than zklock write no times.
        one.owner.since = None;
        ends(&one, format!("holding since {} at the earliest", moment(one.created)));
        one.holds = false;
        ends(&one, format!("in the queue since {}", moment(one.created)));
    }
}
