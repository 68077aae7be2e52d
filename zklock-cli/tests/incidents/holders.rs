//! Holders that do not release.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zklock_test_support::ZooKeeper;

use crate::scene::{Scene, until};

#[test]
fn a_stopped_holder_is_silent() {
    let scene = Scene::new("stopped");
    // It is silent after a third of it, and gone after all of it: what is advised is done in between.
    let holder = scene.holder("36s", &["a"]);
    let waiter = scene.waiter(&["a"]);
    assert_eq!(scene.why("a")["problems"][0]["code"], "held");
    let breaks = scene.breaks("a");
    holder.stop();
    let helps = scene.cause("a", "silent");
    assert_eq!(helps[0], breaks);
    scene.follow(&helps[0]);
    assert_eq!(waiter.code(), 0);
}

/// Only one of the servers has a connection of the holder, and it is not the first that is asked.
#[test]
fn the_server_of_a_holder_is_found_and_all_are_asked_whether_it_is_gone() {
    let ensemble = ZooKeeper::builder().ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "three");
    let its_own = ensemble.server(2).addr();
    let holder = scene.by(&its_own).holder("30s", &["a"]);
    let waiter = scene.waiter(&["a"]);
    scene.cause("a", "held");
    let session = || scene.why("a")["holders"][0]["session"].clone();
    let connected = session();
    assert_eq!((&connected["state"], &connected["server"]), (&"connected".into(), &its_own.into()));
    let breaks = scene.breaks("a");
    holder.crash();
    let helps = scene.cause("a", "gone");
    // On a busy machine a server may not tell each time.
    until("no server has a connection", || (session()["state"] == "alone").then_some(()));
    assert_eq!(helps[0], breaks);
    scene.follow(&helps[0]);
    assert_eq!(waiter.code(), 0);
}

/// Whoever is called at night may know one server only, or two names of it.
#[test]
fn a_holder_at_a_server_that_was_not_asked_is_not_called_gone() {
    let ensemble = ZooKeeper::builder().ensemble(3);
    let all = Scene::at(&ensemble.connect_string(), "asked");
    let _holder = all.by(&ensemble.server(2).addr()).holder("30s", &["a"]);
    let _waiter = all.waiter(&["a"]);
    until("its server is found", || {
        (all.why("a")["holders"][0]["session"]["state"] == "connected").then_some(())
    });
    let first = ensemble.server(0);
    let twice = format!("{},localhost:{}", first.addr(), first.port());
    for few in [all.by(&first.addr()), all.by(&twice)] {
        let why = few.why("a");
        let problems = why["problems"].as_array().unwrap();
        let codes: Vec<_> = problems.iter().map(|one| (&one["code"], &one["normal"])).collect();
        assert_eq!(codes, [(&"held".into(), &true.into())], "{why}");
        let session = &why["holders"][0]["session"];
        assert_eq!(session["state"], "unknown", "{why}");
        let asked = format!("only {} ", few.servers.replace(',', " and "));
        let others =
            "server.2 (127.0.0.1) and server.3 (127.0.0.1): name all of them in the connect string";
        let says = session["why"].as_str().unwrap();
        assert!(says.starts_with(&asked) && says.contains(others), "{says}");
        few.says("a", "It is at work, hangs or is gone, which is not known: only ");
        // Nor by `top` and `serve`, which ask in another way.
        let mut top = few.command("zklock").args(["top", "--json"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(top.stdout.take().unwrap()).read_line(&mut line).unwrap();
        top.kill().unwrap();
        top.wait().unwrap();
        let seen: Value = serde_json::from_str(&line).unwrap();
        let [lock] = &seen["locks"].as_array().unwrap()[..] else { panic!("{seen}") };
        assert_eq!((&lock["name"], &lock["warnings"]), (&"a".into(), &json!([])), "{seen}");
    }
}

#[test]
fn a_crashed_holder_is_gone() {
    let scene = Scene::new("crashed");
    let holder = scene.holder("30s", &["a"]);
    let waiter = scene.waiter(&["a"]);
    let breaks = scene.breaks("a");
    holder.crash();
    let helps = scene.cause("a", "gone");
    let why = scene.why("a");
    let says = why["problems"][0]["says"].as_str().unwrap();
    let waiting = "Waiting helps: its session ends, and the lock is free, after its session timeout and two ticks of \
                   the servers at most, which is 14 s unless the settings are others.";
    assert!(says.ends_with(waiting), "{says}");
    assert_eq!(helps[0], breaks);
    scene.follow(&helps[0]);
    assert_eq!(waiter.code(), 0);
}

/// Readers are served in the order of the queue, too: behind a writer they wait for a reader before it.
#[test]
fn a_slow_reader_is_in_the_way_of_a_writer_and_of_all_behind_it() {
    let (scene, start) = (Scene::new("reader"), Instant::now());
    let slow = scene.holder("10s", &["a", "--mode", "read", "--label", "export", "--revocable"]);
    let writer = scene.waiter(&["a", "--mode", "write"]);
    let reader = scene.waiter(&["a", "--mode", "read"]);
    // So far it is at work. From a session timeout on it is in the way.
    let (begins, timeout) = (scene.why("a"), Duration::from_secs(10));
    assert!(begins["problems"][0]["code"] == "held" || start.elapsed() > timeout, "{begins}");
    let helps = scene.cause("a", "reader");
    assert!(start.elapsed() > timeout);
    let why = scene.why("a");
    // The reader, and not the writer.
    assert_eq!(helps[1], scene.breaks("a"));
    let problem = &why["problems"][0];
    let says = problem["says"].as_str().unwrap().to_owned();
    assert!(says.contains("and one more waits behind it") && says.contains("\"export\""), "{says}");
    scene.follow(&helps[0]);
    assert_eq!((writer.code(), reader.code()), (0, 0));
    assert_eq!(slow.code(), 128 + 15);
}

/// It is not asked, and its node is deleted.
#[test]
fn a_slow_reader_that_does_not_listen_is_broken() {
    let scene = Scene::new("deaf");
    let slow = scene.holder("10s", &["a", "--mode", "read"]);
    let writer = scene.waiter(&["a", "--mode", "write"]);
    let helps = scene.cause("a", "reader");
    scene.follow(&helps[1]);
    assert_eq!(writer.code(), 0);
    assert_eq!(slow.code(), 124);
}

/// Nobody holds the permit, and the first one who waits does not take it.
#[test]
fn a_stopped_waiter_is_next_and_takes_nothing() {
    let scene = Scene::new("next");
    let run = |command: &[&str]| {
        let run = ["run", "a", "--mode", "semaphore:1", "--timeout", "600s", "--"];
        scene.start("36s", &[&run, command].concat())
    };
    let shows = |field: &str, count: usize| {
        until(&format!("{count} {field}"), || {
            (scene.why("a")[field].as_array().unwrap().len() == count).then_some(())
        });
    };
    let holder = run(&["sleep", "1000"]);
    shows("holders", 1);
    let first = run(&["true"]);
    shows("waiters", 1);
    let stopped = run(&["true"]);
    shows("waiters", 2);
    stopped.stop();
    first.end();
    holder.end();
    // Asked again, as it advises, it says the same; then that process is looked at.
    assert_eq!(scene.cause("a", "next"), ["zklock why a"]);
    assert_eq!(scene.why("a")["waiters"][0]["process"], stopped.id());
    stopped.go_on();
    assert_eq!(stopped.code(), 0);
}
