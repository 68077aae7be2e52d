//! Trying once where this process has seen who is in the way, and nobody answers any more: what was seen may
//! not be so by now.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zklock::layout::{Kazoo, OneNode};
use zklock::{AnyLock, LockError, LockOptions, MultiLock, Session};
use zklock_test_support::Control;

use crate::support::{on, prompt};

/// How long who tries waits for answers.
const LIMIT: Duration = Duration::from_millis(200);
const MOMENT: Duration = Duration::from_millis(1);

fn brief() -> LockOptions {
    LockOptions::new().timeout(LIMIT)
}

fn mutex(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().with_options(brief()).into()
}

fn fair(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().with_options(brief().fair(true)).into()
}

fn one_node(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().with_options(brief()).with_driver(OneNode).into()
}

fn read(session: &Session) -> AnyLock {
    AnyLock::Read(session.rw_lock("a").unwrap().with_options(brief()))
}

fn write(session: &Session) -> AnyLock {
    AnyLock::Write(session.rw_lock("a").unwrap().with_options(brief()))
}

fn permit(session: &Session) -> AnyLock {
    session.semaphore("a", 1).unwrap().with_options(brief()).into()
}

/// Two of three.
fn permits(session: &Session) -> AnyLock {
    AnyLock::Permits(session.semaphore("a", 3).unwrap().with_options(brief()), 2)
}

fn kazoos(session: &Session) -> AnyLock {
    let semaphore = session.semaphore("a", 1).unwrap().with_options(brief());
    semaphore.with_driver(Kazoo::default()).into()
}

/// As what another process holds a lock, a task of this one waits for it, and another one tries to have it.
type Case = [fn(&Session) -> AnyLock; 3];

const CASES: [Case; 10] = [
    [mutex, mutex, mutex],
    [fair, fair, fair],
    [one_node, one_node, one_node],
    [write, read, read],
    [write, read, write],
    [write, write, read],
    [read, write, write],
    [permit, permit, permit],
    [permits, permits, permits],
    [kazoos, kazoos, kazoos],
];

fn told(lock: &AnyLock, tried: Result<(), LockError>) {
    let error = tried.unwrap_err();
    assert!(error.is_unavailable() && error.holder().is_none(), "{lock:?}: {error:#}");
}

#[tokio::test(start_paused = true)]
async fn a_try_is_not_busy_with_who_was_seen_before_a_silence() {
    for [held, waits, tries] in CASES {
        let (store, session) = prompt();
        let held = held(&on(&store)).acquire().await.unwrap();
        let (waits, tries) = (waits(&session), tries(&session));
        let waiting = crate::spawn(async move { waits.acquire().await.map(drop) });
        sleep(MOMENT).await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        assert!(faults.pending_watches() > 0, "{tries:?}: it has not seen anybody");
        faults.hold_replies();
        let start = Instant::now();
        told(&tries, tries.try_acquire().await.map(drop));
        assert!(start.elapsed() <= LIMIT + MOMENT, "{tries:?}: {:?}", start.elapsed());
        let (start, multi) = (Instant::now(), MultiLock::new([tries.clone()]).unwrap());
        told(&tries, multi.try_acquire().await.map(drop));
        assert!(start.elapsed() <= LIMIT + MOMENT, "as one: {tries:?}: {:?}", start.elapsed());
        faults.release();
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap();
    }
}

/// Of three permits, others have two and may give them back; a limit in a node may be raised.
#[tokio::test(start_paused = true)]
async fn a_try_for_a_permit_is_not_busy_with_who_holds_one_in_its_process() {
    for others in [2, 0] {
        let (store, session) = prompt();
        let permits = |session: &Session| match others {
            0 => session.semaphore_with_limit_at("a", "limits/a", 1).unwrap(),
            others => session.semaphore("a", 1 + others).unwrap(),
        };
        let mine = permits(&session).with_options(brief());
        let held = mine.acquire().await.unwrap();
        let theirs = permits(&on(&store));
        let theirs = match others {
            0 => None,
            others => Some(theirs.acquire_many(others).await.unwrap()),
        };
        let waits = mine.clone();
        let waiting = crate::spawn(async move { waits.acquire().await.map(drop) });
        sleep(MOMENT).await;
        assert!(mine.try_acquire().await.unwrap_err().is_busy());
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.hold_replies();
        let lock = AnyLock::from(mine.clone());
        told(&lock, mine.try_acquire().await.map(drop));
        faults.release();
        drop((held, theirs));
        waiting.await.unwrap().unwrap();
    }
}

#[test]
fn a_thread_that_tries_is_not_busy_with_who_was_seen_before_a_silence() {
    let control = Control::timers();
    for [held, waits, tries] in CASES {
        let (store, session) = prompt();
        let held = held(&on(&store)).blocking_acquire().unwrap();
        let (waits, tries) = (waits(&session), tries(&session));
        let waiting = std::thread::spawn(move || waits.blocking_acquire().map(drop));
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        while faults.pending_watches() == 0 {
            std::thread::yield_now();
        }
        // Also the last of its watches.
        std::thread::sleep(10 * MOMENT);
        faults.hold_replies();
        let start = std::time::Instant::now();
        told(&tries, tries.blocking_try_acquire().map(drop));
        control.within(&format!("{tries:?}"), start.elapsed(), LIMIT);
        let (start, multi) = (std::time::Instant::now(), MultiLock::new([tries.clone()]).unwrap());
        told(&tries, multi.blocking_try_acquire().map(drop));
        control.within(&format!("as one: {tries:?}"), start.elapsed(), LIMIT);
        faults.release();
        held.blocking_release().unwrap();
        waiting.join().unwrap().unwrap();
    }
}
