//! What people are told while the lock is held.
//!
//! A write to stderr waits where nobody reads: a pager that is not turned, a full pipe, a terminal that was
//! stopped with `^S`. Whoever holds a lock has no time for that.

use std::fmt::Display;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use crate::exit::Failure;
use crate::text::tell;

/// How many lines may wait until they are written. What is more is not told.
const MOST: usize = 64;

/// How long the end of the program waits until all is told.
const TO_TELL: Duration = Duration::from_secs(1);

/// A thread that tells.
#[derive(Debug)]
pub(super) struct Teller {
    lines: SyncSender<String>,
    /// Nothing comes; its other side goes with the thread.
    end: Receiver<()>,
}

impl Teller {
    pub(super) fn start() -> Result<Self, Failure> {
        let (lines, told) = sync_channel::<String>(MOST);
        let (goes, end) = channel();
        thread::Builder::new()
            .name("zklock-teller".to_owned())
            .spawn(move || {
                // While the command has the terminal, and `stty tostop` is set, each write would stop this process.
                let mut blocked = SigSet::empty();
                blocked.add(Signal::SIGTTOU);
                _ = blocked.thread_block();
                told.iter().for_each(tell);
                drop(goes);
            })
            .map_err(|error| Failure::own(format!("cannot start a thread: {error}")))?;
        Ok(Teller { lines, end })
    }

    /// Tells something, and does not wait for it.
    pub(super) fn tell(&self, what: impl Display) {
        _ = self.lines.try_send(what.to_string());
    }

    /// Waits until all is told, unless nobody reads.
    pub(super) fn end(self) {
        drop(self.lines);
        _ = self.end.recv_timeout(TO_TELL);
    }
}
