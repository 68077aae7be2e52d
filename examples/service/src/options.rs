//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};

pub(crate) const HELP: &str = "\
An HTTP service whose handlers are guarded by #[zk_locked].

Usage: service [OPTIONS]

  --port N               the port on 127.0.0.1, 3000 without it; 0 takes a free one
  --connect HOST:PORT    locks on a real ZooKeeper (a connect string), for several services on the
                         same data; without it on the embedded coordinator of this process
  --data FOLDER          where orders and accounts are; without it in the folder for temporary files
  --latency-ms N         how long a read takes, 5 without it
  -h, --help             shows this

  curl -X POST localhost:3000/orders -H 'content-type: application/json' -d '{\"customer\": 7}'
  curl -X PUT localhost:3000/accounts/1 -H 'content-type: application/json' -d '{\"balance\": 100}'
  curl -X PUT localhost:3000/accounts/2 -H 'content-type: application/json' -d '{\"balance\": 100}'
  curl -X POST localhost:3000/transfers -H 'content-type: application/json' \\
       -d '{\"from\": 1, \"to\": 2, \"amount\": 30}'
  curl localhost:3000/reports/1/2
  curl -X POST localhost:3000/jobs/20240501

A busy lock is 409 with the code 1011; one that is lost or cannot be asked for is 503.
";

/// How to run.
pub(crate) struct Options {
    pub(crate) port: u16,
    pub(crate) connect: String,
    pub(crate) data: PathBuf,
    pub(crate) latency: Duration,
}

/// Reads the command line; `None` if help was asked for.
pub(crate) fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        port: 3000,
        connect: "embedded".to_owned(),
        data: std::env::temp_dir().join("zklock-service"),
        latency: Duration::from_millis(5),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("port") => options.port = parser.value()?.parse()?,
            Long("connect") => options.connect = parser.value()?.string()?,
            Long("data") => options.data = parser.value()?.into(),
            Long("latency-ms") => {
                options.latency = Duration::from_millis(parser.value()?.parse()?);
            }
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}
