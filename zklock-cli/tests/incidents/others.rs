//! Locks shared with Java and Python.

use std::time::{Duration, Instant};

use zklock_test_support::peers::{Agent, Curator, Kazoo, LockKind};
use zklock_test_support::{CreateMode, ZooKeeper};

use crate::scene::{BOUND, Scene, until};

const SESSION: Duration = Duration::from_secs(30);

fn java() -> Agent {
    Curator::compile().agent(&ZooKeeper::shared().addr(), SESSION)
}

#[test]
fn a_java_holder_in_a_long_call_is_nothing_wrong() {
    let scene = Scene::new("java");
    let java = java();
    let _held = java.acquire(LockKind::Mutex, &scene.path("a"), None).held();
    let waiter = scene.waiter(&["a"]);
    let helps = scene.cause("a", "held");
    // No fault: nothing is marked as a problem.
    let why = scene.says("a", "Nothing is wrong in ZooKeeper: another one waits");
    let problems = why["problems"].as_array().unwrap();
    assert_eq!((problems.len(), &problems[0]["normal"]), (1, &true.into()));
    assert_eq!(why["holders"][0]["session"]["state"], "connected");
    assert_eq!(why["queues"][0]["layout"], "Curator");
    // It does not listen, and so `why` says in the next incident. Then the rest of the advice.
    scene.follow(&helps[1]);
    assert_eq!(waiter.code(), 0);
}

/// What a holder writes into its node with a heartbeat wakes the one who waits for that node.
#[test]
fn java_and_python_wait_on_when_their_holder_writes_since_when_it_holds_the_lock() {
    let scene = Scene::new("granted");
    let python = Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION);
    let agents = [(java(), LockKind::Mutex), (python, LockKind::MutexAsCurator)];
    // At the same time, because a heartbeat takes its time.
    let waiting = ["a", "b"].into_iter().zip(&agents).map(|(lock, (agent, kind))| {
        let holder = scene.holder("36s", &[lock, "--label", "night"]);
        let waiting = agent.start_acquire(*kind, &scene.path(lock), None);
        until("it waits", || (scene.nodes(lock).len() == 2).then_some(()));
        (lock, holder, waiting)
    });
    for (lock, holder, waiting) in waiting.collect::<Vec<_>>() {
        let why = until("it is told since when it is held", || {
            Some(scene.why(lock)).filter(|why| why["holders"][0]["granted"].is_string())
        });
        assert_eq!(why["holders"].as_array().unwrap().len(), 1);
        let one = &why["holders"][0];
        assert_eq!((&one["process"], &one["label"]), (&holder.id().into(), &"night".into()));
        assert!(waiting.wait(Duration::from_secs(1)).is_none());
        holder.end();
        waiting.wait(BOUND).unwrap().held();
    }
}

#[test]
fn a_java_holder_ignores_that_it_is_asked_to_release() {
    let scene = Scene::new("ignored");
    let java = java();
    let _held = java.acquire(LockKind::Mutex, &scene.path("a"), None).held();
    let waiter = scene.waiter(&["a"]);
    let helps = scene.cause("a", "held");
    let start = Instant::now();
    scene.follow(&helps[0]);
    // It may be about to release.
    let begins = scene.why("a");
    let says = begins["problems"][0]["says"].as_str().unwrap();
    assert!(says.contains("and may yet do so") || start.elapsed() > SESSION, "{begins}");
    let helps = scene.cause("a", "asked");
    assert!(start.elapsed() > SESSION);
    scene.follow(&helps[0]);
    assert_eq!(waiter.code(), 0);
}

#[test]
fn a_python_holder_leaves_a_node_that_no_session_removes() {
    let scene = Scene::new("python");
    let [holder, waiter] =
        [(); 2].map(|()| Kazoo::install().agent(&ZooKeeper::shared().addr(), SESSION));
    let _held = holder.acquire(LockKind::Lasting, &scene.path("a"), None).held();
    let waiting = waiter.start_acquire(LockKind::Mutex, &scene.path("a"), None);
    holder.quit();
    let helps = scene.cause("a", "stays");
    let why = scene.why("a");
    assert_eq!(
        (&why["queues"][0]["layout"], &why["holders"][0]["session"]["state"]),
        (&"kazoo".into(), &"none".into())
    );
    assert!(waiting.wait(Duration::ZERO).is_none());
    scene.follow(&helps[0]);
    waiting.wait(BOUND).unwrap().held();
}

#[test]
fn two_kinds_of_locks_of_one_name_do_not_exclude_each_other() {
    let scene = Scene::new("kinds");
    let java = java();
    let holder = scene.holder("10s", &["a"]);
    // Java does not see the mutex: both are inside.
    let _permit = java.acquire(LockKind::Semaphore(1), &scene.path("a"), None).held();
    assert_eq!(scene.takes("a"), 125);
    let helps = scene.cause("a", "kinds");
    scene.follow(&helps[0]);
    // One of the two users is gone: the other one excludes those who come, as it should.
    let problems = scene.why("a")["problems"].as_array().unwrap().clone();
    assert!(problems.iter().all(|problem| problem["code"] != "kinds"), "{problems:?}");
    let now = ["run", "a", "--timeout", "5s", "--retries", "1", "--", "true"];
    until("it is busy", || match scene.start("10s", &now).code() {
        75 => Some(()),
        // On a busy machine ZooKeeper may not answer in time.
        69 => None,
        code => panic!("it ends with {code}"),
    });
    drop(holder);
    // The holder's node goes meanwhile, and so nothing tells that this one waits.
    let next = ["run", "a", "--timeout", "60s", "--", "true"];
    assert_eq!(scene.start("10s", &next).code(), 0);
}

/// As kazoo makes them beside Curator, and Curator's mutex beside its read/write lock.
#[test]
fn two_kinds_are_named_also_where_both_are_locks_of_others() {
    let scene = Scene::new("both");
    let mut raw = scene.raw();
    let curator = "_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000";
    let kazoo = "be2ee212c5074b18a73381c86278175c__lock__0000000001";
    let reader = "_c_be2ee212-c507-4b18-a733-81c86278175c-__READ__0000000001";
    for (lock, other, says) in [
        ("a", kazoo, "as a mutex (Curator) and as a mutex (kazoo"),
        ("b", reader, "as a mutex (Curator) and as a read/write lock (Curator"),
    ] {
        for node in [curator, other] {
            let path = format!("{}/{node}", scene.path(lock));
            for (end, _) in path.match_indices('/').skip(1) {
                _ = raw.create(&path[..end], b"", CreateMode::Persistent);
            }
            raw.create(&path, b"10.0.0.7", CreateMode::Ephemeral).unwrap();
        }
        let helps = scene.cause(lock, "kinds");
        let why = scene.why(lock);
        let problems = why["problems"].as_array().unwrap();
        let problem = problems.iter().find(|problem| problem["code"] == "kinds").unwrap();
        assert!(problem["says"].as_str().unwrap().contains(says), "{problem}");
        helps.iter().for_each(|help| scene.follow(help));
        assert!(scene.nodes(lock).len() < 2);
        raw.ping().unwrap();
    }
    raw.close().unwrap();
}
