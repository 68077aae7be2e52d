//! `show`, `watch` and `revoke`.

use std::io::{BufRead, BufReader};

use crate::bed::{Bed, until};

#[test]
fn the_queue_is_shown_to_people_and_programs() {
    let bed = Bed::new("show");
    let shown = String::from_utf8(bed.output(&["show", "a"]).stdout).unwrap();
    assert!(shown.contains("nobody holds it, nobody waits"), "{shown}");
    let script = "echo > held; while [ -e held ]; do sleep 0.05; done";
    let run = ["run", "a", "--label", "night 7", "--", "sh", "-c", script];
    let mut holder = bed.zklock(&run).spawn().unwrap();
    bed.lines("held", 1);
    let mut waiter = bed.zklock(&["run", "a", "--timeout", "60s", "--", "true"]).spawn().unwrap();
    until("it waits", || (bed.nodes("a").len() == 2).then_some(()));
    let shown = String::from_utf8(bed.output(&["show", "a"]).stdout).unwrap();
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[1].starts_with("holds mutex     sh on "), "{shown}");
    assert!(lines[1].contains("night 7"), "{shown}");
    assert!(lines[2].starts_with("waits mutex     true on "), "{shown}");
    let json = bed.output(&["show", "a", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["name"], "a");
    assert_eq!(json["contenders"][0]["holds"], true);
    assert_eq!(json["contenders"][0]["label"], "night 7");
    assert_eq!(json["contenders"][1]["application"], "true");
    std::fs::remove_file(bed.folder.join("held")).unwrap();
    assert!(holder.wait().unwrap().success() && waiter.wait().unwrap().success());
}

#[test]
fn a_lock_is_followed_line_by_line() {
    let bed = Bed::new("watch");
    let mut watching = bed.zklock(&["watch", "a", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let script = "echo > held; while [ -e held ]; do sleep 0.05; done";
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", script]).spawn().unwrap();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
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
fn a_holder_is_asked_to_release() {
    let bed = Bed::new("revoke");
    let script = "echo > held; while [ -e held ]; do sleep 0.05; done";
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", script]).spawn().unwrap();
    bed.lines("held", 1);
    let said = String::from_utf8(bed.output(&["revoke", "a"]).stdout).unwrap();
    assert_eq!(said, "asked the holder of a to release it\n");
    std::fs::remove_file(bed.folder.join("held")).unwrap();
    assert!(holder.wait().unwrap().success());
    let said = String::from_utf8(bed.output(&["revoke", "a"]).stdout).unwrap();
    assert_eq!(said, "nobody holds a\n");
}

#[test]
fn who_is_revocable_ends_its_command() {
    let bed = Bed::new("revocable");
    let script = "trap 'exit 5' TERM; echo > held; while :; do sleep 0.05; done";
    let run = ["run", "a", "--revocable", "--", "sh", "-c", script];
    let mut holder = bed.zklock(&run).spawn().unwrap();
    bed.lines("held", 1);
    assert_eq!(bed.code(&["revoke", "a"]), 0);
    assert_eq!(holder.wait().unwrap().code(), Some(5));
}

#[test]
fn shells_and_man_know_the_command() {
    let bed = Bed::new("man");
    let man = String::from_utf8(bed.output(&["man"]).stdout).unwrap();
    assert!(man.contains(".TH zklock"), "{man}");
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(bed.output(&["completions", shell]).stdout).unwrap();
        assert!(script.contains("hold-at-most"), "{shell}");
    }
}
