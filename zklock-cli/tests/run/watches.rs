//! `watch`.

use std::io::{BufRead, BufReader};
use std::process::Child;

use nix::sys::signal::Signal;
use serde_json::Value;
use zklock_test_support::{CreateMode, Direction, Frame, OpCode, Proxy, ZooKeeper};

use crate::bed::{Bed, CURATORS, KAZOOS, TWO, make, raw, signal, until};
use crate::documented::check;

/// The lines that `watch` prints.
fn lines(watching: &mut Child) -> impl FnMut() -> String + use<> {
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    move || lines.next().unwrap().unwrap()
}

/// The same, but for connections that are lost, as on a busy machine.
pub(crate) fn changes(watching: &mut Child) -> impl FnMut() -> String + use<> {
    let mut next = lines(watching);
    move || {
        let mut lines = std::iter::repeat_with(&mut next);
        lines.find(|line| !line.starts_with("blind ") && !line.contains("\"blind\"")).unwrap()
    }
}

/// Says what the line is where it is another.
#[track_caller]
pub(crate) fn begins(line: &str, with: &str) {
    assert!(line.starts_with(with), "{line:?} instead of {with:?}");
}

#[test]
fn a_lock_is_followed_line_by_line() {
    let bed = Bed::new("watch");
    let mut watching = bed.zklock(&["watch", "a", "--json"]).spawn().unwrap();
    let mut line = changes(&mut watching);
    let script = "echo > held; while [ -e held ]; do sleep 0.05; done";
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", script]).spawn().unwrap();
    let mut next = || -> Value { serde_json::from_str(&line()).unwrap() };
    assert_eq!(next()["event"], "joined");
    let granted = next();
    assert_eq!(
        (&granted["event"], &granted["contender"]["application"]),
        (&"granted".into(), &"sh".into())
    );
    bed.lines("held", 1);
    std::fs::remove_file(bed.folder.join("held")).unwrap();
    assert!(holder.wait().unwrap().success());
    assert_eq!(next()["event"], "left");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn people_follow_a_lock_too() {
    let bed = Bed::new("follow");
    let mut watching = bed.zklock(&["watch", "a"]).spawn().unwrap();
    let mut next = changes(&mut watching);
    let run = ["run", "a", "--mode", "read", "--", "sh", "-c", TWO];
    // Nobody uses it yet.
    assert_eq!(next(), format!("watching a ({}, layout: Curator)", bed.path("a")));
    let mut holder = bed.zklock(&run).spawn().unwrap();
    begins(&next(), "joined  holds read      sh on ");
    begins(&next(), "granted holds read      sh on ");
    let mut rival = bed.zklock(&["run", "a", "--timeout", "60s", "--", "true"]).spawn().unwrap();
    begins(&next(), "joined  waits mutex     true on ");
    holder.kill().unwrap();
    holder.wait().unwrap();
    begins(&next(), "left    holds read      sh on ");
    assert!(rival.wait().unwrap().success());
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn those_who_wait_for_a_permit_are_followed() {
    let bed = Bed::new("watch-permits");
    let (mut holder, mut waiters) = bed.permits();
    let mut watching = bed.zklock(&["watch", "a"]).spawn().unwrap();
    let mut next = changes(&mut watching);
    let semaphore = "Curator's InterProcessSemaphoreV2";
    assert_eq!(next(), format!("watching a ({}, layout: {semaphore})", bed.path("a/leases")));
    begins(&next(), "joined  holds permit    sh on ");
    begins(&next(), "granted holds permit    sh on ");
    for _ in &waiters {
        begins(&next(), "joined  waits mutex     true on ");
    }
    // Nobody else. Permits and those who wait for them are two queues, and one look may come before the end of the holder,
    // and the other behind it.
    signal(&holder, Signal::SIGTERM);
    holder.wait().unwrap();
    let mut told = next();
    while told.contains("true on ") {
        told = next();
    }
    begins(&told, "left    holds permit    sh on ");
    assert!(waiters.iter_mut().all(|waiter| waiter.wait().unwrap().success()));
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_lock_that_nobody_used_is_followed_in_whatever_layout() {
    let bed = Bed::new("watch-unused");
    let mut watching = bed.zklock(&["watch", "a"]).spawn().unwrap();
    let mut next = changes(&mut watching);
    let path = bed.path("a");
    assert_eq!(next(), format!("watching a ({path}, layout: Curator)"));
    let mut comes = |node: &str, layout: &str| {
        make(&mut raw(), &format!("{path}/{node}"), b"10.0.0.7", CreateMode::Persistent);
        if layout != "Curator" {
            assert_eq!(next(), format!("watching a ({path}, layout: {layout})"));
        }
        begins(&next(), "joined  holds mutex     10.0.0.7");
        begins(&next(), "granted holds mutex     10.0.0.7");
    };
    comes(KAZOOS, "kazoo");
    comes(CURATORS, "Curator");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn only_those_who_come_are_read() {
    let bed = Bed::new("watch-reads");
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let node = |number: u32| {
        let node = format!("_c_be2ee212-c507-4b18-a733-{number:012}-lock-{number:010}");
        make(&mut raw(), &bed.path(&format!("a/{node}")), b"10.0.0.7", CreateMode::Persistent);
        node
    };
    let before: Vec<_> = (0..10).map(node).collect();
    let mut watching = bed.zklock_at(&proxy.addr(), &["watch", "a"]).spawn().unwrap();
    let mut next = changes(&mut watching);
    assert!(next().starts_with("watching a "));
    let mut joins = |node: &str| {
        let line = next();
        let is_its = line.starts_with("joined ") && line.contains(node);
        assert!(is_its, "{line:?} instead of {node}");
    };
    before.iter().for_each(|node| joins(node));
    let reads = || {
        let log = proxy.log();
        let is_read = |path: &str, one: &&Frame| {
            one.opcode == OpCode::GetData
                && one.direction == Direction::ToServer
                && one.path.as_deref() == Some(path)
        };
        let count = |path: String| log.iter().filter(|one| is_read(&path, one)).count();
        let nodes = before.iter().map(|node| count(bed.path(&format!("a/{node}"))));
        (count(bed.path("a")), nodes.collect::<Vec<_>>())
    };
    // Those that print, and those that notice changes, have read them all.
    until("each was read twice", || reads().1.iter().all(|count| *count >= 2).then_some(()));
    let (looks, nodes) = reads();
    until("three more looks", || (reads().0 >= looks + 3).then_some(()));
    begins(&next(), "granted holds mutex     10.0.0.7");
    let last = node(10);
    assert!(next().contains(&last));
    assert_eq!(reads().1, nodes);
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_connection_that_is_lost_is_an_event() {
    let bed = Bed::new("watch-cut");
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let nodes = [CURATORS, KAZOOS].map(|node| bed.path(&format!("a/{node}")));
    let make = |node: &str| make(&mut raw(), node, b"10.0.0.7", CreateMode::Persistent);
    make(&nodes[0]);
    let mut watching = bed.zklock_at(&proxy.addr(), &["watch", "a", "--json"]).spawn().unwrap();
    let mut line = lines(&mut watching);
    let mut next = |is_blind: bool| loop {
        let value: Value = serde_json::from_str(&line()).unwrap();
        check(&value, "watch", "watch");
        // On a busy machine more connections may be lost.
        if is_blind == (value["event"] == "blind") {
            return value;
        }
    };
    // Of the second one it hears while it follows the first.
    for layout in ["Curator", "kazoo"] {
        for event in ["joined", "granted"] {
            let one = next(false);
            assert_eq!((&one["event"], &one["layout"]), (&event.into(), &layout.into()));
        }
        if layout == "Curator" {
            make(&nodes[1]);
        }
    }
    proxy.refuse(true);
    proxy.cut_reset();
    assert_eq!(next(true)["contender"], Value::Null);
    raw().delete(&nodes[0]).unwrap();
    proxy.heal();
    // It goes on where it was.
    let left = next(false);
    assert_eq!((&left["event"], &left["layout"]), (&"left".into(), &"Curator".into()));
    watching.kill().unwrap();
    watching.wait().unwrap();
}
