//! The view of a guard, after the guard.

use std::time::Duration;

use zklock::{AnyLock, GuardView, MultiLock};

use crate::support::{on, store};

/// Waits for the end of what a view sees.
fn lost(view: GuardView) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
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
    let next = tokio::spawn(async move { mutex.acquire().await.unwrap() });
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
    let view = guard.scope(async { zklock::current().view().cloned() }).await.unwrap();
    let told = lost(view);
    settle().await;
    assert!(!told.is_finished());
    drop(guard);
    settle().await;
    assert!(told.is_finished());
}
