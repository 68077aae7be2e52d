//! What lies in a lock's directory and is no contender, in every layout: it is in nobody's way, or
//! the error says what is.

use std::time::Duration;

use zklock::driver::{Attempt, Contender, LockDriver, Verdict};
use zklock::layout::{
    Curator, HostNodes, Kazoo, MaxLeases, Numbered, OneNode, ReadWriteNodes, Removed,
};
use zklock::{AnyLock, Embedded, LockError, LockOptions, Mode, Mutex, RwLock, Session};
use zklock_core::coordinator::node::NodeKind;

use crate::support::{client, contenders, on, prompt, store};

/// Names that no layout gives, and data that no lock writes.
const FOREIGN: [&str; 22] = [
    "!",
    "0",
    "zzz",
    "größe",
    "config",
    "lock-",
    "lock-1",
    "lock-00000000001",
    "lock-9999999999",
    "lock--9999999999",
    "_c_x-lock-y",
    "_c_x-__READ__",
    "_c_x-__WRIT__00000000x0",
    "__lock__",
    "x__rlock__12",
    "x__lock__00000000012",
    "sub_",
    "sub_-0000000001",
    "read-node",
    "write-node1",
    "a-R-",
    "a-W-12345678901",
];

/// A layout, what takes a lock in it, and the name of a node of another client in it.
struct Case {
    layout: &'static str,
    lock: fn(&Session) -> Result<AnyLock, LockError>,
    peer: &'static str,
}

fn mutex(session: &Session) -> Mutex {
    session.mutex("a").unwrap()
}

fn rw(session: &Session) -> RwLock {
    session.rw_lock("a").unwrap()
}

fn in_layout(session: &Session, driver: impl LockDriver) -> Result<AnyLock, LockError> {
    Ok(mutex(session).with_driver(driver).into())
}

/// A reader, where its queue has a writer of another client, and a writer.
fn cases() -> Vec<Case> {
    let case = |layout, lock, peer| Case { layout, lock, peer };
    vec![
        case("Curator", |s| in_layout(s, Curator), "_c_0123456789abcdef0123456789abcdef-lock-"),
        case("Curator, read", |s| Ok(AnyLock::Read(rw(s))), "_c_x-__WRIT__"),
        case("Curator, write", |s| Ok(AnyLock::Write(rw(s))), "_c_x-__READ__"),
        case("Numbered::dlock", |s| in_layout(s, Numbered::dlock()), "sub_"),
        case("Numbered::lock", |s| in_layout(s, Numbered::lock()), "lock-"),
        case("OneNode", |s| in_layout(s, OneNode), "lock"),
        case("Removed", |s| in_layout(s, Removed::after(Curator)), "_c_x-lock-"),
        case("MaxLeases", |s| in_layout(s, MaxLeases::new(1, Curator)?), "_c_x-lock-"),
        case(
            "ReadWriteNodes, read",
            |s| Ok(AnyLock::Read(rw(s).with_driver(ReadWriteNodes))),
            "write-node",
        ),
        case(
            "ReadWriteNodes, write",
            |s| Ok(AnyLock::Write(rw(s).with_driver(ReadWriteNodes))),
            "read-node",
        ),
        case(
            "HostNodes, read",
            |s| Ok(AnyLock::Read(rw(s).with_driver(HostNodes::of("h")))),
            "10.0.0.7-W-",
        ),
        case(
            "HostNodes, write",
            |s| Ok(AnyLock::Write(rw(s).with_driver(HostNodes::of("h")))),
            "10.0.0.7-R-",
        ),
    ]
}

/// kazoo knows holders whose nodes outlive their sessions; all else is as in the others.
fn kazoos() -> Vec<Case> {
    let case = |layout, lock, peer| Case { layout, lock, peer };
    vec![
        case("Kazoo", |s| in_layout(s, Kazoo::default()), "x__lock__"),
        case(
            "Kazoo, read",
            |s| Ok(AnyLock::Read(rw(s).with_driver(Kazoo::default()))),
            "x__lock__",
        ),
        case(
            "Kazoo, write",
            |s| Ok(AnyLock::Write(rw(s).with_driver(Kazoo::default()))),
            "x__rlock__",
        ),
    ]
}

async fn directory(store: &Embedded) {
    let peer = client(store).await;
    for path in ["/zklock", "/zklock/a"] {
        peer.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
}

/// Puts everything foreign into the directory, and a lock of its own below one of it.
async fn litter(store: &Embedded) {
    directory(store).await;
    let peer = client(store).await;
    for name in FOREIGN {
        let path = format!("/zklock/a/{name}");
        peer.create(&path, b"\xff\0\xff", NodeKind::Persistent).await.unwrap();
    }
    let below = "/zklock/a/zzz/_c_x-lock-";
    peer.create(below, b"", NodeKind::EphemeralSequential).await.unwrap();
    std::mem::forget(peer);
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn foreign_and_malformed_children_are_in_nobodys_way_in_any_layout() {
    for Case { layout, lock, .. } in cases().into_iter().chain(kazoos()) {
        let (store, session) = prompt();
        litter(&store).await;
        let other = Session::embedded_builder(&store).open().unwrap();
        let guard = lock(&session).unwrap().try_acquire().await.unwrap();
        let tried = lock(&other).unwrap().try_acquire().await;
        if layout.ends_with("read") {
            tried.unwrap().release().await.unwrap();
        } else {
            let holder = tried.unwrap_err().holder().unwrap().node.clone();
            assert!(guard.node_path().ends_with(&holder), "{layout}: {holder}");
        }
        let queue = match lock(&session).unwrap() {
            AnyLock::Mutex(mutex) => mutex.site(),
            AnyLock::Read(rw) | AnyLock::Write(rw) => rw.site(),
            _ => unreachable!(),
        };
        let seen = queue.contenders().await.unwrap();
        assert_eq!(seen.len(), 1, "{layout}: {seen:?}");
        let waiting = crate::spawn({
            let lock = lock(&other).unwrap();
            async move { lock.acquire().await.unwrap() }
        });
        settle().await;
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        settle().await;
        assert_eq!(contenders(&store, "/zklock/a").await.len(), FOREIGN.len(), "{layout}");
    }
}

/// The directory of a lock whose name looks like a contender's, with somebody in it, is in nobody's
/// way. Where all want one name, that name is taken.
#[tokio::test(start_paused = true)]
async fn a_lock_below_is_passed_by_though_its_name_looks_like_a_contenders() {
    for Case { layout, lock, peer } in cases().into_iter().chain(kazoos()) {
        if layout == "OneNode" {
            continue;
        }
        let (store, session) = prompt();
        directory(&store).await;
        let below = ahead(&store, peer, true).await;
        let inner = client(&store).await;
        let node = format!("{below}/x-lock-");
        inner.create(&node, b"", NodeKind::EphemeralSequential).await.unwrap();
        let other = Session::embedded_builder(&store).open().unwrap();
        let guard = lock(&session).unwrap().try_acquire().await.unwrap();
        let queue = match lock(&session).unwrap() {
            AnyLock::Mutex(mutex) => mutex.site(),
            AnyLock::Read(rw) | AnyLock::Write(rw) => rw.site(),
            _ => unreachable!(),
        };
        let seen = queue.contenders().await.unwrap();
        assert_eq!(seen.len(), 1, "{layout}: {seen:?}");
        assert!(seen[0].here && seen[0].holds, "{layout}: {seen:?}");
        let tried = lock(&other).unwrap().try_acquire().await;
        if layout.ends_with("read") {
            tried.unwrap().release().await.unwrap();
        } else {
            assert!(tried.unwrap_err().is_busy(), "{layout}");
        }
        let waiting = crate::spawn({
            let lock = lock(&other).unwrap();
            async move { lock.acquire().await.unwrap() }
        });
        settle().await;
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap();
        // An empty one that was used is no contender, either.
        drop(inner);
        guard.release().await.unwrap();
        settle().await;
        lock(&session).unwrap().try_acquire().await.unwrap().release().await.unwrap();
        settle().await;
        let left = contenders(&store, "/zklock/a").await;
        assert!(left.len() == 1 && below.ends_with(&left[0]), "{layout}: {left:?}");
    }
}

/// What Curator counts is said of those who may be Curator's.
#[tokio::test(start_paused = true)]
async fn what_a_curator_lock_would_wait_for_is_named() {
    let (store, session) = store();
    let inner = session.mutex("a/-5").unwrap().acquire().await.unwrap();
    let ours = session.mutex("a").unwrap().acquire().await.unwrap();
    ahead(&store, "_c_x-lock-", false).await;
    let seen = session.site("a").unwrap().contenders().await.unwrap();
    assert!(seen[0].here && seen[0].holds && seen[0].why.is_none(), "{seen:?}");
    let why = seen[1].why.as_deref().unwrap();
    assert_eq!(why, "Curator's locks count /zklock/a/-5, too, and wait until it is gone");
    ours.release().await.unwrap();
    inner.release().await.unwrap();
}

/// Makes a node that is ahead of us, in the way that the layout makes them.
async fn ahead(store: &Embedded, name: &str, stays: bool) -> String {
    let peer = client(store).await;
    let path = format!("/zklock/a/{name}");
    let sequential = name != "lock";
    let created = match (sequential, stays) {
        (true, false) => peer.create(&path, b"\xff", NodeKind::EphemeralSequential).await,
        (false, false) => peer.create(&path, b"\xff", NodeKind::Ephemeral).await,
        (true, true) => {
            peer.create(&format!("{path}0000000000"), b"\xff", NodeKind::Persistent).await
        }
        (false, true) => peer.create(&path, b"\xff", NodeKind::Persistent).await,
    };
    let path = created.unwrap().path;
    // Its session must not end.
    std::mem::forget(peer);
    path
}

/// However long it takes.
async fn is_waited_for(store: &Embedded, lock: AnyLock, path: &str, layout: &str) {
    let waiting = crate::spawn(async move { lock.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!waiting.is_finished(), "{layout}");
    client(store).await.delete(path).await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_contender_of_another_client_is_waited_for_in_any_layout() {
    for Case { layout, lock, peer } in cases().into_iter().chain(kazoos()) {
        let (store, session) = store();
        directory(&store).await;
        let path = ahead(&store, peer, false).await;
        let lock = lock(&session).unwrap();
        let error = lock.try_acquire().await.unwrap_err();
        assert!(error.is_busy(), "{layout}: {error}");
        assert!(path.ends_with(&error.holder().unwrap().node), "{layout}: {error}");
        is_waited_for(&store, lock, &path, layout).await;
    }
}

/// Of no session that could end. Who made it may still delete it, for a session timeout.
#[tokio::test(start_paused = true)]
async fn a_contender_that_is_not_ephemeral_is_an_error_after_a_while_and_nothing_is_held() {
    for Case { layout, lock, peer } in cases() {
        let (store, session) = store();
        directory(&store).await;
        let path = ahead(&store, peer, true).await;
        let made = lock(&session).unwrap();
        let waiting = crate::spawn(async move { made.acquire().await });
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(!waiting.is_finished(), "{layout}");
        let error = waiting.await.unwrap().unwrap_err();
        assert!(error.is_busy(), "{layout}: {error}");
        assert!(
            format!("{error:#}").contains(&format!("{path} is not an ephemeral node")),
            "{error}"
        );
        assert!(path.ends_with(&error.holder().unwrap().node), "{layout}: {error}");
        assert!(session.local_contenders().is_empty(), "{layout}");
        settle().await;
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 1, "{layout}");
        // One that goes in time was somebody's.
        let made = lock(&session).unwrap();
        let waiting = crate::spawn(async move { made.acquire().await });
        tokio::time::sleep(Duration::from_secs(4)).await;
        client(&store).await.delete(&path).await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// As long as a session lives, or 5 s: with the first look after that. In the layout with one node, nobody knows how
/// long it has been there before the second look.
#[tokio::test(start_paused = true)]
async fn a_contender_that_is_not_ephemeral_is_an_error_after_a_session_timeout_and_one_look() {
    const FAIR: LockOptions = LockOptions::new().fair(true);
    let case = |layout, lock, peer| Case { layout, lock, peer };
    let mut cases = cases();
    cases.extend([
        case("fair", |s| Ok(mutex(s).with_options(FAIR).into()), "_c_x-lock-"),
        case("permit", |s| Ok(s.semaphore("a", 1)?.into()), "leases/x-lease-"),
    ]);
    for (session_timeout, long) in [(2, 5), (10, 10)] {
        let [session_timeout, long] = [session_timeout, long].map(Duration::from_secs);
        for Case { layout, lock, peer } in &cases {
            let store = Embedded::new();
            let builder = Session::embedded_builder(&store);
            let session = builder.session_timeout(session_timeout).open().unwrap();
            directory(&store).await;
            if *layout == "permit" {
                let peer = client(&store).await;
                peer.create("/zklock/a/leases", b"", NodeKind::Persistent).await.unwrap();
            }
            ahead(&store, peer, true).await;
            let (lock, start) = (lock(&session).unwrap(), tokio::time::Instant::now());
            let refused = crate::spawn(async move { lock.acquire().await.unwrap_err() });
            let error = refused.await.unwrap();
            let took = start.elapsed();
            // Those with nodes of their own look at the same time as others of their process.
            let most = match *layout {
                "OneNode" => 2 * long,
                "fair" => long + long / 8,
                _ => long,
            };
            let in_time = took >= long && took <= most + Duration::from_millis(50);
            assert!(error.is_busy() && in_time, "{layout} of {session_timeout:?}: {took:?}");
            assert!(format!("{error:#}").contains("is not an ephemeral node"), "{error:#}");
        }
    }
}

/// Only who is near the head of a queue watches it; the others watch somebody ahead of them, of whom
/// none may be left.
#[tokio::test(start_paused = true)]
async fn several_contenders_that_are_not_ephemeral_are_an_error_after_a_while_as_well() {
    for count in 2..5 {
        for Case { layout, lock, peer } in cases() {
            if peer == "lock" {
                continue;
            }
            let (store, session) = store();
            directory(&store).await;
            let maker = client(&store).await;
            for number in 0..count {
                let path = format!("/zklock/a/{peer}{number:010}");
                maker.create(&path, b"\xff", NodeKind::Persistent).await.unwrap();
            }
            let lock = lock(&session).unwrap();
            let waiting = crate::spawn(async move { lock.acquire().await });
            tokio::time::sleep(Duration::from_secs(4)).await;
            assert!(!waiting.is_finished(), "{layout}");
            let error = tokio::time::timeout(Duration::from_secs(600), waiting).await;
            let error = error.expect(layout).unwrap().unwrap_err();
            assert!(error.is_busy(), "{layout}: {error}");
            assert!(format!("{error:#}").contains("is not an ephemeral node"), "{layout}: {error}");
            settle().await;
            assert_eq!(contenders(&store, "/zklock/a").await.len(), count, "{layout}");
        }
    }
}

/// However long the head of the queue has been there. Whoever waits far behind it watches another node.
#[tokio::test(start_paused = true)]
async fn a_contender_that_is_not_ephemeral_has_a_session_timeout_of_its_own_behind_an_old_head() {
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    let (store, session) = store();
    let other = Session::embedded_builder(&store).open().unwrap();
    let held = other.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    assert!(mutex.acquire_timeout(second).await.unwrap_err().is_busy());
    tokio::time::sleep(minute).await;
    let peer = client(&store).await;
    let path = "/zklock/a/_c_x-lock-0000000002";
    peer.create(path, b"\xff", NodeKind::Persistent).await.unwrap();
    let third = "/zklock/a/_c_y-lock-";
    peer.create(third, b"", NodeKind::EphemeralSequential).await.unwrap();
    let made = tokio::time::Instant::now();
    let waiting = crate::spawn(async move { mutex.acquire().await });
    let error = tokio::time::timeout(10 * minute, waiting).await.unwrap().unwrap().unwrap_err();
    assert!(format!("{error:#}").contains(&format!("{path} is not an ephemeral node")), "{error}");
    assert!(made.elapsed() >= 10 * second, "{:?}", made.elapsed());
    held.release().await.unwrap();
}

/// Where one node after the other has the same path.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ephemeral_has_a_session_timeout_of_its_own_at_an_old_path() {
    let second = Duration::from_secs(1);
    let (store, session) = store();
    let other = Session::embedded_builder(&store).open().unwrap();
    let lock = session.mutex("a").unwrap().with_driver(OneNode);
    for _ in 0..20 {
        let held = other.mutex("a").unwrap().with_driver(OneNode).acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap_err().is_busy());
        held.release().await.unwrap();
        tokio::time::sleep(second).await;
    }
    let peer = client(&store).await;
    peer.create("/zklock/a/lock", b"\xff", NodeKind::Persistent).await.unwrap();
    let made = tokio::time::Instant::now();
    let says = |error: &LockError| format!("{error:#}").contains("is not an ephemeral node");
    while made.elapsed() < 9 * second {
        let error = lock.try_acquire().await.unwrap_err();
        assert!(error.is_busy() && !says(&error), "{error:#}");
        tokio::time::sleep(second).await;
    }
    let error = lock.acquire().await.unwrap_err();
    assert!(says(&error) && made.elapsed() < 60 * second, "{error:#}");
}

/// `lock.acquire(ephemeral=False)` in Python.
#[tokio::test(start_paused = true)]
async fn a_holder_of_kazoo_whose_node_stays_is_waited_for() {
    for Case { layout, lock, peer } in kazoos() {
        let (store, session) = store();
        directory(&store).await;
        let path = ahead(&store, peer, true).await;
        is_waited_for(&store, lock(&session).unwrap(), &path, layout).await;
    }
}

/// A lock of two leases goes on as long as one of those ahead can go.
#[tokio::test(start_paused = true)]
async fn of_two_leases_one_that_stays_leaves_the_other() {
    let (store, session) = store();
    directory(&store).await;
    let stays = ahead(&store, "_c_x-lock-", true).await;
    let lock = |session: &Session| {
        session.mutex("a").unwrap().with_driver(MaxLeases::new(2, Curator).unwrap())
    };
    let other = Session::embedded_builder(&store).open().unwrap();
    // The second node: the number 0 was taken by hand.
    let held = lock(&other).acquire().await.unwrap();
    let waiting = crate::spawn({
        let lock = lock(&session);
        async move { lock.acquire().await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    client(&store).await.delete(&stays).await.unwrap();
}

/// Any child is a permit, as Curator and kazoo count.
#[tokio::test(start_paused = true)]
async fn permits_that_never_come_back_are_an_error_after_a_while_and_nothing_is_held() {
    let curator = |session: &Session| session.semaphore("a", 2).unwrap();
    let kazoo =
        |session: &Session| session.semaphore("a", 2).unwrap().with_driver(Kazoo::default());
    for (semaphore, leases) in
        [(curator as fn(&Session) -> zklock::Semaphore, "/zklock/a/leases"), (kazoo, "/zklock/a")]
    {
        let (store, session) = store();
        drop(semaphore(&session).acquire().await.unwrap());
        settle().await;
        let peer = client(&store).await;
        // A lock below this one, say.
        peer.create(&format!("{leases}/color"), b"", NodeKind::Persistent).await.unwrap();
        let one = semaphore(&session).acquire().await.unwrap();
        let other = Session::embedded_builder(&store).open().unwrap();
        let waiting = crate::spawn({
            let semaphore = semaphore(&other);
            async move { semaphore.acquire().await.unwrap() }
        });
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(!waiting.is_finished(), "the other permit comes back");
        drop(one);
        drop(waiting.await.unwrap());
        for permits in [2, 1] {
            if permits == 1 {
                let path = format!("{leases}/size");
                peer.create(&path, b"", NodeKind::Persistent).await.unwrap();
            }
            let error = semaphore(&session).acquire_many(permits).await.unwrap_err();
            assert!(error.is_busy(), "{error}");
            assert!(format!("{error:#}").contains("is not an ephemeral node"), "{error}");
            assert!(session.local_contenders().is_empty());
            settle().await;
            assert_eq!(contenders(&store, leases).await.len(), 3 - permits as usize);
        }
    }
}

/// A layout of a user's that counts, as a semaphore does.
#[derive(Debug)]
struct Counting;

impl LockDriver for Counting {
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        Curator.prefix(attempt, mode)
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        Curator.parse(name)
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        match mine.place_in(queue) {
            None => Verdict::Missing,
            Some(0) => Verdict::Held,
            Some(excess) => Verdict::Crowded { excess },
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_counts_rests_until_something_changes_also_beside_a_foreign_child() {
    let (store, session) = store();
    let lock = |session: &Session| mutex(session).with_driver(Counting);
    let held = lock(&on(&store)).acquire().await.unwrap();
    client(&store).await.create("/zklock/a/notes", b"", NodeKind::Persistent).await.unwrap();
    store.record();
    let waiting = lock(&session);
    let waiting = crate::spawn(async move { waiting.acquire().await.map(drop) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let requests = store.recorded().len();
    assert!(requests < 10, "{requests} requests");
    drop(held);
    waiting.await.unwrap().unwrap();
}
