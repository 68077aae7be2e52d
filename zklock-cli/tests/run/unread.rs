//! Where nobody reads what `zklock run` tells, and nothing more can be written.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};

use nix::libc::O_NONBLOCK;
use nix::sys::signal::{Signal, kill};

use crate::bed::{Bed, TWO, find_guardian, guardian, is_alive, raw, until};

/// A pipe into which nothing more goes until somebody reads.
fn full() -> (PipeReader, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    // Opened anew: whoever is given the writer is to wait.
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut anew = File::options().write(true).custom_flags(O_NONBLOCK).open(path).unwrap();
    for length in [4096, 1] {
        let error = loop {
            if let Err(error) = anew.write(&[b'.'; 4096][..length]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    (reader, writer)
}

fn run(bed: &Bed, arguments: &[&str]) -> (Child, PipeReader) {
    let (unread, stderr) = full();
    let run = [&["run", "a"], arguments].concat();
    (bed.zklock(&run).stdout(Stdio::null()).stderr(stderr).spawn().unwrap(), unread)
}

#[test]
fn the_group_ends_at_once_when_its_lock_is_anothers() {
    let bed = Bed::new("full");
    let (mut child, _unread) = run(&bed, &["--", "sh", "-c", TWO]);
    let pids = bed.pids("pids");
    raw().delete(&bed.nodes("a")[0]).unwrap();
    let status = until("its end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(124));
    assert!(!pids.into_iter().any(is_alive));
}

#[test]
fn a_guardian_has_its_successor_and_a_wish_is_heard() {
    let bed = Bed::new("wish");
    let script = "trap 'exit 5' TERM; echo > begun; while :; do sleep 0.05; done 2> shell";
    let (mut child, _unread) = run(&bed, &["--revocable", "--", "sh", "-c", script]);
    bed.lines("begun", 1);
    let first = guardian(child.id());
    kill(first, Signal::SIGKILL).unwrap();
    until("another guardian", || {
        assert_eq!(child.try_wait().unwrap(), None);
        find_guardian(child.id()).filter(|next| *next != first)
    });
    assert_eq!(bed.code(&["revoke", "a"]), 0);
    let status = until("its end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(5));
}

#[test]
fn what_is_told_while_the_command_runs_is_told_before_the_end() {
    let bed = Bed::new("told");
    let output = bed.output(&["run", "a", "--hold-at-most", "100ms", "--", "sleep", "1000"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(told, "zklock: the lock was held for as long as it may be: ending the command\n");
    assert_eq!(output.status.code(), Some(124));
}
