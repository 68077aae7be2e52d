//! Locks whose holder is asked to let go.

use std::sync::Arc;
use std::time::Duration;

use zklock::layout::{Kazoo, Numbered};
use zklock::{Handoffs, LockOptions, Mutex, Session};

use crate::support::{client, contenders, on, store};

fn revocable(session: &Session) -> Mutex {
    let options = LockOptions::default().revocable(true);
    session.mutex("a").unwrap().with_options(options)
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lock_is_not_handed_on_to_the_next_here() {
    let (store, session) = store();
    let guard = revocable(&session).acquire().await.unwrap();
    let next = {
        let mutex = revocable(&session);
        crate::spawn(async move { mutex.acquire().await.unwrap() })
    };
    let other = {
        let mutex = revocable(&on(&store));
        crate::spawn(async move { mutex.acquire().await.unwrap() })
    };
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2);
    client(&store).await.set(guard.node_path(), b"__REVOKE__").await.unwrap();
    guard.revoked().await;
    assert!(guard.is_revoked() && guard.is_valid());
    drop(guard);
    let elsewhere = other.await.unwrap();
    assert!(!next.is_finished(), "the one who asked comes first");
    drop(elsewhere);
    drop(next.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_revoked_permit_is_not_handed_on_to_the_next_here() {
    let (store, session) = store();
    // For longer than it takes to hear of the wish.
    let handoffs = Handoffs::new().within(Duration::from_secs(60));
    let options = LockOptions::default().revocable(true).handoffs(handoffs);
    let semaphore = session.semaphore("a", 1).unwrap().with_options(options);
    let held = semaphore.acquire().await.unwrap();
    let path = held.node_path().to_owned();
    let next = crate::spawn(async move { semaphore.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(5)).await;
    client(&store).await.set(&path, b"__REVOKE__").await.unwrap();
    tokio::time::timeout(Duration::from_millis(10), held.revoked()).await.unwrap();
    assert!(held.is_revoked() && held.is_valid());
    drop(held);
    assert_ne!(next.await.unwrap().node_path(), path);
}

/// Whoever asked a writer asked the reader that it becomes.
#[tokio::test(start_paused = true)]
async fn a_revoked_writer_that_steps_down_is_a_revoked_reader() {
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let lock = lock.with_options(LockOptions::default().revocable(true));
    let writer = lock.write().await.unwrap().detach();
    client(&store).await.set(writer.node_path(), b"__REVOKE__").await.unwrap();
    writer.revoked().await;
    let reader = writer.downgrade().await.unwrap().detach();
    assert!(reader.is_revoked() && reader.is_valid());
    let refused = lock.try_read().await.unwrap_err();
    assert!(refused.is_busy(), "{refused:#}");
    drop(reader);
    drop(lock.read().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn no_reader_joins_readers_that_are_asked_to_release_and_is_told_so() {
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let lock = lock.with_options(LockOptions::default().revocable(true));
    // Of no task: who reads around a call gives it the lock again.
    let reader = lock.read().await.unwrap().detach();
    drop(lock.try_read().await.unwrap());
    client(&store).await.set(reader.node_path(), b"__REVOKE__").await.unwrap();
    reader.revoked().await;
    let refused = lock.try_read().await.unwrap_err();
    assert!(refused.is_busy(), "{refused:#}");
    assert!(format!("{refused:#}").ends_with(", asked to release"), "{refused:#}");
    let of_a_moment = LockOptions::default().timeout(Duration::from_millis(300)).retries(1);
    let late = lock.clone().with_options(of_a_moment).read_tries().await.unwrap_err();
    assert!(late.is_busy() && late.holder().unwrap().owner.revoked, "{late:#}");
    drop(reader);
    drop(lock.read().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lock_does_not_linger() {
    let (store, session) = store();
    let options = LockOptions::default().revocable(true).linger(Duration::from_secs(60));
    let mutex = session.mutex("a").unwrap().with_options(options);
    let guard = mutex.acquire().await.unwrap();
    client(&store).await.set(guard.node_path(), b"__REVOKE__").await.unwrap();
    guard.revoked().await;
    drop(guard);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    // And while it lingers it goes when it is asked.
    let path = mutex.acquire().await.unwrap().node_path().to_owned();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    client(&store).await.set(&path, b"__REVOKE__").await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_revoked_holder_that_goes_on_is_known_and_marked_as_asked() {
    let (store, session) = store();
    let layouts: [Arc<dyn Fn(Mutex) -> Mutex>; 3] = [
        Arc::new(|mutex| mutex),
        Arc::new(|mutex| mutex.with_driver(Kazoo::default())),
        // The data are the proof there.
        Arc::new(|mutex| mutex.with_driver(Numbered::lock())),
    ];
    for (number, layout) in layouts.iter().enumerate() {
        let named = |session: &Session| layout(session.mutex(format!("a{number}")).unwrap());
        let mutex = named(&session);
        let guard = mutex.acquire().await.unwrap();
        let other = named(&on(&store));
        for round in 0..2 {
            assert_eq!(other.site().revoke().await.unwrap(), 1);
            // It may be too many to be watched, or too early.
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert!(guard.is_revoked() && guard.is_valid(), "{round}");
            let queue = other.site().contenders().await.unwrap();
            let owner = &queue[0].owner;
            assert_eq!(
                (owner.pid, owner.revoked),
                (Some(std::process::id()), true),
                "layout {number}, round {round}"
            );
            let busy = other.try_acquire().await.unwrap_err();
            let holder = busy.holder().unwrap();
            assert_eq!((holder.owner.pid, holder.owner.revoked), (owner.pid, true), "{round}");
            assert!(format!("{busy:#}").contains("asked to release"), "{busy:#}");
        }
        guard.release().await.unwrap();
        // The next was not asked.
        let guard = mutex.acquire().await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!guard.is_revoked());
        assert!(!mutex.site().contenders().await.unwrap()[0].owner.revoked);
        guard.release().await.unwrap();
    }
}
