//! The state of the local queue (joining, handoff, bound, linger, loss, giving up) under a
//! scheduler that tries the orders in which threads can run: every one of them for small casts,
//! random ones for large casts.
//!
//! ZooKeeper is played by a [`Fleet`] that has at most one node at the head. What is checked:
//! never two holders of valid leases, no grant on a lease that was lost, every node released
//! exactly once, every waiter gets an outcome, nothing left at the end.

// What goes wrong in here fails the test.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
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

/// A node that holds the lock.
#[derive(Debug)]
struct Node {
    number: usize,
    lost: AtomicBool,
    released: AtomicBool,
    revoked: AtomicBool,
    /// How many were let in on it.
    holders: AtomicUsize,
}

impl Lent for Node {
    fn is_valid(&self, _now: Instant) -> bool {
        !self.lost.load(Ordering::SeqCst) && !self.released.load(Ordering::SeqCst)
    }

    fn is_held(&self) -> bool {
        !self.lost.load(Ordering::SeqCst) && !self.released.load(Ordering::SeqCst)
    }

    fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::SeqCst)
    }

    fn is_retired(&self) -> bool {
        false
    }

    fn stop_at(&self) -> StopAt {
        StopAt::Lost
    }
}

/// ZooKeeper: one node is at the head, the next comes when that one is released or lost.
#[derive(Default)]
struct Fleet {
    head: Mutex<Option<Arc<Node>>>,
    made: AtomicUsize,
    released: AtomicUsize,
}

/// A holder, and its node.
type Grant = (usize, Arc<Node>);

struct World {
    state: Mutex<State<Node, usize, Grant>>,
    fleet: Fleet,
    /// Who is inside: writers count a thousand each.
    inside: AtomicUsize,
    /// The most readers that were inside together.
    together: AtomicUsize,
    granted: AtomicUsize,
    /// How many threads of the queue itself are under way.
    background: AtomicUsize,
    /// Counts changes: who waits for one sleeps, because a loop that spins has no last schedule.
    changes: Mutex<u64>,
    changed: Condvar,
    /// Whether another process seems to wait, and whether nodes get lost.
    rivals: bool,
    losses: bool,
    /// Whether every holder is asked to let go.
    revokes: bool,
}

/// Wakes a thread that waits for an outcome.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.ring.notify_all();
    }
}

impl Bell {
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.ring.wait(rung).unwrap();
        }
        *rung = false;
    }
}

const NOW: Instant = Instant::ORIGIN;

/// Makes the grants.
struct By;

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
        assert!(node.is_valid(NOW), "granted on a node that is lost");
        let earlier = node.holders.fetch_add(1, Ordering::SeqCst);
        assert!(earlier == 0 || !node.is_revoked(), "handed on although revoked");
        // Holders of different nodes may be in the way at the same time.
        let holder = 1_000 * node.number + earlier;
        (holder, (holder, node.clone()))
    }

    fn busy(&self, _: &Arc<Node>) -> LockError {
        busy()
    }
}

fn busy() -> LockError {
    LockError::new(ErrorKind::Busy, "")
}

fn closed() -> LockError {
    LockError::new(ErrorKind::Closing, "")
}

impl World {
    fn new(rivals: bool, losses: bool, revokes: bool) -> Arc<Self> {
        Arc::new(World {
            state: Mutex::new(State::new(false)),
            fleet: Fleet::default(),
            inside: AtomicUsize::new(0),
            together: AtomicUsize::new(0),
            granted: AtomicUsize::new(0),
            background: AtomicUsize::new(0),
            changes: Mutex::new(0),
            changed: Condvar::new(),
            rivals,
            losses,
            revokes,
        })
    }

    fn seen(&self) -> u64 {
        *self.changes.lock().unwrap()
    }

    fn change(&self) {
        *self.changes.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    fn wait_for_change(&self, seen: u64) {
        let mut changes = self.changes.lock().unwrap();
        while *changes == seen {
            changes = self.changed.wait(changes).unwrap();
        }
    }

    /// What the queue does with a decision, on threads of their own.
    fn carry_out(self: &Arc<Self>, todo: Todo<Node>) {
        if let Some(node) = todo.release {
            assert!(!node.released.swap(true, Ordering::SeqCst), "released twice");
            self.fleet.released.fetch_add(1, Ordering::SeqCst);
        }
        let rare = todo.rare.map(|rare| *rare).unwrap_or_default();
        assert!(rare.let_go.is_empty());
        if let Some(fetch) = todo.fetch {
            self.spawn(move |world| world.fetch(fetch));
        }
        if let Some(node) = rare.ask {
            self.spawn(move |world| {
                let todo = world.state.lock().unwrap().asked(&node, world.rivals, &By);
                world.carry_out(todo);
            });
        }
        if let Some(node) = rare.accompany {
            self.spawn(move |world| {
                let todo =
                    world.state.lock().unwrap().looked_behind(&node, Some(world.rivals), &By);
                world.carry_out(todo);
                loop {
                    let seen = world.seen();
                    // Whenever it looks, the time is over.
                    let (sleep, todo) = world.state.lock().unwrap().linger_on(&node, true, NOW);
                    world.carry_out(todo);
                    if sleep.is_none() {
                        return;
                    }
                    world.wait_for_change(seen);
                }
            });
        }
        todo.wake.into_iter().chain(todo.wake_all).for_each(Waker::wake);
        self.change();
    }

    fn spawn(self: &Arc<Self>, work: impl FnOnce(&Arc<World>) + Send + 'static) {
        self.background.fetch_add(1, Ordering::SeqCst);
        let world = self.clone();
        thread::spawn(move || {
            work(&world);
            world.background.fetch_sub(1, Ordering::SeqCst);
            world.change();
        });
    }

    fn fetch(self: &Arc<Self>, Fetch { driver, once, wants: mode, .. }: Fetch) {
        let result = loop {
            let seen = self.seen();
            let mut head = self.fleet.head.lock().unwrap();
            if head.as_ref().is_none_or(|node| !node.is_valid(NOW)) {
                let [lost, released, revoked] = [(); 3].map(|()| AtomicBool::new(false));
                let holders = AtomicUsize::new(0);
                let number = self.fleet.made.fetch_add(1, Ordering::SeqCst);
                let node = Arc::new(Node { number, lost, released, revoked, holders });
                *head = Some(node.clone());
                break Ok(node);
            }
            drop(head);
            if once {
                break Err(busy());
            }
            let wanted = matches!(
                self.state.lock().unwrap().phase(),
                Phase::Fetching(present) if present.driver == driver && present.wants == mode
            );
            if !wanted {
                break Err(busy());
            }
            // Whoever does not wait is told of the one ahead.
            let todo = self.state.lock().unwrap().met(driver, busy);
            self.carry_out(todo);
            self.wait_for_change(seen);
        };
        let todo = self.state.lock().unwrap().fetched(driver, result, &By);
        self.carry_out(todo);
    }

    /// One caller: joins, waits, works, gives back. Gives up after `patience` looks.
    fn call(
        self: &Arc<Self>,
        mode: Mode,
        once: bool,
        patience: Option<usize>,
        queue_policy: QueuePolicy,
    ) {
        let waiting = Waiter {
            who: Caller::thread(),
            wants: mode,
            since: NOW,
            once,
            queue_policy,
            label: None,
            ahead: 0,
        };
        let none = |_: &usize| Conflict::None;
        let joined = self.state.lock().unwrap().join(&waiting, &By, none, closed, false);
        let (joined, todo) = joined;
        self.carry_out(todo);
        let place = match joined {
            Joined::Granted(held) => return self.work(mode, &held, queue_policy.linger),
            Joined::Busy => return,
            Joined::Refused(error) => panic!("refused: {error}"),
            Joined::Waits(place) => place,
        };
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let mut looks = 0;
        loop {
            let polled = self.state.lock().unwrap().waiters.poll(place, &waker, &mut None);
            match polled {
                Poll::Ready(Some((_, Ok(held)))) => {
                    return self.work(mode, &held, queue_policy.linger);
                }
                Poll::Ready(Some((_, Err(error)))) => {
                    assert!(error.is_busy() && once, "{error}");
                    return;
                }
                Poll::Ready(None) => panic!("the outcome was taken twice"),
                Poll::Pending if patience.is_some_and(|patience| looks >= patience) => {
                    let (untaken, todo) = self.state.lock().unwrap().leave(place);
                    self.carry_out(todo);
                    if let Ok(Ok(held)) = untaken {
                        self.give_back(&held, queue_policy.linger);
                    }
                    return;
                }
                Poll::Pending => {
                    looks += 1;
                    if patience.is_some() { thread::yield_now() } else { bell.wait() }
                }
            }
        }
    }

    fn work(self: &Arc<Self>, mode: Mode, held: &Grant, linger: Duration) {
        let (weight, room) = if mode == Mode::Read { (1, 1_000) } else { (1_000, 1) };
        let (node, others) = (&held.1, self.inside.fetch_add(weight, Ordering::SeqCst));
        let valid = node.is_valid(NOW);
        assert!(others < room || self.losses, "two holders");
        self.together.fetch_max((others + weight) % 1_000, Ordering::SeqCst);
        self.granted.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        if self.revokes {
            // Between two decisions: what was decided a moment before is not looked at again.
            let _state = self.state.lock().unwrap();
            node.revoked.store(true, Ordering::SeqCst);
        }
        if self.losses && valid {
            // The lease runs out under the holder: others may come in, this one is told.
            // Between two decisions: who is let in a moment before reads the clock itself.
            let todo = {
                let mut state = self.state.lock().unwrap();
                node.lost.store(true, Ordering::SeqCst);
                state.leases_lost(NOW)
            };
            self.carry_out(todo);
        }
        self.inside.fetch_sub(weight, Ordering::SeqCst);
        self.give_back(held, linger);
    }

    fn give_back(self: &Arc<Self>, (holder, node): &Grant, linger: Duration) {
        let is_holder = |other: &usize| other == holder;
        let todo = self.state.lock().unwrap().release([node.clone()], is_holder, linger, &By);
        self.carry_out(todo);
    }

    /// At the end: everything made was released, nobody waits.
    fn check(&self) {
        loop {
            let seen = self.seen();
            if self.background.load(Ordering::SeqCst) == 0 {
                break;
            }
            self.wait_for_change(seen);
        }
        let state = self.state.lock().unwrap();
        assert_eq!(state.waiters.len(), 0);
        let made = self.fleet.made.load(Ordering::SeqCst);
        let released = self.fleet.released.load(Ordering::SeqCst);
        assert!(matches!(state.phase(), Phase::Idle), "{:?}", state.phase());
        assert_eq!(made, released, "a node was left behind");
    }
}

fn bound(most: u32) -> QueuePolicy {
    QueuePolicy {
        handoffs: Handoffs::new().most(most).within(Duration::from_secs(1)),
        ..QueuePolicy::default()
    }
}

fn lingering() -> QueuePolicy {
    QueuePolicy { linger: Duration::from_secs(1), ..bound(1) }
}

/// Tries only, patience, policy.
type Asking = (bool, Option<usize>, QueuePolicy);

/// One run of mutexes.
fn run(rivals: bool, losses: bool, callers: &[Asking]) {
    run_all((rivals, losses, false), callers.iter().map(|caller| (Mode::Mutex, *caller)));
}

/// One run. Answers how many readers were inside together.
fn run_all(
    (rivals, losses, revokes): (bool, bool, bool),
    callers: impl Iterator<Item = (Mode, Asking)> + Clone,
) -> usize {
    let world = World::new(rivals, losses, revokes);
    let threads: Vec<_> = callers
        .clone()
        .map(|(mode, (once, patience, queue_policy))| {
            let world = world.clone();
            thread::spawn(move || world.call(mode, once, patience, queue_policy))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let waits = callers.filter(|(_, (once, patience, _))| !once && patience.is_none()).count();
    assert!(world.granted.load(Ordering::SeqCst) >= waits, "somebody was forgotten");
    world.check();
    world.together.load(Ordering::SeqCst)
}

/// How many schedules: fifty times as many in the long form.
fn times(short: usize) -> usize {
    if std::env::var("ZKLOCK_LONG").is_ok_and(|long| long == "1") { short * 50 } else { short }
}

#[test]
fn two_waiters_in_every_order() {
    shuttle::check_dfs(|| run(false, false, &[(false, None, bound(1)); 2]), Some(times(4_000)));
}

#[test]
fn a_waiter_and_one_who_gives_up_in_every_order() {
    let callers = [(false, None, bound(1)), (false, Some(0), bound(1))];
    shuttle::check_dfs(move || run(false, false, &callers), Some(times(4_000)));
}

#[test]
fn a_waiter_and_a_try_in_every_order() {
    let callers = [(false, None, bound(0)), (true, None, bound(0))];
    shuttle::check_dfs(move || run(true, false, &callers), Some(times(4_000)));
}

#[test]
fn two_who_linger_in_every_order() {
    shuttle::check_dfs(|| run(true, false, &[(false, None, lingering()); 2]), Some(times(4_000)));
}

#[test]
fn many_with_rivals() {
    let callers = [
        (false, None, bound(2)),
        (false, None, bound(0)),
        (false, Some(1), bound(2)),
        (true, None, bound(1)),
        (false, None, lingering()),
        (false, Some(3), lingering()),
    ];
    shuttle::check_random(move || run(true, false, &callers), times(1_000));
}

#[test]
fn many_without_rivals() {
    let callers = [(false, None, bound(1)), (false, None, lingering()), (false, Some(2), bound(0))];
    let callers: Vec<_> = callers.iter().cycle().take(9).copied().collect();
    shuttle::check_random(move || run(false, false, &callers), times(1_000));
}

#[test]
fn many_whose_leases_are_lost() {
    let callers = [(false, None, bound(3)), (false, None, lingering()), (false, Some(2), bound(1))];
    let callers: Vec<_> = callers.iter().cycle().take(6).copied().collect();
    shuttle::check_random(move || run(true, true, &callers), times(1_000));
}

/// Readers and writers, a letter each.
fn cast(modes: &str, callers: &[Asking]) -> Vec<(Mode, Asking)> {
    let mode = |letter| if letter == 'R' { Mode::Read } else { Mode::Write };
    modes.chars().map(mode).zip(callers.iter().cycle().copied()).collect()
}

#[test]
fn a_reader_and_a_writer_in_every_order() {
    let callers = cast("RW", &[(false, None, bound(1))]);
    let run = move || {
        run_all((false, false, false), callers.iter().copied());
    };
    shuttle::check_dfs(run, Some(times(4_000)));
}

#[test]
fn two_readers_enter_together_in_some_orders() {
    let most = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (callers, seen) = (cast("RR", &[(false, None, bound(1))]), most.clone());
    let run = move || {
        let together = run_all((false, false, false), callers.iter().copied());
        seen.fetch_max(together, std::sync::atomic::Ordering::SeqCst);
    };
    shuttle::check_random(run, times(1_000));
    assert_eq!(most.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[test]
fn many_readers_and_writers() {
    let queue_policy = [
        (false, None, bound(2)),
        (false, Some(1), bound(0)),
        (true, None, bound(1)),
        (false, None, lingering()),
    ];
    for (rivals, losses, revokes) in
        [(true, false, false), (false, false, false), (true, true, false), (false, false, true)]
    {
        let callers = cast("RWRRWRRW", &queue_policy);
        let run = move || {
            run_all((rivals, losses, revokes), callers.iter().copied());
        };
        shuttle::check_random(run, times(500));
    }
}

#[test]
fn what_is_revoked_is_not_handed_on() {
    let queue_policy =
        [(false, None, bound(5)), (false, Some(2), bound(5)), (false, None, lingering())];
    let callers: Vec<_> = queue_policy.iter().cycle().take(6).map(|c| (Mode::Mutex, *c)).collect();
    let run = move || {
        run_all((false, false, true), callers.iter().copied());
    };
    shuttle::check_random(run, times(500));
}
