//! The locks that are in use.

mod left_out;

use std::collections::BTreeSet;
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use zklock::{ContenderInfo, ErrorKind, LockError, Mode, Session};

use crate::exit::{Failure, PROBLEM};
use crate::held::Held;
use crate::inspect::{moment, rests_until, say, value};
pub(crate) use crate::ls::left_out::LeftOut;
use crate::ls::left_out::other_root;
use crate::parts::{all_wait, whole};
use crate::server::{Again, connect};
use crate::text::{json_text, printable, tell};
use crate::when::{span, until};

/// A lock in use.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) name: String,
    pub(crate) path: String,
    /// Its layout; several if its users do not exclude each other.
    pub(crate) layout: String,
    pub(crate) holders: Vec<ContenderInfo>,
    pub(crate) waiters: Vec<ContenderInfo>,
    /// The permits that some of the waiters have made already: second nodes of theirs.
    pub(crate) awaited: Vec<ContenderInfo>,
    /// Until when nobody gets it, where nobody holds it.
    pub(crate) until: Option<SystemTime>,
}

/// The locks in use, as far as they can be listed.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Sorted by name.
    pub(crate) locks: Vec<Lock>,
    pub(crate) left_out: LeftOut,
}

/// So many locks are read at the same time: each takes a few round trips.
const AT_ONCE: usize = 32;

/// Reads the locks in use.
pub(crate) async fn find(session: &Session, prefix: Option<&str>) -> Result<Found, LockError> {
    let listed = session.lock_names(prefix).await;
    // Without a prefix the library calls it as a lock that is not there.
    let listed = listed.map_err(|error| match prefix {
        Some(_) => error,
        None => error.on("the list of locks"),
    })?;
    let mut found = Found::default();
    found.left_out.add(LeftOut { unread: listed.unread, ..LeftOut::default() });
    found.read(session, listed.names).await?;
    Ok(found)
}

impl Found {
    /// Reads these locks, again if they are known.
    pub(crate) async fn read(
        &mut self,
        session: &Session,
        names: Vec<String>,
    ) -> Result<(), LockError> {
        self.locks.retain(|lock| names.binary_search(&lock.name).is_err());
        let (mut names, mut reading) = (names.into_iter(), JoinSet::new());
        loop {
            for name in names.by_ref().take(AT_ONCE - reading.len()) {
                reading.spawn(read(session.clone(), name));
            }
            match reading.join_next().await {
                Some(Ok(read)) => {
                    let read = read?;
                    self.locks.extend(read.locks);
                    self.left_out.add(read.left_out);
                }
                // A task that panicked has told so itself.
                Some(Err(_)) => {}
                None => break,
            }
        }
        self.locks.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(())
    }
}

/// Reads a lock, or says why it is left out.
async fn read(session: Session, name: String) -> Result<Found, LockError> {
    let (mut found, root) = (Found::default(), session.root());
    let path = if name.is_empty() { root.to_string() } else { root.join(&name).to_string() };
    match lock(&session, name).await {
        Ok(lock) => found.locks.extend(lock),
        Err(error) if error.kind() == ErrorKind::Unauthorized => found.left_out.unread.push(path),
        // A lock may have a path that is no name below this root, or below any.
        Err(error) if error.kind() == ErrorKind::InvalidName => {
            match other_root(&path, root.as_str()) {
                Some(other) => found.left_out.elsewhere.push(other.to_owned()),
                None => found.left_out.unnamed.push(path),
            }
        }
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// Reads a lock, unless nobody uses it.
async fn lock(session: &Session, name: String) -> Result<Option<Lock>, LockError> {
    let (mut holders, mut waiters, mut layouts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut until, mut known): (Option<SystemTime>, _) = (None, BTreeSet::new());
    let sites = session.sites(&*name).await?;
    for site in &sites {
        let mut queue = whole(site, &[]).await?;
        until = until.max(rests_until(site, &queue));
        if site.is_inner() {
            all_wait(&mut queue);
            known.extend(queue.iter().map(|one| one.zookeeper_session));
        }
        for one in queue {
            let to = if one.holds { &mut holders } else { &mut waiters };
            to.push(one);
        }
        layouts.extend((!site.is_inner()).then(|| site.layout()));
    }
    let (waiters, awaited): (Vec<_>, Vec<_>) =
        waiters.into_iter().partition(|one| is_waiter_of_its_own(one, &mut known));
    let path = sites.first().map(|site| site.path().to_owned());
    let path = path.filter(|_| !holders.is_empty() || !waiters.is_empty());
    let (layout, until) = (layouts.join(" and "), until.filter(|_| holders.is_empty()));
    Ok(path.map(|path| Lock { name, path, layout, holders, waiters, awaited, until }))
}

/// Whether this is no further node of a waiter. Each who waits for permits stands in the inner lock of the semaphore, where
/// a session has one node for each of its callers; the first of all has made its permits as well, and is one waiter all
/// the same. `known` has the sessions in the inner lock, and then those before this one.
pub(crate) fn is_waiter_of_its_own(one: &ContenderInfo, known: &mut BTreeSet<i64>) -> bool {
    one.mode != Mode::Permit || one.holds || known.insert(one.zookeeper_session)
}

/// Prints the locks in use. The exit code says whether all of them could be listed.
pub(crate) async fn ls(prefix: Option<&str>, again: &Again, as_json: bool) -> Result<u8, Failure> {
    let session = connect().await?;
    let Found { locks, left_out } = find(&session, prefix).await?;
    session.close().await;
    if as_json {
        let locks: Vec<_> = locks.iter().map(Lock::value).collect();
        let mut document = json!({ "locks": locks });
        left_out.add_to(&mut document);
        say(&json_text(&document))?;
    } else if locks.is_empty() {
        let but = if left_out.is_empty() { "" } else { ", apart from what is left out" };
        say(&format!("{}{but}", none(&session, prefix)?))?;
    } else {
        let rows: Vec<_> = locks.iter().map(Lock::row).collect();
        let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let (name, layout) = (wide(0).unwrap_or(0).max(4), wide(1).unwrap_or(0).max(6));
        say(&format!("{:name$}  {:layout$}  {:>7}  HELD BY", "NAME", "LAYOUT", "WAITING"))?;
        for [lock, of, waiting, holder] in &rows {
            say(&format!("{lock:name$}  {of:layout$}  {waiting:>7}  {holder}"))?;
        }
    }
    left_out.lines(again).into_iter().for_each(tell);
    Ok(if left_out.is_empty() { 0 } else { PROBLEM })
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
            [] => match self.until.and_then(until) {
                Some(left) => format!("nobody, and nobody gets it for {}", span(left)),
                None => "nobody".to_owned(),
            },
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
            "unavailable_until": self.until.map(moment),
        })
    }
}

fn of_one(one: &ContenderInfo) -> String {
    format!("{}, {}, for {}", who(one), one.mode, Held::of(one))
}

/// The number that ZooKeeper gave to a node: the nodes of a directory are counted as they are created. A permit
/// of kazoo's is called by an identifier, which may end like a number.
pub(crate) fn number(node: &str) -> Option<i64> {
    if node.len() == 32 && node.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = node.get(node.len().checked_sub(10)?..)?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Who it is, without times.
pub(crate) fn who(one: &ContenderInfo) -> String {
    let mut owner = one.owner.clone();
    (owner.since, owner.granted, owner.revoked) = (None, None, false);
    printable(&owner.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use zklock::Embedded;
    use zklock::driver::{Connector, NodeKind};

    /// It is not the inside of a semaphore, which Curator alone has there.
    #[tokio::test]
    async fn a_lock_whose_path_is_no_name_is_left_out_and_told() {
        let store = Embedded::new();
        let raw = store.connector(Duration::from_secs(3600)).connect().await.unwrap();
        for path in ["/app", "/app/x", "/app/x/locks"] {
            raw.create(path, b"", NodeKind::Persistent).await.unwrap();
        }
        let kazoos = "/app/x/locks/be2ee212c5074b18a73381c86278175c__lock__0000000000";
        raw.create(kazoos, b"10.0.0.7", NodeKind::Ephemeral).await.unwrap();
        for root in ["/app", "/"] {
            let session = Session::embedded_builder(&store).root(root).open().unwrap();
            let Found { locks, left_out } = find(&session, None).await.unwrap();
            assert!(locks.is_empty(), "{locks:?}");
            assert_eq!(left_out.unnamed, ["/app/x/locks"], "{root}");
            assert!(left_out.unread.is_empty() && left_out.elsewhere.is_empty(), "{left_out:?}");
        }
        // The lock at the root itself has a name above.
        raw.create("/app/x/lock-0000000000", b"", NodeKind::Ephemeral).await.unwrap();
        let session = Session::embedded_builder(&store).root("/app/x").open().unwrap();
        let left_out = find(&session, None).await.unwrap().left_out;
        assert_eq!((left_out.elsewhere, left_out.unnamed.len()), (vec!["/app".to_owned()], 1));
    }

    #[tokio::test]
    async fn it_says_where_it_found_nothing() {
        let session = Session::embedded();
        assert_eq!(none(&session, None).unwrap(), "no lock is in use below /zklock");
        let one = none(&session, Some("orders")).unwrap();
        assert_eq!(one, "no lock is in use at /zklock/orders or below");
    }

    /// As `top` and the page show it.
    #[tokio::test]
    async fn an_error_says_that_the_locks_were_to_be_listed() {
        let session = Session::embedded();
        session.close().await;
        for (prefix, begins) in [(None, "the list of locks: "), (Some("orders"), "orders: ")] {
            let error = find(&session, prefix).await.unwrap_err().to_string();
            assert!(error.starts_with(begins), "{error}");
        }
    }

    /// Curator's layout does not say how many permits there are: those count that nobody waits for.
    #[tokio::test]
    async fn who_waits_for_several_permits_holds_none_and_is_one_waiter() {
        let store = Embedded::new();
        let open = || Session::embedded_builder(&store).open().unwrap();
        let (session, other) = (open(), open());
        let held = session.semaphore("a", 5).unwrap().acquire_many(3).await.unwrap();
        // The one who waits has a permit, too, which it has had before.
        let own = other.semaphore("a", 5).unwrap().acquire().await.unwrap();
        let wanted = other.semaphore("a", 5).unwrap();
        let waiting = tokio::spawn(async move { wanted.acquire_many(3).await });
        let leases = async || {
            let site = &session.sites("a").await.unwrap()[0];
            site.contenders().await.unwrap()
        };
        while leases().await.len() < 7 {
            tokio::task::yield_now().await;
        }
        let locks = find(&session, None).await.unwrap().locks;
        assert_eq!((locks[0].holders.len(), locks[0].waiters.len()), (4, 1), "{locks:?}");
        drop((held, own));
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }

    #[test]
    fn an_identifier_has_no_number() {
        assert_eq!(number("_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000012"), Some(12));
        assert_eq!(number("be2ee212c5074b18a733811234567890"), None);
    }
}
