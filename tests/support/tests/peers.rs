//! Curator and kazoo on a real server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::time::Duration;

use zklock_test_support::peers::{Agent, Curator, Kazoo, Load, LockKind, Outcome};
use zklock_test_support::{RawClient, ZooKeeper, monotonic_ns};

const SESSION: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(20);
const SHORT: Option<Duration> = Some(Duration::from_millis(300));
const TRY: Option<Duration> = Some(Duration::ZERO);

fn names_are(agent: &Agent, path: &str, count: usize) {
    let nodes = agent.participants(path);
    assert_eq!(nodes.len(), count, "{nodes:?}");
    assert!(nodes.iter().all(|node| node.starts_with(&format!("{path}/"))), "{nodes:?}");
}

fn exclude_each_other(one: &Agent, two: &Agent, root: &str) {
    let path = format!("{root}/mutex");
    names_are(one, &path, 0);
    let before = monotonic_ns();
    let held = one.acquire(LockKind::Mutex, &path, None).held();
    assert!((before..monotonic_ns()).contains(&held.at_ns), "not the same clock");
    assert_eq!(one.participants(&path), [held.node.as_str()]);
    assert!(two.acquire(LockKind::Mutex, &path, SHORT).is_busy());
    assert!(two.acquire(LockKind::Mutex, &path, TRY).is_busy());
    let waits = two.start_acquire(LockKind::Mutex, &path, None);
    assert!(waits.wait(Duration::from_millis(300)).is_none());
    names_are(one, &path, 2);
    let released = one.release(&held).unwrap();
    let granted = waits.wait(SOON).unwrap().held();
    assert!(released < granted.at_ns);
    let gives_up = one.start_acquire(LockKind::Mutex, &path, None);
    assert!(gives_up.wait(Duration::from_millis(300)).is_none());
    gives_up.cancel();
    assert_eq!(gives_up.wait(SOON), Some(Outcome::Cancelled));
    two.release(&granted).unwrap();
    assert!(two.release(&granted).is_err());
}

fn share_and_exclude(one: &Agent, two: &Agent, root: &str) {
    let path = format!("{root}/rw");
    let first = one.acquire(LockKind::Read, &path, None).held();
    let second = two.acquire(LockKind::Read, &path, None).held();
    let writer = one.start_acquire(LockKind::Write, &path, None);
    assert!(writer.wait(Duration::from_millis(300)).is_none());
    one.release(&first).unwrap();
    two.release(&second).unwrap();
    let writer = writer.wait(SOON).unwrap().held();
    assert!(two.acquire(LockKind::Read, &path, SHORT).is_busy());
    one.release(&writer).unwrap();
}

fn count_permits(one: &Agent, two: &Agent, root: &str) {
    let (path, kind) = (format!("{root}/semaphore"), LockKind::Semaphore(2));
    let first = one.acquire(kind, &path, None).held();
    let second = two.acquire(kind, &path, None).held();
    assert!(two.acquire(kind, &path, SHORT).is_busy());
    one.release(&first).unwrap();
    let third = one.acquire(kind, &path, Some(SOON)).held();
    one.release(&third).unwrap();
    two.release(&second).unwrap();
}

#[test]
fn curator_locks() {
    let (addr, curator) = (ZooKeeper::shared().addr(), Curator::compile());
    let (one, two) = (curator.agent(&addr, SESSION), curator.agent(&addr, SESSION));
    exclude_each_other(&one, &two, "/curator");
    share_and_exclude(&one, &two, "/curator");
    count_permits(&one, &two, "/curator");

    let revocable = one.acquire(LockKind::Revocable, "/curator/revocable", None).held();
    two.revoke(&revocable.node).unwrap();
    assert!(one.wait_event(&format!("revoked {}", revocable.handle), SOON));

    two.quit();
    one.pause();
    one.resume();
    one.kill();
    let after = one.acquire(LockKind::Mutex, "/curator/mutex", None);
    assert!(matches!(after, Outcome::Failed(_)), "{after:?}");
}

#[test]
fn kazoo_locks() {
    let (addr, kazoo) = (ZooKeeper::shared().addr(), Kazoo::install());
    let (one, two) = (kazoo.agent(&addr, SESSION), kazoo.agent(&addr, SESSION));
    exclude_each_other(&one, &two, "/kazoo");
    share_and_exclude(&one, &two, "/kazoo");
    count_permits(&one, &two, "/kazoo");

    let mut raw = RawClient::connect(&addr, SESSION).unwrap();
    let held = one.acquire(LockKind::MutexBesideCurator, "/kazoo/beside", None).held();
    assert!(raw.exists(&held.node, false).unwrap());
    one.quit();
    assert!(!raw.exists(&held.node, false).unwrap());
}

#[test]
fn counters_lose_nothing_and_benchmarks_measure() {
    let (addr, curator, kazoo) = (ZooKeeper::shared().addr(), Curator::compile(), Kazoo::install());
    let file = std::env::temp_dir().join(format!("counter-{}", std::process::id()));
    fs::write(&file, "0").unwrap();
    let runs = [(); 2].map(|()| curator.counter(&addr, "/count/curator", &file, 50));
    runs.into_iter().for_each(|run| assert_eq!(run.finish(), "done 50\n"));
    let runs = [(); 2].map(|()| kazoo.counter(&addr, "/count/kazoo", &file, 50));
    runs.into_iter().for_each(|run| assert_eq!(run.finish(), "done 50\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "200");
    fs::remove_file(&file).unwrap();

    let (time, warm_up) = (Duration::from_millis(300), Duration::from_millis(300));
    let loads = [Load::One, Load::Tasks(3), Load::Sessions(2), Load::Locks(3)];
    for (index, load) in loads.into_iter().enumerate() {
        let of_kazoo = kazoo.bench(&addr, &format!("/bench/kazoo{index}"), load, time, warm_up);
        let mut all = vec![of_kazoo];
        // One is enough of what takes a JVM.
        if load == Load::Sessions(2) {
            all.push(curator.bench(&addr, "/bench/curator", load, time, warm_up));
        }
        for figures in all {
            assert!(figures.count > 0 && figures.locks_per_s > 0.0, "{figures:?}");
            assert!(figures.p50 <= figures.p99 && figures.p99 <= figures.max, "{figures:?}");
        }
    }
}
