//! `zklock doctor` names what is wrong with an ensemble, and says so where nothing is.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use zklock_test_support::{CreateMode, ZooKeeper, is_long};

use crate::documented::check;
use crate::scene::Scene;

/// What doctor says, check by check.
pub(crate) fn examine(
    scene: &Scene,
    settings: &[(&str, &str)],
    more: &[&str],
) -> (i32, Vec<Value>) {
    let mut doctor = scene.command("zklock");
    doctor.args(["doctor", "--json", "--within", "20s"]).args(more).envs(settings.iter().copied());
    let output = doctor.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    let value: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{output:?}"));
    check(&value, "doctor", "doctor");
    // Whatever is no result is one that was not looked for.
    let told = |code: &Value| {
        let checks = value["checks"].as_array().unwrap();
        checks.iter().any(|one| one["code"] == *code && one["state"] != "note")
    };
    assert!(!value["unchecked"].as_array().unwrap().iter().any(told), "{printed}");
    (output.status.code().unwrap(), value["checks"].as_array().unwrap().clone())
}

/// Fails unless exactly this check is wrong; returns what it says.
pub(crate) fn wrong(scene: &Scene, settings: &[(&str, &str)], more: &[&str], code: &str) -> String {
    let (exit, checks) = examine(scene, settings, more);
    let wrong: Vec<_> = checks.iter().filter(|check| check["state"] == "wrong").collect();
    let codes: Vec<_> = wrong.iter().map(|check| check["code"].as_str().unwrap()).collect();
    assert_eq!((exit, codes), (1, vec![code]));
    assert!(wrong[0]["helps"].as_str().is_some());
    wrong[0]["says"].as_str().unwrap().to_owned()
}

const APP: &[(&str, &str)] = &[("ZKLOCK_AUTH", "digest:app:right"), ("ZKLOCK_ACL", "creator")];

#[test]
fn a_healthy_ensemble_is_well() {
    let ensemble = ZooKeeper::builder().ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "healthy");
    // A check that is left out is no check.
    let (exit, checks) = examine(&scene, APP, &["--containers-within", "60s"]);
    assert_eq!(exit, 0);
    assert!(checks.iter().all(|check| check["state"] == "well"), "{checks:?}");
    let codes: Vec<_> = checks.iter().map(|check| check["code"].as_str().unwrap()).collect();
    let all = "quorum words connections chroot timeout tick auth acl containers buffer digests";
    assert_eq!(codes.join(" "), all);
    let text = |more: &[&str]| {
        let mut doctor = scene.command("zklock");
        doctor.args(["doctor", "--within", "20s"]).args(more).envs(APP.iter().copied());
        String::from_utf8(doctor.output().unwrap().stdout).unwrap()
    };
    let all = text(&["--containers-within", "60s"]);
    assert!(all.ends_with("\n\nEverything is well.\n"), "{all}");
    let most = text(&[]);
    assert!(most.contains("containers  note  "), "{most}");
    assert!(most.ends_with("\n\nNothing is wrong. Not looked at: containers.\n"), "{most}");
    // The checklist quotes it.
    assert!(include_str!("../../../docs/production.md").contains("\"Everything is well.\""));
    // One of them has two names, and one vote.
    let twice = format!("{},localhost:{}", scene.servers, ensemble.server(0).port());
    let (_, checks) = examine(&scene.by(&twice), APP, &[]);
    let told = checks.iter().find(|check| check["code"] == "digests").unwrap();
    assert!(told["says"].as_str().unwrap().starts_with("3 of 3 servers tell"), "{told}");
    // Two of three are gone.
    ensemble.server(0).kill();
    ensemble.server(1).kill();
    let says = wrong(&scene, APP, &[], "quorum");
    assert!(says.contains(&ensemble.server(0).addr()), "{says}");
}

#[test]
fn a_session_timeout_that_is_not_granted_is_named() {
    let [shorter, longer] = [5, 15].map(Duration::from_secs);
    for (server, got, taken) in [
        (ZooKeeper::builder().max_session_timeout(shorter), "5.0 s: maxSessionTimeout", "5s"),
        (ZooKeeper::builder().min_session_timeout(longer), "15 s: minSessionTimeout", "15s"),
    ] {
        let server = server.start();
        let scene = Scene::at(&server.addr(), "timeout");
        let says = wrong(&scene, &[], &[], "timeout");
        assert!(says.contains("asked for a session timeout of 10 s"), "{says}");
        assert!(says.contains(got), "{says}");
        // One of the two things that help.
        assert_eq!(examine(&scene, &[("ZKLOCK_SESSION_TIMEOUT", taken)], &[]).0, 0);
    }
}

/// Only a server with a `minSessionTimeout` of its own grants less than two of its ticks.
#[test]
fn a_server_that_grants_too_little_for_any_lease_is_named() {
    let [second, tick] = [1, 2].map(Duration::from_secs);
    let server = ZooKeeper::builder().tick_time(tick).min_session_timeout(second);
    let server = server.max_session_timeout(tick).start();
    let scene = Scene::at(&server.addr(), "short");
    let says = wrong(&scene, &[("ZKLOCK_TICK_TIME", "2s")], &[], "session");
    assert!(says.contains("no lease is safe with a session timeout of 2s"), "{says}");
}

#[test]
fn too_few_connections_are_named() {
    let server = ZooKeeper::builder().cfg_line("maxClientCnxns=5").start();
    let scene = Scene::at(&server.addr(), "connections");
    let says = wrong(&scene, &[], &[], "connections");
    assert!(
        says.contains("does not accept 12 more") && says.contains("(maxClientCnxns=5)"),
        "{says}"
    );
}

#[test]
fn a_root_that_is_open_to_all_is_named_where_there_are_credentials() {
    let scene = Scene::new("open");
    scene.raw().create(&scene.root, b"", CreateMode::Persistent).unwrap();
    let says = wrong(&scene, APP, &[], "acl");
    assert!(says.contains(&format!("everybody may change {}", scene.root)), "{says}");
    let says = wrong(&scene, &APP[..1], &[], "acl");
    assert!(says.contains("what it creates"), "{says}");
    // Without credentials it is a choice.
    let (exit, checks) = examine(&scene, &[], &[]);
    assert!(
        exit == 0 && checks.iter().any(|check| check["code"] == "acl" && check["state"] == "note")
    );
}

/// Servers look for empty directories each minute, unless they are told otherwise: what is there after three
/// seconds tells nothing.
#[test]
fn containers_that_are_there_for_less_than_a_minute_are_no_fault() {
    for interval in [60, 3600].map(Duration::from_secs) {
        let server = ZooKeeper::builder().container_check(interval).start();
        let scene = Scene::at(&server.addr(), "containers");
        let (exit, checks) = examine(&scene, &[], &["--containers-within", "1s"]);
        let told = checks.iter().find(|check| check["code"] == "containers").unwrap();
        assert_eq!((exit, &told["state"]), (0, &"note".into()), "{told}");
        assert!(told["says"].as_str().unwrap().contains("--containers-within 2m"), "{told}");
    }
}

/// The long form waits for so long that a server with the default interval is told from one that never looks.
#[test]
fn containers_that_are_not_removed_are_named() {
    if !is_long() {
        return;
    }
    let within = ["--containers-within", "2m"];
    let scene = |name: &str, interval: u64| {
        let server = ZooKeeper::builder().container_check(Duration::from_secs(interval)).start();
        let scene = Scene::at(&server.addr(), name);
        (server, scene)
    };
    let ((_usual, usual), (_never, never)) = (scene("usual", 60), scene("never", 3600));
    std::thread::scope(|both| {
        both.spawn(|| wrong(&never, &[], &within, "containers"));
        let (exit, checks) = examine(&usual, &[], &within);
        let told = checks.iter().find(|check| check["code"] == "containers").unwrap();
        assert_eq!((exit, &told["state"]), (0, &"well".into()), "{told}");
    });
}

#[test]
fn a_wrong_password_is_named() {
    let scene = Scene::new("digest");
    // Somebody holds a lock, so that the directories stay.
    let holds = ["run", "a", "--", "sh", "-c", "echo; sleep 1000"];
    let mut holder = scene.command("zklock");
    let mut holder = holder.args(holds).envs(APP.iter().copied()).spawn().unwrap();
    holder.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let (exit, _) = examine(&scene, APP, &[]);
    assert_eq!(exit, 0);
    let other = [("ZKLOCK_AUTH", "digest:app:wrong"), APP[1]];
    let says = wrong(&scene, &other, &[], "auth");
    assert!(says.contains("digest:app") && !says.contains("wrong"), "{says}");
    let says = wrong(&scene, &[], &[], "auth");
    assert!(says.contains("without credentials"), "{says}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_queue_that_is_too_long_to_be_listed_is_named() {
    let server = ZooKeeper::builder().java_property("jute.maxbuffer", "70000").start();
    let scene = Scene::at(&server.addr(), "buffer");
    let (exit, _) = examine(&scene, &[], &[]);
    assert_eq!(exit, 0);
    let mut raw = scene.raw();
    raw.create(&scene.root, b"", CreateMode::Persistent).unwrap_or_default();
    raw.create(&scene.path("a"), b"", CreateMode::Persistent).unwrap();
    for _ in 0..1_300 {
        let node = scene.path("a/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-");
        raw.create(&node, b"10.0.0.7", CreateMode::EphemeralSequential).unwrap();
    }
    let says = wrong(&scene, &[], &[], "buffer");
    assert!(says.contains("1300 nodes in the queue of a:"), "{says}");
}

#[test]
fn a_chroot_that_is_not_there_is_named() {
    let server = format!("{}/no/such/node", ZooKeeper::shared().addr());
    let says = wrong(&Scene::at(&server, "chroot"), &[], &[], "chroot");
    assert_eq!(says.matches("does not exist").count(), 1, "{says}");
    assert!(says.contains("create it first: /no/such/node"), "{says}");
}

/// A server that is alone numbers its sessions one after the other.
#[test]
fn one_session_is_enough_for_all_checks_of_one_server() {
    let server = ZooKeeper::builder().start();
    let scene = Scene::at(&server.addr(), "sessions");
    let next = || scene.raw().session().id;
    let before = next();
    let (exit, checks) = examine(&scene, &[], &[]);
    assert_eq!(exit, 0);
    // It compared what the server counts.
    assert!(checks.iter().any(|check| check["code"] == "digests"), "{checks:?}");
    assert_eq!(next() - before - 1, 1);
}
