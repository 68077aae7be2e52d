//! One name as locks of two kinds that do not exclude each other.

use std::time::Duration;

use zklock::driver::LockDriver;
use zklock::layout::{Curator, HostNodes, Kazoo, MaxLeases, Numbered, ReadWriteNodes, Removed};
use zklock::{AnyLock, Embedded, ErrorKind, LockError, LockOptions, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;

use crate::layouts::Tickets;
use crate::support::{client, contenders, on, prompt, store};

const SHORT: Duration = Duration::from_millis(300);

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// The mutex and the read/write lock of a name: those that do not see a semaphore.
fn locks(session: &Session, kazoo: bool) -> Vec<AnyLock> {
    let (mutex, rw_lock) = (session.mutex("a").unwrap(), session.rw_lock("a").unwrap());
    let fair = session.mutex("a").unwrap().with_options(LockOptions::new().fair(true));
    if kazoo {
        let rw_lock = rw_lock.with_driver(Kazoo::default());
        let [mutex, fair] = [mutex, fair].map(|mutex| mutex.with_driver(Kazoo::default()));
        return vec![
            mutex.into(),
            fair.into(),
            AnyLock::Read(rw_lock.clone()),
            AnyLock::Write(rw_lock),
        ];
    }
    vec![mutex.into(), fair.into(), AnyLock::Read(rw_lock.clone()), AnyLock::Write(rw_lock)]
}

fn semaphore(session: &Session, kazoo: bool) -> AnyLock {
    let semaphore = session.semaphore("a", 2).unwrap();
    if kazoo { semaphore.with_driver(Kazoo::default()).into() } else { semaphore.into() }
}

/// The error names the other kind, what to do, and to those who run the service where.
fn assert_told(error: &LockError, present: &str, place: &str) {
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error:#}");
    let (said, all) = (error.to_string(), format!("{error:#}"));
    assert!(said.contains(present) && said.contains("another name"), "{said}");
    assert!(all.contains(place), "{all}");
    assert!(!error.is_busy() && error.lock_name() == Some("a"));
}

async fn no_nodes(store: &Embedded) {
    settle().await;
    for path in ["/zklock/a", "/zklock/a/leases", "/zklock/a/locks"] {
        let client = client(store).await;
        let left = client.children(path).await.unwrap_or_default();
        assert!(left.iter().all(|name| name == "leases" || name == "locks"), "{path}: {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_one_process_the_second_kind_is_refused_as_long_as_the_first_is_in_use() {
    for (kazoo, elsewhere) in [(false, false), (false, true), (true, false), (true, true)] {
        let (store, session) = store();
        let other = if elsewhere { on(&store) } else { session.clone() };
        // Handles that nobody uses are in nobody's way.
        let (locks, semaphore) = (locks(&session, kazoo), semaphore(&other, kazoo));
        for lock in &locks {
            let held = lock.acquire().await.unwrap();
            for refused in [semaphore.try_acquire().await, semaphore.acquire().await] {
                let kind =
                    if matches!(lock, AnyLock::Mutex(_)) { "a mutex" } else { "a read/write" };
                assert_told(&refused.unwrap_err(), kind, "/zklock/a");
            }
            assert!(held.is_valid());
            held.release().await.unwrap();
            semaphore.try_acquire().await.unwrap().release().await.unwrap();
        }
        let permit = semaphore.acquire().await.unwrap();
        for lock in &locks {
            for refused in [lock.try_acquire().await, lock.acquire().await] {
                assert_told(&refused.unwrap_err(), "a semaphore", "/zklock/a");
            }
        }
        assert!(permit.is_valid());
        drop(permit);
        for lock in &locks {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        drop(session);
        no_nodes(&store).await;
    }
}

/// It has a queue of its own.
#[tokio::test(start_paused = true)]
async fn who_holds_a_fair_permit_in_another_session_of_the_process_is_named() {
    let (store, session) = store();
    let fair = LockOptions::new().fair(true);
    let semaphore = on(&store).semaphore("a", 3).unwrap().with_options(fair);
    let permit = semaphore.acquire().await.unwrap();
    let refused = session.mutex("a").unwrap().acquire().await.unwrap_err();
    assert!(format!("{refused:#}").contains("of this process holds it"), "{refused:#}");
    permit.release().await.unwrap();
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_waits_uses_the_name_too() {
    let (store, session) = store();
    // In another process: this one does not know of it.
    let raw = client(&store).await;
    let mutex = session.mutex("a").unwrap();
    drop(mutex.acquire().await.unwrap());
    settle().await;
    let theirs = "/zklock/a/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000";
    raw.create(theirs, b"", NodeKind::Ephemeral).await.unwrap();
    let waiting = crate::spawn(async move { mutex.acquire_timeout(SHORT).await });
    settle().await;
    let refused = semaphore(&session, false).acquire().await.unwrap_err();
    assert_told(&refused, "a mutex", "waits for");
    assert!(waiting.await.unwrap().unwrap_err().is_busy());
    raw.delete(theirs).await.unwrap();
    semaphore(&session, false).acquire().await.unwrap().release().await.unwrap();
}

/// Who waits in a queue of its own does so where other sessions of the process find it: ZooKeeper is asked
/// about other processes only. Neither sees the other's node before both have joined.
#[tokio::test(start_paused = true)]
async fn who_waits_in_a_queue_of_its_own_uses_the_name_in_all_sessions_of_the_process() {
    let kept = LockOptions::new().hold_at_least(Duration::from_millis(1));
    for options in [LockOptions::new().fair(true), kept] {
        for permits_first in [false, true] {
            let (store, one) = store();
            let other = on(&store);
            let mutex: AnyLock = one.mutex("a").unwrap().with_options(options).into();
            let fair = LockOptions::new().fair(true);
            let semaphore: AnyLock = other.semaphore("a", 2).unwrap().with_options(fair).into();
            // Both sessions know that the name is that of two locks, and have their connections.
            for lock in [&mutex, &semaphore] {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
            settle().await;
            let (first, second, kind) = match permits_first {
                false => (mutex, semaphore, "a mutex"),
                true => (semaphore, mutex, "a semaphore"),
            };
            let waiting = crate::spawn(async move { first.acquire().await });
            // Its request is under way, and nothing is answered.
            tokio::task::yield_now().await;
            let refused = second.acquire().await.unwrap_err();
            assert_told(&refused, kind, "waits for");
            let held = waiting.await.unwrap().unwrap();
            assert_told(&second.acquire().await.unwrap_err(), kind, "holds");
            held.release().await.unwrap();
            second.acquire().await.unwrap().release().await.unwrap();
        }
    }
}

/// In Curator's layout and in kazoo's they stand in one queue.
#[tokio::test(start_paused = true)]
async fn a_mutex_and_a_read_write_lock_of_one_name_exclude_each_other() {
    for kazoo in [false, true] {
        let (store, session) = store();
        let (ours, theirs) = (locks(&session, kazoo), locks(&on(&store), kazoo));
        for (at, lock) in ours.iter().enumerate() {
            let held = lock.acquire().await.unwrap();
            for (other_at, other) in theirs.iter().enumerate() {
                if (at, other_at) != (2, 2) {
                    assert!(other.try_acquire().await.unwrap_err().is_busy(), "{at} {other_at}");
                }
            }
            held.release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn permits_of_another_process_below_the_directory_are_told() {
    let (store, session) = store();
    let (raw, path) = (client(&store).await, "/zklock/a/leases/_c_x-lease-0000000003");
    drop(semaphore(&session, false).acquire().await.unwrap());
    settle().await;
    // What is left of a semaphore that nobody uses is in nobody's way.
    for lock in locks(&session, false) {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    // A mutex of Java may have the name `a/locks`.
    for foreign in
        ["leases/config", "leases/_c_x-lease-1", "locks/config", "locks/_c_x-lock-0000000001"]
    {
        raw.create(&format!("/zklock/a/{foreign}"), b"", NodeKind::Ephemeral).await.unwrap();
    }
    // It is listed before the one that is none of the semaphore's.
    let stays = "/zklock/a/leases/_c_x-lease-0000000001";
    raw.create(stays, b"10.0.0.7", NodeKind::Persistent).await.unwrap();
    for lock in locks(&session, false) {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    raw.create(path, b"10.0.0.7", NodeKind::Ephemeral).await.unwrap();
    for lock in locks(&session, false) {
        for refused in [lock.acquire().await, lock.try_acquire().await] {
            let refused = refused.unwrap_err();
            assert_told(&refused, "a semaphore", path);
            assert_eq!(refused.holder().map(|holder| &*holder.owner.host), Some("10.0.0.7"));
        }
    }
    settle().await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2, "the two directories");
    raw.delete(path).await.unwrap();
    for lock in locks(&session, false) {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

/// Others may come and go as fast as it is looked. Whoever finds another one each time waits for none of them.
#[tokio::test(start_paused = true)]
async fn a_name_whose_users_change_at_each_look_is_in_use() {
    // Each look reads the node, and reads it again once it is sure that the server is as new as its leader.
    for (gone, is_in_use) in [(3, false), (4, true), (100, true)] {
        let (store, session) = prompt();
        let (raw, path) = (client(&store).await, "/zklock/a/leases/_c_x-lease-0000000003");
        drop(semaphore(&session, false).acquire().await.unwrap());
        settle().await;
        raw.create(path, b"10.0.0.7", NodeKind::Ephemeral).await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let read = |skip| Fault::refuse(RequestError::NoNode).on(Op::Get).path(path).skip(skip);
        (0..gone).for_each(|look| faults.inject(read(2 * look + 1)));
        if !is_in_use {
            // The last one leaves nobody.
            faults.inject(read(2 * gone));
        }
        store.record();
        let acquired = session.mutex("a").unwrap().acquire().await;
        let reads = store.recorded().iter().filter(|one| one.path == path).count();
        if is_in_use {
            assert_told(&acquired.unwrap_err(), "a semaphore", path);
            assert_eq!(reads, 12, "two reads and a check of each look");
        } else {
            acquired.unwrap().release().await.unwrap();
        }
    }
}

/// The nodes of locks in each layout that is shipped, and of which kind they are.
const NODES: [(&str, &str); 12] = [
    ("_c_x-lock-0000000003", "a mutex"),
    ("_c_x-__READ__0000000003", "a read/write lock"),
    ("_c_x-__WRIT__0000000003", "a read/write lock"),
    ("be2ee212c5074b18a73381c86278175c__lock__0000000003", "a mutex"),
    ("be2ee212c5074b18a73381c86278175c__rlock__0000000003", "a read/write lock"),
    ("sub_0000000003", "a mutex"),
    ("lock-0000000003", "a mutex"),
    ("read-node0000000003", "a read/write lock"),
    ("write-node0000000003", "a read/write lock"),
    ("10.0.0.7-R-0000000003", "a read/write lock"),
    ("10.0.0.7-W-0000000003", "a read/write lock"),
    ("lock", "a mutex"),
];

#[tokio::test(start_paused = true)]
async fn locks_of_another_process_beside_the_permits_are_told() {
    for (name, kind) in NODES {
        let (store, session) = store();
        let (raw, path) = (client(&store).await, format!("/zklock/a/{name}"));
        drop(semaphore(&session, false).acquire().await.unwrap());
        settle().await;
        // The directory of another lock, and what is no node of a lock.
        raw.create(&path, b"", NodeKind::Persistent).await.unwrap();
        raw.create("/zklock/a/config", b"", NodeKind::Ephemeral).await.unwrap();
        drop(semaphore(&session, false).acquire().await.unwrap());
        raw.delete(&path).await.unwrap();
        raw.create(&path, b"10.0.0.7", NodeKind::Ephemeral).await.unwrap();
        for refused in [
            semaphore(&session, false).acquire().await,
            semaphore(&session, false).try_acquire().await,
        ] {
            let refused = refused.unwrap_err();
            assert_told(&refused, kind, &path);
            assert_eq!(refused.holder().map(|holder| &*holder.owner.host), Some("10.0.0.7"));
        }
        settle().await;
        for below in ["leases", "locks"] {
            let left = contenders(&store, &format!("/zklock/a/{below}")).await;
            assert!(left.is_empty(), "{below}: {left:?}");
        }
        raw.delete(&path).await.unwrap();
        semaphore(&session, false).acquire().await.unwrap().release().await.unwrap();
    }
}

const ID: &str = "be2ee212c5074b18a73381c86278175c";

#[tokio::test(start_paused = true)]
async fn permits_of_kazoo_among_the_nodes_of_a_lock_are_told() {
    let (store, session) = store();
    let raw = client(&store).await;
    drop(locks(&session, true)[0].acquire().await.unwrap());
    let path = format!("/zklock/a/{ID}");
    // The directory of another lock, whose name is an id.
    raw.create(&path, b"", NodeKind::Persistent).await.unwrap();
    for lock in locks(&session, true) {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    raw.delete(&path).await.unwrap();
    raw.create(&path, b"worker-7", NodeKind::Ephemeral).await.unwrap();
    for lock in locks(&session, true) {
        assert_told(&lock.acquire().await.unwrap_err(), "a semaphore", &path);
    }
}

/// In each layout that lists the nodes of a lock.
#[tokio::test(start_paused = true)]
async fn permits_of_another_process_are_told_to_the_locks_of_each_layout() {
    fn mutex(driver: impl LockDriver + Clone + 'static) -> impl Fn(&Session) -> Vec<AnyLock> {
        move |session| vec![session.mutex("a").unwrap().with_driver(driver.clone()).into()]
    }
    fn both(driver: impl LockDriver + Clone + 'static) -> impl Fn(&Session) -> Vec<AnyLock> {
        move |session| {
            let lock = session.rw_lock("a").unwrap().with_driver(driver.clone());
            vec![AnyLock::Read(lock.clone()), AnyLock::Write(lock)]
        }
    }
    type Locks = Box<dyn Fn(&Session) -> Vec<AnyLock>>;
    let layouts: [Locks; 10] = [
        Box::new(|session| locks(session, false)),
        Box::new(|session| locks(session, true)),
        Box::new(mutex(Numbered::dlock())),
        Box::new(mutex(Numbered::lock())),
        Box::new(both(ReadWriteNodes)),
        Box::new(both(HostNodes::of("h"))),
        Box::new(mutex(Removed::after(Curator))),
        Box::new(mutex(MaxLeases::new(2, Curator).unwrap())),
        Box::new(mutex(MaxLeases::new(2, Kazoo::default()).unwrap())),
        Box::new(mutex(Tickets)),
    ];
    for permit in ["leases/_c_x-lease-0000000003", ID] {
        for locks in &layouts {
            let (store, session) = store();
            let (raw, path) = (client(&store).await, format!("/zklock/a/{permit}"));
            for directory in ["/zklock", "/zklock/a", "/zklock/a/leases"] {
                raw.create(directory, b"", NodeKind::Persistent).await.unwrap();
            }
            raw.create(&path, b"worker-7", NodeKind::Ephemeral).await.unwrap();
            for lock in locks(&session) {
                for refused in [lock.acquire().await, lock.try_acquire().await] {
                    assert_told(&refused.unwrap_err(), "a semaphore", &path);
                }
            }
            raw.delete(&path).await.unwrap();
            for lock in locks(&session) {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        }
    }
}

/// A semaphore knows the layout of its session beside those that are shipped.
#[tokio::test(start_paused = true)]
async fn locks_of_another_process_in_a_layout_of_ones_own_are_told_beside_permits() {
    for kazoo in [false, true] {
        let (store, other) = store();
        let session = Session::embedded_builder(&store).driver(Tickets).open().unwrap();
        drop(semaphore(&session, kazoo).acquire().await.unwrap());
        settle().await;
        let (raw, path) = (client(&store).await, "/zklock/a/ticket-x-0000000003");
        raw.create(path, b"10.0.0.7", NodeKind::Ephemeral).await.unwrap();
        assert_told(&semaphore(&session, kazoo).acquire().await.unwrap_err(), "a mutex", path);
        // No other session knows whose node it is: among permits of kazoo's it takes one.
        semaphore(&other, kazoo).acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_locks_among_the_permits_of_kazoo_are_told() {
    let (store, session) = store();
    let raw = client(&store).await;
    drop(semaphore(&session, true).acquire().await.unwrap());
    settle().await;
    for (name, kind) in NODES {
        let path = format!("/zklock/a/{name}");
        raw.create(&path, b"worker-7", NodeKind::Ephemeral).await.unwrap();
        for refused in [
            semaphore(&session, true).acquire().await,
            semaphore(&session, true).try_acquire().await,
        ] {
            assert_told(&refused.unwrap_err(), kind, &path);
        }
        raw.delete(&path).await.unwrap();
        // What looks like it and is none takes a permit, as for kazoo.
        let foreign = format!("/zklock/a/{name}x");
        raw.create(&foreign, b"", NodeKind::Ephemeral).await.unwrap();
        let permit = semaphore(&session, true).acquire().await.unwrap();
        assert!(semaphore(&session, true).try_acquire().await.unwrap_err().is_busy());
        drop(permit);
        raw.delete(&foreign).await.unwrap();
    }
}

/// Curator's mutex and its read/write lock do not see each other. Ours see both, but a client of Curator
/// does not see ours.
#[tokio::test(start_paused = true)]
async fn a_client_of_curator_with_the_other_of_mutex_and_read_write_lock_is_told() {
    for (marker, kind, told) in [
        ("__READ__", "a read/write lock", [true, true, false, false]),
        ("__WRIT__", "a read/write lock", [true, true, false, false]),
        ("lock-", "a mutex", [false, false, true, true]),
    ] {
        let (store, session) = store();
        let raw = client(&store).await;
        drop(locks(&session, false)[0].acquire().await.unwrap());
        let path = format!("/zklock/a/_c_be2ee212-c507-4b18-a733-81c86278175c-{marker}0000000000");
        // As Curator writes it, for a revocable lock too, as we do, and what is left of either when it was asked to
        // let go.
        for (data, curators) in [
            ("10.0.0.7", true),
            ("fe80::1", true),
            ("", true),
            (r#"{"host":"b"}"#, false),
            ("__REVOKE__", false),
        ] {
            raw.create(&path, data.as_bytes(), NodeKind::Ephemeral).await.unwrap();
            for (lock, told) in locks(&session, false).into_iter().zip(told) {
                let end = lock.try_acquire().await;
                if told && curators {
                    assert_told(&end.unwrap_err(), kind, &path);
                } else if let Err(error) = end {
                    assert!(error.is_busy(), "{error:#}");
                } else {
                    assert!(marker == "__READ__", "a writer or a mutex is ahead");
                }
            }
            raw.delete(&path).await.unwrap();
        }
    }
}

/// Who is gone by the time that it is asked about hides nobody who is still there, however many they are.
#[tokio::test(start_paused = true)]
async fn a_user_of_another_kind_is_found_behind_many_that_have_left() {
    for (queue, permits) in [("/zklock/a/leases", true), ("/zklock/a", false)] {
        let (store, session) = store();
        let (mutex, semaphore) = (session.mutex("a").unwrap(), semaphore(&session, false));
        semaphore.acquire().await.unwrap().release().await.unwrap();
        let raw = client(&store).await;
        for number in 0..9 {
            let kind = if permits { "lease" } else { "lock" };
            let path =
                format!("{queue}/_c_be2ee212-c507-4b18-a733-81c86278175c-{kind}-{number:010}");
            raw.create(&path, b"", NodeKind::Ephemeral).await.unwrap();
        }
        // As if all but the last one had gone.
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let gone = Fault::refuse(RequestError::NoNode).on(Op::Get).path("be2ee212").times(8);
        faults.inject(gone);
        let (refused, present) = if permits {
            (mutex.try_acquire().await.unwrap_err(), "a semaphore")
        } else {
            (semaphore.try_acquire().await.unwrap_err(), "a mutex")
        };
        assert_told(&refused, present, "/zklock/a");
    }
}

/// Where an answer is missing while it is looked whether a name is of another kind, the list that was read before is
/// old by then.
#[tokio::test(start_paused = true)]
async fn a_node_that_goes_while_another_kind_is_looked_for_is_not_granted() {
    let (store, session) = store();
    semaphore(&session, false).acquire().await.unwrap().release().await.unwrap();
    let (raw, mutex) = (client(&store).await, session.mutex("a").unwrap());
    let left = "/zklock/a/leases/_c_be2ee212-c507-4b18-a733-81c86278175c-lease-0000000007";
    raw.create(left, b"", NodeKind::Persistent).await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::forget_reply().on(Op::Get).path("-lease-"));
    let waiting = crate::spawn(async move { mutex.acquire_timeout(Duration::from_secs(9)).await });
    settle().await;
    let names = raw.children("/zklock/a").await.unwrap();
    let own = names.iter().find(|name| name.contains("-lock-")).unwrap();
    raw.delete(&format!("/zklock/a/{own}")).await.unwrap();
    let theirs = "/zklock/a/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-";
    raw.create(theirs, b"", NodeKind::EphemeralSequential).await.unwrap();
    assert!(waiting.await.unwrap().unwrap_err().is_busy());
}

/// Each look passes by the same nodes again.
#[tokio::test(start_paused = true)]
async fn a_permit_behind_one_that_leaves_and_nodes_that_stay_is_found() {
    let (store, session) = store();
    semaphore(&session, false).acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    let permit = |number: u32| format!("/zklock/a/leases/_c_x-lease-{number:010}");
    // Listed from the greatest number on.
    for number in [8, 9] {
        raw.create(&permit(number), b"", NodeKind::Persistent).await.unwrap();
    }
    for number in [6, 7] {
        raw.create(&permit(number), b"", NodeKind::Ephemeral).await.unwrap();
    }
    // The next one is gone when it is read again.
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let gone = Fault::refuse(RequestError::NoNode).on(Op::Get).path("-lease-0000000007");
    faults.inject(gone.skip(1).times(9));
    let refused = session.mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert_told(&refused, "a semaphore", &permit(6));
}

/// Nodes that may not be read hide nobody, however many they are.
#[tokio::test(start_paused = true)]
async fn a_permit_behind_some_that_may_not_be_read_is_found() {
    let (store, session) = store();
    semaphore(&session, false).acquire().await.unwrap().release().await.unwrap();
    let raw = client(&store).await;
    // Listed from the greatest number on.
    for number in 16..23 {
        let permit = format!("/zklock/a/leases/_c_x-lease-{number:010}");
        raw.create(&permit, b"", NodeKind::Ephemeral).await.unwrap();
    }
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    for secret in 17..23 {
        let path = format!("-lease-{secret:010}");
        faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Get).path(path).times(9));
    }
    let refused = session.mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert_told(&refused, "a semaphore", "-lease-0000000016");
}

/// The same for a look at the directory above, which shows locks beside permits.
#[tokio::test(start_paused = true)]
async fn a_permit_that_goes_while_another_kind_is_looked_for_is_not_granted() {
    let (store, session) = store();
    let semaphore = session.semaphore("a", 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let (raw, leases) = (client(&store).await, "/zklock/a/leases");
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // The first read is of the inner lock, the next one of the directory above, behind the creation.
    faults.inject(Fault::forget_reply().on(Op::Get).skip(1));
    let waiting =
        crate::spawn(async move { semaphore.acquire_timeout(Duration::from_secs(9)).await });
    settle().await;
    let own = raw.children(leases).await.unwrap().pop().unwrap();
    raw.delete(&format!("{leases}/{own}")).await.unwrap();
    let theirs = format!("{leases}/_c_be2ee212-c507-4b18-a733-81c86278175c-lease-");
    raw.create(&theirs, b"10.0.0.7", NodeKind::EphemeralSequential).await.unwrap();
    assert!(waiting.await.unwrap().unwrap_err().is_busy());
}

/// Those of locks below it, whose names could be permits of kazoo's, are read in one round trip.
#[tokio::test(start_paused = true)]
async fn locks_below_it_that_look_like_permits_cost_one_answer() {
    let (store, session) = prompt();
    for digit in ["a", "b", "c", "d", "e"] {
        let below = session.mutex(format!("a/{}", digit.repeat(32))).unwrap();
        below.acquire().await.unwrap().release().await.unwrap();
    }
    let lock = session.mutex("a").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(Duration::from_millis(10));
    let start = tokio::time::Instant::now();
    let _guard = lock.acquire().await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(30), "{:?}", start.elapsed());
}
