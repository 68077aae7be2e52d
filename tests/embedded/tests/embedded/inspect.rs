//! Looking at a lock from outside, and asking its holder to let go.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;
use zklock::driver::RequestError;
use zklock::layout::{HostNodes, Kazoo, OneNode, ReadWriteNodes};
use zklock::testing::{Fault, Op};
use zklock::{
    ContenderInfo, Embedded, ErrorKind, Event, FencingToken, LockEvent, LockOptions, Mode,
    MutexGuard, Observer, Owner, Session,
};
use zklock_core::coordinator::node::NodeKind;
use zklock_test_support::Warnings;

use crate::support::{client, contenders, data, on, prompt, store};

const MINUTE: Duration = Duration::from_secs(60);

async fn until_queued(store: &zklock::Embedded, count: usize) {
    while contenders(store, "/zklock/a").await.len() != count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn contenders_are_listed_in_the_order_of_the_queue_with_their_owners() {
    let (store, session) = store();
    assert!(session.site("a").unwrap().contenders().await.unwrap().is_empty());
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    // Of another client, between ours.
    let peer = client(&store).await;
    let path = "/zklock/a/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-";
    peer.create(path, b"10.0.0.7", NodeKind::EphemeralSequential).await.unwrap();
    peer.create("/zklock/a/inner", b"", NodeKind::Persistent).await.unwrap();
    let other = on(&store);
    let waiting = crate::spawn({
        let mutex = other.mutex("a").unwrap();
        async move { mutex.acquire().await }
    });
    until_queued(&store, 4).await;
    let here = crate::spawn({
        let mutex = session.mutex("a").unwrap();
        async move { mutex.acquire().await }
    });
    while session.local_contenders().len() < 2 {
        tokio::task::yield_now().await;
    }
    let queue = session.site("a").unwrap().contenders().await.unwrap();
    let modes: Vec<_> = queue.iter().map(|one| (one.mode, one.holds, one.here)).collect();
    let mutex = Mode::Mutex;
    assert_eq!(modes, [(mutex, true, true), (mutex, false, false), (mutex, false, false)]);
    assert!(guard.node_path().ends_with(&queue[0].node));
    assert_eq!(queue[0].owner.pid, Some(std::process::id()));
    assert!(queue[0].owner.since.is_some());
    assert_eq!(queue[1].owner.host, "10.0.0.7");
    assert_eq!(queue[2].owner.app.as_deref(), Some("test"));
    let local: Vec<_> = queue[0].local.iter().map(|one| one.holds).collect();
    assert_eq!(local, [true, false]);
    here.abort();
    waiting.abort();
}

#[tokio::test]
async fn contenders_of_other_layouts_say_what_their_names_say() {
    let (store, _) = store();
    let peer = client(&store).await;
    for path in ["/zklock", "/zklock/a", "/zklock/b"] {
        peer.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
    for name in ["10.0.0.7-R-", "10.0.0.8-W-", "10.0.0.9-R-"] {
        let path = format!("/zklock/a/{name}");
        peer.create(&path, b"", NodeKind::EphemeralSequential).await.unwrap();
    }
    for (name, data) in [("read-node", "read"), ("read-node", "read"), ("write-node", "write")] {
        let path = format!("/zklock/b/{name}");
        peer.create(&path, data.as_bytes(), NodeKind::EphemeralSequential).await.unwrap();
    }
    let hosts = Session::embedded_builder(&store).driver(HostNodes::here()).open().unwrap();
    let queue = hosts.site("a").unwrap().contenders().await.unwrap();
    let seen: Vec<_> =
        queue.iter().map(|one| (one.owner.host.as_str(), one.mode, one.holds)).collect();
    let all = [
        ("10.0.0.7", Mode::Read, true),
        ("10.0.0.8", Mode::Write, false),
        ("10.0.0.9", Mode::Read, false),
    ];
    assert_eq!(seen, all);
    let nodes = Session::embedded_builder(&store).driver(ReadWriteNodes).open().unwrap();
    let queue = nodes.site("b").unwrap().contenders().await.unwrap();
    assert_eq!(queue.iter().map(|one| one.holds).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(queue[0].owner.to_string(), "an unknown process");
}

#[derive(Debug, Default)]
struct Revocations(Mutex<Vec<FencingToken>>);

impl Observer for Revocations {
    fn event(&self, event: &Event) {
        if let Event::Revoked { lock, token, .. } = event {
            assert_eq!(&**lock, "a");
            self.0.lock().unwrap().extend(token);
        }
    }
}

#[tokio::test]
async fn a_revocation_marks_the_holders_node_and_reaches_the_observer() {
    let (store, other) = store();
    assert_eq!(other.site("a").unwrap().revoke().await.unwrap(), 0);
    let revocations = Arc::new(Revocations::default());
    let builder = Session::embedded_builder(&store).observer(revocations.clone());
    let guard = builder.open().unwrap().mutex("a").unwrap().acquire().await.unwrap();
    assert_eq!(other.site("a").unwrap().revoke().await.unwrap(), 1);
    guard.revoked().await;
    // Its holder goes on, and says again who it is.
    let client = client(&store).await;
    let (pid, mut owner) = (std::process::id(), Owner::default());
    while owner.pid != Some(pid) {
        tokio::task::yield_now().await;
        owner = Owner::from_payload(&client.get(guard.node_path()).await.unwrap().0);
    }
    assert!(owner.revoked);
    // A wish is no loss.
    assert!(guard.is_valid());
    while revocations.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*revocations.0.lock().unwrap(), [guard.fencing_token()]);
    guard.release().await.unwrap();
}

fn told(event: Option<LockEvent>) -> (&'static str, String) {
    match event {
        Some(LockEvent::Joined(one)) => ("joined", one.node),
        Some(LockEvent::Granted(one)) => ("granted", one.node),
        Some(LockEvent::Left(one)) => ("left", one.node),
        Some(LockEvent::Lost(one)) => ("lost", one.node),
        Some(LockEvent::Blind) => ("blind", String::new()),
        _ => ("end", String::new()),
    }
}

fn node(path: &str) -> String {
    path.rsplit('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn events_begin_with_the_queue_as_it_is_and_go_on_in_order() {
    let (store, session) = store();
    let first = session.mutex("a").unwrap().acquire().await.unwrap();
    let other = on(&store);
    let watcher = on(&store);
    let mut events = watcher.site("a").unwrap().events();
    assert_eq!(told(events.next().await), ("joined", node(first.node_path())));
    assert_eq!(told(events.next().await), ("granted", node(first.node_path())));
    let waiting = crate::spawn({
        let mutex = other.mutex("a").unwrap();
        async move { mutex.acquire().await.unwrap() }
    });
    let (what, second) = told(events.next().await);
    assert_eq!(what, "joined");
    let gone = node(first.node_path());
    first.release().await.unwrap();
    assert_eq!(told(events.next().await), ("left", gone));
    assert_eq!(told(events.next().await), ("granted", second.clone()));
    waiting.await.unwrap().release().await.unwrap();
    assert_eq!(told(events.next().await), ("left", second));
    watcher.close().await;
    assert_eq!(told(events.next().await).0, "end");
}

#[tokio::test]
async fn a_lock_that_nobody_has_used_yet_can_be_watched() {
    let (_store, session) = store();
    let mut events = session.site("a/b/c").unwrap().events();
    let next = crate::spawn(async move { told(events.next().await).0 });
    tokio::task::yield_now().await;
    let _guard = session.mutex("a/b/c").unwrap().acquire().await.unwrap();
    assert_eq!(next.await.unwrap(), "joined");
}

/// The directory is made between a look at it and the look at what is above it.
#[tokio::test(start_paused = true)]
async fn a_directory_that_is_made_between_two_looks_is_seen() {
    for _ in 0..50 {
        let (store, session) = store();
        let other = on(&store);
        let mut events = session.site("deep/down/below/a").unwrap().events();
        let joined = crate::spawn(async move { events.next().await });
        tokio::task::yield_now().await;
        let _guard = other.mutex("deep/down/below/a").unwrap().acquire().await.unwrap();
        // A slow look comes only after seconds.
        let joined = tokio::time::timeout(Duration::from_millis(500), joined).await;
        assert!(matches!(joined.unwrap().unwrap(), Some(LockEvent::Joined(_))));
    }
}

/// Acquires the lock `a` over another connection than the session's first, and returns which one that is.
async fn over_another_connection(store: &Embedded, session: &Session) -> (MutexGuard, i64) {
    let first = store.sessions()[0];
    // While the first is busy another is opened, and used.
    store.faults(first).hold_replies();
    let acquire = |name: String| {
        let nightly = LockOptions::new().label("nightly");
        let mutex = session.mutex(&name).unwrap().with_options(nightly);
        crate::spawn(async move { mutex.acquire().await.unwrap() })
    };
    let busy: Vec<_> = (0..9).map(|number| acquire(format!("busy/n{number}"))).collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let guard = acquire("a".to_owned()).await.unwrap();
    store.faults(first).release();
    for busy in busy {
        drop(busy.await.unwrap());
    }
    let owner = client(store).await.get(guard.node_path()).await.unwrap().1.ephemeral_owner;
    assert_ne!(owner, first);
    (guard, owner)
}

/// Locks on further connections of a session are its own, too.
#[tokio::test(start_paused = true)]
async fn what_is_held_over_another_connection_is_here_and_is_lost_with_it() {
    let (store, session) = prompt();
    let (guard, owner) = over_another_connection(&store, &session).await;
    let site = session.site("a").unwrap();
    let queue = site.contenders().await.unwrap();
    assert!(queue.len() == 1 && queue[0].holds && queue[0].here, "{queue:?}");
    assert_eq!(queue[0].local[0].label.as_deref(), Some("nightly"));
    let other = on(&store).site("a").unwrap().contenders().await.unwrap();
    assert!(!other[0].here);

    let mut events = site.events();
    assert!(matches!(events.next().await, Some(LockEvent::Joined(one)) if one.here));
    assert!(matches!(events.next().await, Some(LockEvent::Granted(one)) if one.here));
    store.faults(owner).expire();
    assert!(matches!(events.next().await, Some(LockEvent::Lost(one)) if one.here));
    guard.lost().await;
}

/// Nobody acquires anything through it, so it counts as idle after a minute.
#[tokio::test(start_paused = true)]
async fn the_connection_through_which_a_queue_is_looked_at_is_not_closed_meanwhile() {
    let start = tokio::time::Instant::now();
    let (store, session) = prompt();
    let (first, other) = (store.sessions()[0], on(&store));
    let before = store.sessions();
    store.faults(first).hold_replies();
    let acquire = |number: usize| {
        let mutex = session.mutex(format!("busy/n{number}")).unwrap();
        crate::spawn(async move { drop(mutex.acquire().await.unwrap()) })
    };
    let busy: Vec<_> = (0..9).map(acquire).collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.faults(first).release();
    for busy in busy {
        busy.await.unwrap();
    }
    let second = store.sessions().into_iter().find(|id| !before.contains(id)).unwrap();
    let _held = other.mutex("a").unwrap().acquire().await.unwrap();
    // It alone is left.
    store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    store.faults(first).expire();
    tokio::time::sleep_until(start + Duration::from_secs(59)).await;
    store.faults(second).delay_replies(Duration::from_millis(1_500));
    let queue = session.site("a").unwrap().contenders().await.unwrap();
    assert!(queue.len() == 1 && start.elapsed() > Duration::from_secs(61));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!store.sessions().contains(&second));
}

/// The first connection gets no session, and another one is served.
#[tokio::test(start_paused = true)]
async fn events_go_on_over_another_connection() {
    let (store, session) = prompt();
    let (guard, _) = over_another_connection(&store, &session).await;
    let mut events = session.site("a").unwrap().events();
    assert!(matches!(events.next().await, Some(LockEvent::Joined(one)) if one.here));
    assert!(matches!(events.next().await, Some(LockEvent::Granted(one)) if one.here));
    let first = store.sessions()[0];
    store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    store.faults(first).expire();
    tokio::time::sleep(Duration::from_secs(2)).await;
    guard.release().await.unwrap();
    let left = async {
        loop {
            match events.next().await {
                Some(LockEvent::Left(one)) => return one,
                Some(LockEvent::Blind) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(5), left).await.unwrap();
    assert!(left.here && left.holds, "{left:?}");
}

/// Whether the session has ended while somebody looked, or there was none from the beginning.
#[tokio::test(start_paused = true)]
async fn who_follows_a_queue_is_told_that_there_is_no_session() {
    for looked in [true, false] {
        let (store, session) = prompt();
        let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
        let mut events = session.site("a").unwrap().events();
        if looked {
            assert!(matches!(events.next().await, Some(LockEvent::Joined(_))));
            assert!(matches!(events.next().await, Some(LockEvent::Granted(_))));
        }
        store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
        store.faults(session.zookeeper_session().unwrap().id).expire();
        let told = tokio::time::timeout(Duration::from_secs(2), events.next()).await;
        assert_eq!(told.unwrap(), Some(LockEvent::Blind), "{looked}");
        assert!(tokio::time::timeout(Duration::from_secs(60), events.next()).await.is_err());
        store.end_outage();
        let next = tokio::time::timeout(Duration::from_secs(5), events.next()).await;
        if looked {
            assert!(next.is_err(), "nothing has changed: {next:?}");
        } else {
            assert!(matches!(next.unwrap(), Some(LockEvent::Joined(_))));
        }
    }
}

/// As in a loop that also does something else: what waits for the next event is dropped each time.
#[tokio::test(start_paused = true)]
async fn who_is_often_called_away_is_told_that_there_is_no_session() {
    let (store, session) = prompt();
    let mut events = session.site("a").unwrap().events();
    store.begin_outage(RequestError::Unreachable("so says the test".to_owned()));
    store.faults(session.zookeeper_session().unwrap().id).expire();
    let mut told = None;
    for _ in 0..10 {
        if let Ok(event) = timeout(Duration::from_millis(300), events.next()).await {
            told = event;
            break;
        }
    }
    assert_eq!(told, Some(LockEvent::Blind));
}

/// The answer to the deletion does not arrive.
#[tokio::test(start_paused = true)]
async fn what_is_released_over_a_connection_that_breaks_then_is_not_lost() {
    let (store, session) = prompt();
    let (guard, owner) = over_another_connection(&store, &session).await;
    let mut events = session.site("a").unwrap().events();
    assert!(matches!(events.next().await, Some(LockEvent::Joined(one)) if one.here));
    assert!(matches!(events.next().await, Some(LockEvent::Granted(one)) if one.here));
    store.faults(owner).inject(Fault::cut_after().on(Op::Delete));
    drop(guard);
    let event = events.next().await;
    assert!(matches!(&event, Some(LockEvent::Left(one)) if one.here), "{event:?}");
    store.faults(owner).reconnect();
}

/// It is listed, and gone when its node is read.
#[tokio::test(start_paused = true)]
async fn who_leaves_during_a_survey_is_no_stranger() {
    let (store, session) = prompt();
    let guard = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    client(&store).await.create("/zklock/a/inner", b"", NodeKind::Persistent).await.unwrap();
    let id = session.zookeeper_session().unwrap().id;
    store.faults(id).delay_replies(Duration::from_millis(50));
    let site = session.site("a").unwrap();
    let surveying = crate::spawn(async move { site.survey().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(25)).await;
    guard.release().await.unwrap();
    let survey = surveying.await.unwrap();
    assert!(survey.queue.is_empty(), "{survey:?}");
    assert_eq!(survey.strangers, ["inner"]);
}

/// Whoever looks again and again, as `zklock watch` does.
#[tokio::test(start_paused = true)]
async fn only_those_who_came_since_the_last_look_are_read() {
    let (store, session) = prompt();
    let (watcher, semaphore) = (on(&store), session.semaphore("a", 9).unwrap());
    let site = watcher.semaphore("a", 9).unwrap().site();
    let first = semaphore.acquire().await.unwrap();
    let before = site.contenders().await.unwrap();
    let faults = store.faults(watcher.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Get).path(first.node_path()).times(9));
    let second = semaphore.acquire().await.unwrap();
    let refused = site.contenders().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unauthorized, "it can be read");
    assert!(format!("{refused:#}").contains(site.path()), "{refused:#}");
    assert!(!refused.to_string().contains(site.path()), "{refused}");
    let now = site.contenders_reusing(&before).await.unwrap();
    let paths: Vec<_> = now.iter().map(|one| format!("{}/{}", site.path(), one.node)).collect();
    assert_eq!(paths, [first.node_path(), second.node_path()]);
    assert_eq!((&now[0], now.iter().all(|one| one.holds)), (&before[0], true));
}

/// Kazoo gives every permit of one object the same name.
#[tokio::test]
async fn who_looks_again_takes_no_permit_of_kazoo_for_the_one_of_before() {
    let (store, session) = prompt();
    let site = session.semaphore("a", 2).unwrap().with_driver(Kazoo::default()).site();
    let raw = client(&store).await;
    let permit = "/zklock/a/0123456789abcdef0123456789abcdef";
    for path in ["/zklock", "/zklock/a"] {
        raw.create(path, b"2", NodeKind::Persistent).await.unwrap();
    }
    raw.create(permit, b"one", NodeKind::Ephemeral).await.unwrap();
    let before = site.contenders().await.unwrap();
    raw.delete(permit).await.unwrap();
    raw.create(permit, b"other", NodeKind::Ephemeral).await.unwrap();
    let now = site.contenders_reusing(&before).await.unwrap();
    assert_eq!(now, site.contenders().await.unwrap());
    assert_eq!((now.len(), &*now[0].owner.host), (1, "other"));
}

/// The node stays, and the callers of this process that share it come and go.
#[tokio::test(start_paused = true)]
async fn who_looks_again_sees_no_caller_who_has_let_go() {
    let (_, session) = prompt();
    let mutex = |label: &str| {
        let lingers = LockOptions::new().linger(MINUTE).label(label);
        session.mutex("a").unwrap().with_options(lingers)
    };
    let site = session.site("a").unwrap();
    drop(mutex("import").acquire().await.unwrap());
    let held = mutex("report").acquire().await.unwrap();
    let before = site.contenders().await.unwrap();
    assert_eq!(before[0].owner.label.as_deref(), Some("report"));
    held.release().await.unwrap();
    let now = site.contenders_reusing(&before).await.unwrap();
    assert_eq!(now, site.contenders().await.unwrap());
    // What the node says, which is the one of before.
    assert_eq!((&now[0].node, now[0].owner.label.as_deref()), (&before[0].node, Some("import")));
    assert_eq!((&now[0].owner.granted, now[0].local.len()), (&None, 0));
}

/// Each node tells of its own holder, also where that came later than the holder of a node behind it.
#[tokio::test(start_paused = true)]
async fn of_several_permits_each_node_tells_of_its_own_holder() {
    let (_, session) = prompt();
    let semaphore = |label: &str| {
        let of = LockOptions::new().label(label);
        session.semaphore("a", 2).unwrap().with_options(of)
    };
    let site = semaphore("").site();
    let first = semaphore("import").acquire().await.unwrap();
    let second = semaphore("report").acquire().await.unwrap();
    let next = semaphore("invoice");
    let next = crate::spawn(async move { next.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(5)).await;
    let path = first.node_path().to_owned();
    drop(first);
    let next = next.await.unwrap();
    assert_eq!(next.node_path(), path, "it was handed on");
    let queue = site.contenders().await.unwrap();
    let told = |guard: &zklock::SemaphorePermit| {
        let one = queue.iter().find(|one| one.node == node(guard.node_path())).unwrap();
        (one.owner.label.as_deref(), one.holds, one.here)
    };
    assert_eq!(told(&next), (Some("invoice"), true, true));
    assert_eq!(told(&second), (Some("report"), true, true));
}

/// One holder after the other between two looks, in a layout in which all nodes have one name.
#[tokio::test(start_paused = true)]
async fn who_follows_a_queue_sees_the_next_holder_at_the_path_of_the_one_before() {
    let (store, session) = prompt();
    let mutex = session.mutex("a").unwrap().with_driver(OneNode);
    let mut events = on(&store).mutex("a").unwrap().with_driver(OneNode).site().events();
    let mut next = async || match timeout(MINUTE, events.next()).await.unwrap().unwrap() {
        LockEvent::Joined(one) => ("joined", one.czxid),
        LockEvent::Granted(one) => ("granted", one.czxid),
        LockEvent::Left(one) => ("left", one.czxid),
        event => panic!("{event:?}"),
    };
    let before = mutex.acquire().await.unwrap();
    let czxid = before.fencing_token().czxid();
    assert_eq!([next().await, next().await], [("joined", czxid), ("granted", czxid)]);
    before.release().await.unwrap();
    let held = mutex.acquire().await.unwrap();
    let after = held.fencing_token().czxid();
    assert_eq!(next().await, ("left", czxid));
    assert_eq!([next().await, next().await], [("joined", after), ("granted", after)]);
}

#[tokio::test(start_paused = true)]
async fn between_two_looks_who_left_comes_before_who_joined_and_who_got_the_lock() {
    let (_, session) = prompt();
    let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let one = session.site("a").unwrap().contenders().await.unwrap().remove(0);
    // The first one holds the lock.
    let queue = |numbers: [u64; 3]| {
        numbers.map(|number| {
            let mut one = one.clone();
            (one.node, one.czxid) = (format!("lock-{number}"), number);
            one.holds = number == numbers[0];
            one
        })
    };
    let told = |before: &[ContenderInfo], now: &[ContenderInfo]| {
        let events = LockEvent::between(before, now).into_iter();
        let told = events.map(|event| match event {
            LockEvent::Joined(one) => format!("joined {}", one.czxid),
            LockEvent::Granted(one) => format!("granted {}", one.czxid),
            LockEvent::Left(one) => format!("left {}", one.czxid),
            event => panic!("{event:?}"),
        });
        told.collect::<Vec<_>>()
    };
    let (first, then) = (queue([1, 2, 3]), queue([2, 3, 4]));
    assert_eq!(told(&[], &first), ["joined 1", "joined 2", "joined 3", "granted 1"]);
    assert_eq!(told(&first, &then), ["left 1", "joined 4", "granted 2"]);
    assert_eq!(told(&then, &then), [""; 0]);
    // Another node of the same name.
    let mut again = then.clone();
    again[2].czxid = 5;
    assert_eq!(told(&then, &again), ["left 4", "joined 5"]);
}

/// Another process sees what a node was created for, of every kind of lock, also behind the holder.
#[tokio::test(start_paused = true)]
async fn the_label_is_in_the_node_and_in_the_error_of_who_finds_it_busy() {
    let (store, session) = prompt();
    let other = on(&store);
    let label = |label: &str| LockOptions::new().label(label);
    let mutex = session.mutex("mutex").unwrap().with_options(label("import"));
    let rw = session.rw_lock("rw").unwrap().with_options(label("prices"));
    let semaphore = session.semaphore("permits", 2).unwrap().with_options(label("invoice 7"));
    let guard = mutex.acquire().await.unwrap();
    let writer = rw.write().await.unwrap();
    let permits = semaphore.acquire_many(2).await.unwrap();
    let seen = async |site: zklock::Site| {
        let queue = site.contenders().await.unwrap();
        queue.into_iter().map(|one| one.owner.label.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(seen(other.site("mutex").unwrap()).await, ["import"]);
    assert_eq!(seen(other.site("rw").unwrap()).await, ["prices"]);
    let permits_of = other.semaphore("permits", 2).unwrap();
    let busy = permits_of.try_acquire().await.unwrap_err();
    assert_eq!(busy.holder().unwrap().owner.label.as_deref(), Some("invoice 7"));
    let busy = other.mutex("mutex").unwrap().try_acquire().await.unwrap_err();
    assert!(format!("{busy:#}").contains(" for \"import\""), "{busy:#}");
    assert!(!busy.to_string().contains("import"), "{busy}");
    // What replaces a writer is for the same.
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(seen(other.site("rw").unwrap()).await, ["prices"]);
    let waiting = other.mutex("mutex").unwrap().with_options(label("report"));
    let waiting = crate::spawn(async move { waiting.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(seen(other.site("mutex").unwrap()).await, ["import", "report"]);
    drop((guard, reader, permits));
    drop(waiting.await.unwrap());
}

/// Of two clients that look at the same time, the second one breaks nothing.
#[tokio::test(start_paused = true)]
async fn exactly_the_node_is_broken_that_was_seen() {
    let (store, session) = prompt();
    let other = on(&store);
    let hung = session.mutex("a").unwrap().acquire().await.unwrap();
    let site = other.site("a").unwrap();
    let seen = site.contenders().await.unwrap().remove(0);
    let next = other.mutex("a").unwrap();
    let next = crate::spawn(async move { next.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(5)).await;
    // Another node of this name, and another name.
    let mut wrong = seen.clone();
    wrong.czxid += 1;
    assert!(!site.break_holder(&wrong).await.unwrap());
    (wrong.czxid, wrong.node) = (seen.czxid, format!("{}x", seen.node));
    assert!(!site.break_holder(&wrong).await.unwrap());
    assert!(hung.is_valid() && !next.is_finished());

    assert!(site.break_holder(&seen).await.unwrap());
    hung.lost().await;
    let next = next.await.unwrap();
    assert!(next.is_valid() && next.fencing_token() > hung.fencing_token());
    assert!(!site.break_holder(&seen).await.unwrap());
    assert!(next.is_valid());
    assert!(hung.release().await.unwrap_err().is_lost());
    assert!(next.is_valid());
}

/// The names of its nodes recur, and whoever comes has the same.
#[tokio::test(start_paused = true)]
async fn who_holds_now_is_not_broken_for_who_held_then() {
    let (_store, session) = prompt();
    let mutex = session.mutex("a").unwrap().with_driver(OneNode);
    let site = mutex.site();
    let guard = mutex.acquire().await.unwrap();
    let seen = site.contenders().await.unwrap().remove(0);
    guard.release().await.unwrap();
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(site.contenders().await.unwrap()[0].node, seen.node);
    assert!(!site.break_holder(&seen).await.unwrap());
    assert!(guard.is_valid() && site.contenders().await.unwrap().len() == 1);
}

/// A session may take several permits. One of them waits only if its node is newer than the one in the
/// inner lock.
#[tokio::test]
async fn a_permit_is_held_while_its_session_asks_for_another() {
    let (store, session) = store();
    let held = session.semaphore("a", 2).unwrap().acquire().await.unwrap();
    // As the holder's client: the session of the node counts.
    let raw = client(&store).await;
    let holders = async || {
        let sites = session.sites("a").await.unwrap();
        let permits = sites.iter().find(|site| !site.is_inner()).unwrap();
        let queue = permits.contenders().await.unwrap();
        queue.iter().filter(|one| one.holds).count()
    };
    let make = async |path: &str| {
        let path = format!("/zklock/a/{path}");
        raw.create(&path, b"", NodeKind::EphemeralSequential).await.unwrap().path
    };
    make("leases/_c_be2ee212-c507-4b18-a733-81c86278175c-lease-").await;
    assert_eq!(holders().await, 2);
    let asks = make("locks/_c_be2ee212-c507-4b18-a733-81c86278175d-lock-").await;
    assert_eq!(holders().await, 2);
    // Now it waits with a node of its own.
    make("leases/_c_be2ee212-c507-4b18-a733-81c86278175d-lease-").await;
    assert_eq!(holders().await, 2);
    raw.delete(&asks).await.unwrap();
    assert_eq!(holders().await, 3);
    drop(held);
}

/// The directories of locks inside of this one are called as its contenders are, and are before them.
#[tokio::test]
async fn a_lock_that_is_called_as_a_contender_is_not_asked_to_release() {
    let (store, session) = prompt();
    let (asking, raw) = (on(&store), client(&store).await);
    // More than are read at the same time.
    let inner: Vec<_> = (0..120).map(|number| format!("/zklock/a/lock-{number:010}")).collect();
    for path in ["/zklock", "/zklock/a"].into_iter().chain(inner.iter().map(String::as_str)) {
        raw.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
    for path in &inner {
        // As a lock that is held.
        let node = format!("{path}/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-");
        raw.create(&node, b"", NodeKind::EphemeralSequential).await.unwrap();
    }
    let site = asking.site("a").unwrap();
    assert_eq!(site.revoke().await.unwrap(), 0);
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    store.record();
    assert_eq!(site.revoke().await.unwrap(), 1);
    let own = asking.zookeeper_session().unwrap().id;
    let asked: Vec<_> = store.recorded().into_iter().filter(|one| one.session == own).collect();
    guard.revoked().await;
    for path in &inner {
        assert_eq!(data(&store, path).await, "");
        let reads = asked.iter().filter(|one| one.path == *path).count();
        assert_eq!(reads, 1, "{path}");
    }
    let written = asked.iter().filter(|one| one.op == Op::Set).map(|one| &*one.path);
    assert_eq!(written.collect::<Vec<_>>(), [guard.node_path()]);
}

/// The server removes `leases` when nobody has a permit: who waits there is seen all the same.
#[tokio::test]
async fn who_waits_for_a_semaphore_without_permits_is_seen() {
    let (store, session) = store();
    let raw = client(&store).await;
    for path in ["", "/y", "/y/locks"].map(|one| format!("/zklock{one}")) {
        raw.create(&path, b"", NodeKind::Persistent).await.unwrap();
    }
    let waiter = "/zklock/y/locks/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000";
    raw.create(waiter, b"10.0.0.7", NodeKind::Ephemeral).await.unwrap();
    assert_eq!(session.lock_names(None).await.unwrap().names, ["y"]);
    let y = session.sites("y").await.unwrap();
    assert!(y.len() == 1 && y[0].is_inner(), "{y:?}");
    assert_eq!(y[0].contenders().await.unwrap().len(), 1);
    // The lock is at the root itself.
    let root = Session::embedded_builder(&store).root("/zklock/y").open().unwrap();
    assert_eq!(root.lock_names(None).await.unwrap().names, [""]);
}

/// Kazoo takes permits where the data say no number, and waits where a directory takes the only one.
#[tokio::test]
async fn permits_of_kazoo_are_seen_whatever_the_data_say_and_who_waits_without_them() {
    let (store, session) = store();
    let raw = client(&store).await;
    for (path, data) in
        [("", ""), ("/a", "none"), ("/b", "1"), ("/b/color", ""), ("/b-__lock__", "")]
    {
        raw.create(&format!("/zklock{path}"), data.as_bytes(), NodeKind::Persistent).await.unwrap();
    }
    for node in ["a/0123456789abcdef0123456789abcdef", "a/f123456789abcdef0123456789abcdef"] {
        raw.create(&format!("/zklock/{node}"), b"host", NodeKind::Ephemeral).await.unwrap();
    }
    let waiter = "/zklock/b-__lock__/0123456789abcdef0123456789abcdef__lock__0000000000";
    raw.create(waiter, b"host", NodeKind::Ephemeral).await.unwrap();
    assert_eq!(session.lock_names(None).await.unwrap().names, ["a", "b"]);
    let a = session.sites("a").await.unwrap();
    let holders = a[0].contenders().await.unwrap();
    assert!(a.len() == 1 && holders.len() == 2 && holders.iter().all(|one| one.holds), "{a:?}");
    let b = session.sites("b").await.unwrap();
    assert!(b.len() == 1 && b[0].is_inner(), "{b:?}");
    assert_eq!(b[0].contenders().await.unwrap().len(), 1);
}

/// A permit of kazoo's is called like a UUID, and so may a lock be; and a lock like the inside of a semaphore.
#[tokio::test]
async fn what_is_called_like_a_permit_or_an_inner_lock_is_not_taken_for_one() {
    let (store, session) = store();
    let raw = client(&store).await;
    let (orders, permit) = ("/zklock/orders", "/zklock/orders/0123456789abcdef0123456789abcdef");
    for path in ["/zklock", orders, permit] {
        raw.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
    assert_eq!(session.lock_names(None).await.unwrap().names, [""; 0]);
    raw.delete(permit).await.unwrap();
    raw.create(permit, b"", NodeKind::Ephemeral).await.unwrap();
    assert_eq!(session.lock_names(None).await.unwrap().names, ["orders"]);
    let _guard = session.mutex("a-__lock__").unwrap().acquire().await.unwrap();
    assert_eq!(session.lock_names(None).await.unwrap().names, ["a-__lock__", "orders"]);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_follow_a_queue_asks_seldom_and_goes_on_once_it_may() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let refuses = Fault::refuse(RequestError::NoAuth).on(Op::Children).times(u64::MAX);
    faults.inject(refuses.clone());
    let warnings = Warnings::collect();
    let refusals = || {
        let lines = warnings.take();
        lines.iter().filter(|line| line.contains("the queue of a lock cannot be followed")).count()
    };
    let mut events = session.site("a").unwrap().events();
    assert_eq!(events.next().await, Some(LockEvent::Blind));
    store.record();
    tokio::time::timeout(Duration::from_secs(10), events.next()).await.unwrap_err();
    let asked = store.recorded().iter().filter(|one| one.op == Op::Children).count();
    assert!((10..=25).contains(&asked), "{asked} requests in 10 s");
    assert_eq!(refusals(), 1);
    faults.clear();
    let guard = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    assert!(matches!(events.next().await, Some(LockEvent::Joined(_))));
    // It could be in between.
    faults.inject(refuses);
    drop(guard);
    let blind = async { while events.next().await != Some(LockEvent::Blind) {} };
    timeout(Duration::from_secs(10), blind).await.unwrap();
    timeout(Duration::from_secs(10), events.next()).await.unwrap_err();
    assert_eq!(refusals(), 1);
}

#[tokio::test]
async fn the_nodes_of_a_directory_are_listed_with_one_request() {
    let (store, session) = prompt();
    let looking = on(&store);
    let site = looking.site("a").unwrap();
    assert!(site.children().await.unwrap().is_empty());
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    client(&store).await.create("/zklock/a/b", b"", NodeKind::Persistent).await.unwrap();
    store.record();
    let mut names = site.children().await.unwrap();
    let own = looking.zookeeper_session().unwrap().id;
    let asked = store.recorded().into_iter().filter(|one| one.session == own);
    assert_eq!(asked.map(|one| one.op).collect::<Vec<_>>(), [Op::Children]);
    names.sort();
    assert_eq!(names, [node(guard.node_path()), "b".to_owned()]);
}
