//! What blocks a thread, with and without a runtime around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zklock::{ErrorKind, MultiLock, Mutex, Session, ZkLockTemplate, current};
use zklock_test_support::Warnings;

use crate::support::{on, store};

fn mutex(session: &Session) -> Mutex {
    session.mutex("a").unwrap()
}

#[test]
fn ten_threads_never_overlap() {
    let (_store, session) = store();
    let (inside, total) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..10)
        .map(|_| {
            let (mutex, inside, total) = (mutex(&session), inside.clone(), total.clone());
            std::thread::spawn(move || {
                for _ in 0..50 {
                    let guard = mutex.blocking_acquire().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    total.fetch_add(1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.blocking_release().unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(total.load(Ordering::SeqCst), 500);
}

#[test]
fn timeouts_hold_without_a_runtime() {
    let (_store, session) = store();
    let guard = mutex(&session).blocking_acquire().unwrap();
    let other = mutex(&session);
    let waited =
        std::thread::spawn(move || other.blocking_acquire_timeout(Duration::from_millis(50)));
    assert!(waited.join().unwrap().unwrap_err().is_busy());
    assert!(guard.is_valid());
}

#[test]
fn several_locks_are_taken_as_one_in_their_scope_and_released() {
    let (_store, session) = store();
    let [one, other] = ["a", "b"].map(|name| session.mutex(name).unwrap());
    let both = MultiLock::new([other, one]).unwrap();
    assert_eq!(both.members().len(), 2);
    let guard = both.blocking_acquire().unwrap();
    assert!(guard.is_valid() && !guard.remaining().is_zero() && !guard.is_revoked());
    assert_eq!(guard.members()[0].lock_name(), "a");
    assert_eq!(guard.fencing_tokens().last(), Some(&guard.fencing_token()));
    guard.scope_sync(|| assert!(mutex(&session).is_held_in_scope()));
    let (tried, timed) = std::thread::scope(|scope| {
        let tried = scope.spawn(|| both.blocking_try_acquire().unwrap_err());
        let timed =
            scope.spawn(|| both.blocking_acquire_timeout(Duration::from_millis(50)).unwrap_err());
        (tried.join().unwrap(), timed.join().unwrap())
    });
    assert!(tried.is_busy() && timed.is_busy(), "{tried} {timed}");
    assert_eq!(
        both.blocking_acquire_timeout(Duration::ZERO).unwrap_err().kind(),
        ErrorKind::InvalidOption
    );
    guard.blocking_release().unwrap();
    let guard = both.blocking_acquire_tries().unwrap().detach();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    both.blocking_try_acquire().unwrap().blocking_release().unwrap();
}

#[test]
fn the_exclusive_lock_of_the_documents_is_a_mutex_for_threads() {
    let session = Session::embedded();
    let lock = session.mutex("a").unwrap().with_driver(zklock::layout::OneNode);
    let guard = lock.blocking_acquire().unwrap();
    assert_eq!(guard.node_path(), "/zklock/a/lock");
    assert!(!guard.is_revoked());
    guard.blocking_release().unwrap();
}

#[test]
fn nesting_follows_the_scope() {
    let session = Session::embedded();
    let template = ZkLockTemplate::new(session.clone());
    let nested = template.blocking_execute("a", || {
        assert!(current().is_valid() && mutex(&session).is_held_in_scope());
        template.blocking_execute("a", || {
            mutex(&session).blocking_acquire().map(|guard| guard.fencing_token())
        })
    });
    nested.unwrap().unwrap().unwrap();
    assert!(!mutex(&session).is_held_in_scope());
}

#[tokio::test(start_paused = true)]
async fn a_blocking_acquire_that_waits_for_its_own_thread_names_spawn_blocking() {
    let session = Session::embedded();
    let holding = crate::spawn({
        let mutex = session.mutex("a").unwrap();
        async move {
            let _guard = mutex.acquire().await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    tokio::task::yield_now().await;
    let error = mutex(&session).blocking_acquire().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock);
    assert!(format!("{error:#}").contains("spawn_blocking"), "{error}");
    holding.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_inside_a_runtime_waits_under_its_deadline() {
    let (_store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = tokio::task::spawn_blocking({
        let mutex = mutex(&session);
        move || mutex.blocking_acquire_timeout(Duration::from_millis(30))
    });
    assert!(waiting.await.unwrap().unwrap_err().is_busy());
    let waiting = tokio::task::spawn_blocking({
        let mutex = mutex(&session);
        move || mutex.blocking_acquire().map(drop)
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    drop(guard);
    waiting.await.unwrap().unwrap();
}

/// It is told who blocks a thread that tasks need, and not who does as that line says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_blocks_a_thread_of_the_runtime_is_told_to_use_spawn_blocking() {
    let (_store, session) = store();
    let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = || {
        let mutex = mutex(&session);
        move || {
            let warnings = Warnings::collect();
            assert!(mutex.blocking_acquire_timeout(Duration::from_millis(1_300)).is_err());
            warnings.take()
        }
    };
    let (pool, worker) = (tokio::task::spawn_blocking(waiting()), waiting());
    let worker = tokio::spawn(async move { worker() });
    assert_eq!(pool.await.unwrap(), [""; 0]);
    let told = worker.await.unwrap();
    assert!(matches!(&told[..], [line] if line.contains("use spawn_blocking")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_blocking_deadline_passes_though_the_time_around_it_is_paused() {
    let (store, session) = store();
    let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let error = mutex(&session).blocking_acquire_timeout(Duration::from_millis(30)).unwrap_err();
    assert!(error.is_busy(), "{error}");
}

/// Real time is behind by then, and what the session knows lies in its future.
#[tokio::test(start_paused = true)]
async fn a_blocking_acquire_does_not_wait_for_real_time_to_catch_up_with_a_paused_one() {
    let session = Session::embedded();
    drop(mutex(&session).acquire().await.unwrap());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    drop(mutex(&session).acquire().await.unwrap());
    let guard = mutex(&session).blocking_acquire_timeout(Duration::from_secs(5)).unwrap();
    assert!(guard.is_valid());
    guard.blocking_release().unwrap();
    drop(mutex(&session).acquire().await.unwrap());
}

#[test]
fn the_template_releases_when_the_body_panics() {
    let session = Session::embedded();
    let template = ZkLockTemplate::new(session.clone());
    let panicked = std::thread::spawn(move || {
        template.blocking_execute("a", || std::panic::resume_unwind(Box::new("on purpose")))
    });
    assert!(panicked.join().is_err());
    drop(mutex(&session).blocking_try_acquire().unwrap());
}
