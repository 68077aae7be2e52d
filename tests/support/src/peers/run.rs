//! A peer's program that runs to its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use crate::process::Process;

/// A program at work. Several can run side by side: start all, then finish all.
#[derive(Debug)]
#[must_use = "the program is killed when this is dropped"]
pub struct Run {
    process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Run {
    /// Starts a program; its stdin and stdout are pipes.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(command, None)
            .unwrap_or_else(|err| panic!("cannot start the peer: {err}"));
        let (stdin, stdout) = process.pipes();
        Self { process, stdin, stdout: BufReader::new(stdout) }
    }

    /// Waits for the next line that the program prints.
    ///
    /// # Panics
    ///
    /// When it ends without one.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the peer prints text");
        line.pop().expect("the peer prints another line");
        line
    }

    /// Ends the program's input, waits for its end and returns what else it printed.
    ///
    /// # Panics
    ///
    /// When the program fails.
    pub fn finish(self) -> String {
        let Self { mut process, stdin, mut stdout } = self;
        drop(stdin);
        let mut printed = String::new();
        stdout.read_to_string(&mut printed).expect("the peer prints text");
        let status = process.wait();
        assert!(status.success(), "the peer failed ({status}): {printed}");
        printed
    }
}
