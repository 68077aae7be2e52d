//! How it is told, to people and to programs.

use std::fmt::Write;

use serde_json::{Value, json};
use zklock::ContenderInfo;

use crate::held::{Held, granted};
use crate::inspect::value;
use crate::ls::who;
use crate::text::wrapped;
use crate::when::{millis, since, span};
use crate::why::life::Life;
use crate::why::problems::{Facts, Problem};
use crate::why::stuck::stuck_at;
use crate::why::usual;
use crate::why::view::Queue;

/// So many waiters are shown to people.
const MOST_SHOWN: usize = 10;

pub(crate) fn text(facts: &Facts<'_>, problems: &[Problem]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, facts, problems);
    out.truncate(out.trim_end().len());
    out
}

fn write(out: &mut String, facts: &Facts<'_>, problems: &[Problem]) -> std::fmt::Result {
    for queue in facts.queues.iter().filter(|queue| !queue.inner) {
        writeln!(out, "{} ({}, layout: {})", facts.name, queue.path, queue.layout)?;
    }
    let mut holders = facts
        .queues
        .iter()
        .flat_map(|queue| queue.holders().map(move |one| (queue, one)))
        .peekable();
    let waiters: Vec<_> = facts.queues.iter().flat_map(Queue::waiters).collect();
    if holders.peek().is_none() {
        let stuck = waiters.iter().find_map(|one| stuck_at(one, facts.views));
        match facts.rests() {
            Some(left) if facts.delay() == Some(left) => writeln!(
                out,
                "\nNobody holds it, and its last holder was lost: who comes next gets it after {} \
                 (lock_delay).",
                span(left)
            )?,
            Some(left) => writeln!(
                out,
                "\nNobody holds it, and nobody gets it for {}: its last holder was lost (lock_delay), or \
                 got it a short time ago (hold_at_least).",
                span(left)
            )?,
            None if facts.queues.iter().all(|queue| queue.survey.created.is_none()) => {
                writeln!(out, "\n{}", wrapped(&unknown(facts), 0))?;
            }
            None => {
                let says = stuck.map(|server| {
                    format!(
                        " Who is first in the queue waits at {server}, whose data differ from its \
                         leader's."
                    )
                });
                writeln!(out, "\nNobody holds it.{}", says.unwrap_or_default())?;
            }
        }
    }
    for (queue, one) in holders {
        let only = match queue.is_phantom(one) {
            true => {
                format!(": only {} says so, and its leader does not know the node", facts.server)
            }
            false => String::new(),
        };
        writeln!(out, "\n{:9}{}, {}{only}", "held by", who(one), one.mode)?;
        let since = match (granted(one), one.owner.granted.as_deref()) {
            (Some(_), Some(moment)) => format!("since {moment}"),
            _ => "which is the age of its node".to_owned(),
        };
        writeln!(out, "{:9}{}, {since}", "for", Held::of(one))?;
        for (index, line) in usual::lines(queue, one).iter().enumerate() {
            writeln!(out, "{:9}{line}", if index == 0 { "usually" } else { "" })?;
        }
        writeln!(out, "{:9}{}", "session", session(one, facts))?;
        writeln!(out, "{:9}{}, czxid {:#x}", "node", one.node, one.czxid)?;
    }
    if !waiters.is_empty() {
        writeln!(out, "\n{:9}{}", "waiting", waiters.len())?;
    }
    for one in waiters.iter().take(MOST_SHOWN) {
        let at = stuck_at(one, facts.views).map(|server| format!(", at {server}"));
        let (for_, at) = (span(since(one.created)), at.unwrap_or_default());
        writeln!(out, "{:9}{}, {}, for {for_}{at}", "", who(one), one.mode)?;
    }
    if waiters.len() > MOST_SHOWN {
        writeln!(out, "{:9}and {} more", "", waiters.len() - MOST_SHOWN)?;
    }
    if problems.is_empty() {
        let mut holders = facts.queues.iter().flat_map(Queue::holders);
        let known = match holders.any(|one| facts.is_untold(one)) {
            true => ", as far as it is known: whether the holder lives is not told",
            false => "",
        };
        writeln!(out, "\nNothing is wrong{known}.")?;
    }
    for problem in problems {
        writeln!(out)?;
        let head = if problem.is_normal { "" } else { "PROBLEM: " };
        writeln!(out, "{}", wrapped(&format!("{head}{}", problem.says), 0))?;
        for (index, command) in problem.helps.iter().enumerate() {
            writeln!(out, "{:9}{command}", if index == 0 { "  helps:" } else { "     or:" })?;
        }
    }
    Ok(())
}

/// What is said of a name that ZooKeeper does not know: whoever asks about a stuck lock may have mistaken it.
fn unknown(facts: &Facts<'_>) -> String {
    let path = facts.queues.first().map_or(facts.name, |queue| &*queue.path);
    format!(
        "Nobody holds it: there is no {path} in ZooKeeper. Either nobody uses the lock now, or the \
         name or the root (ZKLOCK_ROOT) is another one: `{}` lists the locks in use.",
        facts.again.command(&["ls"])
    )
}

fn session(one: &ContenderInfo, facts: &Facts<'_>) -> String {
    let id = format!("{:#x}", one.zookeeper_session);
    match Life::of(one, facts.views) {
        Life::Stays => "none: no session removes its node".to_owned(),
        Life::Connected { server, from, timeout, heard, at_least } => format!(
            "{id}, from {from} to {server}, last heard {}{} ago, timeout {}",
            if at_least { "at least " } else { "" },
            span(heard),
            span(timeout)
        ),
        Life::Alone => format!("{id}, without a connection to any server"),
        Life::Unknown { why } | Life::Unasked { why } => {
            format!("{id}; when it was last heard is not known: {why}")
        }
    }
}

pub(crate) fn json(facts: &Facts<'_>, problems: &[Problem]) -> Value {
    let queues = facts.queues.iter().map(|queue| {
        json!({
            "path": queue.path,
            "layout": queue.layout,
            "inner": queue.inner,
            "next_number": queue.survey.next_number,
            "created": queue.survey.created.map(|at| humantime::format_rfc3339_millis(at).to_string()),
            "left": queue.left().map(|(left, _)| left),
            "unread": queue.survey.unread.len(),
            "strangers": queue.survey.strangers,
        })
    });
    let holders = facts.queues.iter().flat_map(|queue| {
        queue.holders().map(move |one| {
            let mut value = contender(one, facts);
            value["usual"] = usual::value(queue, one);
            value
        })
    });
    let waiters = facts.queues.iter().flat_map(Queue::waiters).map(|one| contender(one, facts));
    let servers = facts.views.iter().map(|view| {
        json!({
            "address": view.server,
            "answers": view.queues.is_ok(),
            "why_not": view.queues.as_ref().err().map(|why| &why.message),
            "tells_connections": view.connections.is_ok(),
            "tells_ensemble": view.place.member.is_ok(),
        })
    });
    let problems = problems.iter().map(|problem| {
        json!({
            "code": problem.code,
            "normal": problem.is_normal,
            "says": problem.says,
            "helps": problem.helps,
        })
    });
    json!({
        "name": facts.name,
        "queues": queues.collect::<Vec<_>>(),
        "holders": holders.collect::<Vec<_>>(),
        "waiters": waiters.collect::<Vec<_>>(),
        "unavailable_for_ms": facts.rests().map(millis),
        "problems": problems.collect::<Vec<_>>(),
        "servers": servers.collect::<Vec<_>>(),
    })
}

fn contender(one: &ContenderInfo, facts: &Facts<'_>) -> Value {
    let session = match Life::of(one, facts.views) {
        Life::Stays => json!({ "state": "none" }),
        Life::Connected { server, from, timeout, heard, at_least } => json!({
            "state": "connected",
            "id": format!("{:#x}", one.zookeeper_session),
            "server": server,
            "from": from,
            "timeout_ms": millis(timeout),
            "heard_ms_ago": millis(heard),
            "heard_at_least": at_least,
        }),
        Life::Alone => json!({ "state": "alone", "id": format!("{:#x}", one.zookeeper_session) }),
        Life::Unknown { why } | Life::Unasked { why } => {
            json!({ "state": "unknown", "id": format!("{:#x}", one.zookeeper_session), "why": why })
        }
    };
    let mut value = value(one);
    value["session"] = session;
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::example::{facts, queue, view};
    use crate::why::view::Queue;
    use zklock::Session;

    /// A server that is slow to tell its connections.
    #[tokio::test]
    async fn what_is_not_told_is_not_well() {
        let session = Session::embedded();
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let site = session.site("a").unwrap();
        for waits in [false, true] {
            let mut survey = site.survey().await.unwrap();
            // On the embedded coordinator a node belongs to no session.
            survey.queue.iter_mut().for_each(|one| one.zookeeper_session = 7);
            if waits {
                let mut waiter = survey.queue[0].clone();
                waiter.holds = false;
                survey.queue.push(waiter);
            }
            let (server, queues) = ("zk1:2181", [queue(survey)]);
            let untold = Err("it did not answer in time".to_owned());
            let views = [view(server, queues[0].clone(), untold)];
            let facts = facts(&views, &queues, server);
            let problems = facts.problems();
            let text = text(&facts, &problems).split_whitespace().collect::<Vec<_>>().join(" ");
            let unknown =
                "when it was last heard is not known: zk1:2181: it did not answer in time";
            assert!(text.contains(unknown), "{text}");
            let says =
                "Nothing is wrong, as far as it is known: whether the holder lives is not told.";
            assert_eq!(text.ends_with(says), !waits, "{text}");
            assert_eq!(
                text.contains("Nothing is wrong in ZooKeeper, as far as it is known:"),
                waits
            );
        }
        drop(guard);
    }

    #[tokio::test]
    async fn a_lock_that_nobody_holds_and_somebody_waits_for_is_not_well() {
        let session = Session::embedded();
        let _first = session.mutex("a").unwrap().acquire().await.unwrap();
        let site = session.site("a").unwrap();
        for inner in [false, true] {
            let survey = site.survey().await.unwrap();
            let queues = [Queue { inner, ..queue(survey) }];
            let facts = facts(&[], &queues, "zk1:2181");
            let problems = facts.problems();
            let codes: Vec<_> = problems.iter().map(|one| (one.code, one.is_normal)).collect();
            let text = text(&facts, &problems);
            // No server was asked.
            assert_eq!(
                text.contains("\n\nNothing is wrong, as far as it is known"),
                !inner,
                "{text}"
            );
            assert_eq!(text.contains("\nNobody holds it.\n"), inner, "{text}");
            assert_eq!(codes, if inner { vec![("next", true)] } else { vec![] });
            assert_eq!(text.ends_with("\n  helps: zklock why a"), inner, "{text}");
        }
    }
}
