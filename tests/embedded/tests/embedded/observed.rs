//! What an observer is told of a lock.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{advance, sleep, timeout};
use zklock::driver::RequestError;
use zklock::{
    Acl, Body, Embedded, ErrorKind, Event, FencingToken, GrantedBy, GuardView, LockError, LockName,
    LockOptions, LossReason, Mode, MultiLock, Observer, OnRevoked, Session, SessionState, StopAt,
    ZkLockTemplate, carry, lock_name, zk_locked,
};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_test_support::Warnings;

use crate::support::{Inline, client, contenders, on, prompt};

#[derive(Debug)]
struct Lines(StdMutex<Sender<String>>);

impl Observer for Lines {
    fn event(&self, event: &Event) {
        let line = match event {
            Event::Acquired { lock, .. } => format!("{lock} acquired"),
            Event::NotAcquired { lock, error, .. } => format!("{lock} not, {}", error.code()),
            Event::Released { lock, error: None, nested: false, .. } => format!("{lock} released"),
            Event::Released { lock, error: None, .. } => format!("{lock} released inside"),
            Event::Lost { lock, .. } => format!("{lock} lost"),
            _ => return,
        };
        let _ = self.0.lock().unwrap().send(line);
    }
}

fn observed() -> (Embedded, Session, Receiver<String>) {
    let (store, (sender, told)) = (Embedded::new(), channel());
    let lines = Lines(StdMutex::new(sender));
    let session = Session::embedded_builder(&store).observer(Arc::new(lines)).open().unwrap();
    (store, session, told)
}

/// The next so many lines.
fn next<const N: usize>(told: &Receiver<String>) -> [String; N] {
    std::array::from_fn(|_| told.recv_timeout(Duration::from_secs(60)).unwrap())
}

#[tokio::test]
async fn every_lock_that_is_acquired_is_released_however_it_ends() {
    let (_, session, told) = observed();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    guard.scope(async { drop(mutex.acquire().await.unwrap()) }).await;
    guard.release().await.unwrap();
    assert_eq!(next(&told), ["a acquired", "a acquired", "a released inside", "a released"]);
    drop(mutex.acquire().await.unwrap());
    assert_eq!(next(&told), ["a acquired", "a released"]);
    drop(session.semaphore("s", 2).unwrap().acquire_many(2).await.unwrap());
    assert_eq!(next(&told), ["s acquired", "s released"]);
    let writer = session.rw_lock("rw").unwrap().write().await.unwrap();
    drop(writer.downgrade().await.unwrap());
    assert_eq!(next(&told), ["rw acquired", "rw released", "rw acquired", "rw released"]);
}

/// The next nested call runs inside of the release of the one before it, and so does the end of the grant.
#[tokio::test]
async fn of_guards_that_go_at_the_same_time_one_is_the_last() {
    let (_, session, told) = observed();
    let mutex = session.mutex("a").unwrap();
    let outer = mutex.acquire().await.unwrap();
    let nested = outer.scope(mutex.acquire()).await.unwrap();
    let next_one = outer.scope_sync(|| carry(async move { mutex.acquire().await.unwrap() }));
    let last = Inline::start(async move {
        let next_one = next_one.await;
        drop(outer);
        drop(next_one);
    });
    assert!(!last.is_done());
    drop(nested);
    assert!(last.is_done());
    assert_eq!(next(&told), ["a acquired"; 3]);
    assert_eq!(next(&told), ["a released inside", "a released", "a released inside"]);
}

/// Each with the time that it held. That their common time is over is told once, of the one that holds
/// then.
#[tokio::test(start_paused = true)]
async fn a_writer_that_becomes_a_reader_is_released_and_the_reader_is_told_of() {
    let (_store, session, told) = all_observed();
    let options = LockOptions::new().hold_at_most(SECOND);
    let writer = session.rw_lock("rw").unwrap().with_options(options).write().await.unwrap();
    sleep(2 * SECOND).await;
    let writers = writer.fencing_token();
    let reader = writer.downgrade().await.unwrap();
    let readers = reader.fencing_token();
    sleep(5 * SECOND).await;
    drop(reader);
    // What follows is told after all that.
    drop(session.mutex("last").unwrap().acquire().await.unwrap());
    let moment = Duration::from_millis(5);
    let is_about = |time: Duration, held: Duration| (time..time + moment).contains(&held);
    let mut lines = Vec::new();
    loop {
        lines.push(match of_lock(&told) {
            Event::Acquired { lock, .. } if *lock == *"last" => break,
            Event::Acquired { mode, token, waited, by, .. } => {
                assert_eq!(
                    (waited, by == GrantedBy::Downgrade),
                    (Duration::ZERO, mode == Mode::Read)
                );
                (mode, token, "acquired")
            }
            Event::HeldTooLong { mode, token, .. } => (mode, token, "held too long"),
            Event::Released { mode, token, held, nested: false, .. } => {
                let time = if mode == Mode::Write { 2 * SECOND } else { 5 * SECOND };
                assert!(is_about(time, held), "{mode:?} for {held:?}");
                (mode, token, "released")
            }
            event => panic!("{event:?}"),
        });
    }
    let expected = [
        (Mode::Write, writers, "acquired"),
        (Mode::Write, writers, "held too long"),
        (Mode::Write, writers, "released"),
        (Mode::Read, readers, "acquired"),
        (Mode::Read, readers, "released"),
    ];
    assert_eq!(lines, expected);
}

/// Whoever waits here behind a writer gets the lock from it, as by a release.
#[tokio::test(start_paused = true)]
async fn of_readers_that_a_downgrade_lets_in_the_first_is_told_as_handed_the_lock() {
    let (_store, session, told) = all_observed();
    // Nobody waits for this one.
    drop(session.rw_lock("alone").unwrap().write().await.unwrap().downgrade().await.unwrap());
    let lock = session.rw_lock("a").unwrap();
    let writer = lock.write().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let lock = lock.clone();
        waiting.push(crate::spawn(async move { lock.read().await.unwrap() }));
        sleep(SECOND).await;
    }
    let reader = writer.downgrade().await.unwrap();
    let mut readers = Vec::new();
    for waiting in waiting {
        readers.push(waiting.await.unwrap());
    }
    // What follows is told after all that.
    drop(session.mutex("last").unwrap().acquire().await.unwrap());
    let (mut handed, mut entered) = (Vec::new(), 0);
    loop {
        match told.recv_timeout(Duration::from_secs(60)).unwrap() {
            Event::Acquired { lock, .. } if *lock == *"last" => break,
            Event::Acquired { by: GrantedBy::Handoff, .. } => entered += 1,
            Event::HandedOn { lock, mode, token, .. } => handed.push((lock, mode, token)),
            _ => {}
        }
    }
    assert_eq!(entered, 2);
    assert_eq!(handed, [("a".into(), Mode::Read, readers[0].fencing_token())]);
    drop((reader, readers));
}

/// Like one that waits in the queue.
#[tokio::test(start_paused = true)]
async fn a_nested_call_that_is_given_up_is_told_of() {
    let (_store, session, told) = all_observed();
    let mutex = session.mutex("a").unwrap();
    let held = mutex.acquire().await.unwrap();
    let sibling = held.scope(mutex.acquire()).await.unwrap();
    assert!(timeout(SECOND, held.scope(mutex.acquire())).await.is_err());
    for _ in 0..2 {
        assert!(matches!(of_lock(&told), Event::Acquired { .. }));
    }
    match of_lock(&told) {
        Event::Cancelled { lock, mode: Mode::Mutex, waited, .. } => {
            assert!(*lock == *"a" && (SECOND..2 * SECOND).contains(&waited), "{waited:?}");
        }
        event => panic!("{event:?}"),
    }
    // One that ends by itself is told of once.
    assert!(held.scope(mutex.acquire_timeout(SECOND)).await.unwrap_err().is_busy());
    assert!(matches!(of_lock(&told), Event::NotAcquired { .. }));
    drop(sibling);
    assert!(matches!(of_lock(&told), Event::Released { nested: true, .. }));
    drop(held);
    assert!(matches!(of_lock(&told), Event::Released { nested: false, .. }));
}

/// It lets go of what keeps the node that it waits for, and its caller waits on.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_that_starts_over_is_not_told_as_cancelled() {
    let (store, session, told) = all_observed();
    let fair = LockOptions::new().fair(true);
    let alone = |name: &str| session.mutex(name).unwrap().with_options(fair);
    let held = alone("b").acquire().await.unwrap();
    let all = MultiLock::new([alone("a"), alone("b")]).unwrap();
    let waiting = crate::spawn(async move { all.acquire().await });
    sleep(SECOND).await;
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(held.node_path());
    store.faults(session.zookeeper_session().unwrap().id).inject(refused.times(u64::MAX));
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
    let held = timeout(60 * SECOND, waiting).await.unwrap().unwrap().unwrap();
    assert!(timeout(SECOND, alone("b").acquire()).await.is_err());
    drop(held);
    drop(alone("last").acquire().await.unwrap());
    let (mut acquired, mut cancelled) = (0, Vec::new());
    loop {
        match of_lock(&told) {
            Event::Acquired { lock, .. } if *lock == *"last" => break,
            Event::Acquired { lock, .. } if *lock == *"a" => acquired += 1,
            Event::Cancelled { waited, .. } => cancelled.push(waited.as_secs()),
            _ => {}
        }
    }
    assert_eq!((acquired, cancelled), (2, vec![1]), "who gives up is told of");
}

/// Who does not wait until the node is gone has released it all the same.
#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_waits_for_is_told() {
    let (store, session, told) = observed();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let writer = session.rw_lock("rw").unwrap().write().await.unwrap();
    assert_eq!(next(&told), ["a acquired", "rw acquired"]);
    store.faults(session.zookeeper_session().unwrap().id).hold_replies();
    let moment = Duration::from_millis(10);
    assert!(tokio::time::timeout(moment, guard.release()).await.is_err());
    assert_eq!(next(&told), ["a released"]);
    assert!(tokio::time::timeout(moment, writer.downgrade()).await.is_err());
    assert_eq!(next(&told), ["rw released"]);
    // What is lost on the way is over, too.
    store.faults(session.zookeeper_session().unwrap().id).release();
    let writer = session.rw_lock("lost").unwrap().write().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    assert!(writer.downgrade().await.is_err());
    assert_eq!(next(&told), ["lost acquired", "lost lost", "lost released"]);
}

#[tokio::test]
async fn who_is_refused_acquired_and_releases_nothing() {
    let (store, session, told) = observed();
    let elsewhere = Session::embedded_builder(&store).open().unwrap();
    let held = elsewhere.mutex("a").unwrap().acquire().await.unwrap();
    assert!(session.mutex("a").unwrap().try_acquire().await.is_err());
    assert_eq!(next(&told), ["a not, 1011"]);
    held.release().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    guard.lost().await;
    drop(guard);
    assert_eq!(next(&told), ["a acquired", "a lost", "a released"]);
}

/// Panics at each loss, and tells of the rest when it may.
#[derive(Debug)]
struct Clumsy(StdMutex<Sender<String>>, StdMutex<Receiver<()>>);

impl Observer for Clumsy {
    fn event(&self, event: &Event) {
        match event {
            Event::Released { .. } => panic!("clumsy"),
            Event::Acquired { .. } => {
                let _ = self.1.lock().unwrap().recv();
                self.0.lock().unwrap().send("acquired".to_owned()).unwrap();
            }
            Event::Dropped { count, .. } => {
                self.0.lock().unwrap().send(format!("{count} dropped")).unwrap();
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn observers_are_told_apart_and_one_that_is_slow_or_panics_goes_on() {
    let (lines, told) = channel();
    let (clumsy, heard) = channel();
    let (go_on, may_go_on) = channel();
    let session = Session::embedded_builder(&Embedded::new())
        .observer(Arc::new(Clumsy(StdMutex::new(clumsy), StdMutex::new(may_go_on))))
        .observer(Arc::new(Lines(StdMutex::new(lines))))
        .open()
        .unwrap();
    let mutex = session.mutex("a").unwrap();
    // The first grant holds up the one observer; the other hears of everything.
    let (grants, warnings) = (3_000, Warnings::collect());
    for _ in 0..grants {
        mutex.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(next(&told), ["a acquired", "a released"]);
    }
    let tells = |line: &String| line.contains("an observer is too slow, and misses events");
    let lines = warnings.take();
    assert_eq!(lines.iter().filter(|line| tells(line)).count(), 1, "{lines:?}");
    drop(go_on);
    let mut acquired = 0;
    let dropped: u64 = loop {
        let line = heard.recv_timeout(Duration::from_secs(60)).unwrap();
        if let Some(count) = line.strip_suffix(" dropped") {
            break count.parse().unwrap();
        }
        acquired += 1;
        if acquired == 2_000 {
            // What comes after the gap.
            mutex.acquire().await.unwrap().release().await.unwrap();
        }
    };
    // 4,096 waited, one was being told, and the state of the session was told first.
    assert!((6_000 - 4_098..=6_000 - 4_096).contains(&dropped), "{dropped}");
}

/// Whoever waits for a permit has the inner lock, which nobody was granted.
#[tokio::test(start_paused = true)]
async fn only_what_somebody_was_granted_is_logged_as_lost() {
    let (store, session) = prompt();
    let (outside, warnings) = (client(&store).await, Warnings::collect());
    let losses = || {
        let lines = warnings.take();
        lines.iter().filter(|line| line.contains("a held lock was lost")).count()
    };
    let semaphore = session.semaphore("printers", 1).unwrap();
    let permit = on(&store).semaphore("printers", 1).unwrap().acquire().await.unwrap();
    let waiting = crate::spawn(async move { semaphore.acquire().await.unwrap() });
    tokio::time::sleep(SECOND).await;
    let inner = contenders(&store, "/zklock/printers/locks").await;
    outside.delete(&format!("/zklock/printers/locks/{}", inner[0])).await.unwrap();
    tokio::time::sleep(SECOND).await;
    permit.release().await.unwrap();
    let permit = waiting.await.unwrap();
    assert_eq!(losses(), 0);
    outside.delete(permit.node_path()).await.unwrap();
    permit.lost().await;
    assert_eq!(losses(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_each_of_several_permits_is_logged_as_that_of_a_held_lock() {
    for lost in 0..2 {
        let (store, session) = prompt();
        let (outside, warnings) = (client(&store).await, Warnings::collect());
        let permits = session.semaphore("printers", 2).unwrap().acquire_many(2).await.unwrap();
        let nodes = contenders(&store, "/zklock/printers/leases").await;
        outside.delete(&format!("/zklock/printers/leases/{}", nodes[lost])).await.unwrap();
        permits.lost().await;
        let told =
            warnings.take().iter().filter(|line| line.contains("a held lock was lost")).count();
        assert_eq!(told, 1, "{}", nodes[lost]);
    }
}

#[test]
fn credentials_that_protect_nothing_are_logged() {
    let warnings = Warnings::collect();
    let open = |builder: zklock::SessionBuilder| drop(builder.open().unwrap());
    let builder = || Session::builder("127.0.0.1:1");
    open(builder());
    open(builder().auth("digest", "a:hunter2").acl(Acl::CreatorAll));
    open(builder().auth("digest", "a:hunter2").acl(Acl::Open));
    assert_eq!(warnings.take(), [""; 0]);
    open(builder().auth("digest", "a:hunter2"));
    let [told] = &warnings.take()[..] else { panic!("one line") };
    assert!(told.contains("ZKLOCK_ACL=creator") && !told.contains("hunter2"), "{told}");
}

#[derive(Debug)]
struct All(StdMutex<Sender<Event>>);

impl Observer for All {
    fn event(&self, event: &Event) {
        let _ = self.0.lock().unwrap().send(event.clone());
    }
}

fn all_observed() -> (Embedded, Session, Receiver<Event>) {
    let (store, (sender, told)) = (Embedded::new(), channel());
    let all = Arc::new(All(StdMutex::new(sender)));
    let session = Session::embedded_builder(&store).observer(all).open().unwrap();
    (store, session, told)
}

/// The next event of a lock.
fn of_lock(told: &Receiver<Event>) -> Event {
    loop {
        match told.recv_timeout(Duration::from_secs(60)).unwrap() {
            Event::State { .. } | Event::TryEnded { .. } => {}
            Event::HandedOn { .. } | Event::Suspect { .. } => {}
            event => return event,
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn events_say_how_long_it_was_waited_for_and_held_and_how_it_came() {
    let (store, session, told) = all_observed();
    let mutex = session.mutex("a").unwrap();
    let mutex = mutex.with_options(LockOptions::new().timeout(2 * SECOND).retries(3));
    let first = mutex.acquire_tries().await.unwrap();
    let token = first.fencing_token();
    assert!(matches!(
        of_lock(&told),
        Event::Acquired { mode: Mode::Mutex, token: t, waited: Duration::ZERO, tries: 1,
            by: GrantedBy::Node, .. } if t == token
    ));
    first.scope(async { drop(mutex.acquire().await.unwrap()) }).await;
    assert!(matches!(of_lock(&told), Event::Acquired { by: GrantedBy::Scope, .. }));
    assert!(matches!(of_lock(&told), Event::Released { .. }));
    let second = mutex.clone();
    let second = crate::spawn(async move { second.acquire_tries().await.unwrap() });
    sleep(3 * SECOND).await;
    drop(first);
    let second = second.await.unwrap();
    let (mut released, mut acquired) = (None, None);
    for _ in 0..2 {
        match of_lock(&told) {
            Event::Released { mode: Mode::Mutex, token: t, held, error: None, .. } => {
                assert_eq!(t, token);
                released = Some(held);
            }
            Event::Acquired { waited, tries: 2, by: GrantedBy::Handoff, .. } => {
                acquired = Some(waited);
            }
            event => panic!("{event:?}"),
        }
    }
    // A timer rounds up to a millisecond.
    let three = 3 * SECOND..3 * SECOND + Duration::from_millis(5);
    assert!(three.contains(&released.unwrap()) && three.contains(&acquired.unwrap()));
    let other = Session::embedded_builder(&store).open().unwrap();
    let writer = other.rw_lock("rw").unwrap().write().await.unwrap();
    let reader = session.rw_lock("rw").unwrap();
    let error = reader.with_options(LockOptions::new().timeout(SECOND)).read_tries().await;
    let node = writer.node_path().rsplit('/').next().unwrap();
    match of_lock(&told) {
        Event::NotAcquired { lock, mode: Mode::Read, error, waited, .. } => {
            assert!(*lock == *"rw" && error.holder().is_some_and(|holder| holder.node == node));
            assert!((2 * SECOND..3 * SECOND).contains(&waited), "{waited:?}");
        }
        event => panic!("{event:?}"),
    }
    drop((error, second));
    assert!(matches!(of_lock(&told), Event::Released { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_not_broken_by_who_gave_that_up() {
    let (store, session, told) = all_observed();
    let outside = client(&store).await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let site = session.site("a").unwrap();
    let queue = site.contenders().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_requests();
    assert!(timeout(SECOND, site.break_holder(&queue[0])).await.is_err());
    faults.release();
    outside.delete(guard.node_path()).await.unwrap();
    guard.lost().await;
    let reason = loop {
        match of_lock(&told) {
            Event::Lost { reason, .. } => break reason,
            Event::Acquired { .. } => {}
            event => panic!("{event:?}"),
        }
    };
    assert_eq!(reason, LossReason::Deleted);
}

#[tokio::test(start_paused = true)]
async fn a_loss_says_why() {
    let (store, session, told) = all_observed();
    let outside = client(&store).await;
    let suspect = LockOptions::new().stop_at(StopAt::Suspect);
    let writer = async |name: &str| {
        session.rw_lock(name).unwrap().with_options(suspect).write().await.unwrap()
    };
    let lost = || loop {
        match of_lock(&told) {
            Event::Lost { lock, mode, czxid, token, reason, .. } => {
                let token = token.unwrap();
                assert_eq!((mode, token.czxid()), (Mode::Write, czxid));
                return (lock.to_string(), token, reason);
            }
            Event::Acquired { .. } | Event::Released { .. } => {}
            event => panic!("{event:?}"),
        }
    };
    let reasons = [LossReason::Deleted, LossReason::Broken, LossReason::Suspect];
    for (name, reason) in ["a", "b", "c"].into_iter().zip(reasons) {
        // The second grant under the same node has a token of its own.
        let first = writer(name).await;
        let czxid = first.fencing_token().czxid();
        let (guard, released) = tokio::join!(writer(name), first.release());
        released.unwrap();
        assert_eq!(guard.fencing_token(), FencingToken::new(czxid, 1));
        match reason {
            LossReason::Deleted => outside.delete(guard.node_path()).await.unwrap(),
            LossReason::Broken => {
                let site = session.site(name).unwrap();
                let queue = site.contenders().await.unwrap();
                assert!(site.break_holder(&queue[0]).await.unwrap());
            }
            _ => store.faults(session.zookeeper_session().unwrap().id).disconnect(),
        }
        guard.lost().await;
        assert_eq!(lost(), (name.to_owned(), guard.fencing_token(), reason));
    }
    store.faults(session.zookeeper_session().unwrap().id).reconnect();
    let guard = session.rw_lock("d").unwrap().write().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    guard.lost().await;
    assert_eq!(lost().2, LossReason::SessionEnded);
    // Who heeds a wish gives the lock up. Two readers share a node, and each has its own token.
    let heed = LockOptions::new().on_revoked(OnRevoked::Cancel);
    let template = ZkLockTemplate::new(session.clone()).read().with_options(heed);
    let wish = async {
        sleep(SECOND).await;
        session.rw_lock("e").unwrap().site().revoke().await.unwrap();
    };
    let body = pending::<()>;
    let readers = StdMutex::new(Vec::new());
    let reads = async |guard: GuardView| {
        readers.lock().unwrap().push(guard.fencing_token());
        body().await
    };
    let (one, other, ()) =
        tokio::join!(template.execute_with("e", reads), template.execute_with("e", reads), wish);
    assert!(one.unwrap_err().is_revoked() && other.unwrap_err().is_revoked());
    // A call around goes on with the lock.
    let around = ZkLockTemplate::new(session.clone());
    let inside = ZkLockTemplate::new(session.clone()).with_options(heed);
    let nested = around.execute("f", || inside.execute("f", body));
    let wish = async {
        sleep(SECOND).await;
        session.mutex("f").unwrap().site().revoke().await.unwrap();
    };
    let (nested, ()) = tokio::join!(nested, wish);
    assert!(nested.unwrap().unwrap_err().is_revoked());
    session.close().await;
    sleep(SECOND).await;
    let mut losses = Vec::new();
    loop {
        match told.recv_timeout(60 * SECOND).unwrap() {
            Event::Lost { lock, mode, czxid, token, reason, .. } => {
                assert_eq!((&*lock, mode, reason), ("e", Mode::Read, LossReason::Revoked));
                assert_eq!(token.map(|token| token.czxid()), Some(czxid));
                losses.extend(token);
            }
            Event::State { state: SessionState::Closed, .. } => break,
            _ => {}
        }
    }
    let readers = readers.into_inner().unwrap();
    assert!(losses.len() == 2 && losses[0] != losses[1]);
    assert!(readers.iter().all(|token| losses.contains(token)), "{readers:?}, {losses:?}");
}

/// Somebody asks for the lock before the body begins, so that nothing is given up.
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_begin_has_not_ended() {
    let (store, session, told) = all_observed();
    let heed = LockOptions::new().on_revoked(OnRevoked::Cancel);
    let template = ZkLockTemplate::new(session.clone()).with_options(heed);
    let other = on(&store);
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(Duration::from_millis(5));
    let mut late = pin!(template.execute("a", async || unreachable!("it is too late to begin")));
    assert!(timeout(Duration::from_millis(1), &mut late).await.is_err());
    sleep(SECOND).await;
    assert_eq!(other.site("a").unwrap().revoke().await.unwrap(), 1);
    sleep(5 * SECOND).await;
    let error: LockError = late.await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Revoked, Some(Body::NotStarted)));
    drop(session.mutex("last").unwrap().acquire().await.unwrap());
    loop {
        match of_lock(&told) {
            Event::Acquired { lock, .. } if *lock == *"last" => break,
            event => assert!(!matches!(event, Event::Lost { .. }), "{event:?}"),
        }
    }
}

/// Its process stood still, and it lets go before anything else looks.
#[tokio::test(start_paused = true)]
async fn a_loss_that_its_holder_sees_first_is_told() {
    let (store, session, told) = all_observed();
    let lease = session.timing().unwrap().lease;
    for (name, drops) in [("a", true), ("b", false)] {
        let guard = session.mutex(name).unwrap().acquire().await.unwrap();
        let token = guard.fencing_token();
        assert!(matches!(of_lock(&told), Event::Acquired { .. }));
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.silence();
        // Time passes, and nothing is polled meanwhile.
        poll_fn(|cx| {
            let _ = pin!(advance(lease)).poll(cx);
            Poll::Ready(())
        })
        .await;
        match drops {
            true => drop(guard),
            false => assert!(guard.release().await.unwrap_err().is_lost()),
        }
        match of_lock(&told) {
            Event::Lost { lock, token: its, reason, .. } => {
                assert_eq!((&*lock, its, reason), (name, Some(token), LossReason::Silence));
            }
            event => panic!("{event:?}"),
        }
        assert!(matches!(of_lock(&told), Event::Released { .. }));
        faults.reconnect();
    }
}

#[tokio::test(start_paused = true)]
async fn the_states_of_a_session_are_told_in_order() {
    let (store, session, told) = all_observed();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let becomes = async |state: SessionState| {
        sleep(SECOND).await;
        match told.recv_timeout(60 * SECOND).unwrap_or_else(|_| panic!("not {state}")) {
            Event::State { state: its, .. } => assert_eq!((its, session.state()), (state, state)),
            event => panic!("{event:?}"),
        }
    };
    becomes(SessionState::Connected).await;
    for _ in 0..2 {
        faults.disconnect();
        becomes(SessionState::Suspended).await;
        faults.reconnect();
        becomes(SessionState::Connected).await;
    }
    store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    faults.expire();
    becomes(SessionState::Connecting).await;
    store.end_outage();
    sleep(60 * SECOND).await;
    becomes(SessionState::Connected).await;
    session.drain(SECOND).await;
    becomes(SessionState::Draining).await;
    session.close().await;
    becomes(SessionState::Closed).await;
}

#[zk_locked("orders/{id}", session = session, namespace = "shop")]
async fn order(session: &Session, id: u32) -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("accounts", key = from, key = from + 1, session = session)]
async fn transfer(session: &Session, from: u32) -> Result<(), LockError> {
    Ok(())
}

const WHOLE: &str = "whole";

#[zk_locked(WHOLE, session = session)]
async fn constant(session: &Session) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn events_tell_the_pattern_of_a_name_as_it_was_written() {
    let (_, session, told) = all_observed();
    let pattern = || match of_lock(&told) {
        Event::Acquired { lock, pattern, .. } => {
            match of_lock(&told) {
                Event::Released { lock: same, pattern: its, .. } => {
                    assert_eq!((&*same, its), (&*lock, pattern));
                }
                // Both locks are acquired before one is released.
                Event::Acquired { pattern: its, .. } => {
                    assert_eq!(its, pattern);
                    assert!(matches!(of_lock(&told), Event::Released { .. }));
                    assert!(matches!(of_lock(&told), Event::Released { .. }));
                }
                event => panic!("{event:?}"),
            }
            pattern
        }
        event => panic!("{event:?}"),
    };
    order(&session, 7).await.unwrap();
    assert_eq!(pattern(), "shop/orders/{id}");
    transfer(&session, 7).await.unwrap();
    assert_eq!(pattern(), "accounts/{key}");
    constant(&session).await.unwrap();
    assert_eq!(pattern(), "whole");
    let id = 8;
    let written = lock_name!("orders/{id}").unwrap();
    for (name, its) in [
        (written, "orders/{id}"),
        (lock_name!("orders").unwrap(), "orders"),
        (LockName::new("orders/9").unwrap(), "{name}"),
        (LockName::new("orders/10").unwrap().with_pattern("orders/{id}"), "orders/{id}"),
        (LockName::build().text("orders/").value(&11).finish().unwrap(), "{name}"),
    ] {
        drop(session.mutex(&name).unwrap().acquire().await.unwrap());
        assert_eq!((pattern(), name.pattern()), (its, its), "{name}");
        drop(session.semaphore(name, 2).unwrap().acquire().await.unwrap());
        assert_eq!(pattern(), its);
    }
}

/// The next event of a lock that is not of its release.
fn but_released(told: &Receiver<Event>) -> Event {
    loop {
        match told.recv_timeout(Duration::from_secs(60)).unwrap() {
            Event::State { .. } | Event::Released { .. } => {}
            event => return event,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_when_its_session_is_closed_is_told_as_lost() {
    let (_store, session, told) = all_observed();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    assert!(matches!(of_lock(&told), Event::Acquired { .. }));
    session.close().await;
    match of_lock(&told) {
        Event::Lost { token, reason, .. } => {
            assert_eq!((token, reason), (Some(guard.fencing_token()), LossReason::SessionEnded));
        }
        event => panic!("{event:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn events_say_how_many_were_ahead_and_who_hands_on_to_whom() {
    let (store, session, told) = all_observed();
    let mutex = session.mutex("a").unwrap();
    let first = mutex.acquire().await.unwrap();
    assert!(matches!(but_released(&told), Event::Acquired { ahead: 0, .. }));
    let next = |mutex: &zklock::Mutex| {
        let mutex = mutex.clone();
        crate::spawn(async move { mutex.acquire().await.unwrap() })
    };
    let (second, third) = (next(&mutex), next(&mutex));
    sleep(SECOND).await;
    let mut before = first;
    for (waiting, behind) in [(second, 1), (third, 2)] {
        before.release().await.unwrap();
        let guard = waiting.await.unwrap();
        let (mut handed, mut acquired) = (false, false);
        for _ in 0..2 {
            match but_released(&told) {
                Event::HandedOn { lock, mode: Mode::Mutex, token, .. } => {
                    assert_eq!((&*lock, token), ("a", guard.fencing_token()));
                    handed = true;
                }
                Event::Acquired { ahead, by: GrantedBy::Handoff, .. } => {
                    assert_eq!(ahead, behind);
                    acquired = true;
                }
                event => panic!("{event:?}"),
            }
        }
        assert!(handed && acquired);
        before = guard;
    }
    // Who waits in ZooKeeper's queue.
    let elsewhere = Session::embedded_builder(&store).open().unwrap();
    let held = elsewhere.mutex("b").unwrap().acquire().await.unwrap();
    let third = Session::embedded_builder(&store).open().unwrap().mutex("b").unwrap();
    sleep(SECOND).await;
    let (behind, last) = (next(&third), next(&session.mutex("b").unwrap()));
    sleep(SECOND).await;
    drop(held);
    drop(behind.await.unwrap());
    let last = last.await.unwrap();
    match but_released(&told) {
        Event::Acquired { lock, ahead, by: GrantedBy::Node, waited, token, .. } => {
            assert_eq!((&*lock, ahead, token), ("b", 2, last.fencing_token()));
            assert!((SECOND..2 * SECOND).contains(&waited), "{waited:?}");
        }
        event => panic!("{event:?}"),
    }
    drop(last);
    // Permits are handed on as well.
    let semaphore = session.semaphore("s", 1).unwrap();
    let permit = semaphore.acquire().await.unwrap();
    assert!(matches!(but_released(&told), Event::Acquired { ahead: 0, .. }));
    let waiting = crate::spawn(async move { semaphore.acquire().await.unwrap() });
    // Soon enough for a handoff.
    sleep(SECOND / 1_000).await;
    drop(permit);
    let permit = waiting.await.unwrap();
    let both = [but_released(&told), but_released(&told)];
    let is_handed = |event: &Event| matches!(event, Event::HandedOn { mode: Mode::Permit, token, .. } if *token == permit.fencing_token());
    assert!(both.iter().any(is_handed), "{both:?}");
    assert!(both.iter().any(|event| matches!(event, Event::Acquired { ahead: 1, .. })), "{both:?}");
    let token = permit.fencing_token();
    drop(permit);
    drop(session.mutex("after").unwrap().acquire().await.unwrap());
    // That of the one before it is told meanwhile.
    let of_others =
        |event: &Event| matches!(event, Event::Released { token: of, .. } if *of != token);
    let mut after = std::iter::from_fn(|| Some(of_lock(&told))).skip_while(of_others);
    match after.next() {
        Some(Event::Released { mode: Mode::Permit, token: released, error: None, .. }) => {
            assert_eq!(released, token);
        }
        event => panic!("{event:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_part_of_permits_that_were_split_is_released() {
    let (_store, session, told) = all_observed();
    let mut rest = session.semaphore("s", 3).unwrap().acquire_many(3).await.unwrap();
    assert!(matches!(of_lock(&told), Event::Acquired { .. }));
    let part = rest.split(1).unwrap();
    for permits in [part, rest] {
        let token = permits.fencing_token();
        drop(permits);
        drop(session.mutex("after").unwrap().acquire().await.unwrap());
        match of_lock(&told) {
            Event::Released { lock, mode, token: released, nested, error: None, .. } => {
                assert_eq!((&*lock, mode, released, nested), ("s", Mode::Permit, token, false));
            }
            event => panic!("{event:?}"),
        }
        assert!(matches!(of_lock(&told), Event::Acquired { mode: Mode::Mutex, .. }));
        assert!(matches!(of_lock(&told), Event::Released { mode: Mode::Mutex, .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_a_wait_is_told_once_and_who_is_refused_did_not_give_up() {
    let (store, session, told) = all_observed();
    let elsewhere = Session::embedded_builder(&store).open().unwrap();
    let held = elsewhere.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    assert!(tokio::time::timeout(3 * SECOND, mutex.acquire()).await.is_err());
    match of_lock(&told) {
        Event::Cancelled { lock, pattern: "{name}", mode: Mode::Mutex, waited, .. } => {
            assert_eq!(&*lock, "a");
            assert!((3 * SECOND..4 * SECOND).contains(&waited), "{waited:?}");
        }
        event => panic!("{event:?}"),
    }
    assert!(mutex.acquire_timeout(SECOND).await.is_err());
    assert!(matches!(of_lock(&told), Event::NotAcquired { .. }));
    assert!(mutex.try_acquire().await.is_err());
    assert!(matches!(of_lock(&told), Event::NotAcquired { .. }));
    store.faults(session.zookeeper_session().unwrap().id).hold_replies();
    assert!(mutex.try_acquire().await.unwrap_err().is_unavailable());
    assert!(matches!(of_lock(&told), Event::NotAcquired { .. }));
    drop(held);
    session.close().await;
    assert!(mutex.acquire().await.is_err());
    assert!(matches!(of_lock(&told), Event::NotAcquired { .. }));
}

/// Its turn comes, and it is dropped before it knows.
#[tokio::test(start_paused = true)]
async fn who_gives_up_when_it_was_just_granted_the_lock_is_told_of() {
    let (_store, session, told) = all_observed();
    let mutex = session.mutex("a").unwrap();
    let held = mutex.acquire().await.unwrap();
    assert!(matches!(of_lock(&told), Event::Acquired { .. }));
    let mut waiting = Box::pin(mutex.acquire());
    assert!(timeout(Duration::ZERO, &mut waiting).await.is_err());
    sleep(SECOND).await;
    drop(held);
    drop(waiting);
    let both = [of_lock(&told), of_lock(&told)];
    let is_of_both = |event: &Event| match event {
        Event::Released { error: None, .. } => true,
        Event::Cancelled { waited, .. } => *waited >= SECOND,
        _ => false,
    };
    assert!(both.iter().all(is_of_both), "{both:?}");
    let cancelled = both.iter().filter(|event| matches!(event, Event::Cancelled { .. }));
    assert_eq!(cancelled.count(), 1, "{both:?}");
}

#[tokio::test]
async fn who_is_refused_after_it_joined_did_not_give_up() {
    let (_store, session, told) = all_observed();
    let refused = |error: LockError, kind| {
        assert_eq!(error.kind(), kind, "{error:#}");
        let event = of_lock(&told);
        assert!(matches!(event, Event::NotAcquired { .. }), "{event:?}");
    };
    let (mutex, semaphore) = (session.mutex("a").unwrap(), session.semaphore("b", 1).unwrap());
    let held = (mutex.blocking_acquire().unwrap(), semaphore.blocking_acquire().unwrap());
    assert!(matches!(of_lock(&told), Event::Acquired { .. }));
    assert!(matches!(of_lock(&told), Event::Acquired { .. }));
    refused(mutex.blocking_acquire().unwrap_err(), ErrorKind::Deadlock);
    refused(semaphore.blocking_acquire().unwrap_err(), ErrorKind::Deadlock);
    let other = session.semaphore("a", 1).unwrap();
    refused(other.acquire().await.unwrap_err(), ErrorKind::InvalidOption);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_session_is_suspect_is_told_before_it_is_lost() {
    let (store, session, told) = all_observed();
    let guard = session.rw_lock("a").unwrap().read().await.unwrap();
    assert!(matches!(but_released(&told), Event::Acquired { .. }));
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    for _ in 0..2 {
        faults.disconnect();
        sleep(SECOND / 10).await;
        match but_released(&told) {
            Event::Suspect { lock, mode: Mode::Read, token, .. } => {
                assert_eq!((&*lock, token), ("a", Some(guard.fencing_token())));
            }
            event => panic!("{event:?}"),
        }
        faults.reconnect();
        sleep(SECOND / 10).await;
    }
    faults.disconnect();
    assert!(matches!(but_released(&told), Event::Suspect { .. }));
    sleep(60 * SECOND).await;
    assert!(matches!(but_released(&told), Event::Lost { .. }));
}

/// A store knows by itself when it was last in contact, and its session has no heartbeat.
#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_sees_to_be_over_is_told_with_the_next_commit() {
    let (store, session, told) = all_observed();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_replies();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(!guard.is_valid());
    faults.release();
    session.mutex("b").unwrap().acquire().await.unwrap().release().await.unwrap();
    assert!(!guard.is_valid());
    tokio::time::timeout(Duration::from_secs(1), guard.lost()).await.expect("nobody tells of it");
    let lost = std::iter::repeat_with(|| of_lock(&told));
    let lost = lost.take(8).find_map(|event| match event {
        Event::Lost { lock, reason, .. } => Some((lock.to_string(), reason)),
        _ => None,
    });
    assert_eq!(lost, Some(("a".to_owned(), LossReason::Silence)));
}

/// Tells of the nodes that stay.
#[derive(Debug)]
struct Staying(StdMutex<Sender<String>>);

impl Observer for Staying {
    fn event(&self, event: &Event) {
        if let Event::StuckNode { lock, pattern, mode, .. } = event {
            let _ = self.0.lock().unwrap().send(format!("{lock:?} {pattern:?} {mode:?}"));
        }
    }
}

#[tokio::test]
async fn a_node_that_may_not_be_deleted_is_told_with_its_lock() {
    let (store, (sender, told)) = (Embedded::new(), channel());
    let staying = Arc::new(Staying(StdMutex::new(sender)));
    let delay = LockOptions::new().lock_delay(Duration::from_secs(1));
    // With a delay the node is deleted together with a mark.
    for options in [LockOptions::new(), delay] {
        let session = Session::embedded_builder(&store).observer(staying.clone()).open().unwrap();
        let name = LockName::new("orders/7").unwrap().with_pattern("orders/{id}");
        let lock = session.rw_lock(name).unwrap().with_options(options);
        let held = lock.write().await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        for op in [Op::Delete, Op::Multi] {
            faults.inject(Fault::refuse(RequestError::NoAuth).on(op).times(u64::MAX));
        }
        held.release().await.unwrap_err();
        let of = r#"Some("orders/7") Some("orders/{id}") Some(Write)"#;
        assert_eq!(next(&told), [of]);
        session.close().await;
    }
}
