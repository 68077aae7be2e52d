//! Deletes the node of a contender.

use std::io::{BufRead, Write, stderr, stdin};

use serde_json::{Value, json};
use zklock::{LockError, Participant, Session, Site};

use crate::args::Break;
use crate::exit::{Failure, PROBLEM};
use crate::inspect::{line, say};
use crate::server::connect;

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
) -> Result<Option<(Site, Participant)>, LockError> {
    for site in session.sites(name).await? {
        let queue = site.contenders().await?.into_iter();
        if let Some(one) = { queue }.find(|one| one.node == node && one.czxid == czxid) {
            return Ok(Some((site, one)));
        }
    }
    Ok(None)
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
