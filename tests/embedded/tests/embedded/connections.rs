//! A session with two connections, of which one fails: only what is held there is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zklock::layout::{Kazoo, OneNode};
use zklock::{AnyGuard, AnyLock, Embedded, LockOptions, Session, SessionState, StopAt};

use crate::support::{client, late};

const T: Duration = Duration::from_secs(10);
/// Without the tick of the servers.
const LEASE: Duration = Duration::from_millis(5_500);
const MOMENT: Duration = Duration::from_millis(50);

/// A lock of each kind, under a number.
fn kinds(session: &Session, stop_at: StopAt, number: usize) -> Vec<AnyLock> {
    let options = LockOptions::new().stop_at(stop_at);
    let name = |kind: &str| format!("{kind}/{stop_at:?}-{number}");
    let mutex = |kind| session.mutex(name(kind)).unwrap().with_options(options);
    let rw_lock = |kind| session.rw_lock(name(kind)).unwrap().with_options(options);
    let semaphore = |kind| session.semaphore(name(kind), 2).unwrap().with_options(options);
    vec![
        mutex("mutex").into(),
        session.mutex(name("fair")).unwrap().with_options(options.fair(true)).into(),
        mutex("one").with_driver(OneNode).into(),
        AnyLock::Read(rw_lock("read")),
        AnyLock::Write(rw_lock("write")),
        semaphore("permit").into(),
        AnyLock::Permits(semaphore("permits"), 2),
        semaphore("kazoo").with_driver(Kazoo::default()).into(),
    ]
}

/// The same with both options. Another one comes first each time, because the first few are acquired on the first
/// connection.
fn all_kinds(session: &Session, number: usize) -> Vec<(usize, StopAt, AnyLock)> {
    let options = [StopAt::Lost, StopAt::Suspect].into_iter();
    let each = options.flat_map(|stop_at| {
        let locks = kinds(session, stop_at, number).into_iter().enumerate();
        locks.map(move |(kind, lock)| (kind, stop_at, lock))
    });
    let mut all: Vec<_> = each.collect();
    let first = 3 * number % all.len();
    all.rotate_left(first);
    all
}

/// A lock that is held, and on which connection.
struct Held {
    kind: usize,
    stop_at: StopAt,
    connection: i64,
    guard: AnyGuard,
}

/// Holds so many locks that each kind is held on both connections, with both options.
async fn hold_all(store: &Embedded, session: &Session) -> Vec<Held> {
    let (outside, mut all, mut there) = (client(store).await, Vec::new(), BTreeSet::new());
    for number in 0.. {
        assert!(number < 50, "some are on one connection each time: {there:?}");
        let (mut acquired, locks) = (JoinSet::new(), all_kinds(session, number));
        let count = locks.len();
        for (kind, stop_at, lock) in locks {
            acquired.spawn(async move { (kind, stop_at, lock.acquire().await.unwrap()) });
        }
        for (kind, stop_at, guard) in acquired.join_all().await {
            let connection = outside.get(guard.node_path()).await.unwrap().1.ephemeral_owner;
            there.insert((kind, stop_at == StopAt::Lost, connection));
            all.push(Held { kind, stop_at, connection, guard });
        }
        if there.len() == 2 * count {
            break;
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn locks_on_another_connection_are_not_affected_by_one_that_fails() {
    for (is_silent, second) in [(true, false), (true, true), (false, false), (false, true)] {
        let store = late();
        let builder = Session::embedded_builder(&store).session_timeout(T);
        let session = builder.max_connections(2).open().unwrap();
        let all = hold_all(&store, &session).await;
        let [first, other] = session_ids(&all);
        let failing = if second { other } else { first };
        let (faults, start) = (store.faults(failing), Instant::now());
        if is_silent {
            faults.silence();
        } else {
            faults.disconnect();
        }
        while start.elapsed() < 2 * T + T / 2 {
            sleep(MOMENT).await;
            let elapsed = start.elapsed();
            for Held { kind, stop_at, connection, guard } in &all {
                let what = format!("{kind}, {stop_at:?}, silent: {is_silent}, after {elapsed:?}");
                let limit = if *stop_at == StopAt::Suspect { T / 3 } else { LEASE };
                if *connection != failing {
                    assert!(guard.is_valid(), "it is on another connection: {what}");
                } else if *stop_at == StopAt::Lost && elapsed < LEASE - MOMENT {
                    assert!(guard.is_valid(), "the lease lasts: {what}");
                } else {
                    assert!(elapsed < limit || !guard.is_valid(), "it is valid: {what}");
                }
            }
            let is_up = session.state() == SessionState::Connected;
            assert!(elapsed < T / 3 || elapsed > T || !is_up, "after {elapsed:?}");
        }
        // Nobody is told otherwise.
        for held in all {
            let is_lost = held.connection == failing;
            let told = tokio::time::timeout(MOMENT, held.guard.lost()).await.is_ok();
            assert_eq!(told, is_lost, "{}", held.kind);
            assert_eq!(held.guard.release().await.is_err(), is_lost, "{}", held.kind);
        }
    }
}

/// The ZooKeeper sessions of the two connections.
fn session_ids(all: &[Held]) -> [i64; 2] {
    let ids: BTreeSet<_> = all.iter().map(|held| held.connection).collect();
    let ids: Vec<_> = ids.into_iter().collect();
    ids.try_into().unwrap()
}
