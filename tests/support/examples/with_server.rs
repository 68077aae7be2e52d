//! Runs a command beside a real ZooKeeper of its own, whose address is in `ZOOKEEPER`.
//!
//! ```text
//! cargo run --package zklock-test-support --example with_server -- sh -c 'echo $ZOOKEEPER'
//! ```

use std::env;
use std::process::{Command, ExitCode};

use zklock_test_support::ZooKeeper;

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: with_server COMMAND [ARGUMENT ...]");
        return ExitCode::from(2);
    };
    let server = ZooKeeper::start();
    let status = Command::new(&program).args(words).env("ZOOKEEPER", server.addr()).status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("with_server: {}: {error}", program.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}
