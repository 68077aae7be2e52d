//! What happens between the look at the locks and the question who is connected.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use zklock_test_support::{ServerSession, ZooKeeper};

use crate::bed::{Bed, TWO, until};
use crate::documented::check;
use crate::front::Front;

/// Holds a lock until the file is gone.
const HOLDS: [&str; 6] =
    ["run", "a", "--", "sh", "-c", "echo > held; while [ -e held ]; do sleep 0.05; done"];

/// A server, and a holder that releases the lock, and ends, before the server tells who is connected.
fn releasing(bed: &Bed) -> Front {
    let mut holder = bed.zklock(&HOLDS).spawn().unwrap();
    bed.lines("held", 1);
    let (server, held) = (ZooKeeper::shared(), bed.folder.join("held"));
    let nodes = bed.nodes("a");
    let is_its = |session: &ServerSession| session.ephemerals.contains(&nodes[0]);
    let session = server.sessions().into_iter().find(is_its).unwrap();
    let front = Front::of(&server.addr());
    front.before(move || {
        std::fs::remove_file(held).unwrap();
        assert!(holder.wait().unwrap().success());
        // A busy server lists a connection for a moment after its session is closed.
        until("its connection is gone", || {
            let told = server.four_letter("cons").ok()?;
            (!told.contains(&format!("sid={:#x},", session.id))).then_some(())
        });
    });
    front
}

/// The same, and another holder that comes when the server has told a second time who is connected.
fn replacing(bed: &Bed) -> (Front, Receiver<Child>) {
    let (front, (came, comes)) = (releasing(bed), channel());
    let (mut next, pids) =
        (bed.zklock(&["run", "a", "--", "sh", "-c", TWO]), bed.folder.join("pids"));
    front.after(|| {});
    front.after(move || {
        came.send(next.spawn().unwrap()).unwrap();
        until("it holds the lock", || pids.exists().then_some(()));
    });
    (front, comes)
}

/// The first document of `top`.
fn top(bed: &Bed, front: &Front) -> Value {
    let mut top = bed.zklock_at(&front.addr, &["top", "--json"]).spawn().unwrap();
    let line = BufReader::new(top.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    top.kill().unwrap();
    top.wait().unwrap();
    let value = serde_json::from_str(&line).unwrap();
    check(&value, "top", "top");
    value
}

/// What `why` tells programs, and its exit code.
fn why(bed: &Bed, front: &Front) -> (Value, Option<i32>) {
    let mut why = bed.zklock_at(&front.addr, &["why", "a", "--json", "--within", "20s"]);
    let output = why.output().unwrap();
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    check(&value, "why", "why");
    (value, output.status.code())
}

#[test]
fn who_releases_while_why_asks_is_not_gone() {
    let bed = Bed::new("why-released");
    let (value, code) = why(&bed, &releasing(&bed));
    assert_eq!(value["problems"], Value::Array(Vec::new()), "{value}");
    assert_eq!((value["holders"].as_array().unwrap().len(), code), (0, Some(0)));
}

#[test]
fn of_who_comes_while_why_asks_again_nothing_is_known() {
    let bed = Bed::new("why-replaced");
    let (front, comes) = replacing(&bed);
    let (value, code) = why(&bed, &front);
    front.forget();
    let mut next = comes.recv().unwrap_or_else(|_| panic!("it did not ask again: {value}"));
    assert_eq!(value["holders"][0]["process"], next.id(), "{value}");
    assert_eq!(value["holders"][0]["session"]["state"], "unknown", "{value}");
    assert_eq!((&value["problems"], code), (&Value::Array(Vec::new()), Some(0)));
    next.kill().unwrap();
    next.wait().unwrap();
}

#[test]
fn who_comes_while_top_asks_again_is_not_suspect() {
    // On a busy machine a holder may need longer to end than `top` waits for a server's connections; then it does
    // not ask again.
    until("`top` asks again", || {
        let bed = Bed::new("top-replaced");
        let (front, comes) = replacing(&bed);
        let value = top(&bed, &front);
        front.forget();
        let mut next = comes.recv().ok()?;
        next.kill().unwrap();
        next.wait().unwrap();
        assert_eq!(value["locks"][0]["warnings"], Value::Array(Vec::new()), "{value}");
        Some(())
    });
}

#[test]
fn who_releases_while_top_asks_is_not_gone() {
    let bed = Bed::new("top-released");
    let value = top(&bed, &releasing(&bed));
    assert_eq!(value["locks"], Value::Array(Vec::new()), "{value}");
}

#[test]
fn who_comes_while_top_asks_has_a_connection() {
    let bed = Bed::new("top-came");
    let (front, mut run) = (Front::of(&ZooKeeper::shared().addr()), bed.zklock(&HOLDS));
    let (held, (came, comes)) = (bed.folder.join("held"), channel());
    let file = held.clone();
    front.after(move || {
        let holder = run.spawn().unwrap();
        until("it holds the lock", || file.exists().then_some(()));
        came.send(holder).unwrap();
    });
    let value = top(&bed, &front);
    let is_well = |lock: &Value| lock["warnings"] == Value::Array(Vec::new());
    assert!(value["locks"].as_array().unwrap().iter().all(is_well), "{value}");
    let mut holder = comes.recv().unwrap();
    std::fs::remove_file(held).unwrap();
    assert!(holder.wait().unwrap().success());
}
