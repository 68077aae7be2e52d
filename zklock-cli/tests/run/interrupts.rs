//! `^C` ends what it would have ended without `zklock`, too: the script or the loop that runs it.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use zklock_test_support::{Direction, Proxy, ZooKeeper};

use crate::bed::{Bed, TWO, signal, through, until};
use crate::places::{contained, in_a_shell};

const ZKLOCK: &str = env!("CARGO_BIN_EXE_zklock");

#[test]
fn it_ends_a_loop_of_an_interactive_shell() {
    let bed = Bed::new("loop");
    let command = "sh -c 'echo begun; exec sleep 1000'";
    let run = format!("while true; do {ZKLOCK} run a -- {command}; echo on; done\\n");
    let steps = [
        ("ready> ", run.as_str()),
        ("begun\r\n", "\\x03"),
        ("ready> ", "echo code $?\\n"),
        ("code 130", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
}

/// Types a key while a script runs, which ends with this code.
fn in_a_script(bed: &Bed, shell: &str, run: &str, key: &str, code: &str) {
    std::fs::write(bed.folder.join("script"), format!("{run}\necho went on >> on\n")).unwrap();
    let start = format!("{shell}\\n");
    let steps = [
        ("ready> ", start.as_str()),
        ("begun\r\n", key),
        ("ready> ", "echo code $?\\n"),
        (code, "exit\\n"),
    ];
    in_a_shell(bed, &steps);
    assert!(!bed.folder.join("on").exists(), "the script went on: {shell}: {run}");
    assert_eq!(bed.nodes("a"), [""; 0]);
}

#[test]
fn it_ends_a_script() {
    let bed = Bed::new("script");
    let run = format!("{ZKLOCK} run a -- sh -c 'echo begun; exec sleep 1000'");
    for shell in ["sh script", "bash script"] {
        in_a_script(&bed, shell, &run, "\\x03", "code 130");
    }
    // A script in bash goes on after `^\`, whatever it runs.
    in_a_script(&bed, "dash script", &run, "\\x1c", "code 131");
}

/// The terminal stays with the script there.
#[test]
fn it_ends_a_script_whose_output_goes_elsewhere() {
    let bed = Bed::new("log");
    let run = format!("{ZKLOCK} run a -- sh -c 'echo begun > /dev/tty; exec sleep 1000'");
    for shell in ["sh script > log", "bash script > log"] {
        in_a_script(&bed, shell, &run, "\\x03", "code 130");
    }
}

#[test]
fn it_ends_a_script_that_waits_for_the_lock() {
    let bed = Bed::new("waits");
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.pids("pids");
    let run = format!("{ZKLOCK} run a -- touch ran");
    std::fs::write(bed.folder.join("script"), format!("{run}\necho went on >> on\n")).unwrap();
    // Whoever is in the queue is asked for keys by nobody: this shows that it is there.
    let shows = format!(
        "(until {ZKLOCK} show a | grep -q waits; do sleep 0.1; done; echo it wai''ts) & bash script\\n"
    );
    let steps = [
        ("ready> ", shows.as_str()),
        ("it waits", "\\x03"),
        ("ready> ", "echo code $?\\n"),
        ("code 130", "exit\\n"),
    ];
    in_a_shell(&bed, &steps);
    for file in ["on", "ran"] {
        assert!(!bed.folder.join(file).exists(), "{file}");
    }
    signal(&holder, Signal::SIGTERM);
    holder.wait().unwrap();
}

/// As nothing was typed, nobody else gets it.
#[test]
fn who_interrupts_zklock_alone_does_not_interrupt_who_runs_it() {
    let bed = Bed::new("alone");
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", "echo > begun; exec sleep 1000"]);
    let script = "\"$@\"& echo $! > pid; wait $!; echo $? > code";
    // Without a terminal, what a shell puts into the background ignores SIGINT unless it is told otherwise.
    let by = ["bash", "-c", script, "bash", "env", "--default-signal"];
    let mut outer = through(&by, &inner).spawn().unwrap();
    bed.lines("begun", 1);
    let zklock = bed.lines("pid", 1)[0].parse().unwrap();
    nix::sys::signal::kill(Pid::from_raw(zklock), Signal::SIGINT).unwrap();
    assert!(until("its end", || outer.try_wait().unwrap()).success());
    assert_eq!(bed.lines("code", 1), ["130"]);
}

#[test]
fn whoever_waits_for_zklock_sees_the_signal() {
    let bed = Bed::new("seen");
    // Where nothing may be written of a process that quits, nothing would be anyhow.
    let script = "ulimit -c unlimited; exec env --default-signal \"$@\"";
    let by = ["sh", "-c", script, "sh"];
    for one in [Signal::SIGINT, Signal::SIGQUIT] {
        let inner = bed.zklock(&["run", "a", "--", "sh", "-c", "echo > begun; exec sleep 1000"]);
        let mut child = through(&by, &inner).spawn().unwrap();
        bed.lines("begun", 1);
        signal(&child, one);
        let status = child.wait().unwrap();
        assert_eq!((status.signal(), status.core_dumped()), (Some(one as i32), false), "{status}");
        assert_eq!(bed.nodes("a"), [""; 0]);
        std::fs::remove_file(bed.folder.join("begun")).unwrap();
    }
}

/// As of a terminal that is closed: whoever cleans up behind it sends another one.
#[test]
fn who_is_told_twice_at_once_to_end_leaves_nothing_in_the_queue() {
    let bed = Bed::new("twice");
    let mut holder = bed.zklock(&["run", "a", "--", "sh", "-c", TWO]).spawn().unwrap();
    bed.pids("pids");
    let are_there = |nodes: usize| {
        until(&format!("{nodes} nodes"), || (bed.nodes("a").len() == nodes).then_some(()));
    };
    // On a busy machine a second may be too short for all that is left to do.
    let has_left = (0..3).any(|_| {
        are_there(1);
        let proxy = Proxy::start(ZooKeeper::shared().socket_addr());
        let inner = bed.zklock_at(&proxy.addr(), &["run", "a", "--", "true"]);
        let mut waiter = through(&["env", "--default-signal"], &inner).spawn().unwrap();
        are_there(2);
        proxy.delay_one_way(Direction::ToServer, Duration::from_millis(150));
        [Signal::SIGTERM, Signal::SIGHUP].iter().for_each(|one| signal(&waiter, *one));
        let status = waiter.wait().unwrap();
        assert!(matches!(status.code(), Some(129 | 143)), "{status}");
        bed.nodes("a").len() == 1
    });
    signal(&holder, Signal::SIGTERM);
    holder.wait().unwrap();
    assert!(has_left);
}

/// The system keeps from the first process what would end it.
#[test]
fn the_first_process_of_a_container_ends_with_the_code_of_the_signal() {
    let bed = Bed::new("first-code");
    // Again and again: what a shell is just starting may not hear it, and then the shell waits for that.
    let asks = "echo > begun; while :; do kill -INT 1; sleep 0.1; done";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", asks]);
    let inner = through(&["env", "--default-signal"], &inner);
    let Some(mut outer) = contained(&inner) else { return };
    assert_eq!(outer.status().unwrap().code(), Some(130));
    assert_eq!(bed.nodes("a"), [""; 0]);
}
