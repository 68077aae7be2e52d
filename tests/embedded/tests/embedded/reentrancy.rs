//! Reentrancy follows the scope.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, block_in_place, spawn_blocking};
use tokio::time::{sleep, timeout};
use zklock::blocking::block_on;
use zklock::{
    AnyLock, ErrorKind, LockOptions, MultiLock, Mutex, Session, StopAt, ZkLockTemplate, carry,
    carry_sync,
};

use crate::support::{Inside, contenders, join_all, on, prompt, store};

#[tokio::test]
async fn three_deep_and_free_only_after_the_outermost() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let outer = mutex.acquire().await.unwrap();
    let token = outer.fencing_token();
    outer
        .scope(async {
            let middle = mutex.acquire().await.unwrap();
            middle
                .scope(async {
                    let inner = mutex.try_acquire().await.unwrap();
                    assert_eq!(inner.fencing_token(), token);
                    assert!(mutex.is_held_in_scope());
                    inner.release().await.unwrap();
                })
                .await;
            assert_eq!(middle.fencing_token(), token);
            middle.release().await.unwrap();
            assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
        })
        .await;
    assert!(!mutex.is_held_in_scope());
    assert!(outer.is_valid());
    outer.release().await.unwrap();
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test]
async fn the_lock_is_free_only_after_the_last_hold_whichever_that_is() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let outer = mutex.acquire().await.unwrap();
    let inner = outer.scope(mutex.acquire()).await.unwrap();
    outer.release().await.unwrap();
    assert!(inner.is_valid());
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    inner.release().await.unwrap();
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test]
async fn ten_nested_calls_joined_never_overlap() {
    let (_store, session) = store();
    let template = ZkLockTemplate::new(session.clone());
    let mutex = session.mutex("a").unwrap();
    let inside = Inside::default();
    let joined = template.execute("a", || async {
        let calls = (0..10).map(|n| {
            let (template, mutex, inside) = (&template, &mutex, &inside);
            async move {
                if n % 2 == 0 {
                    template.execute("a", || inside.pass()).await.unwrap();
                } else {
                    let guard = mutex.acquire().await.unwrap();
                    inside.pass().await;
                    guard.release().await.unwrap();
                }
            }
        });
        join_all(calls).await;
    });
    joined.await.unwrap();
    assert_eq!((inside.most(), inside.total()), (1, 10));
}

#[tokio::test]
async fn a_nested_call_of_a_nested_call_does_not_wait_for_itself() {
    let (_store, session) = store();
    let template = ZkLockTemplate::new(session);
    let depth = template.execute("a", || async {
        let two = template.execute("a", || async {
            template.execute("b", || async { template.execute("a", || async { 3 }).await }).await
        });
        two.await.unwrap().unwrap().unwrap()
    });
    assert_eq!(depth.await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn another_task_does_not_enter_during_a_nested_hold() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    guard
        .scope(async {
            let _nested = mutex.acquire().await.unwrap();
            let mutex = mutex.clone();
            let other = crate::spawn(async move {
                assert!(!mutex.is_held_in_scope());
                mutex.acquire_timeout(Duration::from_secs(1)).await
            });
            assert!(other.await.unwrap().unwrap_err().is_busy());
        })
        .await;
}

/// A runtime that a body runs on its thread polls its other tasks there as well.
#[test]
fn a_task_that_is_polled_inside_a_plain_body_is_not_in_its_scope() {
    let mutex = Session::embedded().mutex("a").unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let guard = mutex.blocking_acquire().unwrap();
    let asks = || {
        let mutex = mutex.clone();
        async move { (zklock::current().is_valid(), mutex.try_acquire().await.is_ok()) }
    };
    let before = runtime.spawn(asks());
    let body = async {
        let (spawned, carried) = (tokio::spawn(asks()), tokio::spawn(carry(asks())));
        (asks().await, spawned.await.unwrap(), carried.await.unwrap(), before.await.unwrap())
    };
    let inside = guard.scope_sync(|| runtime.block_on(body));
    // What the body calls itself, and what is carried, is nested.
    assert_eq!(inside, ((true, true), (false, false), (true, true), (false, false)));
    let local = LocalSet::new();
    let task = local.spawn_local(asks());
    let inside = guard.scope_sync(|| {
        runtime.block_on(local.run_until(async { (asks().await, task.await.unwrap()) }))
    });
    assert_eq!(inside, ((true, true), (false, false)));
    // The same within one poll of a body that is a future.
    let other = runtime.spawn(asks());
    let scope = guard.scope(async { (runtime.block_on(other).unwrap(), asks().await) });
    assert_eq!(block_on(scope), ((false, false), (true, true)));
}

#[tokio::test]
async fn a_body_that_goes_on_in_another_task_stays_in_its_scope() {
    let mutex = Session::embedded().mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let (go, gone) = oneshot::channel::<()>();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let looks = || {
        let (mutex, seen) = (mutex.clone(), seen.clone());
        move || seen.lock().unwrap().push(mutex.is_held_in_scope())
    };
    let (look, at_the_end) = (looks(), Dropped(Box::new(looks())));
    let mut scope = Box::pin(async move {
        let body = async {
            let _at_the_end = at_the_end;
            look();
            gone.await.unwrap();
            look();
            std::future::pending::<()>().await;
        };
        guard.scope(body).await;
    });
    assert!(scope.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    go.send(()).unwrap();
    // It goes on in another task, and is dropped in a third one.
    let going = tokio::spawn(async move {
        assert!(scope.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        (scope,)
    });
    let (scope,) = going.await.unwrap();
    tokio::spawn(async move { drop(scope) }).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [true, true, true]);
}

#[expect(clippy::disallowed_methods, reason = "this runtime has several threads")]
#[tokio::test(flavor = "multi_thread")]
async fn what_a_body_blocks_its_thread_for_stays_in_its_scope() {
    let mutex = Session::embedded().mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let body = async move {
        let asks = async { mutex.is_held_in_scope() && mutex.try_acquire().await.is_ok() };
        let here = block_in_place(|| Handle::current().block_on(asks));
        let (blocking, plain) = (mutex.clone(), mutex.clone());
        let carried = carry_sync(move || blocking.blocking_acquire().is_ok());
        let alone = spawn_blocking(move || plain.is_held_in_scope()).await.unwrap();
        (here, spawn_blocking(carried).await.unwrap(), alone)
    };
    let inside = tokio::spawn(async move { guard.scope(body).await }).await.unwrap();
    assert_eq!(inside, (true, true, false));
}

struct Dropped(Box<dyn Fn() + Send>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0();
    }
}

#[tokio::test(start_paused = true)]
async fn carry_takes_the_scope_along_as_a_child() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let inside = Arc::new(Inside::default());
    guard
        .scope(async {
            let mut tasks = Vec::new();
            for _ in 0..10 {
                let (mutex, inside) = (mutex.clone(), inside.clone());
                tasks.push(crate::spawn(carry(async move {
                    let _nested = mutex.acquire().await.unwrap();
                    inside.pass().await;
                })));
            }
            for task in tasks {
                task.await.unwrap();
            }
            let mutex = mutex.clone();
            let held = carry_sync(move || mutex.is_held_in_scope());
            assert!(std::thread::spawn(held).join().unwrap());
        })
        .await;
    assert_eq!((inside.most(), inside.total()), (1, 10));
}

#[tokio::test]
async fn a_carried_task_that_outlives_its_scope_queues_up() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let token = guard.fencing_token();
    let mut late = None;
    guard
        .scope(async {
            let mutex = mutex.clone();
            late = Some(carry(async move { mutex.acquire().await.unwrap().fencing_token() }));
        })
        .await;
    drop(guard);
    assert!(late.unwrap().await > token);
}

/// A nested guard goes, and one that was acquired in its scope stays: the lock is in use all the time. Also where that
/// one is acquired by a task that outlives the nested guard, before or after its end.
#[tokio::test(start_paused = true)]
async fn what_a_nested_guard_leaves_behind_keeps_its_siblings_out() {
    for late in [false, true] {
        let (_store, session) = store();
        let mutex = session.mutex("a").unwrap();
        let guard = mutex.acquire().await.unwrap();
        let nested = guard.scope(mutex.acquire()).await.unwrap();
        let child = {
            let mutex = mutex.clone();
            let child = async move { mutex.acquire().await.unwrap() };
            guard.scope_sync(|| nested.scope_sync(|| carry(child)))
        };
        let (left, sibling) = if late {
            drop(nested);
            let sibling = guard.scope(mutex.acquire()).await.unwrap();
            let child = crate::spawn(child);
            sleep(Duration::from_secs(1)).await;
            assert!(!child.is_finished(), "beside a sibling of the guard around it");
            drop(sibling);
            (child.await.unwrap(), guard.scope_sync(|| carry(mutex.acquire())))
        } else {
            let child = child.await;
            drop(nested);
            (child, guard.scope_sync(|| carry(mutex.acquire())))
        };
        let mut sibling = std::pin::pin!(sibling);
        assert!(timeout(Duration::from_secs(1), &mut sibling).await.is_err(), "late: {late}");
        drop(left);
        drop(sibling.await.unwrap());
    }
}

/// The one behind it waits in the scope of a nested guard that has gone, and a sibling of that guard for its place: one of
/// them is next.
#[tokio::test(start_paused = true)]
async fn who_waits_in_a_scope_whose_guard_has_gone_takes_turns_further_out() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let nested = guard.scope(mutex.acquire()).await.unwrap();
    let acquiring = || {
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap() }
    };
    let carried = || guard.scope_sync(|| nested.scope_sync(|| carry(acquiring())));
    let first = carried().await;
    let behind = crate::spawn(carried());
    sleep(Duration::from_secs(1)).await;
    drop(nested);
    let sibling = crate::spawn(guard.scope_sync(|| carry(acquiring())));
    sleep(Duration::from_secs(1)).await;
    drop(first);
    sleep(Duration::from_secs(1)).await;
    let (next, last) = if behind.is_finished() { (behind, sibling) } else { (sibling, behind) };
    assert!(next.is_finished() && !last.is_finished());
    drop(next.await.unwrap());
    let last = timeout(Duration::from_secs(1), last).await;
    drop(last.unwrap().unwrap());
}

/// Another thread has the lock inside, for a while longer than the body of the scope.
pub(crate) fn leaves_behind(mutex: &Mutex) -> JoinHandle<()> {
    let mutex = mutex.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let child = std::thread::spawn(carry_sync(move || {
        let guard = mutex.blocking_acquire().unwrap();
        tell.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        drop(guard);
    }));
    told.recv().unwrap();
    child
}

/// What it leaves behind may be on any thread, so that a thread which waits for it is no deadlock.
#[tokio::test]
async fn a_thread_waits_for_what_a_nested_body_has_left_on_another() {
    let (_store, session) = store();
    let template = ZkLockTemplate::new(session.clone());
    let mutex = session.mutex("a").unwrap();
    let outer = template.execute("a", || async {
        let left = template.execute("a", async || leaves_behind(&mutex)).await.unwrap();
        drop(mutex.blocking_acquire().unwrap());
        left.join().unwrap();
    });
    outer.await.unwrap();
}

/// Whoever holds a lock on when the guard around has gone is judged by itself.
#[tokio::test]
async fn a_thread_waits_for_what_a_body_has_left_on_another() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let body = async || leaves_behind(&mutex);
    let left = ZkLockTemplate::new(session.clone()).execute("a", body).await.unwrap();
    drop(mutex.blocking_acquire().unwrap());
    left.join().unwrap();
    // A nested guard that was detached, and outlives the one around.
    let outer = mutex.acquire().await.unwrap();
    let nested = outer.scope(mutex.acquire()).await.unwrap().detach();
    drop(outer);
    let elsewhere = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(nested);
    });
    drop(mutex.blocking_acquire().unwrap());
    elsewhere.join().unwrap();
    // One that is on this thread is waited for in vain.
    let outer = mutex.acquire().await.unwrap();
    let nested = outer.scope(mutex.acquire()).await.unwrap();
    drop(outer);
    let error = mutex.blocking_acquire().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock);
    drop(nested);
}

/// Who lost a lock begins anew, but not in the place of what is nested in its guard, whether that has gone or
/// not.
#[tokio::test(start_paused = true)]
async fn who_begins_anew_leaves_the_node_to_what_is_nested_in_its_guard() {
    for has_gone in [true, false] {
        for is_deep in [true, false] {
            begins_anew_beside_nested(has_gone, is_deep).await;
        }
    }
}

async fn begins_anew_beside_nested(has_gone: bool, is_deep: bool) {
    let (store, session) = store();
    let strict = LockOptions::default().stop_at(StopAt::Suspect);
    let lock = session.rw_lock("a").unwrap().with_options(strict);
    let outer = lock.write().await.unwrap();
    // Of the one who begins anew; the other call is inside of it, or beside it.
    let own = outer.scope(lock.read()).await.unwrap();
    let (again, (release, released)) = (lock.clone(), tokio::sync::oneshot::channel());
    let nested = async move {
        let nested = again.read().await.unwrap();
        released.await.unwrap();
        drop(nested);
    };
    let nested = outer.scope_sync(|| match is_deep {
        true => own.scope_sync(|| crate::spawn(carry(nested))),
        false => crate::spawn(carry(nested)),
    });
    sleep(Duration::from_millis(1)).await;
    let outer = Some(outer).filter(|_| !has_gone);
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    sleep(Duration::from_millis(1)).await;
    faults.reconnect();
    let elsewhere = on(&store).rw_lock("a").unwrap();
    let other = crate::spawn(async move { elsewhere.write().await.unwrap() });
    let error = lock.write_timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_busy() && !other.is_finished(), "{error:#}");
    release.send(()).unwrap();
    nested.await.unwrap();
    // Its own guards are not in its way.
    drop(timeout(Duration::from_secs(1), other).await.unwrap().unwrap());
    drop(lock.write_timeout(Duration::from_secs(1)).await.unwrap());
    drop((own, outer));
}

/// A task in the scope of a nested reader that has gone waits as one in the scope around.
#[tokio::test(start_paused = true)]
async fn who_is_in_the_scope_of_a_reader_that_has_gone_writes_after_what_that_has_left() {
    let (_store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let writing = lock.write().await.unwrap();
    let reader = writing.scope(lock.read()).await.unwrap();
    let left = reader.scope(lock.read()).await.unwrap();
    let again = lock.clone();
    let carried = writing
        .scope_sync(|| reader.scope_sync(|| carry(async move { again.write().await.map(drop) })));
    drop(reader);
    let carried = crate::spawn(carried);
    sleep(Duration::from_millis(10)).await;
    assert!(!carried.is_finished(), "it writes beside what the reader has left");
    drop(left);
    timeout(Duration::from_secs(1), carried).await.unwrap().unwrap().unwrap();
    drop(writing);
}

/// The same where nobody is around that reader.
#[tokio::test(start_paused = true)]
async fn who_is_in_the_scope_of_an_outermost_reader_that_has_gone_writes_too() {
    let (_store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let reader = lock.read().await.unwrap();
    let left = reader.scope(lock.read()).await.unwrap();
    let again = lock.clone();
    let carried = reader.scope_sync(|| carry(async move { again.write().await.map(drop) }));
    drop(reader);
    let carried = crate::spawn(carried);
    sleep(Duration::from_millis(10)).await;
    assert!(!carried.is_finished(), "it does not wait for what the reader has left");
    drop(left);
    timeout(Duration::from_secs(1), carried).await.unwrap().unwrap().unwrap();
}

/// A call that is not reentrant is refused inside of one that holds the lock, and not inside of one that has held it.
#[tokio::test(start_paused = true)]
async fn who_is_in_the_scope_of_a_guard_that_has_gone_waits_for_what_that_has_left() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let once = mutex.clone().with_options(LockOptions::new().reentrant(false));
    let outer = mutex.acquire().await.unwrap();
    let nested = outer.scope(mutex.acquire()).await.unwrap();
    let left = nested.scope(mutex.acquire()).await.unwrap();
    let calls = outer.scope_sync(|| {
        let call = || {
            let once = once.clone();
            carry(async move { once.acquire().await.map(drop) })
        };
        [nested.scope_sync(call), call()]
    });
    let [inside_both, inside] = calls;
    drop(nested);
    let refused = inside_both.await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Deadlock, "{refused}");
    drop(outer);
    let inside = crate::spawn(inside);
    sleep(Duration::from_millis(10)).await;
    assert!(!inside.is_finished(), "it is in beside what the guard has left");
    drop(left);
    timeout(Duration::from_secs(1), inside).await.unwrap().unwrap().unwrap();
}

/// Readers that a writer's scope has are readers: one that tried to write could meet another.
#[tokio::test(start_paused = true)]
async fn a_reader_inside_a_writer_does_not_write() {
    let (_store, session) = store();
    let lock = session.rw_lock("a").unwrap();
    let writing = lock.write().await.unwrap();
    let readers = writing.scope(async { (lock.read().await.unwrap(), lock.read().await.unwrap()) });
    for reading in <[_; 2]>::from(readers.await) {
        let refused = reading.scope(lock.write()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Deadlock);
        drop(reading.scope(lock.read()).await.unwrap());
    }
    drop(writing.scope(lock.write()).await.unwrap());
}

/// A lock of each kind that can be nested.
fn nestable(session: &Session) -> [AnyLock; 3] {
    let lock = session.rw_lock("b").unwrap();
    [session.mutex("a").unwrap().into(), AnyLock::Write(lock.clone()), AnyLock::Read(lock)]
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_sibling_while_the_outermost_lets_go_queues_like_any_other() {
    let (store, session) = store();
    for (lock, theirs) in nestable(&session).into_iter().zip(nestable(&on(&store))) {
        let one = MultiLock::new([lock.clone()]).unwrap();
        let guard = lock.acquire().await.unwrap();
        let token = guard.fencing_token();
        // The sibling writes, where it can: readers take no turns.
        let sibling = match &lock {
            AnyLock::Read(_) => guard.scope(lock.acquire()).await.unwrap(),
            other => guard.scope(other.acquire()).await.unwrap(),
        };
        let task = |how: u32| {
            let (lock, one) = (lock.clone(), one.clone());
            async move {
                let second = Duration::from_secs(1);
                match how {
                    0 => lock.acquire().await.map(|guard| guard.fencing_token()),
                    1 => one.acquire_timeout(3 * second).await.map(|g| g.fencing_tokens()[0]),
                    _ => one.acquire_timeout(second).await.map(|g| g.fencing_tokens()[0]),
                }
            }
        };
        let waiting = guard.scope(async { [0, 1, 2].map(|n| crate::spawn(carry(task(n)))) }).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        guard.release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let writer = crate::spawn(async move {
            let guard = match theirs {
                AnyLock::Read(lock) => AnyLock::Write(lock).acquire().await.unwrap(),
                other => other.acquire().await.unwrap(),
            };
            tokio::time::sleep(Duration::from_secs(1)).await;
            guard.release().await.unwrap();
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(sibling);
        let [forever, long, short] = waiting;
        if matches!(lock, AnyLock::Read(_)) {
            // They shared the slot all the time.
            for reader in [forever, long, short] {
                assert_eq!(reader.await.unwrap().unwrap(), token);
            }
        } else {
            assert!(forever.await.unwrap().unwrap() > token);
            assert!(long.await.unwrap().unwrap() > token);
            assert!(short.await.unwrap().unwrap_err().is_busy());
        }
        writer.await.unwrap();
    }
}

#[test]
fn a_thread_that_waits_for_a_sibling_while_the_outermost_lets_go_queues_like_any_other() {
    let (_store, session) = store();
    for lock in nestable(&session) {
        let lock = MultiLock::new([lock]).unwrap();
        let guard = lock.blocking_acquire().unwrap();
        let token = guard.fencing_tokens()[0];
        let (sibling, waiting) = guard.scope_sync(|| {
            let sibling = lock.blocking_acquire().unwrap();
            let lock = lock.clone();
            let nested =
                carry_sync(move || lock.blocking_acquire().map(|guard| guard.fencing_tokens()[0]));
            (sibling, std::thread::spawn(nested))
        });
        std::thread::sleep(Duration::from_millis(20));
        guard.blocking_release().unwrap();
        drop(sibling);
        assert!(waiting.join().unwrap().unwrap() >= token);
    }
}

#[tokio::test]
async fn two_scopes_of_one_guard_take_turns_too() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let (guard, inside) = (mutex.acquire().await.unwrap(), Inside::default());
    let calls = (0..4).map(|_| {
        guard.scope(async {
            let _nested = mutex.acquire().await.unwrap();
            inside.pass().await;
        })
    });
    join_all(calls).await;
    assert_eq!((inside.most(), inside.total()), (1, 4));
}

/// Neither as a mutex, nor to read or write.
#[tokio::test]
async fn a_lock_that_is_not_reentrant_says_so_at_once() {
    let (_store, session) = store();
    let options = LockOptions::new().reentrant(false);
    let lock = session.rw_lock("b").unwrap().with_options(options);
    let mutex = session.mutex("a").unwrap().with_options(options);
    let reading = AnyLock::Read(lock.clone());
    let locks = [mutex.into(), reading, AnyLock::Write(lock)];
    for lock in locks {
        let guard = lock.acquire().await.unwrap();
        let error = guard.scope(lock.acquire()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadlock, "{lock:?}");
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_keeps_its_deadline() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    guard
        .scope(async {
            let nested = mutex.acquire().await.unwrap();
            let start = tokio::time::Instant::now();
            let sibling = mutex.acquire_timeout(Duration::from_secs(1)).await;
            assert!(sibling.unwrap_err().is_busy());
            assert_eq!(start.elapsed().as_secs(), 1);
            assert!(mutex.try_acquire().await.unwrap_err().is_busy());
            drop(nested);
            drop(mutex.try_acquire().await.unwrap());
        })
        .await;
}

/// Each guard gives the lock to one in its own scope, and goes.
#[tokio::test]
async fn a_lock_is_passed_on_from_scope_to_scope_any_number_of_times() {
    let (_store, session) = prompt();
    let mutex = session.mutex("a").unwrap();
    let mut guard = mutex.acquire().await.unwrap();
    for _ in 0..100_000 {
        let next = guard.scope(mutex.acquire()).await.unwrap();
        guard = next;
    }
    assert!(mutex.try_acquire().await.unwrap_err().is_busy());
    drop(guard);
    drop(mutex.try_acquire().await.unwrap());
}
