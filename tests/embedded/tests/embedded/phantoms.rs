//! A server that shows a node which its leader does not know: who waits for it leaves that server.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zklock::{Embedded, MutexGuard, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{contenders, on, prompt, store};

/// Longer than a waiter rests between two looks.
const LONG: Duration = Duration::from_secs(60);

fn generation(session: &Session) -> Option<u64> {
    session.zookeeper_session().map(|one| one.number)
}

/// Makes the leader of a session's server say that it does not know a node, so many times.
fn unknown(store: &Embedded, session: &Session, path: &str, times: u64) {
    let no_node = RequestError::Multi { index: 0, error: Box::new(RequestError::NoNode) };
    let fault = Fault::refuse(no_node).on(Op::Multi).path(path).times(times);
    store.faults(session.zookeeper_session().unwrap().id).inject(fault);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_phantom_goes_to_a_server_that_does_not_show_it() {
    let (store, session) = store();
    let phantom = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    unknown(&store, &session, phantom.node_path(), u64::MAX);
    let mutex = session.mutex("a").unwrap();
    let waiting = crate::spawn(async move { mutex.acquire().await });
    sleep(LONG).await;
    assert!(!waiting.is_finished());
    assert_eq!(generation(&session), None, "it trusts a server that shows the phantom");
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1, "its node stays behind");
    let error = session.mutex("b").unwrap().acquire_timeout(LONG).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(format!("{error:#}").contains(phantom.node_path()), "{error}");
    // As on another server.
    phantom.release().await.unwrap();
    let guard = timeout(LONG, waiting).await.unwrap().unwrap().unwrap();
    assert!(guard.is_valid());
    assert_eq!(generation(&session), Some(2));
}

/// After a session timeout, or after 5 s.
#[tokio::test(start_paused = true)]
async fn who_waits_asks_the_leader_once_the_first_has_been_there_for_a_session_timeout() {
    for (session_timeout, long) in [(2, 5), (10, 10)] {
        let [session_timeout, long] = [session_timeout, long].map(Duration::from_secs);
        let store = Embedded::new();
        let builder = Session::embedded_builder(&store).session_timeout(session_timeout);
        let session = builder.open().unwrap();
        let held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
        store.record();
        let mutex = session.mutex("a").unwrap();
        let waiting = crate::spawn(async move { mutex.acquire().await.map(drop) });
        let asked = || store.recorded().iter().any(|request| request.op == Op::Multi);
        sleep(long - Duration::from_millis(10)).await;
        assert!(!asked(), "too soon: {session_timeout:?}");
        sleep(Duration::from_millis(60)).await;
        assert!(asked(), "too late: {session_timeout:?}");
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn guards_of_the_session_that_is_left_stay_valid() {
    let (store, session) = store();
    let phantom = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let held = session.mutex("b").unwrap().acquire().await.unwrap();
    unknown(&store, &session, phantom.node_path(), u64::MAX);
    let mutex = session.mutex("a").unwrap();
    let waiting = crate::spawn(async move { mutex.acquire().await });
    sleep(LONG).await;
    assert!(held.is_valid());
    phantom.release().await.unwrap();
    drop(timeout(LONG, waiting).await.unwrap().unwrap().unwrap());
    assert!(held.is_valid());
    held.release().await.unwrap();
}

/// Locks on two connections: the second is opened while the first answers nothing to many.
async fn held_on_two(store: &Embedded, session: &Session) -> Vec<MutexGuard> {
    drop(session.mutex("first").unwrap().acquire().await.unwrap());
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_replies();
    let acquire = |number| {
        let mutex = session.mutex(format!("many/{number}")).unwrap();
        crate::spawn(async move { mutex.acquire().await.unwrap() })
    };
    let acquiring: Vec<_> = (0..9).map(acquire).collect();
    sleep(Duration::from_millis(1)).await;
    faults.release();
    let mut held = Vec::new();
    for acquired in acquiring {
        held.push(acquired.await.unwrap());
    }
    held
}

#[tokio::test(start_paused = true)]
async fn every_connection_to_the_server_that_shows_a_phantom_is_left() {
    let (store, session) = prompt();
    let phantom = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let held = held_on_two(&store, &session).await;
    assert_eq!(store.sessions().len(), 3);
    unknown(&store, &session, phantom.node_path(), u64::MAX);
    let mutex = session.mutex("a").unwrap();
    let waiting = crate::spawn(async move { mutex.acquire().await });
    sleep(LONG).await;
    let error = session.mutex("b").unwrap().acquire_timeout(LONG).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(held.iter().all(|held| held.is_valid()));
    phantom.release().await.unwrap();
    assert!(timeout(LONG, waiting).await.unwrap().unwrap().unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_a_phantom_is_left_too() {
    let (store, session) = store();
    let permit = |session: &Session| session.semaphore("s", 1).unwrap();
    let phantom = permit(&on(&store)).acquire().await.unwrap();
    let path = contenders(&store, "/zklock/s/leases").await.remove(0);
    unknown(&store, &session, &path, u64::MAX);
    let wanted = permit(&session);
    let waiting = crate::spawn(async move { wanted.acquire().await });
    sleep(LONG).await;
    assert_eq!(generation(&session), None);
    phantom.release().await.unwrap();
    drop(timeout(LONG, waiting).await.unwrap().unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_leader_knows_after_all_is_waited_for() {
    let (store, session) = store();
    let held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    // Gone at the check and there again, as a name that recurs may be.
    unknown(&store, &session, held.node_path(), 1);
    let mutex = session.mutex("a").unwrap();
    let waiting = crate::spawn(async move { mutex.acquire().await });
    sleep(10 * LONG).await;
    assert_eq!(generation(&session), Some(1));
    held.release().await.unwrap();
    drop(timeout(LONG, waiting).await.unwrap().unwrap().unwrap());
    assert_eq!(generation(&session), Some(1));
}

/// Whoever is second looks at the first, and may be a phantom as well.
#[tokio::test(start_paused = true)]
async fn who_waits_behind_several_phantoms_goes_to_a_server_that_does_not_show_them() {
    for count in 2..5 {
        let (store, session) = store();
        let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
        for _ in 1..count {
            let mutex = on(&store).mutex("a").unwrap();
            crate::spawn(async move { mutex.acquire().await });
        }
        sleep(Duration::from_secs(1)).await;
        let phantoms = contenders(&store, "/zklock/a").await;
        assert_eq!(phantoms.len(), count);
        for phantom in phantoms {
            unknown(&store, &session, &format!("/zklock/a/{phantom}"), u64::MAX);
        }
        let mutex = session.mutex("a").unwrap();
        let waiting = crate::spawn(async move { mutex.acquire().await });
        let left = async {
            while generation(&session) == Some(1) {
                sleep(Duration::from_secs(1)).await;
            }
        };
        timeout(10 * LONG, left).await.unwrap();
        waiting.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn however_many_wait_they_ask_the_leader_at_most_twice_as_often_as_the_first() {
    let store = Embedded::new();
    let held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let sessions: Vec<_> = (0..10).map(|_| on(&store)).collect();
    let waiting: Vec<_> = sessions
        .iter()
        .map(|session| {
            let mutex = session.mutex("a").unwrap();
            crate::spawn(async move { mutex.acquire().await.map(drop) })
        })
        .collect();
    sleep(LONG).await;
    store.record();
    sleep(10 * LONG).await;
    let asked = store.recorded().into_iter().filter(|one| one.op == Op::Multi);
    let mut counts = BTreeMap::<_, u32>::new();
    asked.for_each(|one| *counts.entry(one.session).or_default() += 1);
    let (first, all) = (counts.values().max().unwrap(), counts.values().sum::<u32>());
    assert!(*first >= 10 && all <= 2 * first + 1, "{counts:?}");
    held.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_its_server_does_not_show_is_deleted() {
    let (store, session) = store();
    let hidden = Fault::refuse(RequestError::NoNode).on(Op::Children).path("/zklock/a");
    store.faults(session.zookeeper_session().unwrap().id).inject(hidden.times(2));
    let mutex = session.mutex("a").unwrap();
    drop(mutex.acquire_timeout(LONG).await.unwrap());
    sleep(LONG).await;
    assert_eq!(contenders(&store, "/zklock/a").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn short_deadlines_and_tries_find_a_phantom_as_well() {
    for tries in [false, true] {
        let (store, session) = store();
        let phantom = on(&store).mutex("a").unwrap().acquire().await.unwrap();
        unknown(&store, &session, phantom.node_path(), u64::MAX);
        let mutex = session.mutex("a").unwrap();
        let start = tokio::time::Instant::now();
        while generation(&session) == Some(1) {
            assert!(start.elapsed() < LONG, "it is called busy for ever");
            let second = Duration::from_secs(1);
            let error = match tries {
                true => mutex.try_acquire().await.unwrap_err(),
                false => mutex.acquire_timeout(second).await.unwrap_err(),
            };
            assert!(error.is_busy() || error.is_unavailable(), "{error}");
            sleep(second).await;
        }
    }
}
