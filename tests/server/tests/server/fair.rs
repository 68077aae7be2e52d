//! First come, first served, on a busy day.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use zklock::layout::Kazoo;
use zklock::{AnyLock, LockOptions, Session};
use zklock_test_support::{Action, Direction, Matcher, OpCode, is_long};

use crate::bed::{Bed, soon, until};
use crate::kinds::{Held, Kind, Wait};

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
    let exclusive = |session: &Session| {
        session.mutex("a").unwrap().with_driver(zklock::layout::OneNode).with_options(fair()).into()
    };
    in_order("fair-exclusive", exclusive, 2).await;
}

#[tokio::test]
async fn fair_acquires_of_a_semaphore_are_granted_in_the_order_of_the_calls() {
    let semaphore = |session: &Session| session.semaphore("a", 1).unwrap().with_options(fair());
    in_order("fair-permits", |session| semaphore(session).into(), 5).await;
    let kazoo = |session: &Session| semaphore(session).with_driver(Kazoo::default()).into();
    in_order("fair-permits-of-kazoo", kazoo, 5).await;
    // Each needs two of three.
    let several = |session: &Session| {
        AnyLock::Permits(session.semaphore("a", 3).unwrap().with_options(fair()), 2)
    };
    in_order("fair-several-permits", several, 5).await;
}

fn fair() -> LockOptions {
    LockOptions::new().fair(true)
}

/// The tasks of one thread are polled in the order in which they are spawned.
async fn in_order(root: &str, lock: impl Fn(&Session) -> AnyLock, batches: usize) {
    let bed = Bed::shared(root);
    let (other, session) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&session]).await;
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
    drop(busy);
    bed.end().await;
}

/// Of so many callers of a read/write lock, the first writes.
const WRITES: usize = 4;

/// A writer if it is its turn, or a reader. Both stand in one queue.
fn writes_or_reads(number: usize) -> Kind {
    if number.is_multiple_of(WRITES) { Kind::WriteThere } else { Kind::Read }
}

/// Nobody has overtaken a writer, and no writer anybody. Readers between two writers are inside
/// together, and come in as they like.
fn came_in_turn(order: &[usize], count: usize) {
    // A writer is one turn, and the readers after it are another.
    let turn = |number: &usize| 2 * (number / WRITES) + usize::from(!number.is_multiple_of(WRITES));
    assert_eq!(order.len(), count);
    assert!(order.is_sorted_by_key(turn), "{order:?}");
}

/// In the order of the calls, at once, while others of the session are acquired and released.
#[tokio::test]
async fn fair_writers_and_readers_at_once_are_granted_in_the_order_of_the_calls() {
    // Among 500, those that race overtake each other by a dozen places. As each reads the list of all, twice as many
    // cost four times as much.
    let calls = if is_long() { 1_000 } else { 400 };
    let bed = Bed::shared("fair-at-once");
    let (other, session) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&session]).await;
    let held = Kind::WriteThere.acquire(&other).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..calls {
        let (session, order) = (session.clone(), order.clone());
        tasks.spawn(async move {
            let kind = writes_or_reads(number);
            let held = kind.take(&session, fair(), Wait::Forever).await.unwrap();
            order.lock().unwrap().push(number);
            held.release().await.unwrap();
        });
    }
    bed.until_nodes(Kind::Read.name(), calls + 1).await;
    held.release().await.unwrap();
    while let Some(done) = soon("all come in", tasks.join_next()).await {
        done.unwrap();
    }
    came_in_turn(&order.lock().unwrap(), calls);
    drop(busy);
    bed.end().await;
}

/// A call counts from when its request is sent, and the answers to some before it are still under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fair_calls_of_tasks_and_threads_are_granted_in_their_order() {
    const CALLS: usize = 120;
    let bed = Bed::shared("fair-threads");
    let proxy = bed.proxy();
    let (other, session) = (bed.session().await, bed.session_through(&proxy).await);
    let busy = bed.busy(&[&session]).await;
    let held = Kind::WriteThere.acquire(&other).await;
    let creation = Matcher::request(OpCode::Create2).path(&bed.path(Kind::Read.name()));
    let sent = proxy.on(creation, Action::Pass);
    proxy.delay_one_way(Direction::ToClient, Duration::from_millis(50));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut callers = JoinSet::new();
    for number in 0..CALLS {
        let (session, order, kind) = (session.clone(), order.clone(), writes_or_reads(number));
        let came_in = move |held: &Held| {
            assert!(held.is_valid());
            order.lock().unwrap().push(number);
        };
        if number % 3 == 0 {
            callers.spawn(async move {
                let held = kind.take(&session, fair(), Wait::Forever).await.unwrap();
                came_in(&held);
                held.release().await.unwrap();
            });
        } else {
            callers.spawn(async move {
                let on_a_thread = move || {
                    let held = kind.take_blocking(&session, fair(), Wait::Forever).unwrap();
                    came_in(&held);
                    held.blocking_release().unwrap();
                };
                spawn_blocking(on_a_thread).await.unwrap();
            });
        }
        let calls = u64::try_from(number).unwrap() + 1;
        until("it is sent", || (sent.hits() >= calls).then_some(())).await;
    }
    proxy.heal();
    held.release().await.unwrap();
    while let Some(done) = soon("all come in", callers.join_next()).await {
        done.unwrap();
    }
    came_in_turn(&order.lock().unwrap(), CALLS);
    drop(busy);
    bed.end().await;
}

/// The directory is missing at first, and another process makes it just then; the calls come at once
/// and while the first of them are answered.
#[tokio::test]
async fn fair_acquires_of_a_new_lock_are_granted_in_the_order_of_the_calls() {
    const ROUNDS: u64 = 100;
    let bed = Bed::shared("fair-new");
    let (other, session) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&session]).await;
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
    drop(busy);
    bed.end().await;
}
