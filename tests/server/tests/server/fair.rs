//! First come, first served.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use zklock::layout::Kazoo;
use zklock::{AnyLock, LockOptions, Session};

use crate::bed::Bed;

const AT_ONCE: usize = 20;
const BATCHES: usize = 25;

#[tokio::test]
async fn fair_acquires_of_one_process_are_granted_in_the_order_of_the_calls() {
    let mutex = |session: &Session| session.mutex("a").unwrap().with_options(fair()).into();
    in_order("fair", mutex, BATCHES).await;
}

/// There all try to make the same node, and no server keeps an order.
#[tokio::test]
async fn fair_acquires_of_an_exclusive_lock_are_granted_in_the_order_of_the_calls() {
    let exclusive = |session: &Session| session.exclusive("a").unwrap().with_options(fair()).into();
    in_order("fair-exclusive", exclusive, 2).await;
}

#[tokio::test]
async fn fair_acquires_of_a_semaphore_are_granted_in_the_order_of_the_calls() {
    let semaphore = |session: &Session| session.semaphore("a", 1).unwrap().with_options(fair());
    in_order("fair-permits", |session| semaphore(session).into(), 5).await;
    let kazoo = |session: &Session| semaphore(session).driver(Kazoo::default()).unwrap().into();
    in_order("fair-permits-of-kazoo", kazoo, 5).await;
}

fn fair() -> LockOptions {
    LockOptions::new().fair(true)
}

/// The tasks of one thread are polled in the order in which they are spawned.
async fn in_order(root: &str, lock: impl Fn(&Session) -> AnyLock, batches: usize) {
    let bed = Bed::shared(root);
    let (other, session) = (bed.session().await, bed.session().await);
    let held = lock(&other).acquire().await.unwrap();
    let lock = lock(&session);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for batch in 0..batches {
        for number in 0..AT_ONCE {
            let (lock, order) = (lock.clone(), order.clone());
            tasks.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                order.lock().unwrap().push(batch * AT_ONCE + number);
                guard.release().await.unwrap();
            });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    held.release().await.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let order = order.lock().unwrap().clone();
    let inversions = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert_eq!((inversions, order.len()), (0, AT_ONCE * batches), "{order:?}");
    bed.end().await;
}

/// The directory is missing at first, and another process makes it just then; the calls come at once
/// and while the first of them are answered.
#[tokio::test]
async fn fair_acquires_of_a_new_lock_are_granted_in_the_order_of_the_calls() {
    const ROUNDS: u64 = 100;
    let bed = Bed::shared("fair-new");
    let (other, session) = (bed.session().await, bed.session().await);
    let mut turned_round = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("{round}/lock");
        let theirs = other.mutex(&name).unwrap();
        let theirs = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(round % 20 * 200)).await;
            theirs.acquire().await.unwrap().release().await.unwrap();
        });
        let mutex = session.mutex(&name).unwrap();
        let mutex = mutex.with_options(fair());
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for number in 0..AT_ONCE {
            let (mutex, order) = (mutex.clone(), order.clone());
            tasks.spawn(async move {
                let guard = mutex.acquire().await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            });
            if number % 4 == 0 {
                tokio::time::sleep(Duration::from_micros(round / 20 * 100)).await;
            }
        }
        tasks.join_all().await;
        theirs.await.unwrap();
        let order = order.lock().unwrap().clone();
        assert_eq!(order.len(), AT_ONCE);
        if !order.is_sorted() {
            turned_round.push((round, order));
        }
    }
    assert!(turned_round.is_empty(), "{} of {ROUNDS}: {turned_round:?}", turned_round.len());
    bed.end().await;
}
