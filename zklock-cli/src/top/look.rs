//! A look at all locks, and at who is connected to the servers.

use std::collections::BTreeSet;

use zklock::{LockError, Session};

use crate::ls::{Found, Lock, find};
use crate::why::life::Life;
use crate::why::view::{View, ask_connections};

/// Reads the locks in use, and then the connections that the servers tell.
///
/// Who releases a lock or comes for one in between has no connection by one and a node by the other. So whoever looks
/// lost is looked at once more: only who had no connection twice, and has its node after that, is said to be lost.
pub(crate) async fn look(
    session: &Session,
    servers: &[String],
    prefix: Option<&str>,
) -> Result<(Found, Vec<View>), LockError> {
    let own = session.zookeeper_session().map(|one| one.id);
    let mut found = find(session, prefix).await?;
    let mut views = ask_connections(servers, own).await;
    let before = all_suspects(&found, &views);
    if before.is_empty() {
        return Ok((found, views));
    }
    views = ask_connections(servers, own).await;
    let again = found.locks.iter().filter(|lock| !suspects(lock, &views).is_empty());
    let again = again.map(|lock| lock.name.clone()).collect();
    found.read(session, again).await?;
    let unsure = &all_suspects(&found, &views) - &before;
    if let Some(view) = views.first_mut() {
        view.unsure = unsure;
    }
    Ok((found, views))
}

/// The sessions of the holders that look lost.
fn suspects(lock: &Lock, views: &[View]) -> BTreeSet<i64> {
    let all = lock.holders.iter().filter(|one| match Life::of(one, views) {
        Life::Alone => true,
        life => life.is_silent(one),
    });
    all.map(|one| one.zookeeper_session).collect()
}

fn all_suspects(found: &Found, views: &[View]) -> BTreeSet<i64> {
    found.locks.iter().flat_map(|lock| suspects(lock, views)).collect()
}
