//! Which locks are found, and what may not be read.

use std::process::Command;

use serde_json::Value;
use zklock_test_support::{CreateMode, ZooKeeper};

use crate::access::{BUT_READ, allow};
use crate::bed::{Bed, CURATORS, KAZOOS, TWO, make, raw, until};
use crate::documented::check;
use crate::watches::changes;

/// What a command prints below a root, what it tells, and its exit code.
fn below(root: &str, arguments: &[&str]) -> (String, String, i32) {
    until("ZooKeeper answers", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zklock"));
        command.args(["--connect", &ZooKeeper::shared().addr(), "--root", root]).args(arguments);
        let output = command.env("ZKLOCK_TIMEOUT", "60s").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap();
        (code != 69).then(|| (text(&output.stdout), text(&output.stderr), code))
    })
}

fn list(root: &str) -> (Value, i32) {
    let (printed, told, code) = below(root, &["ls", "--json"]);
    let value: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{told}"));
    check(&value, "ls", "ls");
    (value, code)
}

fn names(value: &Value) -> Vec<&str> {
    value["locks"].as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect()
}

#[test]
fn locks_are_found_below_a_root_that_is_called_as_the_inside_of_a_semaphore() {
    let bed = Bed::new("inside");
    let mut client = raw();
    let permit = CURATORS.replace("-lock-", "-lease-");
    for last in ["locks", "leases"] {
        let root = bed.path(&format!("billing/{last}"));
        for node in [format!("orders/{CURATORS}"), format!("printers/leases/{permit}")] {
            make(&mut client, &format!("{root}/{node}"), b"10.0.0.7", CreateMode::Ephemeral);
        }
        let (found, code) = list(&root);
        assert_eq!((names(&found), code), (vec!["orders", "printers"], 0), "{root}: {found}");
        // A lock of this path has no name below a root that is above.
        let above = bed.path("billing");
        let (text, told, code) = below(&above, &["ls"]);
        assert_eq!(text, format!("no lock is in use below {above}, apart from what is left out\n"));
        let lists = format!("`zklock --connect {} --root {root} ls`", ZooKeeper::shared().addr());
        assert!(told.contains(&lists), "{told}");
        assert_eq!(code, 1);
        let (found, code) = list(&above);
        assert!(names(&found).is_empty() && code == 1, "{found}");
        assert!(found["elsewhere"].as_array().unwrap().contains(&root.into()), "{found}");
    }
    // So it is where the root is that of ZooKeeper, which has locks of other tests as well.
    let (found, _) = list("/");
    let root = bed.path("billing/locks");
    assert!(found["elsewhere"].as_array().unwrap().contains(&root.into()), "{found}");
    client.close().unwrap();
}

#[test]
fn a_lock_whose_path_is_no_name_is_left_out_and_told() {
    let bed = Bed::new("unnamed");
    let (mut client, root) = (raw(), bed.path("app"));
    let path = format!("{root}/x/locks");
    make(&mut client, &format!("{path}/{KAZOOS}"), b"10.0.0.7", CreateMode::Ephemeral);
    for above in [root.clone(), bed.path("").trim_end_matches('/').to_owned()] {
        let (text, told, code) = below(&above, &["ls"]);
        assert_eq!(text, format!("no lock is in use below {above}, apart from what is left out\n"));
        let says = "1 lock has a path that is no name, and is left out: ";
        assert!(told.contains(&format!("{says}{path}")), "{told}");
        assert_eq!(code, 1);
        let (found, code) = list(&above);
        assert_eq!((&found["unnamed"], code), (&serde_json::json!([path]), 1), "{found}");
    }
    client.close().unwrap();
}

#[test]
fn who_may_not_look_is_told_so() {
    let bed = Bed::new("creator");
    let run = ["run", "a", "--", "sh", "-c", TWO];
    let service = [("ZKLOCK_AUTH", "digest:app:right"), ("ZKLOCK_ACL", "creator")];
    let mut holder = bed.zklock(&run).envs(service).spawn().unwrap();
    bed.lines("pids", 2);
    let (root, ls) = (bed.path(""), bed.output(&["ls"]));
    let root = root.trim_end_matches('/');
    let [text, told] =
        [&ls.stdout, &ls.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(text, format!("no lock is in use below {root}, apart from what is left out\n"));
    assert!(told.starts_with("zklock: 1 directory may not be read"), "{told}");
    assert!(told.contains(root) && ls.status.code() == Some(1), "{ls:?}");
    let (found, code) = list(root);
    assert_eq!((&found["unread"], code), (&serde_json::json!([root]), 1));
    let knows = bed.zklock(&["ls"]).envs(service).output().unwrap();
    let text = String::from_utf8_lossy(&knows.stdout);
    assert!(text.contains("\na ") && knows.status.code() == Some(0), "{knows:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn what_may_not_be_read_is_named_and_the_rest_is_listed() {
    let bed = Bed::new("partly");
    let mut client = raw();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| bed.path(name));
    let all = [a.as_str(), &b, &d].map(|lock| format!("{lock}/{CURATORS}"));
    for node in all.iter().chain([&format!("{c}/lock")]) {
        make(&mut client, node, b"10.0.0.7", CreateMode::Ephemeral);
    }
    // A node of a queue, the node of the layout with one, and a directory.
    [&all[1], &format!("{c}/lock"), &d].into_iter().for_each(|path| allow(path, BUT_READ));
    let unread = serde_json::json!([b, format!("{c}/lock"), d]);
    let root = bed.path("");
    let (found, code) = list(root.trim_end_matches('/'));
    assert_eq!((names(&found), &found["unread"], code), (vec!["a"], &unread, 1), "{found}");
    let ls = bed.output(&["ls"]);
    assert!(String::from_utf8_lossy(&ls.stdout).contains("\na "), "{ls:?}");
    let told = String::from_utf8_lossy(&ls.stderr);
    assert!(told.starts_with("zklock: 3 directories may not be read"), "{told}");
    let mut top = bed.zklock(&["top", "--json"]).spawn().unwrap();
    let seen: Value = serde_json::from_str(&changes(&mut top)()).unwrap();
    top.kill().unwrap();
    top.wait().unwrap();
    check(&seen, "top", "top");
    assert_eq!((names(&seen), &seen["unread"]), (vec!["a"], &unread));
    let doctor = bed.zklock(&["doctor", "--within", "20s"]).output().unwrap();
    assert_eq!(doctor.status.code(), Some(0), "{doctor:?}");
    client.close().unwrap();
}
