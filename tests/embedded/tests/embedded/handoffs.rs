//! The bound of handoffs, exactly: so many, and so long, and then other processes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zklock::layout::Kazoo;
use zklock::{AnyLock, ErrorKind, Handoffs, LockOptions, Semaphore, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{client, on, prompt};

const LONG: Duration = Duration::from_secs(60);

/// What is let through the queue in one piece.
fn locks(session: &Session, bound: Handoffs) -> Vec<(u32, AnyLock)> {
    let options = LockOptions::new().handoffs(bound);
    let mutex = session.mutex("mutex").unwrap().with_options(options);
    let rw_lock = session.rw_lock("rw").unwrap().with_options(options);
    let mut locks = vec![(1, mutex.into()), (1, AnyLock::Write(rw_lock))];
    for limit in 1..=3 {
        locks.push((limit, semaphore(session, limit, bound).into()));
        let semaphore = session.semaphore(format!("kazoo-{limit}"), limit).unwrap();
        let semaphore = semaphore.with_options(options).with_driver(Kazoo::default());
        locks.push((limit, semaphore.into()));
    }
    locks
}

fn semaphore(session: &Session, limit: u32, bound: Handoffs) -> Semaphore {
    let semaphore = session.semaphore(format!("curator-{limit}"), limit).unwrap();
    semaphore.with_options(LockOptions::new().handoffs(bound))
}

async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

/// Locks with the options that a program gets which sets none.
fn locks_by_default(session: &Session) -> [AnyLock; 4] {
    [
        session.mutex("mutex").unwrap().into(),
        AnyLock::Write(session.rw_lock("rw").unwrap()),
        session.semaphore("curator", 1).unwrap().into(),
        session.semaphore("kazoo", 1).unwrap().with_driver(Kazoo::default()).into(),
    ]
}

type Order = Arc<Mutex<Vec<&'static str>>>;

/// Acquires, and notes it.
fn queue_up(lock: &AnyLock, name: &'static str, order: &Order, hold: Duration) {
    let (lock, order) = (lock.clone(), order.clone());
    crate::spawn(async move {
        let _guard = lock.acquire().await.unwrap();
        order.lock().unwrap().push(name);
        sleep(hold).await;
    });
}

#[tokio::test(start_paused = true)]
async fn exactly_so_many_are_handed_on_before_another_process_comes_in() {
    for most in [0, 1, 3] {
        let (store, session) = prompt();
        let (other, bound) = (on(&store), Handoffs::new().most(most).within(LONG));
        let ours = locks(&session, bound);
        for ((limit, lock), (_, there)) in ours.iter().zip(locks(&other, bound)) {
            let mut held = Vec::new();
            for _ in 0..*limit {
                held.push(lock.acquire().await.unwrap());
            }
            let order = Order::default();
            queue_up(&there, "there", &order, LONG);
            settle().await;
            for _ in 0..most + 4 {
                queue_up(lock, "here", &order, Duration::ZERO);
            }
            settle().await;
            drop(held.pop());
            settle().await;
            settle().await;
            let expected: Vec<_> = (0..most).map(|_| "here").chain(["there"]).collect();
            assert_eq!(*order.lock().unwrap(), expected, "{most} of {lock:?}");
        }
    }
}

const WITHIN: Duration = Duration::from_millis(50);
const HOLD: Duration = Duration::from_millis(10);

fn for_a_while() -> Handoffs {
    Handoffs::new().most(1_000_000).within(WITHIN)
}

/// Tasks of one process want the lock all the time, and somebody else wants it again and again.
#[tokio::test(start_paused = true)]
async fn by_default_another_session_waits_for_ten_milliseconds_and_one_hold() {
    const BY_DEFAULT: Duration = Duration::from_millis(10);
    const HOLD: Duration = Duration::from_millis(1);
    let (store, session) = prompt();
    for (ours, there) in locks_by_default(&session).iter().zip(locks_by_default(&on(&store))) {
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let ours = ours.clone();
            tasks.push(crate::spawn(async move {
                loop {
                    let guard = ours.acquire().await.unwrap();
                    sleep(HOLD).await;
                    guard.release().await.unwrap();
                }
            }));
        }
        // The first has the lock, and the others wait for it.
        tokio::task::yield_now().await;
        for round in 0..20 {
            let start = Instant::now();
            let guard = there.acquire().await.unwrap();
            let waited = start.elapsed();
            assert!(waited <= BY_DEFAULT + HOLD, "{round} of {ours:?}: {waited:?}");
            // The first turn began when it came; the later ones when it released the lock.
            if round % 2 == 0 {
                assert!(waited >= BY_DEFAULT, "{round} of {ours:?}: {waited:?}");
            }
            guard.release().await.unwrap();
            // In every other round it comes later, in the middle of a turn.
            if round % 2 == 0 {
                sleep(round * HOLD).await;
            }
        }
        for task in tasks {
            task.abort();
            drop(task.await);
        }
    }
}

/// Readers of one process, of whom some read all the time, keep a writer elsewhere out for no longer.
#[tokio::test(start_paused = true)]
async fn by_default_a_writer_elsewhere_waits_for_ten_milliseconds_and_one_hold_of_readers() {
    const BY_DEFAULT: Duration = Duration::from_millis(10);
    const HOLD: Duration = Duration::from_millis(4);
    let (store, session) = prompt();
    let lock = |session: &Session| session.rw_lock("rw").unwrap();
    for number in 0..4 {
        let ours = lock(&session);
        crate::spawn(async move {
            sleep(number * HOLD / 4).await;
            loop {
                let guard = ours.read().await.unwrap();
                sleep(HOLD).await;
                guard.release().await.unwrap();
            }
        });
    }
    sleep(HOLD).await;
    let there = lock(&on(&store));
    for round in 0..20 {
        let start = Instant::now();
        let guard = there.write().await.unwrap();
        let waited = start.elapsed();
        assert!(waited <= BY_DEFAULT + HOLD, "{round}: {waited:?}");
        // Their turn began when it released the lock.
        if round % 2 == 1 {
            assert!(waited >= BY_DEFAULT, "{round}: {waited:?}");
        }
        guard.release().await.unwrap();
        // In every other round it comes later, in the middle of a turn.
        if round % 2 == 1 {
            sleep(round * HOLD / 4).await;
        }
    }
}

/// Each enters beside the one before it, at the same moment.
#[tokio::test(start_paused = true)]
async fn by_default_ten_thousand_readers_enter_before_a_writer_elsewhere() {
    let (store, session) = prompt();
    let (ours, there) = (session.rw_lock("rw").unwrap(), on(&store).rw_lock("rw").unwrap());
    let mut reading = ours.read().await.unwrap().detach();
    let writing = crate::spawn(async move { there.write().await.map(drop) });
    tokio::task::yield_now().await;
    let (start, mut more) = (Instant::now(), 0);
    while let Ok(next) = ours.try_read().await {
        reading = next.detach();
        more += 1;
    }
    assert_eq!((more, start.elapsed()), (10_000, Duration::ZERO));
    assert!(!writing.is_finished());
    reading.release().await.unwrap();
    writing.await.unwrap().unwrap();
}

/// Another permit from ZooKeeper is no reason to keep the first for longer.
#[tokio::test(start_paused = true)]
async fn permits_are_handed_on_no_longer_since_the_first_of_them_came_from_zookeeper() {
    let (store, session) = prompt();
    let theirs = semaphore(&on(&store), 2, Handoffs::NONE).acquire().await.unwrap();
    let ours = semaphore(&session, 2, for_a_while()).into();
    let (order, start) = (Order::default(), Instant::now());
    for _ in 0..40 {
        queue_up(&ours, "here", &order, HOLD);
    }
    settle().await;
    let there = semaphore(&on(&store), 2, Handoffs::NONE);
    let waiting = crate::spawn(async move {
        let _permit = there.acquire().await.unwrap();
        start.elapsed()
    });
    sleep(Duration::from_millis(40)).await;
    drop(theirs);
    let waited = waiting.await.unwrap();
    assert!(waited >= WITHIN && waited <= WITHIN + HOLD, "{waited:?}");
}

/// Nor if it comes when the turn is over, and the first has not been given back yet.
#[tokio::test(start_paused = true)]
async fn a_permit_that_comes_at_the_end_of_a_turn_begins_no_second_one() {
    const HOLD: Duration = Duration::from_millis(15);
    let (store, session) = prompt();
    let third = semaphore(&on(&store), 2, Handoffs::NONE).acquire().await.unwrap();
    let ours = semaphore(&session, 2, for_a_while()).into();
    let (order, start) = (Order::default(), Instant::now());
    for _ in 0..40 {
        queue_up(&ours, "here", &order, HOLD);
    }
    settle().await;
    let there = semaphore(&on(&store), 2, Handoffs::NONE);
    let waiting = crate::spawn(async move {
        let _permits = there.acquire_many(2).await.unwrap();
        start.elapsed()
    });
    sleep(WITHIN + Duration::from_millis(3)).await;
    drop(third);
    let waited = waiting.await.unwrap();
    assert!(waited >= WITHIN && waited <= WITHIN + 2 * HOLD, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_was_kept_for_longer_is_not_handed_on_in_the_turn_of_a_later_one() {
    let (store, session) = prompt();
    let ours = semaphore(&session, 3, for_a_while());
    let first = ours.acquire().await.unwrap();
    sleep(WITHIN + HOLD).await;
    // The second begins no turn, since the first is held; its driver let others go ahead, so the third does.
    let (second, third) = (ours.acquire().await.unwrap(), ours.acquire().await.unwrap());
    let order = Order::default();
    queue_up(&semaphore(&on(&store), 3, Handoffs::NONE).into(), "there", &order, LONG);
    settle().await;
    for _ in 0..2 {
        queue_up(&ours.clone().into(), "here", &order, LONG);
    }
    settle().await;
    drop(first);
    settle().await;
    assert_eq!(*order.lock().unwrap(), ["there"]);
    drop(third);
    settle().await;
    assert_eq!(*order.lock().unwrap(), ["there", "here"]);
    drop(second);
    settle().await;
    assert_eq!(*order.lock().unwrap(), ["there", "here", "here"]);
}

/// A part of them is of the turn of the whole.
#[tokio::test(start_paused = true)]
async fn parts_are_handed_on_as_the_whole_is() {
    let (store, session) = prompt();
    let ours = semaphore(&session, 3, for_a_while());
    let mut two = ours.acquire_many(2).await.unwrap();
    let third = ours.acquire().await.unwrap();
    let order = Order::default();
    queue_up(&semaphore(&on(&store), 3, Handoffs::NONE).into(), "there", &order, LONG);
    settle().await;
    queue_up(&ours.clone().into(), "here", &order, LONG);
    settle().await;
    drop(two.split(1).unwrap());
    settle().await;
    assert_eq!(*order.lock().unwrap(), ["here"]);
    sleep(WITHIN).await;
    queue_up(&ours.clone().into(), "later", &order, LONG);
    settle().await;
    drop(two);
    settle().await;
    assert_eq!(*order.lock().unwrap(), ["here", "there"]);
    drop(third);
    settle().await;
    assert_eq!(*order.lock().unwrap(), ["here", "there", "later"]);
}

/// Where the turn of a process ends, it asks whether another process waits; and whoever released the lock
/// waits until that is decided, too.
#[tokio::test(start_paused = true)]
async fn a_release_at_the_bound_ends_when_the_node_is_gone_or_another_caller_has_the_lock() {
    for is_wanted in [false, true] {
        for kind in 0..2 {
            let (store, session) = prompt();
            let there = locks(&on(&store), Handoffs::NONE).swap_remove(kind).1;
            let lock = locks(&session, Handoffs::NONE).swap_remove(kind).1;
            let guard = lock.acquire().await.unwrap();
            let node = guard.node_path().to_owned();
            let theirs = crate::spawn(async move {
                if is_wanted {
                    let guard = there.acquire().await.unwrap();
                    sleep(LONG).await;
                    drop(guard);
                }
            });
            settle().await;
            let next = crate::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                sleep(LONG).await;
                guard.node_path().to_owned()
            });
            settle().await;
            let faults = store.faults(session.zookeeper_session().unwrap().id);
            faults.hold_replies();
            let mut releasing = Box::pin(guard.release());
            let moment = Duration::from_millis(100);
            assert!(tokio::time::timeout(moment, &mut releasing).await.is_err(), "{is_wanted}");
            faults.release();
            releasing.await.unwrap();
            let (directory, name) = node.rsplit_once('/').unwrap();
            let left = client(&store).await.children(directory).await.unwrap();
            let (stays, all) = (left.iter().any(|other| other == name), left.len());
            assert_eq!((stays, all), if is_wanted { (false, 2) } else { (true, 1) });
            // The node that was kept is the next caller's.
            assert_eq!(next.await.unwrap() == node, !is_wanted);
            theirs.await.unwrap();
        }
    }
}

/// A newcomer among readers has asked already: the answer decides what becomes of the node of the last one.
#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_while_a_newcomer_asks_waits_until_the_node_is_gone_or_the_newcomers()
{
    for (is_wanted, is_refused) in [(false, false), (true, false), (true, true)] {
        let (store, session) = prompt();
        let lock = |session: &Session| {
            let options = LockOptions::new().handoffs(Handoffs::NONE);
            session.rw_lock("rw").unwrap().with_options(options)
        };
        let reading = lock(&session).read().await.unwrap();
        let node = reading.node_path().to_owned();
        let there = lock(&on(&store));
        let theirs = crate::spawn(async move {
            if is_wanted {
                drop(there.write().await.unwrap());
            }
        });
        settle().await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.hold_replies();
        if is_refused {
            faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(&node));
        }
        let here = lock(&session);
        let next = crate::spawn(async move { here.read().await.unwrap().node_path().to_owned() });
        settle().await;
        let mut releasing = Box::pin(reading.release());
        let moment = Duration::from_millis(100);
        assert!(tokio::time::timeout(moment, &mut releasing).await.is_err(), "{is_wanted}");
        faults.release();
        assert_eq!(releasing.await.is_err(), is_refused, "{is_wanted}");
        assert_eq!(next.await.unwrap() == node, !is_wanted);
        theirs.await.unwrap();
    }
}

/// Then the node goes without an answer.
#[tokio::test(start_paused = true)]
async fn a_release_at_the_bound_waits_for_the_deletion_where_the_session_drains_meanwhile() {
    let (store, session) = prompt();
    let lock = locks(&session, Handoffs::NONE).swap_remove(0).1;
    let guard = lock.acquire().await.unwrap();
    let next = crate::spawn(async move { lock.acquire().await.unwrap_err() });
    settle().await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_replies();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(guard.node_path());
    faults.inject(refused);
    let mut releasing = Box::pin(guard.release());
    let moment = Duration::from_millis(100);
    assert!(tokio::time::timeout(moment, &mut releasing).await.is_err());
    drop(session.drain(Duration::from_millis(1)).await);
    assert!(next.await.unwrap().is_closing());
    faults.release();
    assert_eq!(releasing.await.unwrap_err().kind(), ErrorKind::Unauthorized);
}

/// The server answers nothing: neither the question nor the deletion.
#[tokio::test(start_paused = true)]
async fn a_release_at_the_bound_ends_in_time_in_silence() {
    let (store, session) = prompt();
    let lock = locks(&session, Handoffs::NONE).swap_remove(0).1;
    let guard = lock.acquire().await.unwrap();
    let next = crate::spawn(async move { lock.acquire().await.unwrap().is_valid() });
    settle().await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.silence();
    let start = Instant::now();
    drop(guard.release().await);
    assert!(start.elapsed() <= Duration::from_secs(15), "{:?}", start.elapsed());
    faults.reconnect();
    assert!(next.await.unwrap());
}
