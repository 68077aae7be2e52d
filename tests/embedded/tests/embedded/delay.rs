//! Lock delay: what the next does when a holder was lost, and when it was not.

use std::time::Duration;

use tokio::time::Instant;
use zklock::layout::{Curator, Kazoo, MaxLeases, Numbered, Removed};
use zklock::{AnyLock, Embedded, ErrorKind, LockOptions, Mutex, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{
    about, cancelled_before_each_reply, client, contenders, data, on, prompt, store,
};

const DELAY: Duration = Duration::from_secs(5);

/// Longer than an answer is waited for at first.
const LONG: Duration = Duration::from_millis(1_200);

const NOTHING: &str = r#"{"zklock":1,"kept":true}"#;

fn options() -> LockOptions {
    LockOptions::default().lock_delay(DELAY)
}

fn delayed(session: &Session) -> Mutex {
    session.mutex("a").unwrap().with_options(options())
}

/// Ends the ZooKeeper session of a session, as if its process had crashed.
fn crash(store: &Embedded, session: &Session) {
    store.faults(session.zookeeper_session().unwrap().id).expire();
}

/// The data of the lock's directory.
async fn mark(store: &Embedded) -> String {
    data(store, "/zklock/a").await
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_holder_the_next_waits() {
    let (store, session) = store();
    let other = delayed(&on(&store));
    let guard = delayed(&session).acquire().await.unwrap();
    let waiting = crate::spawn(async move { other.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    crash(&store, &session);
    let next = waiting.await.unwrap();
    about(start.elapsed(), DELAY);
    assert!(next.is_valid() && next.fencing_token() > guard.fencing_token());
    assert!(mark(&store).await.contains(r#""delay_ms":5000"#));
    next.release().await.unwrap();
    assert_eq!(mark(&store).await, NOTHING);
}

/// From the crash on the waiter is first in the queue.
#[tokio::test(start_paused = true)]
async fn who_rests_after_a_lost_holder_is_not_shown_as_the_holder() {
    let (store, session) = store();
    let (looking, other) = (on(&store), delayed(&on(&store)));
    let _guard = delayed(&session).acquire().await.unwrap();
    let waiting = crate::spawn(async move { other.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    crash(&store, &session);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let survey = looking.site("a").unwrap().survey().await.unwrap();
    assert!(survey.queue.len() == 1 && !survey.queue[0].holds, "{survey:?}");
    assert!(survey.unavailable_until.is_some());
    let site = looking.sites("a").await.unwrap().remove(0);
    assert_eq!(site.unavailable_until(), survey.unavailable_until);
    let seen = site.contenders().await.unwrap();
    assert!(seen.len() == 1 && !seen[0].holds, "{seen:?}");
    assert!(!site.contenders_reusing(&seen).await.unwrap()[0].holds);
    assert_eq!(site.revoke().await.unwrap(), 0);
    let next = waiting.await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(next.is_valid() && !next.is_revoked());
    let survey = looking.site("a").unwrap().survey().await.unwrap();
    assert!(survey.queue[0].holds && survey.unavailable_until.is_none(), "{survey:?}");
    let site = looking.sites("a").await.unwrap().remove(0);
    assert!(site.unavailable_until().is_none() && site.contenders().await.unwrap()[0].holds);
    assert_eq!(site.revoke().await.unwrap(), 1);
    drop(next);
}

/// To those who come behind it.
#[tokio::test(start_paused = true)]
async fn who_rests_after_a_lost_holder_is_not_told_of_as_the_holder() {
    let (store, session) = store();
    let (other, next) = (delayed(&on(&store)), delayed(&on(&store)));
    let _guard = delayed(&session).acquire().await.unwrap();
    let waiting = crate::spawn(async move { other.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    crash(&store, &session);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let waited = next.acquire_timeout(Duration::from_secs(1)).await;
    for error in [waited, next.try_acquire().await] {
        let error = error.unwrap_err();
        assert!(error.is_busy() && error.holder().is_none(), "{error:#}");
        assert!(format!("{error:#}").contains("its last holder was lost"), "{error:#}");
    }
    let held = waiting.await.unwrap();
    let error = next.try_acquire().await.unwrap_err();
    let holder = error.holder().unwrap();
    assert!(held.node_path().ends_with(&holder.node), "{error:#}");
}

/// Who knows nothing of the delay has the lock at once.
#[tokio::test(start_paused = true)]
async fn a_client_in_another_language_is_shown_as_the_holder_during_the_delay() {
    let (store, session) = store();
    let (looking, other) = (on(&store), delayed(&on(&store)));
    let _guard = delayed(&session).acquire().await.unwrap();
    crash(&store, &session);
    assert!(other.try_acquire().await.unwrap_err().is_busy());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    let path = "/zklock/a/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-";
    let peer = client(&store).await;
    peer.create(path, b"10.0.0.7", NodeKind::EphemeralSequential).await.unwrap();
    let survey = looking.site("a").unwrap().survey().await.unwrap();
    assert!(survey.unavailable_until.is_some() && survey.queue[0].holds, "{survey:?}");
    let busy = other.try_acquire().await.unwrap_err();
    assert!(busy.holder().is_some_and(|holder| holder.owner.host == "10.0.0.7"), "{busy:#}");
}

#[tokio::test(start_paused = true)]
async fn after_a_release_nobody_waits() {
    let (store, session) = prompt();
    let other = delayed(&on(&store));
    for _ in 0..3 {
        delayed(&session).acquire().await.unwrap().release().await.unwrap();
        assert_eq!(mark(&store).await, NOTHING);
        drop(other.try_acquire().await.unwrap());
    }
    // Nor after a release that somebody was waiting for.
    let guard = delayed(&session).acquire().await.unwrap();
    let waiting = crate::spawn(async move { other.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    guard.release().await.unwrap();
    drop(waiting.await.unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_delay_goes_on_while_those_who_try_give_up() {
    let (store, session) = store();
    let other = delayed(&on(&store));
    let _guard = delayed(&session).acquire().await.unwrap();
    crash(&store, &session);
    // The session's own state comes back by itself; nobody has looked yet.
    tokio::time::sleep(10 * DELAY).await;
    let start = Instant::now();
    while start.elapsed() < DELAY {
        let error = other.try_acquire().await.unwrap_err();
        assert!(
            error.is_busy() && format!("{error:#}").contains("its last holder was lost"),
            "{error}"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(other.try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_comes_first_is_busy_and_says_why() {
    let (store, session) = store();
    let other = delayed(&on(&store));
    let _guard = delayed(&session).acquire().await.unwrap();
    crash(&store, &session);
    let start = Instant::now();
    let error = other.acquire_timeout(Duration::from_secs(2)).await.unwrap_err();
    about(start.elapsed(), Duration::from_secs(2));
    assert_eq!((error.code(), error.lock_name()), ("1011", Some("a")));
    assert!(format!("{error:#}").contains("it is unavailable until 20"), "{error}");
    drop(other.acquire_timeout(Duration::from_secs(10)).await.unwrap());
    about(start.elapsed(), DELAY);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_no_busy_lock() {
    let (store, session) = store();
    let other = on(&store);
    let _guard = delayed(&session).acquire().await.unwrap();
    crash(&store, &session);
    let waiting = crate::spawn({
        let mutex = delayed(&other);
        async move { mutex.acquire_timeout(Duration::from_secs(2)).await.unwrap_err() }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.faults(other.zookeeper_session().unwrap().id).silence();
    assert_eq!(waiting.await.unwrap().kind(), ErrorKind::Unavailable);
}

/// What follows is not answered, so nobody says that the lock is unavailable.
#[tokio::test(start_paused = true)]
async fn a_rest_that_is_over_makes_no_lock_busy() {
    let (store, session) = prompt();
    let other = on(&store);
    let _guard = delayed(&session).acquire().await.unwrap();
    crash(&store, &session);
    // The first write begins the rest.
    let fault = Fault::forget_reply().on(Op::Multi).path("/zklock/a").skip(1).times(u64::MAX);
    store.faults(other.zookeeper_session().unwrap().id).inject(fault);
    let limit = DELAY + Duration::from_secs(1);
    let error = delayed(&other).acquire_timeout(limit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
}

#[tokio::test(start_paused = true)]
async fn a_late_release_leaves_the_mark_of_the_next() {
    let (store, session) = store();
    let other = delayed(&on(&store));
    let guard = delayed(&session).acquire().await.unwrap();
    let waiting = crate::spawn(async move { other.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    client(&store).await.delete(guard.node_path()).await.unwrap();
    let next = waiting.await.unwrap();
    about(start.elapsed(), DELAY);
    let marked = mark(&store).await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.is_valid());
    assert_eq!(mark(&store).await, marked);
    next.release().await.unwrap();
    assert_eq!(mark(&store).await, NOTHING);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_handed_on_costs_no_commit() {
    let (store, session) = prompt();
    let mutex = delayed(&session);
    let guard = mutex.acquire().await.unwrap();
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let mutex = mutex.clone();
            crate::spawn(async move { drop(mutex.acquire().await.unwrap()) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    store.record();
    drop(guard);
    for task in tasks {
        task.await.unwrap();
    }
    let ops: Vec<_> = store.recorded().into_iter().map(|logged| logged.op).collect();
    // At the bound it may be asked whether anybody is behind.
    let commits: Vec<_> = ops.iter().filter(|op| **op != Op::Children).collect();
    assert_eq!(commits, [&Op::Multi], "the mark goes with the node");
    assert_eq!(mark(&store).await, NOTHING);
}

#[tokio::test(start_paused = true)]
async fn a_lock_without_the_options_sends_nothing_more() {
    let (store, session) = prompt();
    let mutex = session.mutex("a").unwrap();
    drop(mutex.acquire().await.unwrap());
    store.record();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let ops: Vec<_> = store.recorded().into_iter().map(|logged| logged.op).collect();
    // The watch on the own node is the embedded coordinator's heartbeat.
    let expected = [Op::Create, Op::Children, Op::Get, Op::Delete];
    assert_eq!(ops, expected);
    assert_eq!(mark(&store).await, "");
}

#[tokio::test(start_paused = true)]
async fn the_data_of_others_is_never_overwritten() {
    let (store, session) = store();
    drop(session.mutex("a/b").unwrap().acquire().await.unwrap());
    let client = client(&store).await;
    let theirs = [&b"3"[..], br#"{"zklock":2}"#, br#"{"limit":3}"#, &[0xff; 5_000]];
    for data in theirs {
        client.set("/zklock/a", data).await.unwrap();
        let error = delayed(&session).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(format!("{error:#}").contains("must be empty"), "{error}");
        assert_eq!(client.get("/zklock/a").await.unwrap().0, data);
    }
    // Nor what is written while the lock is held.
    client.set("/zklock/a", b"").await.unwrap();
    let guard = delayed(&session).acquire().await.unwrap();
    client.set("/zklock/a", b"3").await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(client.get("/zklock/a").await.unwrap().0, b"3");
    assert_eq!(contenders(&store, "/zklock/a").await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn data_that_comes_between_the_look_and_the_mark_stays() {
    let (store, session) = store();
    delayed(&session).acquire().await.unwrap().release().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // The mark is not applied, and what others wrote has the version that it would have had.
    faults.inject(Fault::lose_request().on(Op::Multi));
    let mutex = delayed(&session);
    let acquiring = crate::spawn(async move { mutex.acquire().await.map(drop) });
    tokio::task::yield_now().await;
    client(&store).await.set("/zklock/a", b"3").await.unwrap();
    assert_eq!(acquiring.await.unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(mark(&store).await, "3");
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn marks_whose_answers_are_lost_are_repaired() {
    for fault in [Fault::lose_reply(), Fault::lose_request()] {
        for skip in 0..2 {
            let (store, session) = store();
            let faults = store.faults(session.zookeeper_session().unwrap().id);
            faults.inject(fault.clone().on(Op::Multi).skip(skip));
            let guard = delayed(&session).acquire().await.unwrap();
            assert!(mark(&store).await.contains("delay_ms"));
            guard.release().await.unwrap();
            assert_eq!(mark(&store).await, NOTHING, "{fault:?} {skip}");
            assert!(contenders(&store, "/zklock/a").await.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_before_each_reply_no_mark_is_left() {
    let nothing_is_left = async |store: &Embedded| {
        assert!(contenders(store, "/zklock/a").await.is_empty());
        assert_eq!(mark(store).await, NOTHING);
    };
    let lock = |session: &Session| AnyLock::Mutex(delayed(session));
    let unanswered = cancelled_before_each_reply(lock, nothing_is_left).await;
    for op in [Op::Create, Op::Children, Op::Get, Op::Multi] {
        assert!(unanswered.contains(&op), "{unanswered:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn readers_wait_for_a_lost_writer_and_are_not_waited_for() {
    let (store, session) = store();
    let lock = |session: &Session| session.rw_lock("a").unwrap().with_options(options());
    let other = on(&store);
    let _writing = lock(&session).write().await.unwrap();
    crash(&store, &session);
    let start = Instant::now();
    let [one, two] = [lock(&other), lock(&on(&store))];
    let (one, two) = tokio::join!(one.read(), two.read());
    about(start.elapsed(), DELAY);
    assert!(one.is_ok_and(|guard| guard.is_valid()) && two.is_ok_and(|guard| guard.is_valid()));
    let _reading = lock(&other).read().await.unwrap();
    let next = on(&store);
    crash(&store, &other);
    drop(lock(&next).try_write().await.unwrap());
}

/// Nobody watches the node of a reader that rests.
#[tokio::test(start_paused = true)]
async fn a_reader_whose_node_goes_while_it_rests_is_not_let_in_beside_a_writer() {
    let (store, session) = prompt();
    let lock = |session: &Session| session.rw_lock("a").unwrap();
    let [reading, writing] = [on(&store), on(&store)];
    // Whoever is granted the lock is not told at once that its node is gone.
    let faults = store.faults(reading.zookeeper_session().unwrap().id);
    faults.delay_replies(Duration::from_millis(10));
    let reading = lock(&reading).with_options(options());
    let _lost = lock(&session).with_options(options()).write().await.unwrap();
    crash(&store, &session);
    let reading = crate::spawn(async move { reading.read().await.unwrap() });
    tokio::time::sleep(DELAY / 2).await;
    let node = contenders(&store, "/zklock/a").await.remove(0);
    client(&store).await.delete(&format!("/zklock/a/{node}")).await.unwrap();
    // One who knows nothing of the delay.
    let written = lock(&writing).write().await.unwrap();
    tokio::time::sleep(DELAY).await;
    assert!(!reading.is_finished() && written.is_valid(), "two are inside");
    written.release().await.unwrap();
    let guard = reading.await.unwrap();
    let nodes = contenders(&store, "/zklock/a").await;
    assert!(guard.is_valid() && nodes.len() == 1 && guard.node_path().ends_with(&nodes[0]));
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_let_in_where_answers_take_long() {
    let (store, session) = prompt();
    let lock = session.rw_lock("a").unwrap().with_options(options());
    lock.write().await.unwrap().release().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(LONG);
    assert!(lock.read_timeout(Duration::from_secs(60)).await.unwrap().is_valid());
}

/// The question whether a writer is behind them is answered late as well.
#[tokio::test(start_paused = true)]
async fn a_reader_enters_beside_those_of_its_process_where_answers_take_long() {
    let (store, session) = prompt();
    let first = session.rw_lock("a").unwrap().read().await.unwrap();
    // The turn is over.
    tokio::time::sleep(Duration::from_millis(20)).await;
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(LONG);
    let lock = session.rw_lock("a").unwrap();
    // A try has 2 s.
    let tried = crate::spawn(async move { lock.try_read().await });
    let tried = tried.await.unwrap().unwrap();
    assert!(first.is_valid() && tried.is_valid());
}

#[tokio::test(start_paused = true)]
async fn who_steps_down_takes_the_mark_away() {
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap().with_options(options());
    let reading = lock.write().await.unwrap().downgrade().await.unwrap();
    assert_eq!(mark(&store).await, NOTHING);
    reading.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_directory_may_vanish() {
    let (store, session) = store();
    let mutex = delayed(&session);
    let client = client(&store).await;
    for _ in 0..3 {
        mutex.acquire().await.unwrap().release().await.unwrap();
        client.delete("/zklock/a").await.unwrap();
    }
    // And be a container, if others made it.
    client.create("/zklock/a", b"", NodeKind::Container).await.unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(mark(&store).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_we_make_stays_with_its_mark() {
    let (store, session) = store();
    let _guard = delayed(&session).acquire().await.unwrap();
    crash(&store, &session);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(mark(&store).await.contains("delay_ms"));
    let error = delayed(&on(&store)).try_acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn layouts_that_keep_no_marks_are_refused() {
    let (store, session) = store();
    let refused = [
        delayed(&session).with_driver(Numbered::dlock()),
        delayed(&session).with_driver(Removed::after(Curator)),
        delayed(&session).with_driver(MaxLeases::new(2, Curator).unwrap()),
        session.mutex("a").unwrap().with_driver(zklock::layout::OneNode).with_options(options()),
    ];
    for mutex in refused {
        let error = mutex.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(format!("{error:#}").contains("such as Curator's"), "{error}");
    }
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    let kazoo = delayed(&session).with_driver(Kazoo::default());
    kazoo.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(mark(&store).await, "");
}

#[tokio::test(start_paused = true)]
async fn an_acl_that_keeps_the_mark_out_is_an_error_and_leaves_no_node() {
    let (store, session) = store();
    delayed(&session).acquire().await.unwrap().release().await.unwrap();
    let refused = RequestError::Multi { index: 1, error: Box::new(RequestError::NoAuth) };
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(refused).on(Op::Multi));
    let error = delayed(&session).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test]
async fn semaphores_have_none_and_a_session_default_passes_them_by() {
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).defaults(options()).open().unwrap();
    drop(session.semaphore("s", 1).unwrap().acquire().await.unwrap());
    let delayed = session.semaphore("s", 1).unwrap().with_options(options());
    let error = delayed.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    assert_eq!(mark(&store).await, NOTHING);
}
