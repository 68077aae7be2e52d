//! `^C` that ends the command is for those who run `zklock`, too.
//!
//! A terminal sends it to one group. Where that is the command's, a script that runs `zklock` hears nothing of it,
//! since a script and what it runs are another group. And a shell goes on with its loop or script, unless what it
//! waits for was ended by the signal: an exit code of 128 + n says that somebody has handled it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::reaper::Status;
use crate::server::to_spawn;
use crate::signals::exit_code;

/// The first argument with which the command starts itself, in the same process, to end by a signal.
pub(super) const END_BY: &str = "--end-by-a-signal";

/// The signals of the keys `^C` and `^\`.
const KEYS: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

/// The signal of a key that has ended the command, or the wait for the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupt {
    signal: Signal,
    /// Whether the others of this process's group have not had it.
    to_all: bool,
}

impl Interrupt {
    /// What has ended this process while it waited.
    pub(super) fn of(signal: Signal) -> Option<Self> {
        KEYS.contains(&signal).then_some(Interrupt { signal, to_all: false })
    }

    /// What has ended a command to which these were handed on. Another signal than that of a key, and one that
    /// somebody sent to the command alone, says nothing to who runs it.
    pub(super) fn of_command(
        status: Status,
        handed_on: SigSet,
        had_terminal: bool,
    ) -> Option<Self> {
        let Status::Killed(number) = status else { return None };
        let signal = KEYS.into_iter().find(|key| *key as i32 == number)?;
        // Who sent it to this process has sent it to whom it is for.
        let to_all = !handed_on.contains(signal);
        (had_terminal || !to_all).then_some(Interrupt { signal, to_all })
    }

    /// Ends this process by the signal. Returns the exit code where that cannot be.
    pub(super) fn end(self) -> u8 {
        if let Ok(itself) = to_spawn() {
            let whom = if self.to_all { "all" } else { "itself" };
            // A handler ends only with the program that has it.
            _ = Command::new(itself).args([END_BY, self.signal.as_str(), whom]).exec();
        }
        exit_code(self.signal as i32)
    }
}

/// Ends this process, and the others of its group if they are to end too. Returns the exit code where the
/// signal does not: it is ignored, or the system keeps it from the first process of a container.
pub(super) fn end_by(mut arguments: impl Iterator<Item = OsString>) -> Option<u8> {
    let signal: Signal = arguments.next()?.to_str()?.parse().ok()?;
    let whom = if arguments.next()? == "all" { Pid::from_raw(0) } else { Pid::this() };
    // SIGQUIT asks for a core of the command, and not of this program.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_dumpable(false);
    _ = kill(whom, signal);
    Some(exit_code(signal as i32))
}
