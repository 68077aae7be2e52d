//! Sides that run in processes of their own and are driven over pipes.
//!
//! The program writes `open SESSIONS TASKS LOCKS` and `run MILLISECONDS`; the process answers
//! `ready` and `result …` (see [`Measured::line`]), or `error …`. The end of its input ends it, so
//! it never outlives this program.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use super::zklock::ROOT;
use super::{Side, connect};
use crate::cpu;
use crate::drive::{Failure, hold};
use crate::measured::Measured;
use crate::pool::workers;
use crate::workload::Shape;

/// A process that measures.
pub(crate) struct External {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl External {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Result<External, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or("no pipe")?);
        Ok(External { child, input, output: BufReader::new(output) })
    }

    /// Sends a line and returns the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String, Failure> {
        self.send(line)?;
        self.receive()
    }

    fn send(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.input.as_mut().ok_or("no pipe")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }

    fn receive(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the process ended".into());
        }
        match line.trim_end() {
            failed if failed.starts_with("error") => Err(failed.into()),
            line => Ok(line.to_owned()),
        }
    }

    fn open(&mut self, shape: Shape) -> Result<(), Failure> {
        let Shape { sessions, tasks, locks } = shape;
        self.ask(&format!("open {sessions} {tasks} {locks}")).map(drop)
    }

    fn result(&mut self) -> Result<Measured, Failure> {
        let line = self.receive()?;
        Measured::parse(&line).ok_or_else(|| format!("not a result: {line}").into())
    }

    fn cpu(&self) -> Result<Duration, Failure> {
        cpu::of_process(self.child.id())
    }

    /// Runs one round of a shape.
    pub(crate) fn run(&mut self, shape: Shape, time: Duration) -> Result<Measured, Failure> {
        self.open(shape)?;
        self.send(&format!("run {}", time.as_millis()))?;
        self.result()
    }
}

impl Drop for External {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself; what hangs is not waited for.
        std::thread::sleep(Duration::from_millis(50));
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

struct Shared {
    process: Rc<RefCell<External>>,
    shape: Shape,
}

impl Side for Shared {
    fn round(&mut self, time: Duration) -> Result<Measured, Failure> {
        self.process.borrow_mut().run(self.shape, time)
    }

    fn cpu(&self) -> Result<Duration, Failure> {
        self.process.borrow().cpu()
    }
}

/// One process for all workloads, which keeps its warm code and its connections.
pub(crate) fn shared(process: Rc<RefCell<External>>, shape: Shape) -> Box<dyn Side> {
    Box::new(Shared { process, shape })
}

struct Fleet(Vec<External>);

impl Side for Fleet {
    fn round(&mut self, time: Duration) -> Result<Measured, Failure> {
        for process in &mut self.0 {
            process.send(&format!("run {}", time.as_millis()))?;
        }
        let mut all = Measured::default();
        for process in &mut self.0 {
            all.merge(&process.result()?);
        }
        Ok(all)
    }

    fn cpu(&self) -> Result<Duration, Failure> {
        self.0.iter().map(External::cpu).sum()
    }
}

/// A process of this program that measures one side.
fn this_program(connect: &str, side: &str) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--workers", &workers().to_string(), "--hold", &hold().to_string()]);
    command.args(["--serve", connect, side]);
    Ok(command)
}

/// A side in a process of its own. All clients of a process share the thread that waits for their
/// sockets, or wake each other's: beside another side in the same process, each costs something else
/// than alone.
pub(crate) fn alone(connect: &str, side: &str, shape: Shape) -> Result<Box<dyn Side>, Failure> {
    let mut process = External::start(&mut this_program(connect, side)?)?;
    process.open(shape)?;
    Ok(Box::new(Fleet(vec![process])))
}

/// One process of this program for each session.
pub(crate) fn processes(connect: &str, shape: Shape) -> Result<Box<dyn Side>, Failure> {
    let root = format!("/fleet-{}-{}", shape.sessions, shape.tasks);
    let mut processes = Vec::new();
    for _ in 0..shape.sessions {
        processes.push(External::start(this_program(connect, "zklock")?.env(ROOT, &root))?);
    }
    for process in &mut processes {
        process.open(Shape { sessions: 1, ..shape })?;
    }
    Ok(Box::new(Fleet(processes)))
}

/// What such a process of this program does.
pub(crate) fn serve(servers: &str, name: &str) -> Result<(), Failure> {
    let mut side = None;
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["open", sessions, number, locks] => {
                let (sessions, number) = (sessions.parse()?, number.parse()?);
                let shape = Shape { sessions, tasks: number, locks: locks.parse()? };
                side = Some(connect(servers, name, shape)?);
                println!("ready");
            }
            ["run", millis] => {
                let side = side.as_mut().ok_or("nothing is open")?;
                let time = Duration::from_millis(millis.parse()?);
                println!("{}", cpu::round(&mut **side, time)?.line());
            }
            _ => return Err(format!("what is `{line}`?").into()),
        }
    }
    Ok(())
}
