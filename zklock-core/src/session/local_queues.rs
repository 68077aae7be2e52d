//! The shelf: what a session has in use, one resident for each lock, found by a key.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::layout::driver::LockDriver;

/// A lock that this process holds or waits for.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let _guard = session.mutex("orders")?.acquire().await?;
/// let held = &session.held()[0];
/// assert!(held.granted && &*held.lock == "orders");
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// The lock's name.
    pub lock: Arc<str>,
    /// False for somebody who waits for it.
    pub granted: bool,
    /// Since how long: somebody who waits since the call, a holder since the grant. After a handoff
    /// that is the present holder's, and not that of the node.
    pub since: Duration,
    /// The task or thread, as the runtime or the system numbers it.
    pub who: String,
    /// What the caller said of itself, where the lock was made.
    pub label: Option<Arc<str>>,
}

impl Held {
    /// Describes a holder or a waiter.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use zklock::Held;
    ///
    /// let who = ("task 7".to_owned(), None);
    /// let held = Held::new(Arc::from("orders"), true, Duration::from_secs(3), who);
    /// assert_eq!(held.who, "task 7");
    /// ```
    pub fn new(
        lock: Arc<str>,
        granted: bool,
        since: Duration,
        (who, label): (String, Option<Arc<str>>),
    ) -> Self {
        Held { lock, granted, since, who, label }
    }
}

/// What the session keeps for a lock that is in use.
pub trait Resident: Any + Send + Sync + fmt::Debug {
    /// How its nodes are laid out.
    fn driver(&self) -> &Arc<dyn LockDriver>;

    /// Who holds and who waits.
    fn held(&self) -> Vec<Held>;

    /// Fails everybody who waits: nothing is granted any more.
    fn close(self: Arc<Self>);

    /// Leases were lost, perhaps the one of this lock.
    fn leases_lost(self: Arc<Self>);
}

/// Where the locks of a session are, as far as this process can tell: of two sessions with equal
/// places, equal paths are the same lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The servers, as the program named them.
    pub servers: Arc<str>,
    /// What stands before every path.
    pub chroot: Arc<str>,
}

impl Place {
    /// What every process says that was given the same servers, in whatever order and spelling.
    pub fn common(&self) -> String {
        let server = |server: &str| {
            let server = server.trim().to_ascii_lowercase();
            // An IPv6 address has colons of its own, inside its brackets.
            let has_port = server.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
            if has_port { server } else { format!("{server}:2181") }
        };
        let mut servers: Vec<_> = self.servers.split(',').map(server).collect();
        servers.sort();
        servers.dedup();
        servers.join(",")
    }
}

/// The shelves of all sessions of this process, and how many live.
static ALL: Mutex<Vec<Weak<Shelf>>> = Mutex::new(Vec::new());
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The resident as what it is.
pub fn of_type<R: Resident>(resident: &Arc<dyn Resident>) -> Option<Arc<R>> {
    (resident.clone() as Arc<dyn Any + Send + Sync>).downcast::<R>().ok()
}

/// What stands in the key of a resident that is for a single acquire, between the path and a number.
/// No path contains it, and nothing but a NUL sorts before it.
pub const SINGLE: char = '\u{1}';

/// The residents of a session. They live as long as somebody uses them.
#[derive(Debug)]
pub struct Shelf {
    place: Place,
    residents: Mutex<BTreeMap<Arc<str>, Weak<dyn Resident>>>,
    left: Notify,
}

impl Shelf {
    /// An empty shelf of a session, which the others of this process can find.
    pub fn new(place: Place) -> Arc<Self> {
        let shelf = Arc::new(Shelf { place, residents: Mutex::default(), left: Notify::new() });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&shelf));
        LIVE.fetch_add(1, Ordering::AcqRel);
        shelf
    }

    /// Where the locks are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What other sessions of this process at the same place have in use under a path.
    pub fn elsewhere(&self, path: &str) -> Vec<Arc<dyn Resident>> {
        if LIVE.load(Ordering::Acquire) < 2 {
            return Vec::new();
        }
        let others: Vec<_> = {
            let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
            let there = all.iter().filter_map(Weak::upgrade);
            there
                .filter(|other| !std::ptr::eq(&**other, self) && self.is_at_the_servers_of(other))
                .collect()
        };
        let path = [&self.place.chroot, path].concat();
        let below =
            |other: &Arc<Shelf>| Some(other.under(path.strip_prefix(&*other.place.chroot)?));
        others.iter().filter_map(below).flatten().collect()
    }

    fn is_at_the_servers_of(&self, other: &Shelf) -> bool {
        self.place.servers == other.place.servers
    }

    /// What is in use under a path: the resident with this key, and those whose keys go on behind a
    /// NUL, which no path contains. They are few, whatever the number of acquires.
    pub fn under(&self, path: &str) -> Vec<Arc<dyn Resident>> {
        // These keys are next to each other: nothing sorts before a NUL.
        self.range(path, |rest| rest.is_empty() || rest.starts_with('\0'))
    }

    /// The same, with those of single acquires, whose keys go on behind [`SINGLE`].
    pub fn all_under(&self, path: &str) -> Vec<Arc<dyn Resident>> {
        self.range(path, |rest| rest.is_empty() || rest.starts_with(['\0', SINGLE]))
    }

    fn range(&self, path: &str, of_path: impl Fn(&str) -> bool) -> Vec<Arc<dyn Resident>> {
        let residents = self.lock();
        let from = residents.range::<str, _>((Bound::Included(path), Bound::Unbounded));
        let under = from.take_while(|(key, _)| key.strip_prefix(path).is_some_and(&of_path));
        under.filter_map(|(_, resident)| resident.upgrade()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Weak<dyn Resident>>> {
        self.residents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The resident under a key, made if there is none.
    ///
    /// # Errors
    ///
    /// The resident that is there, if it is of another type.
    pub fn resident<R: Resident>(
        &self,
        key: &str,
        make: impl FnOnce(Arc<str>) -> Arc<R>,
    ) -> Result<Arc<R>, Arc<dyn Resident>> {
        self.resident_if(key, |_| true, make)
    }

    /// The same, if it will do; another takes its place if not.
    ///
    /// # Errors
    ///
    /// As [`resident`](Shelf::resident).
    pub fn resident_if<R: Resident>(
        &self,
        key: &str,
        will_do: impl FnOnce(&R) -> bool,
        make: impl FnOnce(Arc<str>) -> Arc<R>,
    ) -> Result<Arc<R>, Arc<dyn Resident>> {
        let mut residents = self.lock();
        let found = residents.get(key).and_then(Weak::upgrade);
        if let Some(other) = &found {
            match of_type::<R>(other) {
                None => return Err(other.clone()),
                Some(same) if will_do(&same) => return Ok(same),
                Some(_) => {}
            }
        }
        let key: Arc<str> = Arc::from(key);
        let made = make(key.clone());
        let weak: Weak<R> = Arc::downgrade(&made);
        residents.insert(key, weak);
        drop(residents);
        // It may be the last of its kind, and looks itself up when it goes.
        drop(found);
        Ok(made)
    }

    /// Forgets the resident under a key if it is gone; a resident calls it when it goes.
    pub fn forget(&self, key: &str) {
        let mut residents = self.lock();
        if residents.get(key).is_some_and(|resident| resident.strong_count() == 0) {
            residents.remove(key);
        }
    }

    /// Notes that somebody let go of something.
    pub fn left(&self) {
        self.left.notify_waiters();
    }

    fn all(&self) -> Vec<Arc<dyn Resident>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Everything that is held or waited for.
    pub fn held(&self) -> Vec<Held> {
        let mut held: Vec<_> = self.all().iter().flat_map(|resident| resident.held()).collect();
        held.sort_by_key(|held| Reverse(held.since));
        held
    }

    /// Fails everybody who waits.
    pub fn close(&self) {
        for resident in self.all() {
            resident.close();
        }
    }

    /// Tells everybody that leases were lost.
    pub fn leases_lost(&self) {
        for resident in self.all() {
            resident.leases_lost();
        }
    }

    /// Waits until nothing is held.
    pub async fn until_empty(&self) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if self.held().is_empty() {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::curator::Curator;

    #[derive(Debug)]
    struct Fake(Arc<dyn LockDriver>);

    impl Resident for Fake {
        fn driver(&self) -> &Arc<dyn LockDriver> {
            &self.0
        }
        fn held(&self) -> Vec<Held> {
            Vec::new()
        }
        fn close(self: Arc<Self>) {}
        fn leases_lost(self: Arc<Self>) {}
    }

    fn shelf(servers: &str, chroot: &str) -> Arc<Shelf> {
        Shelf::new(Place { servers: servers.into(), chroot: chroot.into() })
    }

    #[test]
    fn those_of_single_acquires_are_not_looked_at_by_the_others() {
        let shelf = shelf("zk:1", "");
        let make = |_| Arc::new(Fake(Arc::new(Curator)));
        let keys = ["/a", "/a\0options", "/a\u{1}7", "/a\u{1}8", "/a!", "/a/b", "/a0"];
        let residents = keys.map(|key| shelf.resident(key, make).unwrap());
        let found = |found: Vec<Arc<dyn Resident>>| {
            let found = found.iter().map(|found| of_type::<Fake>(found).unwrap());
            found
                .map(|found| residents.iter().position(|r| Arc::ptr_eq(r, &found)).unwrap())
                .collect()
        };
        let under: Vec<usize> = found(shelf.under("/a"));
        assert_eq!(under, [0, 1]);
        let all: Vec<usize> = found(shelf.all_under("/a"));
        assert_eq!(all, [0, 1, 2, 3]);
    }

    #[test]
    fn servers_have_one_name_in_whatever_order_and_spelling() {
        let common = |servers: &str| shelf(servers, "").place().common();
        assert_eq!(common("zk2,ZK1:2181"), common("zk1:2181,zk2:2181"));
        assert_eq!(common("[::1],zk1"), common("zk1,[::1]:2181"));
        assert_ne!(common("zk1:2182"), common("zk1"));
        assert_eq!(common("zk1,zk1:2181"), "zk1:2181");
    }

    #[test]
    fn other_sessions_at_the_same_servers_are_found_whatever_their_chroots() {
        let (plain, below) = (shelf("zk:1", ""), shelf("zk:1", "/prod"));
        let [far, twin] = [shelf("zk:2", ""), shelf("zk:1", "")];
        let make = |_| Arc::new(Fake(Arc::new(Curator)));
        let held = plain.resident("/prod/zklock/a", make).unwrap();
        assert_eq!(below.elsewhere("/zklock/a").len(), 1);
        assert_eq!(twin.elsewhere("/prod/zklock/a").len(), 1);
        assert!(below.elsewhere("/prod/zklock/a").is_empty());
        assert!(twin.elsewhere("/zklock/a").is_empty());
        assert!(far.elsewhere("/prod/zklock/a").is_empty());
        assert!(plain.elsewhere("/prod/zklock/a").is_empty(), "that is its own");
        let own = below.resident("/zklock/a", make).unwrap();
        assert_eq!(plain.elsewhere("/prod/zklock/a").len(), 1);
        drop((held, own));
        assert!(twin.elsewhere("/prod/zklock/a").is_empty());
    }
}
