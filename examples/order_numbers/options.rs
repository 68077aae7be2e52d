//! The command line.

use std::io::{self, Write};
use std::path::PathBuf;

use lexopt::prelude::{Long, Short, ValueExt};
use zklock::Session;

use crate::Outcome;
use crate::issue::Half;

const HELP: &str = "\
Issues order numbers from a plain file, first without a lock and then with one, and counts the
numbers that were repeated and those that were left out.

Usage: order_numbers [OPTIONS]

  --workers N            workers that issue numbers at the same time; default 10
  --orders N             orders that each worker issues; default 50
  --connect HOST:PORT    locks on a real ZooKeeper (a connect string); without it on the embedded
                         coordinator, in the memory of this process
  --processes N          runs N processes with that many workers each, on the same file;
                         needs --connect
  -h, --help             prints this help

An order number is the number in the file plus one, which is written back. Both halves use the same
function; in the second half it has the attribute #[zk_locked(\"createOrder\", …)].

The exit code is 0 if the half with the lock issued every number exactly once, 1 if it repeated or
left out one, or if something failed, and 2 if the command line is not valid.
";

pub(crate) enum Command {
    Help,
    Run(Options),
    Child(Child),
}

/// The options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) workers: usize,
    pub(crate) orders: usize,
    pub(crate) processes: usize,
    pub(crate) connect: Option<String>,
}

/// The options of one of several processes: a half, on the file of the parent.
pub(crate) struct Child {
    pub(crate) half: Half,
    pub(crate) file: PathBuf,
    pub(crate) options: Options,
}

impl Options {
    /// The number of orders of all processes.
    pub(crate) fn orders_in_all(&self) -> u64 {
        (self.processes * self.workers * self.orders) as u64
    }

    /// Returns the session that the attribute uses.
    pub(crate) async fn session(&self) -> Outcome<Session> {
        let session = match &self.connect {
            None => Session::embedded(),
            Some(servers) => Session::connect(servers).await?,
        };
        zklock::init(session.clone());
        Ok(session)
    }

    /// Prints what the program is going to do.
    pub(crate) fn introduce(&self, out: &mut impl Write) -> io::Result<()> {
        let Options { workers, orders, processes, connect } = self;
        let all = self.orders_in_all();
        match processes {
            1 => writeln!(out, "{workers} workers × {orders} orders = {all} order numbers")?,
            _ => writeln!(
                out,
                "{processes} processes × {workers} workers × {orders} orders = {all} order numbers"
            )?,
        }
        match connect {
            Some(servers) => writeln!(out, "ZooKeeper at {servers}"),
            None => writeln!(
                out,
                "Embedded coordinator, in the memory of this process: it shows the lock but \
                 excludes\nno other process. With --connect HOST:PORT it is a real ZooKeeper."
            ),
        }
    }
}

pub(crate) fn help() -> Outcome<bool> {
    io::stdout().write_all(HELP.as_bytes())?;
    Ok(true)
}

pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut options = Options { workers: 10, orders: 50, processes: 1, connect: None };
    let (mut half, mut file) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("workers") => options.workers = count(&mut parser, "--workers")?,
            Long("orders") => options.orders = count(&mut parser, "--orders")?,
            Long("processes") => options.processes = count(&mut parser, "--processes")?,
            Long("connect") => options.connect = Some(parser.value()?.string()?),
            // How this program starts itself; not for users.
            Long("child") => {
                half = match parser.value()?.string()?.as_str() {
                    "locked" => Some(Half::Locked),
                    _ => Some(Half::Unlocked),
                };
            }
            Long("file") => file = Some(PathBuf::from(parser.value()?)),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    if let (Some(half), Some(file)) = (half, file) {
        return Ok(Command::Child(Child { half, file, options }));
    }
    if options.processes > 1 && options.connect.is_none() {
        return Err("--processes needs --connect: the embedded coordinator excludes nobody \
                    outside of its process"
            .into());
    }
    Ok(Command::Run(options))
}

fn count(parser: &mut lexopt::Parser, option: &str) -> Result<usize, lexopt::Error> {
    match parser.value()?.parse()? {
        number @ 1..=1_000_000 => Ok(number),
        _ => Err(format!("{option} is a number from 1 to 1000000").into()),
    }
}
