//! A lane: ZooKeeper sessions, one after the other.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use futures_lite::FutureExt as _;
use tokio::sync::watch;

use crate::base::clock::{Clock, Instant};
use crate::base::deadline::Deadline;
use crate::base::error::{ErrorKind, LockError};
use crate::base::session_state::SessionState;
use crate::base::times;
use crate::coordinator::limits::check_session_timeout;
use crate::coordinator::traits::{Connector, Coordinator, Link, RequestError};
use crate::divergence::phantom::PhantomNode;
use crate::observe::observer::Events;
use crate::session::generation::Generation;
use crate::session::health::SessionHealth;
use crate::session::keeper::{Keeping, keep};
use crate::session::lease_clock::{Condition, LeaseClock};
use crate::session::local_queues::LocalQueues;
use crate::session::runtime::Runtime;
use crate::session::spawner::Spawner;
use crate::session::standstill::noting;
use crate::session::timing::Timing;
use crate::session::watch_budget::WatchBudget;

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
    closed: AtomicBool,
    /// Whether the lane opens no session any more, and has closed the last one.
    over: watch::Sender<bool>,
    /// The number of acquires in progress.
    riders: AtomicUsize,
    /// How many of these wait for the server.
    busy: AtomicUsize,
    /// Since when one does.
    busy_since: AtomicU64,
    /// The total number of acquires.
    lane_permits: AtomicU64,
}

impl Lane {
    /// Starts a lane.
    pub fn start(config: Arc<LaneConfig>) -> Arc<Self> {
        let (health, local_queues) = (config.health.of_another(), config.local_queues.clone());
        let lane = Arc::new(Lane {
            config,
            status: watch::Sender::new(Status::Connecting(None)),
            opened: Mutex::default(),
            keeping: Keeping { health, local_queues },
            closed: AtomicBool::new(false),
            over: watch::Sender::new(false),
            riders: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            busy_since: AtomicU64::new(0),
            lane_permits: AtomicU64::new(0),
        });
        lane.spawner().spawn(run(lane.clone()));
        lane
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
    pub fn riders(&self) -> usize {
        self.riders.load(Ordering::Relaxed)
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
            // Asking the coordinator could end the generation, and the caller may hold the lock of
            // a queue.
            return true;
        }
        let lease = generation.lease();
        // A connection can stay up long after its server froze. An acquire begins with a commit.
        let asked = Instant::from_nanos(self.busy_since.load(Ordering::Relaxed));
        let unanswered = now >= lease.last_commit().max(asked) + lease.heartbeat();
        let stalled = self.busy() > 0 && unanswered;
        let suspect = lease.condition(now) != Condition::Held && !generation.holds_nothing();
        generation.coordinator().link() == Link::Up && !stalled && !suspect
    }

    /// The total number of acquires.
    pub fn lane_permits(&self) -> u64 {
        self.lane_permits.load(Ordering::Relaxed)
    }

    /// Whether nothing is being acquired, held, kept for a while or deleted, in a retired
    /// generation neither.
    pub fn is_idle(&self) -> bool {
        let idle = |generation: &Arc<Generation>| {
            generation.is_over()
                || generation.holds_nothing() && generation.is_clean() && !generation.has_resting()
        };
        self.riders() == 0 && self.living().iter().all(idle)
    }

    /// Counts an acquire that begins at `now`, which was just read, until the returned value is
    /// dropped.
    pub fn lane_permit(self: &Arc<Self>, now: Instant) -> LanePermit {
        self.riders.fetch_add(1, Ordering::Relaxed);
        if self.busy.fetch_add(1, Ordering::Relaxed) == 0 {
            self.busy_since.store(now.as_nanos(), Ordering::Relaxed);
        }
        self.lane_permits.fetch_add(1, Ordering::Relaxed);
        LanePermit { lane: self.clone(), busy: AtomicBool::new(true) }
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

    /// The generation that has this ZooKeeper session, if it is in use.
    pub fn generation_of(&self, session: i64) -> Option<Arc<Generation>> {
        self.living().into_iter().find(|living| living.coordinator().session_id() == session)
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
        // Nearly always, and then there is nothing to subscribe to.
        if let Some(present) = self.current().filter(|present| !present.is_retired()) {
            return Ok(present);
        }
        Box::pin(self.next()).await
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
            if status.changed().await.is_err() {
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

    /// Ends the lane; its generations are ended and their ZooKeeper sessions closed.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.keeping.health.leave();
        self.status.send_replace(Status::Closed);
        self.living().iter().for_each(|generation| generation.end());
    }

    /// Completes the pending deletions, then closes the ZooKeeper sessions. It waits for a session
    /// that a server may have opened just now, and closes it.
    pub async fn end(&self, limit: &Deadline) {
        let living = self.living();
        for generation in living.iter().filter(|generation| !generation.is_over()) {
            let _ = limit.bound(generation.clean()).await;
        }
        self.close();
        for generation in living {
            let _ = limit.bound(generation.close()).await;
        }
        let _ = limit.bound(self.over.subscribe().wait_for(|over| *over)).await;
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
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
}

impl LanePermit {
    /// The lane.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
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
        self.lane.riders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error of a session that is over.
pub fn closed() -> LockError {
    LockError::new(ErrorKind::Closing, "the session is closed")
}

async fn run(lane: Arc<Lane>) {
    let mut pause = times::RECONNECT.0;
    let (mut number, mut phantom) = (0, None);
    while !lane.is_closed() {
        let opened = lane.clock().now();
        let opening = async {
            let session = open(&lane).await?;
            let session = without(phantom.as_ref(), session, lane.clock()).await;
            Some(timed(session, lane.config.tick).await)
        };
        let (Some(session), stood) = noting(lane.clock(), opening).await else { break };
        match session {
            Ok((coordinator, timing)) => {
                pause = times::RECONNECT.0;
                number += 1;
                let lease = LeaseClock::new(lane.clock().clone(), timing, opened);
                let (spawner, events) = (lane.spawner().clone(), lane.config.events.clone());
                let watches = WatchBudget::new(&lane.keeping.local_queues.place().chroot);
                let generation =
                    Generation::new(number, coordinator, lease, spawner, events, watches, stood);
                lane.note(&generation);
                // Who waits for the generation finds the state published.
                lane.keeping.health.publish(number, SessionState::Connected);
                let (kept, keeping) = (generation.clone(), lane.keeping.clone());
                let opened = keeping.local_queues.opened(generation.coordinator().session_id());
                lane.spawner().spawn(async move {
                    keep(kept, keeping).await;
                    drop(opened);
                });
                if !lane.set(Status::Ready(generation.clone())) {
                    generation.end();
                    generation.close().await;
                    break;
                }
                generation.until(|| generation.is_retired()).await;
                phantom = generation.phantom().cloned().or(phantom);
                lane.set(Status::Connecting(None));
            }
            Err(error) => {
                tracing::warn!(%error, "no ZooKeeper session could be opened; trying again");
                lane.set(explain(error, &lane.keeping.local_queues.place().chroot));
                let timer = lane.clock().sleep_until(lane.clock().now() + pause);
                let mut status = lane.status();
                futures_lite::future::or(timer, async move {
                    let _ = status.wait_for(|status| matches!(status, Status::Closed)).await;
                })
                .await;
                pause = (pause * 2).min(times::RECONNECT.1);
            }
        }
    }
    lane.over.send_replace(true);
}

/// Opens a session; `None` if the lane was closed and no server can have opened one.
async fn open(lane: &Lane) -> Option<Result<Arc<dyn Coordinator>, RequestError>> {
    // A connector can be a user's.
    let connector = lane.config.connector.clone();
    let opening = AssertUnwindSafe(async move { connector.connect().await }).catch_unwind();
    let (mut opening, mut status) = (pin!(opening), lane.status());
    let mut closed = pin!(status.wait_for(|status| matches!(status, Status::Closed)));
    poll_fn(|cx| {
        if let Poll::Ready(session) = opening.as_mut().poll(cx) {
            let panicked = |_| Err(RequestError::Unreachable("the connector panicked".to_owned()));
            return Poll::Ready(Some(session.unwrap_or_else(panicked)));
        }
        if !lane.is_closed() && closed.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        if lane.config.connector.is_opening() { Poll::Pending } else { Poll::Ready(None) }
    })
    .await
}

/// Refuses a session on a server that shows a phantom node.
async fn without(
    phantom: Option<&PhantomNode>,
    session: Result<Arc<dyn Coordinator>, RequestError>,
    clock: &Clock,
) -> Result<Arc<dyn Coordinator>, RequestError> {
    let (Some(phantom), Ok(coordinator)) = (phantom, &session) else { return session };
    let limit = Deadline::after(clock.clone(), coordinator.session_timeout());
    // A server that does not answer now is checked later.
    let shown = limit.bound(phantom.is_shown(&**coordinator)).await.ok().and_then(Result::ok);
    if shown != Some(true) {
        return session;
    }
    coordinator.close().await;
    Err(RequestError::Unreachable(format!(
        "the server shows {}, which its leader does not know: its data differ from those of the \
         other servers; `zklock doctor` tells whether it can be repaired, and docs/lost.md how",
        phantom.path
    )))
}

/// Refuses a session in which no lease would be safe.
async fn timed(
    session: Result<Arc<dyn Coordinator>, RequestError>,
    tick: Option<Duration>,
) -> Result<(Arc<dyn Coordinator>, Timing), RequestError> {
    let coordinator = session?;
    let timeout = coordinator.session_timeout();
    let timing = check_session_timeout(timeout)
        .and_then(|()| Timing::of(timeout, tick).map_err(RequestError::BadArguments));
    match timing {
        Ok(timing) => Ok((coordinator, timing)),
        Err(error) => {
            coordinator.close().await;
            Err(error)
        }
    }
}

fn explain(error: RequestError, chroot: &str) -> Status {
    let refused =
        |kind, detail: &str| Status::Refused(LockError::new(kind, detail).because(error.clone()));
    match &error {
        RequestError::AuthFailed => {
            refused(ErrorKind::Unauthorized, "ZooKeeper refused the credentials")
        }
        RequestError::NoAuth | RequestError::InvalidAcl => {
            refused(ErrorKind::Unauthorized, "the ACL of the chroot denies access to this session")
        }
        RequestError::NoNode => {
            // Only a connector of the user's own answers this where no chroot is named.
            let chroot = if chroot.is_empty() { "/" } else { chroot };
            let why = format!(
                "the node {chroot}, the chroot of the connect string, does not exist: create it first"
            );
            Status::Refused(LockError::new(ErrorKind::NoChroot, why))
        }
        RequestError::BadArguments(why) => refused(ErrorKind::InvalidOption, why),
        _ => Status::Connecting(Some(
            LockError::new(ErrorKind::Unavailable, error.in_short()).because(error),
        )),
    }
}
