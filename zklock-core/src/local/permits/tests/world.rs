//! A semaphore in virtual time: callers of this process that want permits all the time, what
//! ZooKeeper does with their requests, and other processes.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::iter::once;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::policy::{Handoffs, Requeue};
use crate::local::callers::{Decides, Grants};
use crate::local::permits::{PermitRequest, State};
use crate::local::todo::{Joined, TestLease, Todo};
use crate::local::waiter::{QueuePolicy, Waiter};
use crate::local::waiters::Place;

/// How long a caller holds its permits.
pub(super) const HOLD: Duration = Duration::from_millis(5);
/// How long a request takes to the server, or a reply from it.
pub(super) const WAY: Duration = Duration::from_millis(20);

/// When the node of a permit is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// At once; what is too much waits.
    Curator,
    /// When the server has shown that there is room.
    Kazoo,
}

/// Who wants what.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) layout: Layout,
    pub(super) limit: u32,
    pub(super) handoffs: Handoffs,
    /// How many permits the callers of this process want, in turns.
    pub(super) ours: Vec<u32>,
    /// How many permits the other process wants.
    pub(super) theirs: u32,
    /// Until when a third process holds a permit, if it does.
    pub(super) third: Option<Duration>,
}

/// How long the other process waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    /// From the arrival of its request until the server has its permits for it.
    pub(super) time: Duration,
    /// The number of grants to callers of this process meanwhile.
    pub(super) passed: u32,
}

/// Who has a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// A driver of this process, by its number.
    Driver(u64),
    Other,
    Third,
}

/// A permit's node: its number, and whose it is.
type Node = (u64, Who);

#[derive(Debug)]
enum Request {
    /// Creates a node of the inner lock, for so many permits.
    Enqueue(Who, u32),
    /// Creates the nodes of the permits, under the inner lock.
    Take(Who),
    /// Deletes the node of the inner lock.
    Leave(Who),
    /// Deletes all nodes of a driver that was stopped.
    GiveUp(Who),
    /// Deletes nodes of permits.
    Delete(Vec<Node>),
}

#[derive(Debug)]
enum Step {
    Join(u32),
    LetGo(u32, u64),
    Arrives(Request),
    HasInnerLock(Who),
    HasPermits(Who),
}

type Lease = TestLease<Node>;

/// How far the first in the queue of the inner lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Queued,
    Told,
    Takes,
    Done,
}

#[derive(Default)]
struct Server {
    inner: VecDeque<(Who, u32, Stage)>,
    permits: Vec<Node>,
    nodes: u64,
}

impl Server {
    fn create_permits(&mut self, who: Who) {
        let wanted = self.inner.iter().find(|lock| lock.0 == who).map_or(0, |lock| lock.1);
        for _ in 0..wanted {
            self.nodes += 1;
            self.permits.push((self.nodes, who));
        }
    }
}

type Granted = (u64, Vec<Arc<Lease>>);

struct World<'a> {
    case: &'a Case,
    now: Instant,
    steps: BTreeMap<(Instant, u64), Step>,
    number: u64,
    server: Server,
    state: State<Lease, u64, Granted>,
    driver: u64,
    grants: Cell<u64>,
    places: Vec<(u32, Place)>,
    held: BTreeMap<u64, Vec<Arc<Lease>>>,
    came: Option<Instant>,
    came_in: Option<Instant>,
    passed: u32,
}

/// How long another process waits whose request arrives at a certain time.
pub(super) fn waits(case: &Case, other: Instant) -> Waited {
    let mut world = World {
        case,
        now: Instant::ORIGIN,
        steps: BTreeMap::new(),
        number: 0,
        server: Server::default(),
        state: State::new(false),
        driver: 0,
        grants: Cell::new(0),
        places: Vec::new(),
        held: BTreeMap::new(),
        came: None,
        came_in: None,
        passed: 0,
    };
    for caller in 0..6 {
        world.after(Duration::from_millis(caller.into()), Step::Join(caller));
    }
    world.after(
        other.since(Instant::ORIGIN),
        Step::Arrives(Request::Enqueue(Who::Other, case.theirs)),
    );
    if let Some(until) = case.third {
        world.server.permits.push((0, Who::Third));
        world.after(until, Step::Arrives(Request::Delete(vec![(0, Who::Third)])));
    }
    loop {
        if let (Some(came), Some(came_in)) = (world.came, world.came_in) {
            return Waited { time: came_in.since(came), passed: world.passed };
        }
        let ((now, _), step) = world.steps.pop_first().unwrap();
        world.now = now;
        world.run(step);
        world.wake();
    }
}

impl World<'_> {
    fn after(&mut self, after: Duration, step: Step) {
        self.number += 1;
        self.steps.insert((self.now + after, self.number), step);
    }

    fn send(&mut self, request: Request) {
        self.after(WAY, Step::Arrives(request));
    }

    fn wanted(&self, caller: u32) -> u32 {
        self.case.ours[caller as usize % self.case.ours.len()]
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Join(caller) => {
                let requeue = Requeue::default();
                let waiter = Waiter {
                    who: Caller::thread(),
                    since: self.now,
                    wants: PermitRequest { permits: self.wanted(caller), requeue },
                    once: false,
                    queue_policy: QueuePolicy {
                        handoffs: self.case.handoffs,
                        ..QueuePolicy::default()
                    },
                    label: None,
                    ahead: 0,
                };
                let closed = || LockError::new(ErrorKind::Closing, "");
                let (joined, todo) = self.state.join(&waiter, closed, false);
                match joined {
                    Joined::Waits(place) => self.places.push((caller, place)),
                    other => panic!("{other:?}"),
                }
                self.carry_out(todo);
            }
            Step::LetGo(caller, number) => {
                let (leases, grants) = (self.held.remove(&number).unwrap(), &self.grants);
                let is_holder = |by: &u64| *by == number;
                let by = By(self.now, grants);
                let todo = self.state.release(leases, is_holder, Duration::ZERO, &by);
                self.carry_out(todo);
                self.after(Duration::ZERO, Step::Join(caller));
            }
            Step::Arrives(request) => self.arrives(request),
            Step::HasInnerLock(who) => {
                if self.is_running(who) {
                    self.send(Request::Take(who));
                }
            }
            Step::HasPermits(who) => {
                if self.is_running(who) {
                    self.send(Request::Leave(who));
                    self.fetched(who);
                }
            }
        }
    }

    /// Whether it was not stopped.
    fn is_running(&self, who: Who) -> bool {
        let Who::Driver(driver) = who else { return true };
        self.state.fetching().is_some_and(|fetch| fetch.driver == driver)
    }

    fn fetched(&mut self, who: Who) {
        let Who::Driver(driver) = who else { return };
        let mine = self.server.permits.iter().filter(|node| node.1 == who);
        let leases = mine.map(|node| Arc::new(Lease { is_valid: true, node: *node })).collect();
        let by = By(self.now, &self.grants);
        let todo = self.state.fetched(driver, Ok(leases), &by);
        self.carry_out(todo);
    }

    fn arrives(&mut self, request: Request) {
        let (server, layout) = (&mut self.server, self.case.layout);
        match request {
            Request::Enqueue(who, wanted) => {
                if who == Who::Other {
                    self.came = Some(self.now);
                }
                server.inner.push_back((who, wanted, Stage::Queued));
            }
            Request::Take(who) => {
                if let Some(lock) = server.inner.iter_mut().find(|lock| lock.0 == who) {
                    lock.2 = Stage::Takes;
                    if layout == Layout::Curator {
                        server.create_permits(who);
                    }
                }
            }
            Request::Leave(who) => server.inner.retain(|lock| lock.0 != who),
            Request::GiveUp(who) => {
                server.inner.retain(|lock| lock.0 != who);
                server.permits.retain(|node| node.1 != who);
            }
            Request::Delete(nodes) => server.permits.retain(|node| !nodes.contains(node)),
        }
        let Some((who, wanted, stage)) = server.inner.front_mut() else { return };
        let (who, there) = (*who, server.permits.len() as u32);
        match (*stage, layout) {
            (Stage::Queued, _) => {
                *stage = Stage::Told;
                self.after(WAY, Step::HasInnerLock(who));
            }
            (Stage::Takes, Layout::Curator) if there <= self.case.limit => {
                *stage = Stage::Done;
                self.has_room(who, WAY);
            }
            (Stage::Takes, Layout::Kazoo) if there + *wanted <= self.case.limit => {
                *stage = Stage::Done;
                // Under the inner lock nobody else creates nodes: they may as well be there already when
                // it is told of the room.
                server.create_permits(who);
                self.has_room(who, 3 * WAY);
            }
            _ => {}
        }
    }

    fn has_room(&mut self, who: Who, told: Duration) {
        if who == Who::Other {
            self.came_in = Some(self.now);
        }
        self.after(told, Step::HasPermits(who));
    }

    fn carry_out(&mut self, todo: Todo<Lease, PermitRequest>) {
        if !todo.more.is_empty() {
            let nodes = todo.more.iter().map(|lease| lease.node).collect();
            self.send(Request::Delete(nodes));
        }
        if todo.cancel {
            self.send(Request::GiveUp(Who::Driver(self.driver)));
        }
        if let Some(fetch) = todo.fetch {
            self.driver = fetch.driver;
            self.send(Request::Enqueue(Who::Driver(fetch.driver), fetch.wants.permits));
        }
    }

    /// Lets those hold their permits that were given some.
    fn wake(&mut self) {
        for (caller, place) in std::mem::take(&mut self.places) {
            let Poll::Ready(settled) = self.state.waiters.poll(place, Waker::noop(), &mut None)
            else {
                self.places.push((caller, place));
                continue;
            };
            let (number, leases) = settled.unwrap().1.unwrap();
            assert_eq!(leases.len(), self.wanted(caller) as usize);
            self.held.insert(number, leases);
            self.after(HOLD, Step::LetGo(caller, number));
            self.passed += u32::from(self.came.is_some());
        }
    }
}

/// Numbers what it grants.
struct By<'a>(Instant, &'a Cell<u64>);

impl Grants<Lease, PermitRequest, u64, Granted> for By<'_> {
    fn now(&self) -> Instant {
        self.0
    }
    fn grant(
        &self,
        _: &Waiter<PermitRequest>,
        lease: &Arc<Lease>,
        more: impl Iterator<Item = Arc<Lease>>,
    ) -> (u64, Granted) {
        self.1.set(self.1.get() + 1);
        (self.1.get(), (self.1.get(), once(lease.clone()).chain(more).collect()))
    }
    fn busy(&self, _: &Arc<Lease>) -> LockError {
        LockError::new(ErrorKind::Busy, "")
    }
}
