//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Measures zklock beside other locks, in one run, on one ZooKeeper that it starts itself.

cargo bench [-- OPTIONS]

  --quick            short rounds and small numbers, for a first look
  --workload NAME    only this workload (may be repeated): single, tasks, threads, sessions,
                     fleet, many; constancy (requests, watches and bytes per grant), herd (watch
                     events and requests per release, beside locks that herd), memory; trace (one
                     cycle, frame by frame) and turns (one turn of ten sessions, frame by frame;
                     neither without being named)
  --side NAME        only this side (may be repeated): zklock, zklock-drop, zklock-linger,
                     zklock-tries, zklock-blocking, zklock-processes, create+delete,
                     create|list+delete, create|list+delete-4 (the same on four connections),
                     notify, tokio-mutex, client-lock, curator, kazoo, redis, redis-fsync
  --seconds S        length of one round (2)
  --rounds N         rounds of each side (5); the sides take turns, round by round
  --pairs N          pairs of the direct comparison with the bare requests (40; 0 skips it)
  --workers N        threads of each runtime of ours (2)
  --hold MS          how long a task keeps the lock (0); not what other programs do: curator, kazoo
  --no-fsync         the server does not wait for its disk: shows what the clients cost
  --ensemble         three servers instead of one; clients are at the same follower
  --sweep            instead of workloads: throughput and longest wait against the number of
                     tasks, processes and locks, as pictures and as sweep.json
  --draw             draws the pictures again from sweep.json
  --pictures DIR     where those are (docs/pictures)
  --json FILE        writes the figures to a file, too
  --help             this text

ZKLOCK_BENCH_HANDOFF_MS sets another bound of handoffs for zklock. What zklock-processes does in ten
processes, the other sides do with ten sessions in one: ten JVMs would measure the machine.

Figures of one machine at one time mean little; the ratios are of rounds that ran directly after
each other, and each is the median over the rounds.
";

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) workloads: Vec<String>,
    pub(crate) sides: Vec<String>,
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
    pub(crate) pairs: usize,
    pub(crate) workers: usize,
    pub(crate) hold: u64,
    pub(crate) fsync: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) quick: bool,
    pub(crate) ensemble: bool,
    pub(crate) pictures: PathBuf,
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Command {
    Measure(Options),
    Sweep(Options),
    Draw(Options),
    /// Be a process that measures one side.
    Serve {
        servers: String,
        side: String,
        workers: usize,
        hold: u64,
    },
    /// Be the process whose memory is measured: with what, where, and how many.
    Footprint(String, String, usize),
    Help,
}

/// Reads the command line.
pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let (mut quick, mut seconds, mut rounds, mut pairs) = (false, None, None, None);
    let (mut workloads, mut sides, mut fsync, mut json) = (Vec::new(), Vec::new(), true, None);
    let (mut workers, mut hold, mut ensemble) = (2, 0, false);
    let mut pictures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let mut command: fn(Options) -> Command = Command::Measure;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => quick = true,
            Long("workload") => workloads.push(parser.value()?.string()?),
            Long("side") => sides.push(parser.value()?.string()?),
            Long("seconds") => seconds = Some(parser.value()?.parse::<f64>()?),
            Long("rounds") => rounds = Some(parser.value()?.parse()?),
            Long("pairs") => pairs = Some(parser.value()?.parse()?),
            Long("workers") => workers = parser.value()?.parse()?,
            Long("hold") => hold = parser.value()?.parse()?,
            Long("no-fsync") => fsync = false,
            Long("json") => json = Some(parser.value()?.into()),
            Long("ensemble") => ensemble = true,
            Long("sweep") => command = Command::Sweep,
            Long("draw") => command = Command::Draw,
            Long("pictures") => pictures = parser.value()?.into(),
            Long("footprint") => {
                let (what, connect) = (parser.value()?.string()?, parser.value()?.string()?);
                return Ok(Command::Footprint(what, connect, parser.value()?.parse()?));
            }
            Long("serve") => {
                let (servers, side) = (parser.value()?.string()?, parser.value()?.string()?);
                return Ok(Command::Serve { servers, side, workers, hold });
            }
            Long("help") | Short('h') => return Ok(Command::Help),
            // Cargo adds it.
            Long("bench") => {}
            other => return Err(other.unexpected()),
        }
    }
    let (time, most, count) = if quick { (0.3, 3, 15) } else { (2.0, 5, 40) };
    Ok(command(Options {
        workloads,
        sides,
        time: Duration::try_from_secs_f64(seconds.unwrap_or(time)).map_err(|e| e.to_string())?,
        rounds: rounds.unwrap_or(most).max(1),
        pairs: pairs.unwrap_or(count),
        workers,
        hold,
        fsync,
        json,
        quick,
        ensemble,
        pictures,
    }))
}
