//! Deadlines hold whatever ZooKeeper does. Paused time: the bounds are exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use zklock::layout::{Kazoo, Numbered, OneNode};
use zklock::{
    AnyLock, Embedded, ErrorKind, Event, Handoffs, LockError, LockOptions, Mutex, MutexGuard,
    Observer, Session,
};

use crate::support::{contenders, on, prompt, store};

#[tokio::test(start_paused = true)]
async fn a_call_waits_at_most_timeout_times_retries() {
    let (store, session) = store();
    let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    for (timeout, retries, most) in [(2_000, 2, 4_000), (500, 1, 500), (300, 3, 900)] {
        let options =
            LockOptions::default().timeout(Duration::from_millis(timeout)).retries(retries);
        let mutex = session.mutex("a").unwrap().with_options(options);
        let start = Instant::now();
        let error = mutex.acquire_tries().await.unwrap_err();
        assert_eq!(start.elapsed().as_millis(), most);
        assert!(error.is_busy() && error.holder().is_some(), "{error}");
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_any_kind_waits_for_as_long_as_it_is_told() {
    let (store, session) = store();
    let other = on(&store);
    let _mutex = other.mutex("a").unwrap().acquire().await.unwrap();
    let _writer = other.rw_lock("b").unwrap().write().await.unwrap();
    let _permit = other.semaphore("c", 1).unwrap().acquire().await.unwrap();
    for lock in [
        session.mutex("a").unwrap().into(),
        AnyLock::Read(session.rw_lock("b").unwrap()),
        AnyLock::Write(session.rw_lock("b").unwrap()),
        AnyLock::Permits(session.semaphore("c", 1).unwrap(), 1),
    ] {
        let start = Instant::now();
        let error = lock.acquire_timeout(Duration::from_millis(700)).await.unwrap_err();
        assert_eq!(start.elapsed().as_millis(), 700);
        assert!(error.is_busy() && error.holder().is_some(), "{error}");
        let zero = lock.acquire_timeout(Duration::ZERO).await.unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidOption);
    }
}

/// Who holds the lock is asked before the end of the last one, where nobody listens to the others.
#[tokio::test(start_paused = true)]
async fn many_tries_cost_no_more_requests_than_one() {
    let (store, session) = store();
    let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let most = |timeout, retries| {
        let options = LockOptions::default().timeout(timeout).retries(retries);
        session.mutex("a").unwrap().with_options(options)
    };
    let millis = Duration::from_millis;
    let mut counts = Vec::new();
    for (timeout, retries) in [(millis(2_000), 1), (millis(10), 200)] {
        store.record();
        let start = Instant::now();
        assert!(most(timeout, retries).acquire_tries().await.unwrap_err().is_busy());
        let over = start.elapsed().checked_sub(millis(2_000)).unwrap();
        assert!(over <= millis(100), "{over:?}");
        counts.push(store.recorded().len());
    }
    assert!(counts.iter().all(|count| *count < 20), "{counts:?}");
}

/// In real time, because a paused clock stands still while a task does not yield.
#[tokio::test]
async fn tries_that_are_shorter_than_a_look_at_the_clock_end_in_time_and_let_others_run() {
    let store = Embedded::new();
    let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let turns = Arc::new(AtomicU32::new(0));
    let counted = turns.clone();
    let others = crate::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let heard = Session::embedded_builder(&store).observer(Arc::new(Deaf)).open().unwrap();
    for (session, most) in [(on(&store), 10), (heard, 250)] {
        let options = LockOptions::default().timeout(Duration::from_nanos(1)).retries(100_000_000);
        let mutex = session.mutex("a").unwrap().with_options(options);
        turns.store(0, Ordering::Relaxed);
        store.record();
        assert!(mutex.acquire_tries().await.unwrap_err().is_busy());
        let asked = store.recorded().len();
        assert!(asked < most && turns.load(Ordering::Relaxed) > 0, "{asked} requests, {turns:?}");
    }
    others.abort();
}

#[derive(Debug)]
struct Deaf;

impl Observer for Deaf {
    fn event(&self, _: &Event) {}
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_is_unavailable_and_not_busy_within_the_bound() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_requests();
    let mutex = session.mutex("a").unwrap();
    let start = Instant::now();
    let error = mutex.acquire_timeout(Duration::from_millis(500)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(start.elapsed() <= Duration::from_millis(600), "{:?}", start.elapsed());
    faults.release();
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    drop(mutex.try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_freezes_while_somebody_waits_is_unavailable_too() {
    let (store, session) = store();
    let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let mutex = session.mutex("a").unwrap();
    let freezing = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        faults.hold_requests();
        std::future::pending::<()>().await;
    };
    let start = Instant::now();
    let waiting = mutex.acquire_timeout(Duration::from_secs(2));
    let error = tokio::select! { result = waiting => result.unwrap_err(), () = freezing => return };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(start.elapsed() <= Duration::from_millis(2_040), "{:?}", start.elapsed());
    faults.release();
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_try_is_bounded_when_the_server_is_silent() {
    let (store, session) = store();
    store.faults(session.zookeeper_session().unwrap().id).hold_requests();
    let start = Instant::now();
    let error = session.mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(format!("{error:#}").contains("ZooKeeper did not answer in time"), "{error:#}");
    assert!(start.elapsed() <= Duration::from_millis(2_040));
}

#[tokio::test(start_paused = true)]
async fn who_is_not_connected_is_told_so() {
    let (store, session) = store();
    store.faults(session.zookeeper_session().unwrap().id).disconnect();
    let error = session.mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(format!("{error:#}").contains("ZooKeeper could not be reached in time"), "{error:#}");
}

#[tokio::test(start_paused = true)]
async fn the_bound_includes_connecting() {
    let (store, session) = store();
    let unreachable =
        zklock_core::coordinator::request_error::RequestError::Unreachable("zk:2181".into());
    store.begin_outage(unreachable);
    store.faults(session.zookeeper_session().unwrap().id).expire();
    let start = Instant::now();
    let mutex = session.mutex("a").unwrap();
    let error = mutex.acquire_timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(format!("{error:#}").contains("zk:2181"), "{error}");
    assert!(start.elapsed() <= Duration::from_millis(1_040));
    store.end_outage();
    drop(mutex.acquire_timeout(Duration::from_secs(10)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn local_waiters_time_out_without_taking_the_node_along() {
    let (store, session) = store();
    let held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    let patient = crate::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.map(|guard| guard.fencing_token()) }
    });
    tokio::task::yield_now().await;
    let before = contenders(&store, "/zklock/a").await;
    let impatient = crate::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire_timeout(Duration::from_millis(100)).await }
    });
    assert!(impatient.await.unwrap().unwrap_err().is_busy());
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2);
    assert_eq!(contenders(&store, "/zklock/a").await, before);
    drop(held);
    patient.await.unwrap().unwrap();
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_this_process_is_told_truly() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let _guard = mutex.acquire().await.unwrap();
    // The wall clock is what people read in the error.
    #[allow(clippy::disallowed_methods)]
    let held_since = std::time::SystemTime::now();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let wait = |timeout| {
        let mutex = mutex.clone();
        crate::spawn(async move { mutex.acquire_timeout(Duration::from_secs(timeout)).await })
    };
    let (first, second) = (wait(5), wait(6));
    let first = first.await.unwrap().unwrap_err();
    let holder = first.holder().unwrap();
    assert_eq!(holder.ahead, 1);
    assert_eq!(holder.owner.since, None);
    let since = holder.owner.granted.as_deref().unwrap();
    let since = humantime::parse_rfc3339(since).unwrap();
    // On the wall clock of the machine, which the paused minute is not on.
    let ago = held_since.duration_since(since).unwrap().as_secs();
    assert!((64..=66).contains(&ago), "{ago} s");
    assert_eq!(second.await.unwrap().unwrap_err().holder().unwrap().ahead, 1);
}

#[tokio::test(start_paused = true)]
async fn the_observer_hears_at_the_end_of_each_try_who_holds() {
    use std::sync::{Arc, Mutex};
    use zklock::{Event, Observer, Session};

    #[derive(Debug, Default)]
    struct Tries(Mutex<Vec<(u32, bool)>>);
    impl Observer for Tries {
        fn event(&self, event: &Event) {
            if let Event::TryEnded { number, holder, .. } = event {
                self.0.lock().unwrap().push((*number, holder.is_some()));
            }
        }
    }
    let (store, holder) = store();
    let tries = Arc::new(Tries::default());
    let session = Session::embedded_builder(&store).observer(tries.clone()).open().unwrap();
    let _held = holder.mutex("a").unwrap().acquire().await.unwrap();
    assert!(session.mutex("a").unwrap().acquire_tries().await.unwrap_err().is_busy());
    // The observer has a thread of its own.
    while tries.0.lock().unwrap().len() < 2 {
        std::thread::yield_now();
    }
    assert_eq!(*tries.0.lock().unwrap(), [(1, true), (2, true)]);
}

#[tokio::test]
async fn zero_tries_and_zero_timeouts_are_refused() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let error = mutex.acquire_timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    let options = LockOptions::default().retries(0);
    let error = mutex.with_options(options).acquire_tries().await.unwrap_err();
    assert!(error.to_string().contains("retries = 1"), "{error}");
}

/// An answer may come when the time is over already, and it is asked yet who is in the way.
#[tokio::test(start_paused = true)]
async fn nobody_is_busy_where_nobody_else_is_however_late_the_answers_come() {
    for late in 0..40 {
        let (store, session) = prompt();
        store.faults(store.sessions()[0]).delay_replies(Duration::from_millis(3 * late));
        let limit = Duration::from_millis(10);
        let outcomes = [
            session.mutex("a").unwrap().acquire_timeout(limit).await.map(drop),
            session.rw_lock("b").unwrap().write_timeout(limit).await.map(drop),
            session.rw_lock("c").unwrap().read_timeout(limit).await.map(drop),
            session.semaphore("d", 2).unwrap().acquire_timeout(limit).await.map(drop),
        ];
        for error in outcomes.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{late}: {error:#}");
        }
    }
}

/// A mutex that is held, and that another task waits for, for two seconds. At each handoff it is asked whether
/// another process stands behind.
async fn held_and_wanted(session: &Session) -> (Mutex, MutexGuard, Waiting) {
    let options = LockOptions::default().handoffs(Handoffs::NONE);
    let mutex = session.mutex("a").unwrap().with_options(options);
    let held = mutex.acquire().await.unwrap();
    let next = mutex.clone();
    let next = crate::spawn(async move { next.acquire_timeout(Duration::from_secs(2)).await });
    tokio::task::yield_now().await;
    (mutex, held, next)
}

type Waiting = tokio::task::JoinHandle<Result<MutexGuard, LockError>>;

#[tokio::test(start_paused = true)]
async fn a_lock_between_two_callers_is_unavailable_and_not_busy_where_nobody_answers() {
    let (store, session) = store();
    let (mutex, held, next) = held_and_wanted(&session).await;
    store.faults(session.zookeeper_session().unwrap().id).hold_requests();
    drop(held);
    let tried = mutex.try_acquire().await.unwrap_err();
    assert_eq!(tried.kind(), ErrorKind::Unavailable, "{tried:#}");
    let error = next.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
}

/// Of three permits, one is held here. Who is ahead wants the other two, and has not got them.
#[tokio::test(start_paused = true)]
async fn a_permit_that_is_only_wanted_is_unavailable_and_not_busy_where_nobody_answers() {
    let (store, session) = prompt();
    let permits = session.semaphore("a", 3).unwrap();
    let held = permits.acquire().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_requests();
    let (ahead, two) = (permits.clone(), Duration::from_secs(2));
    let ahead = crate::spawn(async move { ahead.acquire_many_timeout(2, 5 * two).await });
    tokio::task::yield_now().await;
    let error = permits.acquire_timeout(two).await.unwrap_err();
    assert!(held.is_valid() && error.is_unavailable(), "{error:#}");
    faults.release();
    drop(ahead.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_try_between_two_callers_is_told_who_was_given_the_lock() {
    let (store, session) = prompt();
    let (mutex, held, next) = held_and_wanted(&session).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(Duration::from_millis(20));
    drop(held);
    let tried = mutex.try_acquire().await.unwrap_err();
    let next = next.await.unwrap().unwrap();
    let holder = tried.holder().map(|holder| &*holder.node);
    assert!(tried.is_busy() && next.node_path().ends_with(holder.unwrap()), "{tried:#}");
}

/// At the bound of handoffs it is asked whether somebody stands behind the readers.
#[tokio::test(start_paused = true)]
async fn readers_and_permits_are_not_busy_because_of_others_beside_whom_they_may_be() {
    for late in 0..40 {
        let (store, session) = prompt();
        let bound = Handoffs::new().most(1);
        let options = LockOptions::default().handoffs(bound);
        let readers = session.rw_lock("a").unwrap().with_options(options);
        let permits = session.semaphore("b", 4).unwrap().with_options(options);
        let mut reading = vec![readers.read().await.unwrap()];
        let _taken = permits.acquire().await.unwrap();
        store.faults(store.sessions()[0]).delay_replies(Duration::from_millis(3 * late));
        let limit = Duration::from_millis(10);
        for _ in 0..4 {
            let mut refused = Vec::new();
            match readers.read_timeout(limit).await {
                Ok(guard) => reading.push(guard),
                Err(error) => refused.push(error),
            }
            refused.extend(permits.acquire_timeout(limit).await.err());
            for error in refused {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{late}: {error:#}");
            }
        }
    }
}

/// A lock of each kind, and of layouts that ask for something else.
fn of_each_kind(session: &Session) -> Vec<(&'static str, AnyLock)> {
    let mutex = || session.mutex("a").unwrap();
    let with = |options| AnyLock::from(mutex().with_options(options));
    let (rw_lock, semaphore) =
        (|| session.rw_lock("a").unwrap(), || session.semaphore("a", 2).unwrap());
    vec![
        ("mutex", mutex().into()),
        ("fair", with(LockOptions::new().fair(true))),
        ("delay", with(LockOptions::new().lock_delay(Duration::from_secs(5)))),
        ("one node", mutex().with_driver(OneNode).into()),
        ("numbered", mutex().with_driver(Numbered::dlock()).into()),
        ("kazoo", mutex().with_driver(Kazoo::default()).into()),
        ("reader", AnyLock::Read(rw_lock())),
        ("writer", AnyLock::Write(rw_lock())),
        ("permit", AnyLock::Permits(semaphore(), 1)),
        ("permits", AnyLock::Permits(semaphore(), 2)),
        ("permit of kazoo", AnyLock::Permits(semaphore().with_driver(Kazoo::default()), 1)),
    ]
}

/// Where all answers come, however late, whoever has little time loses none of it.
#[tokio::test(start_paused = true)]
async fn a_short_call_is_granted_as_soon_as_one_that_has_time() {
    const SHORT: Duration = Duration::from_millis(500);
    for late in (5..500).step_by(15).map(Duration::from_millis) {
        for kind in 0..11 {
            let took = async |limit| {
                let (store, session) = prompt();
                let (what, lock) = of_each_kind(&session).swap_remove(kind);
                lock.acquire().await.unwrap().release().await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
                let faults = store.faults(session.zookeeper_session().unwrap().id);
                faults.delay_replies(late);
                let start = Instant::now();
                let held = lock.acquire_timeout(limit).await;
                (what, held.map(|_| start.elapsed()))
            };
            let long = took(Duration::from_secs(60)).await.1.unwrap();
            let (what, short) = took(SHORT).await;
            match short {
                Ok(short) => assert_eq!(short, long, "{what}, {late:?}"),
                Err(error) => {
                    assert!(long >= SHORT && error.is_unavailable(), "{what}, {late:?}: {error:#}");
                }
            }
        }
    }
}
