//! A call waits at most `timeout × retries`, to within 100 ms, whatever the server does; and what it
//! cannot reach it does not call busy. For locks of every kind for tasks and threads, on a busy day.

use std::time::{Duration, Instant};

use tokio::task::{JoinSet, spawn_blocking};
use zklock::{ErrorKind, LockError, LockOptions, Session};
use zklock_test_support::Control;

use crate::bed::{Bed, soon};
use crate::kinds::{KINDS, Kind, Wait, all};

const TIMEOUT: Duration = Duration::from_millis(300);

/// Who acquires.
#[derive(Clone, Copy, Debug)]
enum By {
    Task,
    Thread,
}

/// The ways to wait, and how long that takes at most.
fn ways(timeout: Duration) -> [(LockOptions, Wait, Duration); 3] {
    let short = LockOptions::default().timeout(timeout);
    [
        (LockOptions::default(), Wait::For(timeout), timeout),
        (short.retries(3), Wait::Tries, 3 * timeout),
        (short, Wait::Once, timeout),
    ]
}

/// Takes one of each kind, async and blocking, all at once; answers what came of each, and after how long.
async fn take_all(
    session: &Session,
    options: LockOptions,
    wait: Wait,
) -> Vec<(Kind, By, LockError, Duration)> {
    let mut tasks = JoinSet::new();
    for (kind, by) in KINDS.iter().flat_map(|kind| [(*kind, By::Task), (*kind, By::Thread)]) {
        let session = session.clone();
        tasks.spawn(async move {
            match by {
                By::Task => {
                    let start = Instant::now();
                    let error = kind.take(&session, options, wait).await.unwrap_err();
                    (kind, by, error, start.elapsed())
                }
                By::Thread => {
                    let take = move || {
                        let start = Instant::now();
                        let error = kind.take_blocking(&session, options, wait).unwrap_err();
                        (kind, by, error, start.elapsed())
                    };
                    spawn_blocking(take).await.unwrap()
                }
            }
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.push(done.unwrap());
    }
    all
}

/// All of them are back in time, and say that the server could not be reached.
async fn in_vain(what: &str, session: &Session) {
    for (options, wait, promised) in ways(TIMEOUT) {
        let control = Control::timers();
        for (kind, by, error, took) in take_all(session, options, wait).await {
            let call = format!("{what}: {kind:?}, {by:?}, {wait:?}");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{call}: {error}");
            assert_eq!(error.code(), "1013", "{call}: {error}");
            assert!(!error.is_busy() && error.holder().is_none(), "{call}: {error}");
            control.within(&call, took, promised);
        }
    }
}

/// Everything can be had again: nothing is left of those who came in vain.
async fn all_again(session: &Session) {
    for (_, held) in soon("all", all(session, LockOptions::default())).await {
        held.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_unavailable_in_time() {
    let bed = Bed::own();
    let session = bed.session().await;
    let busy = bed.busy_while_broken(&[&session]).await;
    all_again(&session).await;
    bed.server().pause();
    in_vain("frozen", &session).await;
    // The bound includes connecting.
    let unconnected = bed.adopt(bed.builder().open().unwrap());
    in_vain("frozen, not connected", &unconnected).await;
    bed.server().resume();
    all_again(&session).await;
    all_again(&unconnected).await;
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_is_unavailable_in_time() {
    let bed = Bed::own();
    let session = bed.session().await;
    let busy = bed.busy_while_broken(&[&session]).await;
    all_again(&session).await;
    bed.server().kill();
    in_vain("gone", &session).await;
    let unconnected = bed.adopt(bed.builder().open().unwrap());
    in_vain("gone, not connected", &unconnected).await;
    bed.server().restart();
    all_again(&session).await;
    all_again(&unconnected).await;
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_network_is_unavailable_in_time() {
    let bed = Bed::shared("in-time-silent");
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    all_again(&session).await;
    proxy.black_hole(true);
    in_vain("silent", &session).await;
    let unconnected = bed.adopt(bed.builder_at(&proxy.addr()).open().unwrap());
    in_vain("silent, not connected", &unconnected).await;
    proxy.black_hole(false);
    all_again(&session).await;
    all_again(&unconnected).await;
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_freezes_under_waiters_is_unavailable_in_time_and_not_busy() {
    let bed = Bed::own();
    let (holder, waiter) = (bed.session().await, bed.session().await);
    let busy = bed.busy_while_broken(&[&holder, &waiter]).await;
    let mut held = Vec::new();
    for kind in KINDS {
        held.push(kind.rival().acquire(&holder).await);
    }
    // They are in their queues long before it is over.
    let timeout = Duration::from_secs(4);
    let control = Control::timers();
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { take_all(&waiter, LockOptions::default(), Wait::For(timeout)).await }
    });
    tokio::time::sleep(timeout / 4).await;
    bed.server().pause();
    for (kind, by, error, took) in soon("the errors", waiting).await.unwrap() {
        let call = format!("frozen in the queue: {kind:?}, {by:?}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{call}: {error}");
        control.within(&call, took, timeout);
    }
    bed.server().resume();
    for held in held {
        assert!(held.is_valid());
        held.release().await.unwrap();
    }
    all_again(&waiter).await;
    drop(busy);
    bed.end().await;
}

/// This process has seen who is in the way of those that wait; that may have changed since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_server_that_freezes_who_tries_beside_waiters_is_unavailable_in_time_and_not_busy() {
    let bed = Bed::own();
    let (holder, waiter) = (bed.session().await, bed.session().await);
    let busy = bed.busy_while_broken(&[&holder, &waiter]).await;
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for kind in KINDS {
        held.push(kind.rival().acquire(&holder).await);
        waiting.push(kind.acquiring(&waiter));
    }
    // They are in their queues long before that.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (kind, by, error, _) in take_all(&waiter, LockOptions::default(), Wait::Once).await {
        assert!(error.is_busy() && error.holder().is_some(), "{kind:?}, {by:?}: {error}");
    }
    bed.server().pause();
    let control = Control::timers();
    let short = LockOptions::default().timeout(TIMEOUT);
    for (kind, by, error, took) in take_all(&waiter, short, Wait::Once).await {
        let call = format!("frozen beside a waiter: {kind:?}, {by:?}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{call}: {error}");
        assert!(error.holder().is_none(), "{call}: {error}");
        control.within(&call, took, TIMEOUT);
    }
    bed.server().resume();
    for held in held {
        assert!(held.is_valid());
        held.release().await.unwrap();
    }
    for waiting in waiting {
        waiting.await.unwrap().release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_held_is_busy_in_time_and_says_by_whom() {
    let bed = Bed::shared("in-time-busy");
    let (holder, waiter) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&holder, &waiter]).await;
    let mut held = Vec::new();
    for kind in KINDS {
        held.push(kind.rival().acquire(&holder).await);
    }
    // Long enough for the server's word on a machine with more work than cores.
    for (options, wait, promised) in ways(5 * TIMEOUT) {
        let control = Control::of(bed.server());
        for (kind, by, error, took) in take_all(&waiter, options, wait).await {
            let call = format!("held: {kind:?}, {by:?}, {wait:?}");
            assert!(error.is_busy() && error.code() == "1011", "{call}: {error}");
            control.within(&call, took, promised);
            let holder = error.holder().unwrap_or_else(|| panic!("{call}: {error}"));
            let path = held[KINDS.iter().position(|one| *one == kind).unwrap()].node_path();
            assert!(path.ends_with(&holder.node), "{call}: {} is not {path}", holder.node);
            assert_eq!(holder.owner.pid, Some(std::process::id()), "{call}: {holder:?}");
            assert_eq!(holder.owner.app.as_deref(), Some("tests"), "{call}: {holder:?}");
            assert!(!holder.owner.host.is_empty(), "{call}: {holder:?}");
            assert!(holder.owner.since.is_some(), "{call}: {holder:?}");
        }
    }
    for held in held {
        held.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}
