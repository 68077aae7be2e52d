//! No server answers for long, or a test has an outage, which reaches all calls. A session that ends meanwhile, while nobody
//! looks, is found over by the next question, which is answered.

use std::sync::mpsc::channel;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zklock::testing::TestLocks;
use zklock::{ErrorKind, LockOptions, Session, SessionState};
use zklock_core::coordinator::request_error::RequestError;
use zklock_test_support::Warnings;

use crate::support::prompt;

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

/// The rounds in vain within this time: the first one at once, and the others after pauses that double, from 50 ms
/// to a second.
fn rounds_within(time: Duration) -> usize {
    let pauses = [0, 50, 100, 200, 400, 800].into_iter().chain(std::iter::repeat(1_000));
    let begun = pauses.scan(Duration::ZERO, |at, pause| {
        *at += Duration::from_millis(pause);
        Some(*at)
    });
    begun.take_while(|at| *at < time).count()
}

#[tokio::test(start_paused = true)]
async fn while_no_server_answers_the_state_says_so_and_each_round_is_logged_once() {
    const MOMENT: Duration = Duration::from_millis(1);
    let (store, session) = prompt();
    let (warnings, guard) = (Warnings::collect(), session.mutex("a").unwrap().acquire().await);
    let (guard, t) = (guard.unwrap(), Duration::from_secs(10));
    store.begin_outage(RequestError::Unreachable("all are down".to_owned()));
    store.faults(session.zookeeper_session().unwrap().id).disconnect();
    let start = Instant::now();
    sleep(MOMENT).await;
    while session.state() == SessionState::Suspended {
        assert!(start.elapsed() < t || !guard.is_valid());
        sleep(MOMENT).await;
    }
    assert_eq!(session.state(), SessionState::Connecting);
    let took = start.elapsed();
    assert!(took >= t * 13 / 10 && took <= t * 15 / 10, "{took:?}");
    let time = Duration::from_millis(10_300);
    sleep(time).await;
    assert_eq!(session.state(), SessionState::Connecting);
    let lines = warnings.take();
    let (in_vain, others): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.contains("no ZooKeeper session could be opened"));
    assert_eq!(in_vain.len(), rounds_within(time), "{lines:#?}");
    assert!(in_vain.iter().all(|line| line.contains("all are down")), "{in_vain:#?}");
    let [lost] = &others[..] else { panic!("{others:#?}") };
    assert!(lost.contains("a held lock was lost") && lost.contains("Silence"), "{lost}");
    store.end_outage();
    sleep(2 * MOMENT + Duration::from_secs(1)).await;
    assert_eq!(session.state(), SessionState::Connected);
    assert!(guard.release().await.unwrap_err().is_lost());
}
