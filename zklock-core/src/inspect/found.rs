//! Which locks there are, and in which layouts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::cooldown::mark::Mark;
use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::inspect::contenders::BATCH;
use crate::inspect::permits::{AT_ONCE, awaited, made, or_nothing};
use crate::inspect::site::Site;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::layout::kazoo::Kazoo;
use crate::layout::kinds::{is_identifier_of_kazoo, is_permit_of_curator};
use crate::layout::permits::{KAZOO_INNER, KazooPermits, Permits};
use crate::layout::plain::OneNode;
use crate::layout::shipped::queues;
use crate::name::lock_name::IntoLockName;
use crate::name::path::ZnodePath;
use crate::session::generation::Generation;
use crate::session::handle::Session;

/// The locks in use, as far as they can be listed. Returned by [`Session::lock_names`].
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::LockNames;
///
/// let _order = session.mutex("orders/7")?.acquire().await?;
/// let LockNames { names, unread, .. } = session.lock_names(None).await?;
/// assert!(names == ["orders/7"] && unread.is_empty());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockNames {
    /// The names, sorted.
    pub names: Vec<String>,
    /// The paths of the directories that the session may not read, sorted: what is in them is not known.
    pub unread: Vec<String>,
}

/// The path of the semaphore of Curator's layout of which this directory is the inside, as its children say.
/// Other programs have directories of these names as well. Of a semaphore, each may be there without the other:
/// an empty one is removed.
fn semaphore_around<'p>(path: &'p str, children: &[String]) -> Option<&'p str> {
    let has = |is: fn(&str) -> bool| children.iter().any(|child| is(child));
    let permits = path.strip_suffix("/leases").filter(|_| has(is_permit_of_curator));
    let waiting =
        path.strip_suffix("/locks").filter(|_| has(|child| Curator.parse(child).is_some()));
    permits.or(waiting)
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
    /// How many of the last permits are those that their session still waits for.
    waiting: usize,
    /// How many permits kazoo's semaphore has, if there are permits of one.
    kazoo_limit: Option<u32>,
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
            waiting: 0,
            kazoo_limit: None,
        };
        let permits = Permits::new(Arc::default()).queue(&seen.leases);
        let (leases, locks) = ((leases.as_str(), &*permits), (locks.as_str(), &*seen.locks));
        seen.waiting = awaited(coordinator, leases, locks).await?;
        seen.kazoo_limit = seen.read_kazoo_limit(coordinator, directory.as_str()).await?;
        Ok(seen)
    }

    async fn read_kazoo_limit(
        &self,
        coordinator: &dyn Coordinator,
        directory: &str,
    ) -> Result<Option<u32>, RequestError> {
        if !self.children.iter().any(|child| is_identifier_of_kazoo(child)) {
            return Ok(None);
        }
        let said = std::str::from_utf8(&self.data).ok().and_then(|text| text.trim().parse().ok());
        if said.is_some() {
            return Ok(said);
        }
        // Kazoo takes permits whatever the data are, and makes a node only where there is room: all of them are
        // held.
        let may_be = may_be_permits(coordinator, directory, &self.children);
        Ok(is_any_ephemeral(may_be).await?.then(|| saturated(self.children.len())))
    }
}

fn saturated(count: usize) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
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
    /// Nothing in ZooKeeper says how many permits a semaphore in Curator's layout has. Those that have
    /// a node count as held, except the last ones while their owner waits for them.
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
        let mark = Mark::read(&seen.data).unwrap_or_default();
        let here = |driver| Site { mark, ..at(plain.directory.clone(), driver) };
        let mut found: Vec<(usize, Site)> = Vec::new();
        let mut unread: Vec<_> = seen.children.iter().collect();
        for driver in queues(self.driver()) {
            let before = unread.len();
            unread.retain(|child| driver.parse(child).is_none());
            if unread.len() < before {
                found.push((before - unread.len(), here(driver.clone())));
            }
        }
        if seen.one {
            found.push((1, here(Arc::new(OneNode))));
        }
        found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let inner = |site: Site| Site { inner: true, ..site };
        // Beside the permits of a semaphore; otherwise `locks` may be the directory of other locks.
        let waiting = Curator.queue(&seen.locks).len();
        if !seen.leases.is_empty() || waiting > 0 {
            let held = seen.leases.len() - seen.waiting;
            let limit = Arc::new(AtomicU32::new(saturated(held)));
            let directory = plain.directory.join("leases");
            found.push((seen.leases.len(), at(directory, Arc::new(Permits::new(limit)))));
            let locks = at(plain.directory.join("locks"), Arc::new(Curator));
            found.push((waiting, inner(locks)));
        }
        if let Some(limit) = seen.kazoo_limit {
            let driver = KazooPermits::new(Arc::new(AtomicU32::new(limit)), None);
            found.push((seen.children.len(), here(Arc::new(driver))));
        }
        // Also without a permit: kazoo counts whatever else is in the directory as one.
        let waiting = Kazoo::default().queue(&seen.beside).len();
        let locks = at(plain.directory.beside(KAZOO_INNER), Arc::new(Kazoo::default()));
        found.push((waiting, inner(locks)));
        found.retain(|(count, _)| *count > 0);
        let found: Vec<_> = found.into_iter().map(|(_, site)| site).collect();
        Ok(if found.is_empty() { vec![Site { mark, ..plain }] } else { found })
    }

    /// Returns the names of the locks below the session's root that are in use, in any layout: those that
    /// somebody holds or waits for. With a `prefix`, such as `orders`, only that lock and those below it.
    ///
    /// What this session may not read is [told apart](LockNames::unread). A path that is not a
    /// [`LockName`](crate::name::lock_name::LockName) is returned all the same. The empty one is a lock at
    /// the root itself. One with a segment `locks` or `leases` before the last is a lock of sessions with
    /// another root, of which that segment is a part. A mutex at a path that ends with `locks` looks like the inside of a
    /// semaphore that nobody holds, and is reported as one.
    ///
    /// Costs about one request for each node that is not a contender.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let _order = session.mutex("orders/7")?.acquire().await?;
    /// let _permit = session.semaphore("printers", 3)?.acquire().await?;
    /// assert_eq!(session.lock_names(None).await?.names, ["orders/7", "printers"]);
    /// assert_eq!(session.lock_names(Some("orders")).await?.names, ["orders/7"]);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`contenders`](Site::contenders), whose time limit applies to each hundred directories here.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the call only reads.
    pub async fn lock_names(&self, prefix: Option<&str>) -> Result<LockNames, LockError> {
        let top = match prefix {
            Some(prefix) => self.site(prefix)?,
            None => self.site("all")?,
        };
        let directory = prefix.map_or_else(|| self.root().clone(), |_| top.directory.clone());
        let (mut names, mut unread) = (BTreeSet::new(), BTreeSet::new());
        let mut next = vec![directory.as_str().to_owned()];
        // Each batch has the whole time, however many there are.
        while !next.is_empty() {
            let paths = next.split_off(next.len().saturating_sub(BATCH));
            let look = async |generation: Arc<Generation>| {
                walk(&**generation.coordinator(), self.driver(), &paths, directory.as_str()).await
            };
            let walked = top.look(look).await?;
            names.extend(walked.found);
            unread.extend(walked.unread);
            next.extend(walked.next);
        }
        let root = if self.root().as_str() == "/" { "" } else { self.root().as_str() };
        let names = names.iter().filter_map(|path| {
            let below = path.strip_prefix(root)?;
            if below.is_empty() { Some("") } else { below.strip_prefix('/') }
        });
        let names = names.map(str::to_owned).collect();
        Ok(LockNames { names, unread: unread.into_iter().collect() })
    }
}

/// What there is at some paths.
#[derive(Default)]
struct Walked {
    /// Those of locks in use.
    found: Vec<String>,
    /// Those below.
    next: Vec<String>,
    /// Those that may not be read.
    unread: Vec<String>,
}

/// Reads the first of those children that may be permits of kazoo's semaphore. The directory of a lock may have
/// such a name, but hardly one among permits.
fn may_be_permits(
    coordinator: &dyn Coordinator,
    path: &str,
    children: &[String],
) -> Vec<Reply<(Vec<u8>, Stat)>> {
    let may_be = children.iter().filter(|child| is_identifier_of_kazoo(child)).take(AT_ONCE);
    may_be.map(|child| coordinator.get(&format!("{path}/{child}"))).collect()
}

/// Whether one of these nodes is ephemeral, as that of a contender is.
async fn is_any_ephemeral(read: Vec<Reply<(Vec<u8>, Stat)>>) -> Result<bool, RequestError> {
    for one in read {
        match made(one.await) {
            // It is among those below as well, and so it is told.
            Err(RequestError::NoAuth) => {}
            one => {
                if one?.0 != 0 {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Which of these paths are locks in use, and what is below them. `top` is where the walk begins.
async fn walk(
    coordinator: &dyn Coordinator,
    of_session: &Arc<dyn LockDriver>,
    paths: &[String],
    top: &str,
) -> Result<Walked, RequestError> {
    let (mut walked, mut perhaps) = (Walked::default(), Vec::new());
    let asked: Vec<_> = paths.iter().map(|path| coordinator.children(path)).collect();
    for (path, asked) in paths.iter().zip(asked) {
        let children = match asked.await {
            Err(RequestError::NoNode) => continue,
            Err(RequestError::NoAuth) => {
                walked.unread.push(path.clone());
                continue;
            }
            children => children?,
        };
        let is_node = |child: &str| queues(of_session).any(|driver| driver.parse(child).is_some());
        // The root may be called as the inside of a semaphore is.
        let around = semaphore_around(path, &children).filter(|_| path != top);
        let is_permit = |child: &str| around.is_some() && is_permit_of_curator(child);
        let below = children.iter().filter(|child| !is_node(child) && !is_permit(child));
        let above = if path == "/" { "" } else { path.as_str() };
        if let Some(semaphore) = around {
            walked.found.push(semaphore.to_owned());
        } else if children.iter().any(|child| is_node(child)) {
            // Of a semaphore of kazoo's, the inner lock is beside it.
            let is_inner = children.iter().any(|child| Kazoo::default().parse(child).is_some());
            let semaphore = path.strip_suffix(KAZOO_INNER).filter(|_| is_inner);
            walked.found.push(semaphore.unwrap_or(path).to_owned());
        } else {
            perhaps.push((path, may_be_permits(coordinator, above, &children)));
        }
        walked.next.extend(below.map(|child| format!("{above}/{child}")));
        if children.iter().any(|child| child == "lock") {
            perhaps.push((path, vec![coordinator.get(&format!("{above}/lock"))]));
        }
    }
    for (path, read) in perhaps {
        if is_any_ephemeral(read).await? {
            walked.found.push(path.clone());
        }
    }
    Ok(walked)
}
