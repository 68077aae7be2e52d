//! How late the wait for several locks as one may end: by 60 ms for each of them, in which ZooKeeper says who
//! is in the way, or does not.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use zklock::{Embedded, LockError, LockOptions, MultiLock, MutexGuard, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_test_support::Control;

use crate::support::{on, prompt};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// For each lock.
const EACH: Duration = ms(60);

fn name(number: usize) -> String {
    format!("m{number}")
}

/// So many locks as one.
fn together(session: &Session, count: usize, options: LockOptions) -> MultiLock {
    let member = |number| session.mutex(name(number)).unwrap().with_options(options);
    MultiLock::new((0..count).map(member)).unwrap()
}

/// Nobody answers who holds a lock; that it exists, and its end, is told.
fn forget_holders(store: &Embedded, session: &Session, held: &[MutexGuard]) {
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    for held in held {
        let question = Fault::forget_reply().on(Op::Get).path(held.node_path()).skip(1);
        faults.inject(question.times(u64::MAX));
    }
}

/// How long after the deadline the wait for the first lock ends at the latest, if nobody answers: its question was
/// sent before.
fn end_of_first(limit: Duration) -> Duration {
    EACH.saturating_sub((limit / 4).min(ms(500))).max(ms(30))
}

/// The last of them is not to be had, and nobody says by whom.
fn refused(refused: Result<(), LockError>, count: usize) {
    let error = refused.unwrap_err();
    assert!(error.is_unavailable(), "{error:#}");
    assert_eq!(error.lock_name(), Some(&*name(count - 1)), "it ends early: {error:#}");
}

/// Each is released just before the wait for it is over.
#[tokio::test(start_paused = true)]
async fn several_locks_whose_holders_nobody_names_are_unavailable_within_60_ms_for_each() {
    for (limit, count) in [20, 1_000].into_iter().flat_map(|limit| [1, 2, 5].map(|n| (limit, n))) {
        for tries in [1, 2] {
            let (limit, (store, session)) = (ms(limit), prompt());
            let mut held = Vec::new();
            for number in 0..count {
                held.push(on(&store).mutex(name(number)).unwrap().acquire().await.unwrap());
            }
            forget_holders(&store, &session, &held);
            let (start, all) = (Instant::now(), limit * tries);
            let mut ends = start + all + end_of_first(limit) - ms(1);
            let last = held.pop();
            let releases = crate::spawn(async move {
                for held in held {
                    sleep_until(ends).await;
                    held.release().await.unwrap();
                    ends += EACH - ms(1);
                }
            });
            let options = LockOptions::new().timeout(limit).retries(tries);
            let locks = together(&session, count, options);
            let outcome = match tries {
                1 => locks.acquire_timeout(limit).await,
                _ => locks.acquire_tries().await,
            };
            let took = start.elapsed();
            let most = all + EACH * u32::try_from(count).unwrap();
            assert!(took >= all && took <= most, "{count} in {tries} × {limit:?}: {took:?}");
            refused(outcome.map(drop), count);
            releases.await.unwrap();
            drop(last);
        }
    }
}

/// Every answer takes 50 ms.
#[tokio::test(start_paused = true)]
async fn several_locks_of_which_zookeeper_tells_late_are_unavailable_within_60_ms_for_each() {
    const LATE: Duration = ms(50);
    for count in [1, 2, 5] {
        let (limit, (store, session)) = (ms(1_000), prompt());
        let hold = async |number| on(&store).mutex(name(number)).unwrap().acquire().await.unwrap();
        let mut held = Vec::new();
        for number in 0..count {
            held.push(hold(number).await);
        }
        // Those between are free, and are asked for after the deadline.
        held.drain(1.min(count - 1)..count - 1);
        forget_holders(&store, &session, &held);
        let last = held.pop();
        store.faults(session.zookeeper_session().unwrap().id).delay_replies(LATE);
        let start = Instant::now();
        let at = start + limit + end_of_first(limit) - LATE - ms(1);
        let releases = crate::spawn(async move {
            sleep_until(at).await;
            drop(held);
        });
        let locks = together(&session, count, LockOptions::new());
        let outcome = locks.acquire_timeout(limit).await;
        let took = start.elapsed();
        let most = limit + EACH * u32::try_from(count).unwrap();
        assert!(took >= limit && took <= most, "{count}: {took:?}");
        refused(outcome.map(drop), count);
        releases.await.unwrap();
        drop(last);
    }
}

#[test]
fn a_thread_that_wants_several_locks_is_back_within_60_ms_for_each() {
    // For two threads, which are late.
    const SLACK: Duration = ms(15);
    let control = Control::timers();
    for (limit, count) in [20, 400].into_iter().flat_map(|limit| [1, 2, 5].map(|n| (limit, n))) {
        let (limit, (store, session)) = (ms(limit), prompt());
        let hold = |number| on(&store).mutex(name(number)).unwrap().blocking_acquire().unwrap();
        let mut held: Vec<_> = (0..count).map(hold).collect();
        forget_holders(&store, &session, &held);
        let start = std::time::Instant::now();
        let mut ends = start + limit + end_of_first(limit) - SLACK;
        let last = held.pop();
        let releases = std::thread::spawn(move || {
            for held in held {
                std::thread::sleep(ends.saturating_duration_since(std::time::Instant::now()));
                held.blocking_release().unwrap();
                ends += EACH - SLACK;
            }
        });
        let locks = together(&session, count, LockOptions::new());
        let outcome = locks.blocking_acquire_timeout(limit).map(drop);
        let took = start.elapsed();
        let promised = limit + EACH * u32::try_from(count).unwrap();
        control.within(&format!("{count} in {limit:?}"), took, promised);
        assert!(outcome.is_err_and(|error| error.is_unavailable()), "{count} in {limit:?}");
        releases.join().unwrap();
        drop(last);
    }
}
