//! What it shows while something happens.

use std::thread::sleep;
use std::time::Duration;

use zklock_test_support::ZooKeeper;

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
    // The server learns that a browser is gone when it sends the next time.
    until("there are no browsers", || {
        let before = zookeeper.packets_received();
        sleep(Duration::from_secs(2));
        let none = zookeeper.packets_received() - before;
        println!("no browser: {none} packets");
        (none < 20).then_some(())
    });
    process.kill().unwrap();
    process.wait().unwrap();
}
