//! The terminal belongs to the command while it uses it, so that `^C` reaches it, and it can read.
//!
//! The command has a process group of its own, and a terminal belongs to one group. In `zklock run a -- make |
//! less`, `less` uses it too, and is in the group of `zklock`: it would be stopped if another group had the
//! terminal. So the command gets it at once where stdin and stdout are the terminal, and otherwise only when
//! it is stopped because it uses it, as `sudo` does in a pipeline. In the background it gets nothing.

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal of this process, if it has one.
#[derive(Debug)]
pub(super) struct Terminal {
    terminal: Option<File>,
    /// The group that it was given to.
    given: Mutex<Option<Pid>>,
}

impl Terminal {
    pub(super) fn open() -> Self {
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok();
        Terminal { terminal, given: Mutex::default() }
    }

    /// Gives it to the group of a command that begins, unless others may use it.
    pub(super) fn begin(&self, group: Pid) {
        if stdin().is_terminal() && stdout().is_terminal() {
            self.give_to(group);
        }
    }

    /// Gives it to a group that uses it, if it belongs to this process's group. Returns whether it is the
    /// group's.
    pub(super) fn give_to(&self, group: Pid) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        let owner = tcgetpgrp(terminal);
        let gives = owner == Ok(getpgrp()) && tcsetpgrp(terminal, group).is_ok();
        if gives {
            *self.state() = Some(group);
        }
        gives || owner == Ok(group)
    }

    pub(super) fn is_given(&self) -> bool {
        self.state().is_some()
    }

    /// Takes back what was given, unless somebody else has taken it: a shell does when this process is stopped, and
    /// does not expect that it is taken away when this process goes on in the background.
    pub(super) fn take_back(&self) {
        let given = self.state().take();
        let (Some(terminal), Some(group)) = (&self.terminal, given) else { return };
        let is_others = |owner| owner != group && !matches!(killpg(owner, None), Err(Errno::ESRCH));
        if tcgetpgrp(terminal).is_ok_and(is_others) {
            return;
        }
        // Who is in the background may take the terminal only with this signal blocked.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        if blocked.thread_block().is_ok() {
            // Where the terminal is gone, nobody needs it.
            _ = tcsetpgrp(terminal, getpgrp());
            _ = blocked.thread_unblock();
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<Pid>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
