//! The locks that are in use.

use serde_json::{Value, json};
use tokio::task::JoinSet;
use zklock::{ErrorKind, LockError, Mode, Participant, Session};

use crate::exit::Failure;
use crate::inspect::{say, value};
use crate::server::connect;
use crate::text::printable;
use crate::when::{since, span};

/// A lock in use.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) name: String,
    pub(crate) path: String,
    /// Its layout; several if its users do not exclude each other.
    pub(crate) layout: String,
    pub(crate) holders: Vec<Participant>,
    pub(crate) waiters: Vec<Participant>,
}

/// So many locks are read at the same time: each takes a few round trips.
const AT_ONCE: usize = 32;

/// Reads the locks in use, sorted by name.
pub(crate) async fn locks(session: &Session, prefix: Option<&str>) -> Result<Vec<Lock>, LockError> {
    let mut names = session.lock_names(prefix).await?.into_iter();
    let (mut locks, mut reading) = (Vec::new(), JoinSet::new());
    loop {
        for name in names.by_ref().take(AT_ONCE - reading.len()) {
            reading.spawn(lock(session.clone(), name));
        }
        match reading.join_next().await {
            Some(Ok(read)) => locks.extend(read?),
            // A task that panicked has told so itself.
            Some(Err(_)) => {}
            None => break,
        }
    }
    locks.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(locks)
}

/// Reads a lock, unless nobody uses it.
async fn lock(session: Session, name: String) -> Result<Option<Lock>, LockError> {
    let sites = match session.sites(&*name).await {
        Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
        // The directory of something else may have a name that no lock can have.
        Err(_) => return Ok(None),
        Ok(sites) => sites,
    };
    let (mut holders, mut waiters, mut layouts) = (Vec::new(), Vec::new(), Vec::new());
    for site in &sites {
        for one in site.contenders().await? {
            let to = if one.holder && !site.is_inner() { &mut holders } else { &mut waiters };
            to.push(one);
        }
        layouts.extend((!site.is_inner()).then(|| site.layout()));
    }
    let twins = twins(&waiters);
    waiters.retain(|one| one.mode == Mode::Permit || !twins.contains(&one.session));
    let path = sites.first().map(|site| site.path().to_owned());
    let path = path.filter(|_| !holders.is_empty() || !waiters.is_empty());
    Ok(path.map(|path| Lock { name, path, layout: layouts.join(" and "), holders, waiters }))
}

/// The sessions that wait for a permit of a semaphore with a node. Each of them has another one, in the inner
/// lock of the semaphore, and is one waiter all the same.
pub(crate) fn twins(queue: &[Participant]) -> Vec<i64> {
    let waiting = queue.iter().filter(|one| one.mode == Mode::Permit && !one.holder);
    waiting.map(|one| one.session).collect()
}

/// Prints the locks in use.
pub(crate) async fn ls(prefix: Option<&str>, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let locks = locks(&session, prefix).await?;
    session.close().await;
    if as_json {
        let locks: Vec<_> = locks.iter().map(Lock::value).collect();
        say(&json!({ "locks": locks }).to_string())?;
    } else if locks.is_empty() {
        say(&none(&session, prefix)?)?;
    } else {
        let rows: Vec<_> = locks.iter().map(Lock::row).collect();
        let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let (name, layout) = (wide(0).unwrap_or(0).max(4), wide(1).unwrap_or(0).max(6));
        say(&format!("{:name$}  {:layout$}  {:>7}  HELD BY", "NAME", "LAYOUT", "WAITING"))?;
        for [lock, of, waiting, holder] in &rows {
            say(&format!("{lock:name$}  {of:layout$}  {waiting:>7}  {holder}"))?;
        }
    }
    Ok(0)
}

/// What is said where it finds nothing: where it looked, for the root may be another one than that of the
/// locks.
fn none(session: &Session, prefix: Option<&str>) -> Result<String, LockError> {
    Ok(match prefix {
        Some(prefix) => format!("no lock is in use at {} or below", session.site(prefix)?.path()),
        None => format!("no lock is in use below {}", session.root()),
    })
}

impl Lock {
    fn row(&self) -> [String; 4] {
        let holder = match &*self.holders {
            [] => "nobody".to_owned(),
            [one] => of_one(one),
            [first, more @ ..] => format!("{}, and {} more", of_one(first), more.len()),
        };
        [self.name.clone(), self.layout.clone(), self.waiters.len().to_string(), holder]
    }

    pub(crate) fn value(&self) -> Value {
        json!({
            "name": self.name,
            "path": self.path,
            "layout": self.layout,
            "holders": self.holders.iter().map(value).collect::<Vec<_>>(),
            "waiting": self.waiters.len(),
        })
    }
}

fn of_one(one: &Participant) -> String {
    format!("{}, {}, for {}", who(one), one.mode, span(since(began(one))))
}

/// Since when a contender holds the lock, where it says so; otherwise since when its node is there.
pub(crate) fn began(one: &Participant) -> std::time::SystemTime {
    granted(one).unwrap_or(one.created)
}

/// Since when a contender holds the lock, where it says so.
pub(crate) fn granted(one: &Participant) -> Option<std::time::SystemTime> {
    humantime::parse_rfc3339(one.owner.granted.as_deref()?).ok()
}

/// The number that ZooKeeper gave to a node: the nodes of a directory are counted as they are created.
pub(crate) fn number(node: &str) -> Option<i64> {
    let digits = node.get(node.len().checked_sub(10)?..)?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Who it is, without times.
pub(crate) fn who(one: &Participant) -> String {
    let mut owner = one.owner.clone();
    (owner.since, owner.granted, owner.revoked) = (None, None, false);
    printable(&owner.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_says_where_it_found_nothing() {
        let session = Session::embedded();
        assert_eq!(none(&session, None).unwrap(), "no lock is in use below /zklock");
        let one = none(&session, Some("orders")).unwrap();
        assert_eq!(one, "no lock is in use at /zklock/orders or below");
    }
}
