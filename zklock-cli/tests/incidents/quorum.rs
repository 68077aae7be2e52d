//! `zklock doctor` where a server is down, and the others serve.

use serde_json::Value;
use zklock_test_support::ZooKeeper;

use crate::doctor::examine;
use crate::scene::Scene;

#[test]
fn a_server_that_is_down_is_named_and_the_rest_is_looked_at() {
    let ensemble = ZooKeeper::builder().ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "quorum");
    let down = ensemble.server(ensemble.followers()[0]);
    down.kill();
    let (exit, checks) = examine(&scene, &[], &[]);
    let codes = |all: &[Value]| {
        let codes: Vec<_> =
            all.iter().map(|check| check["code"].as_str().unwrap().to_owned()).collect();
        codes.join(" ")
    };
    let wrong: Vec<_> = checks.iter().filter(|check| check["state"] == "wrong").cloned().collect();
    assert_eq!((exit, &*codes(&wrong)), (1, "quorum"));
    let all = "quorum words connections chroot timeout tick auth acl containers buffer digests";
    assert_eq!(codes(&checks), all);
    let (says, helps) = (wrong[0]["says"].as_str().unwrap(), wrong[0]["helps"].as_str().unwrap());
    assert!(says.starts_with("2 of 3 servers serve, so there is a quorum"), "{says}");
    assert_eq!(helps, format!("start {}", down.addr()));
    assert!(says.contains(&format!("{}: ", down.addr())), "{says}");
}
