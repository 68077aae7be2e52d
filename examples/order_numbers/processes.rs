//! Several processes on one file.
//!
//! The parent starts this program again, once for each process, and exchanges lines with it: the
//! child writes `ready` when it is connected, the parent writes `go` when all are, and the child
//! writes `done` when its workers are, followed by one line with the numbers of each worker.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use tokio::runtime::Runtime;

use crate::Outcome;
use crate::counter::Counter;
use crate::issue::Half;
use crate::options::{Child, Options};
use crate::worker::{Issued, run_workers};

/// Issues order numbers with this many processes.
pub(crate) fn issue_in_many(half: Half, counter: &Counter, options: &Options) -> Outcome<Issued> {
    let start = |_| Process::start(half, counter, options);
    let mut processes: Vec<Process> = (0..options.processes).map(start).collect::<Outcome<_>>()?;
    for process in &mut processes {
        process.expect("ready")?;
    }
    let start = Instant::now();
    for process in &mut processes {
        process.say("go")?;
    }
    for process in &mut processes {
        process.expect("done")?;
    }
    let took = start.elapsed();
    let mut workers = Vec::new();
    for process in &mut processes {
        for _ in 0..options.workers {
            workers.push(process.numbers()?);
        }
        process.finish()?;
    }
    Ok(Issued { workers, took })
}

/// A child process, which is killed when it is dropped early.
struct Process {
    process: std::process::Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(half: Half, counter: &Counter, options: &Options) -> Outcome<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--child", half.name(), "--file"]).arg(counter.path());
        command.args(["--workers", &options.workers.to_string()]);
        command.args(["--orders", &options.orders.to_string()]);
        if let Some(servers) = &options.connect {
            command.args(["--connect", servers]);
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Process { process, input, output: BufReader::new(output) })
            }
            _ => Err("a child process has no pipes".into()),
        }
    }

    fn say(&mut self, word: &str) -> Outcome<()> {
        // A child that has ended does not read; its status shows why.
        match writeln!(self.input, "{word}") {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failed()),
        }
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(self.failed()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn expect(&mut self, word: &str) -> Outcome<()> {
        let line = self.line()?;
        if line == word {
            Ok(())
        } else {
            Err(format!("a child said {line:?}, not {word:?}").into())
        }
    }

    fn numbers(&mut self) -> Outcome<Vec<u64>> {
        let line = self.line()?;
        Ok(line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }

    fn finish(&mut self) -> Outcome<()> {
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(self.failed()) }
    }

    /// The error of a child that ended too early.
    fn failed(&mut self) -> Box<dyn std::error::Error + Send + Sync> {
        let id = self.process.id();
        match self.process.wait() {
            Ok(status) => format!("process {id} failed: {status}").into(),
            Err(error) => format!("process {id} failed: {error}").into(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail for a process that has ended, which is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The part of a child process.
pub(crate) fn child(child: Child) -> Outcome<()> {
    let Child { half, file, options } = child;
    let runtime = Runtime::new()?;
    let session = match half {
        Half::Unlocked => None,
        Half::Locked => Some(runtime.block_on(options.session())?),
    };
    let mut out = io::stdout();
    writeln!(out, "ready")?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    if line.trim_end() != "go" {
        return Err("the parent process is gone".into());
    }
    let counter = Counter::at(file);
    let issued = runtime.block_on(run_workers(half, &counter, options.workers, options.orders));
    if let Some(session) = session.as_ref().filter(|_| issued.is_err()) {
        // With it ends what the other workers wait for.
        runtime.block_on(session.close());
    }
    let issued = issued?;
    writeln!(out, "done")?;
    for numbers in &issued.workers {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        writeln!(out, "{}", numbers.join(" "))?;
    }
    if let Some(session) = session {
        runtime.block_on(session.close());
    }
    Ok(())
}
