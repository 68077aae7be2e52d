//! What leaves the process group of the command, as `timeout` does, runs no longer than the lock is held. Only who leaves
//! the session does.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bed::{Bed, TWO, all_dead, is_alive, raw, signal, through, until};

/// A script that waits for what has a group of its own.
fn script(before: &str) -> String {
    format!("{before}; timeout 1000 sh -c '{TWO}'; echo > went-on")
}

#[test]
fn a_lost_lock_ends_it() {
    let bed = Bed::new("left-and-lost");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", &script(":")]).spawn().unwrap();
    let pids = bed.pids("pids");
    raw().delete(&bed.nodes("a")[0]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124));
    assert!(all_dead(&pids));
    assert!(!bed.folder.join("went-on").exists());
}

#[test]
fn it_ends_before_the_lock_is_released() {
    let bed = Bed::new("left-behind-alone");
    let one = "trap '' TERM; echo $$ > pids; echo $$ >> pids; while :; do sleep 0.05; done";
    let script = format!("timeout 1000 sh -c \"{}\" &", one.replace('$', "\\$"));
    let script = format!("{script} until [ -s pids ]; do sleep 0.05; done; exit 3");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", &script]).spawn().unwrap();
    let pids = bed.pids("pids");
    until("its end", || {
        // In this order: it may end, and the node be deleted, between the two.
        let nodes = bed.nodes("a").len();
        assert!(nodes == 1 || all_dead(&pids));
        child.try_wait().unwrap()
    });
    assert!(all_dead(&pids));
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn the_death_of_zklock_takes_it_along() {
    let bed = Bed::new("left-and-killed");
    let script = script("trap '' TERM HUP INT");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", &script]).spawn().unwrap();
    let pids = bed.pids("pids");
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    bed.until_dead(&pids);
    assert!(!bed.folder.join("went-on").exists());
}

/// As of a program that writes its title over its environment: who is with it, or above, still has the variable.
#[test]
fn the_death_of_zklock_takes_along_what_does_not_show_where_it_comes_from() {
    let bed = Bed::new("left-and-unmarked");
    let below = "echo $$ >> pids; exec sleep 1000";
    let inner = format!("echo $$ > pids; timeout 900 sh -c '{below}'; echo > went-on");
    let script = "trap '' TERM; timeout 1000 env -u ZKLOCK_RUN sh -c \"$1\"";
    let command = ["run", "a", "--", "sh", "-c", script, "sh", &inner];
    let mut child = bed.zklock(&command).spawn().unwrap();
    let pids = bed.pids("pids");
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    bed.until_dead(&pids);
    assert!(!bed.folder.join("went-on").exists());
}

#[test]
fn while_zklock_is_stopped_it_ends_before_the_lock_is_anothers() {
    let bed = Bed::new("left-and-stopped");
    let script = script("trap '' TERM");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", &script]).spawn().unwrap();
    let pids = bed.pids("pids");
    signal(&child, Signal::SIGSTOP);
    bed.until_dead(&pids);
    signal(&child, Signal::SIGCONT);
    assert_eq!(child.wait().unwrap().code(), Some(124));
    assert!(!bed.folder.join("went-on").exists());
}

/// It also leaves a process of the group without an end: one whose parent, the daemon, never asks for it.
#[test]
fn a_daemon_is_neither_ended_nor_waited_for() {
    let bed = Bed::new("daemon");
    let daemon = "echo $$ > daemon; exec sleep 1000";
    let script = format!("(sleep 0.1 & exec setsid sh -c '{daemon}') & until [ -s daemon ]; do");
    let script = format!("{script} sleep 0.05; done; exit 3");
    let mut child = bed.zklock(&["run", "a", "--", "sh", "-c", &script]).spawn().unwrap();
    let daemon = Pid::from_raw(bed.lines("daemon", 1)[0].parse().unwrap());
    let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("its end", || child.try_wait().unwrap())
    }));
    let lived = is_alive(daemon);
    _ = kill(daemon, Signal::SIGKILL);
    assert_eq!(end.unwrap().code(), Some(3));
    assert!(lived);
    assert_eq!(bed.nodes("a"), [""; 0]);
}

/// A shell may have started something before it became `zklock`, which is its parent from then on, and also that of what it
/// leaves behind.
#[test]
fn what_was_there_before_goes_on() {
    let bed = Bed::new("stranger");
    let ends = "until [ -s late ] && ! kill -0 $(cat first); do sleep 0.05; done; exit 3";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", &format!("echo > begun; {ends}")]);
    let first = "until [ -e begun ]; do sleep 0.05; done; sleep 1000 & echo $! > late";
    let script = "sh -c \"$0\" & echo $! > first; sleep 1000 & echo $! > stranger; exec \"$@\"";
    let mut outer = through(&["sh", "-c", script, first], &inner);
    assert_eq!(outer.status().unwrap().code(), Some(3));
    let strangers = ["stranger", "late"].map(|file| bed.lines(file, 1)[0].parse().unwrap());
    let live = strangers.map(|one| is_alive(Pid::from_raw(one)));
    for one in strangers {
        _ = kill(Pid::from_raw(one), Signal::SIGKILL);
    }
    assert_eq!(live, [true; 2]);
}

/// A child from before leaves things behind, too. What hides the variable is the command's all the same.
#[test]
fn beside_children_from_before_it_ends_without_showing_where_it_comes_from() {
    let bed = Bed::new("beside-strangers");
    let script = "env -u ZKLOCK_RUN timeout 900 sh -c \"$0\" & \
                  until [ -s worker ]; do sleep 0.05; done; exit 3";
    let worker = "echo $$ > worker; exec sleep 1000";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", script, worker]);
    let before = "sleep 1000 & echo $! > stranger; exec \"$@\"";
    let mut outer = through(&["sh", "-c", before, "sh"], &inner);
    assert_eq!(outer.status().unwrap().code(), Some(3));
    let both = ["worker", "stranger"].map(|file| bed.lines(file, 1)[0].parse().unwrap());
    let both = both.map(Pid::from_raw);
    let live = both.map(is_alive);
    for one in both {
        _ = kill(one, Signal::SIGKILL);
    }
    assert_eq!(live, [false, true]);
}
