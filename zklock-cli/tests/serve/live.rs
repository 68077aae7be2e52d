//! What it shows while something happens.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use zklock_test_support::{Action, Matcher, OpCode, Proxy, ZooKeeper};

use crate::bed::{Bed, TWO, until};
use crate::client::{SERVE, Server};

#[test]
fn a_lock_is_seen_as_it_is_taken_waited_for_and_released() {
    let bed = Bed::new("live");
    let server = Server::of(&bed, &[]);
    let mut events = server.events();
    assert_eq!(events.next("state", |_| true)["locks"], serde_json::json!([]));
    let script = |file: &str| format!("echo > {file}; while [ -e {file} ]; do sleep 0.05; done");
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", &script("one")]).spawn().unwrap();
    let held = events.lock("a", |lock| lock["holders"][0]["holds"] == true);
    assert_eq!((&held["waiting"], &held["holders"][0]["application"]), (&0.into(), &"sh".into()));
    let wait = ["run", "a", "--timeout", "60s", "--", "sh", "-c", &script("two")];
    let mut waiter = bed.zklock(&wait).spawn().unwrap();
    let waits = events.lock("a", |lock| lock["waiting"] == 1);
    let next = waits["waiters"][0]["node"].clone();
    bed.lines("one", 1);
    std::fs::remove_file(bed.folder.join("one")).unwrap();
    events.lock("a", |lock| lock["holders"][0]["node"] == next);
    assert!(holder.wait().unwrap().success());
    bed.lines("two", 1);
    std::fs::remove_file(bed.folder.join("two")).unwrap();
    let free = events.lock("a", |lock| lock["free_since"].is_string());
    assert_eq!((&free["waiting"], &free["holders"]), (&0.into(), &serde_json::json!([])));
    assert!(waiter.wait().unwrap().success());
    let timeline = server.get("/api/timeline?name=a").json();
    let spans = timeline["spans"].as_array().unwrap().iter();
    let told: Vec<_> =
        spans.map(|span| (span["contender"]["holds"] == true, &span["end"])).collect();
    let [released, granted] = ["released", "granted"].map(serde_json::Value::from);
    assert_eq!(told, [(true, &released), (false, &granted), (true, &released)], "{timeline}");
}

#[test]
fn it_goes_on_after_a_restart_of_zookeeper() {
    let bed = Bed::new("restart");
    let zookeeper = ZooKeeper::start();
    let at = zookeeper.addr();
    let mut process = bed.zklock_at(&at, &["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let server = Server::run(bed.zklock_at(&at, &SERVE));
    let mut events = server.events();
    events.lock("a", |lock| lock["holders"][0].is_object());
    zookeeper.kill();
    let look = events.next("look", |look| look["trouble"].is_string());
    assert!(look["seen"].is_string(), "{look}");
    assert_eq!(server.get("/api/locks").code, 503);
    // Who comes now sees what was seen last.
    server.events().lock("a", |lock| lock["holders"][0].is_object());
    zookeeper.restart();
    events.next("look", |look| look["trouble"].is_null());
    process.kill().unwrap();
    process.wait().unwrap();
    // It may have been free before: its holder may have given up in the meantime.
    server.events().lock("a", |lock| lock["free_since"].is_string());
}

/// Whoever comes first sees an old state as such, and its times go on by the present time.
#[test]
fn what_was_seen_before_nobody_looked_is_told_as_old() {
    let bed = Bed::new("returns");
    let zookeeper = ZooKeeper::start();
    let proxy = Proxy::start(zookeeper.socket_addr());
    let server = Server::run(bed.zklock_at(&proxy.addr(), &SERVE));
    server.events().next("state", |_| true);
    until_nobody_looks(&zookeeper);
    let silent = proxy.on(list_reply(), Action::Drop);
    let before = now();
    let mut events = server.events();
    let look = events.next("look", |_| true);
    let told = |field: &str| humantime::parse_rfc3339(look[field].as_str().unwrap()).unwrap();
    assert_eq!(look["trouble"], "Nobody looked at the locks", "{look}");
    // Of both, a part of a millisecond is left out.
    assert!(told("at") + Duration::from_millis(1) > before && told("seen") < before, "{look}");
    silent.release();
    let look = events.next("look", |look| look["trouble"].is_null());
    assert!(humantime::parse_rfc3339(look["seen"].as_str().unwrap()).unwrap() > before, "{look}");
}

/// The page takes ten seconds without a word for a connection that is cut.
#[test]
fn long_looks_leave_no_browser_without_a_word() {
    let bed = Bed::new("long");
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let _slow = proxy.on(list_reply(), Action::Delay(Duration::from_secs(5)));
    let mut serve = bed.zklock_at(&proxy.addr(), &SERVE);
    // Long enough that a list may take so long.
    let server = Server::run({
        serve.env("ZKLOCK_SESSION_TIMEOUT", "36s");
        serve
    });
    let mut events = server.events();
    events.next("look", |look| look["trouble"].is_null());
    let begin = Instant::now();
    let next = events.next("look", |_| true);
    assert!(begin.elapsed() < Duration::from_secs(8), "{next} after {:?}", begin.elapsed());
}

fn list_reply() -> Matcher {
    Matcher::reply(OpCode::GetChildren).or(OpCode::GetChildren2)
}

#[allow(clippy::disallowed_methods, reason = "it is compared with what is told to people")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[test]
fn it_begins_without_zookeeper_and_says_so() {
    let bed = Bed::new("without");
    let server = Server::run(bed.zklock_at("127.0.0.1:1", &SERVE));
    let look = server.events().next("look", |look| look["trouble"].is_string());
    assert!(look["seen"].is_null(), "{look}");
    assert_eq!(server.get("/").code, 200);
}

#[test]
fn ten_browsers_cost_as_much_as_one_and_none_costs_nothing() {
    let bed = Bed::new("shared");
    let zookeeper = ZooKeeper::start();
    let at = zookeeper.addr();
    let mut process = bed.zklock_at(&at, &["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let server = Server::run(bed.zklock_at(&at, &SERVE));
    // So many packets in the time in which the first of them sees twenty looks.
    let packets = |browsers: usize| {
        let mut all: Vec<_> = (0..browsers).map(|_| server.events()).collect();
        all.iter_mut().for_each(|one| drop(one.lock("a", |_| true)));
        let before = zookeeper.packets_received();
        (0..20).for_each(|_| drop(all[0].next("look", |_| true)));
        zookeeper.packets_received() - before
    };
    let (one, ten) = (packets(1), packets(10));
    println!("one browser: {one} packets, ten: {ten}");
    assert!(one > 50 && ten < 2 * one, "{one} {ten}");
    until_nobody_looks(&zookeeper);
    process.kill().unwrap();
    process.wait().unwrap();
}

/// The server learns that a browser is gone when it sends the next time.
fn until_nobody_looks(zookeeper: &ZooKeeper) {
    until("there are no browsers", || {
        let before = zookeeper.packets_received();
        sleep(Duration::from_secs(2));
        let none = zookeeper.packets_received() - before;
        println!("no browser: {none} packets");
        (none < 20).then_some(())
    });
}
