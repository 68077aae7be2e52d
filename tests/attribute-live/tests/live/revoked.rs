//! A lock that somebody asks to be let go.

use std::future::pending;
use std::time::Duration;

use tokio::task::yield_now;
use zklock::testing::TestLocks;
use zklock::{
    Body, ErrorKind, LockError, LockOptions, OnLost, OnRevoked, current, is_held_in_scope,
    zk_locked,
};

use crate::journal::{Journal, Local};

const AWAITS: usize = 5;

/// Has the lock when it goes.
struct Held(&'static str);

impl Drop for Held {
    fn drop(&mut self) {
        let held = is_held_in_scope(self.0) || std::thread::panicking();
        assert!(held, "the lock went before the body");
    }
}

fn dropped(error: &LockError) -> bool {
    (error.kind(), error.code(), error.body()) == (ErrorKind::Revoked, "1024", Some(Body::Dropped))
}

#[zk_locked("steps", on_revoked = cancel)]
async fn steps(locks: &TestLocks, journal: &Journal, at: usize) -> Result<usize, LockError> {
    let _held = Held("steps");
    let _first = Local(journal, "first");
    for step in 0..AWAITS {
        journal.write(format!("step {step}"));
        let _second = Local(journal, "second");
        if step == at {
            assert_eq!(locks.revoke("steps").unwrap(), 1);
            current().revoked().await;
        }
        yield_now().await;
    }
    Ok(AWAITS)
}

#[tokio::test]
async fn a_body_is_dropped_at_whichever_await_it_is_revoked_in() {
    let locks = TestLocks::install();
    let journal = Journal::default();
    for at in 0..AWAITS {
        let error = steps(&locks, &journal, at).await.unwrap_err();
        assert!(dropped(&error), "{error:?}");
        assert!(error.is_revoked() && !error.is_lost() && !error.is_busy());
        assert_eq!(error.lock_name(), Some("steps"));
        let mut expected = Vec::new();
        for step in 0..=at {
            expected.extend([format!("step {step}"), "second".to_owned()]);
        }
        expected.push("first".to_owned());
        assert_eq!(journal.read(), expected, "revoked at {at}");
        // Whoever asked has it now.
        drop(locks.hold("steps").unwrap());
    }
    assert_eq!(steps(&locks, &journal, AWAITS).await.unwrap(), AWAITS);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_sleeps_is_dropped_without_waking() {
    #[zk_locked("sleeping", on_revoked = cancel)]
    async fn sleeping(journal: &Journal) -> Result<(), LockError> {
        let _local = Local(journal, "local");
        pending().await
    }
    let locks = TestLocks::install();
    let journal = Journal::default();
    let (outcome, ()) = tokio::join!(sleeping(&journal), async {
        yield_now().await;
        locks.revoke("sleeping").unwrap();
    });
    assert!(dropped(&outcome.unwrap_err()));
    assert_eq!(journal.read(), ["local"]);
}

#[zk_locked("ignored")]
async fn by_default(locks: &TestLocks) -> Result<bool, LockError> {
    locks.revoke("ignored")?;
    current().revoked().await;
    yield_now().await;
    Ok(current().is_revoked() && current().is_valid())
}

#[zk_locked("ignored", on_revoked = ignore)]
async fn ignoring(locks: &TestLocks) -> Result<bool, LockError> {
    locks.revoke("ignored")?;
    current().revoked().await;
    yield_now().await;
    Ok(current().is_revoked() && current().is_valid())
}

#[tokio::test]
async fn a_body_that_does_not_heed_goes_on_and_may_ask() {
    let locks = TestLocks::install();
    assert!(by_default(&locks).await.unwrap());
    assert!(ignoring(&locks).await.unwrap());
}

#[tokio::test]
async fn what_a_session_says_holds_where_the_attribute_says_nothing() {
    let heeding = LockOptions::default().on_revoked(OnRevoked::Cancel).on_lost(OnLost::Finish);
    let locks = TestLocks::with_defaults(heeding);
    assert!(dropped(&by_default(&locks).await.unwrap_err()));
    assert!(ignoring(&locks).await.unwrap());

    #[zk_locked("lost")]
    async fn finishes(locks: &TestLocks) -> Result<(), LockError> {
        locks.lose();
        yield_now().await;
        Ok(())
    }
    #[zk_locked("lost", on_lost = cancel)]
    async fn stops(locks: &TestLocks) -> Result<(), LockError> {
        locks.lose();
        yield_now().await;
        Ok(())
    }
    assert_eq!(finishes(&locks).await.unwrap_err().body(), Some(Body::Finished));
    assert_eq!(stops(&locks).await.unwrap_err().body(), Some(Body::Dropped));
}

#[tokio::test]
async fn a_result_that_was_made_is_kept() {
    #[zk_locked("kept", on_revoked = cancel)]
    async fn kept(locks: &TestLocks) -> Result<u32, LockError> {
        yield_now().await;
        locks.revoke("kept")?;
        Ok(7)
    }
    let locks = TestLocks::install();
    assert_eq!(kept(&locks).await.unwrap(), 7);
    drop(locks.hold("kept").unwrap());
}

#[zk_locked("stock", mode = read, on_revoked = cancel)]
async fn reading(locks: &TestLocks) -> Result<(), LockError> {
    let _held = Held("stock");
    locks.revoke("stock")?;
    pending().await
}

#[zk_locked("stock", mode = write, on_revoked = cancel)]
async fn writing(locks: &TestLocks) -> Result<(), LockError> {
    let _held = Held("stock");
    locks.revoke("stock")?;
    pending().await
}

#[zk_locked("printers", mode = semaphore(2), on_revoked = cancel)]
async fn printing(locks: &TestLocks) -> Result<(), LockError> {
    let _held = Held("printers");
    assert_eq!(locks.session().semaphore("printers", 2)?.site().revoke().await?, 1);
    pending().await
}

#[zk_locked("accounts", key = 1 + from, key = 1 + to, on_revoked = cancel)]
async fn transfer(locks: &TestLocks, from: u32, to: u32, asked: u32) -> Result<(), LockError> {
    let _held = (Held("accounts/2"), Held("accounts/3"));
    assert_eq!(locks.revoke(format!("accounts/{asked}"))?, 1);
    pending().await
}

#[tokio::test]
async fn every_mode_heeds_and_of_several_locks_each() {
    let locks = TestLocks::install();
    for error in [
        reading(&locks).await.unwrap_err(),
        writing(&locks).await.unwrap_err(),
        printing(&locks).await.unwrap_err(),
        transfer(&locks, 2, 1, 2).await.unwrap_err(),
        transfer(&locks, 1, 2, 3).await.unwrap_err(),
    ] {
        assert!(dropped(&error), "{error:?}");
    }
    assert_eq!(transfer(&locks, 1, 2, 2).await.unwrap_err().lock_name(), Some("accounts/2"));
    assert_eq!(transfer(&locks, 1, 2, 3).await.unwrap_err().lock_name(), Some("accounts/3"));
    drop((locks.hold("accounts/2").unwrap(), locks.hold("accounts/3").unwrap()));
}

#[zk_locked("outer")]
async fn outer(locks: &TestLocks, before: bool) -> Result<LockError, LockError> {
    if before {
        locks.revoke("outer")?;
        current().revoked().await;
    }
    let nested = nested(locks).await;
    assert!(current().is_revoked() && current().is_valid());
    nested.map_or_else(Ok, |()| unreachable!())
}

#[zk_locked("outer", on_revoked = cancel)]
async fn nested(locks: &TestLocks) -> Result<(), LockError> {
    locks.revoke("outer")?;
    pending().await
}

#[tokio::test]
async fn a_nested_call_heeds_for_itself() {
    let locks = TestLocks::install();
    assert!(dropped(&outer(&locks, false).await.unwrap()));
    let error = outer(&locks, true).await.unwrap();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Revoked, Some(Body::NotStarted)));
}

#[zk_locked("both", on_lost = finish, on_revoked = cancel)]
async fn both(locks: &TestLocks, lose: bool, revoke: bool) -> Result<(), LockError> {
    if lose {
        locks.lose();
    }
    if revoke {
        locks.revoke("both")?;
    }
    for _ in 0..3 {
        yield_now().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_body_may_finish_without_its_lock_and_still_heed() {
    let locks = TestLocks::install();
    both(&locks, false, false).await.unwrap();
    let error = both(&locks, true, false).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Lost, Some(Body::Finished)));
    let error = both(&locks, false, true).await.unwrap_err();
    assert!(dropped(&error), "{error:?}");
}

#[tokio::test]
async fn a_lock_that_is_lost_too_is_lost() {
    #[zk_locked("either", on_revoked = cancel)]
    async fn either(locks: &TestLocks) -> Result<(), LockError> {
        locks.revoke("either")?;
        locks.lose();
        yield_now().await;
        Ok(())
    }
    let locks = TestLocks::install();
    let error = either(&locks).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Lost, Some(Body::Dropped)));
}

#[zk_locked("plain", on_revoked = cancel)]
fn plain(locks: &TestLocks) -> Result<bool, LockError> {
    assert!(!current().is_revoked());
    locks.revoke("plain")?;
    Ok(current().is_revoked())
}

#[zk_locked("plain")]
fn plain_outer(locks: &TestLocks) -> Result<bool, LockError> {
    assert!(plain(locks)?);
    // Now it is too late to begin.
    plain(locks)
}

#[test]
fn a_plain_body_is_asked_before_it_begins_and_asks_for_itself() {
    let locks = TestLocks::install();
    assert!(plain(&locks).unwrap());
    let error = plain_outer(&locks).unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Revoked, Some(Body::NotStarted)));
}

/// Its answers while others are in a hurry.
#[zk_locked("handled", on_revoked = cancel, on_busy = skip, on_error = |error| Some(error.to_string()))]
async fn handled(locks: &TestLocks) -> Option<String> {
    locks.revoke("handled").ok()?;
    pending().await
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lock_is_not_a_busy_one() {
    let locks = TestLocks::with_defaults(LockOptions::default().timeout(Duration::from_millis(1)));
    let said = handled(&locks).await.unwrap();
    assert!(said.starts_with("handled was revoked: "), "{said}");
    let held = locks.hold("handled").unwrap();
    assert_eq!(handled(&locks).await, None);
    drop(held);
}

#[test]
fn outside_of_a_body_nothing_is_revoked() {
    assert!(!current().is_revoked());
}
