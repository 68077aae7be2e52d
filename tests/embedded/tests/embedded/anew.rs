//! Who lost a lock acquires it anew, while others work in the scope of what it lost, or as one of them.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zklock::{Embedded, ErrorKind, Guard, LockOptions, RwLock, Session, StopAt, carry, kind};
use zklock_core::coordinator::memory::{Fault, Op};

use crate::reentrancy::leaves_behind;
use crate::support::{client, on, store};

/// Longer than anybody waits who does not wait for ever.
const LONG: Duration = Duration::from_secs(10);

const SECOND: Duration = Duration::from_secs(1);

fn strict() -> LockOptions {
    LockOptions::default().stop_at(StopAt::Suspect)
}

/// What is held is lost, and its node stays: the ZooKeeper session lives on.
async fn lose(store: &Embedded, session: &Session) {
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    sleep(Duration::from_millis(5)).await;
    faults.reconnect();
}

/// So many tasks read in the scope of a writer that goes, lose the lock together and do this with it.
async fn lose_it_together<F>(count: u32, then: impl Fn(u32, RwLock) -> F + Copy + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap().with_options(strict());
    let outer = lock.write().await.unwrap();
    let mut tasks = Vec::new();
    for nth in 0..count {
        let (inside, again) = (lock.clone(), lock.clone());
        let nested = outer.scope_sync(|| carry(async move { inside.read().await.unwrap() }));
        tasks.push(crate::spawn(async move {
            let lost = nested.await;
            lost.lost().await;
            then(nth, again).await;
            drop(lost);
        }));
    }
    sleep(SECOND).await;
    drop(outer);
    lose(&store, &session).await;
    for task in tasks {
        timeout(LONG, task).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_lost_it_together_begin_anew_together() {
    let begin = |_, again: RwLock| async move {
        sleep(SECOND).await;
        drop(again.read().await.unwrap());
    };
    lose_it_together(2, begin).await;
}

/// One who has given up is in nobody's way, and the last one who works on lets the others in.
#[tokio::test(start_paused = true)]
async fn who_begins_anew_waits_only_for_those_who_do_not() {
    let begin = |nth, again: RwLock| async move {
        sleep(2 * nth * SECOND).await;
        match nth {
            0 => assert!(again.read_timeout(SECOND).await.unwrap_err().is_busy()),
            1 => drop(again.read().await.unwrap()),
            _ => {}
        }
    };
    lose_it_together(3, begin).await;
}

/// Its nested guard is outside of the scope by then. It waits for the one around, until that has gone or begins
/// anew as well.
#[tokio::test(start_paused = true)]
async fn who_begins_anew_beside_the_guard_around_waits_for_that_one_alone() {
    for keeps in [false, true] {
        let (store, session) = store();
        let mutex = session.mutex("a").unwrap().with_options(strict());
        let outer = mutex.acquire().await.unwrap();
        let (inside, again) = (mutex.clone(), mutex.clone());
        let nested = outer.scope_sync(|| carry(async move { inside.acquire().await.unwrap() }));
        let task = crate::spawn(async move {
            let lost = nested.await;
            lost.lost().await;
            drop(again.acquire().await.unwrap());
            drop(lost);
        });
        sleep(SECOND).await;
        lose(&store, &session).await;
        sleep(SECOND).await;
        assert!(!task.is_finished(), "beside the guard around");
        let outer = Some(outer).filter(|_| keeps);
        if keeps {
            drop(timeout(LONG, mutex.acquire()).await.unwrap().unwrap());
        }
        timeout(LONG, task).await.unwrap().unwrap();
        drop(outer);
    }
}

/// What it lost goes, and is in nobody's way.
#[tokio::test(start_paused = true)]
async fn who_begins_anew_behind_another_process_is_not_told_that_it_waits_for_itself() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_options(strict());
    let lost = mutex.acquire().await.unwrap();
    let elsewhere = on(&store).mutex("a").unwrap();
    let other = crate::spawn(async move { elsewhere.acquire().await.unwrap() });
    sleep(SECOND).await;
    lose(&store, &session).await;
    let error = mutex.acquire_timeout(SECOND).await.unwrap_err();
    assert!(error.is_busy() && !format!("{error:#}").contains("itself"), "{error:#}");
    drop((other.await.unwrap(), lost));
}

/// It waits for a sibling that may end only after it.
#[tokio::test(start_paused = true)]
async fn who_waits_for_its_turn_in_a_scope_is_told_of_the_loss_at_once() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_options(strict());
    let outer = mutex.acquire().await.unwrap();
    let first = outer.scope(mutex.acquire()).await.unwrap();
    let (within, again) = (mutex.clone(), mutex.clone());
    let waits = outer.scope_sync(|| carry(async move { within.acquire().await }));
    let waits = crate::spawn(waits);
    sleep(SECOND).await;
    lose(&store, &session).await;
    let waited = timeout(SECOND, waits).await.unwrap().unwrap();
    assert!(waited.unwrap_err().is_lost());
    // Who comes later waits for no time at all, nor is it busy.
    let comes = outer.scope(async { (again.acquire().await, again.try_acquire().await) });
    let (waited, tried) = timeout(SECOND, comes).await.unwrap();
    assert!(waited.unwrap_err().is_lost() && tried.unwrap_err().is_lost());
    drop((first, outer));
}

/// What was nested elsewhere keeps the node for a while; what is on this thread would for ever.
#[tokio::test]
async fn a_thread_waits_for_what_keeps_what_it_lost_elsewhere() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_options(strict());
    let outer = mutex.acquire().await.unwrap();
    let left = outer.scope_sync(|| leaves_behind(&mutex));
    lose(&store, &session).await;
    drop(mutex.blocking_acquire().unwrap());
    left.join().unwrap();
    drop(outer);
    let outer = mutex.acquire().await.unwrap();
    let within = mutex.clone();
    let here = outer.scope_sync(|| carry(async move { within.acquire().await.unwrap() }));
    let here = crate::spawn(here).await.unwrap();
    lose(&store, &session).await;
    let error = mutex.blocking_acquire_timeout(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error:#}");
    drop((here, outer));
}

/// It goes, and its deletion takes a while.
async fn is_gone_when_it_is_released<K: kind::Kind>(store: &Embedded, lost: Guard<K>) {
    let path = lost.node_path().to_owned();
    assert!(lost.release().await.unwrap_err().is_lost());
    assert!(client(store).await.get(&path).await.is_err(), "{path} is still there");
}

/// What it lost is in nobody's way, and is being deleted since then: a release waits for that like any other. Readers
/// share the node.
#[tokio::test(start_paused = true)]
async fn who_has_begun_anew_and_releases_what_it_lost_waits_until_its_node_is_gone() {
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap().with_options(strict());
    let [one, other] = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    assert_eq!(one.node_path(), other.node_path());
    let semaphore = session.semaphore("b", 4).unwrap().with_options(strict());
    let permits = semaphore.acquire_many(2).await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    lose(&store, &session).await;
    for path in [one.node_path(), permits.node_path()] {
        faults.inject(Fault::lose_request().on(Op::Delete).path(path).times(5));
    }
    let anew = (lock.read().await.unwrap(), semaphore.acquire_many(2).await.unwrap());
    tokio::join!(
        is_gone_when_it_is_released(&store, one),
        is_gone_when_it_is_released(&store, other),
        is_gone_when_it_is_released(&store, permits)
    );
    assert!(anew.0.is_valid() && anew.1.is_valid());
}
