//! Cancellation at any await leaves no node behind, and the next acquire succeeds at once.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use zklock::blocking::block_on;
use zklock::{AnyLock, Embedded, MutexGuard, Session, SessionState};
use zklock_core::coordinator::memory::Op;

use crate::support::{cancelled_before_each_reply, contenders, on, store};

/// Polls a future so often, then drops it. Answers whether it was done.
fn poll_times<F: Future>(future: F, times: usize) -> bool {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    (0..times).any(|_| matches!(future.as_mut().poll(&mut cx), Poll::Ready(_)))
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_removes_its_node() {
    let (store, session) = store();
    let held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    assert!(!poll_times(mutex.acquire(), 3));
    // The answer to its creation may be under way.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let nodes = contenders(&store, "/zklock/a").await;
    assert_eq!(nodes.len(), 1);
    assert!(held.node_path().ends_with(&nodes[0]) && held.is_valid());
    held.release().await.unwrap();
    drop(mutex.try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn cancelled_before_each_reply_nothing_is_left() {
    for kind in ["mutex", "read", "write", "permit", "permits"] {
        let lock = |session: &Session| -> AnyLock {
            let (rw_lock, semaphore) = (session.rw_lock("a"), session.semaphore("a", 2));
            match kind {
                "mutex" => session.mutex("a").unwrap().into(),
                "read" => AnyLock::Read(rw_lock.unwrap()),
                "write" => AnyLock::Write(rw_lock.unwrap()),
                "permit" => semaphore.unwrap().into(),
                _ => AnyLock::Permits(semaphore.unwrap(), 2),
            }
        };
        let nothing_is_left = async |store: &Embedded| {
            for inner in ["", "/leases", "/locks"] {
                let mut nodes = contenders(store, &format!("/zklock/a{inner}")).await;
                nodes.retain(|node| node != "leases" && node != "locks");
                assert!(nodes.is_empty(), "{kind}: {nodes:?}");
            }
        };
        let unanswered = cancelled_before_each_reply(lock, nothing_is_left).await;
        for op in [Op::Create, Op::Children] {
            assert!(unanswered.contains(&op), "{kind}: {unanswered:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_while_the_connection_is_down_nothing_is_left() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    drop(mutex.acquire().await.unwrap());
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // In flight at the cut, then cancelled.
    faults.hold_replies();
    assert!(!poll_times(mutex.acquire(), 2));
    faults.disconnect();
    // Asked for while down, then cancelled.
    assert!(!poll_times(mutex.acquire(), 2));
    tokio::time::sleep(Duration::from_secs(1)).await;
    faults.release();
    faults.reconnect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    drop(mutex.try_acquire().await.unwrap());
}

#[tokio::test]
async fn a_grant_that_nobody_took_goes_to_the_next() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap().detach();
    let mut first = Box::pin(mutex.acquire());
    let mut second = Box::pin(mutex.acquire());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut cx).is_pending());
    assert!(second.as_mut().poll(&mut cx).is_pending());
    drop(guard);
    // Granted, but never polled again.
    drop(first);
    drop(second.await.unwrap());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_thousand_random_cancellations_leave_nothing() {
    let (store, session) = store();
    let other = on(&store);
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for id in store.sessions() {
        store.faults(id).delay_replies(Duration::from_millis(1 + random(3)));
    }
    let mut tasks = Vec::new();
    for n in 0..1_000 {
        let mutex = if n % 2 == 0 { session.mutex("a") } else { other.mutex("a") }.unwrap();
        let (start, patience, hold) = (random(300), random(40), random(3));
        tasks.push(crate::spawn(async move {
            tokio::time::sleep(Duration::from_millis(start)).await;
            let acquiring = mutex.acquire();
            let patience = Duration::from_millis(patience);
            if let Ok(guard) = tokio::time::timeout(patience, acquiring).await {
                tokio::time::sleep(Duration::from_millis(hold)).await;
                drop(guard.unwrap());
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert!(session.local_contenders().is_empty() && other.local_contenders().is_empty());
    drop(session.mutex("a").unwrap().try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_session_closes_in_the_background_if_the_call_that_closes_it_is_dropped() {
    let (store, session) = store();
    let held = session.mutex("a").unwrap().acquire().await.unwrap();
    let other = session.mutex("b").unwrap().acquire().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_requests();
    drop(other);
    let closing = tokio::time::timeout(Duration::from_millis(100), session.close()).await;
    assert!(closing.is_err(), "a deletion is pending");
    faults.release();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((session.state(), held.is_valid()), (SessionState::Closed, false));
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

/// A task that is kept only by its wakers, and holds the lock for which it has begun to wait once more.
struct KeptByItsWaker(#[expect(dead_code, reason = "it is dropped")] Mutex<Option<MutexGuard>>);

impl Wake for KeptByItsWaker {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn who_gives_up_may_drop_a_task_that_holds_the_lock() {
    let (told, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let session = Session::embedded();
        let mutex = session.mutex("a").unwrap();
        for by_another_waker in [false, true] {
            // By another thread: who waits for himself has a timer besides.
            let other = mutex.clone();
            let guard =
                std::thread::spawn(move || other.blocking_acquire().unwrap()).join().unwrap();
            let task = Waker::from(Arc::new(KeptByItsWaker(Mutex::new(Some(guard)))));
            let mut waiting = Box::pin(mutex.acquire());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
            drop(task);
            if by_another_waker {
                drop(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())));
            }
            drop(waiting);
        }
        drop(block_on(mutex.acquire()).unwrap());
        told.send(()).unwrap();
    });
    done.recv_timeout(Duration::from_secs(20)).expect("it waits for the lock of a queue");
}
