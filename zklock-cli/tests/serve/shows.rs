//! What it shows.

use zklock_test_support::CreateMode;

use crate::bed::{Bed, CURATORS, TWO, make, raw, until};
use crate::client::{Server, named};
use crate::documented::check;

#[test]
fn what_is_answered_is_what_is_documented() {
    let bed = Bed::new("schema");
    let server = Server::of(&bed, &[]);
    let run = ["run", "a/b", "--label", "night 7", "--", "sh", "-c", TWO];
    let mut process = bed.zklock(&run).spawn().unwrap();
    bed.lines("pids", 2);
    let mut waiter = bed.zklock(&["run", "a/b", "--timeout", "60s", "--", "true"]).spawn().unwrap();
    until("it waits", || (bed.nodes("a/b").len() == 2).then_some(()));
    let mut events = server.events();
    check(&events.next("look", |_| true), "look", "look");
    let lock = events.lock("a/b", |lock| lock["waiting"] == 1);
    assert_eq!((&lock["kind"], &lock["holders"][0]["label"]), (&"mutex".into(), &"night 7".into()));
    assert!(lock["held_since"].is_string() && lock["waits_since"].is_string(), "{lock}");
    let page = server.get("/api/locks").json();
    check(&page, "page", "locks");
    assert_eq!(page["prefix"], serde_json::Value::Null);
    let timeline = server.get(&named("/api/timeline", "a/b")).json();
    check(&timeline, "timeline", "timeline");
    assert_eq!(timeline["spans"][0]["contender"]["holds"], true);
    let why = server.why("a/b").json();
    check(&why, "why", "why");
    assert_eq!(why["problems"][0]["code"], "held");
    assert_eq!(why["holders"][0]["usual"]["says"][0], "not known: nobody was in the queue before");
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(waiter.wait().unwrap().success());
    check(&server.get("/api/locks").json(), "page", "locks");
}

#[test]
fn a_prefix_is_all_that_is_shown() {
    let bed = Bed::new("prefix");
    let server = Server::of(&bed, &["in"]);
    let script = "echo >> held; while [ -e held ]; do sleep 0.05; done";
    let mut all = ["in/7", "in", "inside", "out"]
        .map(|name| bed.zklock(&["run", name, "--", "sh", "-c", script]).spawn().unwrap());
    bed.lines("held", 4);
    let shown = server.events().next("state", |state| state["locks"].as_array().unwrap().len() > 1);
    let names: Vec<_> =
        shown["locks"].as_array().unwrap().iter().map(|lock| &lock["name"]).collect();
    assert_eq!(names, ["in", "in/7"]);
    assert_eq!(shown["prefix"], "in");
    assert_eq!(server.why("in/7").code, 200);
    assert_eq!(server.get(&named("/api/timeline", "in/7")).code, 200);
    for path in ["/api/why", "/api/timeline"] {
        for hidden in ["out", "inside", "in/8", "a//b", ""] {
            let answer = server.get(&named(path, hidden));
            assert_eq!(answer.code, 404, "{path} {hidden}: {answer:?}");
        }
        let answer = server.get(path);
        assert_eq!((answer.code, answer.json()["error"].is_string()), (400, true));
    }
    std::fs::remove_file(bed.folder.join("held")).unwrap();
    assert!(all.iter_mut().all(|one| one.wait().unwrap().success()));
}

#[test]
fn locks_of_every_layout_are_shown_with_their_kind() {
    let bed = Bed::new("layouts");
    let mut client = raw();
    let hex = "be2ee212c5074b18a73381c86278175c";
    let all = [
        (format!("a/{CURATORS}"), "Curator", "mutex"),
        (format!("b/{hex}__rlock__0000000000"), "kazoo", "read/write"),
        ("c/lock".to_owned(), "OneNode", "mutex"),
        ("d/sub_0000000000".to_owned(), "Numbered", "mutex"),
        ("e/10.0.0.7-W-0000000000".to_owned(), "HostNodes", "read/write"),
        ("f/read-node0000000000".to_owned(), "ReadWriteNodes", "read/write"),
        (
            format!("g/leases/{}", CURATORS.replace("-lock-", "-lease-")),
            "Curator's InterProcessSemaphoreV2",
            "semaphore",
        ),
    ];
    for (node, ..) in &all {
        make(&mut client, &bed.path(node), b"10.0.0.7", CreateMode::Ephemeral);
    }
    let server = Server::of(&bed, &[]);
    let page = until("all are shown", || {
        let page = server.get("/api/locks").json();
        (page["locks"].as_array()?.len() == all.len()).then_some(page)
    });
    check(&page, "page", "locks");
    for (lock, (node, layout, kind)) in page["locks"].as_array().unwrap().iter().zip(&all) {
        let told = lock["layout"].as_str().unwrap();
        assert!(told.starts_with(layout) && lock["kind"] == *kind, "{lock}");
        let held = lock["holders"][0]["node"].as_str().unwrap();
        assert!(node.ends_with(held) && lock["waiting"] == 0, "{lock}");
    }
    client.close().unwrap();
}
