//! A lane: ZooKeeper sessions, one after the other.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::watch;

use crate::base::clock::{Clock, Instant};
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::first::all;
use crate::base::times;
use crate::base::unharmed::unharming;
use crate::coordinator::connector::Connector;
use crate::coordinator::link::Link;
use crate::divergence::phantom::Phantoms;
use crate::observe::observer::Events;
use crate::session::generation::Generation;
use crate::session::health::SessionHealth;
use crate::session::keeper::Keeping;
use crate::session::lease_clock::Condition;
use crate::session::local_queues::LocalQueues;
use crate::session::node_budget::NodeLoad;
use crate::session::runtime::Runtime;
use crate::session::spawner::Spawner;
use crate::session::stuck::Stuck;

mod opening;

/// The state of a lane.
#[derive(Clone, Debug)]
pub enum Status {
    /// No ZooKeeper session yet, or no longer; with the error of the last attempt.
    Connecting(Option<LockError>),
    /// A generation to use.
    Ready(Arc<Generation>),
    /// Refused for a reason that an operator must remove; tried again from time to time.
    Refused(LockError),
    /// Closed.
    Closed,
}

/// The configuration of lanes.
#[derive(Debug)]
pub struct LaneConfig {
    /// Opens ZooKeeper sessions.
    pub connector: Arc<dyn Connector>,
    /// The runtime of all lanes.
    pub runtime: Runtime,
    /// The server's tick, if known.
    pub tick: Option<Duration>,
    /// The largest number of lanes.
    pub most: usize,
    /// The receivers of events.
    pub events: Events,
    /// The state of all lanes together.
    pub health: SessionHealth,
    /// The queues that are told about lost leases.
    pub local_queues: Arc<LocalQueues>,
    /// What shows which servers are not used.
    pub phantoms: Phantoms,
    /// Where no nodes are created for a while.
    pub stuck: Arc<Stuck>,
}

/// Opens generations, one after the other.
#[derive(Debug)]
pub struct Lane {
    config: Arc<LaneConfig>,
    status: watch::Sender<Status>,
    /// The generations of this lane that are in use: a held node may belong to an older one than
    /// new acquires use.
    opened: Mutex<Vec<Weak<Generation>>>,
    keeping: Keeping,
    /// Whether the lane opens no session any more, and has closed the last one.
    over: watch::Sender<bool>,
    /// The number of acquires in progress.
    acquires: AtomicUsize,
    /// How many of these wait for the server.
    busy: AtomicUsize,
    /// Since when one does.
    busy_since: AtomicU64,
    /// Since when new acquires have had no session, if they have none.
    without: AtomicU64,
    /// The total number of acquires.
    lane_permits: AtomicU64,
}

impl Lane {
    /// Starts a lane.
    pub fn start(config: Arc<LaneConfig>) -> Arc<Self> {
        let lane = Lane::new(config);
        lane.run();
        lane
    }

    /// A lane that opens nothing before it [runs](Self::run).
    pub fn new(config: Arc<LaneConfig>) -> Arc<Self> {
        let (health, local_queues) = (config.health.of_another(), config.local_queues.clone());
        let without = AtomicU64::new(config.runtime.clock().now().as_nanos());
        Arc::new(Lane {
            config,
            without,
            status: watch::Sender::new(Status::Connecting(None)),
            opened: Mutex::default(),
            keeping: Keeping { health, local_queues },
            over: watch::Sender::new(false),
            acquires: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            busy_since: AtomicU64::new(0),
            lane_permits: AtomicU64::new(0),
        })
    }

    /// Begins to open sessions.
    pub fn run(self: &Arc<Self>) {
        self.spawner().spawn(opening::run(self.clone()));
    }

    /// The runtime of this lane.
    pub fn runtime(&self) -> &Runtime {
        &self.config.runtime
    }

    /// The clock of this lane.
    pub fn clock(&self) -> &Clock {
        self.runtime().clock()
    }

    /// Runs background tasks.
    pub fn spawner(&self) -> &Spawner {
        self.runtime().spawner()
    }

    /// The number of acquires in progress.
    pub fn acquires(&self) -> usize {
        self.acquires.load(Ordering::Relaxed)
    }

    /// How many of these wait for the server.
    pub fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Whether the lane can serve an acquire at `now`, which was just read: it is connected, and
    /// commits are answered.
    pub fn is_served_at(&self, now: Instant) -> bool {
        let Some(generation) = self.current() else { return false };
        if generation.is_self_aware() {
            // Its link tells. That only looks, and wakes nobody: the caller may hold the lock of a queue.
            return generation.coordinator().link() == Link::Up;
        }
        let lease = generation.lease();
        // A connection can stay up long after its server froze. An acquire begins with a commit.
        let asked = Instant::from_nanos(self.busy_since.load(Ordering::Relaxed));
        let unanswered = now >= lease.last_answer().max(asked) + lease.heartbeat();
        let stalled = self.busy() > 0 && unanswered;
        let suspect = lease.condition(now) != Condition::Held && !generation.holds_nothing();
        generation.coordinator().link() == Link::Up && !stalled && !suspect
    }

    /// How much its session holds.
    pub fn node_load(&self) -> NodeLoad {
        self.current().map(|generation| generation.nodes().load()).unwrap_or_default()
    }

    /// Whether the lane is connected, and has a session that new locks use.
    pub fn is_connected(&self) -> bool {
        self.keeping.health.is_connected() && self.current().is_some()
    }

    /// The total number of acquires.
    pub fn lane_permits(&self) -> u64 {
        self.lane_permits.load(Ordering::Relaxed)
    }

    /// Whether nothing is being acquired, held, kept for a while or deleted, nor kept by who has lost it, retired
    /// generations included.
    pub fn is_idle(&self) -> bool {
        let idle = |generation: &Arc<Generation>| {
            generation.is_over()
                || generation.holds_nothing()
                    && !generation.keeps_lost()
                    && generation.is_clean()
                    && !generation.has_kept_nodes()
        };
        self.acquires() == 0 && self.living().iter().all(idle)
    }

    /// Counts an acquire that begins at `now`, which was just read, until the returned value is
    /// dropped.
    pub fn lane_permit(self: &Arc<Self>, now: Instant) -> LanePermit {
        self.acquires.fetch_add(1, Ordering::Relaxed);
        if self.busy.fetch_add(1, Ordering::Relaxed) == 0 {
            self.busy_since.store(now.as_nanos(), Ordering::Relaxed);
        }
        self.lane_permits.fetch_add(1, Ordering::Relaxed);
        LanePermit {
            lane: self.clone(),
            busy: AtomicBool::new(true),
            leaves: AtomicBool::new(false),
            full: AtomicBool::new(false),
        }
    }

    /// The state of the lane, as a channel.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// The generation in use, if there is one.
    pub fn current(&self) -> Option<Arc<Generation>> {
        match &*self.status.borrow() {
            Status::Ready(generation) => Some(generation.clone()),
            _ => None,
        }
    }

    /// The node below which all paths are.
    pub fn chroot(&self) -> &str {
        let chroot = &*self.keeping.local_queues.place().chroot;
        if chroot.is_empty() { "/" } else { chroot }
    }

    /// Whether this process has this ZooKeeper session.
    pub fn is_of_this_process(&self, session: i64) -> bool {
        self.keeping.local_queues.is_of_this_process(session)
    }

    /// The generations of this lane that are not closed yet, including retired ones.
    pub fn living(&self) -> Vec<Arc<Generation>> {
        // Dropping the last reference to a generation closes it, which must not happen under a
        // lock.
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.iter().filter_map(Weak::upgrade).collect()
    }

    fn note(&self, generation: &Arc<Generation>) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|generation| generation.strong_count() > 0);
        opened.push(Arc::downgrade(generation));
    }

    /// Waits for a generation in which a new node can be created.
    ///
    /// # Errors
    ///
    /// Errors that an operator must remove are returned at once; while no server can be reached, it
    /// waits.
    pub async fn ready(&self) -> Result<Arc<Generation>, LockError> {
        match self.present() {
            Some(present) => Ok(present),
            None => Box::pin(self.next()).await,
        }
    }

    /// Nearly always, and then there is nothing to subscribe to.
    fn present(&self) -> Option<Arc<Generation>> {
        self.current().filter(|present| !present.is_retired())
    }

    /// Since when this lane has had no session, or no connection, if it has none.
    fn down_since(&self) -> Option<Instant> {
        match self.current() {
            Some(generation) => generation.down_since(),
            None => Some(Instant::from_nanos(self.without.load(Ordering::Acquire))),
        }
    }

    /// Ends when this lane has been down for a while and another one is connected: that one serves sooner. All who
    /// wait find it at the same time, so that they go there in their order.
    async fn elsewhere(&self) -> LockError {
        loop {
            let (now, since) = (self.clock().now(), self.down_since());
            let mut at = since.unwrap_or(now) + times::ELSEWHERE;
            if at <= now {
                if self.keeping.health.is_another_connected() {
                    let error = LockError::new(ErrorKind::Unavailable, "this connection is down");
                    return self.trouble().into_iter().fold(error, LockError::because);
                }
                at = now + times::ELSEWHERE;
            }
            self.clock().sleep_until(at).await;
        }
    }

    async fn next(&self) -> Result<Arc<Generation>, LockError> {
        let mut status = self.status.subscribe();
        loop {
            let seen = status.borrow_and_update().clone();
            match seen {
                Status::Ready(generation) if !generation.is_retired() => return Ok(generation),
                Status::Refused(error) => return Err(error),
                Status::Closed => return Err(closed()),
                Status::Ready(_) | Status::Connecting(_) => {}
            }
            if unharming(pin!(status.changed())).await.is_err() {
                return Err(closed());
            }
        }
    }

    /// Why there is no generation, for the error of a caller that waited in vain.
    pub fn trouble(&self) -> Option<LockError> {
        match &*self.status.borrow() {
            Status::Connecting(error) => error.clone(),
            Status::Refused(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Hands out no generation any more, nor opens another one.
    fn refuse(&self) {
        self.keeping.health.leave();
        self.status.send_replace(Status::Closed);
    }

    /// Ends the lane; its generations are ended and their ZooKeeper sessions closed.
    pub fn close(&self) {
        self.refuse();
        self.living().iter().for_each(|generation| generation.end());
    }

    /// Completes the pending deletions, then closes the ZooKeeper sessions. It waits for a session
    /// that a server may have opened just now, and closes it.
    pub async fn end(&self, limit: &Deadline) {
        // The rest is for the goodbye.
        let clean_by = Deadline::at(limit.clock().clone(), limit.instant() - times::CLOSE);
        // Side by side: where nobody answers the deletions of one, the locks of the others are free all the same.
        let present = self.living();
        let ending = present.iter().map(|generation| {
            let clean_by = &clean_by;
            async move {
                let _ = clean_by.bound(generation.clean()).await;
                // Otherwise another one would be opened in place of the first that ends.
                self.refuse();
                generation.end();
                let _ = limit.bound(generation.close()).await;
                Ok::<_, Infallible>(())
            }
        });
        drop(all(ending).await);
        self.close();
        // Also those that were opened meanwhile.
        let is_later = |one: &Arc<Generation>| !present.iter().any(|known| Arc::ptr_eq(known, one));
        for generation in self.living().into_iter().filter(is_later) {
            let _ = limit.bound(generation.close()).await;
        }
        let mut over = self.over.subscribe();
        let is_over = pin!(over.wait_for(|over| *over));
        let _ = limit.bound(unharming(is_over)).await;
    }

    fn is_closed(&self) -> bool {
        matches!(*self.status.borrow(), Status::Closed)
    }

    /// Waits until the lane is closed.
    pub async fn until_closed(&self) {
        // It fails when nobody can close it any more, which needs the lane.
        let _ = self.status().wait_for(|status| matches!(status, Status::Closed)).await;
    }

    /// Changes the state, unless the lane was closed meanwhile.
    fn set(&self, next: Status) -> bool {
        self.status.send_if_modified(|status| {
            let open = !matches!(status, Status::Closed);
            if open {
                *status = next;
            }
            open
        })
    }
}

/// An acquire in progress on a lane.
#[derive(Debug)]
pub struct LanePermit {
    lane: Arc<Lane>,
    busy: AtomicBool,
    leaves: AtomicBool,
    full: AtomicBool,
}

impl LanePermit {
    /// The lane.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// Waits for a generation in which a new node can be created.
    ///
    /// # Errors
    ///
    /// Those of [`Lane::ready`]; also [`ErrorKind::Unavailable`] if another lane serves [sooner](Self::elsewhere).
    pub async fn ready(&self) -> Result<Arc<Generation>, LockError> {
        match self.lane.present() {
            Some(present) => Ok(present),
            None => Box::pin(or(self.lane.next(), async { Err(self.elsewhere().await) })).await,
        }
    }

    /// Ends when this lane has been down for a while and another one is connected: the acquire is to go on with
    /// another permit.
    pub async fn elsewhere(&self) -> LockError {
        let error = self.lane.elsewhere().await;
        self.leaves.store(true, Ordering::Relaxed);
        error
    }

    /// The session of this lane has no room for another node.
    pub fn has_no_room(&self) {
        self.full.store(true, Ordering::Relaxed);
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Whether it had none.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Whether the acquire is to go on with another permit, because another lane is connected and this one is
    /// down, or has no room.
    pub fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    /// The server has answered: from now on, the acquire waits for other contenders.
    pub fn arrived(&self) {
        if self.busy.swap(false, Ordering::Relaxed) {
            self.lane.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for LanePermit {
    fn drop(&mut self) {
        self.arrived();
        self.lane.acquires.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error of a session that is over.
pub fn closed() -> LockError {
    LockError::new(ErrorKind::Closing, "the session is draining or closed")
}

#[cfg(test)]
mod tests;
