//! The queue in ZooKeeper: its order, those who leave it, and what else lies around in it.

use std::time::Duration;

use zklock_test_support::CreateMode;

use crate::bed::{Bed, acquiring, soon};

#[tokio::test]
async fn waiters_are_granted_in_the_order_of_the_queue() {
    let bed = Bed::shared("order");
    let sessions = bed.sessions(6).await;
    let mut held = sessions[0].mutex("a").unwrap().acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (ahead, session) in sessions.iter().enumerate().skip(1) {
        waiting.push(acquiring(session, "a"));
        bed.until_contenders("a", ahead + 1).await;
    }
    let mut queue = bed.contenders("a");
    for next in waiting {
        assert!(held.node_path().ends_with(&queue[0]));
        held.release().await.unwrap();
        queue.remove(0);
        held = soon("the next", next).await.unwrap();
        assert_eq!(bed.contenders("a"), queue);
    }
    held.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_cancelled_waiter_leaves_without_a_trace() {
    let bed = Bed::shared("cancelled");
    let sessions = bed.sessions(4).await;
    let guard = sessions[0].mutex("a").unwrap().acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (ahead, session) in sessions.iter().enumerate().skip(1) {
        waiting.push(acquiring(session, "a"));
        bed.until_contenders("a", ahead + 1).await;
    }
    let queue = bed.contenders("a");
    // From the middle, and then the one just behind the holder.
    for (cancelled, left) in [(1, vec![0, 1, 3]), (0, vec![0, 3])] {
        waiting[cancelled].abort();
        let names = bed.until_contenders("a", left.len()).await;
        assert_eq!(names, left.iter().map(|at| queue[*at].clone()).collect::<Vec<_>>());
        assert!(guard.is_valid());
    }
    assert!(!waiting[2].is_finished());
    guard.release().await.unwrap();
    soon("the last", waiting.remove(2)).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn foreign_and_malformed_children_are_in_nobodys_way() {
    let bed = Bed::shared("foreign");
    let (one, two) = (bed.session().await, bed.session().await);
    // While it is held: an empty directory may be reaped at any moment.
    let first = one.mutex("a").unwrap().acquire().await.unwrap();
    let mut raw = bed.raw();
    let foreign =
        ["!", "0", "zzz", "lock-", "lock-1", "_c_x-lock-y", "größe", "lock-00000000001", "-lock-"];
    for name in foreign {
        raw.create(&bed.path(&format!("a/{name}")), b"\xff\0", CreateMode::Persistent).unwrap();
    }
    raw.create(&bed.path("a/zzz/lock-0000000000"), b"", CreateMode::Persistent).unwrap();
    first.release().await.unwrap();
    let guard = one.mutex("a").unwrap().try_acquire().await.unwrap();
    let error = two.mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.holder().unwrap().ahead, 1);
    let waiting = acquiring(&two, "a");
    guard.release().await.unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    assert_eq!(raw.children(&bed.path("a")).unwrap().len(), foreign.len());
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_contender_of_another_client_is_waited_for_whatever_it_says_of_itself() {
    let bed = Bed::shared("peer");
    let session = bed.session().await;
    let mutex = session.mutex("a").unwrap();
    bed.keep_directory("a");
    let mut raw = bed.raw();
    for (payload, shown) in [
        (&b"10.0.0.7"[..], "a is being processed by 10.0.0.7"),
        (b"", "a is being processed by an unknown process"),
        (&[0xff; 100_000], "a is being processed by an unknown process"),
    ] {
        let prefix = bed.path("a/_c_0123456789abcdef0123456789abcdef-lock-");
        let node = raw.create(&prefix, payload, CreateMode::EphemeralSequential).unwrap();
        let error = mutex.try_acquire().await.unwrap_err();
        assert_eq!(format!("{error:#}"), shown);
        let waiting = acquiring(&session, "a");
        bed.until_contenders("a", 2).await;
        assert!(!waiting.is_finished());
        raw.delete(&node).unwrap();
        soon("the lock", waiting).await.unwrap().release().await.unwrap();
    }
    raw.close().unwrap();
    bed.end().await;
}

/// Nobody is next to the first of them who could find out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_third_behind_two_nodes_that_are_not_ephemeral_is_told_on_a_busy_day() {
    let bed = Bed::shared("staying");
    let session = bed.session_of(Duration::from_secs(4)).await;
    let mutex = session.mutex("a").unwrap();
    bed.keep_directory("a");
    let mut raw = bed.raw();
    let prefix = bed.path("a/_c_0123456789abcdef0123456789abcdef-lock-");
    let create = |_| raw.create(&prefix, b"", CreateMode::PersistentSequential).unwrap();
    let staying = [0, 1].map(create);
    let busy = bed.busy(&[&session]).await;
    let error = soon("it is told", mutex.acquire()).await.unwrap_err();
    let named =
        |path: &String| format!("{error:#}").contains(&format!("{path} is not an ephemeral"));
    assert!(error.is_busy() && staying.iter().any(named), "{error:#}");
    // Who deletes them is all that is needed.
    let waiting = acquiring(&session, "a");
    bed.until_contenders("a", 3).await;
    staying.iter().for_each(|path| raw.delete(path).unwrap());
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    drop(busy);
    raw.close().unwrap();
    bed.end().await;
}
