//! `hold_at_most`: how a call that holds a lock for too long ends.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, advance, sleep, timeout};
use zklock::{
    AnyLock, Body, ErrorKind, Event, FencingToken, GuardView, LockError, LockOptions, Mode,
    MultiLock, Observer, OnLost, RwLockReadGuard, SemaphorePermit, Session, ZkLockTemplate, carry,
    current, is_held_in_scope,
};

use crate::support::{on, prompt};

const LIMIT: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);

fn limited() -> LockOptions {
    LockOptions::new().hold_at_most(LIMIT)
}

/// Templates of every kind of lock.
fn templates(session: &Session, options: LockOptions) -> [ZkLockTemplate; 4] {
    let template = || ZkLockTemplate::new(session.clone()).with_options(options);
    [template(), template().read(), template().write(), template().semaphore(2).permits(2)]
}

/// The same as locks.
fn locks(session: &Session, options: LockOptions) -> [AnyLock; 4] {
    let rw = || session.rw_lock("rw").unwrap().with_options(options);
    let semaphore = session.semaphore("permits", 2).unwrap().with_options(options);
    let mutex = session.mutex("mutex").unwrap().with_options(options);
    [mutex.into(), AnyLock::Read(rw()), AnyLock::Write(rw()), AnyLock::Permits(semaphore, 2)]
}

fn assert_too_long(error: &LockError, body: Body) {
    assert_eq!((error.kind(), error.body()), (ErrorKind::HeldTooLong, Some(body)), "{error}");
    assert!(error.is_held_too_long() && !error.is_lost() && error.code() == "1025");
    assert!(error.to_string().contains("`hold_at_most` is 10s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_async_body_is_dropped_at_that_moment_and_the_lock_is_free() {
    let (_store, session) = prompt();
    for on_lost in [OnLost::Cancel, OnLost::Finish] {
        for (kind, template) in templates(&session, limited().on_lost(on_lost)).iter().enumerate() {
            let (start, dropped) = (Instant::now(), Arc::new(AtomicBool::new(false)));
            struct Drops(Arc<AtomicBool>);
            impl Drop for Drops {
                fn drop(&mut self) {
                    self.0.store(is_held_in_scope("a"), Ordering::SeqCst);
                }
            }
            let marker = Drops(dropped.clone());
            let outcome = template.execute_with("a", async |guard: GuardView| {
                let _marker = marker;
                assert!(guard.is_valid() && guard.remaining() <= LIMIT);
                pending::<()>().await
            });
            assert_too_long(&outcome.await.unwrap_err(), Body::Dropped);
            assert_eq!(start.elapsed(), LIMIT, "{kind}");
            assert!(!dropped.load(Ordering::SeqCst), "its guard was valid to the end");
            assert!(session.local_contenders().is_empty());
            assert_eq!(template.execute("a", async || 42).await.unwrap(), 42);
        }
    }
}

/// What ends it is its time, and what comes first is told where it returns before.
#[tokio::test(start_paused = true)]
async fn a_body_that_goes_on_after_a_loss_ends_with_its_time() {
    let (store, session) = prompt();
    let [template, ..] = templates(&session, limited().on_lost(OnLost::Finish));
    let lose = || store.faults(session.zookeeper_session().unwrap().id).expire();
    let start = Instant::now();
    let outcome = template.execute("a", async || {
        lose();
        assert!(!current().is_valid());
        pending::<()>().await
    });
    assert_too_long(&outcome.await.unwrap_err(), Body::Dropped);
    assert_eq!(start.elapsed(), LIMIT);
    let lost = template.execute("a", async || lose()).await.unwrap_err();
    assert_eq!((lost.kind(), lost.body()), (ErrorKind::Lost, Some(Body::Finished)));
}

/// A body that works for so long, and does not wait.
async fn works_for(time: Duration) {
    poll_fn(|cx| {
        let _ = pin!(advance(time)).poll(cx);
        Poll::Ready(())
    })
    .await;
}

/// A body that is ready too late has finished, and its result does not count.
#[tokio::test(start_paused = true)]
async fn a_body_that_returns_late_says_so() {
    let (_store, session) = prompt();
    let template = &templates(&session, limited())[0];
    let late = template.execute("a", || works_for(LIMIT)).await;
    assert_too_long(&late.unwrap_err(), Body::Finished);
    template.execute("a", || works_for(LIMIT - MOMENT)).await.unwrap();
}

/// It may own what the lock protects, as what the body owned.
#[tokio::test(start_paused = true)]
async fn what_a_late_body_returns_is_dropped_before_the_release() {
    struct Drops(Session, Arc<AtomicBool>);
    impl Drop for Drops {
        fn drop(&mut self) {
            self.1.store(!self.0.local_contenders().is_empty(), Ordering::SeqCst);
        }
    }
    let (_store, session) = prompt();
    for template in templates(&session, limited()) {
        let is_held = Arc::new(AtomicBool::new(false));
        let returned = Drops(session.clone(), is_held.clone());
        let late = template.execute("a", || async move {
            works_for(LIMIT).await;
            returned
        });
        assert_too_long(&late.await.err().unwrap(), Body::Finished);
        assert!(is_held.load(Ordering::SeqCst) && session.local_contenders().is_empty());
    }
}

/// Nothing can stop who has a guard: it is told, and keeps the others out.
#[tokio::test(start_paused = true)]
async fn a_guard_says_that_its_time_is_over_and_keeps_the_lock_until_it_is_dropped() {
    let (store, session) = prompt();
    let other = on(&store);
    for (kind, lock) in locks(&session, limited()).iter().enumerate() {
        // Writers, for what readers share.
        let others = &locks(&other, LockOptions::new())[if kind == 1 { 2 } else { kind }];
        let guard = lock.acquire().await.unwrap();
        sleep(LIMIT - MOMENT).await;
        assert!(guard.is_valid() && guard.remaining() <= MOMENT);
        let start = Instant::now();
        timeout(LIMIT, guard.lost()).await.unwrap();
        assert_eq!(start.elapsed(), MOMENT);
        assert!(!guard.is_valid() && guard.remaining().is_zero());
        let refused = guard.fenced().set("/data", b"late").await.unwrap_err();
        assert!(refused.is_held_too_long(), "{refused}");
        sleep(LIMIT).await;
        assert!(others.try_acquire().await.unwrap_err().is_busy());
        let error = guard.release().await.unwrap_err();
        assert!(error.is_held_too_long() && error.body().is_none(), "{error}");
        others.try_acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_nested_call_is_its_own_and_that_of_the_calls_around() {
    let (_store, session) = prompt();
    let [outer, ..] = templates(&session, limited());
    let short = LockOptions::new().hold_at_most(LIMIT / 10);
    let [inner, ..] = templates(&session, short);
    let nested = outer.execute("a", async || {
        for _ in 0..5 {
            let (start, error) = (Instant::now(), inner.execute("a", pending::<()>).await);
            let error = error.unwrap_err();
            assert_eq!((error.kind(), error.body()), (ErrorKind::HeldTooLong, Some(Body::Dropped)));
            assert!(error.to_string().contains("is 1s"), "{error}");
            assert_eq!(start.elapsed(), LIMIT / 10);
            assert!(current().is_valid() && is_held_in_scope("a"));
        }
    });
    nested.await.unwrap();
    // That of the call around is over first, and with it the nested ones.
    let [endless, ..] = templates(&session, LockOptions::new());
    let start = Instant::now();
    let both = outer.execute("a", async || endless.execute("a", pending::<()>).await).await;
    assert_too_long(&both.unwrap_err(), Body::Dropped);
    assert_eq!(start.elapsed(), LIMIT);
    assert!(session.local_contenders().is_empty());
}

/// What was carried elsewhere holds the lock, too, and ends for the same reason.
#[tokio::test(start_paused = true)]
async fn calls_that_were_carried_into_other_tasks_end_as_well() {
    let (_store, session) = prompt();
    let [outer, ..] = templates(&session, limited());
    let [inner, ..] = templates(&session, LockOptions::new());
    let mut carried = None;
    let carrying = outer.execute("a", async || {
        let call = carry(async move { inner.execute("a", pending::<()>).await });
        carried = Some(crate::spawn(call));
        sleep(LIMIT / 2).await;
    });
    carrying.await.unwrap();
    let start = Instant::now();
    assert_too_long(&carried.unwrap().await.unwrap().unwrap_err(), Body::Dropped);
    assert_eq!(start.elapsed(), LIMIT / 2);
    assert!(session.local_contenders().is_empty());
    // Nothing begins in a scope whose time is over.
    let late = session.mutex("b").unwrap().with_options(limited()).acquire().await.unwrap();
    sleep(LIMIT).await;
    let again = late.scope(async { session.mutex("b").unwrap().acquire().await }).await;
    assert!(again.unwrap_err().is_held_too_long());
}

/// While others are waited for, nobody runs under the first.
#[tokio::test(start_paused = true)]
async fn the_time_of_several_locks_begins_when_all_are_held() {
    let (store, session) = prompt();
    let busy = on(&store).mutex("b").unwrap().acquire().await.unwrap();
    let both = ["a", "b"].map(|name| session.mutex(name).unwrap().with_options(limited()));
    let both = MultiLock::new(both).unwrap();
    let acquiring = crate::spawn(async move { both.acquire().await.unwrap() });
    sleep(3 * LIMIT).await;
    assert!(!acquiring.is_finished());
    drop(busy);
    let guard = acquiring.await.unwrap();
    sleep(LIMIT - MOMENT).await;
    assert!(guard.is_valid());
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() <= 2 * MOMENT && !guard.is_valid());
    assert!(guard.release().await.unwrap_err().is_held_too_long());
    let template = &templates(&session, limited())[0];
    let all = template.execute_all(["a", "b"], pending::<()>).await;
    assert_too_long(&all.unwrap_err(), Body::Dropped);
    assert!(session.local_contenders().is_empty());
}

/// Nobody has the time that the last one has left.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_lock_that_is_handed_on_begins_with_who_gets_it() {
    let store = zklock::Embedded::new();
    // Its leases are longer than the limit.
    let session = Session::embedded_builder(&store).session_timeout(10 * LIMIT).open().unwrap();
    for lock in locks(&session, limited()) {
        let guard = lock.acquire().await.unwrap();
        // Readers share a lock, and wait for its writer.
        let next = match &lock {
            AnyLock::Read(rw) => AnyLock::Write(rw.clone()),
            lock => lock.clone(),
        };
        let waiting = crate::spawn(async move { next.acquire().await });
        sleep(3 * LIMIT / 4).await;
        let path = guard.node_path().to_owned();
        drop(guard);
        let next = waiting.await.unwrap().unwrap();
        // What was held by a reader or a semaphore is of another node.
        let is_handed_on = next.node_path() == path;
        assert!(is_handed_on || !matches!(lock, AnyLock::Mutex(_)), "{}", next.node_path());
        assert!(next.remaining() > LIMIT - MOMENT, "{:?}", next.remaining());
        sleep(LIMIT - MOMENT).await;
        assert!(next.is_valid() && next.remaining() <= MOMENT, "{:?}", next.remaining());
        sleep(MOMENT).await;
        assert!(!next.is_valid() && next.remaining().is_zero());
        assert!(next.release().await.unwrap_err().is_held_too_long());
    }
}

/// A writer that is a reader when half of the time is over, and three permits of which one is split off
/// then.
async fn in_parts_after_half_of_the_time(
    session: &Session,
) -> (RwLockReadGuard, SemaphorePermit, SemaphorePermit) {
    let writer = session.rw_lock("rw").unwrap().with_options(limited()).write().await.unwrap();
    let permits = session.semaphore("p", 3).unwrap().with_options(limited());
    let mut permits = permits.acquire_many(3).await.unwrap();
    sleep(LIMIT / 2).await;
    let reader = writer.downgrade().await.unwrap();
    let part = permits.split(1).unwrap();
    (reader, permits, part)
}

#[tokio::test(start_paused = true)]
async fn a_downgraded_writer_and_a_part_of_its_permits_have_the_same_time() {
    let (_store, session) = prompt();
    let (reader, permits, part) = in_parts_after_half_of_the_time(&session).await;
    sleep(LIMIT / 2 - MOMENT).await;
    assert!(reader.is_valid() && permits.is_valid() && part.is_valid());
    sleep(MOMENT).await;
    assert!(!reader.is_valid() && !permits.is_valid() && !part.is_valid());
}

/// The rest of the permits is released in time.
#[tokio::test(start_paused = true)]
async fn a_downgraded_writer_and_a_part_are_told_of_as_what_they_are() {
    let (store, told) = (zklock::Embedded::new(), Arc::new(Told::default()));
    let session = Session::embedded_builder(&store).observer(told.clone()).open().unwrap();
    let (reader, permits, part) = in_parts_after_half_of_the_time(&session).await;
    permits.release().await.unwrap();
    sleep(LIMIT).await;
    let last = templates(&session, limited())[0].execute("last", pending::<()>).await;
    last.unwrap_err();
    told.wait_for("last");
    let mut told = told.1.lock().unwrap().clone();
    let last = told.pop();
    told.sort_by_key(|(mode, _)| mode.as_str());
    let expected = [(Mode::Permit, part.fencing_token()), (Mode::Read, reader.fencing_token())];
    assert_eq!(told, expected);
    assert_eq!(last.map(|(mode, _)| mode), Some(Mode::Mutex));
}

#[derive(Debug, Default)]
struct Told(Mutex<Vec<(String, Duration)>>, Mutex<Vec<(Mode, FencingToken)>>);

impl Observer for Told {
    fn event(&self, event: &Event) {
        if let Event::HeldTooLong { lock, at_most, mode, token, .. } = event {
            self.1.lock().unwrap().push((*mode, *token));
            self.0.lock().unwrap().push((lock.to_string(), *at_most));
        }
    }
}

impl Told {
    /// Waits until a lock was told of: events are told on a thread of its own, in their order.
    fn wait_for(&self, lock: &str) {
        let limit = std::time::Instant::now() + Duration::from_secs(60);
        let is_told = || self.0.lock().unwrap().iter().any(|(told, _)| told == lock);
        while !is_told() && std::time::Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The body looks at nothing, and does not return.
#[test]
fn a_plain_body_keeps_the_lock_is_told_of_while_it_runs_and_its_caller_gets_the_error() {
    let (store, told) = (zklock::Embedded::new(), Arc::new(Told::default()));
    let session = Session::embedded_builder(&store).observer(told.clone()).open().unwrap();
    let (other, mut limit) = (on(&store), Duration::from_millis(20));
    for kind in 0..4 {
        let (name, count) = (format!("a{kind}"), || told.0.lock().unwrap().len());
        let (before, error) = loop {
            let template = &templates(&session, LockOptions::new().hold_at_most(limit))[kind];
            let before = count();
            let outcome = template.blocking_execute(&name, || {
                while count() == before {
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert!(!current().is_valid() && current().remaining().is_zero());
                let once = LockOptions::new().retries(1).timeout(Duration::from_millis(20));
                let template = &templates(&other, once)[if kind == 1 { 2 } else { kind }];
                let refused = template.blocking_execute(&name, || ()).unwrap_err();
                assert!(refused.is_busy(), "{refused}");
            });
            let error = outcome.unwrap_err();
            if error.body() != Some(Body::NotStarted) {
                break (before, error);
            }
            // The machine was busy.
            assert!(error.is_held_too_long(), "{error}");
            while count() == before {
                std::thread::sleep(Duration::from_millis(1));
            }
            limit *= 2;
        };
        assert_eq!((error.kind(), error.body()), (ErrorKind::HeldTooLong, Some(Body::Finished)));
        assert!(session.local_contenders().is_empty());
        let told = told.0.lock().unwrap();
        assert_eq!(told[before..], [(name, limit)], "it is told once");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_released_in_time_is_not_told_of() {
    let (store, told) = (zklock::Embedded::new(), Arc::new(Told::default()));
    let session = Session::embedded_builder(&store).observer(told.clone()).open().unwrap();
    for lock in locks(&session, limited()) {
        let guard = lock.acquire().await.unwrap();
        sleep(LIMIT - MOMENT).await;
        let view = guard.view();
        guard.release().await.unwrap();
        sleep(LIMIT).await;
        assert!(!view.is_valid());
    }
    let template = &templates(&session, limited())[0];
    template.execute("a", pending::<()>).await.unwrap_err();
    told.wait_for("a");
    assert_eq!(*told.0.lock().unwrap(), [("a".to_owned(), LIMIT)]);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_is_refused_with_what_can() {
    let (_store, session) = prompt();
    for lock in locks(&session, LockOptions::new().hold_at_most(Duration::ZERO)) {
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("`Duration::MAX`"), "{error}");
    }
    let longer = limited().hold_at_least(LIMIT + MOMENT);
    let error = session.mutex("a").unwrap().with_options(longer).acquire().await.unwrap_err();
    let told = "a: `hold_at_most` (10s) must not be shorter than `hold_at_least` (10s 1ms)";
    assert_eq!(error.to_string(), told);
}

/// As in a stream that nobody reads: the grant waits for whoever asked for it, also when its time is over.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_kept_and_not_polled_holds_what_it_is_granted() {
    let (store, session) = prompt();
    let at_most = LockOptions::new().hold_at_most(Duration::from_secs(5));
    let mutex = session.mutex("a").unwrap().with_options(at_most);
    let held = mutex.acquire().await.unwrap();
    let mut kept = pin!(mutex.acquire());
    let waits = poll_fn(|cx| Poll::Ready(kept.as_mut().poll(cx).is_pending())).await;
    assert!(waits);
    drop(held);
    sleep(Duration::from_secs(60)).await;
    let other = on(&store).mutex("a").unwrap();
    assert!(other.try_acquire().await.unwrap_err().is_busy());
    let guard = kept.await.unwrap();
    assert!(!guard.is_valid());
    assert!(guard.release().await.unwrap_err().is_held_too_long());
    assert!(other.try_acquire().await.unwrap().is_valid());
}
