//! Deletes the node of a contender.

use std::io::{BufRead, Write, stderr, stdin};

use serde_json::{Value, json};
use zklock::{ContenderInfo, LockError, Session, Site};

use crate::args::Break;
use crate::exit::{Failure, PROBLEM};
use crate::inspect::{line, say};
use crate::parts::{all_wait, head_and_while};
use crate::server::connect;
use crate::text::json_text;

/// Deletes one exact node, after a question.
pub(crate) async fn break_node(wanted: &Break) -> Result<u8, Failure> {
    let session = connect().await?;
    let look = async || find(&session, &wanted.name, &wanted.node, wanted.czxid).await;
    let mut found = look().await?;
    let mut shown: Option<ContenderInfo> = None;
    while let Some((_, one)) = &found
        && !wanted.yes
        && !shown.as_ref().is_some_and(|shown| is_as_before(shown, one))
    {
        if let Some(shown) = &shown {
            say(changed(shown, one))?;
        }
        say(&line(one))?;
        if !is_sure()? {
            session.close().await;
            say("nothing is deleted")?;
            return Ok(PROBLEM);
        }
        // Whoever is asked may take their time, in which a waiter comes to hold the lock.
        shown = Some(one.clone());
        found = look().await?;
    }
    let mut deleted = false;
    if let Some((site, one)) = found {
        deleted = site.break_holder(&one).await?;
    }
    session.close().await;
    say(&match deleted {
        deleted if wanted.json => json_text(&told(&wanted.name, deleted)),
        true => format!("deleted {}", wanted.node),
        false => format!("nothing to do: {} with this czxid is not there", wanted.node),
    })?;
    Ok(if deleted { 0 } else { PROBLEM })
}

/// Whether a contender holds the lock, or waits for it, as when it was shown. A new holder tells its grant a moment later.
fn is_as_before(shown: &ContenderInfo, one: &ContenderInfo) -> bool {
    let granted = &shown.owner.granted;
    shown.holds == one.holds && (granted.is_none() || *granted == one.owner.granted)
}

/// What has changed about a contender since it was shown.
fn changed(shown: &ContenderInfo, one: &ContenderInfo) -> &'static str {
    match (shown.holds, one.holds) {
        (false, true) => "it holds the lock meanwhile:",
        (true, false) => "it does not hold the lock any more:",
        _ => "its process has handed the lock on meanwhile, with the same node:",
    }
}

/// The contender with this node, and the queue in which it is.
pub(crate) async fn find(
    session: &Session,
    name: &str,
    node: &str,
    czxid: u64,
) -> Result<Option<(Site, ContenderInfo)>, LockError> {
    for site in session.sites(name).await? {
        if let Some(mut one) = find_in(&site, node, czxid).await? {
            // As it is shown elsewhere.
            if site.is_inner() {
                all_wait(std::slice::from_mut(&mut one));
            }
            return Ok(Some((site, one)));
        }
    }
    Ok(None)
}

/// Reads a queue up to this node.
async fn find_in(site: &Site, node: &str, czxid: u64) -> Result<Option<ContenderInfo>, LockError> {
    let is_it = |one: &ContenderInfo| one.node == node;
    let queue = head_and_while(site, |queue| !queue.iter().any(is_it)).await?;
    Ok(queue.into_iter().find(|one| is_it(one) && one.czxid == czxid))
}

/// What became of it, as JSON.
pub(crate) fn told(name: &str, deleted: bool) -> Value {
    json!({ "name": name, "deleted": deleted })
}

/// Asks whoever sits before the terminal. The end of the input means no.
fn is_sure() -> Result<bool, Failure> {
    let question =
        "Whoever holds the lock goes on until it learns of this. Delete the node? [y/N] ";
    let told = write!(stderr(), "{question}").and_then(|()| stderr().flush());
    let mut answer = String::new();
    let read = told.and_then(|()| stdin().lock().read_line(&mut answer));
    let read = read.map_err(|error| Failure::own(format!("cannot ask: {error}")))?;
    if read == 0 {
        // Nobody has ended the line.
        let _ = writeln!(stderr());
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::tests::Seven;

    #[tokio::test]
    async fn only_what_was_shown_is_deleted_without_another_question() {
        let one = Seven::new().await.queue.remove(0);
        let like = |holds: bool, granted: Option<&str>| {
            let mut one = one.clone();
            (one.holds, one.owner.granted) = (holds, granted.map(str::to_owned));
            one
        };
        let holds = like(true, Some("a"));
        assert!(is_as_before(&holds, &holds) && is_as_before(&like(true, None), &holds));
        // A waiter got the lock, and a holder handed it on or has none any more.
        assert!(!is_as_before(&like(false, None), &like(true, None)));
        assert!(!is_as_before(&holds, &like(true, Some("b"))));
        assert!(!is_as_before(&holds, &like(false, Some("a"))));
    }

    #[tokio::test]
    async fn a_node_is_found_wherever_it_is_in_the_queue() {
        let seven = Seven::new().await;
        let site = &seven.site;
        for one in &seven.queue {
            let found = find_in(site, &one.node, one.czxid).await.unwrap();
            let found = found.unwrap_or_else(|| panic!("{one:?}"));
            assert_eq!((&found.node, found.czxid, found.holds), (&one.node, one.czxid, true));
            // A later node of the same name.
            let other = find_in(site, &one.node, one.czxid + 1_000).await.unwrap();
            assert_eq!(other, None);
        }
        assert_eq!(find_in(site, "not-there", 1).await.unwrap(), None);
    }
}
