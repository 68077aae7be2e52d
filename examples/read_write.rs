//! The read/write lock: ten readers enter together, ten writers one by one, then both mixed.
//!
//! ```text
//! cargo run --example read_write
//! cargo run --example read_write -- --connect 127.0.0.1:2181
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lexopt::prelude::{Long, Short, ValueExt};
use tokio::sync::Mutex;
use zklock::{Embedded, RwLock, Session};

const HELP: &str = "\
Shows the read/write lock: 10 readers enter together, 10 writers one by one, then both mixed, as
ten clients that have a ZooKeeper session each.

Usage: read_write [--connect HOST:PORT] [--hold-ms MS]

  --connect HOST:PORT    a real ZooKeeper (a connect string); without it the embedded coordinator,
                         in the memory of this process
  --hold-ms MS           how long each holds the lock (100)
  -h, --help             prints this help

Exit code 1 if a writer was not alone, or readers did not overlap.
";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

struct Options {
    connect: Option<String>,
    hold: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match parse() {
        Ok(Some(options)) => run(&options).await,
        Ok(None) => io::stdout().write_all(HELP.as_bytes()).map(|()| true).map_err(Into::into),
        Err(error) => {
            eprintln!("read_write: {error}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("read_write: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Outcome<Option<Options>> {
    let mut options = Options { connect: None, hold: Duration::from_millis(100) };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("connect") => options.connect = Some(parser.value()?.string()?),
            Long("hold-ms") => options.hold = Duration::from_millis(parser.value()?.parse()?),
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(options))
}

async fn run(options: &Options) -> Outcome<bool> {
    let mut out = io::stdout();
    let sessions = open(options).await?;
    match &options.connect {
        Some(servers) => writeln!(out, "ZooKeeper at {servers}")?,
        None => writeln!(out, "Embedded coordinator, in the memory of this process")?,
    }
    let mut right = true;
    for (title, writes) in [
        ("10 readers: all enter together", [false; 10]),
        ("10 writers: one at a time", [true; 10]),
        ("both: writers alone, readers together", MIXED),
    ] {
        writeln!(out, "\n{title}")?;
        let stays = visit(&sessions, &writes, options.hold).await?;
        for stay in &stays {
            writeln!(out, "  {stay}")?;
        }
        let overlaps = |one: &Stay, other: &Stay| one.from < other.to && other.from < one.to;
        let pairs =
            || stays.iter().enumerate().flat_map(|(n, a)| stays[..n].iter().map(move |b| (a, b)));
        let alone = pairs().all(|(a, b)| !(a.writes || b.writes) || !overlaps(a, b));
        let readers = writes.iter().filter(|writes| !**writes).count();
        let together =
            readers < 2 || pairs().any(|(a, b)| !a.writes && !b.writes && overlaps(a, b));
        right &= alone && together;
        writeln!(out, "  writers alone: {alone}, readers together: {together}")?;
    }
    for session in sessions {
        session.close().await;
    }
    Ok(right)
}

/// Writers among readers, in the order of arrival.
const MIXED: [bool; 10] = [false, false, false, true, true, false, true, false, false, false];

async fn open(options: &Options) -> Outcome<Vec<Session>> {
    let store = Embedded::new();
    let mut sessions = Vec::new();
    for _ in 0..10 {
        sessions.push(match &options.connect {
            Some(servers) => Session::builder(servers).app("read_write").connect().await?,
            None => Session::embedded_builder(&store).app("read_write").open()?,
        });
    }
    Ok(sessions)
}

/// One client's time in the lock.
struct Stay {
    client: usize,
    writes: bool,
    came: Duration,
    from: Duration,
    to: Duration,
}

impl std::fmt::Display for Stay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.writes { "writes" } else { "reads " };
        let ms = |at: Duration| at.as_secs_f64() * 1_000.0;
        write!(
            f,
            "client {:2} {what} from {:7.1} ms to {:7.1} ms, having waited {:7.1} ms",
            self.client + 1,
            ms(self.from),
            ms(self.to),
            ms(self.from - self.came)
        )
    }
}

/// Starts the clients one after the other; returns their stays in the order of entering.
async fn visit(sessions: &[Session], writes: &[bool], hold: Duration) -> Outcome<Vec<Stay>> {
    let start = Instant::now();
    let stays = Arc::new(Mutex::new(Vec::new()));
    let mut clients = Vec::new();
    for (client, (session, &writes)) in sessions.iter().zip(writes).enumerate() {
        let (lock, stays) = (session.rw_lock("prices")?, stays.clone());
        clients.push(tokio::spawn(async move {
            let came = start.elapsed();
            let (from, to) = stay(&lock, writes, hold, start).await?;
            stays.lock().await.push(Stay { client, writes, came, from, to });
            Outcome::Ok(())
        }));
        // So that they queue in this order.
        tokio::time::sleep(hold / 20).await;
    }
    for client in clients {
        client.await??;
    }
    let mut stays = std::mem::take(&mut *stays.lock().await);
    stays.sort_by_key(|stay| stay.from);
    Ok(stays)
}

async fn stay(
    lock: &RwLock,
    writes: bool,
    hold: Duration,
    start: Instant,
) -> Outcome<(Duration, Duration)> {
    if writes {
        let guard = lock.write().await?;
        let from = start.elapsed();
        tokio::time::sleep(hold).await;
        let to = start.elapsed();
        guard.release().await?;
        return Ok((from, to));
    }
    let guard = lock.read().await?;
    let from = start.elapsed();
    tokio::time::sleep(hold).await;
    let to = start.elapsed();
    guard.release().await?;
    Ok((from, to))
}
