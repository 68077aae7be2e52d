//! The lanes of a session.
//!
//! One ZooKeeper session is enough for most processes. There are three reasons for another:
//!
//! - **Traffic.** Requests of one session are answered in order, and the client library sends a
//!   small one only when the last was acknowledged. With a hundred tasks on a hundred locks, four
//!   sessions make 1.25 times as many locks as bare requests on one session, and eight 1.5 times.
//! - **Watches.** After a reconnect the client library sends all its watches in one request, and
//!   loses the session if that is longer than 128 KiB.
//! - **Nodes.** Servers [cannot bear](super::node_budget) the end of a session with too many of them.
//!
//! A lane that is not served, because its connection is down or its server is silent, is not used
//! while another one is served. A lane that was idle for half a minute to a minute is
//! closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_lite::future::or;

use crate::base::clock::{Clock, Instant};
use crate::base::deadline::Deadline;
use crate::base::times;
use crate::coordinator::io_thread::IoThread;
use crate::session::lane::{Lane, LaneConfig, LanePermit};

/// The number of acquires that may wait for the server in a lane before another one is opened.
const BUSY: usize = 8;

/// The number of acquires in progress in a lane, including waiting ones, from which another one is
/// used. Each needs watches. The bytes of these are counted elsewhere, so this is only an estimate
/// of when another connection is better than looking without watches.
const FULL: usize = 500;

/// The lanes besides the first.
#[derive(Debug, Default)]
struct More {
    lanes: Vec<Arc<Lane>>,
    /// Whether no further lane is opened.
    complete: bool,
}

/// The lanes of a session: one, and more when it is busy.
#[derive(Debug)]
pub struct Lanes {
    lane_config: Arc<LaneConfig>,
    first: Arc<Lane>,
    more: Mutex<More>,
    /// The thread of all lanes, which ends with them. The client library has one poller per
    /// process. With a thread for each lane, most replies would wake two threads: the one that
    /// happens to wait for all sockets, and that of the lane.
    _io: Option<IoThread>,
}

impl Lanes {
    /// Starts the first lane.
    pub fn start(lane_config: LaneConfig, io: Option<IoThread>) -> Self {
        let lane_config = Arc::new(lane_config);
        let first = Lane::start(lane_config.clone());
        Lanes { lane_config, first, more: Mutex::default(), _io: io }
    }

    /// The first lane, which always exists.
    pub fn first(&self) -> &Arc<Lane> {
        &self.first
    }

    /// The lanes that there are, the first one first.
    pub fn all(&self) -> Vec<Arc<Lane>> {
        std::iter::once(&self.first).chain(&self.lock().lanes).cloned().collect()
    }

    /// All lanes, the first one first. No further lane is opened after this.
    pub fn complete(&self) -> Vec<Arc<Lane>> {
        let mut more = self.lock();
        more.complete = true;
        std::iter::once(&self.first).chain(&more.lanes).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, More> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all lanes have in common.
    pub fn config(&self) -> &LaneConfig {
        &self.lane_config
    }

    fn clock(&self) -> &Clock {
        self.lane_config.runtime.clock()
    }

    /// The first lane that can serve a request now; the first of all, if none can. While the permit is there, it
    /// is not closed because it is idle.
    pub fn served(&self) -> LanePermit {
        let (now, more) = (self.clock().now(), self.lock());
        let mut lanes = std::iter::once(&self.first).chain(&more.lanes);
        let served = lanes.find(|lane| lane.is_served_at(now));
        let lane_permit = served.unwrap_or(&self.first).lane_permit(now);
        // Reads say nothing about how busy a lane is, nor whether it is served: their answers feed no lease clock.
        lane_permit.arrived();
        lane_permit
    }

    /// Assigns a lane to an acquire.
    pub fn assign(self: &Arc<Self>) -> LanePermit {
        let now = self.clock().now();
        if has_room(&self.first) && self.first.is_served_at(now) {
            return self.first.lane_permit(now);
        }
        self.assign_idlest(now)
    }

    #[cold]
    fn assign_idlest(self: &Arc<Self>, now: Instant) -> LanePermit {
        let mut more = self.lock();
        let lanes = || std::iter::once(&self.first).chain(&more.lanes);
        let is_ready = |lane: &&Arc<Lane>| lane.current().is_some();
        let load = |lane: &Arc<Lane>| {
            let nodes = lane.node_load();
            let is_much = lane.acquires() >= FULL || nodes.is_much();
            (nodes.is_full(), is_much, lane.busy(), nodes)
        };
        let idlest = lanes().min_by_key(|lane| load(lane));
        // Nearly always; whether a lane is served takes longer to find out than how busy it is.
        let best = idlest.filter(|lane| lane.is_served_at(now)).or_else(|| {
            let ready = lanes().filter(is_ready);
            ready.min_by_key(|lane| (!lane.is_served_at(now), load(lane)))
        });
        let lane = best.unwrap_or(&self.first);
        let (lane_permit, wanted) = (lane.lane_permit(now), !has_room(lane) && !more.complete);
        // A lane that gets no connection is no help, and neither is a second one.
        if wanted && 1 + more.lanes.len() < self.lane_config.most && lanes().all(|l| is_ready(&l)) {
            let lane = Lane::new(self.lane_config.clone());
            more.lanes.push(lane.clone());
            drop(more);
            // A connector may be a user's, and the embedded one is polled here.
            lane.run();
            self.close_when_idle(&lane);
        }
        lane_permit
    }

    /// Whether a lane has room for another node, or has no session yet.
    pub fn may_have_room(&self) -> bool {
        self.all().iter().any(|lane| lane.current().is_none() || !lane.node_load().is_full())
    }

    /// Closes a lane that was idle at two successive looks, unless it is closed with its session.
    fn close_when_idle(self: &Arc<Self>, lane: &Arc<Lane>) {
        let (lanes, lane, clock) = (Arc::downgrade(self), lane.clone(), self.clock().clone());
        lane.spawner().clone().spawn(async move {
            let mut seen = None;
            loop {
                let idle = async {
                    clock.sleep(times::IDLE_LANE / 2).await;
                    false
                };
                // Whoever follows the session's states learns of their end when all lanes are gone.
                let closed = async {
                    lane.until_closed().await;
                    true
                };
                if or(closed, idle).await {
                    return;
                }
                let Some(lanes) = lanes.upgrade() else { return };
                if lanes.take_if_idle(&lane, &mut seen) {
                    return lane.end(&Deadline::after(clock, times::IDLE_LANE)).await;
                }
            }
        });
    }

    /// Removes a lane if it was idle at the last look as well, and nobody used it since.
    fn take_if_idle(&self, lane: &Arc<Lane>, seen: &mut Option<u64>) -> bool {
        // No acquire is assigned meanwhile.
        let lanes = &mut self.lock().lanes;
        // A lane that is in use counts as idle from the first look that finds it idle.
        let idle = lane.is_idle().then(|| lane.lane_permits());
        if std::mem::replace(seen, idle) != idle || idle.is_none() {
            return false;
        }
        let at = lanes.iter().position(|other| Arc::ptr_eq(other, lane));
        at.map(|at| lanes.swap_remove(at)).is_some()
    }
}

fn has_room(lane: &Lane) -> bool {
    lane.busy() < BUSY && lane.acquires() < FULL && !lane.node_load().is_much()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::policy::StopAt;
    use crate::coordinator::connector::Connector;
    use crate::coordinator::memory::Embedded;
    use crate::coordinator::node::NodeKind;
    use crate::coordinator::request_error::RequestError;
    use crate::coordinator::requests::{Coordinator, Reply};
    use crate::divergence::phantom::Phantoms;
    use crate::observe::observer::Events;
    use crate::session::health::SessionHealth;
    use crate::session::local_queues::{LocalQueues, Place};
    use crate::session::runtime::{Host, Runtime};
    use futures_lite::future::block_on;
    use std::sync::mpsc::channel;
    use std::sync::{OnceLock, Weak};
    use std::time::Duration;

    fn lanes(store: &Embedded) -> Arc<Lanes> {
        lanes_on(Arc::new(store.connector(Duration::from_secs(10))))
    }

    fn lanes_on(connector: Arc<dyn Connector>) -> Arc<Lanes> {
        let place = Place { servers: "lanes".into(), chroot: "".into() };
        let lane_config = LaneConfig {
            connector,
            runtime: Runtime::start(Host::Callers).unwrap().0,
            tick: None,
            most: 4,
            events: Events::default(),
            health: SessionHealth::connecting(),
            local_queues: LocalQueues::new(place),
            phantoms: Phantoms::default(),
            stuck: Arc::default(),
        };
        Arc::new(Lanes::start(lane_config, None))
    }

    #[test]
    fn a_lane_is_in_use_as_long_as_a_retired_generation_holds_something() {
        let store = Embedded::new();
        let lane = lanes(&store).first().clone();
        let generation = block_on(lane.ready()).unwrap();
        let made = block_on(generation.create("/a", b"", NodeKind::Ephemeral)).unwrap();
        let term = generation.grantable(StopAt::Lost).unwrap();
        let node = generation.hold("/a".into(), "a".into(), made.stat.czxid, term, None).unwrap();
        generation.retire("/b", None, &RequestError::NoAuth);
        let next = block_on(lane.ready()).unwrap();
        assert!(next.number() > generation.number() && !lane.is_idle());
        assert!(generation.is_valid_at(node.term, Clock::Caller.now()));
        let limit = Deadline::after(Clock::Caller, Duration::from_secs(10));
        block_on(lane.end(&limit));
        assert!(generation.is_over(), "it is valid in a lane that was closed");
        assert!(generation.coordinator().link().is_over());
    }

    #[test]
    fn after_the_last_call_no_lane_is_opened() {
        let store = Embedded::new();
        let lanes = lanes(&store);
        let mut lane_permits: Vec<_> = (0..=BUSY).map(|_| lanes.assign()).collect();
        assert_eq!((lanes.complete().len(), store.sessions().len()), (2, 2));
        lane_permits.extend((0..4 * BUSY).map(|_| lanes.assign()));
        assert_eq!((lanes.complete().len(), store.sessions().len()), (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_is_looked_through_is_not_closed_meanwhile() {
        let store = Embedded::new();
        let (lanes, first) = (lanes(&store), store.sessions()[0]);
        drop((0..=BUSY).map(|_| lanes.assign()).collect::<Vec<_>>());
        store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
        store.faults(first).expire();
        let served = lanes.served();
        let lane = served.lane().clone();
        assert!(!Arc::ptr_eq(&lane, lanes.first()) && lane.busy() == 0);
        tokio::time::sleep(2 * times::IDLE_LANE).await;
        assert!(lane.current().is_some() && lanes.all().len() == 2);
        drop(served);
        tokio::time::sleep(2 * times::IDLE_LANE).await;
        assert!(lane.current().is_none() && lanes.all().len() == 1);
    }

    /// Looks at the lanes whenever it connects, as callers do who are woken meanwhile.
    #[derive(Debug)]
    struct Looks(Arc<dyn Connector>, OnceLock<Weak<Lanes>>);

    impl Connector for Looks {
        fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
            let lanes = self.1.get().and_then(Weak::upgrade);
            drop(lanes.map(|lanes| lanes.all()));
            self.0.connect()
        }
    }

    #[test]
    fn a_lane_connects_while_nobody_else_is_kept_from_the_lanes() {
        let connector = Embedded::new().connector(Duration::from_secs(10));
        let looks = Arc::new(Looks(Arc::new(connector), OnceLock::new()));
        let lanes = lanes_on(looks.clone());
        looks.1.set(Arc::downgrade(&lanes)).unwrap();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let _lane_permits: Vec<_> = (0..=BUSY).map(|_| lanes.assign()).collect();
            tell.send(lanes.all().len()).unwrap();
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(2));
    }
}
