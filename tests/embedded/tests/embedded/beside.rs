//! One lock through handles with different options: they do not share a node, but it is one lock.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{LockError, LockOptions, Requeue, Session, StopAt};
use zklock_test_support::Warnings;

use crate::support::{contenders, on, store};

const DELAY: Duration = Duration::from_secs(5);

/// Options that do not share a node with each other.
fn kinds() -> [LockOptions; 6] {
    // A try has its answer, however slow the machine is.
    let plain = LockOptions::default().timeout(Duration::from_secs(60));
    [
        plain,
        plain.stop_at(StopAt::Suspect),
        plain.lock_delay(DELAY),
        plain.hold_at_least(Duration::from_millis(10)),
        plain.fair(true),
        plain.requeue(Requeue::NEVER),
    ]
}

const LONG: Duration = Duration::from_secs(1);

/// The error says that the caller waits for itself, and what to do.
fn assert_told(error: &LockError) {
    let text = format!("{error:#}");
    assert!(error.is_busy() && text.contains("itself") && text.contains("scope"), "{text}");
    assert_eq!(error.lock_name(), Some("a"));
}

fn mutex(session: &Session, options: LockOptions) -> zklock::Mutex {
    session.mutex("a").unwrap().with_options(options)
}

fn rw_lock(session: &Session, options: LockOptions) -> zklock::RwLock {
    session.rw_lock("a").unwrap().with_options(options)
}

#[tokio::test(start_paused = true)]
async fn who_holds_it_through_one_handle_and_waits_for_itself_through_another_is_told() {
    for first in kinds() {
        for second in kinds() {
            let (store, session) = store();
            let guard = mutex(&session, first).acquire().await.unwrap();
            assert_told(&mutex(&session, second).try_acquire().await.unwrap_err());
            let error = mutex(&session, second).acquire_timeout(LONG).await.unwrap_err();
            assert_told(&error);
            assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
            // Another task waits for it, and so does who said that another one releases it.
            let waiting = crate::spawn({
                let mutex = mutex(&session, second);
                async move { mutex.acquire().await.map(drop) }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            guard.release().await.unwrap();
            waiting.await.unwrap().unwrap();
            let _detached = mutex(&session, first).acquire().await.unwrap().detach();
            let error = mutex(&session, second).acquire_timeout(LONG).await.unwrap_err();
            assert!(error.is_busy(), "{first:?}, then {second:?}: {error}");
            assert!(!format!("{error:#}").contains("itself"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_sessions_each_is_a_process_of_its_own() {
    let (store, session) = store();
    let _guard = mutex(&session, LockOptions::default()).acquire().await.unwrap();
    let other = mutex(&on(&store), LockOptions::default().stop_at(StopAt::Suspect));
    let error = other.acquire_timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_scope_nests_through_another_handle() {
    let (_store, session) = store();
    for (first, second) in kinds().into_iter().zip(kinds().into_iter().rev()) {
        let guard = mutex(&session, first).acquire().await.unwrap();
        let nested = mutex(&session, second);
        guard.scope(async { drop(nested.acquire().await.unwrap()) }).await;
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn readers_hold_it_together_and_who_waits_behind_a_writer_for_itself_is_told() {
    let (plain, strict) = (LockOptions::default(), LockOptions::default().stop_at(StopAt::Suspect));
    for (first, second) in [(plain, strict), (strict, plain)] {
        let (_store, session) = store();
        let reading = rw_lock(&session, first).read().await.unwrap();
        let beside = rw_lock(&session, second).read().await.unwrap();
        assert_told(&rw_lock(&session, second).write_timeout(LONG).await.unwrap_err());
        drop(beside);
        let writing = crate::spawn({
            let lock = rw_lock(&session, second);
            async move { lock.write().await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_told(&rw_lock(&session, second).read_timeout(LONG).await.unwrap_err());
        reading.release().await.unwrap();
        writing.await.unwrap().unwrap();
        // And a writer waits for nobody else.
        let writing = rw_lock(&session, first).write().await.unwrap();
        assert_told(&rw_lock(&session, second).read_timeout(LONG).await.unwrap_err());
        writing.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_lost_it_through_one_handle_starts_anew_through_another() {
    let (store, session) = store();
    let strict = LockOptions::default().stop_at(StopAt::Suspect);
    let lost = mutex(&session, strict).acquire().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    faults.reconnect();
    assert!(!lost.is_valid());
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    let anew = mutex(&session, LockOptions::default());
    let anew = anew.acquire_timeout(Duration::from_secs(1)).await.unwrap();
    assert!(anew.fencing_token() > lost.fencing_token());
}

/// Another process's writer stands between the two readers: the second waits for that one, and that
/// one for the first.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_elsewhere_behind_its_own_reader_is_told() {
    let (plain, strict) = (LockOptions::default(), LockOptions::default().stop_at(StopAt::Suspect));
    let warnings = Warnings::collect();
    let impatient = plain.requeue(Requeue::NEVER);
    for (first, second) in
        [(plain, strict), (strict, plain), (plain.fair(true), plain), (plain, impatient)]
    {
        let (store, session) = store();
        let reading = rw_lock(&session, first).read().await.unwrap();
        let elsewhere = rw_lock(&on(&store), plain);
        let writing = crate::spawn(async move { elsewhere.write().await.map(drop) });
        tokio::time::sleep(Duration::from_millis(10)).await;
        let lock = rw_lock(&session, second);
        let waiting = timeout(Duration::from_millis(1_100), lock.read()).await;
        assert!(waiting.is_err());
        assert_eq!(warnings.take().len(), 1);
        assert_told(&lock.read_timeout(LONG).await.unwrap_err());
        assert_told(&lock.try_read().await.unwrap_err());
        assert_told(&lock.read_tries().await.unwrap_err());
        // Inside the scope of the first it is nested.
        drop(reading.scope(lock.read()).await.unwrap());
        drop(warnings.take());
        reading.release().await.unwrap();
        writing.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_thread_is_told_at_once_that_it_stops_itself() {
    let (_store, session) = store();
    let blocking = |options| mutex(&session, options);
    for first in kinds() {
        for second in kinds() {
            let guard = blocking(first).blocking_acquire().unwrap();
            let error = blocking(second).blocking_acquire_timeout(DELAY).unwrap_err();
            assert!(error.is_deadlock(), "{first:?}, then {second:?}: {error}");
            assert!(blocking(second).blocking_try_acquire().unwrap_err().is_busy());
            guard.blocking_release().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_each_other_are_not_taken_for_one() {
    let (store, session) = store();
    let tasks = kinds().into_iter().cycle().take(40).map(|options| {
        let mutex = mutex(&session, options);
        crate::spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            tokio::task::yield_now().await;
            guard.release().await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}
