//! One name as locks of two kinds that do not exclude each other, in two processes: for each other,
//! sessions that name the servers differently are those of two processes.

use std::time::Duration;

use zklock::layout::Kazoo;
use zklock::{Acl, AnyLock, ErrorKind, LockError, LockOptions, Session};
use zklock_test_support::{Action, Matcher, OpCode, Proxy};

use crate::bed::{Bed, PATIENCE, until};

/// A slow machine is no silent server.
fn patient() -> LockOptions {
    LockOptions::new().timeout(PATIENCE)
}

/// The locks that do not see a semaphore.
fn locks(session: &Session, kazoo: bool) -> Vec<AnyLock> {
    let mutex = session.mutex("a").unwrap().with_options(patient());
    let rw_lock = session.rw_lock("a").unwrap().with_options(patient());
    let fair = mutex.clone().with_options(LockOptions::new().fair(true));
    if kazoo {
        let rw_lock = rw_lock.with_driver(Kazoo::default());
        let [mutex, fair] = [mutex, fair].map(|mutex| mutex.with_driver(Kazoo::default()));
        let (read, write) = (AnyLock::Read(rw_lock.clone()), AnyLock::Write(rw_lock));
        return vec![mutex.into(), fair.into(), read, write];
    }
    vec![mutex.into(), fair.into(), AnyLock::Read(rw_lock.clone()), AnyLock::Write(rw_lock)]
}

fn semaphore(session: &Session, kazoo: bool) -> AnyLock {
    let semaphore = session.semaphore("a", 5).unwrap().with_options(patient());
    if kazoo { semaphore.with_driver(Kazoo::default()).into() } else { semaphore.into() }
}

/// A root of its own for each layout, and the sessions of two processes, one of them behind a proxy.
async fn two_processes(name: &str, kazoo: bool) -> (Bed, Proxy, Session, Session) {
    let name = if kazoo { format!("{name}-kazoo") } else { name.to_owned() };
    let bed = Bed::shared(&name);
    let proxy = bed.proxy();
    let (here, there) = (bed.session().await, bed.session_through(&proxy).await);
    (bed, proxy, here, there)
}

fn assert_told(error: &LockError, present: &str) {
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error:#}");
    let said = error.to_string();
    assert!(said.contains(present) && said.contains("another name"), "{said}");
    assert!(error.holder().is_some_and(|holder| holder.owner.app.as_deref() == Some("tests")));
}

async fn is_told(lock: &AnyLock, present: &str) {
    let waited = tokio::time::timeout(PATIENCE, lock.acquire()).await;
    for refused in [lock.try_acquire().await, waited.unwrap()] {
        assert_told(&refused.map(drop).unwrap_err(), present);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_second_with_another_kind_is_told_in_another_process_too() {
    for kazoo in [false, true] {
        let (bed, _proxy, here, there) = two_processes("two-kinds", kazoo).await;
        let busy = bed.busy(&[&here, &there]).await;
        let kinds = ["a mutex", "a mutex", "a read/write lock", "a read/write lock"];
        for (lock, kind) in locks(&here, kazoo).iter().zip(kinds) {
            // The name of a writer of kazoo does not tell.
            let kind = if kazoo && matches!(lock, AnyLock::Write(_)) { "a mutex" } else { kind };
            let held = lock.acquire().await.unwrap();
            is_told(&semaphore(&there, kazoo), kind).await;
            assert!(held.is_valid());
            held.release().await.unwrap();
            semaphore(&there, kazoo).acquire().await.unwrap().release().await.unwrap();
        }
        let permits = semaphore(&here, kazoo);
        let held = [permits.acquire().await.unwrap(), permits.acquire().await.unwrap()];
        for lock in locks(&there, kazoo) {
            is_told(&lock, "a semaphore").await;
        }
        for permit in held {
            assert!(permit.is_valid());
            permit.release().await.unwrap();
        }
        for lock in locks(&there, kazoo) {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        drop(busy);
        bed.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_kinds_that_come_at_once_not_both_enter() {
    for kazoo in [false, true] {
        let (bed, _proxy, here, there) = two_processes("at-once", kazoo).await;
        let (mut first, mut second) = (0, 0);
        for round in 0..60 {
            let (lock, permits) = (locks(&here, kazoo).remove(round % 4), semaphore(&there, kazoo));
            // Who is ahead varies.
            let pause = Duration::from_micros(round as u64 * 200 % 5_000);
            let late = async {
                tokio::time::sleep(pause).await;
                lock.try_acquire().await
            };
            let (lock, permit) = tokio::join!(late, permits.try_acquire());
            match (&lock, &permit) {
                (Ok(_), Ok(_)) => panic!("both entered in round {round}"),
                (Ok(_), Err(_)) => first += 1,
                (Err(_), Ok(_)) => second += 1,
                (Err(_), Err(_)) => {}
            }
            for error in [lock.as_ref().err(), permit.as_ref().err()].into_iter().flatten() {
                assert!(error.kind() == ErrorKind::InvalidOption, "{error:#}");
            }
            for guard in [lock, permit].into_iter().flatten() {
                guard.release().await.unwrap();
            }
        }
        println!("the lock entered {first} times, the semaphore {second} times");
        bed.end().await;
    }
}

/// What the server has shown may be gone when its answer comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_given_back_while_somebody_looks_is_free_for_another_kind() {
    for kazoo in [false, true] {
        let (bed, proxy, here, there) = two_processes("gone", kazoo).await;
        for lock in locks(&here, kazoo) {
            let held = lock.acquire().await.unwrap();
            let shown = Matcher::reply(OpCode::GetData).path(held.node_path()).first(1);
            let shown = proxy.on(shown, Action::Hold);
            let permits = semaphore(&there, kazoo);
            let asking = tokio::spawn(async move { permits.acquire().await });
            until("the answer is held back", || (shown.hits() == 1).then_some(())).await;
            held.release().await.unwrap();
            shown.release();
            let permit = asking.await.unwrap().unwrap_or_else(|error| panic!("{error:#}"));
            permit.release().await.unwrap();
        }
        bed.end().await;
    }
}

/// What was released may still be there for a moment. This process knows that nobody uses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_released_can_be_used_as_another_kind_at_once() {
    for kazoo in [false, true] {
        let bed = Bed::shared(if kazoo { "other-kind-kazoo" } else { "other-kind" });
        let proxy = bed.proxy();
        // Two of one process, whose requests take different ways.
        let (here, there) = (bed.session_through(&proxy).await, bed.session_through(&proxy).await);
        for round in 0..60 {
            let lock = locks(&here, kazoo).remove(round % 4);
            let options = LockOptions::new().linger(Duration::from_millis(200));
            let lock = match lock {
                AnyLock::Mutex(mutex) if round % 8 == 0 => mutex.with_options(options).into(),
                lock => lock,
            };
            let other = if round % 3 == 0 { &here } else { &there };
            let guard = lock.acquire().await.unwrap();
            drop(guard);
            let permit = semaphore(other, kazoo).acquire().await;
            let permit = permit.unwrap_or_else(|error| panic!("in round {round}: {error:#}"));
            drop(permit);
            let guard = locks(&here, kazoo).remove(2).acquire().await;
            drop(guard.unwrap_or_else(|error| panic!("in round {round}: {error:#}")));
        }
        bed.end().await;
    }
}

/// Whoever may not read what a semaphore has left there can use the mutex beside it, as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_may_not_be_read_is_no_error() {
    let bed = Bed::shared("unreadable-kind");
    let session = bed.session().await;
    bed.keep_directory("a");
    let private = bed.builder().acl(Acl::CreatorAll).auth("digest", "me:secret");
    let private = bed.adopt(private.connect().await.unwrap());
    semaphore(&private, false).acquire().await.unwrap().release().await.unwrap();
    for lock in locks(&session, false) {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    bed.end().await;
}

/// Who uses the name is found behind others of whom nothing may be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_behind_some_that_may_not_be_read_is_told() {
    let (bed, proxy, here, there) = two_processes("secret-permits", false).await;
    let busy = bed.busy(&[&here, &there]).await;
    let open = semaphore(&there, false).acquire().await.unwrap();
    let private = bed.builder_at(&proxy.addr()).acl(Acl::CreatorAll).auth("digest", "me:secret");
    let private = semaphore(&bed.adopt(private.connect().await.unwrap()), false);
    let mut secret = Vec::new();
    for _ in 0..3 {
        secret.push(private.acquire().await.unwrap());
    }
    for lock in locks(&here, false) {
        is_told(&lock, "a semaphore").await;
    }
    for permit in secret.into_iter().chain([open]) {
        assert!(permit.is_valid());
        permit.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}
