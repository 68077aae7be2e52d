//! The state of the local queue under random operations, one after the other: after each of them
//! whoever waits waits for something that is under way.

// What goes wrong in here fails the test.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use zklock_core::base::caller::Caller;
use zklock_core::base::clock::Instant;
use zklock_core::base::error::LockError;
use zklock_core::base::error_kind::ErrorKind;
use zklock_core::base::mode::Mode;
use zklock_core::base::policy::{Handoffs, StopAt};
use zklock_core::local::callers::{Decides, Grants};
use zklock_core::local::state::{Conflict, Phase, State};
use zklock_core::local::todo::{Fetch, Joined, Lent, Todo};
use zklock_core::local::waiter::{QueuePolicy, Waiter};
use zklock_core::local::waiters::Place;

/// A node that holds the lock.
#[derive(Debug, Default)]
struct Node {
    lost: AtomicBool,
    revoked: AtomicBool,
    retired: AtomicBool,
}

impl Lent for Node {
    fn is_valid(&self, _now: Instant) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }

    fn is_held(&self) -> bool {
        self.is_valid(NOW)
    }

    fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    fn stop_at(&self) -> StopAt {
        StopAt::Lost
    }
}

/// A holder, and its node.
type Grant = (usize, Arc<Node>);

/// Numbers by Marsaglia's xorshift.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

const NOW: Instant = Instant::ORIGIN;

struct InQueue {
    place: Place,
    once: bool,
}

/// The queue, and what it has under way.
struct World {
    state: State<Node, usize, Grant>,
    fetches: Vec<Fetch>,
    asked: Vec<Arc<Node>>,
    lingering: Vec<Arc<Node>>,
    waiters: Vec<InQueue>,
    holders: Vec<Grant>,
    next: Rc<Cell<usize>>,
}

/// Numbers the grants.
struct By(Rc<Cell<usize>>);

impl Grants<Node, Mode, usize, Grant> for By {
    fn now(&self) -> Instant {
        NOW
    }

    fn grant(
        &self,
        _: &Waiter,
        node: &Arc<Node>,
        _: impl Iterator<Item = Arc<Node>>,
    ) -> (usize, Grant) {
        self.0.set(self.0.get() + 1);
        (self.0.get(), (self.0.get(), node.clone()))
    }

    fn busy(&self, _: &Arc<Node>) -> LockError {
        LockError::new(ErrorKind::Busy, "")
    }
}

impl World {
    fn new() -> Self {
        World {
            state: State::new(false),
            fetches: Vec::new(),
            asked: Vec::new(),
            lingering: Vec::new(),
            waiters: Vec::new(),
            holders: Vec::new(),
            next: Rc::default(),
        }
    }

    fn by(&self) -> By {
        By(self.next.clone())
    }

    fn carry_out(&mut self, todo: Todo<Node>) {
        if todo.cancel {
            // What it gives is not wanted, but it may come all the same.
            assert!(!self.fetches.is_empty());
        }
        self.fetches.extend(todo.fetch);
        let rare = todo.rare.map(|rare| *rare).unwrap_or_default();
        self.asked.extend(rare.ask);
        self.lingering.extend(rare.accompany);
    }

    fn join(&mut self, dice: &mut Dice) {
        let mode = [Mode::Mutex, Mode::Read, Mode::Read, Mode::Write][dice.throw(4)];
        let (once, linger) = (dice.throw(3) == 0, [Duration::ZERO, Duration::MAX][dice.throw(2)]);
        let most = u32::try_from(dice.throw(3)).unwrap();
        let handoffs = Handoffs::new().most(most).within(Duration::from_secs(1));
        let queue_policy = QueuePolicy { handoffs, linger, ..QueuePolicy::default() };
        let waiting = Waiter {
            who: Caller::thread(),
            wants: mode,
            since: NOW,
            once,
            queue_policy,
            label: None,
            ahead: 0,
        };
        let own = dice.throw(8) == 0;
        let conflict = |_: &usize| if own { Conflict::Own } else { Conflict::None };
        let closed = || LockError::new(ErrorKind::Closing, "");
        let seen = dice.throw(2) == 0;
        let (by, state) = (self.by(), &mut self.state);
        let (joined, todo) = state.join(&waiting, &by, conflict, closed, seen);
        self.carry_out(todo);
        match joined {
            Joined::Granted(held) => self.holders.push(held),
            Joined::Waits(place) => self.waiters.push(InQueue { place, once }),
            Joined::Busy => assert!(once),
            Joined::Refused(_) => {}
        }
    }

    /// Something of all that can happen.
    fn step(&mut self, dice: &mut Dice) {
        let by = self.by();
        match dice.throw(12) {
            0..=3 => self.join(dice),
            4 | 5 if !self.fetches.is_empty() => {
                let fetch = self.fetches.swap_remove(dice.throw(self.fetches.len()));
                let result = match dice.throw(3) {
                    0 if fetch.once => Err(LockError::new(ErrorKind::Busy, "")),
                    1 => Err(LockError::new(ErrorKind::Unsupported, "")),
                    _ => Ok(Arc::new(Node::default())),
                };
                let todo = self.state.fetched(fetch.driver, result, &by);
                self.carry_out(todo);
            }
            6 if !self.asked.is_empty() => {
                let node = self.asked.swap_remove(dice.throw(self.asked.len()));
                let todo = self.state.asked(&node, dice.throw(2) == 0, &by);
                self.carry_out(todo);
            }
            7 if !self.waiters.is_empty() => {
                let waiter = self.waiters.swap_remove(dice.throw(self.waiters.len()));
                let (untaken, todo) = self.state.leave(waiter.place);
                self.carry_out(todo);
                self.holders.extend(untaken.ok().and_then(Result::ok));
            }
            8 if !self.holders.is_empty() => {
                let held = &self.holders[dice.throw(self.holders.len())];
                let node = &held.1;
                let happens = [&node.lost, &node.revoked, &node.retired][dice.throw(3)];
                happens.store(true, Ordering::Relaxed);
                if dice.throw(2) == 0 {
                    let todo = self.state.leases_lost(NOW);
                    self.carry_out(todo);
                }
            }
            9 | 10 if !self.holders.is_empty() => {
                let held = self.holders.swap_remove(dice.throw(self.holders.len()));
                self.give_back(held, dice.throw(2) == 0);
            }
            11 => {
                if let Some(fetch) = self.fetches.last().filter(|fetch| !fetch.once) {
                    let busy = || LockError::new(ErrorKind::Busy, "");
                    let todo = self.state.met(fetch.driver, busy);
                    self.carry_out(todo);
                }
            }
            _ => {}
        }
    }

    fn give_back(&mut self, (holder, node): Grant, lingers: bool) {
        let linger = if lingers { Duration::from_secs(1) } else { Duration::ZERO };
        let is_holder = |other: &usize| *other == holder;
        let by = self.by();
        let todo = self.state.release([node], is_holder, linger, &by);
        self.carry_out(todo);
    }

    /// Takes what was granted; whoever was told otherwise is gone.
    fn take_outcomes(&mut self) {
        let (state, holders) = (&mut self.state, &mut self.holders);
        self.waiters.retain(|waiter| {
            let kept_out = state.excludes(Some(waiter.place));
            let Poll::Ready(outcome) = state.waiters.poll(waiter.place, Waker::noop(), &mut None)
            else {
                return true;
            };
            assert!(!kept_out, "who has the lock is kept out of it");
            holders.extend(outcome.unwrap().1.ok());
            false
        });
    }

    fn check(&mut self) {
        self.take_outcomes();
        let waits = self.waiters.len();
        assert_eq!(waits, self.state.waiters.len());
        let tries = self.waiters.iter().any(|waiter| waiter.once);
        match self.state.phase() {
            Phase::Idle => assert_eq!(waits, 0, "nothing is under way for those who wait"),
            Phase::Lingering { .. } => assert_eq!(waits, 0, "an idle node for those who wait"),
            Phase::Fetching(running) => {
                assert!(self.fetches.iter().any(|fetch| fetch.driver == running.driver));
                assert_eq!(
                    self.state.waiting().next().map(|first| first.wants),
                    Some(running.wants)
                );
            }
            Phase::Asking { lease, .. } => {
                assert!(self.asked.iter().any(|node| Arc::ptr_eq(node, lease)));
            }
            Phase::Held { lease, .. } => {
                let asking = self.asked.iter().any(|node| Arc::ptr_eq(node, lease));
                assert!(!tries || asking, "who does not wait for others waits for a holder");
                let holds = |held: &Grant| Arc::ptr_eq(&held.1, lease);
                assert!(self.holders.iter().any(holds), "nobody holds it");
            }
        }
    }

    /// Everything comes to its end: answers arrive, holders are done.
    fn end(&mut self) {
        // Each round brings somebody closer.
        for _ in 0..1_000 {
            while let Some(fetch) = self.fetches.pop() {
                let (by, node) = (self.by(), Arc::new(Node::default()));
                let todo = self.state.fetched(fetch.driver, Ok(node), &by);
                self.carry_out(todo);
                self.check();
            }
            while let Some(node) = self.asked.pop() {
                let by = self.by();
                let todo = self.state.asked(&node, false, &by);
                self.carry_out(todo);
                self.check();
            }
            while let Some(held) = self.holders.pop() {
                self.give_back(held, false);
                self.check();
            }
            if self.waiters.is_empty() && self.holders.is_empty() && self.fetches.is_empty() {
                return;
            }
        }
        panic!("somebody waits for ever");
    }
}

/// How many runs: fifty times as many in the long form.
fn runs() -> u64 {
    if std::env::var("ZKLOCK_LONG").is_ok_and(|long| long == "1") { 250_000 } else { 5_000 }
}

#[test]
fn nobody_waits_for_nothing_whatever_happens() {
    for seed in 1..=runs() {
        let (mut world, mut dice) = (World::new(), Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        for _ in 0..60 {
            world.step(&mut dice);
            world.check();
        }
        world.end();
    }
}
