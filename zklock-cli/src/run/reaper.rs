//! What becomes of the command, and of what it leaves behind.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::terminal::Terminal;
use crate::exit::Failure;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// By itself, with this code.
    Exited(u8),
    /// By the signal of this number; those from 34 on have no name.
    Killed(i32),
}

/// What has become of the command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Ended(Status),
    /// Whether it is stopped until it has the terminal, which is another's.
    Waits(bool),
}

/// Has the ends of children kept until they are waited for.
///
/// Whoever starts this process may ignore SIGCHLD, which outlives an `exec`: then the system keeps nothing of
/// them. A signal that is handled is not ignored. The command finds SIGCHLD as it is by default, and not as it
/// was: so it is below `timeout` and in most shells, and programs that wait for their children count on it.
pub(super) fn keep_ends() -> Result<(), Failure> {
    // The handler stays when nobody listens.
    let handled = signal(SignalKind::child()).map(drop);
    handled.map_err(|error| Failure::own(format!("cannot wait for signals: {error}")))
}

/// Waits for all children, and for what they left behind, as the first process of a container must.
pub(super) fn reap(command: Pid, terminal: &Terminal, seen: &mpsc::UnboundedSender<Change>) {
    loop {
        let (pid, status) = match wait(WaitOptions::UNTRACED | WaitOptions::CONTINUED) {
            Ok(Some(changed)) => changed,
            Err(Errno::CHILD) => return,
            Ok(None) | Err(_) => continue,
        };
        if pid.as_raw_pid() != command.as_raw() {
            continue;
        }
        let change = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Change::Ended(Status::Exited(u8::try_from(code).unwrap_or(u8::MAX))),
            (_, Some(signal)) => Change::Ended(Status::Killed(signal)),
            _ if status.continued() => Change::Waits(false),
            _ => {
                const ASKS: [i32; 2] = [Signal::SIGTTIN as i32, Signal::SIGTTOU as i32];
                let asks = status.stopping_signal().is_some_and(|signal| ASKS.contains(&signal));
                // In a terminal, a command that holds a lock is not suspended: others wait for it.
                let goes_on = if asks { terminal.give_to(command) } else { terminal.is_given() };
                if goes_on {
                    _ = killpg(command, Signal::SIGCONT);
                }
                Change::Waits(asks && !goes_on)
            }
        };
        // Where nobody listens, this process is about to end.
        _ = seen.send(change);
    }
}
