//! `show`, `ls`, `why`, `break` and `revoke`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zklock_test_support::{CreateMode, Proxy, RawClient, ZooKeeper, is_long};

use crate::bed::{Bed, CURATORS, KAZOOS, TWO, make, raw, signal, until};
use crate::documented::check;
use crate::watches::{begins, changes};

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
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let at = |process: &Child| format!("on {} (process {})", host.trim(), process.id());
    let holds = format!("holds mutex     sh {} for \"night 7\", holding since ", at(&holder));
    assert!(lines[1].starts_with(&holds), "{shown}");
    let waits = format!("waits mutex     true {}, in the queue since ", at(&waiter));
    assert!(lines[2].starts_with(&waits), "{shown}");
    let (why, _) = said(&bed, &["why", "a", "--within", "20s"]);
    assert!(why.contains(&format!("\nheld by  sh {} for \"night 7\", mutex\n", at(&holder))));
    let json = json(&bed, &["show", "a", "--json"]);
    assert_eq!(json["name"], "a");
    let queue = &json["queues"][0]["contenders"];
    assert_eq!((&queue[0]["holds"], &queue[0]["label"]), (&true.into(), &"night 7".into()));
    assert_eq!(queue[1]["application"], "true");
    for (one, process) in [(&queue[0], &holder), (&queue[1], &waiter)] {
        assert_eq!((&one["host"], &one["process"]), (&host.trim().into(), &process.id().into()));
    }
    std::fs::remove_file(bed.folder.join("held")).unwrap();
    assert!(holder.wait().unwrap().success() && waiter.wait().unwrap().success());
}

/// As the node of a process with zklock says before its first heartbeat, and after it.
#[test]
fn until_a_holder_tells_since_when_it_holds_the_time_is_an_upper_bound() {
    let bed = Bed::new("bound");
    let moment = "2026-01-01T00:00:00Z";
    let granted = format!(",\"granted\":\"{moment}\"");
    for (name, granted, is_bound) in [("early", "", true), ("late", &*granted, false)] {
        let data = format!(r#"{{"host":"db7","pid":88,"since":"{moment}"{granted}}}"#);
        let node = bed.path(&format!("{name}/{CURATORS}"));
        make(&mut raw(), &node, data.as_bytes(), CreateMode::Persistent);
        let [show, ls] = [["show", name], ["ls", name]].map(|asks| said(&bed, &asks).0);
        let end = if is_bound { " at the earliest" } else { "" };
        assert!(show.contains(&format!("88), holding since {moment}{end}  [")), "{show}");
        assert_eq!(ls.contains(", for at most "), is_bound, "{ls}");
        let mut top = bed.zklock(&["top", "--json"]).spawn().unwrap();
        let seen: serde_json::Value = serde_json::from_str(&changes(&mut top)()).unwrap();
        top.kill().unwrap();
        top.wait().unwrap();
        check(&seen, "top", "top");
        let mut locks = seen["locks"].as_array().unwrap().iter();
        let lock = locks.find(|lock| lock["name"] == name).unwrap();
        assert_eq!(lock["held_at_most"], is_bound, "{lock}");
    }
}

#[test]
fn who_mistypes_a_name_is_told_those_that_are_nearly_the_same() {
    let bed = Bed::new("mistyped");
    let mut holder = bed.zklock(&["run", "nightly", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    // On a busy machine it may take longer to list the locks than a hint is worth.
    until("the hint", || {
        let output = bed.output(&["show", "nigthly"]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("nobody holds it"), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (told == "zklock: in use, with a similar name: nightly\n").then_some(())
    });
    for asks in [&["show", "nightly"][..], &["show", "weekly"], &["show", "nigthly", "--json"]] {
        assert_eq!(String::from_utf8_lossy(&bed.output(asks).stderr), "", "{asks:?}");
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_holder_is_asked_to_release() {
    let bed = Bed::new("revoke");
    let script = "echo > held; while [ -e held ]; do sleep 0.05; done";
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", script]).spawn().unwrap();
    bed.lines("held", 1);
    let said = String::from_utf8(bed.output(&["revoke", "a"]).stdout).unwrap();
    // First who it is: the request overwrites what others than zklock have written about themselves.
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("holds mutex     sh on "), "{said}");
    assert_eq!(lines[1..], ["asked the holder of a to release it"]);
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

fn json(bed: &Bed, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&bed.output(arguments).stdout).unwrap()
}

const README: &str = include_str!("../../README.md");

fn said(bed: &Bed, arguments: &[&str]) -> (String, i32) {
    let output = bed.output(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    (text + &String::from_utf8_lossy(&output.stderr), output.status.code().unwrap())
}

#[test]
fn why_says_that_nothing_is_wrong() {
    let bed = Bed::new("why");
    let (text, code) = said(&bed, &["why", "a", "--within", "20s"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let unknown = format!("Nobody holds it: there is no {} in ZooKeeper.", bed.path("a"));
    assert!(words.contains(&unknown) && words.contains(" ls` lists the locks"), "{text}");
    assert!(words.contains("Either nobody uses the lock now, or the name"), "{text}");
    assert!(text.ends_with("\n\nNothing is wrong.\n"), "{text}");
    assert_eq!(code, 0);
    make(&mut raw(), &bed.path("b"), b"", CreateMode::Persistent);
    let (text, _) = said(&bed, &["why", "b", "--within", "20s"]);
    assert!(text.ends_with("\n\nNobody holds it.\n\nNothing is wrong.\n"), "{text}");
    let run = ["run", "a", "--label", "night 7", "--", "sh", "-c", TWO];
    let mut holder = bed.zklock(&run).spawn().unwrap();
    bed.lines("pids", 2);
    let (text, code) = said(&bed, &["why", "a", "--within", "20s"]);
    assert!(text.contains("held by  sh on ") && text.contains("night 7"), "{text}");
    assert!(text.contains(", last heard ") && text.contains("timeout 20 s"), "{text}");
    assert!(text.ends_with("Nothing is wrong.\n"), "{text}");
    assert_eq!(code, 0);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn why_compares_how_long_a_lock_is_held_with_what_is_usual() {
    let bed = Bed::new("usual");
    let run = ["run", "a", "--timeout", "60s", "--", "sh", "-c", TWO];
    let hold = || bed.zklock(&run).spawn().unwrap();
    let why = || said(&bed, &["why", "a", "--within", "20s"]).0;
    let line = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("usually  ")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{text}"))
    };
    let mut last = hold();
    bed.pids("pids");
    assert_eq!(line(&why()), "not known: nobody was in the queue before");
    for _ in 0..4 {
        // The queue is never empty: ZooKeeper would delete its directory.
        let next = hold();
        until("it waits", || (bed.nodes("a").len() == 2).then_some(()));
        std::fs::remove_file(bed.folder.join("pids")).unwrap();
        signal(&last, Signal::SIGTERM);
        last.wait().unwrap();
        bed.pids("pids");
        last = next;
    }
    // It tells with a heartbeat since when it holds the lock, and holds it for ever longer.
    let text = until("it is held for longer than is usual", || {
        let text = why();
        let is_longer = line(&text).ends_with(" times as long");
        (is_longer && !text.contains("at most")).then_some(text)
    });
    let told = line(&text);
    assert!(told.starts_with("one leaves the queue every "), "{text}");
    assert!(told.contains(" (4 in ") && told.contains(" before): this is "), "{text}");
    let usual = &json(&bed, &["why", "a", "--within", "20s", "--json"])["holders"][0]["usual"];
    let number = |field: &str| usual[field].as_f64().unwrap();
    assert_eq!((number("before"), number("gave_up"), &usual["at_most"]), (4.0, 0.0, &false.into()));
    assert!((number("within_ms") / 4.0 - number("every_ms")).abs() <= 1.0, "{usual}");
    assert!(number("times") > 1.0 && usual["unknown"].is_null(), "{usual}");
    // Perhaps those before did so, too.
    let tries = ["run", "a", "--timeout", "1s", "--retries", "1", "--", "true"];
    until("one gives up", || (bed.code(&tries) == 75).then_some(()));
    let text = why();
    assert!(text.contains("given up since it came; some of those before may have, too"), "{text}");
    let (json, _) = said(&bed, &["why", "a", "--within", "20s", "--json"]);
    let why: serde_json::Value = serde_json::from_str(&json).unwrap();
    let gave_up = why["holders"][0]["usual"]["gave_up"].as_u64().unwrap();
    assert!(gave_up >= 1 && why["queues"][0]["left"] == 4 + gave_up, "{why}");
    last.kill().unwrap();
    last.wait().unwrap();
}

/// A waiter has two nodes: one for its permit, and one in the inner lock.
#[test]
fn a_waiter_for_a_permit_is_one_waiter() {
    let bed = Bed::new("permits");
    let (mut holder, mut waiters) = bed.permits();
    let (text, _) = said(&bed, &["why", "a", "--within", "20s"]);
    assert!(text.contains("\nwaiting  2\n") && text.contains("2 others wait for sh on "), "{text}");
    let (text, _) = said(&bed, &["ls", "--json"]);
    let locks: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(locks["locks"][0]["waiting"], 2);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(waiters.iter_mut().all(|waiter| waiter.wait().unwrap().success()));
}

/// As the threads of one process with Curator do, each with a node in the inner lock.
#[test]
fn each_caller_of_a_session_that_waits_for_a_permit_is_a_waiter() {
    let bed = Bed::new("callers");
    let (mut holds, mut waits) = (raw(), raw());
    let lease = |number| CURATORS.replace("-lock-0", &format!("-lease-{number}"));
    make(
        &mut holds,
        &bed.path(&format!("a/leases/{}", lease(0))),
        b"10.0.0.7",
        CreateMode::Ephemeral,
    );
    let locks = [0, 1, 2].map(|number| CURATORS.replace("-lock-0", &format!("-lock-{number}")));
    for node in &locks {
        make(&mut waits, &bed.path(&format!("a/locks/{node}")), b"10.0.0.8", CreateMode::Ephemeral);
    }
    // The first of them has made its permit, too, later.
    make(
        &mut waits,
        &bed.path(&format!("a/leases/{}", lease(1))),
        b"10.0.0.8",
        CreateMode::Ephemeral,
    );
    let ls = json(&bed, &["ls", "--json"]);
    assert_eq!(ls["locks"][0]["waiting"], 3, "{ls}");
    let why = json(&bed, &["why", "a", "--json", "--within", "20s"]);
    let waiters: Vec<_> = why["waiters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["node"], &one["holds"]))
        .collect();
    let (first, no) = (locks.clone().map(serde_json::Value::from), false.into());
    assert_eq!(waiters, [(&first[0], &no), (&first[1], &no), (&first[2], &no)], "{why}");
    assert!(why["queues"].as_array().unwrap().iter().all(|queue| queue["left"] == 0), "{why}");
    let mut top = bed.zklock(&["top", "--json"]).spawn().unwrap();
    let seen: serde_json::Value = serde_json::from_str(&changes(&mut top)()).unwrap();
    top.kill().unwrap();
    top.wait().unwrap();
    assert_eq!(seen["locks"][0]["waiting"], 3, "{seen}");
    // It gets that permit, which is newer than the nodes of both others. The next one makes its own.
    waits.delete(&bed.path(&format!("a/locks/{}", locks[0]))).unwrap();
    make(
        &mut waits,
        &bed.path(&format!("a/leases/{}", lease(2))),
        b"10.0.0.8",
        CreateMode::Ephemeral,
    );
    shown(&bed, "a", &[lease(0), lease(1)], 2);
    // The permit of the last one goes, and there was a single one from the beginning.
    holds.delete(&bed.path(&format!("a/leases/{}", lease(0)))).unwrap();
    waits.delete(&bed.path(&format!("a/leases/{}", lease(2)))).unwrap();
    shown(&bed, "a", &[lease(1)], 2);
    [holds, waits].into_iter().for_each(|client| client.close().unwrap());
}

/// As fair tasks of one process do. They may want several at once.
#[test]
fn a_permit_that_says_that_it_is_held_is_not_waited_for() {
    let bed = Bed::new("granted");
    let (mut holds, mut waits) = (raw(), raw());
    let lease = |number| CURATORS.replace("-lock-0000000000", &format!("-lease-{number:010}"));
    let waiter = r#"{"host":"db7","pid":88,"since":"2026-01-01T00:00:00Z"}"#;
    let holder = waiter.replace('}', r#","granted":"2026-01-01T00:00:00Z"}"#);
    let made = |client: &mut RawClient, node: &str, data: &str| {
        make(client, &bed.path(&format!("a/{node}")), data.as_bytes(), CreateMode::Ephemeral);
    };
    made(&mut holds, &format!("leases/{}", lease(0)), "10.0.0.7");
    made(&mut waits, &format!("locks/{CURATORS}"), waiter);
    made(&mut waits, &format!("leases/{}", lease(1)), &holder);
    made(&mut waits, &format!("leases/{}", lease(2)), waiter);
    made(&mut waits, &format!("leases/{}", lease(3)), waiter);
    shown(&bed, "a", &[lease(0), lease(1)], 1);
    [holds, waits].into_iter().for_each(|client| client.close().unwrap());
}

/// Who is shown to hold permits, by their nodes, and how many wait.
fn shown(bed: &Bed, name: &str, holders: &[String], waiting: usize) {
    let nodes = |of: &serde_json::Value| -> Vec<_> {
        let nodes = of.as_array().unwrap().iter();
        nodes.map(|one| one["node"].as_str().unwrap().to_owned()).collect()
    };
    let ls = json(bed, &["ls", name, "--json"]);
    let lock = &ls["locks"][0];
    assert_eq!((nodes(&lock["holders"]), &lock["waiting"]), (holders.to_vec(), &waiting.into()));
    let why = json(bed, &["why", name, "--json", "--within", "20s"]);
    assert_eq!(nodes(&why["holders"]), holders, "{why}");
}

#[test]
fn why_does_not_blame_a_server_for_a_wrong_argument() {
    let bed = Bed::new("wrong");
    assert_eq!(bed.code(&["why", "a//b"]), 125);
    // On a busy machine it may not learn within a second why there is no answer.
    until("the reason why there is no answer", || {
        let dead = bed.zklock_at("127.0.0.1:1", &["why", "a"]).output().unwrap();
        let text = String::from_utf8(dead.stderr).unwrap();
        println!("{text}");
        assert!(text.contains("ZooKeeper does not answer\n  127.0.0.1:1: "), "{text}");
        assert_eq!(dead.status.code(), Some(69));
        text.contains("Connection refused").then_some(())
    });
}

#[test]
fn a_node_is_deleted_after_a_question() {
    let bed = Bed::new("break");
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.lines("pids", 2);
    let node = bed.nodes("a").remove(0);
    let node = node.rsplit('/').next().unwrap();
    let (text, _) = said(&bed, &["why", "a", "--within", "20s"]);
    let czxid = text.split("czxid ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let answer = |czxid: &str, answer: &[u8]| {
        let breaks = ["break", "a", "--node", node, "--czxid", czxid];
        let mut asking = bed.zklock(&breaks).stdin(Stdio::piped()).spawn().unwrap();
        asking.stdin.take().unwrap().write_all(answer).unwrap();
        let output = asking.wait_with_output().unwrap();
        let [said, asked] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        // The guide shows what it says, of another node.
        let shown = "_c_f412cbd8-2f53-4325-b912-b3a66286eb06-lock-0000000000";
        let last = said.lines().last().unwrap().replace(node, shown);
        assert!(last == "nothing is deleted" || README.contains(&last), "{last}");
        assert!(README.contains(asked.trim_end()), "{asked}");
        output.status.code()
    };
    assert_eq!(answer(&czxid, b""), Some(1));
    assert_eq!(answer(&czxid, b"n\n"), Some(1));
    assert_eq!(answer("1", b"y\n"), Some(1));
    assert_eq!(bed.nodes("a").len(), 1);
    assert_eq!(answer(&czxid, b"y\n"), Some(0));
    assert_eq!(holder.wait().unwrap().code(), Some(124));
    assert_eq!(answer(&czxid, b"y\n"), Some(1));
}

/// The answer to a question about a waiter is none about a holder.
#[test]
fn a_node_that_came_to_hold_the_lock_meanwhile_is_asked_about_again() {
    let bed = Bed::new("meanwhile");
    let [first, second] = [0, 1].map(|number| {
        let (mut client, name) = (raw(), CURATORS.trim_end_matches('0'));
        let node = format!("{name}{number:010}");
        make(&mut client, &bed.path(&format!("a/{node}")), b"10.0.0.7", CreateMode::Ephemeral);
        (client, node)
    });
    let why: serde_json::Value =
        serde_json::from_str(&said(&bed, &["why", "a", "--json"]).0).unwrap();
    let czxid = why["waiters"][0]["czxid"].as_str().unwrap();
    let breaks = ["break", "a", "--node", &second.1, "--czxid", czxid];
    let mut asking = bed.zklock(&breaks).stdin(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(asking.stdout.take().unwrap()).lines();
    let mut next = || shown.next().unwrap().unwrap();
    let does = next();
    assert!(does.starts_with("waits mutex "), "{does}");
    first.0.close().unwrap();
    asking.stdin.take().unwrap().write_all(b"y\n").unwrap();
    let rest = [next(), next(), next()];
    assert_eq!((&*rest[0], &*rest[2]), ("it holds the lock meanwhile:", "nothing is deleted"));
    assert!(rest[1].starts_with("holds mutex "), "{rest:?}");
    assert_eq!(asking.wait().unwrap().code(), Some(1));
    assert_eq!(bed.nodes("a").len(), 1);
}

/// Follows the only holder of a lock, asks it to release the lock, and deletes its node.
fn watch_revoke_and_break(bed: &Bed, name: &str, layout: &str, node: &str, czxid: &str) {
    let mut watching = bed.zklock(&["watch", name]).spawn().unwrap();
    let mut next = changes(&mut watching);
    let first = next();
    begins(&first, &format!("watching {name} ("));
    assert!(first.contains(&format!("layout: {layout}")), "{first}");
    let mut tells = |event: &str| {
        let line = next();
        begins(&line, &format!("{event:8}holds "));
        assert!(line.contains(&format!("[{node}]")), "{line}");
    };
    tells("joined");
    tells("granted");
    let (text, code) = said(bed, &["revoke", name]);
    assert!(text.starts_with("holds ") && code == 0, "{text}");
    let asked = format!("\nasked the holder of {name} to release it\n");
    assert!(text.contains(&format!("[{node}]")) && text.ends_with(&asked), "{text}");
    let (text, _) = said(bed, &["show", name]);
    assert!(text.contains(", asked to release it  ["), "{text}");
    let breaks = ["break", name, "--node", node, "--czxid", czxid, "--yes"];
    assert_eq!(said(bed, &breaks), (format!("deleted {node}\n"), 0));
    tells("left");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn locks_of_every_layout_are_seen_followed_and_freed() {
    let bed = Bed::new("layouts");
    let mut client = raw();
    let (id, hex) = ("be2ee212-c507-4b18-a733-81c86278175c", "be2ee212c5074b18a73381c86278175c");
    let mut expected = Vec::new();
    for (node, name, layout) in [
        (format!("a/curator/_c_{id}-lock-0000000000"), "a/curator", "Curator"),
        (format!("b/kazoo/{hex}__rlock__0000000000"), "b/kazoo", "kazoo"),
        ("c/one/lock".to_owned(), "c/one", "OneNode"),
        ("d/dlock/sub_0000000000".to_owned(), "d/dlock", "Numbered(\"sub_\")"),
        ("e/hosts/10.0.0.7-W-0000000000".to_owned(), "e/hosts", "HostNodes"),
        ("f/rw/read-node0000000000".to_owned(), "f/rw", "ReadWriteNodes"),
        (
            format!("g/permits/leases/_c_{id}-lease-0000000000"),
            "g/permits",
            "Curator's InterProcessSemaphoreV2",
        ),
        (format!("h/kazoos/{hex}"), "h/kazoos", "kazoo's Semaphore"),
        // Curator's own nodes are named so without its protection.
        ("i/steps/lock-0000000000".to_owned(), "i/steps", "Curator"),
        (format!("k/writer/_c_{id}-__WRIT__0000000000"), "k/writer", "Curator"),
        (format!("l/mutex/{hex}__lock__0000000000"), "l/mutex", "kazoo"),
    ] {
        if name == "h/kazoos" {
            make(&mut client, &bed.path("h/kazoos"), b"3", CreateMode::Persistent);
        }
        make(&mut client, &bed.path(&node), b"10.0.0.7", CreateMode::Ephemeral);
        expected.push((name, layout, node.rsplit('/').next().unwrap().to_owned()));
    }
    make(&mut client, &bed.path("j/idle"), b"", CreateMode::Persistent);
    let (text, code) = said(&bed, &["ls", "--json"]);
    assert_eq!(code, 0);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let found: Vec<_> = found["locks"].as_array().unwrap().iter().collect();
    let shown: Vec<_> = found
        .iter()
        .map(|lock| (lock["name"].as_str().unwrap(), lock["layout"].as_str().unwrap()))
        .collect();
    let same = shown
        .iter()
        .zip(&expected)
        .all(|(shown, (name, layout, _))| shown.0 == *name && shown.1.starts_with(layout));
    assert!(same && shown.len() == expected.len(), "{shown:?}");
    assert!(
        found.iter().all(|lock| lock["holders"][0]["host"] == "10.0.0.7" || lock["name"] == "f/rw")
    );
    let mut top = bed.zklock(&["top", "--json"]).spawn().unwrap();
    let seen: serde_json::Value = serde_json::from_str(&changes(&mut top)()).unwrap();
    top.kill().unwrap();
    top.wait().unwrap();
    let seen = seen["locks"].as_array().unwrap().iter();
    let seen: Vec<_> = seen.map(|lock| (&lock["name"], &lock["holder"])).collect();
    let unknown = "an unknown process".into();
    let held = found.iter().map(|lock| {
        let host = &lock["holders"][0]["host"];
        (&lock["name"], if host == "" { &unknown } else { host })
    });
    assert_eq!(seen, held.collect::<Vec<_>>());
    for (name, layout, _) in &expected {
        client.ping().unwrap();
        let (text, _) = said(&bed, &["show", name]);
        assert!(text.contains(&format!("layout: {layout}")), "{text}");
        // They do not tell when they were granted it.
        assert!(
            text.contains(", holding since ") && text.contains(" at the earliest  ["),
            "{text}"
        );
        for asks in [&["show", name, "--json"][..], &["why", name, "--json", "--within", "20s"]] {
            let value = json(&bed, asks);
            let told = value["queues"][0]["layout"].as_str().unwrap();
            assert!(told.starts_with(layout), "{asks:?}: {told}");
        }
    }
    let (text, _) = said(&bed, &["ls", "b"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("b/kazoo  kazoo         0  10.0.0.7, read, for at most "), "{text}");
    for ((name, layout, node), lock) in expected.iter().zip(&found) {
        client.ping().unwrap();
        let czxid = lock["holders"][0]["czxid"].as_str().unwrap();
        watch_revoke_and_break(&bed, name, layout, node, czxid);
    }
    client.close().unwrap();
    let [all, one] = [&["ls"][..], &["ls", "b"]].map(|asks| said(&bed, asks).0);
    let root = bed.path("");
    let root = root.trim_end_matches('/');
    assert_eq!(all, format!("no lock is in use below {root}\n"));
    assert_eq!(one, format!("no lock is in use at {root}/b or below\n"));
}

#[test]
fn each_queue_is_shown_with_its_layout_and_those_in_it() {
    let bed = Bed::new("queues");
    for node in [CURATORS, KAZOOS] {
        make(&mut raw(), &bed.path(&format!("a/{node}")), b"10.0.0.7", CreateMode::Persistent);
    }
    let value = json(&bed, &["show", "a", "--json"]);
    check(&value, "show", "show");
    let queues = value["queues"].as_array().unwrap().iter();
    let queues: Vec<_> = queues
        .map(|queue| {
            assert_eq!((&queue["path"], &queue["inner"]), (&bed.path("a").into(), &false.into()));
            let nodes = queue["contenders"].as_array().unwrap().iter().map(|one| &one["node"]);
            (queue["layout"].as_str().unwrap(), nodes.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(queues, [("Curator", vec![&CURATORS.into()]), ("kazoo", vec![&KAZOOS.into()])]);
}

#[test]
fn a_wrong_setting_is_not_blamed_on_the_servers() {
    let bed = Bed::new("setting");
    let (up, down) = (ZooKeeper::shared().addr(), "127.0.0.1:1".to_owned());
    let no_root = format!("{up}/no/such/node");
    for asks in [&["why", "a", "--within", "20s"][..], &["doctor", "--within", "20s"], &["ls"]] {
        for (setting, wrong) in [
            ("ZKLOCK_ACL", "creators"),
            ("ZKLOCK_AUTH", "password"),
            ("ZKLOCK_TLS_CA", "/no/such/file"),
        ] {
            for servers in [&up, &down] {
                let output = bed.zklock_at(servers, asks).env(setting, wrong).output().unwrap();
                println!("{setting} {asks:?}: {output:?}");
                let text = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(125), "{text}");
                assert!(text.contains(setting) && !text.contains("does not answer"), "{text}");
                assert!(output.stdout.is_empty());
            }
        }
        // It is noticed when a session is opened.
        let mut command = bed.zklock_at(&up, asks);
        let output = command.env("ZKLOCK_SESSION_TIMEOUT", "30days").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && text.contains("24 days"), "{output:?}");
    }
    // A chroot that is not there is said by a server, which therefore answers.
    until("the chroot is blamed", || {
        let why = bed.zklock_at(&no_root, &["why", "a", "--within", "20s"]).output().unwrap();
        let text = String::from_utf8_lossy(&why.stderr);
        println!("{text}");
        let is_blamed = text.contains("does not exist") && !text.contains("does not answer");
        (is_blamed && why.status.code() == Some(125)).then_some(())
    });
}

/// Sixty locks take a few round trips each, and one is below a dozen directories.
#[test]
fn many_locks_are_listed_over_a_slow_network() {
    let bed = Bed::new("many");
    let mut client = raw();
    let node = "_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000";
    let deep = ["d"; 12].join("/");
    for name in (0..60).map(|number| format!("a{number}")).chain([deep]) {
        let path = bed.path(&format!("{name}/{node}"));
        // They stay also where this machine is slow.
        make(&mut client, &path, b"10.0.0.7", CreateMode::Persistent);
    }
    client.close().unwrap();
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    proxy.delay(Duration::from_millis(100));
    // On a busy machine it may take longer.
    until("all are listed within ten seconds", || {
        let mut ls = bed.zklock_at(&proxy.addr(), &["ls"]);
        let start = Instant::now();
        let output = ls.env("ZKLOCK_TIMEOUT", "1s").output().unwrap();
        let (lines, took) =
            (String::from_utf8_lossy(&output.stdout).lines().count(), start.elapsed());
        println!("{:?}: {lines} lines in {took:?}", output.status.code());
        (lines == 62 && took < Duration::from_secs(10)).then_some(())
    });
}

#[test]
fn what_a_node_says_does_nothing_to_a_terminal() {
    let bed = Bed::new("escapes");
    let mut client = raw();
    let data =
        br#"{"host":"db\u001b[2J7","app":"x\u009b2J","label":"\u007f\u0080\u009f","granted":"\u001b[1m","since":"\u001b[1m"}"#;
    let node = "a/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000";
    make(&mut client, &bed.path(node), data, CreateMode::Ephemeral);
    for arguments in [&["ls"][..], &["show", "a"], &["why", "a", "--within", "20s"]] {
        let (text, _) = said(&bed, arguments);
        assert!(text.contains("x2J on db[2J7"), "{text:?}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
    let is_told = |text: &str, contender: fn(&serde_json::Value) -> &serde_json::Value| {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        let told: serde_json::Value = serde_json::from_str(text).unwrap();
        let one = contender(&told);
        assert_eq!(
            (&one["host"], &one["application"]),
            (&"db\x1b[2J7".into(), &"x\u{9b}2J".into())
        );
        assert_eq!(one["label"], "\x7f\u{80}\u{9f}");
    };
    is_told(&said(&bed, &["ls", "--json"]).0, |told| &told["locks"][0]["holders"][0]);
    is_told(&said(&bed, &["show", "a", "--json"]).0, |told| &told["queues"][0]["contenders"][0]);
    is_told(&said(&bed, &["why", "a", "--json", "--within", "20s"]).0, |told| &told["holders"][0]);
    let mut watching = bed.zklock(&["watch", "a", "--json"]).spawn().unwrap();
    is_told(&changes(&mut watching)(), |told| &told["contender"]);
    watching.kill().unwrap();
    watching.wait().unwrap();
    let run = ["run", "a", "--timeout", "1s", "--retries", "1", "--", "true"];
    let text = String::from_utf8(bed.output(&run).stderr).unwrap();
    assert!(text.contains("x2J on db[2J7"), "{text:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

/// A program that knows nothing of who runs the test: neither a file of a home nor a locale.
fn alone(bed: &Bed, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOME", &bed.folder).env("LC_ALL", "C").current_dir(&bed.folder);
    command
}

/// Fails if a program has anything to say about a file. Only bash is asked in the short form: `tests/run`
/// installs the others for the long one.
fn accepts(bed: &Bed, command: &[&str]) {
    if command[0] == "bash" || is_long() {
        let said = alone(bed, command[0]).args(&command[1..]).output();
        let said = said.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(said.status.success() && said.stderr.is_empty(), "{command:?}: {said:?}");
    }
}

#[test]
fn shells_and_man_know_the_command() {
    let bed = Bed::new("man");
    let written = |file: &str, arguments: &[&str]| {
        let text = String::from_utf8(bed.output(arguments).stdout).unwrap();
        std::fs::write(bed.folder.join(file), &text).unwrap();
        text
    };
    let page = written("zklock.1", &["man"]);
    assert!(page.contains(".TH zklock 1"), "{page}");
    accepts(&bed, &["groff", "-man", "-ww", "-z", "-Tutf8", "zklock.1"]);
    // It refers to a page for each command.
    let pages = page.lines().filter_map(|line| line.strip_prefix(r"zklock\-")?.strip_suffix("(1)"));
    let pages: Vec<_> = pages.filter(|page| *page != "help").collect();
    assert!(pages.contains(&"run") && pages.contains(&"why"), "{pages:?}");
    for &command in &pages {
        let page = written(command, &["man", command]);
        let title = concat!("1  \"zklock ", env!("CARGO_PKG_VERSION"), "\"");
        assert!(page.contains(&format!(".TH zklock-{command} {title}")), "{page}");
        accepts(&bed, &["groff", "-man", "-ww", "-z", "-Tutf8", command]);
    }
    let (said, code) = said(&bed, &["man", "walk"]);
    assert!(code == 125 && said.contains("'walk'"), "{said}");
    assert!(pages.iter().all(|page| said.contains(&format!(" {page},"))), "{said}");
    for shell in ["bash", "zsh", "fish"] {
        assert!(written(shell, &["completions", shell]).contains("hold-at-most"), "{shell}");
        accepts(&bed, &[shell, "-n", shell]);
    }
    for (command, word, whole) in [("run", "--hold", "--hold-at-most"), ("man", "wh", "why")] {
        let typed = format!(
            "source ./bash; COMP_WORDS=(zklock {command} {word}); COMP_CWORD=2; \
             $(complete -p zklock | sed 's/.*-F \\([^ ]*\\).*/\\1/') zklock {word} {command}; \
             echo ${{COMPREPLY[*]}}"
        );
        let bash = alone(&bed, "bash").args(["-c", &typed]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&bash.stdout), format!("{whole}\n"), "{bash:?}");
    }
}
