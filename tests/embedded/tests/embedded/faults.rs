//! Lost replies, lost connections, lost sessions: the guard knows, and nothing is left behind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zklock::layout::{HostNodes, Kazoo, Numbered, OneNode, ReadWriteNodes};
use zklock::{AnyLock, Embedded, ErrorKind, LockOptions, Session, SessionState, ZooKeeperSession};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{client, contenders, on, prompt, store};

#[tokio::test(start_paused = true)]
async fn a_create_whose_reply_is_lost_leaves_exactly_the_reported_node() {
    for fault in [Fault::lose_reply(), Fault::lose_request()] {
        let (store, session) = store();
        let mutex = session.mutex("a").unwrap();
        drop(mutex.acquire().await.unwrap());
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.inject(fault.on(Op::Create).path("/a/"));
        let guard = mutex.acquire().await.unwrap();
        let nodes = contenders(&store, "/zklock/a").await;
        assert_eq!(nodes.len(), 1);
        assert!(guard.node_path().ends_with(&nodes[0]));
        guard.release().await.unwrap();
        assert!(contenders(&store, "/zklock/a").await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_is_done_again() {
    for fault in [Fault::lose_reply(), Fault::lose_request(), Fault::lose_request().times(20)] {
        let (store, session) = store();
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        store.faults(session.zookeeper_session().unwrap().id).inject(fault.on(Op::Delete));
        guard.release().await.unwrap();
        assert!(contenders(&store, "/zklock/a").await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_is_done_after_the_reconnect() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    faults.inject(Fault::cut_before().on(Op::Delete));
    drop(guard);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    faults.reconnect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_was_stopped_beyond_its_deadline_is_answered_at_once() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::cut_before().on(Op::Create));
    let mutex = session.mutex("a").unwrap();
    let start = Instant::now();
    let waiting = crate::spawn(async move { mutex.acquire_timeout(Duration::from_secs(2)).await });
    tokio::task::yield_now().await;
    // As a process does that was stopped: nothing happened for so long, and then all is late.
    tokio::time::advance(Duration::from_secs(3)).await;
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(start.elapsed() <= Duration::from_millis(3_100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_refused_delete_retires_the_generation_and_costs_no_other_lock() {
    let (store, session) = prompt();
    let ZooKeeperSession { id, number, .. } = session.zookeeper_session().unwrap();
    let other = session.mutex("b").unwrap().acquire().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("/a/").times(u64::MAX);
    store.faults(id).inject(refused);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
    // The other lock is held on, in the old session; new ones come from a fresh one.
    assert!(other.is_valid());
    assert_eq!(session.zookeeper_session().unwrap().number, number + 1);
    drop(session.mutex("c").unwrap().acquire().await.unwrap());
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    other.release().await.unwrap();
    // With its last guard the old session is closed, and the stuck node goes with it.
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    drop(session.mutex("a").unwrap().try_acquire().await.unwrap());
}

/// Each would be in the way of the next, until its ZooKeeper session ends, and that of those who wait beside it.
#[tokio::test(start_paused = true)]
async fn whoever_asks_where_nothing_may_be_deleted_is_refused_and_costs_no_session() {
    let (store, session) = store();
    let held = on(&store).mutex("b").unwrap().acquire().await.unwrap();
    let ask = |name: &str| {
        let mutex = session.mutex(name.to_owned()).unwrap();
        crate::spawn(async move { mutex.acquire().await })
    };
    let refuse = || {
        let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("/a/");
        store.faults(session.zookeeper_session().unwrap().id).inject(refused.times(u64::MAX));
    };
    // The first one is not known to be the directory's fault.
    for _ in 0..2 {
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        refuse();
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
    }
    let waiting = ask("b");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (number, places) =
        (session.zookeeper_session().unwrap().number, contenders(&store, "/zklock/b").await);
    refuse();
    let start = Instant::now();
    for _ in 0..8 {
        let refused = ask("a").await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unauthorized, "{refused:#}");
        let said = format!("{refused:#}");
        assert!(said.contains("in /zklock/a: two of its nodes could not be deleted"), "{said}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert_eq!(session.zookeeper_session().unwrap().number, number);
    assert_eq!(contenders(&store, "/zklock/b").await, places, "the waiter has lost its place");
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    // Somebody may have changed the ACL.
    store.faults(session.zookeeper_session().unwrap().id).clear();
    tokio::time::sleep(Duration::from_secs(2)).await;
    ask("a").await.unwrap().unwrap().release().await.unwrap();
}

/// Who reads in the old session lets others of its process in beside it, as before.
#[tokio::test(start_paused = true)]
async fn a_refused_delete_keeps_no_reader_from_those_that_read_in_the_same_session() {
    let (store, session) = prompt();
    let reading = session.rw_lock("read").unwrap().read().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("/a/").times(u64::MAX);
    store.faults(session.zookeeper_session().unwrap().id).inject(refused);
    guard.release().await.unwrap_err();
    // Longer than a turn: whether somebody waits behind them is asked first.
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let lock = session.rw_lock("read").unwrap();
        let beside = crate::spawn(async move { lock.read_timeout(Duration::from_secs(1)).await });
        assert!(beside.await.unwrap().unwrap().is_valid());
        let lock = session.rw_lock("read").unwrap();
        let beside = crate::spawn(async move { lock.try_read().await });
        assert!(beside.await.unwrap().unwrap().is_valid());
    }
    assert!(reading.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_used_no_more_and_cannot_be_replaced_is_not_connected() {
    let (store, session) = prompt();
    let other = session.mutex("b").unwrap().acquire().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("/a/");
    store.faults(session.zookeeper_session().unwrap().id).inject(refused);
    store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    guard.release().await.unwrap_err();
    for _ in 0..60 {
        assert_eq!((session.state(), session.is_ready()), (SessionState::Connecting, false));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(other.is_valid(), "it is held in the old session");
    store.end_outage();
    drop(session.mutex("c").unwrap().acquire().await.unwrap());
    assert_eq!((session.state(), session.is_ready()), (SessionState::Connected, true));
    // The old one ends, and says nothing any more.
    other.release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(session.state(), SessionState::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_guard_says_lost_before_silence_can_free_the_node() {
    let (store, session) = store();
    let other = on(&store);
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let token = guard.fencing_token();
    let waiting = crate::spawn({
        let mutex = other.mutex("a").unwrap();
        async move { (mutex.acquire().await.unwrap().fencing_token(), Instant::now()) }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(guard.is_valid());
    let cut = Instant::now();
    store.faults(session.zookeeper_session().unwrap().id).silence();
    guard.lost().await;
    let lost = Instant::now();
    assert!(!guard.is_valid() && guard.remaining().is_zero());
    let (next, granted) = waiting.await.unwrap();
    assert!(lost < granted && next > token);
    // Since the last answered write, which was sent before; timers fire on the next millisecond.
    let lease = session.timing().unwrap().lease;
    assert_eq!(lease, Duration::from_millis(5_500));
    assert!(lost - cut <= lease + Duration::from_millis(1), "{:?}", lost - cut);
    assert!((granted - cut).as_secs() >= 10);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_was_lost_stays_lost_after_the_reconnect() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    faults.disconnect();
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(!guard.is_valid());
    faults.reconnect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!guard.is_valid());
    drop(guard);
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert!(session.mutex("a").unwrap().acquire().await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_nothing() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    faults.disconnect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(guard.is_valid());
    assert_eq!(session.state(), SessionState::Suspended);
    faults.reconnect();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(guard.is_valid());
    assert_eq!(session.state(), SessionState::Connected);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_the_session_is_killed_a_waiter_acquires_with_the_new_one() {
    let (store, session) = store();
    let ZooKeeperSession { id, number, .. } = session.zookeeper_session().unwrap();
    let other = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let waiting = crate::spawn({
        let mutex = session.mutex("a").unwrap();
        async move { mutex.acquire().await.unwrap() }
    });
    tokio::task::yield_now().await;
    store.faults(id).expire();
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(other);
    assert!(waiting.await.unwrap().is_valid());
    assert_eq!(session.zookeeper_session().unwrap().number, number + 1);
}

#[tokio::test(start_paused = true)]
async fn guards_are_lost_with_their_session() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let local = crate::spawn({
        let mutex = session.mutex("a").unwrap();
        async move { mutex.acquire().await.unwrap() }
    });
    tokio::task::yield_now().await;
    store.faults(session.zookeeper_session().unwrap().id).expire();
    guard.lost().await;
    assert!(!guard.is_valid());
    // The next does not wait for a guard that is worth nothing any more.
    let next = local.await.unwrap();
    assert!(next.is_valid() && next.fencing_token() > guard.fencing_token());
    drop(guard);
    assert!(next.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_node_deleted_from_outside_is_lost() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    client(&store).await.delete(guard.node_path()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(2), guard.lost()).await.unwrap();
    assert!(!guard.is_valid());
    drop(on(&store).mutex("a").unwrap().try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_node_is_deleted_from_outside_queues_up_again() {
    let (store, session) = prompt();
    let first = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let second = crate::spawn({
        let mutex = on(&store).mutex("a").unwrap();
        async move { mutex.acquire().await.unwrap() }
    });
    tokio::task::yield_now().await;
    let third = crate::spawn({
        let mutex = session.mutex("a").unwrap();
        async move { mutex.acquire().await.unwrap() }
    });
    tokio::task::yield_now().await;
    let mut nodes = contenders(&store, "/zklock/a").await;
    nodes.sort_by_key(|name| name[name.len() - 10..].to_owned());
    let last = format!("/zklock/a/{}", nodes[2]);
    client(&store).await.delete(&last).await.unwrap();
    drop(first);
    let second = second.await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!third.is_finished());
    drop(second);
    assert!(third.await.unwrap().is_valid());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_retried_inside_the_try() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let mutex = session.mutex("a").unwrap();
    drop(mutex.acquire().await.unwrap());
    for op in [Op::Create, Op::Children] {
        faults.inject(Fault::lose_request().on(op).times(3));
        drop(mutex.acquire_timeout(Duration::from_secs(2)).await.unwrap());
        assert!(contenders(&store, "/zklock/a").await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_acl_that_refuses_is_an_error_at_once() {
    let (store, session) = prompt();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Create));
    let start = Instant::now();
    let error = session.mutex("a").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert!(error.is_permanent() && start.elapsed().is_zero());
    assert_eq!(error.to_string(), "a: an ACL denies it");
    let told = "a: an ACL denies it: /zklock/a: compare the session's credentials with `getAcl` ";
    assert!(format!("{error:#}").starts_with(told), "{error:#}");
    faults.inject(Fault::refuse(RequestError::QuotaExceeded).on(Op::Create));
    let error = session.mutex("a").unwrap().acquire().await.unwrap_err();
    assert_eq!(format!("{error:#}"), "a: the path's quota is exceeded: /zklock/a");
}

#[tokio::test(start_paused = true)]
async fn a_chroot_that_was_deleted_is_to_be_created_again() {
    let (store, session) = prompt();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(RequestError::NoNode).on(Op::Create).times(u64::MAX));
    let error = session.mutex("a").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoChroot);
    let says = "a: the chroot of the connect string no longer exists: create it again";
    assert_eq!((error.to_string(), format!("{error:#}")), (says.into(), format!("{says}: /")));
}

#[tokio::test(start_paused = true)]
async fn no_node_is_made_while_the_connection_is_down() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    drop(mutex.acquire().await.unwrap());
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    store.record();
    for _ in 0..10 {
        let error = mutex.acquire_timeout(Duration::from_millis(100)).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    faults.reconnect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(store.recorded().iter().all(|logged| logged.op != Op::Create));
}

/// Where all contenders make the same node, who waits for another's makes it when that is gone.
#[tokio::test(start_paused = true)]
async fn no_node_is_made_when_the_connection_goes_down_during_a_wait() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_driver(OneNode);
    mutex.acquire().await.unwrap().release().await.unwrap();
    let other = client(&store).await;
    other.create("/zklock/a/lock", b"", NodeKind::Ephemeral).await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::cut_before().on(Op::Get));
    store.record();
    let error = mutex.acquire_timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    faults.reconnect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let made = store.recorded().iter().filter(|logged| logged.op == Op::Create).count();
    assert_eq!(made, 1);
}

#[tokio::test(start_paused = true)]
async fn draining_stops_waiters_and_lets_holders_finish() {
    let (_store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = crate::spawn({
        let mutex = session.mutex("a").unwrap();
        async move { mutex.acquire().await }
    });
    tokio::task::yield_now().await;
    let left = session.drain(Duration::from_secs(1)).await;
    assert_eq!(left.len(), 1);
    assert!(left[0].holds && &*left[0].lock == "a");
    assert!(waiting.await.unwrap().unwrap_err().is_closing());
    assert!(session.mutex("b").unwrap().acquire().await.unwrap_err().is_closing());
    assert_eq!(session.state(), SessionState::Draining);
    assert!(guard.is_valid() && !session.is_ready());
    let draining = crate::spawn({
        let session = session.clone();
        async move { session.drain(Duration::from_secs(60)).await }
    });
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    assert!(draining.await.unwrap().is_empty());
}

/// Whoever has lost the lock holds it no more.
#[tokio::test(start_paused = true)]
async fn draining_ends_with_the_loss_of_what_was_held() {
    for fair in [false, true] {
        let with = LockOptions::new().fair(fair);
        for kind in 0..4 {
            let (store, session) = store();
            let semaphore = session.semaphore("a", 2).unwrap().with_options(with);
            let lock = match kind {
                0 => session.mutex("a").unwrap().with_options(with).into(),
                1 => AnyLock::Read(session.rw_lock("a").unwrap().with_options(with)),
                permits => AnyLock::Permits(semaphore, permits - 1),
            };
            let guard = lock.acquire().await.unwrap();
            store.faults(session.zookeeper_session().unwrap().id).silence();
            let start = Instant::now();
            let left = session.drain(Duration::from_secs(60)).await;
            assert!(left.is_empty(), "{lock:?}: {left:?}");
            assert!(!guard.is_valid() && start.elapsed() < Duration::from_secs(10), "{lock:?}");
            assert!(session.local_contenders().is_empty(), "{lock:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_frees_everything_and_says_so() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let mut states = session.states();
    session.close().await;
    assert!(!guard.is_valid());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert!(session.mutex("a").unwrap().acquire().await.unwrap_err().is_closing());
    assert_eq!(states.next().await, Some(SessionState::Closed));
}

/// The server hears of neither, and keeps the node for as long as it keeps the session.
#[tokio::test(start_paused = true)]
async fn a_release_that_a_close_without_a_connection_ends_comes_back_when_the_node_is_gone() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().id).disconnect();
    let releasing = crate::spawn(guard.release());
    tokio::task::yield_now().await;
    session.close().await;
    releasing.await.unwrap().unwrap();
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_dropped_closes() {
    let (store, session) = store();
    let id = session.zookeeper_session().unwrap().id;
    assert!(store.sessions().contains(&id));
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    drop(session);
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert!(!store.sessions().contains(&id));
}

#[tokio::test]
async fn a_guard_keeps_its_session() {
    let (_store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    drop(session);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[test]
fn a_guard_dropped_while_unwinding_or_outside_a_runtime_releases() {
    let session = Session::embedded();
    let mutex = session.mutex("a").unwrap();
    let guard = zklock::blocking::block_on(mutex.acquire()).unwrap();
    let unwound = std::thread::spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(unwound.join().is_err());
    drop(mutex.blocking_try_acquire().unwrap());
    let shared = Arc::new(mutex);
    drop(shared.blocking_try_acquire().unwrap());
}

/// The lease clock runs out, but the ZooKeeper session lives on, and so does the node.
#[tokio::test(start_paused = true)]
async fn a_task_that_lost_its_guard_starts_anew_and_does_not_wait_for_itself() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let lost = mutex.acquire().await.unwrap();
    let id = session.zookeeper_session().unwrap().id;
    store.faults(id).silence();
    tokio::time::sleep(lost.remaining() + Duration::from_millis(1)).await;
    assert!(!lost.is_valid());
    store.faults(id).reconnect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(
        contenders(&store, "/zklock/a").await.len(),
        1,
        "the lost holder still keeps others out"
    );
    assert_eq!(session.zookeeper_session().unwrap().id, id);
    let anew = mutex.acquire_timeout(Duration::from_secs(1)).await.unwrap();
    assert!(anew.fencing_token() > lost.fencing_token());
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    drop(lost);
    assert!(anew.is_valid());
}

/// The same for permits, by however many one holder has them.
#[tokio::test(start_paused = true)]
async fn a_task_that_lost_its_permits_starts_anew_and_does_not_wait_for_itself() {
    let limit = Duration::from_secs(1);
    for (kazoo, fair) in [(false, false), (false, true), (true, false), (true, true)] {
        let (store, session) = store();
        let semaphore = session.semaphore("a", 2).unwrap();
        let semaphore = semaphore.with_options(LockOptions::new().fair(fair));
        let semaphore = if kazoo { semaphore.with_driver(Kazoo::default()) } else { semaphore };
        let lost = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.silence();
        tokio::time::sleep(lost[1].remaining() + Duration::from_millis(1)).await;
        assert!(lost.iter().all(|permit| !permit.is_valid()));
        faults.reconnect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut anew = vec![semaphore.acquire_timeout(limit).await.unwrap()];
        drop(lost);
        anew.push(semaphore.acquire_timeout(limit).await.unwrap());
        assert!(anew.iter().all(|permit| permit.is_valid()));
    }
}

/// Of several permits one is lost, and the others are only in the way.
#[tokio::test(start_paused = true)]
async fn a_task_that_lost_one_of_several_permits_gets_as_many_anew() {
    for deleted in [0, 1] {
        let (store, session) = store();
        let semaphore = session.semaphore("a", 3).unwrap();
        let other = semaphore.acquire().await.unwrap();
        let before = contenders(&store, "/zklock/a/leases").await;
        let lost = semaphore.acquire_many(2).await.unwrap();
        let mut nodes = contenders(&store, "/zklock/a/leases").await;
        nodes.retain(|node| !before.contains(node));
        let path = format!("/zklock/a/leases/{}", nodes[deleted]);
        client(&store).await.delete(&path).await.unwrap();
        lost.lost().await;
        let anew = semaphore.acquire_many_timeout(2, Duration::from_secs(1)).await.unwrap();
        drop(lost);
        assert!(anew.is_valid() && other.is_valid());
        assert_eq!(contenders(&store, "/zklock/a/leases").await.len(), 3);
    }
}

/// Where all contenders make the same node, that of a caller that gave up is in the way of the next one
/// of its process for a moment, and nobody holds the lock.
#[tokio::test(start_paused = true)]
async fn nobody_is_busy_with_a_node_that_its_own_process_no_longer_wants() {
    const LATE: u64 = 30;
    // Whoever looks whose node that is may have no answer.
    for (patience, is_lost) in (1..30).flat_map(|step| [(5 * step, false), (5 * step, true)]) {
        let (store, session) = prompt();
        let mutex = session.mutex("a").unwrap().with_driver(OneNode);
        mutex.acquire().await.unwrap().release().await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.delay_replies(Duration::from_millis(LATE));
        let given_up = tokio::time::timeout(Duration::from_millis(1), mutex.acquire());
        given_up.await.unwrap_err();
        if is_lost {
            faults.inject(Fault::forget_reply().on(Op::Get));
        }
        match mutex.acquire_timeout(Duration::from_millis(patience)).await {
            Ok(guard) => guard.release().await.unwrap(),
            Err(error) => assert!(error.is_unavailable(), "{patience} ms: {error}"),
        }
    }
}

/// Of a contender whose first list is lost, and which asks again: its name may be another's by then.
#[tokio::test(start_paused = true)]
async fn a_lock_is_not_granted_by_a_later_list_where_another_has_made_the_node_anew() {
    let (store, session) = prompt();
    let mutex = session.mutex("a").unwrap().with_driver(Numbered::dlock());
    mutex.acquire().await.unwrap().release().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // Whoever is granted the lock is not told at once that the node is another's.
    faults.delay_replies(Duration::from_millis(10));
    faults.inject(Fault::lose_request().on(Op::Children).times(2));
    let limit = Duration::from_secs(3);
    let asking = crate::spawn(async move { mutex.acquire_timeout(limit).await });
    // It asks for the second time at 10 ms, and pauses before the third.
    tokio::time::sleep(Duration::from_millis(25)).await;
    let other = client(&store).await;
    let node = other.children("/zklock/a").await.unwrap().remove(0);
    let path = format!("/zklock/a/{node}");
    other.delete(&path).await.unwrap();
    other.create(&path, b"", NodeKind::Ephemeral).await.unwrap();
    let refused = asking.await.unwrap();
    assert!(refused.is_err_and(|error| error.is_busy()), "{path} is held by another");
    // And what is the other's stays.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(contenders(&store, "/zklock/a").await, [node]);
}

/// Runs what is to use another connection of a session, which is opened if there is none, while the first one is
/// in use.
async fn beside_the_first(store: &Embedded, session: &Session, first: i64, begin: impl FnOnce()) {
    store.faults(first).hold_replies();
    let spawn = |number: usize| {
        let mutex = session.mutex(format!("busy/n{number}")).unwrap();
        crate::spawn(async move { drop(mutex.acquire().await.unwrap()) })
    };
    let busy: Vec<_> = (0..9).map(spawn).collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    begin();
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.faults(first).release();
    for busy in busy {
        busy.await.unwrap();
    }
}

/// Opens another connection, runs what is to use it, and returns its ZooKeeper session.
async fn over_a_second_connection(
    store: &Embedded,
    session: &Session,
    begin: impl FnOnce(),
) -> i64 {
    let (before, first) = (store.sessions(), session.zookeeper_session().unwrap().id);
    beside_the_first(store, session, first, begin).await;
    store.sessions().into_iter().find(|id| !before.contains(id)).unwrap()
}

/// Ends a ZooKeeper session, after which no other one is opened.
async fn ends_for_good(store: &Embedded, session: &Session, ended: i64) {
    store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    store.faults(ended).expire();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(session.state(), SessionState::Connecting, "it has the first one");
}

fn of_kind(session: &Session, kind: &str) -> AnyLock {
    let options = LockOptions::new().fair(kind == "fair");
    let semaphore = || session.semaphore("a", 1).unwrap();
    match kind {
        "write" => AnyLock::Write(session.rw_lock("a").unwrap()),
        "permit" => semaphore().into(),
        "kazoo's permit" => semaphore().with_driver(Kazoo::default()).into(),
        _ => session.mutex("a").unwrap().with_options(options).into(),
    }
}

/// Its lock is held by another process, and the servers let no further connection in.
#[tokio::test(start_paused = true)]
async fn whoever_waits_on_a_connection_that_gets_no_session_goes_to_one_that_has_one() {
    for kind in ["mutex", "fair", "write", "permit", "kazoo's permit"] {
        let (store, session) = prompt();
        let other = on(&store);
        let held = of_kind(&other, kind).acquire().await.unwrap();
        let (mut waiting, waits) = (None, of_kind(&session, kind));
        let begin = || waiting = Some(crate::spawn(async move { waits.acquire().await }));
        let second = over_a_second_connection(&store, &session, begin).await;
        ends_for_good(&store, &session, second).await;
        held.release().await.unwrap();
        let granted = timeout(Duration::from_millis(1_100), waiting.unwrap()).await;
        let guard = granted.expect(kind).unwrap().unwrap();
        assert!(guard.is_valid(), "{kind}");
    }
}

/// A session with two connections, and the ZooKeeper sessions of these.
async fn of_two_connections() -> (Embedded, Session, [i64; 2]) {
    let (store, session) = prompt();
    let first = session.zookeeper_session().unwrap().id;
    let second = over_a_second_connection(&store, &session, || {}).await;
    (store, session, [first, second])
}

/// It does not come back for as long as the client tries: nobody holds the lock, and the other connection is up.
#[tokio::test(start_paused = true)]
async fn whoever_asks_on_a_connection_that_is_down_goes_to_one_that_is_up() {
    for kind in ["mutex", "write", "permit", "kazoo's permit"] {
        let (store, session, [first, second]) = of_two_connections().await;
        let faults = store.faults(second);
        faults.inject(Fault::cut_before().on(Op::Create).path("/a"));
        let ask = || {
            let lock = of_kind(&session, kind);
            crate::spawn(async move {
                let guard = lock.acquire_timeout(Duration::from_secs(2)).await?;
                guard.release().await
            })
        };
        let (mut begun, mut at) = (None, Instant::now());
        let begin = || (begun, at) = (Some(ask()), Instant::now());
        beside_the_first(&store, &session, first, begin).await;
        assert_eq!(session.state(), SessionState::Suspended, "{kind}: it is on the first one");
        // Who comes now waits with it, or is ahead.
        let later = ask();
        for asked in [begun.unwrap(), later] {
            asked.await.unwrap().expect(kind);
        }
        assert!(at.elapsed() < Duration::from_millis(1_100), "{kind}: {:?}", at.elapsed());
        // Nothing is sent when it comes back.
        faults.reconnect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let left = contenders(&store, "/zklock/a").await;
        assert!(left.iter().all(|name| ["locks", "leases"].contains(&&**name)), "{kind}: {left:?}");
    }
}

/// Its node is there, by which nobody holds the lock: it is in nobody's way, also not in its own.
#[tokio::test(start_paused = true)]
async fn a_node_on_a_connection_that_was_left_is_in_nobodys_way() {
    for kind in ["mutex", "write", "permit", "kazoo's permit"] {
        for tries in [Some(true), Some(false), None] {
            let (store, session, [first, second]) = of_two_connections().await;
            let faults = store.faults(second);
            drop(of_kind(&session, kind).acquire().await.unwrap());
            let below = match kind {
                "permit" => "/a/locks/",
                "kazoo's permit" => "/a-__lock__/",
                _ => "/a/",
            };
            faults.inject(Fault::cut_after().on(Op::Create).path(below));
            let (mut asked, mut at) = (None, Instant::now());
            let begin = || {
                let lock = of_kind(&session, kind);
                let task = crate::spawn(async move {
                    match tries {
                        Some(true) => lock.try_acquire().await,
                        Some(false) => lock.acquire_timeout(Duration::from_secs(2)).await,
                        None => lock.acquire().await,
                    }
                });
                (asked, at) = (Some(task), Instant::now());
            };
            beside_the_first(&store, &session, first, begin).await;
            let guard = asked.unwrap().await.unwrap().expect(kind);
            assert!(at.elapsed() < Duration::from_millis(1_100), "{kind}: {:?}", at.elapsed());
            // Another process that comes now waits for this one only.
            let other = of_kind(&on(&store), kind);
            let waiting = crate::spawn(async move { other.acquire().await.map(drop) });
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(guard.is_valid() && !waiting.is_finished(), "{kind}");
            guard.release().await.unwrap();
            timeout(Duration::from_millis(100), waiting).await.expect(kind).unwrap().unwrap();
            faults.reconnect();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let left = contenders(&store, "/zklock/a").await;
            assert!(
                left.iter().all(|name| ["locks", "leases"].contains(&&**name)),
                "{kind}: {left:?}"
            );
        }
    }
}

/// Where names recur, the node that it may have made cannot be told from another's, and none is deleted. Of an order,
/// each would be in the way of those before it.
#[tokio::test(start_paused = true)]
async fn whoever_may_have_made_a_node_that_others_cannot_know_stays_with_its_connection() {
    let options = LockOptions::new().fair(true);
    let locks: [&dyn Fn(&Session) -> AnyLock; 4] = [
        &|session| session.mutex("a").unwrap().with_options(options).into(),
        &|session| {
            let mutex = session.mutex("a").unwrap().with_driver(Numbered::dlock());
            mutex.with_options(options).into()
        },
        &|session| {
            let lock = session.rw_lock("a").unwrap().with_driver(HostNodes::of("h"));
            AnyLock::Write(lock.with_options(options))
        },
        &|session| {
            let lock = session.rw_lock("a").unwrap().with_driver(ReadWriteNodes);
            AnyLock::Write(lock.with_options(options))
        },
    ];
    for fair in locks {
        let (store, session, [first, second]) = of_two_connections().await;
        let held = fair(&on(&store)).acquire().await.unwrap();
        let faults = store.faults(second);
        faults.delay_replies(Duration::from_millis(5));
        faults.inject(Fault::cut_after().on(Op::Create).path("/a/").skip(1));
        let mut asked = Vec::new();
        let begin = || {
            asked.extend((0..2).map(|_| {
                let lock = fair(&session);
                crate::spawn(async move { lock.acquire().await.map(drop) })
            }));
        };
        beside_the_first(&store, &session, first, begin).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(session.state(), SessionState::Suspended, "{}", held.node_path());
        assert!(held.is_valid() && contenders(&store, "/zklock/a").await.len() == 3);
        faults.reconnect();
        held.release().await.unwrap();
        for asked in asked {
            timeout(Duration::from_secs(1), asked).await.unwrap().unwrap().unwrap();
        }
    }
}

/// Its node and the next one's may be there, and nobody holds the lock.
#[tokio::test(start_paused = true)]
async fn whoever_tries_in_an_order_is_not_told_that_the_lock_is_busy_with_those_who_came_later() {
    let (store, session, [first, second]) = of_two_connections().await;
    of_kind(&session, "fair").acquire().await.unwrap().release().await.unwrap();
    let faults = store.faults(second);
    faults.delay_replies(Duration::from_millis(5));
    let [tries, waits] = [(); 2].map(|()| of_kind(&session, "fair"));
    let mut tried = None;
    let begin = || {
        tried = Some(crate::spawn(async move { tries.try_acquire().await.map(drop) }));
        crate::spawn(async move { waits.acquire().await.map(drop) });
        crate::spawn(async move {
            tokio::time::sleep(Duration::from_millis(3)).await;
            faults.disconnect();
        });
    };
    beside_the_first(&store, &session, first, begin).await;
    let error = tried.unwrap().await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error:#}");
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2, "both have been made");
}

/// Where all have one node, it cannot be told from another's: there is none of the caller's while somebody else has it.
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_single_node_leaves_a_connection_that_is_down() {
    let (store, session, [first, second]) = of_two_connections().await;
    let lock = |session: &Session| session.mutex("a").unwrap().with_driver(OneNode);
    let held = lock(&on(&store)).acquire().await.unwrap();
    let (mut asked, waits) = (None, lock(&session));
    let begin = || asked = Some(crate::spawn(async move { waits.acquire().await.map(drop) }));
    beside_the_first(&store, &session, first, begin).await;
    store.faults(second).disconnect();
    held.release().await.unwrap();
    timeout(Duration::from_millis(1_100), asked.unwrap()).await.unwrap().unwrap().unwrap();
}

/// Its place is ahead of the other's.
#[tokio::test(start_paused = true)]
async fn whoever_has_a_node_on_a_connection_that_is_down_keeps_its_place() {
    let (store, session, [first, second]) = of_two_connections().await;
    let other = on(&store);
    let held = of_kind(&other, "mutex").acquire().await.unwrap();
    let (mut asked, lock) = (None, of_kind(&session, "mutex"));
    let begin = || asked = Some(crate::spawn(async move { lock.acquire().await }));
    beside_the_first(&store, &session, first, begin).await;
    let before = contenders(&store, "/zklock/a").await;
    store.faults(second).disconnect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(contenders(&store, "/zklock/a").await, before);
    store.faults(second).reconnect();
    held.release().await.unwrap();
    let guard = timeout(Duration::from_secs(1), asked.unwrap()).await.unwrap().unwrap().unwrap();
    assert!(before.iter().any(|name| guard.node_path().ends_with(name.as_str())), "{before:?}");
}

/// They have taken their turns on the first one. One after the other they would wait for a second each.
#[tokio::test(start_paused = true)]
async fn all_who_wait_for_a_connection_that_gets_no_session_leave_it_in_their_order() {
    let (store, session) = prompt();
    let first = session.zookeeper_session().unwrap().id;
    let second = over_a_second_connection(&store, &session, || {}).await;
    let wait = |millis| tokio::time::sleep(Duration::from_millis(millis));
    let unreachable = || store.begin_outage(RequestError::Unreachable("for a test".to_owned()));
    // It tries again 50 ms later, before the first one does.
    unreachable();
    store.faults(second).expire();
    wait(20).await;
    store.faults(first).expire();
    wait(10).await;
    let granted = Arc::new(Mutex::new(Vec::new()));
    let ask = |number: u32| {
        let mutex = session.mutex("a").unwrap().with_options(LockOptions::new().fair(true));
        let granted = granted.clone();
        crate::spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            granted.lock().unwrap().push(number);
            guard.release().await.unwrap();
        })
    };
    let waiting: Vec<_> = (0..30).map(ask).collect();
    wait(10).await;
    store.end_outage();
    wait(20).await;
    unreachable();
    assert_eq!((store.sessions().len(), session.state()), (1, SessionState::Connecting));
    let all = async {
        for waiting in waiting {
            waiting.await.unwrap();
        }
    };
    timeout(Duration::from_millis(1_100), all).await.expect("they wait one after the other");
    assert_eq!(*granted.lock().unwrap(), Vec::from_iter(0..30));
}

/// What cannot be deleted for long goes with its session.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_used_no_more_ends_although_a_deletion_never_succeeds() {
    let (store, session) = prompt();
    let id = session.zookeeper_session().unwrap().id;
    let [refused, stuck] = ["refused", "stuck"].map(|name| session.mutex(name).unwrap());
    let (refused, stuck) = (refused.acquire().await.unwrap(), stuck.acquire().await.unwrap());
    let faults = store.faults(id);
    let unknown = RequestError::Other("so says the test".to_owned());
    faults.inject(Fault::refuse(unknown).on(Op::Delete).path("/stuck/").times(u64::MAX));
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("/refused/"));
    drop(stuck);
    refused.release().await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!store.sessions().contains(&id), "it is kept");
    assert!(contenders(&store, "/zklock/stuck").await.is_empty());
}
