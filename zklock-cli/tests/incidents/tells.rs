//! What the servers tell, and how long `why` waits for them.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use zklock_test_support::{BOUND, ReservedPort, ZooKeeper};

use crate::doctor::examine;
use crate::scene::{Scene, until};

const JARS: &str = "/usr/share/java";

fn shy() -> zklock_test_support::Builder {
    ZooKeeper::builder().java_property("zookeeper.4lw.commands.whitelist", "srvr")
}

#[test]
fn a_server_that_tells_no_connections_is_named() {
    let server = shy().start();
    let scene = Scene::at(&server.addr(), "shy");
    let _holder = scene.holder("30s", &["a"]);
    let why = scene.why("a");
    let (exit, checks) = examine(&scene, &[], &[]);
    assert!(exit == 0 && checks.iter().all(|check| check["code"] != "digests"), "{checks:?}");
    let session = &why["holders"][0]["session"];
    assert_eq!(session["state"], "unknown");
    let told = session["why"].as_str().unwrap();
    assert!(
        told.contains("it does not allow the four-letter word `cons`, and no AdminServer"),
        "{told}"
    );
    assert_eq!(why["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn the_admin_server_tells_the_connections_as_well() {
    let reserved = ReservedPort::reserve();
    let port = reserved.number().to_string();
    // What Debian's ZooKeeper does not name among its jars.
    let jars = ["servlet-api.jar", "jetty9-util-ajax.jar"].map(|jar| Path::new(JARS).join(jar));
    let server = jars.iter().fold(shy(), |server, jar| server.class_path(jar));
    let server = server
        .java_property("zookeeper.admin.enableServer", "true")
        .java_property("zookeeper.admin.serverAddress", "127.0.0.1")
        .java_property("zookeeper.admin.serverPort", &port)
        .start();
    let scene = Scene::at(&server.addr(), "admin");
    let _holder = scene.holder("30s", &["a"]);
    until("it tells the connections", || {
        let mut why = scene.command("zklock");
        why.args(["why", "a", "--json", "--within", "20s"]).env("ZKLOCK_ADMIN_PORT", &port);
        let output = why.output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        println!("{value}");
        let session = &value["holders"][0]["session"];
        let known = session["state"] == "connected" && session["timeout_ms"] == 30_000;
        (known && session["heard_ms_ago"].as_u64().unwrap() < 30_000).then_some(())
    });
    let (_, checks) = examine(&scene, &[("ZKLOCK_ADMIN_PORT", &port)], &[]);
    assert!(checks.iter().any(|check| check["code"] == "digests"), "{checks:?}");
}

/// One of three servers is frozen: the others answer for it.
#[test]
fn why_takes_no_longer_than_a_second() {
    let ensemble = ZooKeeper::builder().ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "second");
    let _holder = scene.holder("30s", &["a"]);
    let frozen = ensemble.server(ensemble.followers()[0]);
    frozen.pause();
    let timed = |arguments: &[&str]| {
        let start = Instant::now();
        let output = scene.command("zklock").args(arguments).output().unwrap();
        (output, start.elapsed())
    };
    // Not the first time on a busy machine, perhaps, where the others are too slow as well: a server that is
    // waited for is waited for each time.
    let output = until("it takes no longer than a second", || {
        let (_, begins) = timed(&["--version"]);
        let (output, took) = timed(&["why", "a", "--json"]);
        println!("{took:?}, and {begins:?} to begin and end");
        let answers = output.status.code() != Some(69);
        (answers && took <= Duration::from_secs(1) + begins + BOUND).then_some(output)
    });
    frozen.resume();
    let why: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problem = &why["problems"][0];
    assert_eq!((output.status.code(), &problem["code"]), (Some(1), &"server".into()), "{why}");
    let says = format!("The server {} does not serve: ", frozen.addr());
    assert!(problem["says"].as_str().unwrap().starts_with(&says), "{why}");
}
