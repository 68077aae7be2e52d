//! `zklock doctor` compares the session timeout with the ticks of the servers, and waits for no answer for long.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::spawn;
use std::time::Duration;

use serde_json::Value;
use zklock_test_support::{Builder, ZooKeeper};

use crate::doctor::{examine, wrong};
use crate::documented::check;
use crate::scene::{BOUND, Scene};

const TICK: &str = "ZKLOCK_TICK_TIME";
const TIMEOUT: &str = "ZKLOCK_SESSION_TIMEOUT";

/// A server that grants less than two of its ticks, which are those of ZooKeeper's sample configuration.
fn hasty() -> Builder {
    let server = ZooKeeper::builder().tick_time(Duration::from_secs(2));
    server.min_session_timeout(Duration::from_millis(500))
}

fn of_tick(checks: &[Value]) -> &Value {
    checks.iter().find(|check| check["code"] == "tick").unwrap()
}

/// Fails unless the ensemble is well, with this result of the check.
fn is_well(scene: &Scene, settings: &[(&str, &str)], state: &str) -> String {
    let (exit, checks) = examine(scene, settings, &[]);
    let tick = of_tick(&checks);
    assert_eq!((exit, &tick["state"]), (0, &state.into()), "{tick}");
    tick["says"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_timeout_below_two_ticks_is_named_where_no_tick_is_told() {
    let server = hasty().start();
    let (addr, scene) = (server.addr(), Scene::at(&server.addr(), "ticks"));
    let says = wrong(&scene, &[(TIMEOUT, "3s")], &[], "tick");
    let begins = format!(
        "{addr} (minSessionTimeout=500) grants a session timeout of 3 s, which is less than two ticks of {addr} \
         (tickTime=2000)"
    );
    assert!(says.starts_with(&begins), "{says}");
    let (_, checks) = examine(&scene, &[(TIMEOUT, "3s")], &[]);
    let helps = "ZKLOCK_TICK_TIME=2000ms, or ZKLOCK_SESSION_TIMEOUT=4000ms";
    assert_eq!(of_tick(&checks)["helps"], helps);
    // Each of the two helps.
    is_well(&scene, &[(TIMEOUT, "3s"), (TICK, "2000ms")], "well");
    is_well(&scene, &[(TIMEOUT, "4000ms")], "well");
    // Where no lease is safe with the tick, to tell it is no help.
    let (_, checks) = examine(&scene, &[(TIMEOUT, "2s")], &[]);
    assert_eq!(of_tick(&checks)["helps"], "ZKLOCK_SESSION_TIMEOUT=4000ms");
    wrong(&scene, &[(TIMEOUT, "2s"), (TICK, "2000ms")], &[], "session");
}

#[test]
fn a_tick_that_is_told_too_short_is_named() {
    let server = hasty().start();
    let scene = Scene::at(&server.addr(), "told-tick");
    let says = wrong(&scene, &[(TICK, "200ms")], &[], "tick");
    let tick = format!("the tick of {} (tickTime=2000)", server.addr());
    assert!(says.starts_with("ZKLOCK_TICK_TIME is 0.2 s") && says.contains(&tick), "{says}");
    is_well(&scene, &[(TICK, "2s")], "well");
    // That is safe, and no fault.
    let says = is_well(&scene, &[(TICK, "3s")], "note");
    assert!(says.contains("leases are shorter than they need be"), "{says}");
}

#[test]
fn a_server_that_does_not_tell_its_tick_is_not_compared() {
    let server = hasty().java_property("zookeeper.4lw.commands.whitelist", "srvr,cons,mntr");
    let server = server.start();
    let scene = Scene::at(&server.addr(), "no-conf");
    let says = is_well(&scene, &[(TIMEOUT, "3s")], "note");
    let why = format!("{}: it does not allow the four-letter word `conf`", server.addr());
    assert!(says.starts_with("not known: ") && says.contains(&why), "{says}");
    let mut doctor = scene.command("zklock");
    let output = doctor.args(["doctor", "--within", "20s"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("Not looked at: tick, containers.\n"), "{text}");
    // Which line helps is said once.
    let words = text.split("words ").nth(1).unwrap().split("connections ").next().unwrap();
    assert!(words.contains("does not allow conf") && words.contains("mntr,conf in"), "{text}");
}

/// A way to a server on which one question is never answered.
fn without_answers_to(question: &'static [u8; 4], server: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        })
    };
    spawn(move || {
        for client in listener.incoming() {
            let (mut client, server) = (client.unwrap(), server.clone());
            spawn(move || {
                let mut word = [0; 4];
                client.read_exact(&mut word)?;
                if word == *question {
                    // It stays open until its client ends it.
                    return client.read(&mut word).map(drop);
                }
                let mut server = TcpStream::connect(server)?;
                server.write_all(&word)?;
                pass(server.try_clone()?, client.try_clone()?);
                pass(client, server);
                Ok(())
            });
        }
    });
    addr
}

#[test]
fn doctor_ends_although_a_server_never_answers_one_question() {
    let server = ZooKeeper::builder().start();
    let scene = Scene::at(&without_answers_to(b"conf", server.addr()), "hangs");
    let (bound, mut doctor) = (BOUND.as_secs().to_string(), scene.command("timeout"));
    doctor.args([&bound, "zklock", "doctor", "--json", "--within", "5s"]);
    let output = doctor.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&value, "doctor", "doctor");
    let checks = value["checks"].as_array().unwrap();
    let says = format!("not known: {}: it does not answer in time", scene.servers);
    assert_eq!(of_tick(checks)["says"], says);
    // The others are made.
    let of = |code: &str| &checks.iter().find(|check| check["code"] == code).unwrap()["state"];
    for code in ["connections", "timeout", "auth", "buffer"] {
        assert_eq!(of(code), "well", "{value}");
    }
}
