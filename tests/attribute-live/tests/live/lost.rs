//! `Lost` says what became of the body, wherever that was.

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use tokio::task::yield_now;
use zklock::testing::TestLocks;
use zklock::{Body, ErrorKind, LockError, LockOptions, StopAt, current, zk_locked};

use crate::journal::{Journal, Local};

const AWAITS: usize = 5;

#[zk_locked("steps")]
async fn steps(locks: &TestLocks, journal: &Journal, lost_at: usize) -> Result<usize, LockError> {
    let _first = Local(journal, "first");
    for step in 0..AWAITS {
        journal.write(format!("step {step}"));
        let _second = Local(journal, "second");
        if step == lost_at {
            locks.lose();
        }
        yield_now().await;
    }
    Ok(AWAITS)
}

#[tokio::test]
async fn a_body_is_dropped_at_whichever_await_it_is_lost_in() {
    let locks = TestLocks::install();
    let journal = Journal::default();
    for lost_at in 0..AWAITS {
        let error = steps(&locks, &journal, lost_at).await.unwrap_err();
        assert_eq!((error.kind(), error.body()), (ErrorKind::Lost, Some(Body::Dropped)));
        assert_eq!(error.lock_name(), Some("steps"));
        let lines = journal.read();
        let mut expected = Vec::new();
        for step in 0..=lost_at {
            expected.extend([format!("step {step}"), "second".to_owned()]);
        }
        expected.push("first".to_owned());
        assert_eq!(lines, expected, "lost at {lost_at}");
    }
    assert_eq!(steps(&locks, &journal, AWAITS).await.unwrap(), AWAITS);
}

/// Loses the lock from outside, while the body sleeps.
#[tokio::test(start_paused = true)]
async fn a_body_that_sleeps_is_dropped_without_waking() {
    #[zk_locked("sleeping")]
    async fn sleeping(journal: &Journal) -> Result<(), LockError> {
        let _local = Local(journal, "local");
        std::future::pending().await
    }
    let locks = TestLocks::install();
    let journal = Journal::default();
    let (outcome, ()) = tokio::join!(sleeping(&journal), async {
        yield_now().await;
        locks.lose();
    });
    assert_eq!(outcome.unwrap_err().body(), Some(Body::Dropped));
    assert_eq!(journal.read(), ["local"]);
}

#[zk_locked("steps", on_lost = finish)]
async fn finishing(locks: &TestLocks, journal: &Journal, lost_at: usize) -> Result<(), LockError> {
    for step in 0..AWAITS {
        if step == lost_at {
            locks.lose();
        }
        yield_now().await;
        assert_eq!(current().is_valid(), step < lost_at);
    }
    journal.write("finished");
    Ok(())
}

#[tokio::test]
async fn a_body_that_may_finish_does_and_the_caller_is_told() {
    let locks = TestLocks::install();
    let journal = Journal::default();
    for lost_at in 0..AWAITS {
        let error = finishing(&locks, &journal, lost_at).await.unwrap_err();
        assert_eq!((error.is_lost(), error.body()), (true, Some(Body::Finished)));
        assert_eq!(journal.read(), ["finished"]);
    }
}

/// Its release is not answered before the lock is lost.
#[zk_locked("kept")]
async fn kept(locks: &TestLocks, is_made: &AtomicBool) -> Result<u32, LockError> {
    yield_now().await;
    locks.begin_outage();
    is_made.store(true, Ordering::Relaxed);
    Ok(7)
}

#[tokio::test]
async fn a_result_that_was_made_in_time_is_kept_also_if_the_lock_goes_in_the_release() {
    let mut in_release = 0;
    // Polled by hand: after one of these, the body has returned and the release is not over.
    for polls in 1..5 {
        let (locks, is_made) = (TestLocks::install(), AtomicBool::new(false));
        let mut call = Box::pin(kept(&locks, &is_made));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            assert!(call.as_mut().poll(&mut context).is_pending(), "a release was answered");
        }
        let was_made = is_made.load(Ordering::Relaxed);
        in_release += usize::from(was_made);
        locks.lose();
        locks.end_outage();
        let outcome = call.await;
        assert_eq!(outcome.is_ok(), was_made, "after {polls} polls: {outcome:?}");
        match outcome {
            Ok(value) => assert_eq!(value, 7),
            Err(error) => assert_eq!((error.is_lost(), error.body()), (true, Some(Body::Dropped))),
        }
    }
    assert!(in_release > 0, "no lock was lost in its release");
}

/// A database that a body writes to, in a transaction.
#[derive(Debug, Default)]
struct Database {
    rows: Mutex<Vec<u32>>,
}

struct Transaction<'a> {
    database: &'a Database,
    written: Vec<u32>,
}

impl Database {
    fn begin(&self) -> Transaction<'_> {
        Transaction { database: self, written: Vec::new() }
    }

    fn rows(&self) -> Vec<u32> {
        self.rows.lock().unwrap().clone()
    }
}

impl Transaction<'_> {
    async fn insert(&mut self, row: u32) {
        yield_now().await;
        self.written.push(row);
    }

    fn commit(self) {
        self.database.rows.lock().unwrap().extend(self.written);
    }
}

/// The recipe for a body that owns a transaction: it finishes, and asks directly before the commit.
#[zk_locked("orders", on_lost = finish)]
async fn insert(locks: &TestLocks, database: &Database, lost_at: u32) -> Result<u32, LockError> {
    let mut transaction = database.begin();
    for row in 0..3 {
        if row == lost_at {
            locks.lose();
        }
        transaction.insert(row).await;
    }
    if !current().is_valid() {
        // Dropped without a commit. The caller is told by the error that the lock was lost.
        return Ok(0);
    }
    transaction.commit();
    Ok(3)
}

#[tokio::test]
async fn a_body_that_owns_a_transaction_commits_only_with_the_lock() {
    let locks = TestLocks::install();
    let database = Database::default();
    for lost_at in 0..3 {
        let error = insert(&locks, &database, lost_at).await.unwrap_err();
        assert_eq!((error.is_lost(), error.body()), (true, Some(Body::Finished)));
        assert!(database.rows().is_empty());
    }
    assert_eq!(insert(&locks, &database, 9).await.unwrap(), 3);
    assert_eq!(database.rows(), [0, 1, 2]);
}

#[test]
fn a_plain_body_that_loses_its_lock_finishes_and_the_caller_is_told() {
    #[zk_locked("plain", on_lost = finish)]
    fn plain(locks: &TestLocks, journal: &Journal) -> Result<(), LockError> {
        let _local = Local(journal, "local");
        locks.lose();
        assert!(!current().is_valid());
        journal.write("finished");
        Ok(())
    }
    let locks = TestLocks::install();
    let journal = Journal::default();
    let error = plain(&locks, &journal).unwrap_err();
    assert_eq!((error.is_lost(), error.body()), (true, Some(Body::Finished)));
    assert_eq!(journal.read(), ["finished", "local"]);
}

#[zk_locked("careful", stop_at = suspect)]
async fn careful(locks: &TestLocks) -> Result<(), LockError> {
    locks.begin_outage();
    yield_now().await;
    Ok(())
}

#[zk_locked("patient", stop_at = lost)]
async fn patient(locks: &TestLocks) -> Result<(), LockError> {
    locks.begin_outage();
    yield_now().await;
    locks.end_outage();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_body_may_stop_as_soon_as_the_connection_is_in_doubt() {
    let careful_locks = LockOptions::default().stop_at(StopAt::Suspect);
    let locks = TestLocks::with_defaults(careful_locks);
    patient(&locks).await.unwrap();
    let locks = TestLocks::install();
    let (outcome, ()) = tokio::join!(careful(&locks), async {
        yield_now().await;
        // The release is awaited.
        locks.end_outage();
    });
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Lost, Some(Body::Dropped)));
}
