//! The local queues of a session: one for each lock that it has in use, found by a key.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::base::clock::Instant;
use crate::base::mode::Mode;
use crate::base::pattern::Pattern;
use crate::base::token::FencingToken;
use crate::base::unharmed::{tell_all, unharmed};
use crate::base::until::until;
use crate::layout::driver::LockDriver;

/// A caller of this process that holds a lock or waits for it. Returned by
/// [`Session::local_contenders`](crate::session::Session::local_contenders).
///
/// Not a node in the lock's queue in ZooKeeper, which is a [`ContenderInfo`](crate::inspect::ContenderInfo):
/// the callers of one process often share a node.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let _guard = session.mutex("orders")?.acquire().await?;
/// let contender = &session.local_contenders()[0];
/// assert!(contender.holds && &*contender.lock == "orders");
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalContender {
    /// The lock's name.
    pub lock: Arc<str>,
    /// Whether it holds the lock; false for a waiter.
    pub holds: bool,
    /// How long it has waited, from its call on, or has held the lock, from its own grant on, also if
    /// the node is older.
    pub elapsed: Duration,
    /// The caller: the task or thread, as the runtime or the system numbers it.
    pub caller: String,
    /// The label that was given to the lock, if any.
    pub label: Option<Arc<str>>,
}

/// The present holder of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Its fencing token, which no other grant of this node has.
    pub token: FencingToken,
    /// The time of its grant.
    pub since: Instant,
    /// Its label.
    pub label: Option<Arc<str>>,
}

/// The present holders of nodes, by path.
pub type Holdings = HashMap<Arc<str>, Holding>;

/// The queue of one lock in use.
pub trait LocalQueue: Any + Send + Sync + fmt::Debug {
    /// The layout of the lock's nodes.
    fn driver(&self) -> &Arc<dyn LockDriver>;

    /// The holders and the waiters.
    fn contenders(&self) -> Vec<LocalContender>;

    /// Whether there is a holder or a waiter.
    fn is_in_use(&self) -> bool;

    /// Passes on the pattern and the mode of each holder and waiter, and whether it holds.
    fn tally(&self, each: &mut dyn FnMut(Pattern, Mode, bool));

    /// Passes on the path of each node that is held, with each of its holders.
    fn holdings(&self, each: &mut dyn FnMut(&Arc<str>, Holding));

    /// Fails all waiters: no lock is granted any more.
    fn close(self: Arc<Self>);

    /// Tells the queue that leases were lost, perhaps its own.
    fn leases_lost(self: Arc<Self>);

    /// Whether it is one of permits.
    fn is_semaphore(&self) -> bool;

    /// Somebody who holds or waits, if there is anybody, and in which way.
    fn user(&self) -> Option<(Mode, LocalContender)>;

    /// Whether this process has, or had, the same name as a lock of another kind.
    fn is_beside_another(&self) -> &AtomicBool;
}

/// The servers and the chroot of a session, as this process knows them: for two sessions with equal
/// places, equal paths are the same lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The servers, as the program named them.
    pub servers: Arc<str>,
    /// The chroot.
    pub chroot: Arc<str>,
}

impl Place {
    /// A normal form, which is the same in every process that was given the same servers, in any
    /// order and spelling.
    pub fn common(&self) -> String {
        let server = |server: &str| {
            let server = server.trim().to_ascii_lowercase();
            // An IPv6 address contains colons, inside its brackets.
            let has_port = server.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
            if has_port { server } else { format!("{server}:2181") }
        };
        let mut servers: Vec<_> = self.servers.split(',').map(server).collect();
        servers.sort();
        servers.dedup();
        servers.join(",")
    }
}

/// The local queues of all sessions of this process, and the number of sessions that are alive.
static ALL: Mutex<Vec<Weak<LocalQueues>>> = Mutex::new(Vec::new());
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The queue as its concrete type.
pub fn of_type<R: LocalQueue>(local_queue: &Arc<dyn LocalQueue>) -> Option<Arc<R>> {
    (local_queue.clone() as Arc<dyn Any + Send + Sync>).downcast::<R>().ok()
}

/// Separates the path from a number, in the key of a queue that serves a single acquire. No path
/// contains this character, and only NUL sorts before it.
pub const SINGLE: char = '\u{1}';

/// The local queues of a session. A queue lives as long as it is in use.
#[derive(Debug)]
pub struct LocalQueues {
    place: Place,
    queues: Mutex<BTreeMap<Arc<str>, Weak<dyn LocalQueue>>>,
    /// The ZooKeeper sessions that are open.
    opened: Mutex<Vec<Weak<i64>>>,
    left: Notify,
}

impl LocalQueues {
    /// No queues yet. The other sessions of this process can find them.
    pub fn new(place: Place) -> Arc<Self> {
        let (queues, opened, left) = (Mutex::default(), Mutex::default(), Notify::new());
        let local_queues = Arc::new(LocalQueues { place, queues, opened, left });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&local_queues));
        LIVE.fetch_add(1, Ordering::AcqRel);
        local_queues
    }

    /// The servers and the chroot.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The queues for a path in other sessions of this process at the same place, as [`under`](Self::under)
    /// finds them.
    pub fn elsewhere(&self, path: &str) -> Vec<Arc<dyn LocalQueue>> {
        self.in_others(path, LocalQueues::under)
    }

    /// The same, and also those of single acquires, as [`all_under`](Self::all_under) finds them.
    pub fn all_elsewhere(&self, path: &str) -> Vec<Arc<dyn LocalQueue>> {
        self.in_others(path, LocalQueues::all_under)
    }

    fn in_others(
        &self,
        path: &str,
        find: impl Fn(&LocalQueues, &str) -> Vec<Arc<dyn LocalQueue>>,
    ) -> Vec<Arc<dyn LocalQueue>> {
        if LIVE.load(Ordering::Acquire) < 2 {
            return Vec::new();
        }
        let mut others = self.of_this_process();
        others.retain(|other| !std::ptr::eq(&**other, self));
        let path = [&self.place.chroot, path].concat();
        let below =
            |other: &Arc<LocalQueues>| Some(find(other, path.strip_prefix(&*other.place.chroot)?));
        others.iter().filter_map(below).flatten().collect()
    }

    /// Those of all sessions of this process at the same servers.
    fn of_this_process(&self) -> Vec<Arc<LocalQueues>> {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let there = all.iter().filter_map(Weak::upgrade);
        there.filter(|other| self.place.servers == other.place.servers).collect()
    }

    /// Notes a ZooKeeper session that was opened, until the returned value is dropped.
    pub fn opened(&self, session: i64) -> Arc<i64> {
        let session = Arc::new(session);
        let mut opened = self.sessions();
        opened.retain(|other| other.strong_count() > 0);
        opened.push(Arc::downgrade(&session));
        session
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Weak<i64>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session of this process at the same servers has opened this ZooKeeper session.
    pub fn is_of_this_process(&self, session: i64) -> bool {
        let is_it = |other: &Weak<i64>| other.upgrade().is_some_and(|other| *other == session);
        self.of_this_process().iter().any(|other| other.sessions().iter().any(is_it))
    }

    /// The queues in use for a path: the one whose key is the path, and those whose keys continue
    /// after a NUL, which no path contains. There are few, however many acquires there are.
    pub fn under(&self, path: &str) -> Vec<Arc<dyn LocalQueue>> {
        // Nothing sorts before NUL, so these keys are adjacent.
        self.range(path, |rest| rest.is_empty() || rest.starts_with('\0'))
    }

    /// The same, and also the queues of single acquires, whose keys continue after [`SINGLE`].
    pub fn all_under(&self, path: &str) -> Vec<Arc<dyn LocalQueue>> {
        self.range(path, |rest| rest.is_empty() || rest.starts_with(['\0', SINGLE]))
    }

    fn range(&self, path: &str, of_path: impl Fn(&str) -> bool) -> Vec<Arc<dyn LocalQueue>> {
        let queues = self.lock();
        let from = queues.range::<str, _>((Bound::Included(path), Bound::Unbounded));
        let under = from.take_while(|(key, _)| key.strip_prefix(path).is_some_and(&of_path));
        let found: Vec<_> = under.filter_map(|(_, local_queue)| local_queue.upgrade()).collect();
        #[cfg(test)]
        tests::VISITED.set(tests::VISITED.get() + found.len());
        found
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Weak<dyn LocalQueue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue with a key; it is created if there is none.
    ///
    /// # Errors
    ///
    /// The existing queue, if it has another type.
    pub fn local_queue<R: LocalQueue>(
        &self,
        key: impl Into<Arc<str>>,
        make: impl FnOnce(Arc<str>) -> Arc<R>,
    ) -> Result<Arc<R>, Arc<dyn LocalQueue>> {
        self.local_queue_if(key, |_| true, make)
    }

    /// The same, if the existing queue is acceptable to `will_do`; otherwise a new one replaces it.
    ///
    /// # Errors
    ///
    /// As [`local_queue`](LocalQueues::local_queue).
    pub fn local_queue_if<R: LocalQueue>(
        &self,
        key: impl Into<Arc<str>>,
        will_do: impl FnOnce(&Arc<R>) -> bool,
        make: impl FnOnce(Arc<str>) -> Arc<R>,
    ) -> Result<Arc<R>, Arc<dyn LocalQueue>> {
        let key = key.into();
        let mut queues = self.lock();
        let found = queues.get(&key).and_then(Weak::upgrade);
        if let Some(other) = &found {
            match of_type::<R>(other) {
                None => return Err(other.clone()),
                Some(same) if will_do(&same) => return Ok(same),
                Some(_) => {}
            }
        }
        let made = make(key.clone());
        let weak: Weak<R> = Arc::downgrade(&made);
        queues.insert(key, weak);
        drop(queues);
        // This may be the last reference; when the queue is dropped, it looks itself up.
        drop(found);
        Ok(made)
    }

    /// A queue for a single acquire of the lock with this path: nobody else has its key.
    pub fn single_queue<R: LocalQueue>(
        &self,
        path: &str,
        make: impl FnOnce(Arc<str>) -> Arc<R>,
    ) -> Arc<R> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Of one length, so that their order is that of the calls.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let key: Arc<str> = format!("{path}{SINGLE}{number:020}").into();
        // Made under the lock: whoever closes all queues finds it, or it is closed from the beginning.
        let mut queues = self.lock();
        let made = make(key.clone());
        let weak: Weak<R> = Arc::downgrade(&made);
        queues.insert(key, weak);
        made
    }

    /// Removes the queue of a key if it is no longer in use. A queue calls this when it is dropped.
    pub fn forget(&self, key: &str) {
        let mut queues = self.lock();
        if queues.get(key).is_some_and(|local_queue| local_queue.strong_count() == 0) {
            queues.remove(key);
        }
    }

    /// Reports that a holder or waiter has left.
    pub fn left(&self) {
        tell_all(&self.left);
    }

    fn all(&self) -> Vec<Arc<dyn LocalQueue>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// All holders and waiters.
    pub fn contenders(&self) -> Vec<LocalContender> {
        let mut contenders: Vec<_> =
            self.all().iter().flat_map(|local_queue| local_queue.contenders()).collect();
        contenders.sort_by_key(|one| Reverse(one.elapsed));
        contenders
    }

    /// Passes on the pattern and the mode of each holder and waiter, and whether it holds.
    pub fn tally(&self, each: &mut dyn FnMut(Pattern, Mode, bool)) {
        self.all().iter().for_each(|local_queue| local_queue.tally(each));
    }

    /// The present holders of all nodes, by path; of several readers the first.
    pub fn holdings(&self) -> Holdings {
        let mut holdings = Holdings::new();
        for local_queue in self.all() {
            local_queue.holdings(&mut |path, holding| match holdings.get_mut(path) {
                Some(first) if first.since <= holding.since => {}
                Some(first) => *first = holding,
                None => drop(holdings.insert(path.clone(), holding)),
            });
        }
        holdings
    }

    /// Fails all waiters.
    pub fn close(&self) {
        for local_queue in self.all() {
            // It wakes callers, whose wakers are the application's.
            unharmed(|| local_queue.close());
        }
    }

    /// Tells all queues that leases were lost.
    pub fn leases_lost(&self) {
        for local_queue in self.all() {
            unharmed(|| local_queue.leases_lost());
        }
    }

    /// Waits until no lock is held.
    pub async fn until_empty(&self) {
        let is_used = |local_queue: &Weak<dyn LocalQueue>| {
            local_queue.upgrade().is_some_and(|local_queue| local_queue.is_in_use())
        };
        loop {
            let mut used: Vec<_> = self.lock().values().cloned().collect();
            used.retain(is_used);
            if used.is_empty() {
                return;
            }
            // One after the other: each of many holders that leaves leads to a look.
            for local_queue in &used {
                until(&self.left, || !is_used(local_queue)).await;
            }
        }
    }
}

impl Drop for LocalQueues {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_lite::future::{block_on, poll_once};

    use super::*;
    use crate::base::options::LockOptions;
    use crate::layout::curator::Curator;
    use crate::session::handle::Session;

    #[derive(Debug)]
    struct Fake {
        driver: Arc<dyn LockDriver>,
        is_beside: AtomicBool,
        is_in_use: AtomicBool,
        looks: AtomicUsize,
    }

    fn fake(_: Arc<str>) -> Arc<Fake> {
        let ([is_beside, is_in_use], looks) = (Default::default(), Default::default());
        Arc::new(Fake { driver: Arc::new(Curator), is_beside, is_in_use, looks })
    }

    impl LocalQueue for Fake {
        fn driver(&self) -> &Arc<dyn LockDriver> {
            &self.driver
        }
        fn contenders(&self) -> Vec<LocalContender> {
            let (lock, elapsed, caller, label) = ("a".into(), Duration::ZERO, String::new(), None);
            let one = LocalContender { lock, holds: true, elapsed, caller, label };
            self.is_in_use().then_some(one).into_iter().collect()
        }
        fn is_in_use(&self) -> bool {
            self.looks.fetch_add(1, Ordering::Relaxed);
            self.is_in_use.load(Ordering::Relaxed)
        }
        fn tally(&self, _: &mut dyn FnMut(Pattern, Mode, bool)) {}
        fn holdings(&self, _: &mut dyn FnMut(&Arc<str>, Holding)) {}
        fn close(self: Arc<Self>) {}
        fn leases_lost(self: Arc<Self>) {}
        fn is_semaphore(&self) -> bool {
            false
        }
        fn user(&self) -> Option<(Mode, LocalContender)> {
            None
        }
        fn is_beside_another(&self) -> &AtomicBool {
            &self.is_beside
        }
    }

    fn local_queues(servers: &str, chroot: &str) -> Arc<LocalQueues> {
        LocalQueues::new(Place { servers: servers.into(), chroot: chroot.into() })
    }

    #[test]
    fn those_of_single_acquires_are_looked_at_only_where_all_are() {
        let local_queues = local_queues("zk:1", "");
        let keys = ["/a", "/a\0options", "/a\u{1}7", "/a\u{1}8", "/a!", "/a/b", "/a0"];
        let queues = keys.map(|key| local_queues.local_queue(key, fake).unwrap());
        let found = |found: Vec<Arc<dyn LocalQueue>>| {
            let found = found.iter().map(|found| of_type::<Fake>(found).unwrap());
            found.map(|found| queues.iter().position(|r| Arc::ptr_eq(r, &found)).unwrap()).collect()
        };
        let under: Vec<usize> = found(local_queues.under("/a"));
        assert_eq!(under, [0, 1]);
        let all: Vec<usize> = found(local_queues.all_under("/a"));
        assert_eq!(all, [0, 1, 2, 3]);
        let other = self::local_queues("zk:1", "");
        let elsewhere: Vec<usize> = found(other.elsewhere("/a"));
        assert_eq!(elsewhere, [0, 1]);
        let all_elsewhere: Vec<usize> = found(other.all_elsewhere("/a"));
        assert_eq!(all_elsewhere, [0, 1, 2, 3]);
    }

    thread_local! {
        /// How many queues of a path were looked at.
        pub(super) static VISITED: Cell<usize> = const { Cell::new(0) };
    }

    /// How many queues a crowd looks at, in which each acquire has a queue of its own, and some more.
    fn visited_by(count: usize, options: LockOptions) -> usize {
        let (session, before) = (Session::embedded(), VISITED.get());
        let mutex = session.mutex("a").unwrap().with_options(options);
        let _held = block_on(mutex.acquire()).unwrap();
        let mut waiting: Vec<_> = (0..count).map(|_| Box::pin(mutex.acquire())).collect();
        for acquire in &mut waiting {
            assert!(block_on(poll_once(acquire)).is_none());
        }
        for _ in 0..count / 8 {
            assert!(mutex.blocking_try_acquire().unwrap_err().is_busy());
        }
        assert_eq!(session.local_contenders().len(), 1 + count);
        VISITED.get() - before
    }

    #[test]
    fn an_acquire_visits_as_few_queues_in_a_crowd_as_alone() {
        let kept = LockOptions::default().hold_at_least(Duration::from_secs(1));
        for options in [LockOptions::default().fair(true), kept] {
            for count in [100, 500] {
                let visited = visited_by(count, options);
                assert!(visited <= 2 * count, "{visited} queues for {count} acquires: {options:?}");
            }
        }
    }

    #[test]
    fn who_waits_for_the_last_of_many_looks_at_few_queues_when_one_leaves() {
        let local_queues = local_queues("zk:1", "");
        let keys = (0..100).map(|number| format!("/{number:03}"));
        let queues: Vec<_> = keys.map(|key| local_queues.local_queue(key, fake).unwrap()).collect();
        queues.iter().for_each(|queue| queue.is_in_use.store(true, Ordering::Relaxed));
        let mut empty = Box::pin(local_queues.until_empty());
        for queue in queues.iter().rev().step_by(2).chain(queues.iter().step_by(2)) {
            assert!(block_on(poll_once(&mut empty)).is_none());
            queue.is_in_use.store(false, Ordering::Relaxed);
            local_queues.left();
        }
        assert!(block_on(poll_once(&mut empty)).is_some());
        let looks: usize = queues.iter().map(|queue| queue.looks.load(Ordering::Relaxed)).sum();
        assert!(looks <= 5 * queues.len(), "{looks}");
    }

    #[test]
    fn servers_have_one_name_in_whatever_order_and_spelling() {
        let common = |servers: &str| local_queues(servers, "").place().common();
        assert_eq!(common("zk2,ZK1:2181"), common("zk1:2181,zk2:2181"));
        assert_eq!(common("[::1],zk1"), common("zk1,[::1]:2181"));
        assert_ne!(common("zk1:2182"), common("zk1"));
        assert_eq!(common("zk1,zk1:2181"), "zk1:2181");
    }

    #[test]
    fn other_sessions_at_the_same_servers_are_found_whatever_their_chroots() {
        let (plain, below) = (local_queues("zk:1", ""), local_queues("zk:1", "/prod"));
        let [far, twin] = [local_queues("zk:2", ""), local_queues("zk:1", "")];
        let held = plain.local_queue("/prod/zklock/a", fake).unwrap();
        assert_eq!(below.elsewhere("/zklock/a").len(), 1);
        assert_eq!(twin.elsewhere("/prod/zklock/a").len(), 1);
        assert!(below.elsewhere("/prod/zklock/a").is_empty());
        assert!(twin.elsewhere("/zklock/a").is_empty());
        assert!(far.elsewhere("/prod/zklock/a").is_empty());
        assert!(plain.elsewhere("/prod/zklock/a").is_empty(), "that is its own");
        let own = below.local_queue("/zklock/a", fake).unwrap();
        assert_eq!(plain.elsewhere("/prod/zklock/a").len(), 1);
        drop((held, own));
        assert!(twin.elsewhere("/prod/zklock/a").is_empty());
    }
}
