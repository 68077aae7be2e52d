//! Looking at a lock of several connections, and writing under it.

use std::time::{Duration, Instant};

use zklock::{
    Acl, AclEntry, AnyLock, ErrorKind, LockEvent, LockOptions, Owner, Permissions, Session,
};
use zklock_test_support::{Control, CreateMode};

use crate::bed::{Bed, soon, until};
use crate::kinds::NEXT;

const LOCKS: usize = 40;

/// Of forty locks that are acquired at once several connections hold some.
#[tokio::test]
async fn locks_on_every_connection_are_here_with_their_labels() {
    let bed = Bed::own();
    let (session, other) = (bed.session().await, bed.session().await);
    let acquire = |number: usize| {
        let nightly = LockOptions::new().label("nightly");
        let mutex = session.mutex(format!("a{number}")).unwrap().with_options(nightly);
        tokio::spawn(async move { mutex.acquire().await.unwrap() })
    };
    // Twice: the first time opens the connections.
    let mut guards = Vec::new();
    for round in 0..2 {
        let acquiring: Vec<_> = (round * LOCKS..(round + 1) * LOCKS).map(acquire).collect();
        for guard in acquiring {
            guards.push(soon("a lock", guard).await.unwrap());
        }
    }
    let held = bed.server().sessions().into_iter().filter(|one| !one.ephemerals.is_empty());
    let held: Vec<_> = held.map(|one| one.id).collect();
    assert!(held.len() > 1, "{held:?}");
    for guard in &guards {
        let queue = session.site(guard.lock_name()).unwrap().contenders().await.unwrap();
        assert!(queue.len() == 1 && queue[0].holds && queue[0].here, "{queue:?}");
        assert_eq!(queue[0].local[0].label.as_deref(), Some("nightly"));
        let queue = other.site(guard.lock_name()).unwrap().contenders().await.unwrap();
        assert!(!queue[0].here && queue[0].local.is_empty(), "{queue:?}");
    }
    drop(guards);
    bed.end().await;
}

/// Nobody has made the directory yet.
#[tokio::test]
async fn a_queue_is_followed_from_before_its_directory_exists() {
    let bed = Bed::shared("followed");
    let (session, other) = (bed.session().await, bed.session().await);
    for round in 0..20 {
        let name = format!("deep/n{round}/a");
        let mut events = session.site(&name).unwrap().events();
        let (two, seen_two) = tokio::sync::oneshot::channel();
        let following = tokio::spawn(async move {
            let mut seen = vec![events.next().await.unwrap(), events.next().await.unwrap()];
            two.send(()).unwrap();
            seen.push(events.next().await.unwrap());
            seen
        });
        let guard = other.mutex(&name).unwrap().acquire().await.unwrap();
        // Both Joined and Granted are told before the release, which could hide them.
        let told = tokio::time::timeout(Duration::from_secs(4), seen_two).await;
        told.expect("a slow look comes after five seconds at the earliest").unwrap();
        guard.release().await.unwrap();
        let seen = tokio::time::timeout(Duration::from_secs(4), following).await;
        let seen = seen.expect("a slow look comes after five seconds at the earliest").unwrap();
        assert!(matches!(
            &seen[..],
            [LockEvent::Joined(_), LockEvent::Granted(_), LockEvent::Left(_)]
        ));
    }
    bed.end().await;
}

/// What the server says of a write is said of that write.
#[tokio::test]
async fn a_fenced_write_that_fails_says_what_failed() {
    let bed = Bed::shared("fenced-errors");
    let you = bed.builder().auth("digest", "you:secret").acl(Acl::CreatorAll);
    let (mine, yours) = (bed.session().await, bed.adopt(you.connect().await.unwrap()));
    let guard = mine.mutex("a").unwrap().acquire().await.unwrap();
    let mut raw = bed.raw();
    let [private, open, missing] = ["private", "open", "missing"].map(|name| bed.path(name));
    raw.create(&open, b"", CreateMode::Persistent).unwrap();
    let yourself = yours.mutex("b").unwrap().acquire().await.unwrap();
    yourself.fenced().create(&private, b"1").await.unwrap();

    let fenced = guard.fenced();
    let refused = [
        (fenced.set(&private, b"2").await, ErrorKind::Unauthorized, &private),
        (fenced.create(&format!("{private}/x"), b"").await, ErrorKind::Unauthorized, &private),
        (fenced.set(&missing, b"2").await, ErrorKind::Refused, &missing),
        (fenced.delete(&missing).await, ErrorKind::Refused, &missing),
        (fenced.create(&open, b"2").await, ErrorKind::Refused, &open),
    ];
    for (outcome, kind, path) in refused {
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.lock_name()), (kind, Some("a")), "{error}");
        assert!(format!("{error:#}").contains(path.as_str()), "{error:#}");
        assert!(!error.to_string().contains(path.as_str()), "{error}");
    }
    assert!(guard.is_valid());
    fenced.set(&open, b"2").await.unwrap();
    // The node of the lock itself is gone: only that is a loss.
    raw.delete(guard.node_path()).unwrap();
    let error = fenced.set(&open, b"3").await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert_eq!(raw.data(&open).unwrap(), b"2");
    yourself.fenced().delete(&private).await.unwrap();
    raw.delete(&open).unwrap();
    raw.close().unwrap();
    drop((guard, yourself));
    bed.end().await;
}

/// Who may not read the node of its own lock cannot prove that it is there, and has not lost it.
#[tokio::test]
async fn an_acl_that_hides_the_node_of_the_lock_is_no_loss() {
    let bed = Bed::shared("fenced-hidden");
    // Everybody may list it, which would not be so if the session below made it anew.
    bed.keep_directory("a");
    let permissions = Permissions::CREATE | Permissions::WRITE | Permissions::DELETE;
    let (scheme, id) = ("world".to_owned(), "anyone".to_owned());
    let acl = Acl::Custom(vec![AclEntry { scheme, id, permissions }]);
    let session = bed.adopt(bed.builder().acl(acl).connect().await.unwrap());
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let error = guard.fenced().create(&bed.path("x"), b"").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
    assert!(format!("{error:#}").contains("nothing was written"), "{error}");
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    bed.end().await;
}

const SHORT: Duration = Duration::from_secs(3);

fn locks(session: &Session, options: &LockOptions) -> [AnyLock; 4] {
    let rw = |name| session.rw_lock(name).unwrap().with_options(*options);
    let semaphore = session.semaphore("told-permits", 2).unwrap().with_options(*options);
    [
        session.mutex("told-mutex").unwrap().with_options(*options).into(),
        AnyLock::Read(rw("told-read")),
        AnyLock::Write(rw("told-write")),
        AnyLock::Permits(semaphore, 2),
    ]
}

/// The holder, as the data of its node say.
fn told(bed: &Bed, node: &str) -> Owner {
    let mut raw = bed.raw();
    let data = raw.data(node).unwrap();
    raw.close().unwrap();
    Owner::from_payload(&data)
}

/// Others see since when the present holder has held, and what for, and it costs a wake-up each of at
/// most two of them.
#[tokio::test]
async fn a_long_holder_is_told_with_a_heartbeat_and_wakes_two_waiters_once() {
    let bed = Bed::shared("told");
    let session = bed.session_of(SHORT).await;
    for (number, lock) in locks(&session, &LockOptions::new().label("import")).iter().enumerate() {
        let proxy = bed.proxy();
        let mut others = Vec::new();
        let guard = soon("the lock", lock.acquire()).await.unwrap();
        let at_first = told(&bed, guard.node_path());
        assert_eq!((at_first.label.as_deref(), at_first.granted), (Some("import"), None));
        let name = guard.lock_name().to_owned();
        let mut waiting = Vec::new();
        for _ in 0..5 {
            let other = bed.builder_at(&proxy.addr()).connect().await.unwrap();
            let lock = locks(&other, &LockOptions::new())[number].clone();
            // Writers wait for a reader.
            let lock = match lock {
                AnyLock::Read(lock) => AnyLock::Write(lock),
                lock => lock,
            };
            waiting.push(tokio::spawn(async move { lock.acquire().await.map(drop) }));
            others.push(other);
        }
        if number < 3 {
            bed.until_nodes(&name, 6).await;
        }
        let path = guard.node_path().to_owned();
        until("the holder is told", || told(&bed, &path).granted).await;
        let written = told(&bed, &path);
        tokio::time::sleep(2 * SHORT / 3).await;
        assert_eq!(told(&bed, &path), written);
        // Who came after the heartbeat was not woken; who came before, once.
        let woken = proxy.watch_events();
        assert!(woken <= 2, "{name}: {woken} events");
        assert!(guard.is_valid());
        drop(guard);
        for waiting in waiting {
            soon("the lock", waiting).await.unwrap().unwrap();
        }
        for other in others {
            other.close().await;
        }
    }
    bed.end().await;
}

/// The label of who is handed the lock replaces that of who had it before.
#[tokio::test]
async fn after_a_handoff_the_node_tells_of_the_present_holder() {
    let bed = Bed::shared("told-handoff");
    let (session, other) = (bed.session_of(SHORT).await, bed.session().await);
    let site = other.site("told-mutex").unwrap();
    let lock = |label: &str| locks(&session, &LockOptions::new().label(label))[0].clone();
    let first = soon("the lock", lock("import").acquire()).await.unwrap();
    let second = lock("report");
    let second = tokio::spawn(async move { second.acquire().await.unwrap() });
    let path = first.node_path().to_owned();
    let since = until("the holder is told", || told(&bed, &path).granted).await;
    drop(first);
    let second = soon("the lock", second).await.unwrap();
    assert_eq!(second.node_path(), path, "it was handed on");
    until("the second one is told", || {
        let owner = told(&bed, &path);
        let is_second = owner.label.as_deref() == Some("report");
        is_second.then(|| assert!(owner.granted.is_some_and(|granted| granted > since)))
    })
    .await;
    let queue = site.contenders().await.unwrap();
    assert!(queue[0].owner.granted.is_some() && queue[0].holds, "{queue:?}");
    let busy = other.mutex("told-mutex").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(busy.holder().unwrap().owner, queue[0].owner);
    drop(second);
    bed.end().await;
}

/// The broken holder is told within a heartbeat, and the next one enters at once.
#[tokio::test]
async fn a_broken_holder_is_told_within_a_heartbeat() {
    let bed = Bed::shared("broken");
    let (session, other) = (bed.session_of(SHORT).await, bed.session().await);
    let (options, permits) = (LockOptions::new(), bed.path("told-permits/leases"));
    for (lock, rival) in locks(&session, &options).into_iter().zip(locks(&other, &options)) {
        let guard = soon("the lock", lock.acquire()).await.unwrap();
        let site = match &lock {
            AnyLock::Permits(..) => other.semaphore("told-permits", 2).unwrap().site(),
            _ => other.site(guard.lock_name()).unwrap(),
        };
        let seen = site.contenders().await.unwrap();
        let mut wrong = seen[0].clone();
        wrong.czxid -= 1;
        assert!(!site.break_holder(&wrong).await.unwrap());
        assert_eq!(site.contenders().await.unwrap().len(), seen.len());
        assert!(guard.is_valid());
        let rival = match rival {
            // A reader does not wait for a reader.
            AnyLock::Read(lock) => AnyLock::Write(lock),
            // Of two permits that are held, one becomes free.
            AnyLock::Permits(semaphore, _) => AnyLock::Permits(semaphore, 1),
            lock => lock,
        };
        let next = tokio::spawn(async move { (rival.acquire().await.unwrap(), Instant::now()) });
        let watches = |path: &String| path == guard.node_path();
        until("the next waits", || {
            let is_awaited = bed.watched_by(&other).iter().any(watches);
            (is_awaited || bed.below(&permits).len() == 3).then_some(())
        })
        .await;
        let control = Control::of(bed.server());
        assert!(site.break_holder(&seen[0]).await.unwrap());
        let broken = Instant::now();
        soon("the loss", guard.lost()).await;
        control.within("the loss", broken.elapsed(), SHORT / 6);
        let (next, granted) = soon("the next", next).await.unwrap();
        let took = granted.saturating_duration_since(broken);
        control.within_answers("the next", took, Duration::ZERO, NEXT);
        next.release().await.unwrap();
        assert!(!site.break_holder(&seen[0]).await.unwrap());
        assert!(guard.release().await.unwrap_err().is_lost());
    }
    bed.end().await;
}
