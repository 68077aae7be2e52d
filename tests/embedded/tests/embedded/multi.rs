//! Several locks as one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zklock::{
    AnyLock, Embedded, ErrorKind, Event, LockOptions, MultiLock, Observer, Session, StopAt,
    ZooKeeperSession,
};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{about, client, contenders, late, on, prompt, store};

fn both(session: &Session, names: [&str; 2]) -> MultiLock {
    MultiLock::new(names.map(|name| session.mutex(name).unwrap())).unwrap()
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn all_members_are_held_in_one_order_and_each_has_a_token() {
    let (store, session) = store();
    let guard = both(&session, ["b", "a"]).acquire().await.unwrap();
    let names: Vec<_> = guard.members().iter().map(|member| member.lock_name()).collect();
    assert_eq!(names, ["a", "b"]);
    let tokens = guard.fencing_tokens();
    let members: Vec<_> = guard.members().iter().map(|member| member.fencing_token()).collect();
    assert_eq!(tokens, members);
    assert_eq!(guard.fencing_token(), tokens[1]);
    assert!(guard.is_valid() && !guard.remaining().is_zero());
    for name in ["a", "b"] {
        assert!(on(&store).mutex(name).unwrap().try_acquire().await.unwrap_err().is_busy());
    }
    guard.release().await.unwrap();
    for path in ["/zklock/a", "/zklock/b"] {
        assert!(contenders(&store, path).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_member_fails_and_the_first_is_released() {
    let (store, session) = store();
    let held = on(&store).mutex("b").unwrap().acquire().await.unwrap();
    let multi = both(&session, ["a", "b"]);
    for outcome in [multi.try_acquire().await, multi.acquire_timeout(Duration::from_secs(1)).await]
    {
        let error = outcome.unwrap_err();
        assert!(error.is_busy() && error.lock_name() == Some("b"), "{error}");
    }
    settle().await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    held.release().await.unwrap();
    drop(multi.try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_deadline_holds_over_all() {
    let (store, session) = store();
    let a = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let _b = on(&store).mutex("b").unwrap().acquire().await.unwrap();
    crate::spawn(async move {
        tokio::time::sleep(Duration::from_millis(600)).await;
        drop(a);
    });
    let start = tokio::time::Instant::now();
    let error = both(&session, ["a", "b"]).acquire_timeout(Duration::from_secs(1)).await;
    assert_eq!(error.unwrap_err().lock_name(), Some("b"));
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_millis(1_100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn members_are_of_any_kind() {
    let (store, session) = store();
    let multi = |session: &Session| {
        MultiLock::new([
            AnyLock::Permits(session.semaphore("printers", 2).unwrap(), 1),
            AnyLock::Read(session.rw_lock("rates").unwrap()),
            AnyLock::Write(session.rw_lock("report").unwrap()),
            session.mutex("orders").unwrap().into(),
        ])
        .unwrap()
    };
    let guard = multi(&session).acquire().await.unwrap();
    let other = on(&store);
    drop(other.rw_lock("rates").unwrap().try_read().await.unwrap());
    drop(other.semaphore("printers", 2).unwrap().try_acquire().await.unwrap());
    assert!(other.rw_lock("report").unwrap().try_read().await.is_err());
    let waiting = multi(&other);
    let waiting =
        crate::spawn(async move { waiting.acquire().await.map(|guard| guard.is_valid()) });
    settle().await;
    assert!(!waiting.is_finished());
    drop(guard);
    assert!(waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn bad_members_are_errors_and_nothing_is_held() {
    let (store, session) = store();
    let twice = ["a", "b", "a"].map(|name| session.mutex(name).unwrap());
    let error = MultiLock::new(twice).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidOption && error.lock_name() == Some("a"), "{error}");
    // Reading and writing the same is the same lock.
    let lock = session.rw_lock("a").unwrap();
    assert!(MultiLock::new([AnyLock::Read(lock.clone()), AnyLock::Write(lock)]).is_err());
    assert_eq!(MultiLock::new([] as [AnyLock; 0]).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert!(both(&session, ["a", "b"]).acquire_timeout(Duration::ZERO).await.is_err());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_release_fails_and_the_others_are_released() {
    let (store, session) = store();
    let guard = both(&session, ["a", "b"]).acquire().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("/zklock/b/"));
    let error = guard.release().await.unwrap_err();
    assert_eq!((error.kind(), error.lock_name()), (ErrorKind::Unauthorized, Some("b")));
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn crossed_names_never_wait_for_each_other() {
    let (store, session) = store();
    let tasks: Vec<_> = [(session, ["a", "b"]), (on(&store), ["b", "a"])]
        .into_iter()
        .map(|(session, names)| {
            crate::spawn(async move {
                for _ in 0..50 {
                    let guard = both(&session, names).acquire().await.unwrap();
                    tokio::task::yield_now().await;
                    drop(guard);
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
    }
}

/// Two ensembles, and two processes that opened their sessions in different orders.
#[tokio::test(start_paused = true)]
async fn locks_on_two_ensembles_never_wait_for_each_other_crosswise() {
    let (one, two) = (Embedded::new(), Embedded::new());
    let process = |first: &Embedded, second: &Embedded| [first, second].map(on);
    let processes = [process(&one, &two), process(&two, &one)];
    let locks = processes.map(|sessions| {
        MultiLock::new(sessions.map(|session| session.mutex("a").unwrap())).unwrap()
    });
    let tasks = locks.map(|locks| {
        crate::spawn(async move {
            for _ in 0..50 {
                let guard = locks.acquire().await.unwrap();
                tokio::task::yield_now().await;
                drop(guard);
            }
        })
    });
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
    }
    // Through two sessions it is one lock.
    let twice = [on(&one), on(&one)].map(|session| session.mutex("a").unwrap());
    assert_eq!(MultiLock::new(twice).unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[derive(Debug)]
struct Tries(Mutex<Vec<(String, u32, bool)>>);

impl Observer for Tries {
    fn event(&self, event: &Event) {
        if let Event::TryEnded { lock, number, holder, .. } = event {
            self.0.lock().unwrap().push((lock.to_string(), *number, holder.is_some()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_each_try_is_told_for_the_member_that_is_waited_for() {
    let took = the_end_of_each_try_is_told(Embedded::new()).await;
    about(took, Duration::from_secs(3));
}

/// No time is over to the nanosecond when it is looked at.
#[tokio::test]
async fn the_end_of_each_try_is_told_while_the_clock_runs_and_answers_are_late() {
    let took = the_end_of_each_try_is_told(late()).await;
    assert!(took >= Duration::from_secs(3), "{took:?}");
}

/// Three tries of a second each, in which the first of three members is waited for, and then the second.
async fn the_end_of_each_try_is_told(store: Embedded) -> Duration {
    let tries = Arc::new(Tries(Mutex::default()));
    let session = Session::embedded_builder(&store).observer(tries.clone()).open().unwrap();
    let options = LockOptions::default().timeout(Duration::from_secs(1)).retries(3);
    let members = ["a", "b", "c"]
        .map(|name| AnyLock::from(session.mutex(name).unwrap().with_options(options)));
    let locks = MultiLock::new(members).unwrap();
    let other = on(&store);
    let [a, b] = ["a", "b"].map(|name| other.mutex(name).unwrap());
    let (a, _b) = (a.acquire().await.unwrap(), b.acquire().await.unwrap());
    crate::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        drop(a);
    });
    let start = tokio::time::Instant::now();
    let error = locks.acquire_tries().await.unwrap_err();
    assert!(error.is_busy() && error.lock_name() == Some("b"), "{error}");
    let took = start.elapsed();
    session.close().await;
    let told = ["a 1", "b 2", "b 3"].map(|told| told.split_once(' ').unwrap());
    let told = told.map(|(lock, number)| (lock.to_owned(), number.parse().unwrap(), true));
    // The observer has a thread of its own.
    for _ in 0..1_000 {
        if tries.0.lock().unwrap().len() < told.len() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(*tries.0.lock().unwrap(), told);
    took
}

/// Each member alone would be had in time.
#[tokio::test(start_paused = true)]
async fn trying_several_takes_no_longer_than_the_limit_of_one() {
    let (store, session) = store();
    let limit = Duration::from_millis(250);
    let members = ["a", "b", "c", "d"].map(|name| {
        let options = LockOptions::default().timeout(limit);
        AnyLock::from(session.mutex(name).unwrap().with_options(options))
    });
    let locks = MultiLock::new(members).unwrap();
    drop(locks.try_acquire().await.unwrap());
    settle().await;
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(limit * 2 / 5);
    let start = tokio::time::Instant::now();
    let error = locks.try_acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    about(start.elapsed(), limit);
}

#[tokio::test(start_paused = true)]
async fn every_member_is_held_in_the_scope_and_the_view_sees_all() {
    let (store, session) = store();
    let guard = both(&session, ["a", "b"]).acquire().await.unwrap();
    let (a, b) = (session.mutex("a").unwrap(), session.mutex("b").unwrap());
    guard
        .scope(async {
            assert!(a.is_held_in_scope() && b.is_held_in_scope());
            drop((a.acquire().await.unwrap(), b.acquire().await.unwrap()));
            assert!(zklock::current().is_valid());
            let seen = zklock::current().view().map(|view| view.fencing_tokens());
            assert_eq!(seen, Some(guard.fencing_tokens()));
            let client = crate::support::client(&store).await;
            client.delete(guard.members()[0].node_path()).await.unwrap();
            settle().await;
            assert!(!zklock::current().is_valid(), "the first member is lost");
            zklock::current().lost().await;
        })
        .await;
    guard.lost().await;
    assert!(guard.release().await.unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_lost_while_another_is_waited_for_is_taken_again() {
    let (store, session) = prompt();
    let held = on(&store).mutex("b").unwrap().acquire().await.unwrap();
    let locks = both(&session, ["a", "b"]);
    let waiting = crate::spawn(async move { locks.acquire().await });
    settle().await;
    store.faults(session.zookeeper_session().unwrap().id).expire();
    settle().await;
    let other = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    held.release().await.unwrap();
    settle().await;
    assert!(!waiting.is_finished(), "with a lock that another holds");
    other.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.is_valid());
}

/// Also where a permit of several is lost, whichever.
#[tokio::test(start_paused = true)]
async fn a_permit_that_is_lost_while_another_member_is_waited_for_is_taken_again() {
    for lost in [0, 1] {
        let (store, session) = prompt();
        let held = on(&store).mutex("b").unwrap().acquire().await.unwrap();
        let permits = AnyLock::Permits(session.semaphore("a", 2).unwrap(), 2);
        let both = MultiLock::new([permits, session.mutex("b").unwrap().into()]).unwrap();
        let waiting = crate::spawn(async move { both.acquire().await });
        settle().await;
        let nodes = contenders(&store, "/zklock/a/leases").await;
        assert_eq!(nodes.len(), 2);
        let path = format!("/zklock/a/leases/{}", nodes[lost]);
        client(&store).await.delete(&path).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        held.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.is_valid(), "{lost}");
    }
}

/// As for a single lock: its time is over at once, and the caller has it all the same. In real time,
/// because a paused clock stands still meanwhile.
#[tokio::test]
async fn a_time_that_is_shorter_than_the_acquire_itself_ends_the_guard_and_not_the_acquire() {
    let (store, session) = store();
    let locks = ["a", "b"].map(|name| {
        let short = LockOptions::new().hold_at_most(Duration::from_nanos(1));
        session.mutex(name).unwrap().with_options(short)
    });
    store.record();
    let both = MultiLock::new(locks).unwrap();
    let guard =
        tokio::time::timeout(Duration::from_secs(60), both.acquire()).await.unwrap().unwrap();
    let asked = store.recorded().len();
    assert!(asked < 20, "{asked} requests");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!guard.is_valid());
    assert!(guard.release().await.unwrap_err().is_held_too_long());
}

/// A node whose deletion is refused goes with its session, and that with the last guard in it: which is
/// not the member of a multi-lock that waits for the place of this node.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_does_not_wait_for_a_node_that_is_stuck_in_the_session_of_its_own_member() {
    let alone = LockOptions::default().fair(true);
    let lingers = LockOptions::default().linger(Duration::from_secs(3600));
    for first in [alone, lingers] {
        let (store, session) = store();
        let mutex = |name: &str, options| session.mutex(name).unwrap().with_options(options);
        mutex("a", first).acquire().await.unwrap().release().await.unwrap();
        let held = mutex("b", alone).acquire().await.unwrap();
        let all = MultiLock::new([mutex("a", first), mutex("b", alone)]).unwrap();
        let waiting = crate::spawn(async move { all.acquire().await });
        settle().await;
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
        let ZooKeeperSession { id, number, .. } = session.zookeeper_session().unwrap();
        let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(held.node_path());
        store.faults(id).inject(refused.times(u64::MAX));
        assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
        let guard = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        let guard = guard.expect("it waits for itself").unwrap().unwrap();
        assert!(guard.is_valid() && session.zookeeper_session().unwrap().number > number);
    }
}

/// A member that is lost keeps its session, and with it the stuck node, until it is let go of.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_does_not_wait_for_a_node_that_is_stuck_in_the_session_of_its_own_lost_member()
{
    let (store, session, held) = beside_a_stuck_node("b").await;
    let careful = session.mutex("a").unwrap();
    let careful = careful.with_options(LockOptions::new().fair(true).stop_at(StopAt::Suspect));
    let all = MultiLock::new([careful, alone(&session, "b")]).unwrap();
    let waiting = crate::spawn(async move { all.acquire().await });
    settle().await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    settle().await;
    faults.reconnect();
    settle().await;
    assert!(held.is_valid() && !waiting.is_finished());
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
    let guard = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    let guard = guard.expect("it waits for itself").unwrap().unwrap();
    assert!(guard.is_valid());
}

/// Its member that reads would enter beside the other reader of that session again, and stay when that one goes.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_that_reads_beside_another_does_not_wait_for_a_node_that_is_stuck_there() {
    let (_store, session, held) = beside_a_stuck_node("b").await;
    let reading = session.rw_lock("a").unwrap().read().await.unwrap();
    let all =
        MultiLock::new([AnyLock::Read(session.rw_lock("a").unwrap()), alone(&session, "b").into()]);
    let all = all.unwrap();
    let waiting = crate::spawn(async move { all.acquire().await });
    settle().await;
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(reading);
    let guard = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(guard.expect("it waits for itself").unwrap().unwrap().is_valid());
}

/// Where somebody always reads, nobody who comes later keeps the session that is used no more.
#[tokio::test(start_paused = true)]
async fn readers_that_overlap_do_not_keep_a_node_stuck() {
    let (_store, session, held) = beside_a_stuck_node("b").await;
    let mut reading = session.rw_lock("a").unwrap().read().await.unwrap();
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
    let stuck = alone(&session, "b");
    let waiting = crate::spawn(async move { stuck.acquire().await });
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let lock = session.rw_lock("a").unwrap();
        let next = crate::spawn(async move { lock.try_read().await }).await.unwrap().unwrap();
        assert_eq!(session.local_contenders().iter().filter(|one| &*one.lock == "a").count(), 2);
        drop(std::mem::replace(&mut reading, next));
    }
    assert!(waiting.is_finished(), "its node stays as long as somebody reads");
}

/// A mutex that is not passed on in memory.
fn alone(session: &Session, name: &str) -> zklock::Mutex {
    session.mutex(name).unwrap().with_options(LockOptions::new().fair(true))
}

/// A session with a lock whose deletion the server will refuse.
async fn beside_a_stuck_node(name: &str) -> (Embedded, Session, zklock::MutexGuard) {
    let (store, session) = store();
    let held = alone(&session, name).acquire().await.unwrap();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(held.node_path());
    store.faults(session.zookeeper_session().unwrap().id).inject(refused.times(u64::MAX));
    (store, session, held)
}

/// Nothing is stuck there, and the member that lingers keeps its session until it is let go of.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_lets_go_once_of_a_member_that_lingers_in_a_session_that_is_used_no_more() {
    let (store, session) = store();
    let alone = LockOptions::default().fair(true);
    let lingers = LockOptions::default().linger(Duration::from_secs(3600));
    let mutex = |name: &str, options| session.mutex(name).unwrap().with_options(options);
    mutex("a", lingers).acquire().await.unwrap().release().await.unwrap();
    let other = mutex("c", alone).acquire().await.unwrap();
    let ZooKeeperSession { id, number, .. } = session.zookeeper_session().unwrap();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(other.node_path());
    store.faults(id).inject(refused.times(u64::MAX));
    assert_eq!(other.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
    let rival = on(&store);
    let held = rival.mutex("b").unwrap().acquire().await.unwrap();
    let all = MultiLock::new([mutex("a", lingers), mutex("b", alone)]).unwrap();
    store.record();
    let waiting = crate::spawn(async move { all.acquire().await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    held.release().await.unwrap();
    let granted = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    let guard = granted.expect("it lets go again and again").unwrap().unwrap();
    assert!(guard.is_valid() && session.zookeeper_session().unwrap().number > number);
    // Each time it lets go, its node in the other queue is deleted, and the next time it makes one.
    let made = store.recorded().iter().filter(|asked| asked.op == Op::Create).count();
    assert!(made <= 5, "{made} nodes were made");
}
