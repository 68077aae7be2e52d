//! `zklock why`: who holds a lock, who waits, and what is wrong if something is.

mod directory;
#[cfg(test)]
mod example;
mod lasting;
pub(crate) mod life;
mod local;
mod problems;
mod show;
mod stuck;
mod usual;
pub(crate) mod view;

use std::time::Duration;

use crate::exit::{Failure, OWN, PROBLEM, UNREACHABLE};
use crate::inspect::say;
use crate::server::{Again, servers};
use crate::text::json_text;
use crate::why::problems::Facts;
use crate::why::view::{Queue, View};

/// What is known of a lock, in words or as JSON.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) says: String,
    /// Whether something is wrong.
    is_wrong: bool,
}

/// Prints what is known of a lock, with the answers of the servers that come in time.
pub(crate) async fn why(
    name: &str,
    within: Duration,
    again: &Again,
    as_json: bool,
) -> Result<u8, Failure> {
    let known = known(name, within, again, as_json).await?;
    say(&known.says)?;
    Ok(if known.is_wrong { PROBLEM } else { 0 })
}

/// Returns what is known of a lock.
pub(crate) async fn known(
    name: &str,
    within: Duration,
    again: &Again,
    as_json: bool,
) -> Result<Known, Failure> {
    // Before the servers are asked: what is no name or no setting is not their fault.
    zklock::LockName::new(name)?;
    let servers = servers()?;
    let views = view::ask(name, &servers, within).await;
    // Rather one whose data are those of its leader, and which has told all.
    let differs = |queues: &[Queue]| queues.iter().any(|queue| queue.survey.phantom.is_some());
    let unread = |queues: &[Queue]| queues.iter().any(|queue| !queue.survey.unread.is_empty());
    let mut answering: Vec<_> =
        views.iter().filter_map(|view| Some((view, &**view.queues.as_ref().ok()?))).collect();
    answering.sort_by_key(|(_, queues)| (differs(queues), unread(queues)));
    let Some((view, queues)) = answering.first().copied() else {
        let mut message = "ZooKeeper does not answer".to_owned();
        for View { server, queues, .. } in views {
            match queues {
                // Also a refusal is an answer.
                Err(why) if why.code == OWN => return Err(why),
                Err(why) => message += &format!("\n  {server}: {}", why.message),
                Ok(_) => {}
            }
        }
        return Err(Failure { code: UNREACHABLE, message });
    };
    let server = &view.server;
    let queues = &stuck::without_stuck_holders(queues, &views);
    let facts = Facts { name, within, again, views: &views, queues, server };
    let problems = facts.problems();
    let says = match as_json {
        true => json_text(&show::json(&facts, &problems)),
        false => show::text(&facts, &problems),
    };
    Ok(Known { says, is_wrong: !problems.iter().all(|problem| problem.is_normal) })
}
