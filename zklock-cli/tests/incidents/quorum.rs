//! `zklock doctor` where a server is down, and the others serve, and where all of them answer and none serves.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::spawn;

use serde_json::Value;
use zklock_test_support::ZooKeeper;

use crate::doctor::{examine, wrong};
use crate::scene::Scene;

#[test]
fn a_server_that_is_down_is_named_and_the_rest_is_looked_at() {
    let ensemble = ZooKeeper::builder().ensemble(3);
    let scene = Scene::at(&ensemble.connect_string(), "quorum");
    let down = ensemble.server(ensemble.followers()[0]);
    down.kill();
    let (exit, checks) = examine(&scene, &[], &[]);
    let codes = |all: &[Value]| {
        let codes: Vec<_> =
            all.iter().map(|check| check["code"].as_str().unwrap().to_owned()).collect();
        codes.join(" ")
    };
    let wrong: Vec<_> = checks.iter().filter(|check| check["state"] == "wrong").cloned().collect();
    assert_eq!((exit, &*codes(&wrong)), (1, "quorum"));
    let all = "quorum words connections chroot timeout tick auth acl containers buffer digests";
    assert_eq!(codes(&checks), all);
    let (says, helps) = (wrong[0]["says"].as_str().unwrap(), wrong[0]["helps"].as_str().unwrap());
    assert!(says.starts_with("2 of 3 servers serve, so there is a quorum"), "{says}");
    assert_eq!(helps, format!("start {}", down.addr()));
    assert!(says.contains(&format!("{}: ", down.addr())), "{says}");
}

fn quorum(checks: &[Value]) -> &Value {
    checks.iter().find(|check| check["code"] == "quorum").unwrap()
}

/// A server with `4lw.commands.whitelist=ruok` that has lost its leader. It ends with the test.
fn without_a_leader() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    spawn(move || {
        for mut stream in listener.incoming().flatten() {
            spawn(move || {
                let mut word = [0; 4];
                let is_word = stream.read_exact(&mut word).is_ok() && word[0].is_ascii_lowercase();
                // What begins a session is only ended.
                let says = "is not executed because it is not in the whitelist.";
                is_word.then(|| writeln!(stream, "{} {says}", String::from_utf8_lossy(&word)))
            });
        }
    });
    address
}

#[test]
fn servers_that_answer_and_open_no_session_are_not_well() {
    let scene = Scene::at(&[(); 3].map(|()| without_a_leader()).join(","), "no-leader");
    wrong(&scene, &[], &[], "session");
    let (_, checks) = examine(&scene, &[], &[]);
    assert_eq!(quorum(&checks)["state"], "note");
    assert_eq!(quorum(&checks)["says"], "3 of 3 servers answer, and none says whether it serves");
}

/// Two of three may serve or not: whether a session is opened is seen by opening one.
#[test]
fn servers_that_answer_beside_one_that_is_down_are_not_said_to_serve() {
    let down = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let servers = format!("{},{},{down}", without_a_leader(), without_a_leader());
    let scene = Scene::at(&servers, "no-leader-seen");
    let (exit, checks) = examine(&scene, &[], &[]);
    let wrong = checks.iter().filter(|check| check["state"] == "wrong");
    let codes: Vec<_> = wrong.map(|check| check["code"].as_str().unwrap()).collect();
    assert_eq!((exit, &*codes.join(" ")), (1, "quorum session"));
    let quorum = quorum(&checks);
    let says = quorum["says"].as_str().unwrap();
    assert!(says.starts_with("2 of 3 servers answer, and none says whether it serves"), "{says}");
    assert_eq!(quorum["helps"], format!("start {down}"));
}
