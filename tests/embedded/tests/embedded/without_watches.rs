//! Who waits beyond the watches that a session may have looks at its queue from time to time.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use zklock::layout::{Curator, Kazoo, MaxLeases, OneNode};
use zklock::{AnyLock, Embedded, LockEvent, LockOptions, MultiLock, MutexGuard, Session};

const MOMENT: Duration = Duration::from_millis(50);

fn mutex(session: &Session, name: &str) -> zklock::Mutex {
    session.mutex(name).unwrap()
}

/// As what others hold a lock, and as what somebody waits for it.
fn locks(session: &Session) -> Vec<[AnyLock; 2]> {
    let rw_lock = |name: &str| session.rw_lock(name).unwrap();
    let same = |lock: AnyLock| [lock.clone(), lock];
    let semaphore = |name: &str, limit| session.semaphore(name, limit).unwrap();
    let fair = LockOptions::new().fair(true);
    let one_lease = MaxLeases::new(1, Curator).unwrap();
    vec![
        same(mutex(session, "mutex").into()),
        same(mutex(session, "fair").with_options(fair).into()),
        same(mutex(session, "one").with_driver(OneNode).into()),
        same(mutex(session, "one-lease").with_driver(one_lease).into()),
        same(mutex(session, "kazoo").with_driver(Kazoo::default()).into()),
        [AnyLock::Write(rw_lock("read")), AnyLock::Read(rw_lock("read"))],
        [AnyLock::Read(rw_lock("write")), AnyLock::Write(rw_lock("write"))],
        same(AnyLock::Write(rw_lock("writes"))),
        same(semaphore("permit", 1).into()),
        same(AnyLock::Permits(semaphore("permits", 3), 2)),
        same(semaphore("kazoos-permit", 1).with_driver(Kazoo::default()).into()),
    ]
}

/// Waits for so much that a session has no room for another watch, while another one holds it.
async fn fill(session: &Session, other: &Session) -> (Vec<MutexGuard>, Vec<JoinHandle<()>>) {
    let (mut held, mut filling) = (Vec::new(), Vec::new());
    for number in 0..160 {
        let name = if number < 120 { format!("{number:0>900}") } else { number.to_string() };
        held.push(mutex(other, &name).acquire().await.unwrap());
        let waits = mutex(session, &name);
        filling.push(crate::spawn(async move { drop(waits.acquire().await) }));
    }
    sleep(MOMENT).await;
    // The shortest paths for what is left.
    held.push(mutex(other, "x").acquire().await.unwrap());
    for _ in 0..20 {
        let mut events = session.site("x").unwrap().events();
        filling.push(crate::spawn(async move { while events.next().await.is_some() {} }));
    }
    sleep(MOMENT).await;
    (held, filling)
}

#[tokio::test(start_paused = true)]
async fn who_waits_without_a_watch_is_granted_the_lock_within_a_quarter_of_the_session_timeout() {
    for (session_timeout, promised) in [(10, 2_500), (60, 5_000)] {
        let session_timeout = Duration::from_secs(session_timeout);
        let promised = Duration::from_millis(promised) + MOMENT;
        let store = Embedded::new();
        let open = || {
            let builder = Session::embedded_builder(&store).session_timeout(session_timeout);
            builder.max_connections(1).open().unwrap()
        };
        let (session, other) = (open(), open());
        let (filled, filling) = fill(&session, &other).await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let watches = faults.pending_watches();
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for ([holds, _], [_, waits]) in locks(&other).into_iter().zip(locks(&session)) {
            held.push(holds.acquire().await.unwrap());
            waiting.push(crate::spawn(async move {
                let guard = waits.acquire().await.unwrap();
                (format!("{waits:?}"), guard.is_valid(), Instant::now())
            }));
        }
        let last = ["several/a", "several/b"].map(|name| mutex(&session, name));
        held.push(AnyLock::from(mutex(&other, "several/b")).acquire().await.unwrap());
        waiting.push(crate::spawn(async move {
            let guard = MultiLock::new(last).unwrap().acquire().await.unwrap();
            ("several".to_owned(), guard.is_valid(), Instant::now())
        }));
        sleep(MOMENT).await;
        assert_eq!(faults.pending_watches(), watches, "there was room for another watch");
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        let released = Instant::now();
        for held in held {
            held.release().await.unwrap();
        }
        for waiting in waiting {
            let (what, is_valid, granted) = waiting.await.unwrap();
            let took = granted - released;
            assert!(is_valid && took <= promised, "{what}: {took:?} of {session_timeout:?}");
        }
        filling.iter().for_each(JoinHandle::abort);
        drop(filled);
    }
}

/// As in a loop that also does something each second: what waits for the next event is dropped then.
#[tokio::test(start_paused = true)]
async fn who_follows_a_queue_without_a_watch_looks_although_it_is_called_away_each_second() {
    let store = Embedded::new();
    let open = || Session::embedded_builder(&store).max_connections(1).open().unwrap();
    let (session, other) = (open(), open());
    let (filled, filling) = fill(&session, &other).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let watches = faults.pending_watches();
    let held = mutex(&other, "followed").acquire().await.unwrap();
    let mut events = session.site("followed").unwrap().events();
    assert!(matches!(events.next().await, Some(LockEvent::Joined(_))));
    assert!(matches!(events.next().await, Some(LockEvent::Granted(_))));
    held.release().await.unwrap();
    let mut told = None;
    for _ in 0..10 {
        if let Ok(event) = timeout(Duration::from_secs(1), events.next()).await {
            told = event;
            break;
        }
    }
    assert!(matches!(told, Some(LockEvent::Left(_))), "{told:?}");
    assert_eq!(faults.pending_watches(), watches, "there was room for another watch");
    filling.iter().for_each(JoinHandle::abort);
    drop(filled);
}
