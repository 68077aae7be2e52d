//! What an observer is told of a lock.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use zklock::{Embedded, Event, Observer, Session};

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
