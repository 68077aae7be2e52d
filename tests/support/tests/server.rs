//! One real server: its life, its numbers, and its end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::panic;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use zklock_test_support::{CreateMode, RawClient, RawError, ZooKeeper};

const LONG: Duration = Duration::from_secs(30);

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !check() {
        assert!(Instant::now() < limit, "not in 20 s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn process_lives(pid: u32) -> bool {
    // A zombie is dead, it only waits for its parent.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

#[test]
fn numbers_follow_what_a_client_does() {
    let server = ZooKeeper::start();
    assert_eq!(server.mode().as_deref(), Some("standalone"));
    let mut client = RawClient::connect(&server.addr(), LONG).unwrap();
    let id = client.session().id;
    assert_eq!(server.node_count(), 5);
    client.create("/a", b"data", CreateMode::Persistent).unwrap();
    let node = client.create("/a/e-", b"", CreateMode::EphemeralSequential).unwrap();
    assert_eq!(node, "/a/e-0000000000");
    assert_eq!(client.children("/a").unwrap(), ["e-0000000000"]);
    assert_eq!(client.data("/a").unwrap(), b"data");
    assert!(matches!(client.delete("/none"), Err(RawError::Code(-101))));

    assert_eq!(server.watch_count(), 0);
    assert!(client.exists("/a", true).unwrap());
    assert_eq!(server.watch_count(), 1);
    client.set_data("/a", b"more").unwrap();
    assert_eq!(client.next_event().unwrap(), "/a");
    assert_eq!(server.watch_count(), 0);

    let sessions = server.sessions();
    let mine = sessions.iter().find(|session| session.id == id).unwrap();
    assert_eq!(mine.ephemerals, [node]);
    let before = server.packets_received();
    for _ in 0..50 {
        client.ping().unwrap();
    }
    assert!(server.packets_received() >= before + 50);
    client.close().unwrap();
    assert!(server.sessions().is_empty(), "{}", server.dump());
}

#[test]
fn containers_and_sessions_end_within_ticks() {
    let server = ZooKeeper::start();
    let mut client = RawClient::connect(&server.addr(), LONG).unwrap();
    client.create("/c", b"", CreateMode::Container).unwrap();
    let other = RawClient::connect(&server.addr(), Duration::from_millis(400)).unwrap();
    assert_eq!(other.session().timeout, Duration::from_millis(400));
    assert_eq!(server.sessions().len(), 2);
    client.create("/c/x", b"", CreateMode::Persistent).unwrap();
    client.delete("/c/x").unwrap();
    eventually("the silent session expires", || server.sessions().len() == 1);
    eventually("the container is reaped", || !client.exists("/c", false).unwrap());
    let gone = other.session().clone();
    assert!(matches!(RawClient::resume(&server.addr(), &gone), Err(RawError::Expired)));
}

#[test]
fn data_and_sessions_survive_a_kill() {
    let server = ZooKeeper::start();
    let mut client = RawClient::connect(&server.addr(), LONG).unwrap();
    client.create("/e", b"", CreateMode::Ephemeral).unwrap();
    let (key, pid) = (client.session().clone(), server.pid().unwrap());
    server.kill();
    assert!(!process_lives(pid));
    assert!(client.ping().is_err());
    assert!(RawClient::connect(&server.addr(), LONG).is_err());
    server.restart();
    let mut client = RawClient::resume(&server.addr(), &key).unwrap();
    assert!(client.exists("/e", false).unwrap());
}

#[test]
fn paused_server_keeps_its_connections_and_answers_nothing() {
    let server = ZooKeeper::start();
    let mut client = RawClient::connect(&server.addr(), LONG).unwrap();
    server.pause();
    client.set_read_timeout(Some(Duration::from_millis(300)));
    assert!(client.ping().is_err());
    server.resume();
    client.set_read_timeout(Some(LONG));
    assert_eq!(client.receive().unwrap().xid, -2);
}

#[test]
fn ends_with_its_test_when_that_panics() {
    let (mut pid, mut addr) = (0, String::new());
    let caught = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let server = ZooKeeper::start();
        (pid, addr) = (server.pid().unwrap(), server.addr());
        panic!("on purpose");
    }));
    assert!(caught.is_err());
    assert!(!process_lives(pid));
    assert!(RawClient::connect(&addr, LONG).is_err());
}

/// Not a test by itself: what the next test kills.
#[test]
#[ignore = "a part of `ends_with_its_process_when_that_is_killed`"]
fn victim() {
    let own = ZooKeeper::start();
    own.pause();
    let shared = ZooKeeper::shared();
    println!("\npids {} {}", own.pid().unwrap(), shared.pid().unwrap());
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn ends_with_its_process_when_that_is_killed() {
    let base = std::env::current_exe().unwrap().parent().unwrap().join("victim-tmp");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .env("ZKLOCK_TEST_DIR", &base)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().starts_with("pids ")).unwrap().unwrap();
    let pids: Vec<u32> = line[5..].split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| process_lives(*pid)));
    victim.kill().unwrap();
    assert_eq!(victim.wait().unwrap().signal(), Some(9));
    eventually("the servers are gone", || !pids.iter().any(|pid| process_lives(*pid)));
    let empty = |dir: &Path| std::fs::read_dir(dir).unwrap().next().is_none();
    eventually("their folders are gone", || empty(&base));
    std::fs::remove_dir(&base).unwrap();
}
