//! Directories in which no lock can be taken, or released.

use std::io::Read;

use serde_json::Value;
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
fn numbers_near_their_end_are_named_while_the_lock_can_still_be_taken() {
    let server = ZooKeeper::builder().sequence("/used", LAST - 1000).start();
    let scene = Scene::bare(&server.addr());
    assert_eq!(scene.takes("used"), 0);
    let helps = scene.cause("used", "numbers");
    let says = &scene.why("used")["problems"][0]["says"];
    assert!(says.as_str().unwrap().contains("refuses the lock after 999 more"), "{says}");
    scene.follow(&helps[0]);
    assert_eq!(scene.why("used")["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn a_directory_in_which_nobody_may_delete_keeps_its_holder() {
    let scene = Scene::new("refused");
    let java = Curator::compile().agent(&scene.servers, BOUND);
    let held = java.acquire(LockKind::Mutex, &scene.path("a"), None).held();
    allow(&scene, "a", &[(BUT_DELETE, "world", "anyone")]);
    let waiter = scene.waiter(&["a"]);
    assert!(java.release(&held).is_err());
    let helps = scene.cause("a", "refused");
    assert!(helps[0].contains(" setAcl ") && !helps[0].contains("break"), "{helps:?}");
    scene.follow(&helps[0]);
    // It has tried already, and does not again.
    assert_eq!(scene.nodes("a").len(), 2);
    scene.follow(&helps[1]);
    assert_eq!(waiter.code(), 0);
}

/// All rights but that to delete.
const BUT_DELETE: u8 = 23;

/// Sets the access control list of a lock's directory.
fn allow(scene: &Scene, lock: &str, entries: &[(u8, &str, &str)]) {
    let field =
        |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
    let mut request = field(&scene.path(lock));
    request.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
    for (rights, scheme, id) in entries {
        request.extend([&[0, 0, 0, *rights], &*field(scheme), &*field(id)].concat());
    }
    // Whatever version it has.
    request.extend([0xff; 4]);
    scene.raw().request(OpCode::SetAcl, &request).unwrap();
}

/// `zkCli.sh` knows no credentials of the environment, and no option for them.
#[test]
fn what_zk_cli_needs_is_said_where_there_are_credentials() {
    let scene = Scene::new("auth");
    let app = [("ZKLOCK_AUTH", "digest:app:right"), ("ZKLOCK_ACL", "creator")];
    let mut holder = scene.command("zklock");
    let holds = ["run", "a", "--", "sh", "-c", "echo; sleep 1000"];
    let mut holder = holder.args(holds).envs(app).spawn().unwrap();
    holder.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    // The words of a command, after those that `why` says.
    let by_hand = |words: &str| {
        let enters = format!("printf '%s\\n' 'addauth digest app:right' '{words}'");
        scene.follow(&format!("{enters} | zkCli.sh -server {}", scene.servers));
    };
    let allow = |entry: &str| by_hand(&format!("setAcl {} {entry}", scene.path("a")));
    let refused = || {
        let mut why = scene.command("zklock");
        let output =
            why.args(["why", "a", "--json", "--within", "20s"]).envs(app).output().unwrap();
        let why: Value = serde_json::from_slice(&output.stdout).unwrap();
        let problems = why["problems"].as_array().unwrap().clone();
        problems.into_iter().find(|problem| problem["code"] == "refused")
    };
    let alone = format!(
        "call it with only `-server {}`, enter `addauth digest app:PASSWORD`",
        scene.servers
    );
    let in_words = || {
        let problem = refused().unwrap();
        let says = problem["says"].as_str().unwrap();
        assert_eq!(problem["helps"], Value::Array(Vec::new()));
        let gives = format!("Give DELETE (the letter `d`) on {} to digest:app. ", scene.path("a"));
        assert!(says.contains(&gives) && says.contains(&alone), "{says}");
        assert!(!says.contains("right") && !says.contains("=:"), "{says}");
    };
    // Who has ADMIN sees the hash of the password, which is for nobody else to see.
    allow("auth::crwa,world:anyone:r");
    in_words();
    allow("auth::cdrwa,world:anyone:r");
    assert_eq!(refused(), None);
    allow("world:anyone:crwa");
    let problem = refused().unwrap();
    let says = problem["says"].as_str().unwrap();
    assert!(says.contains(&alone) && !says.contains("right"), "{says}");
    let command = problem["helps"][0].as_str().unwrap();
    let begins = format!("zkCli.sh -server {} ", scene.servers);
    by_hand(command.strip_prefix(&begins).unwrap());
    assert_eq!(refused(), None);
    // Who has not sees `x`, and a list with that would lock everybody out.
    allow("auth::crw");
    in_words();
    holder.kill().unwrap();
    holder.wait().unwrap();
}

/// Nobody but the holder knows its credentials.
#[test]
fn who_alone_may_delete_is_named_where_a_holder_stays() {
    let scene = Scene::new("others");
    for path in [scene.root.clone(), scene.path("a")] {
        scene.raw().create(&path, b"", CreateMode::Persistent).unwrap();
    }
    allow(&scene, "a", &[(BUT_DELETE, "world", "anyone"), (31, "digest", "app:hash")]);
    let _holder = scene.holder("10s", &["a"]);
    let _waiter = scene.waiter(&["a"]);
    scene.cause("a", "held");
    let why = scene.why("a");
    let says = why["problems"][0]["says"].as_str().unwrap();
    let names = format!(" Only digest:app may delete nodes in {}:", scene.path("a"));
    assert!(says.contains(&names), "{says}");
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

/// The mark of `lock_delay` as a lost holder leaves it, and as the next one who comes rewrites it.
#[test]
fn the_delay_after_the_loss_of_a_holder_is_told() {
    let scene = Scene::new("delay");
    let mut raw = scene.raw();
    raw.create(&scene.root, b"", CreateMode::Persistent).unwrap();
    let lost = br#"{"zklock":1,"kept":true,"node":41,"delay_ms":600000}"#;
    raw.create(&scene.path("a"), lost, CreateMode::Persistent).unwrap();
    let says = "its last holder was lost: who comes next gets it after 10 min (lock_delay)";
    assert_eq!(scene.says("a", says)["unavailable_for_ms"], 600_000);
    let noted = br#"{"zklock":1,"kept":true,"lost":true,"until":"2996-11-24T00:00:00Z"}"#;
    raw.set_data(&scene.path("a"), noted).unwrap();
    let left = scene.says("a", "nobody gets it for ")["unavailable_for_ms"].as_u64().unwrap();
    assert!(left > 600_000, "{left}");
}
