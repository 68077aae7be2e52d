//! Makes zklock usable from any language, over stdin and stdout, with one JSON object per line.
//!
//! ```text
//! $ cargo run --example lock_agent -- --connect 127.0.0.1:2181
//! {"id":1,"op":"acquire","kind":"mutex","lock":"orders/create","timeout_ms":2000}
//! {"id":1,"ok":true,"handle":1,"token":"0000…-0000…","path":"/zklock/orders/create/_c_…","at_ns":…}
//! {"id":2,"op":"release","handle":1}
//! {"id":2,"ok":true,"at_ns":…}
//! ```
//!
//! Requests begin in the order of their lines, are served concurrently, and are answered as they
//! are ready. At the end of input everything is released. `--help` lists the operations.

mod acquire;
mod agent;
mod clock;
mod guards;
mod held;
mod inspect;
mod options;
mod output;
mod protocol;
mod states;

use std::process::ExitCode;

use options::Command;

// On one thread, tasks begin in the order in which they were spawned, so requests join the queue of
// a lock in the order of their lines.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match options::parse() {
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Serve(options)) => match agent::serve(&options).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("lock_agent: {error:#}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("lock_agent: {error}");
            ExitCode::from(2)
        }
    }
}
