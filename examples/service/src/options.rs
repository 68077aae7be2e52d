//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};

pub(crate) const HELP: &str = "\
An HTTP service whose handlers are guarded by #[zk_locked].

Usage: service [OPTIONS]

  --port N               the port on 127.0.0.1; default 3000; 0 chooses a free one
  --connect HOST:PORT    locks on a real ZooKeeper (a connect string), for several services on the
                         same data; without it on the embedded coordinator of this process
  --data FOLDER          the folder of orders and accounts; default: the folder for temporary files
  --latency-ms N         how long a read takes; default 5
  -h, --help             prints this help

  curl -X POST localhost:3000/orders -H 'content-type: application/json' -d '{\"customer\": 7}'
  curl -X PUT localhost:3000/accounts/1 -H 'content-type: application/json' -d '{\"balance\": 100}'
  curl -X PUT localhost:3000/accounts/2 -H 'content-type: application/json' -d '{\"balance\": 100}'
  curl -X POST localhost:3000/transfers -H 'content-type: application/json' \\
       -d '{\"from\": 1, \"to\": 2, \"amount\": 30}'
  curl localhost:3000/reports/1/2
  curl -X POST localhost:3000/jobs/20240501
  curl localhost:3000/metrics

A busy lock is answered with 409 and the code 1011; one that is unavailable, or was lost before the
work began, with 503.
";

/// The options of the service.
pub(crate) struct Options {
    pub(crate) port: u16,
    pub(crate) connect: String,
    pub(crate) data: PathBuf,
    pub(crate) latency: Duration,
}

/// Parses the command line; `None` if help was requested.
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
