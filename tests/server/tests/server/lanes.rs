//! Several ZooKeeper sessions behind one of ours.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::layout::{Kazoo, OneNode};
use zklock::{AnyGuard, AnyLock, LockOptions, Session, SessionState, StopAt};
use zklock_test_support::{Action, Control, Cut, Direction, Matcher, OpCode, Proxy};

use crate::bed::{Bed, CLOSE, PATIENCE, acquiring, until};
use crate::inside::Inside;

const LOCKS: usize = 40;
const ROUNDS: usize = 5;

const SESSION_TIMEOUT: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_at_once_spread_over_connections_and_exclude_each_other() {
    let bed = Bed::own();
    let proxy = bed.proxy();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(bed.session_through(&proxy).await);
    }
    let inside: Vec<_> = (0..LOCKS).map(|_| Arc::new(Inside::default())).collect();
    let mut tasks = JoinSet::new();
    for session in &sessions {
        for (number, inside) in inside.iter().enumerate() {
            let (mutex, inside) = (session.mutex(format!("a{number}")).unwrap(), inside.clone());
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = mutex.acquire().await.unwrap();
                    inside.pass(&guard, Duration::from_millis(2)).await;
                    guard.release().await.unwrap();
                }
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(proxy.connections_total() > 2, "{}", proxy.connections_total());
    inside.iter().for_each(|inside| inside.assert_in_order(sessions.len() * ROUNDS));
    let mut is_late = false;
    for session in &sessions {
        let start = Instant::now();
        session.close().await;
        is_late |= start.elapsed() >= CLOSE;
    }
    if is_late {
        // A goodbye was not answered in time, on a machine that stands still.
        until("no session", || bed.server().sessions().is_empty().then_some(())).await;
    }
    assert_eq!(bed.server().sessions(), []);
    bed.end().await;
}

/// Locks that are acquired at once after one of two connections failed, and are more than it takes
/// before another is used.
const AFTER: usize = 12;

/// A session with two connections; answers the ZooKeeper session of the first.
async fn of_two_connections(bed: &Bed, proxy: &Proxy) -> (Session, i64) {
    let builder = bed.builder_at(&proxy.addr()).session_timeout(SESSION_TIMEOUT);
    let session = bed.adopt(builder.max_connections(2).connect().await.unwrap());
    let slow = Action::Delay(Duration::from_millis(20));
    let slow = proxy.on(Matcher::reply(OpCode::Create2), slow);
    while proxy.sessions().len() < 2 {
        assert_eq!(acquire_all(&session, PATIENCE).await, 0);
    }
    slow.release();
    // The second is in use.
    assert_eq!(acquire_all(&session, PATIENCE).await, 0);
    let first = session.zookeeper_session().unwrap().id;
    (session, first)
}

/// Acquires and releases several locks at once, each for the first time; answers how many could not
/// be had.
async fn acquire_all(session: &Session, limit: Duration) -> usize {
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    let (mut tasks, round) = (JoinSet::new(), ROUND.fetch_add(1, Ordering::SeqCst));
    for number in 0..AFTER {
        let mutex = session.mutex(format!("b{round}-{number}")).unwrap();
        tasks.spawn(async move { mutex.acquire_timeout(limit).await.map(drop).is_err() });
    }
    tasks.join_all().await.into_iter().filter(|failed| *failed).count()
}

/// Looks at a lock, asks its holder to let go, and takes it away, each with the session's own limit.
async fn looks(session: &Session) {
    let guard = session.mutex("c").unwrap().acquire().await.unwrap();
    let site = session.site("c").unwrap();
    let [holder] = &site.contenders().await.unwrap()[..] else { panic!("one holds it") };
    assert_eq!(site.revoke().await.unwrap(), 1);
    assert!(site.break_holder(holder).await.unwrap() && !guard.is_valid());
}

#[tokio::test]
async fn a_connection_that_is_down_is_passed_over_while_another_is_up() {
    let bed = Bed::shared("lane-down");
    let proxy = bed.proxy();
    let (session, first) = of_two_connections(&bed, &proxy).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let away = proxy.on(Matcher::request(OpCode::Connect), Action::Drop);
    proxy.cut_session(first, Cut::Reset);
    until("it is down", || (session.state() == SessionState::Suspended).then_some(())).await;
    for _ in 0..3 {
        assert_eq!(acquire_all(&session, Duration::from_secs(2)).await, 0);
    }
    looks(&session).await;
    away.release();
    until("it is up", || (session.state() == SessionState::Connected).then_some(())).await;
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_connection_whose_server_is_silent_is_passed_over_while_another_is_up() {
    let bed = Bed::shared("lane-silent");
    let proxy = bed.proxy();
    let (session, first) = of_two_connections(&bed, &proxy).await;
    let silent = proxy.on(Matcher::any(Direction::ToClient).session(first), Action::Hold);
    // Who comes before it is known waits for it, and shows it.
    let before = acquiring(&session, "a");
    // From then on the time counts that it waits.
    until("it has asked", || (silent.hits() > 0).then_some(())).await;
    tokio::time::sleep(SESSION_TIMEOUT / 6).await;
    for _ in 0..2 {
        assert_eq!(acquire_all(&session, SESSION_TIMEOUT / 6).await, 0);
    }
    looks(&session).await;
    silent.release();
    before.await.unwrap().release().await.unwrap();
    bed.end().await;
}

/// A lock of each kind, under a number.
fn of_each_kind(session: &Session, stop_at: StopAt, number: usize) -> Vec<AnyLock> {
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

/// A lock that is held, in which ZooKeeper session, and whether it was lost.
struct Held {
    kind: usize,
    stop_at: StopAt,
    connection: i64,
    guard: AnyGuard,
    is_lost: bool,
}

/// The same with both options. Another one comes first each time, because the first few are acquired on the first
/// connection.
fn of_all(session: &Session, number: usize) -> Vec<(usize, StopAt, AnyLock)> {
    let options = [StopAt::Lost, StopAt::Suspect].into_iter();
    let each = options.flat_map(|stop_at| {
        let locks = of_each_kind(session, stop_at, number).into_iter().enumerate();
        locks.map(move |(kind, lock)| (kind, stop_at, lock))
    });
    let mut all: Vec<_> = each.collect();
    let first = 3 * number % all.len();
    all.rotate_left(first);
    all
}

/// Holds so many locks that each kind is held on both connections, with both options.
async fn hold_all(bed: &Bed, proxy: &Proxy, session: &Session) -> Vec<Held> {
    let slow = Action::Delay(Duration::from_millis(20));
    let slow = proxy.on(Matcher::reply(OpCode::Create2), slow);
    let (mut all, mut there) = (Vec::new(), BTreeSet::new());
    for number in 0.. {
        assert!(number < 50, "some are on one connection each time: {there:?}");
        let (mut acquired, locks) = (JoinSet::new(), of_all(session, number));
        let count = locks.len();
        for (kind, stop_at, lock) in locks {
            acquired.spawn(async move { (kind, stop_at, lock.acquire().await.unwrap()) });
        }
        let acquired = acquired.join_all().await;
        let owners = bed.server().sessions();
        for (kind, stop_at, guard) in acquired {
            let is_of = |node: &String| node == guard.node_path();
            let owner = owners.iter().find(|owner| owner.ephemerals.iter().any(is_of));
            let connection = owner.unwrap().id;
            there.insert((kind, stop_at == StopAt::Lost, connection));
            all.push(Held { kind, stop_at, connection, guard, is_lost: false });
        }
        if there.len() == 2 * count {
            break;
        }
    }
    slow.release();
    all
}

/// One of two connections fails for more than two session timeouts.
async fn one_fails(root: &str, is_silent: bool) {
    let bed = Bed::shared(root);
    let proxy = bed.proxy();
    let (session, first) = of_two_connections(&bed, &proxy).await;
    let mut all = hold_all(&bed, &proxy, &session).await;
    // In either way another one.
    let second = all.iter().map(|held| held.connection).find(|id| *id != first).unwrap();
    let failing = if is_silent { first } else { second };
    let (control, lease) = (Control::timers(), session.timing().unwrap().lease);
    let ends = all.iter().map(|held| Instant::now() + held.guard.remaining());
    let ends: Vec<_> = ends.collect();
    proxy.on(Matcher::request(OpCode::Connect), Action::Drop);
    if is_silent {
        proxy.on(Matcher::any(Direction::ToClient).session(failing), Action::Hold);
    } else {
        proxy.cut_session(failing, Cut::Reset);
    }
    let start = Instant::now();
    while start.elapsed() < SESSION_TIMEOUT * 5 / 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        for (held, end) in all.iter_mut().zip(&ends) {
            if held.is_lost || held.guard.is_valid() {
                continue;
            }
            held.is_lost = true;
            let took = start.elapsed();
            // A connection that is cut is suspect at once.
            let promised = match (held.stop_at, is_silent) {
                (StopAt::Suspect, false) => Duration::ZERO,
                (StopAt::Suspect, true) => SESSION_TIMEOUT / 3,
                _ => lease,
            };
            let what = format!("{root}: {}, {:?}", held.kind, held.stop_at);
            control.within(&what, took, promised);
            let in_time = held.stop_at == StopAt::Suspect || start + took >= *end;
            assert!(in_time, "{what} was lost before its time");
        }
    }
    for Held { kind, stop_at, connection, is_lost, .. } in &all {
        assert_eq!(*is_lost, *connection == failing, "{root}: {kind}, {stop_at:?}");
    }
    assert_ne!(session.state(), SessionState::Connected);
    proxy.heal();
    for Held { kind, connection, guard, .. } in all {
        let released = guard.release().await;
        assert_eq!(released.is_err(), connection == failing, "{root}: {kind}: {released:?}");
    }
    until("it is up", || (session.state() == SessionState::Connected).then_some(())).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_on_another_connection_are_not_affected_by_one_that_fails() {
    tokio::join!(one_fails("lane-fails-silent", true), one_fails("lane-fails-cut", false));
}
