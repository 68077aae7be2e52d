//! Writes that succeed only while the lock is held.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zklock::{Embedded, ErrorKind, GuardView, LockOptions, MutexGuard, Session};
use zklock_core::coordinator::memory::{Fault, Op};

use crate::support::{client, on, prompt, store};

/// The session timeout by default.
const T: Duration = Duration::from_secs(10);

/// How exactly a timer fires.
const TICK: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_holder_writes_and_a_bad_write_says_why() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    guard.fenced().create("/state", b"1").await.unwrap();
    guard.fenced().set("/state", b"2").await.unwrap();
    assert_eq!(client(&store).await.get("/state").await.unwrap().0, b"2");
    let again = guard.fenced().create("/state", b"").await.unwrap_err();
    assert_eq!((again.kind(), again.code()), (ErrorKind::Refused, "1023"));
    assert_eq!(guard.fenced().set("/none", b"").await.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(guard.fenced().set("none", b"").await.unwrap_err().kind(), ErrorKind::InvalidName);
    guard.fenced().delete("/state").await.unwrap();
    assert!(client(&store).await.get("/state").await.is_err());
    assert!(guard.is_valid());
}

/// Also where the node is kept for the next caller, and the time of the hold is over by now.
#[tokio::test(start_paused = true)]
async fn a_view_of_a_guard_that_was_released_says_so() {
    let (store, session) = prompt();
    for linger in [Duration::ZERO, 10 * T] {
        let options = LockOptions::new().hold_at_most(T).linger(linger);
        let guard = session.mutex("a").unwrap().with_options(options).acquire().await.unwrap();
        let view = guard.view();
        guard.release().await.unwrap();
        sleep(2 * T).await;
        let late = view.fenced().set("/state", b"late").await.unwrap_err();
        assert!(late.is_lost(), "{late}");
        assert_eq!(late.to_string(), "a was lost: its guard was released");
    }
    let writing = session.rw_lock("b").unwrap().write().await.unwrap();
    let (view, reading) = (writing.view(), writing.downgrade().await.unwrap());
    let late = view.fenced().set("/state", b"late").await.unwrap_err();
    assert!(late.is_lost() && late.to_string().ends_with("released or downgraded"), "{late}");
    // It was lost first.
    let view = reading.view();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    reading.release().await.unwrap_err();
    let late = view.fenced().set("/state", b"late").await.unwrap_err();
    assert!(late.is_lost() && late.to_string().contains("its ZooKeeper session ended"), "{late}");
}

/// A guard that has written once, and the next one: it is waited for already, or asked for when it is awaited.
async fn held_before_another(
    session: &Session,
    linger: Duration,
    is_awaited: bool,
) -> (MutexGuard, impl Future<Output = MutexGuard>) {
    let options = LockOptions::new().linger(linger);
    let lock = session.mutex("a").unwrap().with_options(options);
    let guard = lock.acquire().await.unwrap();
    guard.fenced().create("/state", b"1").await.unwrap();
    let waiting = is_awaited.then(|| {
        let lock = lock.clone();
        crate::spawn(async move { lock.acquire().await })
    });
    sleep(TICK).await;
    let next = async move {
        let next = match waiting {
            Some(waiting) => waiting.await.unwrap(),
            None => lock.acquire().await,
        };
        next.unwrap()
    };
    (guard, next)
}

/// In the same process the node would pass to the next one, or stay for it.
#[tokio::test(start_paused = true)]
async fn a_write_that_nobody_waits_for_is_not_applied_while_the_next_caller_holds() {
    for (linger, is_awaited) in [(10 * T, false), (Duration::ZERO, true)] {
        let (store, session) = store();
        let (guard, next) = held_before_another(&session, linger, is_awaited).await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.hold_requests();
        let fenced = guard.fenced();
        let write = tokio::time::timeout(Duration::ZERO, fenced.set("/state", b"2"));
        write.await.unwrap_err();
        drop(guard);
        let raw = client(&store).await;
        let next = async { (next.await, raw.get("/state").await.unwrap().0) };
        let released = async {
            sleep(10 * TICK).await;
            faults.release();
        };
        let ((next, at_first), ()) = tokio::join!(next, released);
        sleep(T / 10).await;
        assert_eq!(raw.get("/state").await.unwrap().0, at_first, "linger: {linger:?}");
        assert!(next.is_valid());
    }
}

/// How a write can fail so that it is not known whether it is applied, or still may be; and none that fails.
fn doubts() -> [Option<Fault>; 3] {
    let of_the_write = |fault: Fault| Some(fault.on(Op::Multi).path("/state"));
    [of_the_write(Fault::lose_reply()), of_the_write(Fault::forget_reply()), None]
}

/// Who waits for it is told that it is unavailable, which says not that it is never applied.
#[tokio::test(start_paused = true)]
async fn a_node_is_not_handed_on_after_a_write_that_failed_and_may_be_applied() {
    for fault in doubts() {
        for (linger, is_awaited) in [(10 * T, false), (Duration::ZERO, true)] {
            let (store, session) = prompt();
            let (guard, next) = held_before_another(&session, linger, is_awaited).await;
            let in_doubt = write_in_doubt(&store, &session, &guard, fault.clone()).await;
            let path = guard.node_path().to_owned();
            drop(guard);
            let is_handed_on = next.await.node_path() == path;
            assert_eq!(is_handed_on, !in_doubt, "{fault:?}, linger: {linger:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readers_do_not_enter_beside_a_step_down_after_a_write_that_failed_and_may_be_applied() {
    for fault in doubts() {
        let (store, session) = prompt();
        let lock = session.rw_lock("a").unwrap();
        let writing = lock.write().await.unwrap();
        writing.fenced().create("/state", b"1").await.unwrap();
        let waiting = crate::spawn(async move { lock.read().await });
        sleep(TICK).await;
        let in_doubt = write_in_doubt(&store, &session, &writing, fault.clone()).await;
        let stepped_down = writing.downgrade().await.unwrap();
        let reading = waiting.await.unwrap().unwrap();
        let is_let_in = reading.node_path() == stepped_down.node_path();
        assert_eq!(is_let_in, !in_doubt, "{fault:?}");
    }
}

/// Writes under a lock, with this fault if there is one. Returns whether it may still be applied.
async fn write_in_doubt(
    store: &Embedded,
    session: &Session,
    view: &GuardView,
    fault: Option<Fault>,
) -> bool {
    let Some(fault) = fault else {
        view.fenced().set("/state", b"2").await.unwrap();
        return false;
    };
    store.faults(session.zookeeper_session().unwrap().id).inject(fault);
    let error = view.fenced().set("/state", b"2").await.unwrap_err();
    assert!(error.is_unavailable() && view.is_valid(), "{error:#}");
    true
}

/// It is sent when the reader's node is there, and the writer's is not deleted yet.
#[tokio::test(start_paused = true)]
async fn a_write_under_a_writer_that_steps_down_is_not_applied_beside_its_readers() {
    let (store, session) = prompt();
    let lock = session.rw_lock("a").unwrap();
    let writing = lock.write().await.unwrap();
    writing.fenced().create("/state", b"1").await.unwrap();
    let view = writing.view();
    let waiting = crate::spawn(async move { lock.read().await });
    sleep(TICK).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(10 * TICK);
    let stepping = crate::spawn(writing.downgrade());
    sleep(TICK).await;
    // What was answered arrives, and what is sent from now on is not applied.
    faults.hold_requests();
    let fenced = view.fenced();
    let write = tokio::time::timeout(Duration::ZERO, fenced.set("/state", b"2"));
    write.await.unwrap_err();
    let raw = client(&store).await;
    let reads = async {
        let reading = waiting.await.unwrap().unwrap();
        (reading, raw.get("/state").await.unwrap().0)
    };
    let released = async {
        sleep(50 * TICK).await;
        faults.release();
    };
    let ((reading, at_first), ()) = tokio::join!(reads, released);
    sleep(T / 10).await;
    assert_eq!(raw.get("/state").await.unwrap().0, at_first);
    assert!(reading.is_valid() && stepping.await.unwrap().unwrap().is_valid());
}

/// The node is gone and this process has not learnt of it: the server refuses.
#[tokio::test]
async fn a_stale_holder_is_refused_by_the_server() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let outside = client(&store).await;
    outside
        .create("/state", b"1", zklock_core::coordinator::node::NodeKind::Persistent)
        .await
        .unwrap();
    // The news of the deletion does not come through.
    store.faults(session.zookeeper_session().unwrap().id).hold_replies();
    outside.delete(guard.node_path()).await.unwrap();
    assert!(guard.is_valid());
    let fenced = guard.fenced();
    let writing = fenced.set("/state", b"stale");
    let releasing = async {
        tokio::task::yield_now().await;
        store.faults(session.zookeeper_session().unwrap().id).release();
    };
    let (written, ()) = tokio::join!(writing, releasing);
    assert!(written.unwrap_err().is_lost());
    assert_eq!(outside.get("/state").await.unwrap().0, b"1");
    assert!(guard.fenced().set("/state", b"later").await.unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn all_permits_are_proven_and_silence_is_no_refusal() {
    let (store, session) = store();
    let permits = session.semaphore("a", 3).unwrap().acquire_many(3).await.unwrap();
    permits.fenced().create("/state", b"").await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::lose_reply().on(Op::Multi));
    let error = permits.fenced().set("/state", b"2").await.unwrap_err();
    assert!(error.is_unavailable() && format!("{error:#}").contains("may have"), "{error}");
    assert_eq!(client(&store).await.get("/state").await.unwrap().0, b"2");
    drop(permits);
    drop(on(&store));
}

/// Sent again, it would be applied twice, or its answer would come.
#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_fails_after_a_session_timeout_and_is_not_repeated() {
    for is_applied in [true, false] {
        let (store, session) = prompt();
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        guard.fenced().create("/state", b"1").await.unwrap();
        // A node that does not exist is not written to, which is not answered either.
        let path = if is_applied { "/state" } else { "/none" };
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.inject(Fault::forget_reply().on(Op::Multi).path(path));
        let start = Instant::now();
        let error = guard.fenced().set(path, b"2").await.unwrap_err();
        let took = start.elapsed();
        assert!((T..=T + TICK).contains(&took), "{took:?}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
        let text = format!("{error:#}");
        assert!(text.contains("the write may have been applied") && text.contains(path), "{text}");
        // Nor afterwards.
        sleep(3 * T).await;
        let (data, stat) = client(&store).await.get("/state").await.unwrap();
        let (expected, writes) = if is_applied { (b"2", 1) } else { (b"1", 0) };
        assert_eq!((&*data, stat.version), (&expected[..], writes));
        // The other answers came, so the lock is held.
        assert!(guard.is_valid() && !guard.remaining().is_zero());
        guard.fenced().set("/state", b"3").await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn in_silence_the_lock_is_lost_before_a_write_fails() {
    let (store, session) = prompt();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    guard.fenced().create("/state", b"1").await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // A server that stands still, on a connection that lives on.
    faults.hold_requests();
    let (start, fenced) = (Instant::now(), guard.fenced());
    let lease = session.timing().unwrap().lease;
    let lost = async {
        sleep(lease + TICK).await;
        !guard.is_valid()
    };
    let (written, lost) = tokio::join!(fenced.set("/state", b"2"), lost);
    let took = start.elapsed();
    assert!(lost && (T..=T + TICK).contains(&took), "{lost}, {took:?}");
    let error = written.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
    assert!(format!("{error:#}").contains("the write may have been applied"), "{error:#}");
    assert!(fenced.set("/state", b"3").await.unwrap_err().is_lost());
}
