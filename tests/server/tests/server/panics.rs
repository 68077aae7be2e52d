//! A driver that panics where the work of a session goes on: on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zklock::driver::{Attempt, Contender, LockDriver};
use zklock::layout::Curator;
use zklock::{ErrorKind, LockError, LockOptions, Mode};
use zklock_core::layout::verdict::Verdict;
use zklock_test_support::CreateMode;

use crate::bed::{Bed, soon};

/// A child that is no contender, and that it cannot read.
const STRAY: &str = "notes";

/// Names nodes as Curator does, and panics where it is told to.
#[derive(Debug, Default)]
struct Shaky(Arc<AtomicBool>);

impl LockDriver for Shaky {
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        Curator.prefix(attempt, mode)
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        assert!(name != STRAY, "the ground shakes");
        Curator.parse(name)
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        assert!(!self.0.load(Ordering::SeqCst), "the ground shakes");
        Curator.verdict(queue, mine)
    }
}

fn assert_told(error: &LockError) {
    let text = format!("{error:#}");
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{text}");
    assert!(text.contains("Shaky") && text.contains("the ground shakes"), "{text}");
}

#[tokio::test]
async fn whoever_waits_is_told_that_the_driver_panicked_and_the_next_has_the_lock() {
    let (bed, shakes) = (Bed::shared("panics"), Arc::new(AtomicBool::new(false)));
    let session = bed.builder().driver(Shaky(shakes.clone())).connect().await.unwrap();
    let session = bed.adopt(session);
    let mutex = session.mutex("a").unwrap();
    let other = session.mutex("b").unwrap().acquire().await.unwrap();
    shakes.store(true, Ordering::SeqCst);
    for error in [
        soon("the error", mutex.acquire()).await.unwrap_err(),
        mutex.try_acquire().await.unwrap_err(),
        mutex.acquire_timeout(Duration::from_secs(10)).await.unwrap_err(),
    ] {
        assert_told(&error);
    }
    shakes.store(false, Ordering::SeqCst);
    soon("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
    assert!(other.is_valid());
    other.release().await.unwrap();
    bed.end().await;
}

/// Those with nodes of their own share what they see, and somebody else reads it for them.
#[tokio::test]
async fn who_shares_a_look_is_told_that_the_driver_cannot_read_it() {
    let bed = Bed::shared("panics-shared");
    let session = bed.builder().driver(Shaky::default()).connect().await.unwrap();
    let session = bed.adopt(session);
    let options = LockOptions::default().fair(true);
    let mutex = session.mutex("a").unwrap().with_options(options);
    bed.keep_directory("a");
    let (mut client, stray) = (bed.raw(), bed.path("a") + "/" + STRAY);
    client.create(&stray, b"", CreateMode::Persistent).unwrap();
    assert_told(&soon("the error", mutex.acquire()).await.unwrap_err());
    assert_told(&mutex.try_acquire().await.unwrap_err());
    client.delete(&stray).unwrap();
    soon("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
    bed.end().await;
}
