//! Grants while leases are lost, and who is woken; gates.

use std::cell::Cell;
use std::thread;

use super::*;
use crate::base::policy::StopAt;
use crate::coordinator::connector::Connector;
use crate::coordinator::memory::Embedded;
use crate::observe::observer::LossReason;
use crate::session::timing::Timing;
use futures_lite::future::poll_once;

async fn generation() -> Arc<Generation> {
    let timeout = Duration::from_secs(12);
    let timing = Timing::of(timeout, None).unwrap();
    let coordinator = Embedded::new().connector(timeout).connect().await.unwrap();
    let lease = LeaseClock::new(Clock::Caller, timing, Clock::Caller.now());
    Generation::new(1, coordinator, lease, Spawner::Inline, Events::default(), WatchBudget::new(""))
}

#[tokio::test]
async fn a_grant_between_the_end_of_the_leases_and_their_loss_is_cared_for() {
    let generation = generation().await;
    let before = generation.grantable(StopAt::Lost).unwrap();
    generation.lease().end_epoch();
    let after = generation.grantable(StopAt::Lost).unwrap();
    assert!(generation.hold("/a".into(), "a".into(), 1, before, None).is_none());
    let granted = generation.hold("/b".into(), "b".into(), 2, after, None).unwrap();
    let careful = generation.grantable(StopAt::Suspect).unwrap();
    generation.doubt();
    assert!(generation.hold("/c".into(), "c".into(), 3, careful, None).is_none());
    let held: Vec<_> = generation.held().iter().map(|node| node.path.clone()).collect();
    assert!(held.len() == 1 && held[0] == granted.path, "{held:?}");
}

#[tokio::test]
async fn whatever_is_granted_while_leases_are_lost_is_cared_for_or_lost() {
    let generation = generation().await;
    let other = generation.clone();
    let losing = thread::spawn(move || (0..2_000).for_each(|_| other.lose_leases()));
    let mut number = 0;
    while !losing.is_finished() {
        number += 1;
        let path: Arc<str> = format!("/{number}").into();
        let Some(term) = generation.grantable(StopAt::Lost) else { continue };
        let Some(node) = generation.hold(path.clone(), "a".into(), number, term, None) else {
            continue;
        };
        let cared_for = generation.held().iter().any(|held| held.czxid == number);
        assert!(cared_for || !generation.lease().is_present(term), "{number}");
        generation.unhold(&node);
    }
    losing.join().unwrap();
}

/// Who loses the leases ends their term first, and looks afterwards which nodes that concerns. What is
/// granted in between belongs to the next term.
#[tokio::test]
async fn the_loss_of_what_is_granted_between_the_end_of_the_leases_and_their_loss_is_told() {
    let generation = generation().await;
    let hold = |path: &str, number, term| {
        let node = generation.hold(path.into(), "a".into(), number, term, None)?;
        let generation = generation.clone();
        let (of, lost) = (node.clone(), move || !generation.is_valid_at(term, Clock::Caller.now()));
        Some((node, Box::pin(async move { of.until(lost).await })))
    };
    let before = generation.grantable(StopAt::Lost).unwrap();
    let (_, mut first) = hold("/a", 1, before).unwrap();
    assert!(poll_once(&mut first).await.is_none());
    generation.lease().end_epoch();
    let after = generation.grantable(StopAt::Lost).unwrap();
    let (granted, mut next) = hold("/b", 2, after).unwrap();
    assert!(poll_once(&mut next).await.is_none());
    generation.lose_past();
    assert!(poll_once(&mut first).await.is_some());
    assert!(poll_once(&mut next).await.is_none() && generation.is_held(&granted));
    assert_eq!(generation.losses(), 1);
    // What was seen to be grantable before is not granted any more.
    assert!(hold("/c", 3, before).is_none());
    generation.lose_leases();
    assert!(poll_once(&mut next).await.is_some());
    assert_eq!(generation.losses(), 2);
    let last = generation.grantable(StopAt::Lost).unwrap();
    let (_, mut told) = hold("/d", 4, last).unwrap();
    assert!(poll_once(&mut told).await.is_none());
    generation.end();
    assert!(poll_once(&mut told).await.is_some());
    assert!(hold("/e", 5, last).is_none() && generation.holds_nothing());
    assert!(generation.grantable(StopAt::Lost).is_none());
}

/// Counts how often a future is woken that waits for the end of a lease.
#[derive(Default)]
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn news_of_a_node_wake_only_those_who_wait_for_it() {
    let generation = generation().await;
    let term = generation.grantable(StopAt::Lost).unwrap();
    let held: Vec<_> = (1..=4)
        .map(|number| {
            let path = format!("/{number}").into();
            generation.hold(path, "a".into(), number, term, None).unwrap()
        })
        .collect();
    let woken: Vec<Arc<Woken>> = held.iter().map(|_| Arc::default()).collect();
    let mut waiting: Vec<_> = held
        .iter()
        .map(|node| Box::pin(node.until(|| node.is_gone() || !generation.lease().is_present(term))))
        .collect();
    for (waiting, woken) in waiting.iter_mut().zip(&woken) {
        let waker = woken.clone().into();
        assert!(waiting.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    let times = || woken.iter().map(|woken| woken.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
    generation.revoked_node(&held[0]);
    assert_eq!(times(), [1, 0, 0, 0]);
    generation.lost_node(&held[1], LossReason::Deleted);
    assert_eq!(times(), [1, 1, 0, 0]);
    // At its path, this session makes a node again.
    generation.hold("/3".into(), "a".into(), 5, term, None).unwrap();
    assert_eq!(times(), [1, 1, 1, 0]);
    generation.lose_leases();
    assert_eq!(times(), [1, 1, 1, 1]);
}

/// The waker of an application whose executor has ended.
struct Ended;

impl std::task::Wake for Ended {
    fn wake(self: Arc<Self>) {
        panic!("the executor has ended");
    }
}

#[tokio::test]
async fn all_who_asked_the_same_are_told_though_the_waker_of_one_panics() {
    let (store, timeout) = (Embedded::new(), Duration::from_secs(12));
    let timing = Timing::of(timeout, None).unwrap();
    let coordinator = store.connector(timeout).connect().await.unwrap();
    let faults = store.faults(coordinator.session_id());
    let lease = LeaseClock::new(Clock::Caller, timing, Clock::Caller.now());
    let (inline, events) = (Spawner::Inline, Events::default());
    let generation = Generation::new(1, coordinator, lease, inline, events, WatchBudget::new(""));
    faults.hold_replies();
    let mut first = Box::pin(generation.read_together("/"));
    let waker = std::task::Waker::from(Arc::new(Ended));
    assert!(first.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    let second = generation.read_together("/");
    faults.release();
    assert!(second.await.is_ok());
}

#[tokio::test]
async fn what_was_read_before_it_was_written_is_not_the_version_of_a_node() {
    let generation = generation().await;
    let term = generation.grantable(StopAt::Lost).unwrap();
    let node = generation.hold("/a".into(), "a".into(), 1, term, None).unwrap();
    node.has_version(0);
    node.was_written(0);
    node.was_read(0);
    assert_eq!(node.version(), 1);
    node.was_read(3);
    assert_eq!(node.version(), 3);
    node.has_version(i32::MIN);
    node.was_read(2);
    assert_eq!(node.version(), 2);
}

thread_local! {
    /// How many gates were looked at, to forget those that nobody uses.
    pub(super) static VISITED: Cell<usize> = const { Cell::new(0) };
}

#[tokio::test]
async fn gates_of_many_directories_are_not_looked_through_for_each_of_them() {
    let (generation, before) = (generation().await, VISITED.get());
    let used: Vec<_> = (0..10_000).map(|number| generation.gate(&number.to_string())).collect();
    let visited = VISITED.get() - before;
    assert!(visited <= 2 * used.len(), "{visited} for {} directories", used.len());
    assert!(Arc::ptr_eq(&used[7], &generation.gate("7")));
}

#[tokio::test]
async fn gates_that_nobody_uses_are_forgotten() {
    let generation = generation().await;
    let used: Vec<_> = (0..100).map(|number| generation.gate(&number.to_string())).collect();
    for number in 0..10_000 {
        drop(generation.gate(&format!("of a moment {number}")));
        assert!(generation.gates.lock().unwrap().len() <= 8 * used.len(), "{number}");
    }
    assert!(Arc::ptr_eq(&used[7], &generation.gate("7")));
    drop(used);
    for number in 0..10_000 {
        drop(generation.gate(&format!("later {number}")));
    }
    assert!(generation.gates.lock().unwrap().capacity() <= 100, "of those at once");
}
