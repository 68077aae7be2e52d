//! Directories in which no lock can be taken, or released.

use zklock_test_support::peers::{Curator, LockKind};
use zklock_test_support::{CreateMode, OpCode, ZooKeeper};

use crate::scene::{BOUND, Scene};

/// 2³¹ − 2²⁰: from here on a lock is refused.
const LAST: i32 = i32::MAX - (1 << 20) + 1;

#[test]
fn the_numbers_of_a_lock_come_to_their_end() {
    let server = ZooKeeper::builder().sequence("/used", LAST).start();
    let scene = Scene::bare(&server.addr());
    assert_eq!(scene.takes("used"), 125);
    let helps = scene.cause("used", "numbers");
    scene.follow(&helps[0]);
    assert_eq!(scene.takes("used"), 0);
    assert_eq!(scene.why("used")["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn a_directory_in_which_nobody_may_delete_keeps_its_holder() {
    let scene = Scene::new("refused");
    let java = Curator::compile().agent(&scene.servers, BOUND);
    let held = java.acquire(LockKind::Mutex, &scene.path("a"), None).held();
    // All but the right to delete: crwa of world:anyone.
    let field =
        |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
    let path = scene.path("a");
    let parts = [
        field(&path),
        vec![0, 0, 0, 1, 0, 0, 0, 23],
        field("world"),
        field("anyone"),
        vec![0xff; 4],
    ];
    scene.raw().request(OpCode::SetAcl, &parts.concat()).unwrap();
    let waiter = scene.waiter(&["a"]);
    assert!(java.release(&held).is_err());
    let helps = scene.cause("a", "refused");
    scene.follow(&helps[0]);
    assert_eq!(waiter.code(), 0);
}

/// Curator counts every child of the directory.
#[test]
fn a_lock_inside_of_a_lock_is_waited_for_by_java() {
    let scene = Scene::new("stranger");
    let mut raw = scene.raw();
    for path in [scene.path("a"), scene.path("a/0")] {
        let above = path.rsplit_once('/').unwrap().0;
        let _ = raw.create(above, b"", CreateMode::Persistent);
        raw.create(&path, b"", CreateMode::Persistent).unwrap();
    }
    let java = Curator::compile().agent(&scene.servers, BOUND);
    let waiting = java.start_acquire(LockKind::Mutex, &scene.path("a"), None);
    let helps = scene.cause("a", "stranger");
    scene.follow(&helps[0]);
    waiting.wait(BOUND).unwrap().held();
}
