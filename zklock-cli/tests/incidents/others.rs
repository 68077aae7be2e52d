//! Locks shared with Java and Python.

use std::time::Duration;

use zklock_test_support::ZooKeeper;
use zklock_test_support::peers::{Agent, Curator, Kazoo, LockKind};

use crate::scene::{BOUND, Scene};

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
    let why = scene.why("a");
    assert_eq!(why["holders"][0]["session"]["state"], "connected");
    assert_eq!(why["queues"][0]["layout"], "Curator");
    // It does not listen, and so `why` says in the next incident. Then the rest of the advice.
    scene.follow(&helps[1]);
    assert_eq!(waiter.code(), 0);
}

#[test]
fn a_java_holder_ignores_that_it_is_asked_to_release() {
    let scene = Scene::new("ignored");
    let java = java();
    let _held = java.acquire(LockKind::Mutex, &scene.path("a"), None).held();
    let waiter = scene.waiter(&["a"]);
    let helps = scene.cause("a", "held");
    scene.follow(&helps[0]);
    let helps = scene.cause("a", "asked");
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
    drop(holder);
    // The holder's node goes meanwhile, and so nothing tells that this one waits.
    let next = ["run", "a", "--timeout", "60s", "--", "true"];
    assert_eq!(scene.start("10s", &next).code(), 0);
}
