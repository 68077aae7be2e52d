//! Deletes the node of a contender for somebody who asks by the page.

use std::net::SocketAddr;
use std::sync::Arc;

use zklock::{ErrorKind, LockError};

use crate::breaks::find;
use crate::serve::detached::detached;
use crate::serve::looker::Looker;
use crate::text::{printable, tell};

/// A node that somebody wants to be deleted.
pub(super) struct Wanted {
    pub(super) from: SocketAddr,
    pub(super) name: String,
    pub(super) node: String,
    pub(super) czxid: u64,
    /// Whether it held the lock when it was seen, if that was told.
    pub(super) held: Option<bool>,
}

/// What became of it.
pub(super) enum Broken {
    Deleted,
    /// It was not there.
    Gone,
    /// It is not what was seen: whether it holds the lock now.
    Differs {
        holds: bool,
    },
}

/// Deletes it, and tells what became of it, also if nobody waits for the answer any more.
pub(super) async fn break_node(looker: Arc<Looker>, wanted: Wanted) -> Result<Broken, String> {
    // Whoever asks may go at any time, and then its handler is dropped.
    detached(async move { to_the_end(&looker, &wanted).await }).await
}

async fn to_the_end(looker: &Looker, wanted: &Wanted) -> Result<Broken, String> {
    let Wanted { from, name, node, czxid, held } = wanted;
    let tell = |what: String| {
        tell(format_args!("{from} breaks {name:?}: --node {node:?} --czxid {czxid:#x}: {what}"));
    };
    let in_words = |error: LockError| format!("{error:#}");
    let deleted = match find(&looker.session, name, node, *czxid).await.map_err(in_words)? {
        None => Ok(false),
        Some((_, one)) if held.is_some_and(|held| held != one.holds) => {
            return Ok(Broken::Differs { holds: one.holds });
        }
        Some((site, one)) => site.break_holder(&one).await,
    };
    match &deleted {
        Ok(deleted) => {
            if *deleted {
                looker.history(|history| history.broken(name, node, *czxid));
            }
            tell(format!("deleted is {deleted}"));
        }
        Err(error) if is_in_doubt(error) => {
            looker.history(|history| history.perhaps_broken(name, node, *czxid));
            tell(printable(&format!("whether it was deleted is not known: {error:#}")));
        }
        Err(_) => {}
    }
    looker.look_again();
    let broken = deleted.map_err(in_words)?;
    Ok(if broken { Broken::Deleted } else { Broken::Gone })
}

/// Whether the server may have got the request. A refusal is an answer.
fn is_in_doubt(error: &LockError) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Closing)
}
