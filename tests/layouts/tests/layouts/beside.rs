//! Curator in Java, kazoo in Python and we on one lock: it means the same in all three.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zklock::driver::LockDriver;
use zklock::{AnyLock, ErrorKind, LockOptions, Session, layout};
use zklock_test_support::peers::{Agent, Curator, Kazoo, LockKind, Outcome, Run};
use zklock_test_support::{CreateMode, RawClient, ZooKeeper, is_long};

use crate::bed::{soon, until};

const SESSION: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

/// 2,000 critical sections in the long form.
fn sections() -> usize {
    if is_long() { 2_000 } else { 200 }
}

/// A process of ours.
fn ours(layout: &str, kind: &str, path: &str, n: usize, file: Option<&PathBuf>) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sections"));
    command.args([&ZooKeeper::shared().addr(), layout, kind, path]).arg(n.to_string());
    Run::start(command.args(file))
}

/// Waits until so many want a lock: some need a second or more to start, in which others would be done.
async fn all_want(session: &Session, name: &str, count: usize) {
    let site = session.site(name).unwrap();
    soon("all want it", async {
        while site.contenders().await.unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Runs processes that add 1 to a number in a file, so often in all; none may be lost. They begin together.
async fn count_together(
    driver: impl LockDriver,
    name: &str,
    start: impl FnOnce(&PathBuf, usize) -> Vec<Run>,
    processes: usize,
) {
    let file = format!("beside-{}-{}", name.replace('/', "-"), std::process::id());
    let (file, session) = (std::env::temp_dir().join(file), session(driver).await);
    fs::write(&file, "0").unwrap();
    let each = sections() / processes;
    let gate = session.mutex(name).unwrap().acquire().await.unwrap();
    let runs = start(&file, each);
    assert_eq!(runs.len(), processes);
    all_want(&session, name, processes + 1).await;
    gate.release().await.unwrap();
    for run in runs {
        assert_eq!(run.finish(), format!("done {each}\n"));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), (each * processes).to_string());
    fs::remove_file(&file).unwrap();
    session.close().await;
}

#[tokio::test]
async fn four_of_ours_and_four_of_curator_lose_no_update() {
    let (addr, curator) = (ZooKeeper::shared().addr(), Curator::compile());
    let path = "/beside/curator/orders/create";
    let start = |file: &PathBuf, each| {
        let theirs = [(); 4].map(|()| curator.counter(&addr, path, file, each));
        let ours = [(); 4].map(|()| ours("curator", "counter", path, each, Some(file)));
        theirs.into_iter().chain(ours).collect()
    };
    count_together(layout::Curator, "curator/orders/create", start, 8).await;
}

#[tokio::test]
async fn four_of_ours_and_four_of_kazoo_lose_no_update() {
    let (addr, kazoo) = (ZooKeeper::shared().addr(), Kazoo::install());
    let path = "/beside/kazoo/orders/create";
    let start = |file: &PathBuf, each| {
        let theirs = [(); 4].map(|()| kazoo.counter(&addr, path, file, each));
        let ours = [(); 4].map(|()| ours("kazoo", "counter", path, each, Some(file)));
        theirs.into_iter().chain(ours).collect()
    };
    count_together(layout::Kazoo::default(), "kazoo/orders/create", start, 8).await;
}

/// One layout for all: kazoo with the names of Curator's nodes.
#[tokio::test]
async fn java_python_and_rust_on_one_lock_lose_no_update() {
    let (addr, curator, kazoo) = (ZooKeeper::shared().addr(), Curator::compile(), Kazoo::install());
    let path = "/beside/all";
    let mut raw = RawClient::connect(&addr, SESSION).unwrap();
    // kazoo fails for good if the directory is reaped.
    for path in ["/beside", path] {
        drop(raw.create(path, b"", CreateMode::Persistent));
    }
    raw.close().unwrap();
    let start = |file: &PathBuf, each| {
        let java = [(); 3].map(|()| curator.counter(&addr, path, file, each));
        let python = [(); 3].map(|()| kazoo.counter_as_curator(&addr, path, file, each));
        let rust = [(); 4].map(|()| ours("curator", "counter", path, each, Some(file)));
        java.into_iter().chain(python).chain(rust).collect()
    };
    count_together(layout::Curator, "all", start, 10).await;
}

/// When somebody was inside, and how.
#[derive(Clone, Debug)]
struct Stay {
    mode: String,
    entered: u64,
    left: u64,
    ours: bool,
}

fn stays(said: &str, ours: bool) -> Vec<Stay> {
    let stay = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let [mode, entered, left] = words[..] else { panic!("{line}") };
        let (entered, left) = (entered.parse().unwrap(), left.parse().unwrap());
        Stay { mode: mode.to_owned(), entered, left, ours }
    };
    said.lines().map(stay).collect()
}

/// Writers are alone; readers of both languages are inside together.
fn assert_readers_and_writers(mut all: Vec<Stay>, count: usize) {
    assert_eq!(all.len(), count);
    all.sort_by_key(|stay| stay.entered);
    let mut mixed = false;
    for (at, stay) in all.iter().enumerate() {
        for later in all[at + 1..].iter().take_while(|later| later.entered < stay.left) {
            assert!(stay.mode == "read" && later.mode == "read", "{stay:?} {later:?}");
            mixed |= stay.ours != later.ours;
        }
    }
    assert!(mixed, "no readers of both languages at once");
}

/// Four processes of each side take a read/write lock at random; they begin together.
async fn mix(driver: impl LockDriver, theirs: impl Fn(usize) -> Run, layout: &str, name: &str) {
    let (each, session, path) = (sections() / 8, session(driver).await, format!("/beside/{name}"));
    let gate = session.rw_lock(name).unwrap().write().await.unwrap();
    let theirs: Vec<_> = (0..4).map(|_| theirs(each)).collect();
    let ours: Vec<_> = (0..4).map(|_| ours(layout, "rw", &path, each, None)).collect();
    all_want(&session, name, 9).await;
    gate.release().await.unwrap();
    let mut all: Vec<_> = theirs.into_iter().flat_map(|run| stays(&run.finish(), false)).collect();
    all.extend(ours.into_iter().flat_map(|run| stays(&run.finish(), true)));
    assert_readers_and_writers(all, each * 8);
    session.close().await;
}

#[tokio::test]
async fn readers_and_writers_of_curator_and_ours_keep_the_rules() {
    let (addr, curator) = (ZooKeeper::shared().addr(), Curator::compile());
    let theirs = |n| curator.mix(&addr, "rw", "/beside/curator-rw", n);
    mix(layout::Curator, theirs, "curator", "curator-rw").await;
}

#[tokio::test]
async fn readers_and_writers_of_kazoo_and_ours_keep_the_rules() {
    let (addr, kazoo) = (ZooKeeper::shared().addr(), Kazoo::install());
    let theirs = |n| kazoo.mix(&addr, "rw", "/beside/kazoo-rw", n);
    mix(layout::Kazoo::default(), theirs, "kazoo", "kazoo-rw").await;
}

/// kazoo's readers and writers with the names of Curator's nodes.
#[tokio::test]
async fn readers_and_writers_of_kazoo_as_curator_and_ours_keep_the_rules() {
    let (addr, kazoo) = (ZooKeeper::shared().addr(), Kazoo::install());
    let mut raw = RawClient::connect(&addr, SESSION).unwrap();
    // kazoo fails for good if the directory is reaped.
    for path in ["/beside", "/beside/as-curator-rw"] {
        drop(raw.create(path, b"", CreateMode::Persistent));
    }
    raw.close().unwrap();
    let theirs = |n| kazoo.mix(&addr, "rw-as-curator", "/beside/as-curator-rw", n);
    mix(layout::Curator, theirs, "curator", "as-curator-rw").await;
}

/// Four processes of each side take one of three permits again and again.
fn take_permits(theirs: impl Fn(usize) -> Run, layout: &str, path: &str) {
    let each = sections() / 8;
    let theirs = [(); 4].map(|()| theirs(each));
    let ours = [(); 4].map(|()| ours(layout, "semaphore", path, each, Some(&PathBuf::from("3"))));
    let mut all: Vec<_> = theirs.into_iter().flat_map(|run| stays(&run.finish(), false)).collect();
    all.extend(ours.into_iter().flat_map(|run| stays(&run.finish(), true)));
    assert_eq!(all.len(), each * 8);
    let mut steps: Vec<_> =
        all.iter().flat_map(|stay| [(stay.entered, 1), (stay.left, -1)]).collect();
    // Who leaves in the moment that another enters was inside with it only on the clock.
    steps.sort_by_key(|&(at, step)| (at, step));
    let inside = steps.iter().scan(0, |inside, (_, step)| {
        *inside += step;
        Some(*inside)
    });
    // How often the limit is reached depends on the machine; that it can be is the next test.
    assert!(inside.max() <= Some(3));
}

#[test]
fn permits_of_curator_and_ours_never_exceed_the_limit() {
    let (addr, curator, path) =
        (ZooKeeper::shared().addr(), Curator::compile(), "/beside/curator-permits");
    take_permits(|n| curator.mix(&addr, "semaphore:3", path, n), "curator", path);
}

/// There every child is a holder, also to those who only look.
#[test]
fn permits_of_kazoo_and_ours_never_exceed_the_limit() {
    let (addr, kazoo, path) =
        (ZooKeeper::shared().addr(), Kazoo::install(), "/beside/kazoo-permits");
    let mut raw = RawClient::connect(&addr, SESSION).unwrap();
    let (done, looking) = (AtomicBool::new(false), &addr);
    let most = std::thread::scope(|scope| {
        let look = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::SeqCst) {
                most = most.max(raw.children(path).map_or(0, |names| names.len()));
                std::thread::sleep(Duration::from_millis(1));
            }
            most
        });
        let working = std::panic::catch_unwind(|| {
            take_permits(|n| kazoo.mix(looking, "semaphore:3", path, n), "kazoo", path);
        });
        done.store(true, Ordering::SeqCst);
        let most = look.join().unwrap();
        working.unwrap_or_else(|failure| std::panic::resume_unwind(failure));
        most
    });
    assert!(most <= 3, "{most} nodes");
    raw.close().unwrap();
}

/// Each waits for permits of the other, and sees its nodes.
async fn share_permits(driver: impl LockDriver + Clone, agent: &Agent, name: &str, nodes: &str) {
    let (kind, path) = (LockKind::Semaphore(3), &format!("/beside/{name}"));
    let (one, two) = (session(driver.clone()).await, session(driver).await);
    let semaphore = |session: &Session| session.semaphore(name, 3).unwrap();
    let theirs = [(); 2].map(|()| agent.acquire(kind, path, None).held());
    let ours = semaphore(&one).acquire().await.unwrap();
    assert!(semaphore(&two).try_acquire().await.unwrap_err().is_busy());
    assert!(agent.acquire(kind, path, Some(Duration::from_millis(300))).is_busy());
    let holders = semaphore(&two).site().contenders().await.unwrap();
    assert!(theirs.iter().all(|grant| holders.iter().any(|one| grant.node.ends_with(&one.node))));
    // What was tried is gone by and by.
    until("it sees all three", || {
        let seen = agent.participants(&format!("{path}{nodes}"));
        (seen.len() == 3 && seen.iter().any(|node| node == ours.node_path())).then_some(())
    })
    .await;
    agent.release(&theirs[0]).unwrap();
    let next = soon("a permit", semaphore(&two).acquire()).await.unwrap();
    let pending = agent.start_acquire(kind, path, None);
    assert!(pending.wait(Duration::from_millis(200)).is_none());
    ours.release().await.unwrap();
    let last = pending.wait(SOON).unwrap().held();
    next.release().await.unwrap();
    agent.release(&theirs[1]).unwrap();
    agent.release(&last).unwrap();
    one.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_and_we_share_the_permits_of_one_semaphore() {
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    share_permits(layout::Curator, &agent, "shared-permits", "/leases").await;
    agent.quit();
}

/// Curator's mutex counts the directory of a lock below that sorts before its number; ours does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_waits_for_a_lock_below_that_sorts_first_and_we_do_not() {
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    let (session, other) = (session(layout::Curator).await, session(layout::Curator).await);
    for (above, name) in [("stumbles-0", "0"), ("stumbles-5", "-5")] {
        let inner = session.mutex(format!("{above}/{name}")).unwrap();
        let inner = inner.acquire().await.unwrap();
        let outer = |session: &Session| session.mutex(above).unwrap();
        let guard = outer(&session).try_acquire().await.unwrap();
        assert!(outer(&other).try_acquire().await.unwrap_err().is_busy());
        guard.release().await.unwrap();
        let path = format!("/beside/{above}");
        let pending = agent.start_acquire(LockKind::Mutex, &path, None);
        assert!(pending.wait(Duration::from_secs(1)).is_none());
        // A busy machine may not have made its node yet.
        let seen = soon("its node", async {
            loop {
                let seen = other.site(above).unwrap().contenders().await.unwrap();
                if !seen.is_empty() {
                    break seen;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let why = seen[0].why.as_deref().unwrap();
        assert!(seen[0].holds && why.contains(&format!(" {path}/{name}, ")), "{seen:?}");
        // Behind it, as behind any contender; it has its turn once the directory is gone.
        inner.release().await.unwrap();
        let mut raw = RawClient::connect(&ZooKeeper::shared().addr(), SESSION).unwrap();
        // The server may have removed it before.
        _ = raw.delete(&format!("{path}/{name}"));
        raw.close().unwrap();
        agent.release(&pending.wait(SOON).unwrap().held()).unwrap();
    }
    session.close().await;
    other.close().await;
    agent.quit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_and_we_share_the_permits_of_one_semaphore() {
    let agent = Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION);
    share_permits(layout::Kazoo::default(), &agent, "shared-kazoo-permits", "").await;
    agent.quit();
}

/// kazoo counts the permits under a lock beside them: so whoever of us waits for a permit holds that lock, as
/// kazoo sees it, and waits until kazoo has let it go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_and_we_count_the_permits_of_one_semaphore_under_one_lock() {
    let agent = Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION);
    let session = session(layout::Kazoo::default()).await;
    let (kind, path) = (LockKind::Semaphore(1), "/beside/counted-permits");
    let inner = format!("{path}-__lock__");
    let semaphore = session.semaphore("counted-permits", 1).unwrap();
    let permit = agent.acquire(kind, path, None).held();
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire().await.unwrap() }
    });
    until("we wait", || (agent.participants(&inner).len() == 1).then_some(())).await;
    assert!(agent.acquire(LockKind::Mutex, &inner, Some(Duration::ZERO)).is_busy());
    agent.release(&permit).unwrap();
    soon("a permit", waiting).await.unwrap().release().await.unwrap();
    let lock = agent.acquire(LockKind::Mutex, &inner, None).held();
    let waiting = tokio::spawn(async move { semaphore.acquire().await.unwrap() });
    until("we wait", || (agent.participants(&inner).len() == 2).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    agent.release(&lock).unwrap();
    soon("a permit", waiting).await.unwrap().release().await.unwrap();
    session.close().await;
    agent.quit();
}

/// Whoever of us comes to a name that the other side uses as another kind of lock is told.
async fn other_kinds(driver: impl LockDriver + Clone, agent: &Agent, name: &str) {
    let (path, session) = (format!("/beside/{name}"), session(driver).await);
    let semaphore = session.semaphore(name, 3).unwrap();
    for kind in [LockKind::Mutex, LockKind::Read, LockKind::Write] {
        let grant = agent.acquire(kind, &path, None).held();
        for told in [semaphore.try_acquire().await, semaphore.acquire().await] {
            assert_eq!(told.unwrap_err().kind(), ErrorKind::InvalidOption, "{kind:?}");
        }
        agent.release(&grant).unwrap();
        soon("a permit", semaphore.acquire()).await.unwrap().release().await.unwrap();
    }
    let grant = agent.acquire(LockKind::Semaphore(3), &path, None).held();
    let rw_lock = session.rw_lock(name).unwrap();
    let locks = [
        session.mutex(name).unwrap().into(),
        AnyLock::Read(rw_lock.clone()),
        AnyLock::Write(rw_lock),
    ];
    for lock in &locks {
        for told in [lock.try_acquire().await, lock.acquire().await] {
            assert_eq!(told.unwrap_err().kind(), ErrorKind::InvalidOption, "{lock:?}");
        }
    }
    agent.release(&grant).unwrap();
    for lock in &locks {
        soon("the lock", lock.acquire()).await.unwrap().release().await.unwrap();
    }
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_curator_or_kazoo_uses_as_another_kind_is_told() {
    let curator = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    other_kinds(layout::Curator, &curator, "curators-kinds").await;
    curator.quit();
    let kazoo = Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION);
    other_kinds(layout::Kazoo::default(), &kazoo, "kazoos-kinds").await;
    kazoo.quit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_and_we_refuse_another_limit_than_the_first_gave() {
    let agent = Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION);
    let session = session(layout::Kazoo::default()).await;
    // kazoo gave it.
    let grant = agent.acquire(LockKind::Semaphore(3), "/beside/kazoos-limit", None).held();
    let error = session.semaphore("kazoos-limit", 4).unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(format!("{error:#}").contains("3 permits"), "{error}");
    session.semaphore("kazoos-limit", 3).unwrap().acquire().await.unwrap().release().await.unwrap();
    agent.release(&grant).unwrap();
    // We gave it.
    let permit = session.semaphore("our-limit", 3).unwrap().acquire().await.unwrap();
    let refused = agent.acquire(LockKind::Semaphore(4), "/beside/our-limit", None);
    let Outcome::Failed(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains("Inconsistent max leases"), "{why}");
    agent
        .release(&agent.acquire(LockKind::Semaphore(3), "/beside/our-limit", None).held())
        .unwrap();
    permit.release().await.unwrap();
    session.close().await;
    agent.quit();
}

async fn session(driver: impl LockDriver) -> Session {
    session_of(driver, SESSION).await
}

async fn session_of(driver: impl LockDriver, session_timeout: Duration) -> Session {
    let builder = Session::builder(ZooKeeper::shared().addr()).root("/beside").app("tests");
    builder.session_timeout(session_timeout).driver(driver).connect().await.unwrap()
}

/// Each holds while the other waits, and each sees the other in the queue.
async fn take_turns(driver: impl LockDriver, agent: &Agent, kind: LockKind, name: &str) {
    let (session, path) = (session(driver).await, format!("/beside/{name}"));
    let site = session.site(name).unwrap();
    let mutex = session.mutex(name).unwrap();
    let guard = soon("the lock", mutex.acquire()).await.unwrap();
    assert!(agent.acquire(kind, &path, Some(Duration::ZERO)).is_busy());
    let pending = agent.start_acquire(kind, &path, None);
    // Curator's leader may make its node after it has said that it gives up, and then delete it.
    let both = async {
        loop {
            let queue = site.contenders().await.unwrap();
            let queue: Vec<_> = queue.iter().map(|one| (one.holds, one.here)).collect();
            if queue == [(true, true), (false, false)] && agent.participants(&path).len() == 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("both in the queue", both).await;
    assert_eq!(agent.participants(&path)[0], guard.node_path());
    assert!(pending.wait(Duration::from_millis(200)).is_none());
    guard.release().await.unwrap();
    let grant = pending.wait(SOON).unwrap().held();
    let busy = mutex.try_acquire().await.unwrap_err();
    assert!(grant.node.ends_with(&busy.holder().unwrap().node), "{busy:?}");
    until("the try is over", || (agent.participants(&path).len() == 1).then_some(())).await;
    let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    until("we wait", || (agent.participants(&path).len() == 2).then_some(())).await;
    let queue = site.contenders().await.unwrap();
    assert!(grant.node.ends_with(&queue[0].node) && queue[0].holds && queue[1].here);
    assert!(!waiting.is_finished());
    agent.release(&grant).unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_and_we_take_turns_and_see_each_other() {
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    take_turns(layout::Curator, &agent, LockKind::Mutex, "turns-curator").await;
    agent.quit();
}

/// `LeaderSelector` is a mutex.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_of_curator_and_one_of_ours_take_turns() {
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    take_turns(layout::Curator, &agent, LockKind::Leader, "turns-leader").await;
    agent.quit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_and_we_take_turns_and_see_each_other() {
    let agent = Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION);
    take_turns(layout::Kazoo::default(), &agent, LockKind::Mutex, "turns-kazoo").await;
    take_turns(layout::Curator, &agent, LockKind::MutexAsCurator, "turns-as-curator").await;
    agent.quit();
}

/// As a collector's pause is seen from outside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_in_java_that_stands_still_for_too_long_goes_on_beside_the_next() {
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), Duration::from_secs(4));
    let session = session(layout::Curator).await;
    let mutex = session.mutex("collected").unwrap();
    let theirs = agent.acquire(LockKind::Mutex, "/beside/collected", None).held();
    agent.pause();
    let ours = soon("the lock", mutex.acquire()).await.unwrap();
    agent.resume();
    // Nothing has ended it: it releases at last what it has not held for long.
    agent.release(&theirs).unwrap();
    let queue = mutex.site().contenders().await.unwrap();
    assert!(queue.len() == 1 && queue[0].holds && queue[0].here, "{queue:?}");
    assert!(ours.is_valid());
    ours.release().await.unwrap();
    session.close().await;
    agent.quit();
}

/// We hold for longer than a heartbeat, and the node says so: to the other client, which waits and is
/// woken by that, it is the same queue as before. Returns the data of the node, unless they stay the same.
async fn hold_for_long(
    driver: impl LockDriver,
    agent: &Agent,
    kind: LockKind,
    name: &str,
) -> Option<String> {
    let session = session_of(driver, Duration::from_secs(6)).await;
    let (path, import) = (format!("/beside/{name}"), LockOptions::new().label("import"));
    let rw_lock = || session.rw_lock(name).unwrap().with_options(import);
    // What excludes theirs.
    let lock = match kind {
        LockKind::Read => AnyLock::Write(rw_lock()),
        LockKind::Write => AnyLock::Read(rw_lock()),
        _ => session.mutex(name).unwrap().with_options(import).into(),
    };
    let mut raw = RawClient::connect(&ZooKeeper::shared().addr(), SESSION).unwrap();
    let (guard, before, pending) = loop {
        let guard = soon("the lock", lock.acquire()).await.unwrap();
        let before = raw.data(guard.node_path()).unwrap();
        let pending = agent.start_acquire(kind, &path, None);
        until("it waits", || (agent.participants(&path).len() == 2).then_some(())).await;
        if raw.data(guard.node_path()).unwrap() == before {
            break (guard, before, pending);
        }
        // On a busy machine the heartbeat may come before the other client, and wakes nobody then.
        guard.release().await.unwrap();
        agent.release(&pending.wait(SOON).unwrap().held()).unwrap();
    };
    let queue = agent.participants(&path);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = raw.data(guard.node_path()).unwrap();
    assert_eq!(agent.participants(&path), queue);
    assert!(pending.wait(Duration::from_millis(200)).is_none());
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    agent.release(&pending.wait(SOON).unwrap().held()).unwrap();
    raw.close().unwrap();
    session.close().await;
    (after != before).then(|| String::from_utf8(after).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_and_kazoo_wait_on_behind_a_holder_that_says_since_when() {
    let kinds = [LockKind::Mutex, LockKind::Read, LockKind::Write];
    let curator = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    let kazoo = Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION);
    let kazoos = layout::Kazoo::default;
    for kind in kinds {
        let (one, two) = (format!("long-curator-{kind}"), format!("long-kazoo-{kind}"));
        let both = tokio::join!(
            hold_for_long(layout::Curator, &curator, kind, &one),
            hold_for_long(kazoos(), &kazoo, kind, &two),
        );
        for data in [both.0, both.1].map(Option::unwrap) {
            assert!(
                data.contains("\"label\":\"import\"") && data.contains("\"granted\":"),
                "{data}"
            );
        }
    }
    // What kazoo shows as the identifier stays what it is.
    let named = kazoos().identifier("printer 7");
    assert_eq!(hold_for_long(named, &kazoo, LockKind::Mutex, "long-named").await, None);
    curator.quit();
    kazoo.quit();
}

/// How many sessions watch a node.
fn watchers(node: &str) -> usize {
    let answer = ZooKeeper::shared().four_letter("wchp").unwrap();
    let watching = answer.lines().skip_while(|line| *line != node).skip(1);
    watching.take_while(|line| line.starts_with('\t')).count()
}

/// Somebody deletes the node of ours that is next, with Curator behind it: it is Curator's turn then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_whose_waiting_node_is_deleted_does_not_enter_beside_curator() {
    const ROUNDS: usize = 12;
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    let (one, two) = (session(layout::Curator).await, session(layout::Curator).await);
    let path = "/beside/waiting-deleted";
    let mut raw = RawClient::connect(&ZooKeeper::shared().addr(), SESSION).unwrap();
    for round in 0..ROUNDS {
        let guard = one.mutex("waiting-deleted").unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = two.mutex("waiting-deleted").unwrap();
            async move { mutex.acquire().await.unwrap() }
        });
        // The one ahead, and its own node.
        let next = until("we wait", || {
            let next = agent.participants(path).into_iter().nth(1)?;
            (watchers(guard.node_path()) >= 1 && watchers(&next) == 1).then_some(next)
        })
        .await;
        let pending = agent.start_acquire(LockKind::Mutex, path, None);
        until("it waits", || {
            (agent.participants(path).len() == 3 && watchers(&next) == 2).then_some(())
        })
        .await;
        raw.delete(&next).unwrap();
        guard.release().await.unwrap();
        let grant = pending.wait(SOON).unwrap().held();
        until("we queue up again", || {
            (waiting.is_finished() || agent.participants(path).len() == 2).then_some(())
        })
        .await;
        assert!(!waiting.is_finished(), "two are inside, round {round}");
        agent.release(&grant).unwrap();
        soon("the lock", waiting).await.unwrap().release().await.unwrap();
    }
    raw.close().unwrap();
    one.close().await;
    two.close().await;
    agent.quit();
}

/// The wrapper of the documents removes its lock directory: Curator's own mutex stands it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_stands_that_the_directory_is_removed() {
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    let driver = || layout::Removed::after(layout::Curator);
    for _ in 0..3 {
        take_turns(driver(), &agent, LockKind::Mutex, "turns-removed").await;
    }
    agent.quit();
}

/// What we note in the directory is for ourselves: the others neither look at it nor mind it.
async fn pass_by(driver: impl LockDriver + Clone, agent: &Agent, name: &str) {
    let (one, two) = (session(driver.clone()).await, session(driver).await);
    let path = format!("/beside/{name}");
    let mutex = |session: &Session| {
        let options = LockOptions::default().hold_at_least(Duration::from_secs(600));
        session.mutex(name).unwrap().with_options(options)
    };
    let resting = async || {
        let busy = format!("{:#}", mutex(&two).try_acquire().await.unwrap_err());
        assert!(busy.contains("it is held at least until"), "{busy}");
    };
    soon("the lock", mutex(&one).acquire()).await.unwrap().release().await.unwrap();
    assert!(agent.acquire(LockKind::Mutex, &path, Some(Duration::ZERO)).is_busy());
    one.close().await;
    resting().await;
    for _ in 0..2 {
        let grant = agent.acquire(LockKind::Mutex, &path, Some(SOON)).held();
        agent.release(&grant).unwrap();
    }
    resting().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_and_kazoo_pass_by_what_we_note_in_the_directory() {
    let curator = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    pass_by(layout::Curator, &curator, "noted-curator").await;
    curator.quit();
    let kazoo = Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION);
    pass_by(layout::Kazoo::default(), &kazoo, "noted-kazoo").await;
    kazoo.quit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_asks_us_to_let_go_and_we_ask_curator() {
    let agent = Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION);
    let session = session(layout::Curator).await;
    let path = "/beside/revoked";
    // Curator asks us.
    let guard = session.mutex("revoked").unwrap().acquire().await.unwrap();
    let pending = agent.start_acquire(LockKind::Mutex, path, None);
    until("it waits", || (agent.participants(path).len() == 2).then_some(())).await;
    agent.revoke(guard.node_path()).unwrap();
    soon("the wish", guard.revoked()).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    agent.release(&pending.wait(SOON).unwrap().held()).unwrap();
    // We ask Curator.
    let grant = agent.acquire(LockKind::Revocable, path, None).held();
    let waiting = tokio::spawn({
        let mutex = session.mutex("revoked").unwrap();
        async move { mutex.acquire().await.unwrap() }
    });
    until("we wait", || (agent.participants(path).len() == 2).then_some(())).await;
    assert_eq!(session.site("revoked").unwrap().revoke().await.unwrap(), 1);
    assert!(agent.wait_event(&format!("revoked {}", grant.handle), SOON));
    assert!(!waiting.is_finished());
    agent.release(&grant).unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    session.close().await;
    agent.quit();
}
