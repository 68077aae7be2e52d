//! Who reads already may read again, also where a writer came between: that one waits for the
//! reader.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zklock::{
    Embedded, ErrorKind, FencingToken, Handoffs, LockError, LockOptions, RwLock, Session, StopAt,
    blocking, carry,
};
use zklock_test_support::Warnings;

use crate::support::{client, contenders, on, store};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::request_error::RequestError;

const LIMIT: Duration = Duration::from_secs(5);

fn lock(session: &Session) -> RwLock {
    session.rw_lock("a").unwrap()
}

/// With a bound that is reached at once, so that newcomers look behind the node.
fn strict(session: &Session) -> RwLock {
    let bound = Handoffs::new().most(0).within(Duration::from_secs(1));
    lock(session).with_options(LockOptions::default().handoffs(bound))
}

fn writes(lock: RwLock) -> JoinHandle<FencingToken> {
    crate::spawn(async move { lock.write().await.unwrap().fencing_token() })
}

fn reads(lock: RwLock) -> JoinHandle<FencingToken> {
    crate::spawn(async move { lock.read().await.unwrap().fencing_token() })
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Somebody reads. A writer waits for that one, of another process or of this one, and behind the
/// writer another reader, who found the node closed.
async fn writer_between(
    store: &Embedded,
    session: &Session,
    elsewhere: bool,
) -> (JoinHandle<FencingToken>, JoinHandle<FencingToken>) {
    let writer = writes(if elsewhere { lock(&on(store)) } else { lock(session) });
    settle().await;
    let reader = reads(strict(session));
    settle().await;
    assert!(!writer.is_finished() && !reader.is_finished());
    (writer, reader)
}

/// Inside of a writer as well, where the siblings take turns.
#[tokio::test(start_paused = true)]
async fn a_task_reads_again_in_a_scope_though_a_sibling_waits_to_write() {
    let (_store, session) = store();
    let lock = lock(&session);
    let outer = lock.write().await.unwrap();
    let in_scope = outer.scope(async {
        let first = lock.read().await.unwrap();
        let writer = crate::spawn(carry({
            let lock = lock.clone();
            async move { lock.write().await.unwrap().fencing_token() }
        }));
        settle().await;
        let second = timeout(LIMIT, lock.read()).await.unwrap().unwrap();
        let third = lock.try_read().await.unwrap();
        let fourth = lock.blocking_read_timeout(LIMIT).unwrap();
        // Another task has not read before, and waits its turn.
        let other = crate::spawn(carry({
            let lock = lock.clone();
            async move { lock.read().await.map(drop) }
        }));
        for reading in [first, second, third, fourth] {
            settle().await;
            assert!(reading.is_valid() && !writer.is_finished() && !other.is_finished());
            drop(reading);
        }
        timeout(LIMIT, writer).await.unwrap().unwrap();
        timeout(LIMIT, other).await.unwrap().unwrap().unwrap();
    });
    in_scope.await;
}

#[tokio::test(start_paused = true)]
async fn a_task_reads_again_though_a_writer_waits() {
    let warnings = Warnings::collect();
    for elsewhere in [true, false] {
        let (store, session) = store();
        let first = strict(&session).read().await.unwrap();
        let (writer, reader) = writer_between(&store, &session, elsewhere).await;
        // Through another handle, and in every way.
        let again = lock(&session);
        let plain = timeout(LIMIT, again.read()).await.expect("it waits for itself").unwrap();
        let tried = again.try_read().await.unwrap();
        let timed = again.read_timeout(LIMIT).await.unwrap();
        assert!([&plain, &tried, &timed].iter().all(|guard| guard.is_valid()));
        assert!(
            [&plain, &tried, &timed].iter().all(|guard| guard.node_path() == first.node_path())
        );
        settle().await;
        // The others keep their places.
        assert!(!writer.is_finished() && !reader.is_finished());
        assert!(reads_elsewhere(&session).await.is_busy());
        let last = timed.fencing_token();
        drop((first, plain, tried));
        settle().await;
        assert!(!writer.is_finished(), "a writer is in beside a reader");
        drop(timed);
        let wrote = writer.await.unwrap();
        assert!(wrote > last);
        assert!(reader.await.unwrap() > wrote);
        assert!(contenders(&store, "/zklock/a").await.is_empty());
    }
    assert_eq!(warnings.take(), [""; 0]);
}

/// The error of another task that tries.
async fn reads_elsewhere(session: &Session) -> LockError {
    let lock = lock(session);
    crate::spawn(async move { lock.try_read().await.unwrap_err() }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_spawned_task_reads_again_in_the_scope_that_reads() {
    let (store, session) = store();
    let around = session.mutex("around").unwrap().acquire().await.unwrap();
    around
        .scope(async {
            let first = strict(&session).read().await.unwrap();
            let (writer, reader) = writer_between(&store, &session, true).await;
            let again = lock(&session);
            let carried = crate::spawn(carry(async move { timeout(LIMIT, again.read()).await }));
            drop(carried.await.unwrap().expect("it waits for itself").unwrap());
            drop(first);
            assert!(reader.await.unwrap() > writer.await.unwrap());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn who_stepped_down_reads_again() {
    let (store, session) = store();
    let first = strict(&session).write().await.unwrap().downgrade().await.unwrap();
    let (writer, reader) = writer_between(&store, &session, true).await;
    let again = timeout(LIMIT, lock(&session).read()).await.expect("it waits for itself");
    assert!(again.unwrap().is_valid() && first.is_valid());
    drop(first);
    assert!(reader.await.unwrap() > writer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_to_let_go_reads_again_and_is_asked_too() {
    let (_store, session) = store();
    let revocable = LockOptions::default().revocable(true);
    let lock = lock(&session).with_options(revocable);
    let first = lock.read().await.unwrap();
    let writer = writes(lock.clone());
    settle().await;
    session.site("a").unwrap().revoke().await.unwrap();
    first.revoked().await;
    let again = timeout(LIMIT, lock.read()).await.expect("it waits for itself").unwrap();
    assert!(again.is_valid() && again.is_revoked());
    drop((first, again));
    writer.await.unwrap();
}

/// What was given away is another's, and a writer comes before whoever is not waited for.
#[tokio::test(start_paused = true)]
async fn who_gave_its_guard_away_waits_like_any_other() {
    let (store, session) = store();
    let first = strict(&session).read().await.unwrap().detach();
    let (writer, reader) = writer_between(&store, &session, true).await;
    let again = lock(&session);
    assert!(timeout(LIMIT, again.read()).await.is_err());
    assert!(again.try_read().await.unwrap_err().is_busy());
    drop(first);
    drop(again.read().await.unwrap());
    writer.await.unwrap();
    reader.await.unwrap();
}

/// They have nodes of their own, and the writer is ahead of those.
#[tokio::test(start_paused = true)]
async fn who_cannot_share_the_node_waits_and_is_told() {
    let plain = LockOptions::default();
    for (first, second) in [
        (plain, plain.fair(true)),
        (plain.fair(true), plain),
        (plain.fair(true), plain.fair(true)),
        (plain, plain.stop_at(StopAt::Suspect)),
    ] {
        let (store, session) = store();
        let of = |options| lock(&session).with_options(options);
        let reading = of(first).read().await.unwrap();
        let writer = writes(lock(&on(&store)));
        settle().await;
        told(&of(second).read_timeout(LIMIT).await.unwrap_err());
        drop(reading);
        writer.await.unwrap();
    }
    // Of two sessions each is like a process of its own.
    let (store, session) = store();
    let (other, reading) = (on(&store), lock(&session).read().await.unwrap());
    let writer = writes(lock(&on(&store)));
    settle().await;
    told(&lock(&other).read_timeout(LIMIT).await.unwrap_err());
    drop(reading);
    writer.await.unwrap();
}

fn told(error: &LockError) {
    let text = format!("{error:#}");
    assert!(error.is_busy() && text.contains("itself") && text.contains("scope"), "{text}");
}

#[test]
fn a_thread_reads_again_though_a_writer_waits() {
    for elsewhere in [true, false] {
        let (store, session) = store();
        let first = strict(&session).blocking_read().unwrap();
        let writing = if elsewhere { lock(&on(&store)) } else { lock(&session) };
        let writer = std::thread::spawn(move || writing.blocking_write().unwrap().fencing_token());
        let ahead = if elsewhere { 2 } else { 1 };
        let count = || {
            blocking::block_on(async {
                client(&store).await.children("/zklock/a").await.unwrap_or_default().len()
            })
        };
        while count() < ahead || session.local_contenders().len() < 3 - ahead {
            std::thread::yield_now();
        }
        let reading = strict(&session);
        let reader = std::thread::spawn(move || reading.blocking_read().unwrap().fencing_token());
        while session.local_contenders().len() < 4 - ahead {
            std::thread::yield_now();
        }
        let again = lock(&session).blocking_read_timeout(LIMIT);
        let again = again.expect("it waits for itself");
        assert!(again.is_valid() && !writer.is_finished());
        let last = again.fencing_token();
        drop((first, again));
        let wrote = writer.join().unwrap();
        assert!(wrote > last && reader.join().unwrap() > wrote);
    }
}

/// The thread that is blocked is the only one on which the reader ahead could go on.
#[tokio::test]
async fn a_blocked_runtime_reads_again_beside_its_own_task() {
    let (_store, session) = store();
    let held = crate::spawn({
        let lock = strict(&session);
        async move { lock.read().await.unwrap() }
    });
    let held = held.await.unwrap();
    let writer = writes(lock(&session));
    tokio::task::yield_now().await;
    let again = lock(&session);
    drop(again.blocking_read_timeout(LIMIT).unwrap());
    let error = again.blocking_write_timeout(LIMIT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    drop(held);
    writer.await.unwrap();
}

/// A session that is used no more ends with its last node. Who reads there reads again by that node, whoever
/// came meanwhile.
#[tokio::test(start_paused = true)]
async fn who_reads_in_a_session_that_is_used_no_more_reads_again() {
    let (store, session) = store();
    let reading = lock(&session).read().await.unwrap();
    let stuck = session.mutex("b").unwrap().acquire().await.unwrap();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("/b/").times(u64::MAX);
    store.faults(session.zookeeper_session().unwrap().id).inject(refused);
    stuck.release().await.unwrap_err();
    let writer = writes(lock(&on(&store)));
    settle().await;
    let reader = reads(lock(&session));
    settle().await;
    assert!(!writer.is_finished() && !reader.is_finished());
    let again = timeout(LIMIT, lock(&session).read()).await.expect("it waits for itself").unwrap();
    let tried = lock(&session).try_read().await.unwrap();
    assert!(again.node_path() == reading.node_path() && tried.node_path() == reading.node_path());
    drop((reading, again));
    settle().await;
    assert!(!writer.is_finished(), "a writer is in beside a reader");
    drop(tried);
    let wrote = writer.await.unwrap();
    assert!(reader.await.unwrap() > wrote);
}
