//! Which locks there are, and in which layouts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

#[cfg(doc)]
use crate::base::error::ErrorKind;
use crate::base::error::LockError;
use crate::coordinator::traits::{Coordinator, RequestError, Stat};
use crate::inspect::site::Site;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::layout::kazoo::Kazoo;
use crate::layout::permits::{KazooPermits, Permits};
use crate::layout::plain::{HostNodes, Numbered, OneNode, ReadWriteNodes};
use crate::name::lock_name::IntoLockName;
use crate::name::path::ZnodePath;
use crate::session::generation::Generation;
use crate::session::handle::Session;

/// The number of directories that are read at the same time.
const BATCH: usize = 100;

/// What follows the name of kazoo's semaphore in the name of its inner lock.
const KAZOO_INNER: &str = "-__lock__";

/// The layouts of queues, the session's first. A node is of the first that can read its name.
fn layouts(session: &Session) -> Vec<Arc<dyn LockDriver>> {
    vec![
        session.driver().clone(),
        Arc::new(Curator),
        Arc::new(Kazoo::default()),
        Arc::new(Numbered::dlock()),
        Arc::new(ReadWriteNodes),
        Arc::new(HostNodes::here()),
    ]
}

fn is_permit_of_kazoo(child: &str) -> bool {
    child.len() == 32 && child.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What is below the path of a lock.
struct Seen {
    children: Vec<String>,
    data: Vec<u8>,
    leases: Vec<String>,
    locks: Vec<String>,
    /// The inner lock of kazoo's semaphore.
    beside: Vec<String>,
    /// Whether there is the one node of [`OneNode`].
    one: bool,
    /// Whether the last permit is one that its session still waits for.
    last_waits: bool,
}

fn or_nothing<T: Default>(read: Result<T, RequestError>) -> Result<T, RequestError> {
    match read {
        Err(RequestError::NoNode) => Ok(T::default()),
        read => read,
    }
}

/// In which session a node was made, and when.
fn made(read: Result<(Vec<u8>, Stat), RequestError>) -> Result<(i64, i64), RequestError> {
    or_nothing(read.map(|(_, stat)| (stat.owner, stat.czxid)))
}

impl Seen {
    async fn at(
        coordinator: &dyn Coordinator,
        directory: &ZnodePath,
    ) -> Result<Self, RequestError> {
        let [leases, locks] = ["leases", "locks"].map(|inside| directory.join(inside));
        let beside = directory.beside(KAZOO_INNER);
        let children = coordinator.children(directory.as_str());
        let data = coordinator.get(directory.as_str());
        let inside = [&leases, &locks, &beside].map(|path| coordinator.children(path.as_str()));
        let one = coordinator.get(directory.join("lock").as_str());
        let (children, data) = (or_nothing(children.await)?, data.await.map(|(data, _)| data));
        let [permits, waiting, inner] = inside;
        let mut seen = Seen {
            children,
            data: or_nothing(data)?,
            leases: or_nothing(permits.await)?,
            locks: or_nothing(waiting.await)?,
            beside: or_nothing(inner.await)?,
            one: made(one.await)?.0 != 0,
            last_waits: false,
        };
        let driver = Permits::new(Arc::default());
        if let (Some(last), Some(first)) =
            (driver.queue(&seen.leases).last(), Curator.queue(&seen.locks).first())
        {
            let last = coordinator.get(leases.join(&last.name).as_str());
            let first = coordinator.get(locks.join(&first.name).as_str());
            let (last, first) = (made(last.await)?, made(first.await)?);
            // A waiter has made its permit's node after the other. A session may hold another permit.
            seen.last_waits = last.0 == first.0 && last.1 > first.1;
        }
        Ok(seen)
    }

    /// The limit of kazoo's semaphore, if there are permits of one.
    fn kazoo_limit(&self) -> Option<u32> {
        if !self.children.iter().any(|child| is_permit_of_kazoo(child)) {
            return None;
        }
        std::str::from_utf8(&self.data).ok()?.trim().parse().ok()
    }
}

impl Session {
    /// Returns the queues of a lock in the layouts that its nodes have, which need not be the
    /// session's: the one with the most nodes first. If there are none, the queue in the session's
    /// layout.
    ///
    /// More than one queue of a lock means that its users do not exclude each other, except for a
    /// semaphore: it has one queue of its permits, and [another](Site::is_inner) of those that wait
    /// for one.
    ///
    /// Nothing in ZooKeeper says how many permits a semaphore of Curator's has. Those that are there
    /// count as held, but for the last one while its owner waits.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Kazoo;
    ///
    /// let _guard = session.mutex("jobs")?.with_driver(Kazoo::default()).acquire().await?;
    /// let sites = session.sites("jobs").await?;
    /// assert_eq!((sites.len(), sites[0].layout()), (1, "kazoo".to_owned()));
    /// assert_eq!(sites[0].contenders().await?.len(), 1);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], and those of [`contenders`](Site::contenders).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the call only reads.
    pub async fn sites(&self, name: impl IntoLockName) -> Result<Vec<Site>, LockError> {
        let plain = self.site(name)?;
        let seen = plain
            .look(async |generation| Seen::at(&**generation.coordinator(), &plain.directory).await);
        let seen = seen.await?;
        let at = |directory: ZnodePath, driver: Arc<dyn LockDriver>| {
            Site::at(self, plain.name.clone(), directory, driver)
        };
        let here = |driver| at(plain.directory.clone(), driver);
        let mut found: Vec<(usize, Site)> = Vec::new();
        let mut unread: Vec<_> = seen.children.iter().collect();
        for driver in layouts(self) {
            let before = unread.len();
            unread.retain(|child| driver.parse(child).is_none());
            if unread.len() < before {
                found.push((before - unread.len(), here(driver)));
            }
        }
        if seen.one {
            found.push((1, here(Arc::new(OneNode))));
        }
        found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let inner = |site: Site| Site { inner: true, ..site };
        if !seen.leases.is_empty() || !seen.locks.is_empty() {
            let held = seen.leases.len() - usize::from(seen.last_waits);
            let limit = Arc::new(AtomicU32::new(held.try_into().unwrap_or(u32::MAX)));
            let directory = plain.directory.join("leases");
            found.push((seen.leases.len(), at(directory, Arc::new(Permits::new(limit)))));
            let locks = at(plain.directory.join("locks"), Arc::new(Curator));
            found.push((seen.locks.len(), inner(locks)));
        }
        if let Some(limit) = seen.kazoo_limit() {
            let driver = KazooPermits::new(Arc::new(AtomicU32::new(limit)), None);
            found.push((seen.children.len(), here(Arc::new(driver))));
            let directory = plain.directory.beside(KAZOO_INNER);
            let locks = at(directory, Arc::new(Kazoo::default()));
            found.push((seen.beside.len(), inner(locks)));
        }
        found.retain(|(count, _)| *count > 0);
        let found: Vec<_> = found.into_iter().map(|(_, site)| site).collect();
        Ok(if found.is_empty() { vec![plain] } else { found })
    }

    /// Returns the names of the locks below the session's root that are in use, in any layout,
    /// sorted: those that somebody holds or waits for. With a `prefix`, such as `orders`, only that lock
    /// and those below it.
    ///
    /// Costs about one request for each node that is no contender.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let _order = session.mutex("orders/7")?.acquire().await?;
    /// let _permit = session.semaphore("printers", 3)?.acquire().await?;
    /// assert_eq!(session.lock_names(None).await?, ["orders/7", "printers"]);
    /// assert_eq!(session.lock_names(Some("orders")).await?, ["orders/7"]);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`contenders`](Site::contenders), which has so long for a hundred directories here.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the call only reads.
    pub async fn lock_names(&self, prefix: Option<&str>) -> Result<Vec<String>, LockError> {
        let top = match prefix {
            Some(prefix) => self.site(prefix)?,
            None => self.site("all")?,
        };
        let directory = prefix.map_or_else(|| self.root().clone(), |_| top.directory.clone());
        let drivers = layouts(self);
        let (mut names, mut next) = (BTreeSet::new(), vec![directory.as_str().to_owned()]);
        // Each batch has the whole time, however many there are.
        while !next.is_empty() {
            let paths = next.split_off(next.len().saturating_sub(BATCH));
            let look = async |generation: Arc<Generation>| {
                walk(&**generation.coordinator(), &drivers, &paths).await
            };
            let (found, below) = top.look(look).await?;
            names.extend(found);
            next.extend(below);
        }
        let root = if self.root().as_str() == "/" { "" } else { self.root().as_str() };
        let names = names.iter().filter_map(|path| path.strip_prefix(root)?.strip_prefix('/'));
        Ok(names.map(str::to_owned).collect())
    }
}

/// Which of these paths are locks in use, and what is below them.
async fn walk(
    coordinator: &dyn Coordinator,
    drivers: &[Arc<dyn LockDriver>],
    paths: &[String],
) -> Result<(Vec<String>, Vec<String>), RequestError> {
    let (mut found, mut next) = (Vec::new(), Vec::new());
    let asked: Vec<_> = paths.iter().map(|path| coordinator.children(path)).collect();
    for (path, asked) in paths.iter().zip(asked) {
        let children = match asked.await {
            // What this session may not see is left out.
            Err(RequestError::NoNode | RequestError::NoAuth) => continue,
            children => children?,
        };
        let is_node = |child: &str| drivers.iter().any(|driver| driver.parse(child).is_some());
        let above = path.strip_suffix("/leases").or_else(|| path.strip_suffix("/locks"));
        if let Some(above) = above.filter(|_| !children.is_empty()) {
            found.push(above.to_owned());
            continue;
        }
        if children.iter().any(|child| is_node(child) || is_permit_of_kazoo(child)) {
            found.push(path.trim_end_matches(KAZOO_INNER).to_owned());
        }
        let below = children.iter().filter(|child| !is_node(child));
        let above = if path == "/" { "" } else { path.as_str() };
        next.extend(below.map(|child| format!("{above}/{child}")));
        let one = children.iter().any(|child| child == "lock");
        if one && made(coordinator.get(&format!("{above}/lock")).await)?.0 != 0 {
            found.push(path.clone());
        }
    }
    Ok((found, next))
}
