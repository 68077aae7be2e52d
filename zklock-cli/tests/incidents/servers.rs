//! Servers that differ from each other.

use std::time::Duration;

use zklock_test_support::ZooKeeper;

use crate::doctor::{examine, wrong};
use crate::scene::{Scene, until};

#[test]
fn a_follower_shows_a_node_that_its_leader_does_not_know() {
    let hour = Duration::from_secs(3600);
    let ensemble = ZooKeeper::builder().direct().container_check(hour).ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "differs");
    // So that the directory is there, and its first number is given.
    assert_eq!(scene.takes("a"), 0);
    let follower = ensemble.server(ensemble.followers()[0]);
    follower.kill();
    follower.plant(&scene.path("a/_c_00000000-0000-4000-8000-000000000000-lock-0000000000"));
    follower.restart();
    let there = scene.by(&follower.addr());
    let waiter = there.waiter(&["a"]);
    let helps = scene.cause("a", "differs");
    let why = scene.why("a");
    let says = why["problems"][0]["says"].as_str().unwrap();
    assert!(says.starts_with(&format!("The server {} shows ", follower.addr())), "{says}");
    // Its leader may be the one that is wrong: then the good data are here.
    assert!(says.contains("call `zklock doctor`") && !says.contains("empty"), "{says}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let process = format!("true on {} (process {})", host.trim(), waiter.id());
    let by_hand = format!("by hand: end who waits there ({process}), and start it anew");
    assert!(says.contains(&by_hand), "{says}");
    // By the data of the others it is the first in the queue: it waits all the same.
    let all = |field: &str| why[field].as_array().unwrap().clone();
    assert_eq!(all("holders"), Vec::<serde_json::Value>::new(), "{why}");
    let [only] = &all("waiters")[..] else { panic!("{why}") };
    assert_eq!((&only["process"], &only["holds"]), (&waiter.id().into(), &false.into()));
    let at = follower.addr();
    scene.says(
        "a",
        &format!("Nobody holds it. Who is first in the queue waits at {at}, whose data"),
    );
    // First it is asked which server is wrong. It writes what there is to compare.
    assert!(helps.len() == 3 && helps[0] == "zklock doctor", "{helps:?}");
    let says = wrong(&scene, &[], &[], "digests");
    assert!(says.starts_with(&format!("{} says that its data", follower.addr())), "{says}");
    assert!(says.contains("2 of 3 voting servers"), "{says}");
    // Then the lock is freed, here where the one who waits runs: it is ended, and started anew elsewhere.
    assert_eq!(helps[1], format!("kill {}", waiter.id()));
    assert!(!helps[2].contains(&follower.addr()), "{helps:?}");
    scene.follow(&helps[1]);
    assert_eq!(waiter.code(), 128 + 15);
    scene.follow(&format!("{} && zklock run a --timeout 60s --retries 1 -- true", helps[2]));
    // What doctor says in words: the server copies the data of its leader.
    follower.kill();
    follower.wipe();
    follower.restart();
    assert_eq!(examine(&scene, &[], &[]).0, 0);
    assert_eq!(scene.why("a")["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn what_was_counted_under_an_earlier_leader_accuses_nobody() {
    let hour = Duration::from_secs(3600);
    let ensemble = ZooKeeper::builder().direct().container_check(hour).ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "led");
    assert_eq!(scene.takes("a"), 0);
    // Of servers with the same transactions, the last one is elected.
    let wrongs = ensemble.server(2);
    wrongs.kill();
    wrongs.plant(&scene.path("a/_c_00000000-0000-4000-8000-000000000000-lock-0000000000"));
    wrongs.restart();
    // A leader copies its data to those whose last transaction it does not remember.
    assert_eq!(scene.takes("b"), 0);
    until("the one that is wrong leads", || {
        ensemble.server(0).kill();
        ensemble.server(1).kill();
        ensemble.restart(0);
        ensemble.restart(1);
        (ensemble.leader() == 2).then_some(())
    });
    let says = wrong(&scene, &[], &[], "digests");
    let all = format!("all other servers say that the data are not those of {}", wrongs.addr());
    assert!(says.starts_with(&all), "{says}");
    // What it advises: another one leads, whose number stays.
    wrongs.kill();
    let leader = ensemble.server(ensemble.leader()).addr();
    wrongs.restart();
    assert!(ensemble.server(ensemble.leader()).metric("zk_digest_mismatches_count") > 0);
    let says = wrong(&scene, &[], &[], "digests");
    let one = format!("{} says that its data are not those of {leader}", wrongs.addr());
    assert!(says.starts_with(&one), "{says}");
    wrongs.kill();
    wrongs.wipe();
    wrongs.restart();
    // The numbers of the two others are there to the end of their processes.
    let (exit, checks) = examine(&scene, &[], &[]);
    let told: Vec<_> = checks.iter().filter(|check| check["code"] == "digests").collect();
    assert_eq!((exit, told.len(), &told[0]["state"]), (0, 1, &"note".into()), "{told:?}");
    assert!(told[0]["says"].as_str().unwrap().contains(&leader), "{told:?}");
}
