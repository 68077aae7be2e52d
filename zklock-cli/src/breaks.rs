//! Deletes the node of a contender.

use std::io::{BufRead, Write, stderr, stdin};

use serde_json::{Value, json};
use zklock::{ContenderInfo, LockError, Session, Site, Survey};

use crate::args::Break;
use crate::exit::{Failure, PROBLEM};
use crate::inspect::{line, say};
use crate::server::connect;
use crate::why::view::HEAD;

/// Deletes one exact node, after a question.
pub(crate) async fn break_node(wanted: &Break) -> Result<u8, Failure> {
    let session = connect().await?;
    let mut deleted = false;
    if let Some((site, one)) = find(&session, &wanted.name, &wanted.node, wanted.czxid).await? {
        if !wanted.yes {
            say(&line(&one))?;
            if !is_sure()? {
                session.close().await;
                say("nothing is deleted")?;
                return Ok(PROBLEM);
            }
        }
        deleted = site.break_holder(&one).await?;
    }
    session.close().await;
    say(&match deleted {
        deleted if wanted.json => told(&wanted.name, deleted).to_string(),
        true => format!("deleted {}", wanted.node),
        false => format!("nothing to do: {} with this czxid is not there", wanted.node),
    })?;
    Ok(if deleted { 0 } else { PROBLEM })
}

/// The contender with this node, and the queue in which it is.
pub(crate) async fn find(
    session: &Session,
    name: &str,
    node: &str,
    czxid: u64,
) -> Result<Option<(Site, ContenderInfo)>, LockError> {
    for site in session.sites(name).await? {
        if let Some(one) = find_in(&site, node, czxid, (HEAD, PART)).await? {
            return Ok(Some((site, one)));
        }
    }
    Ok(None)
}

/// So many nodes are read at a time behind the head of a queue: each part may take as long as a look may.
const PART: usize = 500;

/// Reads the head of a queue, where a holder is, and what is behind it up to this node: a long queue of a server far away
/// is not read in the time of one look.
async fn find_in(
    site: &Site,
    node: &str,
    czxid: u64,
    (head, part): (usize, usize),
) -> Result<Option<ContenderInfo>, LockError> {
    let Survey { mut queue, unread, .. } = site.clone().head(head).survey().await?;
    if let Some(behind) = unread.iter().position(|unread| unread == node) {
        // Those before it may only leave, so it stays within these.
        let (mut read, all) = (head, head + behind + 1);
        while read < all {
            read = all.min(read + part);
            queue = site.clone().head(read).contenders_reusing(&queue).await?;
        }
    }
    Ok(queue.into_iter().find(|one| one.node == node && one.czxid == czxid))
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
    use zklock::Embedded;

    #[tokio::test]
    async fn a_node_is_found_wherever_it_is_in_the_queue() {
        let (store, mut guards) = (Embedded::new(), Vec::new());
        // Each with a node of its own.
        for _ in 0..7 {
            let session = Session::embedded_builder(&store).open().unwrap();
            let guard = session.rw_lock("a").unwrap().read().await.unwrap();
            guards.push((session, guard));
        }
        let session = Session::embedded_builder(&store).open().unwrap();
        let site = session.site("a").unwrap();
        let queue = site.contenders().await.unwrap();
        assert_eq!(queue.len(), 7);
        for parts in [(1, 1), (2, 2), (3, 4), (7, 1), (100, 500)] {
            for one in &queue {
                let found = find_in(&site, &one.node, one.czxid, parts).await.unwrap();
                let found = found.unwrap_or_else(|| panic!("{parts:?}: {one:?}"));
                assert_eq!((&found.node, found.czxid, found.holds), (&one.node, one.czxid, true));
                // A later node of the same name.
                let other = find_in(&site, &one.node, one.czxid + 1_000, parts).await.unwrap();
                assert_eq!(other, None);
            }
            assert_eq!(find_in(&site, "not-there", 1, parts).await.unwrap(), None);
        }
    }
}
