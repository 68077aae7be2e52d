//! The terminal belongs to the command while it runs, so that `^C` reaches it, and it can read.

use std::io::{IsTerminal, stdin};

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Gives the terminal back when it is dropped.
#[derive(Debug)]
pub(super) struct Foreground(Pid);

impl Foreground {
    /// Gives the terminal to a group, if there is one and it belongs to this process's group.
    pub(super) fn give_to(group: Pid) -> Option<Self> {
        let own = getpgrp();
        if !stdin().is_terminal() || tcgetpgrp(stdin()) != Ok(own) {
            return None;
        }
        tcsetpgrp(stdin(), group).ok()?;
        Some(Foreground(own))
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        // Who is in the background may take the terminal only with this signal blocked.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        if blocked.thread_block().is_ok() {
            // Where the terminal is gone, nobody needs it.
            _ = tcsetpgrp(stdin(), self.0);
            _ = blocked.thread_unblock();
        }
    }
}
