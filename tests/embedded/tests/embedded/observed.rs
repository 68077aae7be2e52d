//! What an observer is told of a lock.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use zklock::{Acl, Embedded, Event, Observer, Session};

use crate::support::Warnings;

#[derive(Debug)]
struct Lines(StdMutex<Sender<String>>);

impl Observer for Lines {
    fn event(&self, event: &Event) {
        let line = match event {
            Event::Acquired { lock, .. } => format!("{lock} acquired"),
            Event::NotAcquired { lock, error } => format!("{lock} not, {}", error.code()),
            Event::Released { lock, error: None } => format!("{lock} released"),
            Event::Lost { lock } => format!("{lock} lost"),
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
            Event::Dropped { count } => {
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
