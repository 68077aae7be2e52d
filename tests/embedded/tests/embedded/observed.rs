//! What an observer is told of a lock.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use tokio::time::sleep;
use zklock::{
    Acl, Embedded, Event, GrantedBy, LockOptions, LossReason, Mode, Observer, Session, StopAt,
};

use crate::support::{Warnings, client};

#[derive(Debug)]
struct Lines(StdMutex<Sender<String>>);

impl Observer for Lines {
    fn event(&self, event: &Event) {
        let line = match event {
            Event::Acquired { lock, .. } => format!("{lock} acquired"),
            Event::NotAcquired { lock, error, .. } => format!("{lock} not, {}", error.code()),
            Event::Released { lock, error: None, .. } => format!("{lock} released"),
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
    assert_eq!(next(&told), ["a acquired", "a acquired", "a released", "a released"]);
    drop(mutex.acquire().await.unwrap());
    assert_eq!(next(&told), ["a acquired", "a released"]);
    drop(session.semaphore("s", 2).unwrap().acquire_many(2).await.unwrap());
    assert_eq!(next(&told), ["s acquired", "s released"]);
    // A writer that becomes a reader holds on.
    let writer = session.rw_lock("rw").unwrap().write().await.unwrap();
    drop(writer.downgrade().await.unwrap());
    assert_eq!(next(&told), ["rw acquired", "rw released"]);
}

/// Who does not wait until the node is gone has released it all the same.
#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_waits_for_is_told() {
    let (store, session, told) = observed();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let writer = session.rw_lock("rw").unwrap().write().await.unwrap();
    assert_eq!(next(&told), ["a acquired", "rw acquired"]);
    store.faults(session.zookeeper_session().unwrap().0).hold_replies();
    let moment = Duration::from_millis(10);
    assert!(tokio::time::timeout(moment, guard.release()).await.is_err());
    assert_eq!(next(&told), ["a released"]);
    assert!(tokio::time::timeout(moment, writer.downgrade()).await.is_err());
    assert_eq!(next(&told), ["rw released"]);
    // What is lost on the way is over, too.
    store.faults(session.zookeeper_session().unwrap().0).release();
    let writer = session.rw_lock("lost").unwrap().write().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().0).expire();
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
    store.faults(session.zookeeper_session().unwrap().0).expire();
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
    let grants = 3_000;
    for _ in 0..grants {
        mutex.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(next(&told), ["a acquired", "a released"]);
    }
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
    let second = tokio::spawn(async move { second.acquire_tries().await.unwrap() });
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
    let node = writer.path().rsplit('/').next().unwrap();
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
async fn a_loss_says_why() {
    let (store, session, told) = all_observed();
    let outside = client(&store).await;
    let suspect = LockOptions::new().stop_at(StopAt::Suspect);
    let writer = async |name: &str| {
        session.rw_lock(name).unwrap().with_options(suspect).write().await.unwrap()
    };
    let lost = || loop {
        match of_lock(&told) {
            Event::Lost { lock, mode, czxid, why, .. } => {
                assert_eq!(mode, Mode::Write);
                return (lock.to_string(), czxid, why);
            }
            Event::Acquired { .. } | Event::Released { .. } => {}
            event => panic!("{event:?}"),
        }
    };
    let reasons = [LossReason::Deleted, LossReason::Broken, LossReason::Suspect];
    for (name, reason) in ["a", "b", "c"].into_iter().zip(reasons) {
        let guard = writer(name).await;
        match reason {
            LossReason::Deleted => outside.delete(guard.path()).await.unwrap(),
            LossReason::Broken => {
                let site = session.site(name).unwrap();
                let queue = site.contenders().await.unwrap();
                assert!(site.break_holder(&queue[0]).await.unwrap());
            }
            _ => store.faults(session.zookeeper_session().unwrap().0).disconnect(),
        }
        guard.lost().await;
        assert_eq!(lost(), (name.to_owned(), guard.fencing_token().czxid(), reason));
    }
    store.faults(session.zookeeper_session().unwrap().0).reconnect();
    let guard = session.rw_lock("d").unwrap().write().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().0).expire();
    guard.lost().await;
    assert_eq!(lost().2, LossReason::SessionEnded);
}
