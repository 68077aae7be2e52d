//! Waiting for oneself: an error where it is certain, and otherwise a wait that is told.

use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};
use zklock::blocking::block_on;
use zklock::layout::{Curator, MaxLeases};
use zklock::{
    AnyGuard, AnyLock, Embedded, ErrorKind, LockError, LockOptions, MultiLock, Session,
    ZkLockTemplate, carry,
};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::request_error::RequestError;
use zklock_test_support::Warnings;

use crate::support::{client, contenders, join_all, late, on, prompt, store};

/// One lock of every kind that excludes, each of a name of its own.
fn kinds(session: &Session) -> [AnyLock; 6] {
    // A try has its answer, however slow the machine is.
    let plain = LockOptions::default().timeout(Duration::from_secs(60));
    let fair = plain.fair(true);
    let mutex = |name, options| session.mutex(name).unwrap().with_options(options);
    let rw_lock = |name, options| session.rw_lock(name).unwrap().with_options(options);
    let permits = |name, limit| {
        let semaphore = session.semaphore(name, limit).unwrap().with_options(plain);
        AnyLock::Permits(semaphore, limit)
    };
    [
        mutex("mutex", plain).into(),
        mutex("fair", fair).into(),
        AnyLock::Write(rw_lock("write", plain)),
        AnyLock::Write(rw_lock("fair-write", fair)),
        permits("permits", 1),
        permits("two", 2),
    ]
}

/// Those that can be nested.
fn nestable(session: &Session) -> impl Iterator<Item = AnyLock> {
    kinds(session).into_iter().filter(|lock| !matches!(lock, AnyLock::Permits(..)))
}

/// After this long somebody who should have been refused at once comes back.
const LIMIT: Duration = Duration::from_secs(5);

/// Not long enough for every machine to say who holds.
const SHORT: Duration = Duration::from_millis(20);

fn alone(lock: &AnyLock) -> MultiLock {
    MultiLock::new([lock.clone()]).unwrap()
}

fn assert_told(error: &LockError) {
    assert!(error.is_busy(), "{error}");
    let text = format!("{error:#}");
    assert!(text.contains("itself") && text.contains("guard.scope(…)"), "{text}");
    assert!(text.contains("detach()"), "{text}");
}

/// It waited until its deadline.
fn assert_given_up(error: &LockError) {
    assert!(error.is_busy() || error.is_unavailable(), "{error}");
}

fn assert_deadlock(error: &LockError) {
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    assert!(format!("{error:#}").contains("spawn_blocking"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn futures_side_by_side_in_one_task_wait_for_each_other() {
    let (_store, session) = store();
    for lock in kinds(&session) {
        let calls = (0..10).map(|n| {
            let lock = &lock;
            async move {
                let guard = lock.acquire().await.unwrap();
                sleep(Duration::from_millis(n)).await;
                guard.release().await.unwrap();
            }
        });
        join_all(calls).await;
        // One branch holds it, another waits, whichever is polled first.
        let guard = lock.acquire().await.unwrap();
        let (waits, releases) = (lock.acquire(), async {
            sleep(Duration::from_millis(5)).await;
            drop(guard);
        });
        let (waited, ()) = tokio::join!(waits, releases);
        drop(waited.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_guard_of_the_same_task_is_told_after_a_second_and_at_the_end() {
    let (_store, session) = store();
    let warnings = Warnings::collect();
    for lock in kinds(&session) {
        let guard = lock.acquire().await.unwrap();
        let start = Instant::now();
        assert!(timeout(Duration::from_millis(900), lock.acquire()).await.is_err());
        assert_eq!(warnings.take().len(), 0, "{}", lock.name());
        assert!(timeout(Duration::from_millis(1_100), lock.acquire()).await.is_err());
        let told = warnings.take();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains(lock.name().as_str()) && told[0].contains("guard.scope(…)"),
            "{told:?}"
        );
        let error = alone(&lock).acquire_timeout(Duration::from_secs(2)).await.unwrap_err();
        assert_told(&error);
        assert_eq!(start.elapsed(), Duration::from_secs(4));
        assert_eq!(warnings.take().len(), 1, "{}", lock.name());
        // Who only tries does not wait, so there is nothing to be told to the log.
        let error = lock.try_acquire().await.unwrap_err();
        assert_told(&error);
        // A wait for somebody else is none for oneself, and a guard that was given away neither.
        let other = crate::spawn({
            let lock = alone(&lock);
            async move { lock.acquire_timeout(Duration::from_secs(2)).await.unwrap_err() }
        });
        assert!(!other.await.unwrap().to_string().contains("itself"));
        let guard = guard.detach();
        let error = alone(&lock).acquire_timeout(Duration::from_secs(2)).await.unwrap_err();
        assert!(error.is_busy() && !format!("{error:#}").contains("itself"), "{error}");
        assert_eq!(warnings.take().len(), 0, "{}", lock.name());
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_a_scope_for_a_guard_of_that_scope_is_told() {
    let (_store, session) = store();
    let around = session.mutex("around").unwrap().acquire().await.unwrap();
    for lock in kinds(&session) {
        let error = around
            .scope(async {
                let _guard = lock.acquire().await.unwrap();
                let one = alone(&lock);
                let nested = async move { one.acquire_timeout(Duration::from_secs(2)).await };
                crate::spawn(carry(nested)).await.unwrap().unwrap_err()
            })
            .await;
        assert_told(&error);
    }
}

#[tokio::test(start_paused = true)]
async fn two_nested_guards_of_one_task_are_told() {
    let (_store, session) = store();
    let warnings = Warnings::collect();
    for lock in nestable(&session) {
        let guard = lock.acquire().await.unwrap();
        guard
            .scope(async {
                let nested = lock.acquire().await.unwrap();
                let waited = timeout(Duration::from_millis(1_100), lock.acquire()).await;
                assert!(waited.is_err());
                let told = warnings.take();
                assert_eq!(told.len(), 1, "{told:?}");
                assert!(told[0].contains(lock.name().as_str()), "{told:?}");
                let error = alone(&lock).acquire_timeout(Duration::from_secs(2)).await;
                assert_told(&error.unwrap_err());
                assert_told(&lock.try_acquire().await.unwrap_err());
                drop(warnings.take());
                // One that was given away is waited for, and so is one of another branch.
                let nested = nested.detach();
                let release = async {
                    sleep(Duration::from_secs(2)).await;
                    drop(nested);
                };
                drop(tokio::join!(lock.acquire(), release).0.unwrap());
                assert_eq!(warnings.take().len(), 0);
            })
            .await;
    }
}

/// Wherever it is by now: only who moved it knows.
#[test]
fn a_nested_guard_of_the_same_thread_is_waited_for_and_told() {
    let (_store, session) = store();
    let warnings = Warnings::collect();
    for lock in nestable(&session) {
        let lock = alone(&lock);
        let guard = lock.blocking_acquire().unwrap();
        guard.scope_sync(|| {
            let nested = lock.blocking_acquire().unwrap();
            assert_given_up(&lock.blocking_acquire_timeout(SHORT).unwrap_err());
            assert_told(&lock.blocking_try_acquire().unwrap_err());
            drop(warnings.take());
            let told = warnings.count();
            let release = std::thread::spawn(move || {
                while told() == 0 {
                    std::thread::sleep(Duration::from_millis(10));
                }
                drop(nested);
            });
            drop(lock.blocking_acquire().unwrap());
            release.join().unwrap();
            assert_eq!(warnings.take().len(), 1);
        });
    }
}

#[tokio::test]
async fn a_nested_guard_of_the_thread_that_is_blocked_is_a_deadlock_at_once() {
    let (_store, session) = store();
    for lock in nestable(&session) {
        let lock = alone(&lock);
        let guard = lock.blocking_acquire().unwrap();
        guard.scope_sync(|| {
            let nested = lock.blocking_acquire().unwrap();
            assert_deadlock(&lock.blocking_acquire_timeout(LIMIT).unwrap_err());
            assert_deadlock(&lock.blocking_acquire().unwrap_err());
            assert!(lock.blocking_try_acquire().unwrap_err().is_busy());
            let nested = nested.detach();
            let release = std::thread::spawn(move || drop(nested));
            drop(lock.blocking_acquire().unwrap());
            release.join().unwrap();
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_task_does_not_wait_for_what_itself_runs() {
    let (_store, session) = store();
    let run = async move {
        for lock in nestable(&session) {
            let alone = alone(&lock);
            // A nested guard of this task may be another's by now.
            let guard = lock.acquire().await.unwrap();
            let nested = async {
                let nested = lock.acquire().await.unwrap();
                assert_given_up(&alone.blocking_acquire_timeout(SHORT).unwrap_err());
                let release = std::thread::spawn(move || drop(nested));
                drop(alone.blocking_acquire().unwrap());
                release.join().unwrap();
            };
            guard.scope(nested).await;
            drop(guard);
        }
        // A body of it is not.
        let template = ZkLockTemplate::new(session.clone());
        let mutex = session.mutex("body").unwrap();
        let (begin, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let body = template.execute("body", move || async move {
            begin.send(()).unwrap();
            ended.await.unwrap();
        });
        let other = async {
            begun.await.unwrap();
            let error = mutex.blocking_acquire_timeout(LIMIT).unwrap_err();
            end.send(()).unwrap();
            error
        };
        let (body, error) = tokio::join!(body, other);
        body.unwrap();
        assert_deadlock(&error);
        // And one that waits ahead.
        let held = crate::spawn({
            let mutex = session.mutex("body").unwrap();
            async move { mutex.acquire().await.unwrap() }
        });
        let held = held.await.unwrap();
        let release = async {
            tokio::task::yield_now().await;
            let error = mutex.blocking_acquire_timeout(LIMIT).unwrap_err();
            drop(held);
            error
        };
        let (waited, error) = tokio::join!(mutex.acquire(), release);
        assert_deadlock(&error);
        drop(waited.unwrap());
    };
    crate::spawn(run).await.unwrap();
}

#[tokio::test]
async fn a_blocking_acquire_is_refused_where_its_own_thread_holds() {
    let (_store, session) = store();
    for lock in kinds(&session) {
        let held = crate::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        let held = held.await.unwrap();
        refused_at_once(&lock);
        // One that was given away may be released elsewhere.
        let held = held.detach();
        assert_given_up(&alone(&lock).blocking_acquire_timeout(SHORT).unwrap_err());
        std::thread::spawn(move || drop(held));
        let own = alone(&lock).blocking_acquire().unwrap();
        refused_at_once(&lock);
        drop(own);
    }
}

fn refused_at_once(lock: &AnyLock) {
    // If it waited, this one would come back.
    assert_deadlock(&alone(lock).blocking_acquire_timeout(LIMIT).unwrap_err());
    assert_deadlock(&alone(lock).blocking_acquire().unwrap_err());
    assert_deadlock(&alone(lock).blocking_acquire_tries().unwrap_err());
    let error = alone(lock).blocking_try_acquire().unwrap_err();
    assert!(error.is_busy(), "{error}");
}

#[tokio::test]
async fn a_blocking_acquire_is_refused_behind_a_waiter_of_its_own_thread() {
    let (store, session) = store();
    for (lock, theirs) in kinds(&session).into_iter().zip(kinds(&crate::support::on(&store))) {
        let held = theirs.acquire().await.unwrap();
        let waiting = crate::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.map(drop) }
        });
        tokio::task::yield_now().await;
        refused_at_once(&lock);
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap();
        drop(alone(&lock).blocking_acquire().unwrap());
    }
}

/// It is turned away where another holds, also while its thread is blocked.
#[tokio::test]
async fn a_blocking_acquire_waits_behind_a_try_of_its_own_thread() {
    let (store, session) = store();
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(Duration::from_millis(20));
    for (lock, theirs) in kinds(&session).into_iter().zip(kinds(&crate::support::on(&store))) {
        let held = theirs.acquire().await.unwrap();
        let trying = crate::spawn({
            let lock = lock.clone();
            async move { lock.try_acquire().await.map(drop) }
        });
        tokio::task::yield_now().await;
        let (name, watched) = (lock.name().as_str().to_owned(), session.clone());
        let release = std::thread::spawn(move || {
            let waits =
                |one: &zklock::LocalContender| *one.lock == name && one.caller.contains("thread");
            while !watched.local_contenders().iter().any(waits)
                || watched.local_contenders().len() > 1
            {
                std::thread::yield_now();
            }
            drop(held);
        });
        drop(alone(&lock).blocking_acquire().unwrap());
        release.join().unwrap();
        assert!(trying.await.unwrap().unwrap_err().is_busy(), "{}", lock.name());
    }
}

#[tokio::test]
async fn a_blocking_acquire_is_refused_once_a_try_of_its_own_thread_has_the_lock() {
    let (store, session) = store();
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(Duration::from_millis(20));
    let fair = LockOptions::default().fair(true);
    let fair_writer = session.rw_lock("fair-b").unwrap().with_options(fair);
    for lock in [
        session.mutex("a").unwrap().into(),
        session.mutex("fair").unwrap().with_options(fair).into(),
        AnyLock::Write(session.rw_lock("b").unwrap()),
        AnyLock::Write(fair_writer),
        AnyLock::Permits(session.semaphore("c", 1).unwrap(), 1),
    ] {
        let trying = crate::spawn({
            let lock = lock.clone();
            async move { lock.try_acquire().await }
        });
        tokio::task::yield_now().await;
        assert_deadlock(&alone(&lock).blocking_acquire().unwrap_err());
        drop(trying.await.unwrap().unwrap());
        drop(alone(&lock).blocking_acquire().unwrap());
    }
}

/// As many hold it at once as there are leases: only those who take up all of them are in the way.
#[tokio::test]
async fn a_blocking_acquire_has_the_lease_that_its_own_thread_leaves() {
    let (store, session) = store();
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(Duration::from_millis(20));
    let fair = LockOptions::default().fair(true);
    for tries in [false, true] {
        let three = MaxLeases::new(3, Curator).unwrap();
        let lock = session.mutex(if tries { "a" } else { "b" }).unwrap();
        let lock = lock.with_driver(three).with_options(fair);
        let mut acquires = (0..2).map(|_| {
            let lock = lock.clone();
            crate::spawn(async move {
                if tries { lock.try_acquire().await } else { lock.acquire().await }
            })
        });
        // It has its lease before the thread is blocked, or is about to have it.
        let first = acquires.next().unwrap().await.unwrap().unwrap();
        let second = acquires.next().unwrap();
        tokio::task::yield_now().await;
        let third = lock.blocking_acquire_timeout(LIMIT).unwrap();
        let second = second.await.unwrap().unwrap();
        assert_deadlock(&lock.blocking_acquire_timeout(LIMIT).unwrap_err());
        third.release().await.unwrap();
        // Two hold it, and who comes next takes up the last one.
        let last = crate::spawn({
            let lock = lock.clone();
            async move { if tries { lock.try_acquire().await } else { lock.acquire().await } }
        });
        tokio::task::yield_now().await;
        assert_deadlock(&lock.blocking_acquire_timeout(LIMIT).unwrap_err());
        drop((first, second, last.await.unwrap().unwrap()));
    }
}

/// A session that is over after a silence of three seconds, locks of its own, and their guards in tasks of
/// this thread, which were lost in a silence that is not over yet.
async fn lost_in_silence(store: &Embedded) -> (Session, Vec<(AnyLock, AnyGuard)>) {
    let timeout = Duration::from_secs(3);
    let session = Session::embedded_builder(store).session_timeout(timeout).open().unwrap();
    let mut held = Vec::new();
    for lock in kinds(&session) {
        let acquires = crate::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        held.push((lock, acquires.await.unwrap()));
    }
    store.faults(session.zookeeper_session().unwrap().id).disconnect();
    for (_, lost) in &held {
        lost.view().lost().await;
    }
    (session, held)
}

/// The ZooKeeper session lives on, and so does the node until the guard is dropped: also where new locks use another
/// session, because a node could not be deleted.
#[tokio::test]
async fn a_blocking_acquire_is_refused_behind_what_its_own_thread_lost_and_has_not_given_back() {
    for retired in [false, true] {
        let store = late();
        let (session, lost) = lost_in_silence(&store).await;
        let old = session.zookeeper_session().unwrap();
        let faults = store.faults(old.id);
        faults.reconnect();
        if retired {
            let stuck = session.mutex("stuck").unwrap().acquire().await.unwrap();
            let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete);
            faults.inject(refused.path(stuck.node_path()));
            stuck.release().await.unwrap_err();
        }
        for (lock, lost) in lost {
            refused_at_once(&lock);
            // Also where it is known already who is in the way, because somebody else waits.
            let waits = std::thread::spawn({
                let lock = alone(&lock);
                move || lock.blocking_acquire().map(drop)
            });
            sleep(SHORT).await;
            let start = Instant::now();
            refused_at_once(&lock);
            assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
            // One that was given away may be released elsewhere.
            let lost = lost.detach();
            assert_given_up(&alone(&lock).blocking_acquire_timeout(SHORT).unwrap_err());
            std::thread::spawn(move || drop(lost));
            waits.join().unwrap().unwrap();
            drop(alone(&lock).blocking_acquire().unwrap());
        }
        assert_eq!(session.zookeeper_session().unwrap() != old, retired);
    }
}

/// Each answer takes longer than it is waited for at first.
#[tokio::test]
async fn a_blocking_acquire_is_refused_behind_what_its_own_thread_lost_where_answers_take_long() {
    let store = Embedded::new();
    let (session, lost) = lost_in_silence(&store).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.reconnect();
    faults.delay_replies(Duration::from_millis(550));
    // A mutex, and a semaphore.
    for (lock, lost) in lost
        .into_iter()
        .filter(|(lock, _)| matches!(lock, AnyLock::Mutex(_) | AnyLock::Permits(..)))
    {
        assert_deadlock(&alone(&lock).blocking_acquire_timeout(4 * LIMIT).unwrap_err());
        drop(lost);
    }
}

/// It goes with its session, or somebody deletes it.
#[tokio::test]
async fn a_blocking_acquire_waits_behind_what_its_own_thread_lost_where_the_node_goes() {
    for deleted in [false, true] {
        let store = late();
        let (session, lost) = lost_in_silence(&store).await;
        if deleted {
            store.faults(session.zookeeper_session().unwrap().id).reconnect();
            for (_, lost) in &lost {
                let view = lost.view();
                let (directory, _) = view.node_path().rsplit_once('/').unwrap();
                for name in contenders(&store, directory).await {
                    client(&store).await.delete(&format!("{directory}/{name}")).await.unwrap();
                }
            }
        }
        for (lock, _) in &lost {
            drop(alone(lock).blocking_acquire_timeout(LIMIT).unwrap());
        }
    }
}

/// Raises the limit in a node, from 1 to 2, once the only permit is held and somebody waits for one.
fn raises_once_somebody_waits(store: &Embedded, session: &Session) -> std::thread::JoinHandle<()> {
    let (store, session) = (store.clone(), session.clone());
    std::thread::spawn(move || {
        let is_full = || {
            let callers = session.local_contenders();
            callers.len() == 2 && callers.iter().any(|caller| caller.holds)
        };
        while !is_full() {
            std::thread::yield_now();
        }
        // Who is refused is refused by now.
        std::thread::sleep(SHORT);
        let raised = async { client(&store).await.set("/zklock/limit", &[0, 0, 0, 2]).await };
        block_on(raised).unwrap();
    })
}

#[tokio::test]
async fn a_blocking_acquire_waits_where_its_own_thread_holds_and_the_limit_may_be_raised() {
    for tries in [false, true] {
        let (store, session) = store();
        if tries {
            let faults = store.faults(session.zookeeper_session().unwrap().id);
            faults.delay_replies(Duration::from_millis(20));
        }
        let semaphore = session.semaphore_with_limit_at("printers", "limit", 1).unwrap();
        // It holds before the thread is blocked, or a try of its own has the permit only then.
        let holds = crate::spawn({
            let semaphore = semaphore.clone();
            async move { if tries { semaphore.try_acquire().await } else { semaphore.acquire().await } }
        });
        let held = if tries { Err(holds) } else { Ok(holds.await.unwrap()) };
        tokio::task::yield_now().await;
        let raises = raises_once_somebody_waits(&store, &session);
        drop(semaphore.blocking_acquire_timeout(Duration::from_secs(60)).unwrap());
        raises.join().unwrap();
        let held = match held {
            Ok(held) => held,
            Err(holds) => holds.await.unwrap(),
        };
        assert!(held.unwrap().is_valid());
    }
}

#[test]
fn a_local_set_is_recognised_in_any_runtime() {
    let (_store, session) = store();
    let check = || async {
        let other = session.mutex("other").unwrap().acquire().await.unwrap();
        for lock in kinds(&session) {
            let held = lock.acquire().await.unwrap();
            let waiting = tokio::task::spawn_local({
                let lock = lock.clone();
                async move { lock.acquire().await.unwrap() }
            });
            tokio::task::yield_now().await;
            // Behind a waiter, which then holds.
            let check = lock.clone();
            tokio::task::spawn_local(async move { refused_at_once(&check) }).await.unwrap();
            drop(held);
            let held: AnyGuard = waiting.await.unwrap();
            refused_at_once(&lock);
            drop(held);
        }
        drop(other);
    };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    LocalSet::new().block_on(&builder.enable_all().build().unwrap(), check());
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    LocalSet::new().block_on(&builder.worker_threads(1).enable_all().build().unwrap(), check());
}

#[tokio::test]
async fn readers_of_a_thread_are_in_nobodys_way_but_a_writers() {
    let (_store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let first = lock.read().await.unwrap();
    let second = lock.blocking_read().unwrap();
    assert_deadlock(&lock.blocking_write_timeout(LIMIT).unwrap_err());
    let writer = crate::spawn({
        let lock = lock.clone();
        async move { lock.write().await.map(drop) }
    });
    tokio::task::yield_now().await;
    // The writer waits for this thread, so this reader does not wait for the writer.
    drop(lock.blocking_read_timeout(LIMIT).unwrap());
    drop((first, second));
    writer.await.unwrap().unwrap();
    drop(lock.blocking_read().unwrap());
}

/// On one thread of a pool: a guard is made, and moved to where it is released after a while.
fn moves_away(runtime: &tokio::runtime::Runtime) {
    let (_store, session) = store();
    for lock in kinds(&session) {
        for detached in [false, true] {
            let (tell, told) = mpsc::channel();
            let (first, again) = (alone(&lock), alone(&lock));
            let acquire = runtime.spawn_blocking(move || {
                let guard = first.blocking_acquire().unwrap();
                tell.send(if detached { guard.detach() } else { guard }).unwrap();
            });
            runtime.block_on(acquire).unwrap();
            let guard = told.recv().unwrap();
            let (tell, told) = mpsc::channel();
            let waiting = runtime.spawn_blocking(move || {
                assert_given_up(&again.blocking_acquire_timeout(SHORT).unwrap_err());
                assert!(again.blocking_try_acquire().unwrap_err().is_busy());
                tell.send(()).unwrap();
                again.blocking_acquire().map(drop)
            });
            told.recv().unwrap();
            drop(guard);
            runtime.block_on(waiting).unwrap().unwrap();
        }
    }
}

#[test]
fn a_guard_that_a_pools_thread_made_says_nothing_of_that_thread() {
    let one =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    moves_away(&one.unwrap());
    let several = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .max_blocking_threads(1)
        .build();
    moves_away(&several.unwrap());
}

#[test]
fn a_plain_thread_waits_for_its_guard_under_its_deadline_and_is_told() {
    let (_store, session) = store();
    let warnings = Warnings::collect();
    for lock in kinds(&session) {
        let lock = alone(&lock);
        let guard = lock.blocking_acquire().unwrap();
        assert_given_up(&lock.blocking_acquire_timeout(SHORT).unwrap_err());
        assert_told(&lock.blocking_try_acquire().unwrap_err());
        drop(warnings.take());
        let told = warnings.count();
        let release = std::thread::spawn(move || {
            while told() == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
            drop(guard);
        });
        drop(lock.blocking_acquire().unwrap());
        release.join().unwrap();
        assert_eq!(warnings.take().len(), 1);
    }
}

/// The writer was detached, and steps down on another thread: the reader that it becomes is on no other one.
#[tokio::test]
async fn a_thread_waits_for_a_detached_writer_that_steps_down_elsewhere() {
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let writing = lock.write().await.unwrap().detach();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(Duration::from_millis(100));
    let stepping = std::thread::spawn(move || drop(writing.blocking_downgrade().unwrap()));
    // The reader's node is there, and the writer's is being deleted.
    while contenders(&store, "/zklock/a").await.len() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_millis(130)).await;
    drop(lock.blocking_write_timeout(LIMIT).unwrap());
    stepping.join().unwrap();
}

/// The reader that it becomes is given back in the background.
#[tokio::test]
async fn a_thread_waits_for_a_writer_whose_step_down_it_has_given_up() {
    let (store, session) = prompt();
    let lock = session.rw_lock("a").unwrap();
    let writing = lock.write().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(Duration::from_millis(300));
    let mut stepping = Box::pin(writing.downgrade());
    // The reader's node is there, and the writer's is being deleted.
    store.record();
    let is_deleted = || store.recorded().iter().any(|logged| logged.op == Op::Delete);
    while !is_deleted() {
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut stepping).await.is_err());
    }
    drop(stepping);
    drop(lock.blocking_write_timeout(LIMIT).unwrap());
}

/// It goes on without its thread, and lets readers in; if it does not, they would wait for themselves.
#[tokio::test]
async fn a_thread_waits_for_a_writer_of_its_own_that_steps_down_to_read_beside_it() {
    let (store, session) = prompt();
    let lock = session.rw_lock("a").unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let refuse = || {
        faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Create).path("__READ__"));
    };
    for is_refused in [false, true] {
        faults.delay_replies(Duration::ZERO);
        let writing = lock.write().await.unwrap();
        faults.delay_replies(Duration::from_millis(100));
        if is_refused {
            refuse();
        }
        let mut stepping = Box::pin(writing.downgrade());
        assert!(timeout(Duration::ZERO, &mut stepping).await.is_err());
        assert_deadlock(&lock.blocking_write_timeout(LIMIT).unwrap_err());
        let reading = lock.blocking_read_timeout(LIMIT);
        if is_refused {
            assert_deadlock(&reading.unwrap_err());
            assert!(stepping.await.unwrap_err().into_guard().is_valid());
        } else {
            assert!(stepping.await.unwrap().is_valid() && reading.unwrap().is_valid());
        }
    }
}

/// Whoever reads by a node of its own is behind a writer of another process, which is behind what the writer becomes.
#[tokio::test]
async fn a_thread_does_not_wait_for_a_writer_that_steps_down_while_a_write_is_in_doubt() {
    let (store, session) = prompt();
    let lock = session.rw_lock("a").unwrap();
    let writing = lock.write().await.unwrap();
    let theirs = on(&store).rw_lock("a").unwrap();
    let theirs = crate::spawn(async move { theirs.write().await.map(drop) });
    while contenders(&store, "/zklock/a").await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(Duration::from_millis(100));
    let fenced = writing.fenced();
    assert!(timeout(Duration::ZERO, fenced.create("/x", b"1")).await.is_err());
    let mut stepping = Box::pin(writing.downgrade());
    assert!(timeout(Duration::ZERO, &mut stepping).await.is_err());
    assert_deadlock(&lock.blocking_read_timeout(LIMIT).unwrap_err());
    stepping.await.unwrap().release().await.unwrap();
    theirs.await.unwrap().unwrap();
}

/// Of those who wait in another queue, only the first has asked ZooKeeper.
#[tokio::test]
async fn a_thread_waits_for_a_permit_before_those_who_have_not_asked_for_theirs() {
    let (store, session) = store();
    let semaphore = session.semaphore("a", 3).unwrap();
    drop(semaphore.acquire().await.unwrap());
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(Duration::from_millis(20));
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let semaphore = semaphore.clone();
            crate::spawn(async move { semaphore.acquire().await.map(drop) })
        })
        .collect();
    tokio::task::yield_now().await;
    let fair = semaphore.clone().with_options(LockOptions::new().fair(true));
    drop(fair.blocking_acquire_timeout(LIMIT).unwrap());
    for one in waiting {
        one.await.unwrap().unwrap();
    }
}
