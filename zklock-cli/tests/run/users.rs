//! Commands that become another user's: that clears the parent-death signal.

use std::fs::{Permissions, set_permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::bed::{Bed, TWO, is_alive, signal, skipped, through, until};

/// What everybody may write into, where this is root.
fn bed(name: &str) -> Option<Bed> {
    if !nix::unistd::geteuid().is_root() {
        skipped("no other user: only root can become one");
        return None;
    }
    let bed = Bed::new(name);
    set_permissions(&bed.folder, Permissions::from_mode(0o777)).unwrap();
    Some(bed)
}

#[test]
fn the_death_of_zklock_takes_along_what_runs_as_another_user() {
    let Some(bed) = bed("another-user") else { return };
    let nobody = [
        &["setpriv", "--reuid", "65534", "--clear-groups"][..],
        &["runuser", "-u", "nobody", "--"],
    ];
    for becomes in nobody {
        let command = [becomes, &["sh", "-c", TWO]].concat();
        let run = [&["run", "a", "--timeout", "60s", "--"], &command[..]].concat();
        let mut child = bed.zklock(&run).spawn().unwrap();
        let pids = bed.pids("pids");
        let owner = std::os::unix::fs::MetadataExt::uid(
            &std::fs::metadata(format!("/proc/{}", pids[1])).unwrap(),
        );
        assert_eq!(owner, 65_534);
        signal(&child, Signal::SIGKILL);
        child.wait().unwrap();
        until("their end", || {
            let nodes = bed.nodes("a").len();
            let dead = pids.iter().all(|pid| !is_alive(*pid));
            assert!(dead || nodes > 0);
            dead.then_some(())
        });
        std::fs::remove_file(bed.folder.join("pids")).unwrap();
    }
}

#[test]
fn who_may_not_kill_the_command_says_so_and_keeps_the_lock_until_it_ends() {
    let Some(bed) = bed("above") else { return };
    // As sudo: the command is root's, and zklock is not.
    let sudo = bed.folder.join("sudo");
    let copied = Command::new("cp").arg("/usr/bin/setpriv").arg(&sudo).status();
    assert!(copied.unwrap().success());
    set_permissions(&sudo, Permissions::from_mode(0o4755)).unwrap();
    // What it leaves behind is to be ended, and is root's by then.
    let script = "./sudo --reuid 0 sh -c 'echo $$ > pids; while [ -e pids ]; do sleep 0.1; done' & \
                  until [ -s pids ]; do sleep 0.1; done; exit 3";
    let inner = bed.zklock(&["run", "a", "--", "sh", "-c", script]);
    let mut outer = through(&["setpriv", "--reuid", "65534", "--clear-groups"], &inner);
    // So that it is not its end that keeps the command from going on.
    outer.env("ZKLOCK_SESSION_TIMEOUT", "60s").stderr(Stdio::piped());
    let mut child = outer.spawn().unwrap();
    let first = bed.lines("pids", 1);
    let pid = nix::unistd::Pid::from_raw(first[0].parse().unwrap());
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let says = |line: &std::io::Result<String>| {
        let line = line.as_ref().unwrap();
        println!("{line}");
        line.contains("cannot be killed: it belongs to another user")
    };
    assert!(told.any(|line| says(&line)));
    assert!(is_alive(pid));
    assert_eq!(bed.nodes("a").len(), 1);
    std::fs::remove_file(bed.folder.join("pids")).unwrap();
    until("its end", || {
        // In this order: it may end, and the node be deleted, between the two.
        let nodes = bed.nodes("a").len();
        let alive = is_alive(pid);
        assert!(!alive || nodes == 1);
        (!alive).then_some(())
    });
    assert_eq!(child.wait().unwrap().code(), Some(3));
}
