//! An answer that is forgotten, on a connection that lives on: whichever it is, it is asked for again.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zklock::layout::{Curator, Kazoo, MaxLeases, Numbered, OneNode, ReadWriteNodes};
use zklock::{
    AnyLock, Embedded, ErrorKind, Handoffs, LockEvent, LockOptions, Mutex, Session, StopAt,
};
use zklock_core::coordinator::memory::{Fault, Logged, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::Coordinator;

use crate::support::{client, contenders, data, on, prompt, store};

/// A forgotten answer is waited for that long.
const T: Duration = Duration::from_secs(1);

/// Longer than anything here takes with one answer less.
const LONG: Duration = Duration::from_secs(20);

/// By default: a forgotten answer costs a second, less than a sixth of the session timeout, and a pause.
const BY_DEFAULT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(1050));

fn briefly(store: &Embedded) -> Session {
    lasting(store, T)
}

fn lasting(store: &Embedded, timeout: Duration) -> Session {
    Session::embedded_builder(store).app("test").session_timeout(timeout).open().unwrap()
}

/// Forgets the first answer to a session, then the second, and so on to the last.
async fn whichever_is_forgotten(scenario: impl AsyncFn(&Embedded, &Session)) {
    whichever_is_forgotten_of((T, LONG), scenario).await;
}

/// The same with this session timeout, where it takes no longer than this.
async fn whichever_is_forgotten_of(
    (session_timeout, limit): (Duration, Duration),
    scenario: impl AsyncFn(&Embedded, &Session),
) {
    for forgotten in 0.. {
        let store = Embedded::new();
        let session = lasting(&store, session_timeout);
        let id = session.zookeeper_session().unwrap().id;
        store.faults(id).inject(Fault::forget_reply().skip(forgotten));
        store.record();
        let ended = timeout(limit, scenario(&store, &session)).await;
        let mut sent = store.recorded().into_iter().filter(|request| request.session == id);
        let Some(request) = sent.nth(usize::try_from(forgotten).unwrap()) else {
            ended.unwrap();
            assert!(forgotten > 0, "nothing was asked");
            return;
        };
        assert!(ended.is_ok(), "held up by answer {forgotten}, to {request:?}");
        sleep(2 * session_timeout).await;
        for lock in ["a", "a/leases", "a/locks"] {
            let left = contenders(&store, &format!("/zklock/{lock}")).await;
            let left: Vec<_> = left.iter().filter(|name| name.contains("lock-")).collect();
            assert!(left.is_empty(), "{left:?} after answer {forgotten}, to {request:?}");
        }
        session.close().await;
    }
}

fn with(session: &Session, options: LockOptions) -> Mutex {
    session.mutex("a").unwrap().with_options(options)
}

/// Holds the lock in another process for a moment.
async fn held_elsewhere(store: &Embedded) -> tokio::task::JoinHandle<()> {
    let guard = on(store).mutex("a").unwrap().acquire().await.unwrap();
    crate::spawn(async move {
        sleep(Duration::from_millis(100)).await;
        guard.release().await.unwrap();
    })
}

#[tokio::test(start_paused = true)]
async fn an_acquire_and_a_release_go_on() {
    whichever_is_forgotten(async |store, session| {
        let elsewhere = held_elsewhere(store).await;
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        guard.release().await.unwrap();
        elsewhere.await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_comes_again_goes_on() {
    whichever_is_forgotten(async |store, session| {
        let lock = |session: &Session| session.mutex("a").unwrap().with_driver(OneNode);
        let held = lock(&on(store)).acquire().await.unwrap();
        crate::spawn(async move {
            sleep(Duration::from_millis(100)).await;
            held.release().await.unwrap();
        });
        lock(session).acquire().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_try_of_a_busy_lock_says_so_and_those_behind_it_go_on() {
    whichever_is_forgotten(async |store, session| {
        let elsewhere = held_elsewhere(store).await;
        let trying = crate::spawn({
            let mutex = session.mutex("a").unwrap();
            async move { mutex.try_acquire().await.map(drop) }
        });
        sleep(Duration::from_millis(1)).await;
        session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
        // Which it is not any more when it is asked for again.
        assert!(trying.await.unwrap().map_or_else(|error| error.is_busy(), |()| true));
        elsewhere.await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_busy_whichever_answer_is_forgotten() {
    for op in [Op::Create, Op::Children, Op::Get] {
        let (store, holder) = prompt();
        let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
        let session = briefly(&store);
        let id = session.zookeeper_session().unwrap().id;
        store.faults(id).inject(Fault::forget_reply().on(op));
        let error = session.mutex("a").unwrap().try_acquire().await.unwrap_err();
        assert!(error.is_busy() && error.holder().is_some(), "{op:?}: {error}");
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_goes_on() {
    whichever_is_forgotten(async |_, session| {
        let lock = session.rw_lock("a").unwrap();
        let reading = lock.write().await.unwrap().downgrade().await.unwrap();
        reading.release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_look_behind_at_the_bound_of_handoffs_goes_on() {
    whichever_is_forgotten(async |_, session| {
        let bound = Handoffs::new().most(1).within(LONG);
        let mutex = with(session, LockOptions::default().handoffs(bound));
        let tasks = (0..4).map(|_| {
            let mutex = mutex.clone();
            crate::spawn(async move {
                let guard = mutex.acquire().await.unwrap();
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lingers_goes_for_others_and_when_its_time_is_over() {
    whichever_is_forgotten(async |store, session| {
        let mutex = with(session, LockOptions::default().linger(Duration::from_secs(5)));
        drop(mutex.acquire().await.unwrap());
        let other = on(store).mutex("a").unwrap();
        timeout(4 * T, other.acquire()).await.unwrap().unwrap().release().await.unwrap();
        drop(mutex.acquire().await.unwrap());
        sleep(Duration::from_secs(6)).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_is_left_and_taken_away() {
    for options in [
        LockOptions::default().lock_delay(Duration::from_secs(5)),
        LockOptions::default().hold_at_least(Duration::from_millis(100)),
        LockOptions::default().stop_at(StopAt::Suspect).lock_delay(Duration::from_secs(5)),
    ] {
        whichever_is_forgotten(async |store, session| {
            for _ in 0..2 {
                with(session, options).acquire().await.unwrap().release().await.unwrap();
            }
            sleep(3 * T).await;
            assert_eq!(data(store, "/zklock/a").await, r#"{"zklock":1,"kept":true}"#);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_made_read_and_compared() {
    whichever_is_forgotten(async |_, session| {
        let semaphore = session.semaphore_with_limit_at("a", "limits/a", 2).unwrap();
        let one = semaphore.acquire().await.unwrap();
        assert_eq!(semaphore.limit(), Some(2));
        one.release().await.unwrap();
    })
    .await;
    for empty in [false, true] {
        whichever_is_forgotten(async |store, session| {
            if empty {
                made_by_others(store, "/zklock/a").await;
            }
            let semaphore = session.semaphore("a", 2).unwrap().with_driver(Kazoo::default());
            semaphore.acquire().await.unwrap().release().await.unwrap();
            assert_eq!(data(store, "/zklock/a").await, "2");
        })
        .await;
    }
}

/// Makes an empty node, and those above it, as another client does.
async fn made_by_others(store: &Embedded, path: &str) {
    let others = client(store).await;
    let above = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
    for path in above.chain([path]) {
        others.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_a_limit_is_written_into_an_empty_node_in_time() {
    whichever_is_forgotten_of(BY_DEFAULT, async |store, session| {
        made_by_others(store, "/zklock/a").await;
        let semaphore = session.semaphore("a", 2).unwrap().with_driver(Kazoo::default());
        semaphore.acquire_tries().await.unwrap().release().await.unwrap();
        assert_eq!(data(store, "/zklock/a").await, "2");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn by_default_a_number_that_is_the_name_of_another_lock_is_skipped_in_time() {
    whichever_is_forgotten_of(BY_DEFAULT, async |store, session| {
        made_by_others(store, "/zklock/a/sub_0000000001/in-use").await;
        let mutex = session.mutex("a").unwrap().with_driver(Numbered::dlock());
        let guard = mutex.acquire_tries().await.unwrap();
        assert_eq!(guard.node_path(), "/zklock/a/sub_0000000002");
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_look_from_outside_is_answered() {
    whichever_is_forgotten(async |store, session| {
        let guard = on(store).mutex("a").unwrap().acquire().await.unwrap();
        let site = session.site("a").unwrap();
        let queue = site.contenders().await.unwrap();
        assert!(queue.len() == 1 && queue[0].holds);
        let mut events = site.events();
        loop {
            match events.next().await.unwrap() {
                LockEvent::Granted(holder) => break assert_eq!(holder, queue[0]),
                LockEvent::Blind | LockEvent::Joined(_) => {}
                other => panic!("{other:?}"),
            }
        }
        drop(guard);
        loop {
            match events.next().await.unwrap() {
                LockEvent::Left(_) => break,
                LockEvent::Blind => {}
                other => panic!("{other:?}"),
            }
        }
        let guard = on(store).mutex("a").unwrap().acquire().await.unwrap();
        assert_eq!(site.revoke().await.unwrap(), 1);
        drop(guard);
    })
    .await;
}

/// Somebody is ahead who never goes, which is looked at after a while.
#[tokio::test(start_paused = true)]
async fn the_look_at_who_stays_goes_on() {
    whichever_is_forgotten(async |store, session| {
        let peer = client(store).await;
        for path in ["/zklock", "/zklock/a", "/zklock/a/_c_7-lock-0000000000"] {
            peer.create(path, b"", NodeKind::Persistent).await.unwrap();
        }
        let error = session.mutex("a").unwrap().acquire().await.unwrap_err();
        assert!(format!("{error:#}").contains("is not an ephemeral node"), "{error}");
        peer.delete("/zklock/a/_c_7-lock-0000000000").await.unwrap();
    })
    .await;
}

/// In a layout in which only their owner tells whose they are, the reader's node of a writer who steps
/// down looks like one in doubt.
#[tokio::test(start_paused = true)]
async fn who_looks_for_its_node_does_not_take_that_of_a_writer_who_steps_down() {
    for in_doubt_first in [true, false] {
        let store = Embedded::new();
        let session = briefly(&store);
        let lock = session.rw_lock("a").unwrap().with_driver(ReadWriteNodes);
        let lock = lock.with_options(LockOptions::default().fair(true));
        let writing = lock.write().await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        // The reader's, which is not made; or the writer's, which is.
        let fault = if in_doubt_first { Fault::lose_request() } else { Fault::forget_reply() };
        faults.inject(fault.on(Op::Create).path("read-node"));
        let read = || {
            crate::spawn({
                let lock = lock.clone();
                async move { lock.read().await.unwrap() }
            })
        };
        let (stepped_down, reading) = if in_doubt_first {
            let reading = read();
            sleep(Duration::from_millis(1)).await;
            (writing.downgrade().await.unwrap(), reading)
        } else {
            let stepped_down = writing.downgrade().await.unwrap();
            faults.inject(Fault::lose_request().on(Op::Create).path("read-node"));
            (stepped_down, read())
        };
        let reading = timeout(LONG, reading).await.unwrap().unwrap();
        assert_ne!(stepped_down.node_path(), reading.node_path());
        stepped_down.release().await.unwrap();
        assert!(reading.is_valid());
        let error = lock.try_write().await.unwrap_err();
        assert!(error.is_busy(), "{error}");
        reading.release().await.unwrap();
    }
}

/// Contenders of another program below this path, one behind the other.
async fn queued(raw: &dyn Coordinator, below: &str, number: u32) -> Vec<String> {
    queued_for(raw, (below, "lock"), number).await
}

async fn queued_for(
    raw: &dyn Coordinator,
    (below, what): (&str, &str),
    number: u32,
) -> Vec<String> {
    let mut paths = Vec::new();
    for one in 1..=number {
        let path = format!("{below}/_c_be2ee212-c507-4b18-a733-81c86278175{one}-{what}-");
        paths.push(raw.create(&path, b"", NodeKind::EphemeralSequential).await.unwrap().path);
    }
    paths
}

/// Who was in the way has left, and ZooKeeper does not say who else is.
#[tokio::test(start_paused = true)]
async fn a_lock_is_not_busy_with_who_has_left_long_ago() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let paths = queued(&*raw, "/zklock/a", 2).await;
    let waiting =
        crate::spawn(async move { mutex.acquire_timeout(Duration::from_millis(500)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::forget_reply().on(Op::Children).times(99));
    for path in paths {
        raw.delete(&path).await.unwrap();
    }
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error:#}");
}

/// Whoever begins to wait is not told that it waits, and so not when the lock is free: before its deadline it asks
/// who is in the way, and lists the queue again where that one has left.
#[tokio::test(start_paused = true)]
async fn whoever_hears_nothing_of_a_free_lock_gets_it_before_the_deadline() {
    for (permits, op, begins) in [(false, Op::Get, "lock-"), (true, Op::Children, "leases")] {
        let (store, session) = store();
        let lock: zklock::AnyLock = if permits {
            session.semaphore("a", 1).unwrap().into()
        } else {
            session.mutex("a").unwrap().into()
        };
        lock.acquire().await.unwrap().release().await.unwrap();
        let raw = client(&store).await;
        let (below, kind) = if permits { ("/leases", "lease") } else { ("", "lock") };
        let theirs = format!("/zklock/a{below}/_c_be2ee212-c507-4b18-a733-81c86278175c-{kind}-");
        let theirs = raw.create(&theirs, b"", NodeKind::EphemeralSequential).await.unwrap().path;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        // The list behind the own node comes before the one that begins to watch.
        let lists = u64::from(permits);
        faults.inject(Fault::forget_reply().on(op).path(begins).skip(lists));
        let waiting =
            crate::spawn(async move { lock.acquire_timeout(Duration::from_millis(500)).await });
        sleep(Duration::from_millis(50)).await;
        raw.delete(&theirs).await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.is_valid(), "permits: {permits}");
    }
}

/// The list that shows it is lost alone: it is asked for again.
#[tokio::test(start_paused = true)]
async fn whoever_hears_the_news_and_not_what_they_are_asks_again_before_the_deadline() {
    for (permits, fair) in [(false, false), (false, true), (true, false)] {
        let (store, session) = store();
        let (below, kind) = if permits { ("/leases", "lease") } else { ("", "lock") };
        let lock: zklock::AnyLock = if permits {
            session.semaphore("a", 1).unwrap().into()
        } else {
            with(&session, LockOptions::default().fair(fair)).into()
        };
        lock.acquire().await.unwrap().release().await.unwrap();
        let raw = client(&store).await;
        let theirs = format!("/zklock/a{below}/_c_be2ee212-c507-4b18-a733-81c86278175c-{kind}-");
        let mut paths = Vec::new();
        // Of two who are ahead, the deletion of one is news, and no grant.
        for _ in 0..2 - u8::from(permits) {
            paths.push(raw.create(&theirs, b"", NodeKind::EphemeralSequential).await.unwrap().path);
        }
        let waiting =
            crate::spawn(async move { lock.acquire_timeout(Duration::from_millis(500)).await });
        sleep(Duration::from_millis(50)).await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.inject(Fault::forget_reply().on(Op::Children));
        for path in paths {
            raw.delete(&path).await.unwrap();
        }
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.is_valid(), "permits: {permits}, fair: {fair}");
    }
}

/// The same where the first holder is still there, and another one has left: one is in nobody's way.
#[tokio::test(start_paused = true)]
async fn whoever_hears_nothing_of_a_free_permit_beside_others_gets_it_before_the_deadline() {
    let (store, session) = store();
    let semaphore = session.semaphore("a", 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let theirs = "/zklock/a/leases/_c_be2ee212-c507-4b18-a733-81c86278175c-lease-";
    raw.create(theirs, b"", NodeKind::EphemeralSequential).await.unwrap();
    let second = raw.create(theirs, b"", NodeKind::EphemeralSequential).await.unwrap().path;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::forget_reply().on(Op::Children).path("leases").skip(1));
    let waiting =
        crate::spawn(async move { semaphore.acquire_timeout(Duration::from_millis(500)).await });
    sleep(Duration::from_millis(50)).await;
    raw.delete(&second).await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_valid());
}

/// Nobody is told that the first one leaves, but who is next. The others are still in the way, and ZooKeeper says so
/// with one answer.
#[tokio::test(start_paused = true)]
async fn a_lock_is_busy_with_who_is_ahead_once_the_first_has_left() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let paths = queued(&*raw, "/zklock/a", 4).await;
    let wanted = mutex.clone();
    let waiting =
        crate::spawn(async move { wanted.acquire_timeout(Duration::from_millis(500)).await });
    sleep(Duration::from_millis(50)).await;
    raw.delete(&paths[0]).await.unwrap();
    store.record();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_busy(), "{error:#}");
    let asked = store.recorded();
    assert!(asked.iter().all(|request| request.op != Op::Children), "{asked:?}");
}

/// Who waited between has given up just now, or so that the waiter did not hear of it.
#[tokio::test(start_paused = true)]
async fn a_lock_is_busy_with_its_holder_though_another_has_left_unheard() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let paths = queued(&*raw, "/zklock/a", 3).await;
    let wanted = mutex.clone();
    let waiting =
        crate::spawn(async move { wanted.acquire_timeout(Duration::from_millis(500)).await });
    sleep(Duration::from_millis(50)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::forget_reply().on(Op::Children).times(99));
    for gone in &paths[1..] {
        raw.delete(gone).await.unwrap();
    }
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_busy(), "{error:#}");
    assert!(paths[0].ends_with(&error.holder().unwrap().node), "{error:#}");
}

/// One of two leases is free, and the list that would show it is lost: its answer is not joined by the question
/// before the deadline, which has one of its own.
#[tokio::test(start_paused = true)]
async fn a_lock_is_not_busy_with_one_of_two_holders_when_the_other_has_left() {
    for fair in [false, true] {
        let (store, session) = store();
        let mutex = with(&session, LockOptions::default().fair(fair));
        let mutex = mutex.with_driver(MaxLeases::new(2, Curator).unwrap());
        mutex.acquire().await.unwrap().release().await.unwrap();
        let raw = client(&store).await;
        let paths = queued(&*raw, "/zklock/a", 2).await;
        let waiting =
            crate::spawn(async move { mutex.acquire_timeout(Duration::from_millis(500)).await });
        sleep(Duration::from_millis(50)).await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.inject(Fault::forget_reply().on(Op::Children).times(99));
        raw.delete(&paths[1]).await.unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        assert!(error.is_unavailable(), "fair: {fair}: {error:#}");
    }
}

/// Nor is it for who only tries, behind another caller of this process who waits for that list.
#[tokio::test(start_paused = true)]
async fn a_try_is_not_busy_with_one_of_two_holders_when_the_other_has_left() {
    for fair in [false, true] {
        let (store, session) = store();
        let mutex = with(&session, LockOptions::default().fair(fair));
        let mutex: AnyLock = mutex.with_driver(MaxLeases::new(2, Curator).unwrap()).into();
        let permit: AnyLock = session.semaphore("b", 2).unwrap().into();
        for (lock, theirs) in
            [(mutex, ("/zklock/a", "lock")), (permit, ("/zklock/b/leases", "lease"))]
        {
            lock.acquire().await.unwrap().release().await.unwrap();
            let raw = client(&store).await;
            let paths = queued_for(&*raw, theirs, 2).await;
            let wanted = lock.clone();
            let waiting = crate::spawn(async move { wanted.acquire().await });
            sleep(Duration::from_millis(50)).await;
            let faults = store.faults(session.zookeeper_session().unwrap().id);
            faults.inject(Fault::forget_reply().on(Op::Children).times(u64::MAX));
            if let AnyLock::Mutex(_) = lock {
                // Nor where the other has not left, which nobody says either.
                let error = lock.try_acquire().await.unwrap_err();
                assert!(error.is_unavailable(), "{lock:?}, fair: {fair}: {error:#}");
            }
            raw.delete(&paths[1]).await.unwrap();
            let error = lock.try_acquire().await.unwrap_err();
            assert!(error.is_unavailable(), "{lock:?}, fair: {fair}: {error:#}");
            faults.clear();
            waiting.await.unwrap().unwrap().release().await.unwrap();
            raw.delete(&paths[0]).await.unwrap();
        }
    }
}

/// The answer about the holder is lost, with its connection or alone, and there is time for another one.
#[tokio::test(start_paused = true)]
async fn whoever_does_not_hear_who_holds_a_lock_asks_again_before_the_deadline() {
    for (lost, others) in
        [(Fault::lose_reply(), 0), (Fault::forget_reply(), 0), (Fault::forget_reply(), 3)]
    {
        let (store, session) = store();
        let mutex = session.mutex("a").unwrap();
        mutex.acquire().await.unwrap().release().await.unwrap();
        let raw = client(&store).await;
        let paths = queued(&*raw, "/zklock/a", 1 + others).await;
        let waiting =
            crate::spawn(async move { mutex.acquire_timeout(Duration::from_millis(800)).await });
        sleep(Duration::from_millis(100)).await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let holder = paths[0].rsplit('/').next().unwrap();
        faults.inject(lost.clone().on(Op::Get).path(holder));
        let error = waiting.await.unwrap().unwrap_err();
        assert!(error.is_busy(), "{lost:?}, {others}: {error:#}");
        let named = error.holder().is_some_and(|named| holder.ends_with(&named.node));
        assert!(named, "{lost:?}, {others}: {error:#}");
    }
}

/// All who ask at the same time share a list.
#[tokio::test(start_paused = true)]
async fn many_who_wait_for_permits_ask_with_one_list_before_their_deadline() {
    let (store, session) = store();
    let semaphore = session.semaphore("a", 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let lease = "/zklock/a/leases/_c_be2ee212-c507-4b18-a733-81c86278175c-lease-";
    raw.create(lease, b"", NodeKind::EphemeralSequential).await.unwrap();
    queued(&*raw, "/zklock/a/locks", 1).await;
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let semaphore = semaphore.clone();
            let timeout = Duration::from_millis(800);
            crate::spawn(async move { semaphore.acquire_timeout(timeout).await })
        })
        .collect();
    sleep(Duration::from_millis(100)).await;
    store.record();
    for waiting in waiting {
        let error = waiting.await.unwrap().unwrap_err();
        assert!(error.is_busy() && error.holder().is_some(), "{error:#}");
    }
    let asked = store.recorded().into_iter().filter(|request| request.op == Op::Children);
    let asked: Vec<_> = asked.collect();
    assert!(asked.len() <= 2, "{} lists: {asked:?}", asked.len());
}

/// ZooKeeper answers, although it does not say who is in the way.
#[tokio::test(start_paused = true)]
async fn who_may_not_ask_for_the_holder_is_told_so() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let ahead = "/zklock/a/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-";
    let raw = client(&store).await;
    raw.create(ahead, b"", NodeKind::EphemeralSequential).await.unwrap();
    let waiting =
        crate::spawn(async move { mutex.acquire_timeout(Duration::from_millis(500)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Get).path("be2ee212").times(9));
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:#}");
}

/// The same where any change of the directory wakes who waits.
#[tokio::test(start_paused = true)]
async fn a_permit_is_not_busy_with_who_has_left_long_ago() {
    let (store, session) = store();
    let semaphore = session.semaphore("a", 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let theirs = "/zklock/a/leases/_c_be2ee212-c507-4b18-a733-81c86278175c-lease-";
    let theirs = raw.create(theirs, b"", NodeKind::EphemeralSequential).await.unwrap().path;
    let waiting =
        crate::spawn(async move { semaphore.acquire_timeout(Duration::from_millis(500)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::forget_reply().on(Op::Children).times(99));
    raw.delete(&theirs).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error:#}");
}

/// The same where somebody was ahead who waited for a permit.
#[tokio::test(start_paused = true)]
async fn a_permit_is_not_busy_with_who_was_ahead_and_has_left() {
    let (store, session) = store();
    let semaphore = session.semaphore("a", 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let ahead = queued(&*raw, "/zklock/a/locks", 2).await;
    let waiting =
        crate::spawn(async move { semaphore.acquire_timeout(Duration::from_millis(500)).await });
    sleep(Duration::from_millis(50)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::forget_reply().on(Op::Children).path("locks").times(99));
    for path in ahead {
        raw.delete(&path).await.unwrap();
    }
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error:#}");
}

/// The same where the only node of a lock was another's.
#[tokio::test(start_paused = true)]
async fn the_only_node_of_a_lock_is_not_in_the_way_once_it_has_gone() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_driver(OneNode);
    let held = mutex.acquire().await.unwrap();
    let path = held.node_path().to_owned();
    held.release().await.unwrap();
    let raw = client(&store).await;
    raw.create(&path, b"", NodeKind::Ephemeral).await.unwrap();
    let waiting =
        crate::spawn(async move { mutex.acquire_timeout(Duration::from_millis(500)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::forget_reply().on(Op::Create));
    raw.delete(&path).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error:#}");
}

/// Also those who try only, and have not looked themselves.
#[tokio::test(start_paused = true)]
async fn whoever_tries_beside_another_and_may_not_ask_for_the_holder_is_told_so() {
    for permits in [false, true] {
        let (store, session) = prompt();
        let lock: zklock::AnyLock = if permits {
            session.semaphore("a", 1).unwrap().into()
        } else {
            session.mutex("a").unwrap().into()
        };
        lock.acquire().await.unwrap().release().await.unwrap();
        let (ahead, kind) = if permits { ("/leases", "lease") } else { ("", "lock") };
        let raw = client(&store).await;
        // Whoever waits may read the node that it waits for, which is the one two ahead.
        for id in ["be2ee212-c507", "0f1b5c9e-c507", "77a01c3d-c507"] {
            let id = format!("{id}-4b18-a733-81c86278175c");
            let ahead = format!("/zklock/a{ahead}/_c_{id}-{kind}-");
            raw.create(&ahead, b"", NodeKind::EphemeralSequential).await.unwrap();
        }
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Get).path("be2ee212").times(99));
        faults.hold_replies();
        let waits = lock.clone();
        let waits = crate::spawn(async move { waits.acquire_timeout(LONG).await.map(drop) });
        sleep(Duration::from_millis(1)).await;
        let tries = crate::spawn(async move { lock.try_acquire().await.map(drop) });
        sleep(Duration::from_millis(1)).await;
        faults.release();
        let error = timeout(T, tries).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:#}");
        assert!(!waits.is_finished());
        waits.abort();
    }
}

/// Something happened, and ZooKeeper does not say what; but whoever was in the way still is.
#[tokio::test(start_paused = true)]
async fn a_permit_is_busy_with_who_is_still_there() {
    let (store, session) = store();
    let semaphore = session.semaphore("a", 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let theirs = "/zklock/a/leases/_c_be2ee212-c507-4b18-a733-81c86278175c-lease-";
    let path = raw.create(theirs, b"", NodeKind::EphemeralSequential).await.unwrap().path;
    let waiting =
        crate::spawn(async move { semaphore.acquire_timeout(Duration::from_millis(500)).await });
    sleep(Duration::from_millis(50)).await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::forget_reply().on(Op::Children));
    raw.create(theirs, b"", NodeKind::EphemeralSequential).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_busy(), "{error:#}");
    assert!(path.ends_with(&error.holder().unwrap().node), "{error:#}");
}

/// When a session sends requests of this kind about a node, in the first nine seconds.
async fn sent(store: &Embedded, session: &Session, op: Op, path: &str) -> Vec<f64> {
    let id = session.zookeeper_session().unwrap().id;
    let is_one = |sent: &&Logged| (sent.session, sent.op, &*sent.path) == (id, op, path);
    store.record();
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < 9 * T {
        let count = store.recorded().iter().filter(is_one).count();
        times.resize(count, start.elapsed().as_secs_f64());
        sleep(Duration::from_millis(1)).await;
    }
    times
}

/// As soon as they may, and a moment later: a pause between two deletions is beside this.
fn doubling(what: &str, times: &[f64]) {
    let is_near = |(sent, expected): (&f64, f64)| (expected..expected + 0.2).contains(sent);
    let expected = [0.0, 1.0, 3.0, 7.0];
    let is_so = times.len() == 4 && times.iter().zip(expected).all(is_near);
    assert!(is_so, "{what} at {times:?} s");
}

/// No answer to it comes, and those to others do.
#[tokio::test(start_paused = true)]
async fn what_is_not_answered_is_asked_for_after_intervals_that_double() {
    for session_timeout in [10, 30].map(Duration::from_secs) {
        let (store, holder) = prompt();
        let session = lasting(&store, session_timeout);
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let unheard = |op, path: &str| {
            faults.inject(Fault::forget_reply().on(op).path(path).times(u64::MAX));
        };
        // A read of a node, by who waits for it.
        let held = holder.mutex("a").unwrap().acquire().await.unwrap();
        let path = held.node_path().to_owned();
        unheard(Op::Get, &path);
        let mutex = session.mutex("a").unwrap();
        let waiting = crate::spawn(async move { mutex.acquire().await });
        doubling("read", &sent(&store, &session, Op::Get, &path).await);
        waiting.abort();
        faults.clear();
        held.release().await.unwrap();
        // A deletion.
        let held = session.mutex("b").unwrap().acquire().await.unwrap();
        let path = held.node_path().to_owned();
        unheard(Op::Delete, &path);
        let releasing = crate::spawn(held.release());
        doubling("deletion", &sent(&store, &session, Op::Delete, &path).await);
        faults.clear();
        releasing.await.unwrap().unwrap();
        // The creation of a directory.
        let mutex = session.mutex("c").unwrap();
        let unmade = Fault::forget_reply().on(Op::Create).path("/zklock/c");
        faults.inject(unmade.skip(1).times(u64::MAX));
        let making = crate::spawn(async move { mutex.acquire().await });
        doubling("creation", &sent(&store, &session, Op::Create, "/zklock/c").await);
        making.abort();
        faults.clear();
    }
}
