//! The view of a guard, after the guard.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use zklock::{AnyLock, GuardView, LockOptions, MultiLock, Session, blocking};

use crate::support::{on, store};

/// Waits for the end of what a view sees.
fn lost(view: GuardView) -> tokio::task::JoinHandle<()> {
    crate::spawn(async move {
        view.lost().await;
        assert!(!view.is_valid());
    })
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_view_is_told_when_its_guard_goes() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let (told, twice) = (lost(guard.view()), lost(guard.view()));
    settle().await;
    assert!(!told.is_finished() && !twice.is_finished());
    let view = guard.view();
    guard.release().await.unwrap();
    settle().await;
    assert!(told.is_finished() && twice.is_finished());
    let _other = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    assert!(lost(view).await.is_ok(), "also who asks later");
}

#[tokio::test(start_paused = true)]
async fn a_view_is_told_when_the_lock_is_handed_on() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let next = crate::spawn(async move { mutex.acquire().await.unwrap() });
    let told = lost(guard.view());
    settle().await;
    drop(guard);
    let next = next.await.unwrap();
    settle().await;
    assert!(told.is_finished(), "the next one has the lock, on the same node");
    let told = lost(next.view());
    settle().await;
    assert!(!told.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_view_is_told_when_the_last_of_nested_holds_goes() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let outer = mutex.acquire().await.unwrap();
    let inner = outer.scope(mutex.acquire()).await.unwrap();
    let told = lost(inner.view());
    settle().await;
    drop(inner);
    settle().await;
    assert!(!told.is_finished(), "the outer hold is the same lock");
    drop(outer);
    settle().await;
    assert!(told.is_finished());
}

#[tokio::test(start_paused = true)]
async fn views_of_permits_and_of_a_writer_who_steps_down_are_told() {
    let (_store, session) = store();
    let permits = session.semaphore("p", 3).unwrap().acquire_many(2).await.unwrap();
    let told = lost(permits.view());
    settle().await;
    drop(permits);
    settle().await;
    assert!(told.is_finished());
    let writer = session.rw_lock("a").unwrap().write().await.unwrap();
    let told = lost(writer.view());
    settle().await;
    let reader = writer.downgrade().await.unwrap();
    settle().await;
    assert!(told.is_finished() && reader.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_view_of_a_body_is_told_when_the_body_is_over() {
    let (_store, session) = store();
    let locks = ["a", "b"].map(|name| AnyLock::from(session.mutex(name).unwrap()));
    let guard = MultiLock::new(locks).unwrap().acquire().await.unwrap();
    let view = guard.scope(async { zklock::current().view() }).await.unwrap();
    let told = lost(view);
    settle().await;
    assert!(!told.is_finished());
    drop(guard);
    settle().await;
    assert!(told.is_finished());
}

#[tokio::test(start_paused = true)]
async fn of_two_readers_of_one_node_only_the_view_of_the_one_that_goes_is_told() {
    let (_store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    assert_eq!(one.node_path(), two.node_path());
    let (told, stays) = (lost(one.view()), lost(two.view()));
    let (view, other) = (one.view(), two.view());
    drop(one);
    settle().await;
    assert!(told.is_finished() && !view.is_valid());
    assert!(!stays.is_finished() && other.is_valid() && two.is_valid());
    // A third on the same node is nothing to the first.
    let three = lock.read().await.unwrap();
    assert!(!view.is_valid() && three.node_path() == two.node_path());
    two.release().await.unwrap();
    settle().await;
    assert!(stays.is_finished() && !other.is_valid() && three.is_valid());
}

/// Where the next caller of the process gets the same node, and where it has one of its own.
#[tokio::test(start_paused = true)]
async fn views_of_locks_of_every_kind_are_told_when_the_lock_is_handed_on() {
    let (_store, session) = store();
    let rw_lock = session.rw_lock("b").unwrap();
    let semaphore = session.semaphore("c", 3).unwrap();
    let fair = LockOptions::default().fair(true);
    let locks: [(&str, AnyLock); 6] = [
        ("writer", AnyLock::Write(rw_lock.clone())),
        ("fair writer", AnyLock::Write(rw_lock.with_options(fair))),
        ("fair", session.mutex("a").unwrap().with_options(fair).into()),
        ("exclusive", session.mutex("d").unwrap().with_driver(zklock::layout::OneNode).into()),
        ("permits", AnyLock::Permits(semaphore.clone(), 2)),
        ("fair permits", AnyLock::Permits(semaphore.with_options(fair), 2)),
    ];
    for (kind, lock) in locks {
        let guard = lock.acquire().await.unwrap();
        let next = crate::spawn(async move { lock.acquire().await.unwrap() });
        let (told, view) = (lost(guard.view()), guard.view());
        settle().await;
        assert!(!told.is_finished() && view.is_valid() && !next.is_finished(), "{kind}");
        drop(guard);
        let next = next.await.unwrap();
        settle().await;
        assert!(told.is_finished() && !view.is_valid(), "{kind}");
        let stays = lost(next.view());
        settle().await;
        assert!(!stays.is_finished() && next.is_valid(), "{kind}");
        next.release().await.unwrap();
        settle().await;
        assert!(stays.is_finished(), "{kind}");
    }
}

#[test]
fn a_thread_that_waits_for_the_end_of_a_view_is_told() {
    let session = Session::embedded();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.blocking_acquire().unwrap();
    let (told, tells) = mpsc::channel();
    for view in [guard.view(), guard.view()] {
        let told = told.clone();
        thread::spawn(move || {
            blocking::block_on(view.lost());
            told.send(view.is_valid()).unwrap();
        });
    }
    let next = thread::spawn(move || mutex.blocking_acquire().unwrap());
    assert!(tells.recv_timeout(Duration::from_millis(50)).is_err());
    guard.blocking_release().unwrap();
    for _ in 0..2 {
        assert_eq!(tells.recv_timeout(Duration::from_secs(10)), Ok(false));
    }
    assert!(next.join().unwrap().is_valid());
}
