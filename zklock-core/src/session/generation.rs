//! A generation: one ZooKeeper session in the life of a lane, and the nodes that are held in it.

mod awake;
mod commits;
mod counts;
mod held;
mod listing;
mod retiring;
mod shared_reads;
mod terms;
mod told;

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub use self::awake::Pending;
pub use self::commits::{Checked, Gate, MOST_CHECKED};
pub use self::counts::{KeptNode, PendingDeletion};
pub use self::held::{HeldNode, OfLock};
use self::listing::Listings;
pub use self::listing::{Listed, Listing, Since};
use self::shared_reads::Shared;
use crate::base::clock::{Clock, Instant};
use crate::base::times;
use crate::base::unharmed::tell_all;
use crate::base::until::until;
use crate::coordinator::link::Link;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::divergence::head_age::HeadAges;
use crate::divergence::phantom::PhantomNode;
use crate::observe::observer::Events;
use crate::session::heard::Heard;
use crate::session::late_answers::LateAnswers;
use crate::session::lease_clock::LeaseClock;
use crate::session::node_budget::NodeBudget;
use crate::session::reply_timeout::TimedReplies;
use crate::session::spawner::Spawner;
use crate::session::standstill::Standstill;
use crate::session::stuck::Stuck;
use crate::session::watch_budget::WatchBudget;

/// How a generation ended.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Instant,
    /// Whether its ZooKeeper session was over. If not, the client goes on until that is closed, and nobody
    /// records any more when it is connected.
    of_itself: bool,
}

/// One ZooKeeper session. Guards belong to one generation and are lost with it.
#[derive(Debug)]
pub struct Generation {
    number: u64,
    coordinator: Arc<dyn Coordinator>,
    /// The same, without a limit to the wait for an answer.
    patient: Arc<dyn Coordinator>,
    /// Whether the coordinator itself knows when it was last in contact.
    self_aware: bool,
    lease: LeaseClock,
    late: LateAnswers,
    spawner: Spawner,
    events: Events,
    end: OnceLock<End>,
    /// Whether the session was closed and is over by the client's word.
    closed: AtomicBool,
    retired: AtomicBool,
    /// A node that shows that the server's data differ from its leader's.
    phantom: OnceLock<PhantomNode>,
    /// Where no nodes are created for a while, on whichever connection.
    stuck: OnceLock<Arc<Stuck>>,
    head_ages: HeadAges,
    /// Lists that several callers wait for.
    listings: Listings,
    /// Reads that several callers wait for.
    shared: Shared,
    /// The number of reconnects.
    reconnects: AtomicU64,
    /// The time of the last reconnect.
    reconnected_at: AtomicU64,
    /// Fires on every change above, and when all leases are lost.
    changed: Notify,
    /// The time at which the connection was last lost.
    lost_at: AtomicU64,
    /// The number of times that leases were lost.
    losses: AtomicU64,
    /// How many terms had ended when leases were last looked at for that.
    told: AtomicU64,
    held: Mutex<HashMap<Arc<str>, Arc<HeldNode>>>,
    /// How many nodes keep others out although their leases were lost.
    lost: AtomicUsize,
    /// Whether the keeper sleeps because nothing is held, and what wakes it then, and when leases are lost.
    keeper_rests: AtomicBool,
    keeper: Notify,
    watches: Arc<WatchBudget>,
    nodes: Arc<NodeBudget>,
    /// The greatest czxid of a node that was created in this session.
    newest: AtomicI64,
    /// By directory: who creates a node that looks like others of this session.
    gates: Mutex<HashMap<Arc<str>, Weak<Gate>>>,
    /// Whether the process stands still.
    standstill: Standstill,
    /// The messages that the server has answered.
    heard: Heard,
    /// How safe the leases were when that was told last, while it stands still.
    told_standing: AtomicU8,
    /// Deletions that are not yet confirmed.
    deletions: AtomicUsize,
    /// Those of them that are asked for again.
    overdue: AtomicUsize,
    cleaned: Notify,
    /// Nodes that stay for a while after their release.
    kept_nodes: AtomicUsize,
}

impl Generation {
    /// Wraps a ZooKeeper session that was just opened. Its lease begins when somebody began to open it.
    pub fn new(
        number: u64,
        coordinator: Arc<dyn Coordinator>,
        lease: LeaseClock,
        spawner: Spawner,
        events: Events,
        watches: Arc<WatchBudget>,
    ) -> Arc<Self> {
        // A time of another clock says nothing here.
        let is_of_caller = matches!(lease.clock(), Clock::Caller);
        let self_aware = is_of_caller && coordinator.last_contact().is_some();
        let standstill = Standstill::new(lease.timing(), lease.clock().now());
        let heard = Heard::new(lease.timing(), lease.last_commit());
        let head_ages = HeadAges::new(times::long_wait(lease.timeout()));
        Arc::new(Generation {
            number,
            self_aware,
            coordinator: Arc::new(TimedReplies::new(coordinator.clone(), lease.clock().clone())),
            patient: coordinator,
            lease,
            late: LateAnswers::default(),
            spawner,
            events,
            end: OnceLock::new(),
            closed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            phantom: OnceLock::new(),
            stuck: OnceLock::new(),
            head_ages,
            listings: Listings::default(),
            shared: Shared::default(),
            reconnects: AtomicU64::new(0),
            reconnected_at: AtomicU64::new(0),
            lost_at: AtomicU64::new(0),
            changed: Notify::new(),
            losses: AtomicU64::new(0),
            told: AtomicU64::new(0),
            held: Mutex::default(),
            lost: AtomicUsize::new(0),
            keeper_rests: AtomicBool::new(false),
            keeper: Notify::new(),
            nodes: NodeBudget::new(watches.chroot()),
            watches,
            newest: AtomicI64::new(0),
            gates: Mutex::default(),
            standstill,
            heard,
            told_standing: AtomicU8::new(0),
            deletions: AtomicUsize::new(0),
            overdue: AtomicUsize::new(0),
            cleaned: Notify::new(),
            kept_nodes: AtomicUsize::new(0),
        })
    }

    /// The number of this generation in its lane, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The ZooKeeper session. A request that is not answered within a session timeout fails.
    pub fn coordinator(&self) -> &Arc<dyn Coordinator> {
        &self.coordinator
    }

    /// The time after which a missing reply is acted upon.
    pub fn patience(&self) -> Duration {
        times::reply(self.lease.timeout())
    }

    /// From when on a wait counts as long, so that the head of the queue is checked.
    pub fn long_wait(&self) -> Duration {
        times::long_wait(self.lease.timeout())
    }

    /// The pause between two looks without a watch.
    pub fn slow_look(&self) -> Duration {
        times::look_without_watch(self.lease.timeout())
    }

    /// Since when who has been at the head of which queue.
    pub fn head_ages(&self) -> &HeadAges {
        &self.head_ages
    }

    /// The lease clock.
    pub fn lease(&self) -> &LeaseClock {
        &self.lease
    }

    /// Runs background tasks.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// The budget of watches.
    pub fn watches(&self) -> &Arc<WatchBudget> {
        &self.watches
    }

    /// The budget of nodes.
    pub fn nodes(&self) -> &Arc<NodeBudget> {
        &self.nodes
    }

    /// The receivers of events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Whether the coordinator itself knows when it was last in contact. Then no heartbeats are
    /// needed, and expiry is found by asking.
    pub fn is_self_aware(&self) -> bool {
        self.self_aware
    }

    /// Lets such a coordinator feed the lease clock. It changes nothing else and tells nobody,
    /// because the caller may hold a lock that those told would need. The keeper tells them.
    fn observe(&self) {
        if self.self_aware
            && let Some(at) = self.coordinator.last_contact()
        {
            self.lease.observed(at);
        }
    }

    /// Whether the ZooKeeper session is over, even if the keeper has not ended the generation yet.
    pub fn is_over(&self) -> bool {
        self.observe();
        self.end.get().is_some() || self.self_aware && self.coordinator.link().is_over()
    }

    /// Waits for the next change in this generation. Enable the future before looking. What concerns one held
    /// node is told to those alone who [wait for it](HeldNode::changed): many may wait here, and ask the server
    /// then.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Waits for a condition that a change in this generation may fulfil.
    pub async fn until(&self, so: impl Fn() -> bool) {
        until(&self.changed, so).await;
    }

    /// Waits for a reply, or for the end of this generation: a pending reply would keep the ZooKeeper session open.
    pub async fn unless_over<T>(
        &self,
        reply: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        let over = async {
            self.until(|| self.is_over()).await;
            Err(RequestError::ConnectionLoss)
        };
        or(reply, over).await
    }

    /// Waits until the connection is up: a create request that is sent while it is down would be
    /// applied after the reconnect, even if the caller has given up. False if another generation is to be used:
    /// the client library may take long to find that this one is over.
    pub async fn connected(&self) -> bool {
        let up = async {
            while self.coordinator.link() == Link::Down {
                self.coordinator.link_changed(Link::Down).await;
            }
        };
        or(up, self.until(|| self.is_retired())).await;
        !self.is_retired()
    }

    /// Waits for a time, or until something about the session has changed.
    pub async fn pause(&self, time: Duration) {
        or(self.lease.clock().sleep(time), self.changed()).await;
    }

    /// When the connection was lost last, or [`Instant::ORIGIN`].
    fn lost_at(&self) -> Instant {
        Instant::from_nanos(self.lost_at.load(Ordering::Acquire))
    }

    /// When the connection came back last, or [`Instant::ORIGIN`].
    pub fn reconnected_at(&self) -> Instant {
        Instant::from_nanos(self.reconnected_at.load(Ordering::Acquire))
    }

    /// The number of reconnects.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Acquire)
    }

    /// Records that the connection is lost.
    pub fn disconnected(&self) {
        let now = self.lease.clock().now();
        self.lost_at.store(now.as_nanos(), Ordering::Release);
    }

    /// Records that the connection is back.
    pub fn reconnected(&self) {
        let now = self.lease.clock().now();
        self.reconnected_at.store(now.as_nanos(), Ordering::Release);
        self.reconnects.fetch_add(1, Ordering::AcqRel);
        tell_all(&self.changed);
    }

    /// Ends the generation: everything held in it is lost.
    pub fn end(&self) {
        let at = self.lease.clock().now();
        let end = End { at, of_itself: self.coordinator.link().is_over() };
        if self.end.set(end).is_ok() {
            // Nobody waits for the deletions of a session that is over.
            tell_all(&self.cleaned);
            self.lose_leases();
        }
    }

    /// Closes the ZooKeeper session, which is over.
    pub async fn close(&self) {
        let begun = self.lease.clock().now();
        self.coordinator.close().await;
        if self.lease.clock().now() >= begun + times::CLOSE {
            // Nobody has answered.
            return;
        }
        self.closed.store(true, Ordering::Release);
        tell_all(&self.changed);
    }
}

#[cfg(test)]
mod tests;
