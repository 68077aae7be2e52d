//! A process that kills the whole group when the process that holds the lock is killed.
//!
//! The parent-death signal ends the command alone, and not what it has started: a shell would die,
//! and the program that it waits for would go on without the lock.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::exit::{Failure, OWN};
use crate::server::own_path;

/// The first argument of the guardian.
pub(super) const GUARD: &str = "--zklock-guard";

/// What the guardian is told when the group has ended.
const DISMISSED: &str = "dismissed";

/// The guardian, and what it hears.
#[derive(Debug)]
pub(super) struct Guardian(Option<ChildStdin>);

impl Guardian {
    /// Starts it.
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |error| Failure::own(format!("cannot start the guardian: {error}"));
        let mut guardian = Command::new(own_path()?)
            .arg(GUARD)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What is sent to this process's group is not for the guardian.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Guardian(guardian.stdin.take()))
    }

    /// From now on, the end of this process is the end of the group.
    pub(super) fn guard(&mut self, group: Pid) -> Result<(), Failure> {
        let told = self.0.as_mut().map_or(Ok(()), |ear| writeln!(ear, "{group}"));
        told.map_err(|error| {
            _ = killpg(group, Signal::SIGKILL);
            Failure::own(format!("the guardian does not listen: {error}"))
        })
    }

    /// The group has ended: the guardian ends too.
    pub(super) fn dismiss(&mut self) {
        if let Some(mut ear) = self.0.take() {
            // If it is gone already, so much the better.
            drop(writeln!(ear, "{DISMISSED}"));
        }
    }
}

/// What the guardian does. Returns its exit code.
pub(super) fn guard() -> u8 {
    let mut heard = String::new();
    let read = std::io::stdin().read_to_string(&mut heard);
    let mut lines = heard.lines();
    let group = lines.next().and_then(|line| line.parse().ok()).map(Pid::from_raw);
    if lines.next() != Some(DISMISSED)
        && let Some(group) = group
    {
        _ = killpg(group, Signal::SIGKILL);
    }
    if read.is_ok() { 0 } else { OWN }
}
