//! Callers that are polled late: whoever is granted a lock and loses it before its task runs is not
//! handed what it lost.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zklock::layout::Kazoo;
use zklock::{
    AnyLock, DowngradeError, Embedded, ErrorKind, Event, LockError, LockOptions, MultiLock, Mutex,
    MutexGuard, Observer, Session, ZkLockTemplate,
};

use crate::support::{about, client, contenders, on, prompt};

const MOMENT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3_600);

/// Polls a caller once: its task is not woken by what comes.
fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Answers come a little late from now on, so that nothing is granted at the first poll.
fn be_late(store: &Embedded, session: &Session) {
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(Duration::from_millis(5));
}

/// A try that is granted a lock, and loses it with its session before it is polled for the second time.
async fn try_that_loses_it<'m>(
    store: &Embedded,
    session: &Session,
    mutex: &'m Mutex,
) -> Pin<Box<impl Future<Output = Result<MutexGuard, LockError>> + 'm>> {
    drop(mutex.acquire().await.unwrap());
    sleep(MOMENT).await;
    be_late(store, session);
    let mut late = Box::pin(mutex.try_acquire());
    assert!(poll_once(late.as_mut()).is_pending());
    sleep(MOMENT).await;
    store.faults(session.zookeeper_session().unwrap().id).expire();
    late
}

/// Everything that can be acquired, by a name of its own.
fn locks(session: &Session) -> Vec<(&'static str, AnyLock)> {
    let fair = LockOptions::new().fair(true);
    let rw_lock = session.rw_lock("rw").unwrap();
    let semaphore = |name: &str| session.semaphore(name, 3).unwrap();
    let kazoo = semaphore("kazoo").with_driver(Kazoo::default());
    vec![
        ("mutex", session.mutex("mutex").unwrap().into()),
        ("fair", session.mutex("fair").unwrap().with_options(fair).into()),
        ("read", AnyLock::Read(rw_lock.clone())),
        ("write", AnyLock::Write(rw_lock)),
        ("permit", semaphore("permit").into()),
        ("permits", AnyLock::Permits(semaphore("permits"), 3)),
        ("fair permits", AnyLock::Permits(semaphore("fair-permits").with_options(fair), 2)),
        ("kazoo", AnyLock::Permits(kazoo, 2)),
    ]
}

/// How what was granted is lost before anybody takes it.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Expired,
    RanOut,
    Deleted,
}

impl Loss {
    const ALL: [Loss; 3] = [Loss::Expired, Loss::RanOut, Loss::Deleted];

    async fn happens(self, store: &Embedded, session: &Session) {
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        match self {
            Loss::Expired => faults.expire(),
            Loss::RanOut => {
                faults.silence();
                sleep(Duration::from_secs(30)).await;
                faults.reconnect();
            }
            Loss::Deleted => {
                let client = client(store).await;
                for name in ["mutex", "fair", "rw", "permit", "permits", "fair-permits", "kazoo"] {
                    for below in ["", "/leases"] {
                        let directory = format!("/zklock/{name}{below}");
                        for node in client.children(&directory).await.unwrap_or_default() {
                            if node != "leases" && node != "locks" {
                                client.delete(&format!("{directory}/{node}")).await.unwrap();
                            }
                        }
                    }
                }
            }
        }
        sleep(MOMENT).await;
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_was_lost_before_it_was_taken_is_not_handed_out() {
    for loss in Loss::ALL {
        let (store, session) = prompt();
        for (kind, lock) in locks(&session) {
            let start = lock.acquire().await.unwrap();
            let first = start.fencing_token();
            start.release().await.unwrap();
            let mut acquires = [
                Box::pin(lock.acquire()) as Pin<Box<dyn Future<Output = _>>>,
                Box::pin(lock.acquire_timeout(LONG)),
                Box::pin(lock.acquire_tries()),
                Box::pin(lock.try_acquire()),
            ];
            for (way, acquire) in acquires.iter_mut().enumerate() {
                be_late(&store, &session);
                assert!(poll_once(acquire.as_mut()).is_pending());
                sleep(MOMENT).await;
                loss.happens(&store, &session).await;
                let start = Instant::now();
                let acquired = acquire.as_mut().await;
                let what = format!("{kind}, {loss:?}, way {way}");
                // The time of its options is over by then.
                if let (Loss::RanOut, 2 | 3, Err(error)) = (loss, way, &acquired) {
                    assert!(error.is_unavailable() || error.is_busy(), "{what}: {error:#}");
                    continue;
                }
                let guard = acquired.unwrap_or_else(|error| panic!("{what}: {error:#}"));
                assert!(guard.is_valid(), "{what}");
                assert!(guard.fencing_token() > first, "{what}");
                assert!(start.elapsed() < Duration::from_secs(5), "{what}: {:?}", start.elapsed());
                guard.release().await.unwrap();
            }
            drop(acquires);
            for below in ["", "/leases", "/locks"] {
                let left = contenders(&store, &format!("/zklock/{}{below}", lock.name())).await;
                let is_node = |name: &String| name != "leases" && name != "locks";
                assert!(!left.iter().any(is_node), "{kind}, {loss:?}: {left:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_was_handed_on_and_lost_is_acquired_anew_behind_those_who_wait() {
    for loss in Loss::ALL {
        let (store, session) = prompt();
        let mutex = session.mutex("mutex").unwrap();
        let held = mutex.acquire().await.unwrap();
        let mut late = pin!(mutex.acquire());
        assert!(poll_once(late.as_mut()).is_pending());
        let behind = crate::spawn({
            let mutex = mutex.clone();
            async move { mutex.acquire().await.unwrap() }
        });
        // Within the turn of this process.
        sleep(MOMENT / 10).await;
        held.release().await.unwrap();
        assert!(!behind.is_finished());
        loss.happens(&store, &session).await;
        let behind = behind.await.unwrap();
        assert!(behind.is_valid(), "{loss:?}");
        assert!(poll_once(late.as_mut()).is_pending(), "{loss:?}");
        assert!(behind.is_valid(), "{loss:?}");
        let token = behind.fencing_token();
        behind.release().await.unwrap();
        let guard = late.await.unwrap();
        assert!(guard.is_valid() && guard.fencing_token() > token, "{loss:?}");
        assert_eq!(contenders(&store, "/zklock/mutex").await.len(), 1, "{loss:?}");
    }
}

/// Passes on what observers are told of acquires.
#[derive(Debug)]
struct Told(StdMutex<Sender<Option<ErrorKind>>>);

impl Observer for Told {
    fn event(&self, event: &Event) {
        let error = match event {
            Event::Acquired { .. } => None,
            Event::NotAcquired { error, .. } => Some(error.kind()),
            _ => return,
        };
        let _ = self.0.lock().unwrap().send(error);
    }
}

/// The time of the call is that of the first wait and the second together.
#[tokio::test(start_paused = true)]
async fn whoever_comes_too_late_waits_until_its_deadline_and_no_acquire_is_told() {
    let (store, (sender, told)) = (Embedded::new(), channel());
    let told_by = Told(StdMutex::new(sender));
    let builder = Session::embedded_builder(&store).observer(Arc::new(told_by));
    let session = builder.open().unwrap();
    let other = on(&store);
    let mutex = session.mutex("a").unwrap();
    let held = mutex.acquire().await.unwrap();
    let options = LockOptions::new().timeout(Duration::from_secs(2)).retries(2);
    let trying = mutex.clone().with_options(options);
    let start = Instant::now();
    let mut late = pin!(trying.acquire_tries());
    assert!(poll_once(late.as_mut()).is_pending());
    sleep(Duration::from_secs(1)).await;
    held.release().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    let theirs = other.mutex("a").unwrap().acquire().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let error = late.await.unwrap_err();
    assert!(error.is_busy() && error.holder().is_some(), "{error:#}");
    about(start.elapsed(), Duration::from_secs(4));
    assert!(theirs.is_valid());
    drop(theirs);
    let guard = mutex.acquire().await.unwrap();
    // On a thread of its own, in real time.
    let next = || told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!([next(), next(), next()], [None, Some(ErrorKind::Busy), None]);
    drop(guard);
}

/// A try that lost what it was given is busy, as if it came now.
#[tokio::test(start_paused = true)]
async fn a_try_that_lost_it_to_another_caller_of_its_process_is_busy() {
    let (store, session) = prompt();
    let mutex = session.mutex("a").unwrap();
    let late = try_that_loses_it(&store, &session, &mutex).await;
    let guard = mutex.acquire().await.unwrap();
    let error = late.await.unwrap_err();
    assert!(error.is_busy() && error.holder().is_some(), "{error:#}");
    assert!(guard.is_valid());
}

/// It is busy by what is seen from then on: what was seen before a silence may not be so any more.
#[tokio::test(start_paused = true)]
async fn a_try_that_lost_it_beside_one_who_waits_is_told_who_holds_or_that_nobody_answers() {
    for is_silent in [false, true] {
        let (store, session) = prompt();
        let mutex = session.mutex("a").unwrap();
        let late = try_that_loses_it(&store, &session, &mutex).await;
        let theirs = on(&store).mutex("a").unwrap().acquire().await.unwrap();
        let waits = mutex.clone();
        let waiting = crate::spawn(async move { waits.acquire().await.map(drop) });
        sleep(MOMENT).await;
        if is_silent {
            store.faults(session.zookeeper_session().unwrap().id).silence();
        }
        let error = late.await.unwrap_err();
        if is_silent {
            assert!(error.is_unavailable(), "{error:#}");
        } else {
            assert!(error.is_busy() && error.holder().is_some(), "{error:#}");
        }
        assert!(theirs.is_valid() && !waiting.is_finished());
        waiting.abort();
    }
}

/// Whoever waits for the end of a rest looks again for it.
#[tokio::test(start_paused = true)]
async fn a_try_that_lost_it_beside_one_who_waits_for_a_rest_is_told_of_it() {
    let (store, session) = prompt();
    let rests = LockOptions::new().lock_delay(Duration::from_secs(60));
    let mutex = session.mutex("a").unwrap().with_options(rests);
    let late = try_that_loses_it(&store, &session, &mutex).await;
    let waits = mutex.clone();
    let waiting = crate::spawn(async move { waits.acquire().await.map(drop) });
    sleep(MOMENT).await;
    let error = late.await.unwrap_err();
    assert!(error.is_busy() && format!("{error:#}").contains("last holder"), "{error:#}");
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn several_locks_and_bodies_begin_with_what_is_still_held() {
    let (store, session) = prompt();
    let multi = MultiLock::new([session.mutex("a").unwrap(), session.mutex("b").unwrap()]).unwrap();
    let template = ZkLockTemplate::new(session.clone());
    let ran = AtomicUsize::new(0);
    let body = || async {
        ran.fetch_add(1, Ordering::SeqCst);
        assert!(zklock::current().is_valid());
    };
    for _ in 0..2 {
        be_late(&store, &session);
        let mut together = pin!(multi.acquire());
        let mut one = pin!(template.execute("c", body));
        assert!(poll_once(together.as_mut()).is_pending());
        assert!(poll_once(one.as_mut()).is_pending());
        sleep(MOMENT).await;
        store.faults(session.zookeeper_session().unwrap().id).expire();
        one.await.unwrap();
        let guard = together.await.unwrap();
        assert!(guard.is_valid() && guard.members().iter().all(|member| member.is_valid()));
        guard.release().await.unwrap();
    }
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

/// A writer steps down while its session expires.
async fn lost_in_a_downgrade(store: &Embedded, session: &Session) -> DowngradeError {
    let writing = session.rw_lock("a").unwrap().write().await.unwrap();
    be_late(store, session);
    let mut downgrading = pin!(writing.downgrade());
    assert!(poll_once(downgrading.as_mut()).is_pending());
    sleep(MOMENT).await;
    store.faults(session.zookeeper_session().unwrap().id).expire();
    downgrading.await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_was_a_writer_and_was_lost_is_no_guard() {
    let (store, session) = prompt();
    let refused = lost_in_a_downgrade(&store, &session).await;
    assert!(refused.error().is_lost(), "{refused}");
    let writing = refused.into_guard();
    assert!(!writing.is_valid());
    // Nothing is nested in it.
    let refused = writing.downgrade().await.unwrap_err();
    assert!(refused.error().is_lost(), "{refused}");
    drop(refused);
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    drop(session.rw_lock("a").unwrap().write().await.unwrap());
}

/// Passes on which locks observers are told to be released.
#[derive(Debug)]
struct Ends(StdMutex<Sender<String>>);

impl Observer for Ends {
    fn event(&self, event: &Event) {
        if let Event::Released { lock, .. } = event {
            let _ = self.0.lock().unwrap().send(lock.to_string());
        }
    }
}

/// It has nothing to release, and its end was told when it was lost.
#[tokio::test(start_paused = true)]
async fn a_writer_that_was_lost_in_its_downgrade_cannot_be_released() {
    let (store, (sender, told)) = (Embedded::new(), channel());
    let ends = Arc::new(Ends(StdMutex::new(sender)));
    let session = Session::embedded_builder(&store).observer(ends).open().unwrap();
    let writing = lost_in_a_downgrade(&store, &session).await.into_guard();
    let error = writing.release().await.unwrap_err();
    assert!(error.is_lost() && error.lock_name() == Some("a"), "{error}");
    drop(session.mutex("last").unwrap().acquire().await.unwrap());
    let next = || told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!([next(), next()], ["a", "last"]);
}
