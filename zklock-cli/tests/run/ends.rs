//! Whatever ends, the command does not run without the lock.

use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use zklock_test_support::{Proxy, ZooKeeper};

use crate::bed::{Bed, TWO, is_alive, raw, signal, until};

/// Somebody else who waits for the lock, and writes a line when it has it.
fn rival(bed: &Bed) -> Child {
    let run = ["run", "a", "--timeout", "60s", "--retries", "1", "--", "sh", "-c", "echo > rival"];
    bed.zklock(&run).spawn().unwrap()
}

fn all_dead(pids: &[Pid]) -> bool {
    pids.iter().all(|pid| !is_alive(*pid))
}

#[test]
fn what_the_command_leaves_behind_ends_before_the_lock_is_released() {
    let bed = Bed::new("left-behind");
    let script = "echo $$ > pids; trap '' TERM; sleep 1000 & echo $! >> pids";
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", script]).spawn().unwrap();
    let pids = bed.pids("pids");
    sleep(Duration::from_millis(200));
    // It may take its time for its end.
    assert!(is_alive(pids[1]) && bed.nodes("a").len() == 1);
    until("its end", || {
        if is_alive(pids[1]) {
            assert_eq!(bed.nodes("a").len(), 1);
        }
        child.try_wait().unwrap()
    });
    assert!(all_dead(&pids));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_lost_lock_ends_the_whole_group() {
    let bed = Bed::new("deleted");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    let pids = bed.pids("pids");
    raw().delete(&bed.nodes("a")[0]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124));
    assert!(all_dead(&pids));
}

#[test]
fn a_group_that_does_not_hear_is_dead_before_the_lease_can_be_anothers() {
    let bed = Bed::new("silence");
    let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
    let deaf = format!("trap '' TERM; {TWO}");
    let run = ["run", "a", "--", "sh", "-c", &deaf];
    let mut child = bed.zklock_at(&proxy.addr(), &run).spawn().unwrap();
    let pids = bed.pids("pids");
    let mut other = rival(&bed);
    until("both are in the queue", || (bed.nodes("a").len() == 2).then_some(()));
    proxy.black_hole(true);
    let start = Instant::now();
    until("their end", || all_dead(&pids).then_some(()));
    println!("dead after {:?} of silence", start.elapsed());
    assert!(!bed.folder.join("rival").exists() && other.try_wait().unwrap().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(124));
    bed.lines("rival", 1);
    assert!(other.wait().unwrap().success());
}

#[test]
fn one_who_was_stopped_for_longer_than_the_lease_ends_the_group_at_once() {
    let bed = Bed::new("stopped");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    let pids = bed.pids("pids");
    signal(&child, Signal::SIGSTOP);
    let mut other = rival(&bed);
    bed.lines("rival", 1);
    signal(&child, Signal::SIGCONT);
    assert_eq!(child.wait().unwrap().code(), Some(124));
    assert!(all_dead(&pids));
    assert!(other.wait().unwrap().success());
}

#[test]
fn the_death_of_zklock_takes_the_whole_group_along() {
    let bed = Bed::new("killed");
    let deaf = format!("trap '' TERM HUP INT; {TWO}");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", &deaf]).spawn().unwrap();
    let pids = bed.pids("pids");
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    until("their end", || {
        // Until ZooKeeper ends the session, nobody else has the lock.
        let dead = all_dead(&pids);
        assert!(dead || bed.nodes("a").len() == 1);
        dead.then_some(())
    });
}

#[test]
fn a_lock_is_held_at_most_for_as_long_as_it_says() {
    let bed = Bed::new("at-most");
    let run = ["run", "a", "--hold-at-most", "300ms", "--", "sh", "-c", TWO];
    let start = Instant::now();
    assert_eq!(bed.code(&run), 124);
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(all_dead(&bed.pids("pids")));
    assert_eq!(bed.nodes("a"), [""; 0]);
}

#[test]
fn who_is_told_to_end_while_it_waits_leaves_the_queue_at_once() {
    let bed = Bed::new("gives-up");
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.pids("pids");
    let mut waiter = rival(&bed);
    until("both are in the queue", || (bed.nodes("a").len() == 2).then_some(()));
    signal(&waiter, Signal::SIGTERM);
    assert_eq!(waiter.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(bed.nodes("a").len(), 1);
    signal(&holder, Signal::SIGTERM);
    assert_eq!(holder.wait().unwrap().code(), Some(128 + 15));
    assert!(!bed.folder.join("rival").exists());
}

/// A random moment, the same at every run.
fn moments(count: u32) -> impl Iterator<Item = Duration> {
    (0..count).map(|number| Duration::from_millis(u64::from(number * 7_919 % 400)))
}

#[test]
fn whoever_is_killed_whenever_nothing_runs_without_the_lock() {
    let rounds = if std::env::var_os("ZKLOCK_LONG").is_some() { 200 } else { 12 };
    let bed = Bed::new("whenever");
    // Who runs beside another one says so.
    let script = "echo $$ >> all; mkdir inside || { echo > beside; exit 9; }; \
                  (sleep 0.2; echo > work); rmdir inside";
    let mut all = Vec::new();
    for (number, moment) in moments(rounds).enumerate() {
        let run = ["run", "a", "--timeout", "60s", "--retries", "1", "--", "sh", "-c", script];
        let mut child = bed.zklock(&run).spawn().unwrap();
        sleep(moment);
        if number % 3 != 2 {
            signal(&child, if number % 2 == 0 { Signal::SIGKILL } else { Signal::SIGTERM });
            child.wait().unwrap();
            // What it left in the folder is not removed by who was killed.
            until("nobody of it runs", || {
                let text = std::fs::read_to_string(bed.folder.join("all")).unwrap_or_default();
                let pids = text.lines().filter_map(|line| line.parse().ok()).map(Pid::from_raw);
                let pids: Vec<_> = pids.collect();
                all_dead(&pids).then_some(())
            });
            let _ = std::fs::remove_dir(bed.folder.join("inside"));
        }
        all.push(child);
    }
    for mut child in all {
        child.wait().unwrap();
    }
    assert!(!bed.folder.join("beside").exists());
    until("no node is left", || bed.nodes("a").is_empty().then_some(()));
}
