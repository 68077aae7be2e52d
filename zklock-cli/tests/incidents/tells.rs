//! What the servers tell, and how long `why` waits for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::spawn;
use std::time::Duration;

use serde_json::Value;
use zklock_test_support::{
    Action, Control, CreateMode, Ensemble, Matcher, OpCode, Proxy, ReservedPort, ZooKeeper,
};

use crate::doctor::examine;
use crate::scene::{Scene, until};
use crate::second::in_a_second;

/// How many wait in a long queue.
const LONG: usize = 2_000;
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

/// One with an AdminServer on this port, which allows no four-letter word but `srvr`.
fn administered(port: &str) -> zklock_test_support::Builder {
    // What Debian's ZooKeeper does not name among its jars.
    let jars = ["servlet-api.jar", "jetty9-util-ajax.jar"].map(|jar| Path::new(JARS).join(jar));
    let server = jars.iter().fold(shy(), |server, jar| server.class_path(jar));
    server
        .java_property("zookeeper.admin.enableServer", "true")
        .java_property("zookeeper.admin.serverAddress", "127.0.0.1")
        .java_property("zookeeper.admin.serverPort", port)
}

#[test]
fn the_admin_server_tells_the_connections_as_well() {
    let reserved = ReservedPort::reserve();
    let port = reserved.number().to_string();
    let server = administered(&port).start();
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
    for code in ["digests", "words", "tick"] {
        let told = |check: &Value| check["code"] == code && check["state"] == "well";
        assert!(checks.iter().any(told), "{checks:?}");
    }
}

/// The server of a machine to which its AdminServer belongs: the first that took the port.
fn administrated<'e>(ensemble: &'e Ensemble, port: &str) -> &'e ZooKeeper {
    until("the AdminServer tells whose it is", || {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).ok()?;
        stream.write_all(b"GET /commands/configuration HTTP/1.0\r\n\r\n").ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        let told: Value = serde_json::from_str(said.split_once("\r\n\r\n")?.1).ok()?;
        let of = |server: &&ZooKeeper| told["client_port"] == server.port();
        ensemble.servers().iter().find(of)
    })
}

/// Servers of one machine that say who they are, and of which only an AdminServer tells who is connected.
#[test]
fn the_admin_server_of_another_server_says_of_no_holder_that_it_is_gone() {
    let reserved = ReservedPort::reserve();
    let port = reserved.number().to_string();
    let words = ("zookeeper.4lw.commands.whitelist", "srvr,conf");
    let ensemble = administered(&port).java_property(words.0, words.1).ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "others");
    let own = administrated(&ensemble, &port);
    let other = ensemble.servers().iter().find(|server| server.port() != own.port()).unwrap();
    let _holders =
        [(own, "a"), (other, "b")].map(|(at, lock)| scene.by(&at.addr()).holder("30s", &[lock]));
    let why = |lock: &str| -> Value {
        let mut why = scene.command("zklock");
        why.args(["why", lock, "--json", "--within", "20s"]).env("ZKLOCK_ADMIN_PORT", &port);
        let value = serde_json::from_slice(&why.output().unwrap().stdout).unwrap();
        println!("{value}");
        value
    };
    assert_eq!(why("a")["holders"][0]["session"]["state"], "connected");
    let why = why("b");
    let session = &why["holders"][0]["session"];
    assert_eq!((&session["state"], &why["problems"]), (&"unknown".into(), &Value::Array(vec![])));
    let told = session["why"].as_str().unwrap();
    assert!(
        told.contains(&format!("the AdminServer on its port {port} is another server")),
        "{told}"
    );
    let (_, checks) = examine(&scene, &[("ZKLOCK_ADMIN_PORT", &port)], &[]);
    let says = |code: &str| {
        checks.iter().find(|check| check["code"] == code).unwrap()["says"].as_str().unwrap()
    };
    for server in ensemble.servers() {
        let refuses = says("words").contains(&format!("{} does not allow cons", server.addr()));
        assert_eq!(refuses, server.port() != own.port(), "{checks:?}");
    }
    assert!(says("digests").starts_with("1 of 3 servers tell"), "{checks:?}");
}

/// Who counts its digest mismatches twice has a majority of its own.
#[test]
fn two_names_of_a_server_have_one_vote_also_where_only_its_admin_server_tells() {
    let reserved = ReservedPort::reserve();
    let port = reserved.number().to_string();
    let ensemble = administered(&port).ensemble(3);
    let one = administrated(&ensemble, &port);
    let scene = Scene::at(&format!("{},localhost:{}", one.addr(), one.port()), "names");
    let says = until("it tells its digests", || {
        let (_, checks) = examine(&scene, &[("ZKLOCK_ADMIN_PORT", &port)], &[]);
        let told = |check: &&Value| check["code"] == "digests" && check["state"] == "well";
        Some(checks.iter().find(told)?["says"].as_str().unwrap().to_owned())
    });
    assert!(says.starts_with("1 of 1 servers tell"), "{says}");
}

/// The AdminServer of a machine is asked for each server there, and is that of one of them.
#[test]
fn servers_of_one_machine_are_not_taken_for_one_where_only_an_admin_server_tells() {
    let reserved = ReservedPort::reserve();
    let port = reserved.number().to_string();
    let ensemble = administered(&port).ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "machine");
    let says = until("one tells its digests", || {
        let (_, checks) = examine(&scene, &[("ZKLOCK_ADMIN_PORT", &port)], &[]);
        let told = |check: &&Value| check["code"] == "digests" && check["state"] == "well";
        Some(checks.iter().find(told)?["says"].as_str().unwrap().to_owned())
    });
    assert!(says.starts_with("1 of 3 servers tell"), "{says}");
}

/// The lines of the quick start for `zoo.cfg`, and what it says that `why` says without them.
fn of_the_quick_start() -> (&'static str, Vec<String>) {
    let page = include_str!("../../../docs/quick-start.md");
    let line = page.lines().find(|line| line.starts_with("4lw.commands.whitelist=")).unwrap();
    let without = page.split("without that line").nth(1).unwrap().split("\n\n").next().unwrap();
    let words = without.split_whitespace().collect::<Vec<_>>().join(" ");
    (line, words.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// By default a server answers only `srvr`, and Debian's starts no AdminServer.
#[test]
fn a_server_as_it_is_shipped_does_not_tell_that_a_holder_is_gone() {
    let server = ZooKeeper::builder().as_shipped().start();
    let scene = Scene::at(&server.addr(), "shipped");
    scene.holder("36s", &["a"]).crash();
    let (line, says) = of_the_quick_start();
    let [heard, alone, awaited] = &says[..] else { panic!("{says:?}") };
    scene.says("a", heard);
    assert_eq!(scene.says("a", alone)["problems"], Value::Array(Vec::new()));
    let _waiter = scene.waiter(&["a"]);
    scene.says("a", heard);
    let why = scene.says("a", awaited);
    let codes: Vec<_> =
        why["problems"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
    assert_eq!((codes, &why["problems"][0]["normal"]), (vec![&"held".into()], &true.into()));
    scene.says(
        "a",
        "It is at work, hangs or is gone, which the servers do not tell (`zklock doctor` says why)",
    );
    let (exit, checks) = examine(&scene, &[], &[]);
    let words = checks.iter().find(|check| check["code"] == "words").unwrap();
    assert_eq!((exit, &words["state"]), (0, &"note".into()), "{checks:?}");
    let says = words["says"].as_str().unwrap();
    assert!(
        says.contains("does not allow cons, mntr, conf: ") && says.contains("zklock why"),
        "{says}"
    );
    assert!(words["helps"].as_str().unwrap().starts_with(line), "{words}");
}

#[test]
fn a_server_with_the_line_of_the_quick_start_tells_who_is_gone_and_who_is_silent() {
    let server = ZooKeeper::builder().as_shipped().cfg_line(of_the_quick_start().0).start();
    let scene = Scene::at(&server.addr(), "told");
    let (killed, stopped) = (scene.holder("36s", &["a"]), scene.holder("36s", &["b"]));
    killed.crash();
    stopped.stop();
    scene.cause("a", "gone");
    scene.says("a", "without a connection to any server");
    scene.cause("b", "silent");
    let (_, checks) = examine(&scene, &[], &[]);
    let words = checks.iter().find(|check| check["code"] == "words").unwrap();
    assert_eq!(words["state"], "well", "{checks:?}");
    assert!(checks.iter().all(|check| check["state"] != "wrong"), "{checks:?}");
    let tick = checks.iter().find(|check| check["code"] == "tick").unwrap();
    assert_eq!(tick["state"], "well", "{checks:?}");
}

/// One of three servers is frozen: the others answer for it.
#[test]
fn why_takes_no_longer_than_a_second() {
    let ensemble = ZooKeeper::builder().ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "second");
    let _holder = scene.holder("30s", &["a"]);
    let frozen = ensemble.server(ensemble.followers()[0]);
    frozen.pause();
    let control = Control::timers();
    let output = until("the others answer in time, as they may not on a busy machine", || {
        let output = in_a_second(&scene, "a", &control);
        (output.status.code() != Some(69)).then_some(output)
    });
    frozen.resume();
    let why: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problem = &why["problems"][0];
    assert_eq!((output.status.code(), &problem["code"]), (Some(1), &"server".into()), "{why}");
    let says = format!("The server {} does not serve: ", frozen.addr());
    assert!(problem["says"].as_str().unwrap().starts_with(&says), "{why}");
}

#[test]
fn why_takes_no_longer_than_a_second_whatever_is_not_answered() {
    let control = Control::timers();
    let list = Matcher::reply(OpCode::GetChildren).or(OpCode::GetChildren2);
    for (unanswered, is_reached) in [
        (None, false),
        (Some(Matcher::reply(OpCode::Connect)), false),
        (Some(list), false),
        (Some(Matcher::reply(OpCode::CloseSession)), true),
    ] {
        let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
        match unanswered {
            Some(unanswered) => drop(proxy.on(unanswered, Action::Drop)),
            None => proxy.black_hole(true),
        }
        let output = in_a_second(&Scene::at(&proxy.addr(), "unanswered"), "a", &control);
        // Where the machine is busy, nothing may be answered in time.
        assert!(is_reached || output.status.code() == Some(69), "{output:?}");
    }
}

/// What the nodes of a mutex, of readers and of writers are called.
const MUTEX: &str = "lock-";
const READER: &str = "__READ__";
const WRITER: &str = "__WRIT__";

/// A queue of these, all of one session, which ends when this is dropped.
fn queue(scene: &Scene, kinds: impl IntoIterator<Item = &'static str>) -> mpsc::Sender<()> {
    let mut raw = scene.raw();
    for path in [scene.root.clone(), scene.path("a")] {
        raw.create(&path, b"", CreateMode::Persistent).unwrap();
    }
    for kind in kinds {
        let node = scene.path(&format!("a/_c_be2ee212-c507-4b18-a733-81c86278175c-{kind}"));
        raw.create(&node, b"10.0.0.7", CreateMode::EphemeralSequential).unwrap();
    }
    let (alive, ended) = mpsc::channel();
    spawn(move || {
        while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            raw.ping().unwrap();
        }
        raw.close().unwrap();
    });
    alive
}

/// Each of those who wait is a node that is read, if the time suffices.
#[test]
fn of_a_queue_that_is_long_its_head_is_told_within_a_second() {
    let scene = Scene::new("long");
    let _queue = queue(&scene, [MUTEX; LONG]);
    scene.named_in_a_second("a", "held");
    let all = scene.why("a");
    let is_there = |number: usize| {
        let node = format!("-lock-{number:010}");
        all["waiters"][number - 1]["node"].as_str().unwrap().ends_with(&node)
    };
    assert!((1..LONG).all(is_there), "{all}");
    assert_eq!(all["queues"][0]["unread"], 0);
}

/// A server that does not answer each read.
#[test]
fn of_a_queue_that_is_too_long_for_a_second_the_head_is_told() {
    const LENGTH: usize = 250;
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let scene = Scene::at(&proxy.addr(), "head");
    let _queue = queue(&scene, [MUTEX; LENGTH]);
    // The numbers from 100 to 199.
    let behind = Matcher::request(OpCode::GetData).path("-lock-00000001");
    let silent = proxy.on(behind, Action::Drop);
    scene.named_in_a_second("a", "held");
    let control = Control::timers();
    let why = until("the connections are told as well", || {
        let output = in_a_second(&scene, "a", &control);
        let why: Value = serde_json::from_slice(&output.stdout).ok()?;
        (why["holders"][0]["session"]["state"] == "connected").then_some(why)
    });
    let queue = &why["queues"][0];
    assert_eq!((&queue["unread"], &queue["left"]), (&(LENGTH - 100).into(), &0.into()), "{why}");
    assert_eq!(
        (queue["strangers"].as_array(), why["waiters"].as_array().unwrap().len()),
        (Some(&vec![]), 99)
    );
    let problem = |index: usize| {
        (&why["problems"][index]["code"], why["problems"][index]["says"].as_str().unwrap())
    };
    let [(held, says), (unread, more)] = [problem(0), problem(1)];
    assert_eq!((held, unread), (&"held".into(), &"unread".into()));
    assert!(says.contains("as far as it is known: at least 99 others wait"), "{says}");
    assert!(more.contains("150 more of its nodes were not read"), "{more}");
    assert_eq!(why["problems"][1]["helps"][0], "zklock why a --within 10s");
    silent.release();
    let all = scene.why("a");
    assert_eq!(all["queues"][0]["unread"], 0, "{all}");
    assert_eq!(all["waiters"].as_array().unwrap().len(), LENGTH - 1, "{all}");
}

/// What `why` prints of a queue of which it read the head does not need the rest either.
#[test]
fn the_holder_of_a_queue_that_is_too_long_to_be_read_is_broken() {
    const LENGTH: usize = 250;
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let scene = Scene::at(&proxy.addr(), "break");
    let _queue = queue(&scene, [MUTEX; LENGTH]);
    // The numbers from 100 to 199.
    let _silent = proxy.on(Matcher::request(OpCode::GetData).path("-lock-00000001"), Action::Drop);
    let control = Control::timers();
    let breaks = until("why prints what breaks the lock", || {
        let output = in_a_second(&scene, "a", &control);
        let why: Value = serde_json::from_slice(&output.stdout).ok()?;
        let helps = why["problems"][0]["helps"].as_array()?.iter();
        helps.filter_map(Value::as_str).find(|help| help.contains(" break ")).map(str::to_owned)
    });
    scene.follow(&breaks);
    assert_eq!(scene.nodes("a").len(), LENGTH - 1);
}

/// Of a queue whose head holds, nobody is known to wait.
#[test]
fn of_a_queue_that_is_not_read_whole_it_is_not_said_that_nothing_is_wrong() {
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let scene = Scene::at(&proxy.addr(), "readers");
    let _queue = queue(&scene, [READER; 101].into_iter().chain([WRITER]));
    let _silent = proxy.on(Matcher::request(OpCode::GetData).path("__00000001"), Action::Drop);
    until("the head is told", || {
        let text = scene.command("zklock").args(["why", "a"]).output().unwrap();
        let text = String::from_utf8(text.stdout).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!words.contains("Nothing is wrong"), "{text}");
        words.contains("2 more of its nodes were not read").then_some(())
    });
}
