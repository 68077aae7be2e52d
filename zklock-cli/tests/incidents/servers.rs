//! Servers that differ from each other.

use std::time::Duration;

use zklock_test_support::ZooKeeper;

use crate::doctor::{examine, wrong};
use crate::scene::Scene;

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
    assert!(!helps[0].contains(&follower.addr()), "{helps:?}");
    scene.follow(&format!("{} && zklock run b -- true", helps[0]));
    // Doctor names it, too, once there was something to compare.
    let says = wrong(&scene, &[], &[], "digests");
    assert!(says.starts_with(&format!("{} says that its data", follower.addr())), "{says}");
    // What it says in words: the server copies the data of its leader.
    follower.kill();
    follower.wipe();
    follower.restart();
    assert_eq!(waiter.code(), 0);
    assert_eq!(examine(&scene, &[], &[]).0, 0);
    assert_eq!(scene.why("a")["problems"].as_array().unwrap().len(), 0);
}
