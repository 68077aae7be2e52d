//! A peer's program that runs to its end.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::process::Process;

/// A program at work. Several can run side by side: start all, then finish all.
#[derive(Debug)]
#[must_use = "the program is killed when this is dropped"]
pub struct Run {
    process: Process,
}

impl Run {
    /// Starts a program; its stdin and stdout are pipes.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = Process::spawn(command, None)
            .unwrap_or_else(|err| panic!("cannot start the peer: {err}"));
        Self { process }
    }

    /// Waits for the program's end and returns what it printed.
    ///
    /// # Panics
    ///
    /// When the program fails.
    pub fn finish(mut self) -> String {
        let (stdin, mut stdout) = self.process.pipes();
        drop(stdin);
        let mut printed = String::new();
        stdout.read_to_string(&mut printed).expect("the peer prints text");
        let status = self.process.wait();
        assert!(status.success(), "the peer failed ({status}): {printed}");
        printed
    }
}
