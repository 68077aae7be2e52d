//! An outage of a test: it reaches all calls, and a session that ends meanwhile, while nobody looks, is found over by the
//! next question, which is answered.

use std::sync::mpsc::channel;
use std::time::Duration;

use zklock::testing::TestLocks;
use zklock::{ErrorKind, LockOptions, Session};

/// Far longer than the session timeout.
const LONG: Duration = Duration::from_secs(20);

/// Runs a test of its own runtime with paused time, and fails if it hangs: no timer of a runtime
/// ends a thread that waits for a mutex.
fn answered<F: Future<Output = ()>>(work: impl FnOnce(TestLocks) -> F + Send + 'static) {
    let (done, ends) = channel();
    let test = std::thread::spawn(move || {
        let mut paused = tokio::runtime::Builder::new_current_thread();
        let paused = paused.enable_time().start_paused(true).build().unwrap();
        paused.block_on(async { work(TestLocks::install()).await });
        done.send(()).unwrap();
    });
    match ends.recv_timeout(Duration::from_secs(30)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => test.join().unwrap(),
    }
}

/// Lets the sessions end, without a moment for any task to notice.
async fn outlive(locks: &TestLocks) {
    locks.begin_outage();
    tokio::time::advance(LONG).await;
}

#[test]
fn a_single_try_is_answered_after_the_session_has_ended() {
    answered(async |locks| {
        let mutex = locks.session().mutex("a").unwrap();
        let guard = mutex.acquire().await.unwrap();
        outlive(&locks).await;
        let outcome = mutex.try_acquire().await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(!guard.is_valid());
        guard.lost().await;
        locks.end_outage();
        assert!(mutex.acquire().await.unwrap().is_valid());
    });
}

#[test]
fn every_question_is_answered_after_the_session_has_ended() {
    answered(async |locks| {
        let session: &Session = locks.session();
        let (mutex, rwlock) = (session.mutex("a").unwrap(), session.rw_lock("b").unwrap());
        let semaphore = session.semaphore("c", 2).unwrap();
        let held = mutex.acquire().await.unwrap();
        let (read, permit) = (rwlock.read().await.unwrap(), semaphore.acquire().await.unwrap());
        outlive(&locks).await;
        assert!(!held.is_valid() && !read.is_valid() && !permit.is_valid());
        assert_eq!(held.remaining(), Duration::ZERO);
        for outcome in [
            mutex.try_acquire().await.map(drop),
            rwlock.try_read().await.map(drop),
            rwlock.try_write().await.map(drop),
            semaphore.try_acquire().await.map(drop),
        ] {
            assert!(outcome.is_err_and(|error| error.is_unavailable()));
        }
        drop(session.local_contenders());
        held.release().await.unwrap_err();
        drop((read, permit));
    });
}

/// Both block their thread, on which the timers of a paused clock would run.
#[test]
fn a_test_that_holds_and_revokes_is_answered_although_its_clock_stands_still() {
    answered(async |locks| {
        let lingers = LockOptions::new().linger(Duration::from_secs(5));
        let mutex = locks.session().mutex("b").unwrap().with_options(lingers);
        let guard = mutex.acquire().await.unwrap();
        assert!(locks.hold("b").unwrap_err().is_busy());
        assert_eq!(locks.revoke("b").unwrap(), 1);
        guard.release().await.unwrap();
        locks.begin_outage();
        assert!(locks.revoke("a").unwrap_err().is_unavailable());
        assert!(locks.hold("a").unwrap_err().is_unavailable());
        locks.end_outage();
        assert_eq!(locks.revoke("a").unwrap(), 0);
        assert!(locks.hold("a").unwrap().is_valid());
    });
}

/// So many wait at once that a session with several connections opens another one.
#[test]
fn an_outage_reaches_all_calls_again_and_again() {
    answered(async |locks| {
        let session = locks.session();
        for _ in 0..2 {
            locks.begin_outage();
            assert!(!session.is_ready());
            let calls = (0..9).map(|n| {
                let mutex = session.mutex(format!("a/{n}")).unwrap();
                tokio::spawn(async move { mutex.acquire_timeout(Duration::from_millis(100)).await })
            });
            for call in calls.collect::<Vec<_>>() {
                assert!(call.await.unwrap().is_err_and(|error| error.is_unavailable()));
            }
            locks.end_outage();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(session.mutex("a").unwrap().acquire().await.unwrap().is_valid());
        }
    });
}
