//! Guards that stop where the session is suspect.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zklock::layout::Kazoo;
use zklock::{
    AnyLock, Body, Embedded, ErrorKind, Event, LockError, LockOptions, MultiLock, Mutex, Observer,
    OnLost, Session, SessionState, StopAt, ZkLockTemplate,
};
use zklock_core::coordinator::memory::{Fault, Faults, Op};
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{contenders, on, store};

/// A third of the session timeout.
const SUSPECT: Duration = Duration::from_nanos(10_000_000_000 / 3);
const SHORT: Duration = Duration::from_millis(100);

fn careful() -> LockOptions {
    LockOptions::default().stop_at(StopAt::Suspect)
}

fn faults(store: &Embedded, session: &Session) -> Faults {
    store.faults(session.zookeeper_session().unwrap().id)
}

fn mutex(session: &Session) -> Mutex {
    session.mutex("a").unwrap().with_options(careful())
}

/// An outage that is over before any lease runs out.
async fn short_outage(faults: &Faults) {
    faults.disconnect();
    sleep(SHORT).await;
    faults.reconnect();
    sleep(SHORT).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_lost_with_the_connection_and_stays_so_while_others_go_on() {
    let (store, session) = store();
    let guard = mutex(&session).acquire().await.unwrap();
    let patient = session.mutex("b").unwrap().acquire().await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(guard.is_valid() && patient.is_valid());
    let (faults, cut) = (faults(&store, &session), Instant::now());
    faults.disconnect();
    guard.lost().await;
    assert!(cut.elapsed().is_zero(), "{:?}", cut.elapsed());
    assert!(!guard.is_valid() && guard.remaining().is_zero());
    sleep(SHORT).await;
    faults.reconnect();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(session.state(), SessionState::Connected);
    assert!(!guard.is_valid() && guard.remaining().is_zero());
    timeout(SHORT, guard.lost()).await.unwrap();
    assert!(patient.is_valid());
    patient.release().await.unwrap();
    // Its node keeps others out until it is let go.
    assert!(on(&store).mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert!(mutex(&session).acquire().await.unwrap().is_valid());
}

/// A node could not be deleted, so new locks use another session.
#[tokio::test(start_paused = true)]
async fn its_node_keeps_others_out_in_a_session_that_is_used_no_more() {
    let (store, session) = store();
    let guard = mutex(&session).acquire().await.unwrap();
    let stuck = session.mutex("b").unwrap().acquire().await.unwrap();
    let (faults, old) = (faults(&store, &session), session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(stuck.node_path()));
    stuck.release().await.unwrap_err();
    short_outage(&faults).await;
    sleep(Duration::from_secs(60)).await;
    assert!(!guard.is_valid() && store.sessions().contains(&old));
    assert!(on(&store).mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    sleep(SHORT).await;
    assert!(!store.sessions().contains(&old), "nothing is left in it");
}

#[tokio::test(start_paused = true)]
async fn it_is_lost_after_a_third_of_the_session_timeout_without_an_answer() {
    let (store, session) = store();
    let guard = mutex(&session).acquire().await.unwrap();
    let faults = faults(&store, &session);
    assert!(guard.remaining() <= SUSPECT);
    faults.hold_replies();
    sleep(SUSPECT - Duration::from_millis(1)).await;
    assert!(guard.is_valid() && !guard.remaining().is_zero());
    sleep(Duration::from_millis(2)).await;
    assert!(!guard.is_valid() && guard.remaining().is_zero());
    // The client has not even noticed.
    faults.release();
    sleep(SHORT).await;
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn in_silence_it_is_lost_when_the_client_leaves_the_connection() {
    let (store, session) = store();
    let guard = mutex(&session).acquire().await.unwrap();
    let (faults, start) = (faults(&store, &session), Instant::now());
    faults.silence();
    guard.lost().await;
    assert!(!guard.is_valid());
    let took = start.elapsed();
    assert!(took > SUSPECT * 3 / 4 && took < SUSPECT, "{took:?}");
    faults.reconnect();
    sleep(SHORT).await;
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn who_asks_while_the_connection_is_down_has_seen_it_for_good() {
    let (store, session) = store();
    let guard = mutex(&session).acquire().await.unwrap();
    let faults = faults(&store, &session);
    faults.disconnect();
    assert!(!guard.is_valid());
    faults.reconnect();
    assert!(!guard.is_valid());
    timeout(SHORT, guard.lost()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_of_it_is_handed_on() {
    let (store, session) = store();
    let mutex = mutex(&session);
    let guard = mutex.acquire().await.unwrap();
    let (path, token) = (guard.node_path().to_owned(), guard.fencing_token());
    let waiting = crate::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap() }
    });
    tokio::task::yield_now().await;
    short_outage(&faults(&store, &session)).await;
    assert!(!waiting.is_finished());
    drop(guard);
    let next = waiting.await.unwrap();
    assert!(next.is_valid() && next.fencing_token() > token);
    assert_ne!(next.node_path(), path);
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_does_not_linger_after_that() {
    let (store, session) = store();
    let options = careful().linger(Duration::from_secs(60));
    let mutex = session.mutex("a").unwrap().with_options(options);
    let guard = mutex.acquire().await.unwrap();
    let path = guard.node_path().to_owned();
    drop(guard);
    sleep(SHORT).await;
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(guard.node_path(), path);
    short_outage(&faults(&store, &session)).await;
    drop(guard);
    sleep(SHORT).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert!(mutex.acquire().await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_lost_it_starts_anew_and_does_not_wait_for_itself() {
    let (store, session) = store();
    let mutex = mutex(&session);
    let lost = mutex.acquire().await.unwrap();
    short_outage(&faults(&store, &session)).await;
    let anew = mutex.acquire_timeout(Duration::from_secs(1)).await.unwrap();
    assert!(anew.is_valid() && anew.fencing_token() > lost.fencing_token());
    drop(lost);
    assert!(anew.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_body_ends_with_it() {
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).defaults(careful()).open().unwrap();
    let faults = faults(&store, &session);
    let run = |on_lost| {
        let options = LockOptions::new().on_lost(on_lost);
        let template = ZkLockTemplate::new(session.clone()).with_options(options);
        let faults = faults.clone();
        async move {
            let body = || async {
                crate::spawn(async move { short_outage(&faults).await });
                sleep(Duration::from_secs(1)).await;
            };
            template.execute("a", body).await.unwrap_err()
        }
    };
    let bodies = |error: LockError| (error.kind(), error.body());
    assert_eq!(bodies(run(OnLost::Cancel).await), (ErrorKind::Lost, Some(Body::Dropped)));
    assert_eq!(bodies(run(OnLost::Finish).await), (ErrorKind::Lost, Some(Body::Finished)));
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_goes_for_every_kind_of_lock() {
    let (store, session) = store();
    let faults = faults(&store, &session);
    let rw = session.rw_lock("rw").unwrap().with_options(careful());
    let semaphore = session.semaphore("s", 3).unwrap().with_options(careful());
    let fair = session.mutex("fair").unwrap().with_options(careful().fair(true));
    let locks = [
        AnyLock::Mutex(mutex(&session)),
        AnyLock::Mutex(fair),
        AnyLock::Read(rw.clone()),
        AnyLock::Write(rw.clone()),
        AnyLock::Permits(semaphore, 2),
    ];
    for lock in locks {
        let guard = lock.acquire().await.unwrap();
        short_outage(&faults).await;
        assert!(!guard.is_valid(), "{lock:?}");
        timeout(SHORT, guard.lost()).await.unwrap();
        assert!(guard.release().await.unwrap_err().is_lost(), "{lock:?}");
        assert!(lock.acquire().await.unwrap().is_valid(), "{lock:?}");
    }
    let exclusive =
        session.mutex("x").unwrap().with_driver(zklock::layout::OneNode).with_options(careful());
    let exclusive = exclusive.acquire().await.unwrap();
    // A downgraded guard is as the writer was.
    let reader = rw.write().await.unwrap().downgrade().await.unwrap();
    let both = [AnyLock::Mutex(mutex(&session)), session.mutex("b").unwrap().into()];
    let both = MultiLock::new(both).unwrap().acquire().await.unwrap();
    short_outage(&faults).await;
    assert!(!exclusive.is_valid() && !reader.is_valid() && !both.is_valid());
    timeout(SHORT, async { (exclusive.lost().await, reader.lost().await, both.lost().await) })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_stops_elsewhere_shares_no_node_with_it() {
    let (store, session) = store();
    let (patient, careful) = (session.mutex("a").unwrap(), mutex(&session));
    let guard = patient.acquire().await.unwrap();
    let waiting = crate::spawn(async move { careful.acquire().await.unwrap() });
    sleep(SHORT).await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2);
    drop(guard);
    let guard = waiting.await.unwrap();
    let error = patient.try_acquire().await.unwrap_err();
    assert!(error.is_busy() && error.holder().is_some(), "{error}");
    short_outage(&faults(&store, &session)).await;
    assert!(!guard.is_valid());
    drop(guard);

    // Nor do permits go from one to the other.
    let patient = session.semaphore("s", 1).unwrap();
    let careful = patient.clone().with_options(self::careful());
    let guard = patient.acquire().await.unwrap();
    let waiting = crate::spawn(async move { careful.acquire().await.unwrap() });
    sleep(SHORT).await;
    drop(guard);
    let guard = waiting.await.unwrap();
    short_outage(&faults(&store, &session)).await;
    assert!(!guard.is_valid());
    let waiting = crate::spawn(async move { patient.acquire().await.unwrap() });
    sleep(SHORT).await;
    drop(guard);
    let guard = waiting.await.unwrap();
    short_outage(&faults(&store, &session)).await;
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn the_layouts_of_both_are_compared() {
    let (_store, session) = store();
    let kazoo = || session.mutex("a").unwrap().with_driver(Kazoo::default());
    let careful = mutex(&session);
    let guard = careful.acquire().await.unwrap();
    let error = kazoo().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    drop((guard, careful));
    let guard = kazoo().acquire().await.unwrap();
    let error = mutex(&session).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    guard.release().await.unwrap();
}

#[derive(Debug, Default)]
struct Losses(std::sync::Mutex<Vec<String>>);

impl Observer for Losses {
    fn event(&self, event: &Event) {
        if let Event::Lost { lock, .. } = event {
            self.0.lock().unwrap().push(lock.to_string());
        }
    }
}

#[tokio::test]
async fn the_observer_is_told_once_of_those_that_stop() {
    let (store, losses) = (Embedded::new(), Arc::new(Losses::default()));
    let session = Session::embedded_builder(&store).observer(losses.clone()).open().unwrap();
    let guard = mutex(&session).acquire().await.unwrap();
    let patient = session.mutex("b").unwrap().acquire().await.unwrap();
    let faults = faults(&store, &session);
    faults.disconnect();
    guard.lost().await;
    faults.reconnect();
    drop(guard);
    patient.release().await.unwrap();
    // The observer has a thread of its own, where all comes in order.
    let last = session.mutex("c").unwrap().acquire().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    last.lost().await;
    let told = || losses.0.lock().unwrap().clone();
    let all = async {
        while told().last().is_none_or(|lock| lock != "c") {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(10), all).await.unwrap();
    assert_eq!(told(), ["a", "c"]);
}

/// The readers of a process share a node. One that lost it and reads again leaves it to the others, who may
/// work on under what they lost.
#[tokio::test(start_paused = true)]
async fn a_reader_that_begins_anew_leaves_its_node_to_those_who_have_not() {
    for through_another in [false, true] {
        let (store, session) = store();
        let lock = session.rw_lock("a").unwrap().with_options(careful());
        let other = lock.clone();
        let (release, released) = tokio::sync::oneshot::channel();
        let beside = crate::spawn(async move {
            let reading = other.read().await.unwrap();
            released.await.unwrap();
            drop(reading);
        });
        let lost = lock.read().await.unwrap();
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
        let elsewhere = on(&store).rw_lock("a").unwrap();
        let writer = crate::spawn(async move { elsewhere.write().await.unwrap() });
        short_outage(&faults(&store, &session)).await;
        assert!(!lost.is_valid() && !writer.is_finished());
        let options = if through_another { careful().fair(true) } else { careful() };
        let lock = session.rw_lock("a").unwrap().with_options(options);
        assert!(lock.read_timeout(Duration::from_secs(1)).await.unwrap_err().is_busy());
        assert!(!writer.is_finished(), "a writer is in beside a reader that has not left");
        // It does not wait for its own guard.
        release.send(()).unwrap();
        beside.await.unwrap();
        timeout(SHORT, writer).await.unwrap().unwrap().release().await.unwrap();
        let anew = timeout(SHORT, lock.read()).await.unwrap().unwrap();
        assert!(anew.is_valid() && !lost.is_valid());
    }
}
