//! Locks that are held at least for a time.

use std::time::Duration;

use tokio::time::Instant;
use zklock::{
    AnyLock, Embedded, ErrorKind, LockError, LockOptions, MultiLock, Mutex, Session,
    SessionRegistry, ZkLockTemplate, zk_locked,
};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;

use crate::support::{about, client, contenders, data, on, prompt, store};

const HOLD: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
const NOTHING: &str = r#"{"zklock":1,"kept":true}"#;

fn options() -> LockOptions {
    LockOptions::default().hold_at_least(HOLD)
}

fn held(session: &Session, name: &str) -> Mutex {
    session.mutex(name).unwrap().with_options(options())
}

#[tokio::test(start_paused = true)]
async fn the_node_stays_after_the_release_and_the_caller_goes_on() {
    let (store, session) = prompt();
    let (mutex, other) = (held(&session, "a"), held(&on(&store), "a"));
    let start = Instant::now();
    mutex.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    while start.elapsed() < HOLD {
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
        for lock in [&mutex, &other] {
            assert_eq!(lock.try_acquire().await.unwrap_err().code(), "1011");
        }
        // Others see the node, whether they know of the option or not.
        assert!(on(&store).mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
        tokio::time::sleep(SECOND).await;
    }
    // Of two timers of one moment either may come first.
    tokio::time::sleep(SECOND / 100).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert_eq!(data(&store, "/zklock/a").await, NOTHING);
    drop(other.try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_end_holds_when_the_session_is_closed() {
    let (store, session) = prompt();
    let start = Instant::now();
    held(&session, "a").acquire().await.unwrap().release().await.unwrap();
    session.close().await;
    assert_eq!(start.elapsed(), Duration::ZERO, "closing does not wait for it");
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    let other = held(&on(&store), "a");
    tokio::time::sleep(HOLD - SECOND).await;
    let error = other.try_acquire().await.unwrap_err();
    assert_eq!(error.code(), "1011");
    let told = format!("{error:#}");
    assert!(told.contains("a is being processed (it is held at least until 20"), "{told}");
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    // Who has the time waits for the end.
    drop(other.acquire_timeout(HOLD).await.unwrap());
    about(start.elapsed(), HOLD);
}

#[tokio::test(start_paused = true)]
async fn the_end_holds_when_the_holder_crashes() {
    let (store, session) = store();
    let other = on(&store);
    let start = Instant::now();
    let _guard = held(&session, "a").acquire().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    // A timeout that is shorter than the rest is busy when it is over.
    let error = held(&other, "a").acquire_timeout(4 * SECOND).await.unwrap_err();
    about(start.elapsed(), 4 * SECOND);
    assert!(format!("{error:#}").contains("held at least until"), "{error}");
    drop(held(&other, "a").acquire().await.unwrap());
    about(start.elapsed(), HOLD);
}

/// The mark is written before the grant, and counts from there.
#[tokio::test(start_paused = true)]
async fn the_end_counts_from_the_grant_however_long_the_mark_takes() {
    let (store, session) = prompt();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(SECOND);
    let guard = held(&session, "a").acquire().await.unwrap();
    let granted = Instant::now();
    faults.expire();
    drop(held(&on(&store), "a").acquire().await.unwrap());
    let kept = granted.elapsed();
    assert!((HOLD..HOLD + 2 * SECOND).contains(&kept), "{kept:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn who_is_kept_in_the_lock_is_its_holder_and_who_rests_behind_it_is_not() {
    let (store, session) = prompt();
    let (looking, next) = (on(&store), held(&on(&store), "a"));
    let holders = async || {
        let survey = looking.site("a").unwrap().survey().await.unwrap();
        assert!(survey.unavailable_until.is_some());
        survey.queue.iter().map(|one| one.holds).collect::<Vec<_>>()
    };
    held(&session, "a").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(holders().await, [true]);
    let waiting = crate::spawn(async move { next.acquire().await.unwrap() });
    tokio::time::sleep(SECOND).await;
    assert_eq!(holders().await, [true, false]);
    session.close().await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(holders().await, [false]);
    let next = waiting.await.unwrap();
    assert_eq!(holders().await, [true]);
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_released_lock_is_not_a_lost_one_whatever_its_delay() {
    let (store, session) = store();
    let both = options().lock_delay(10 * HOLD);
    let locked = |session: &Session| session.mutex("a").unwrap().with_options(both);
    let start = Instant::now();
    locked(&session).acquire().await.unwrap().release().await.unwrap();
    session.close().await;
    let other = locked(&on(&store));
    drop(other.acquire().await.unwrap());
    about(start.elapsed(), HOLD);
    // And while the process lives its mark goes with the node.
    let mutex = held(&on(&store), "b");
    drop(mutex.acquire().await.unwrap());
    tokio::time::sleep(HOLD + SECOND).await;
    assert_eq!(data(&store, "/zklock/b").await, NOTHING);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_the_process_wait_for_the_end_too() {
    let (store, session) = store();
    let mutex = held(&session, "a");
    let start = Instant::now();
    let guard = mutex.acquire().await.unwrap();
    let (token, path) = (guard.fencing_token(), guard.node_path().to_owned());
    let waiting = crate::spawn(async move {
        let guard = mutex.acquire().await.unwrap();
        (guard.fencing_token(), guard.node_path().to_owned())
    });
    tokio::time::sleep(SECOND).await;
    guard.release().await.unwrap();
    let (next, its) = waiting.await.unwrap();
    about(start.elapsed(), HOLD);
    assert!(next > token && its != path);
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_takes_longer_lets_go_at_its_end() {
    let (store, session) = store();
    let (mutex, other) = (held(&session, "a"), held(&on(&store), "a"));
    let guard = mutex.acquire().await.unwrap();
    tokio::time::sleep(HOLD + SECOND).await;
    guard.release().await.unwrap();
    assert_eq!(data(&store, "/zklock/a").await, NOTHING);
    drop(other.try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_took_is_not_held() {
    for pass in 0..8 {
        let (store, session) = store();
        let mutex = held(&session, "a");
        drop(session.mutex("a/b").unwrap().acquire().await.unwrap());
        client(&store).await.set("/zklock/a", NOTHING.as_bytes()).await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.delay_replies(Duration::from_millis(10));
        let acquiring = mutex.acquire();
        let cut = tokio::time::timeout(Duration::from_millis(10 * pass + 5), acquiring).await;
        let granted = cut.is_ok();
        drop(cut);
        tokio::time::sleep(SECOND).await;
        let left = contenders(&store, "/zklock/a").await.len() - 1;
        assert_eq!(left == 1, granted, "pass {pass}");
        assert_eq!(data(&store, "/zklock/a").await == NOTHING, !granted, "pass {pass}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_multi_lock_that_fails_holds_none_of_its_members() {
    let (store, session) = store();
    let both = MultiLock::new(["a", "b"].map(|name| AnyLock::from(held(&session, name)))).unwrap();
    let busy = on(&store).mutex("b").unwrap().acquire().await.unwrap();
    assert!(both.try_acquire().await.unwrap_err().is_busy());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert_eq!(data(&store, "/zklock/a").await, NOTHING);
    drop(busy);
    let start = Instant::now();
    both.acquire().await.unwrap().release().await.unwrap();
    for name in ["a", "b"] {
        assert!(held(&session, name).try_acquire().await.unwrap_err().is_busy());
    }
    drop(both.acquire().await.unwrap());
    about(start.elapsed(), HOLD);
}

#[tokio::test(start_paused = true)]
async fn a_multi_lock_that_fails_inside_leaves_the_hold_around_alone() {
    let (store, session) = store();
    let both = MultiLock::new(["a", "b"].map(|name| AnyLock::from(held(&session, name)))).unwrap();
    let _busy = on(&store).mutex("b").unwrap().acquire().await.unwrap();
    let guard = held(&session, "a").acquire().await.unwrap();
    guard.scope(async { assert!(both.try_acquire().await.unwrap_err().is_busy()) }).await;
    guard.release().await.unwrap();
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_container_is_replaced_by_a_directory_that_stays() {
    let (store, session) = store();
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    held(&session, "a").acquire().await.unwrap().release().await.unwrap();
    session.close().await;
    // ZooKeeper looks for empty containers once a minute.
    assert!(data(&store, "/zklock/a").await.contains("until"));
    let long = LockOptions::default().hold_at_least(10 * HOLD);
    let other = on(&store);
    tokio::time::sleep(HOLD).await;
    let mutex = other.mutex("a").unwrap().with_options(long);
    mutex.acquire().await.unwrap().release().await.unwrap();
    other.close().await;
    tokio::time::sleep(9 * HOLD).await;
    assert!(held(&on(&store), "a").try_acquire().await.unwrap_err().is_busy());
}

/// Also where answers take longer than they are waited for at first.
#[tokio::test(start_paused = true)]
async fn a_container_that_others_use_is_refused() {
    let (store, session) = store();
    let client = client(&store).await;
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    client.create("/zklock/a/zzz", b"", NodeKind::Persistent).await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    for late in [0, 1_200] {
        faults.delay_replies(Duration::from_millis(late));
        let error = held(&session, "a").acquire_timeout(600 * SECOND).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{late} ms: {error}");
        assert!(format!("{error:#}").contains(": /zklock/a"), "{error:#}");
    }
    faults.delay_replies(Duration::ZERO);
    assert_eq!(contenders(&store, "/zklock/a").await, ["zzz"]);
    client.delete("/zklock/a/zzz").await.unwrap();
    drop(held(&session, "a").acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn machines_that_begin_with_the_option_at_once_do_not_stand_in_each_others_way() {
    let (store, session) = store();
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    let start = Instant::now();
    let machines = [1, 2, 3].map(|_| {
        let mutex = held(&on(&store), "a");
        crate::spawn(async move { mutex.acquire_timeout(5 * SECOND).await.is_ok() })
    });
    let mut ran = 0;
    for machine in machines {
        ran += usize::from(machine.await.unwrap());
    }
    assert_eq!(ran, 1);
    assert!(start.elapsed() < 6 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_costs_nothing_of_the_time() {
    let (store, session) = store();
    drop(held(&session, "b").acquire().await.unwrap());
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::lose_reply().on(Op::Multi).path("/zklock/a"));
    let guard = held(&session, "a").acquire().await.unwrap();
    let start = Instant::now();
    guard.release().await.unwrap();
    session.close().await;
    drop(held(&on(&store), "a").acquire().await.unwrap());
    about(start.elapsed(), HOLD);
}

#[tokio::test(start_paused = true)]
async fn draining_does_not_wait_for_it() {
    let (store, session) = store();
    drop(held(&session, "a").acquire().await.unwrap());
    let start = Instant::now();
    assert!(session.drain(HOLD).await.is_empty());
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
}

#[tokio::test]
async fn it_is_for_mutexes_and_a_session_default_passes_the_others_by() {
    let session = Session::embedded_builder(&Embedded::new()).defaults(options()).open().unwrap();
    drop(session.semaphore("s", 1).unwrap().acquire().await.unwrap());
    drop(session.semaphore("s", 1).unwrap().try_acquire().await.unwrap());
    drop(session.rw_lock("r").unwrap().write().await.unwrap());
    drop(session.rw_lock("r").unwrap().try_write().await.unwrap());
    let template = ZkLockTemplate::new(session.clone());
    template.clone().semaphore(1).execute("s", || async {}).await.unwrap();
    template.clone().write().execute("r", || async {}).await.unwrap();
    template.execute("a", || async {}).await.unwrap();
    assert!(session.mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    let refused = [
        session.rw_lock("r").unwrap().with_options(options()).read().await.unwrap_err(),
        session.semaphore("s", 1).unwrap().with_options(options()).acquire().await.unwrap_err(),
    ];
    assert!(refused.iter().all(|error| error.kind() == ErrorKind::InvalidOption), "{refused:?}");
}

#[zk_locked("job", try_once, on_busy = skip, hold_at_least = "30s")]
async fn job() -> Result<Option<u32>, LockError> {
    Ok(Some(1))
}

#[zk_locked("job", timeout = time, hold_at_least = time, retries = 2)]
async fn patient(time: Duration) -> Result<u32, LockError> {
    Ok(2)
}

#[tokio::test(start_paused = true)]
async fn a_job_that_two_machines_start_runs_once() {
    let (store, session) = prompt();
    let other = on(&store);
    let start = Instant::now();
    let ran = {
        let _installed = SessionRegistry::global().install_here(None, session.clone());
        job().await.unwrap()
    };
    assert_eq!((ran, start.elapsed()), (Some(1), Duration::ZERO));
    session.close().await;
    tokio::time::sleep(20 * SECOND).await;
    let _installed = SessionRegistry::global().install_here(None, other);
    assert_eq!(job().await.unwrap(), None);
    assert_eq!(patient(6 * SECOND).await.unwrap(), 2);
    about(start.elapsed(), HOLD);
}
