//! Drivers that panic: the callers are told, and the queue goes on.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use zklock::driver::{Attempt, Contender, LockDriver};
use zklock::layout::Curator;
use zklock::{Embedded, ErrorKind, Handoffs, LockError, LockOptions, Mode, Owner, Session};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::requests::Coordinator;
use zklock_core::layout::verdict::Verdict;

use crate::support::{client, contenders, store};

/// Names nodes as Curator does, and panics where it is told to.
#[derive(Clone, Default)]
struct Shaky(Arc<AtomicU8>);

impl fmt::Debug for Shaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shaky")
    }
}

const STEADY: u8 = 0;
const NAMING: u8 = 1;
const ORDERING: u8 = 2;
const LOOKING_BEHIND: u8 = 3;
const SHOWING: u8 = 4;
const READING: u8 = 5;
const LEAVING: u8 = 6;

/// A child that is no contender.
const STRAY: &str = "notes";

impl Shaky {
    fn shake(&self, at: u8) {
        self.0.store(at, Ordering::SeqCst);
    }

    fn step(&self, at: u8) {
        assert!(self.0.load(Ordering::SeqCst) != at, "the ground shakes");
    }
}

impl LockDriver for Shaky {
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        self.step(NAMING);
        Curator.prefix(attempt, mode)
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        if name == STRAY {
            self.step(READING);
        }
        Curator.parse(name)
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        self.step(ORDERING);
        Curator.verdict(queue, mine)
    }

    fn anybody_behind(&self, queue: &[Contender], mine: &str) -> bool {
        self.step(LOOKING_BEHIND);
        Curator.anybody_behind(queue, mine)
    }

    fn removes_directory(&self) -> bool {
        self.step(LEAVING);
        Curator.removes_directory()
    }

    fn owner(&self, name: &str, data: &[u8]) -> Owner {
        self.step(SHOWING);
        Curator.owner(name, data)
    }
}

fn shaky(store: &Embedded) -> (Shaky, Session) {
    let driver = Shaky::default();
    (driver.clone(), Session::embedded_builder(store).driver(driver).open().unwrap())
}

fn assert_told(error: &LockError) {
    let text = format!("{error:#}");
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{text}");
    assert!(text.contains("Shaky") && text.contains("the ground shakes"), "{text}");
}

/// Another process holds the lock.
async fn elsewhere(store: &Embedded) -> (Arc<dyn Coordinator>, String) {
    let client = client(store).await;
    for path in ["/zklock", "/zklock/a"] {
        client.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
    let prefix = "/zklock/a/_c_0123456789abcdef0123456789abcdef-lock-";
    let node = client.create(prefix, b"", NodeKind::EphemeralSequential).await.unwrap();
    (client, node.path)
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_that_the_driver_panicked_and_the_next_has_the_lock() {
    for at in [NAMING, ORDERING, LEAVING] {
        let (store, _) = store();
        let (driver, session) = shaky(&store);
        let lock = session.rw_lock("a").unwrap();
        driver.shake(at);
        assert_told(&lock.write().await.unwrap_err());
        assert_told(&lock.try_read().await.unwrap_err());
        assert_told(&lock.read_timeout(Duration::from_secs(1)).await.unwrap_err());
        driver.shake(STEADY);
        drop(lock.write().await.unwrap());
        settle().await;
        assert!(contenders(&store, "/zklock/a").await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_together_are_all_told() {
    let (store, _) = store();
    let (driver, session) = shaky(&store);
    let (client, other) = elsewhere(&store).await;
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let mutex = session.mutex("a").unwrap();
            crate::spawn(async move { mutex.acquire().await })
        })
        .collect();
    settle().await;
    driver.shake(ORDERING);
    // What is not a grant makes it look again.
    client.set(&other, b"").await.unwrap();
    for waiting in waiting {
        assert_told(&waiting.await.unwrap().unwrap_err());
    }
    driver.shake(STEADY);
    client.delete(&other).await.unwrap();
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
}

/// Those with nodes of their own share what they see, and somebody else reads it for them.
#[tokio::test(start_paused = true)]
async fn who_shares_a_look_is_told_that_the_driver_cannot_read_it() {
    let (store, _) = store();
    let (driver, session) = shaky(&store);
    let mutex = session.mutex("a").unwrap().with_options(LockOptions::default().fair(true));
    drop(mutex.acquire().await.unwrap());
    let stray = format!("/zklock/a/{STRAY}");
    client(&store).await.create(&stray, b"", NodeKind::Persistent).await.unwrap();
    driver.shake(READING);
    let acquiring = tokio::time::timeout(Duration::from_secs(60), mutex.acquire());
    assert_told(&acquiring.await.unwrap().unwrap_err());
    assert_told(&mutex.acquire_timeout(Duration::from_secs(1)).await.unwrap_err());
    driver.shake(STEADY);
    drop(mutex.acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_seen_behind_is_taken_to_be_there() {
    let (store, _) = store();
    let (driver, session) = shaky(&store);
    let once = Handoffs::new().most(0).within(Duration::from_secs(1));
    let mutex = session.mutex("a").unwrap();
    let mutex = mutex.with_options(LockOptions::default().handoffs(once));
    let guard = mutex.acquire().await.unwrap();
    driver.shake(LOOKING_BEHIND);
    let next = crate::spawn(async move { mutex.acquire().await });
    settle().await;
    let before = guard.node_path().to_owned();
    drop(guard);
    let next = next.await.unwrap().unwrap();
    assert_ne!(next.node_path(), before, "it went to the back of the queue");
}

#[tokio::test(start_paused = true)]
async fn what_lingers_goes_where_nobody_can_look_behind_it() {
    let (store, _) = store();
    let (driver, session) = shaky(&store);
    let mutex = session.mutex("a").unwrap();
    let mutex = mutex.with_options(LockOptions::default().linger(Duration::from_secs(60)));
    driver.shake(LOOKING_BEHIND);
    drop(mutex.acquire().await.unwrap());
    settle().await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_writer_keeps_the_lock_where_it_cannot_step_down() {
    let (store, _) = store();
    let (driver, session) = shaky(&store);
    let lock = session.rw_lock("a").unwrap();
    let writer = lock.write().await.unwrap();
    driver.shake(NAMING);
    let refused = writer.downgrade().await.unwrap_err();
    assert_told(refused.error());
    driver.shake(STEADY);
    assert!(refused.into_guard().downgrade().await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn who_asks_who_holds_is_told() {
    let (store, _) = store();
    let (driver, session) = shaky(&store);
    let _other = elsewhere(&store).await;
    driver.shake(SHOWING);
    let mutex = session.mutex("a").unwrap();
    assert_told(&mutex.try_acquire().await.unwrap_err());
    assert_told(&mutex.acquire_timeout(Duration::from_secs(1)).await.unwrap_err());
}
