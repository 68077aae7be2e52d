//! What a lock costs the server, counted at a proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use zklock::{LockOptions, Session};
use zklock_test_support::{Action, Direction, Matcher, OpCode, Proxy};

use crate::bed::{Bed, acquiring, soon, until};
use crate::outside::watches;

/// Far longer than a test, so that no heartbeat is counted.
const LONG: Duration = Duration::from_secs(60);

async fn patient(bed: &Bed, proxy: &Proxy) -> Session {
    let session = bed.builder_at(&proxy.addr()).session_timeout(LONG).connect().await.unwrap();
    bed.adopt(session)
}

/// The requests so far, without those that only keep the session alive.
pub(crate) fn requests(proxy: &Proxy) -> Vec<OpCode> {
    let requests = proxy.log().into_iter().filter(|frame| frame.direction == Direction::ToServer);
    requests.map(|frame| frame.opcode).filter(|opcode| !opcode.keeps_alive()).collect()
}

#[tokio::test]
async fn an_uncontended_lock_is_create_list_delete_and_nothing_else() {
    let bed = Bed::shared("uncontended");
    let proxy = bed.proxy();
    let session = patient(&bed, &proxy).await;
    let mutex = session.mutex("a").unwrap();
    // While it is held: an empty directory may be reaped at any moment.
    let guard = mutex.acquire().await.unwrap();
    bed.keep_directory("a");
    guard.release().await.unwrap();
    proxy.clear_log();
    const TIMES: usize = 20;
    for _ in 0..TIMES {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let one = [OpCode::Create2, OpCode::GetChildren, OpCode::Delete];
    assert_eq!(requests(&proxy), one.repeat(TIMES));
    assert_eq!(proxy.watch_events(), 0);
    bed.end().await;
}

#[tokio::test]
async fn the_list_does_not_wait_for_the_creation() {
    let bed = Bed::shared("one-flight");
    let proxy = bed.proxy();
    let session = patient(&bed, &proxy).await;
    let mutex = session.mutex("a").unwrap();
    // While it is held: an empty directory may be reaped at any moment.
    let guard = mutex.acquire().await.unwrap();
    bed.keep_directory("a");
    guard.release().await.unwrap();
    let created = proxy.on(Matcher::reply(OpCode::Create2), Action::Hold);
    let listed = proxy.on(Matcher::request(OpCode::GetChildren), Action::Pass);
    let acquired = acquiring(&session, "a");
    until("the creation is answered", || (created.hits() == 1).then_some(())).await;
    until("nothing came through, but the list is asked for", || (listed.hits() == 1).then_some(()))
        .await;
    assert!(!acquired.is_finished());
    created.release();
    soon("the lock", acquired).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_at_most_two_of_a_hundred_waiting_sessions() {
    const WAITING: usize = 100;
    let bed = Bed::shared("wakeups");
    let proxy = bed.proxy();
    // Not through the proxy: held for longer than a heartbeat it would watch its own node.
    let holder = bed.session().await;
    let mut held = holder.mutex("a").unwrap().acquire().await.unwrap();
    let mut sessions = JoinSet::new();
    for _ in 0..WAITING {
        let builder = bed.builder_at(&proxy.addr()).session_timeout(LONG);
        sessions.spawn(async move { builder.connect().await.unwrap() });
    }
    let mut waiting = JoinSet::new();
    while let Some(session) = sessions.join_next().await {
        let mutex = bed.adopt(session.unwrap()).mutex("a").unwrap();
        waiting.spawn(async move { soon("the lock", mutex.acquire()).await.unwrap() });
    }
    bed.until_contenders("a", WAITING + 1).await;
    // Each of them one node, and the next its own as well.
    until("all watch", || (watches(&bed) > WAITING).then_some(())).await;
    let (before, requests_before) = (proxy.watch_events(), proxy.requests_total());
    for left in (0..WAITING).rev() {
        held.release().await.unwrap();
        held = soon("the next", waiting.join_next()).await.unwrap().unwrap();
        // Whoever holds goes on watching its own node.
        until("all watch again", || (watches(&bed) >= 1 + left + left.min(1)).then_some(())).await;
    }
    held.release().await.unwrap();
    let events = proxy.watch_events() - before;
    println!(
        "{WAITING} waiting sessions: {events} watch events for {} releases, {} requests",
        WAITING + 1,
        proxy.requests_total() - requests_before,
    );
    // The next is told, and the one behind it; who had to wait hears of its own node, too. The first
    // holder is not counted, nobody is behind the last, and nobody waits for that.
    assert_eq!(events, 3 * WAITING as u64 - 1);
    bed.end().await;
}

/// Of writers it is the next one; of readers all that enter, which are those behind the writer that goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_one_of_many_waiting_writers_and_the_readers_that_enter() {
    const WAITING: usize = 30;
    for reads in [false, true] {
        let root = if reads { "wakeups-readers" } else { "wakeups-writers" };
        let bed = Bed::shared(root);
        let proxy = bed.proxy();
        let mut locks = Vec::new();
        for _ in 0..WAITING {
            locks.push(patient(&bed, &proxy).await.rw_lock("a").unwrap());
        }
        // Not for longer than a heartbeat, with which it would write into its node.
        let holder = bed.session_of(LONG).await;
        let held = holder.rw_lock("a").unwrap().write().await.unwrap();
        let (inside, mut waiting) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        for lock in locks {
            let inside = inside.clone();
            waiting.spawn(async move {
                if reads {
                    let reading = soon("the lock", lock.read()).await.unwrap();
                    inside.fetch_add(1, Ordering::SeqCst);
                    until("all read", || (inside.load(Ordering::SeqCst) == WAITING).then_some(()))
                        .await;
                    reading.release().await.unwrap();
                } else {
                    let writing = soon("the lock", lock.write()).await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    writing.release().await.unwrap();
                }
            });
        }
        until("all watch", || (watches(&bed) == WAITING).then_some(())).await;
        let before = proxy.watch_events();
        held.release().await.unwrap();
        while let Some(done) = waiting.join_next().await {
            done.unwrap();
        }
        // One for each that waited: nobody hears of anything but the end of its own wait.
        assert_eq!(proxy.watch_events() - before, WAITING as u64, "reads: {reads}");
        bed.end().await;
    }
}

/// A lock that is asked for, and one whose node is deleted, in a session that reads many limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn news_of_one_lock_ask_nothing_about_the_others() {
    const OTHERS: usize = 20;
    let bed = Bed::shared("news");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(LONG).max_connections(1);
    let session = bed.adopt(builder.connect().await.unwrap());
    let mut others = Vec::new();
    for number in 0..OTHERS {
        let (name, limit) = (format!("other/{number}"), format!("limit/{number}"));
        let permits = session.semaphore_with_limit_at(name, limit, 2).unwrap();
        others.push(permits.acquire().await.unwrap());
    }
    let options = LockOptions::new().revocable(true);
    let held = async |name| {
        let mutex = session.mutex(name).unwrap().with_options(options);
        mutex.acquire().await.unwrap()
    };
    let (asked, deleted) = (held("asked").await, held("deleted").await);
    // Their own nodes and all limits.
    until("all are watched", || (watches(&bed) == 2 + OTHERS).then_some(())).await;
    proxy.clear_log();
    let mut raw = bed.raw();
    raw.set_data(asked.node_path(), b"__REVOKE__").unwrap();
    raw.delete(deleted.node_path()).unwrap();
    soon("it is asked", asked.revoked()).await;
    soon("it is lost", deleted.lost()).await;
    // Behind all that the news may have led to.
    held("behind").await.release().await.unwrap();
    let read = requests(&proxy).iter().filter(|opcode| **opcode == OpCode::GetData).count();
    // The request, what is restored after it, and the node of the last lock.
    assert!(read <= 3, "{read} reads");
    assert!(deleted.release().await.unwrap_err().is_lost());
    asked.release().await.unwrap();
    drop(others);
    raw.close().unwrap();
    bed.end().await;
}
