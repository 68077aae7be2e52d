//! Order numbers, issued by many workers from one plain file: without a lock, then with one.
//!
//! ```text
//! cargo run --release --example order_numbers
//! cargo run --release --example order_numbers -- --connect 127.0.0.1:2181 --processes 4
//! ```
//!
//! The two halves run the same code; `issue.rs` shows the one line that differs.

mod counter;
mod issue;
mod options;
mod processes;
mod report;
mod scratch;
mod worker;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use counter::Counter;
use issue::Half;
use options::{Command, Options};
use report::Tally;
use scratch::Scratch;
use tokio::runtime::Runtime;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let outcome = match options::parse() {
        Ok(Command::Help) => options::help(),
        Ok(Command::Run(options)) => run(&options),
        Ok(Command::Child(child)) => processes::child(child).map(|()| true),
        Err(error) => {
            eprintln!("order_numbers: {error:#}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("order_numbers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs both halves. True if the locked one issued every number exactly once.
fn run(options: &Options) -> Outcome<bool> {
    let runtime = Runtime::new()?;
    let scratch = Scratch::new()?;
    let mut out = io::stdout();
    options.introduce(&mut out)?;

    let mut right = true;
    for half in [Half::Unlocked, Half::Locked] {
        writeln!(out, "\n{}", half.title())?;
        let counter = Counter::create(scratch.file(half.name()))?;
        let issued = match options.processes {
            1 => runtime.block_on(worker::issue_here(half, &counter, options))?,
            _ => processes::issue_in_many(half, &counter, options)?,
        };
        let tally = Tally::of(&issued.numbers(), options.orders_in_all(), counter.read()?);
        report::show(&mut out, half, &issued, &tally)?;
        right = tally.is_right();
    }
    writeln!(out, "\n{}", report::verdict(right))?;
    Ok(right)
}
