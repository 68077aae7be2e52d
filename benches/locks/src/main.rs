//! Measures zklock beside other locks. `cargo bench -- --help` says how.
#![allow(clippy::print_stdout, reason = "it is what the program is for")]

mod drive;
mod histogram;
mod json;
mod measured;
mod options;
mod paired;
mod pool;
mod rounds;
mod sides;
mod table;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use crate::drive::Failure;
use crate::options::{Command, HELP, Options};
use crate::sides::Bed;
use crate::workload::WORKLOADS;

fn main() -> ExitCode {
    let outcome = match options::parse() {
        Ok(Command::Measure(options)) => measure(&options),
        Ok(Command::Serve(connect)) => sides::serve(&connect),
        Ok(Command::Help) => {
            print!("{HELP}");
            Ok(())
        }
        Err(error) => Err(format!("{error}; see --help").into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<(), Failure> {
    let wanted =
        |list: &[String], name: &str| list.is_empty() || list.iter().any(|wanted| wanted == name);
    for name in &options.workloads {
        if !WORKLOADS.iter().any(|workload| workload.name == name) {
            return Err(format!("there is no workload `{name}`; see --help").into());
        }
    }
    pool::set_workers(options.workers);
    let mut bed = Bed::start(options.fsync);
    println!(
        "ZooKeeper standalone, fsync {}; {} rounds of {:?} for each side, in turn",
        if options.fsync { "on" } else { "off" },
        options.rounds,
        options.time,
    );
    let mut figures = Vec::new();
    for workload in WORKLOADS.iter().filter(|w| wanted(&options.workloads, w.name)) {
        let side = |side: &str| wanted(&options.sides, side);
        let (all, missing) = rounds::run(&mut bed, workload, side, options.time, options.rounds);
        table::print(workload, &all, &missing);
        figures.push(json::workload(workload, &all));
        if workload.name == "single" && options.pairs > 0 && side("zklock") {
            let each = (options.time / 4).max(Duration::from_millis(200));
            paired::run(&mut bed, "zklock", "create|list+delete", options.pairs, each)?;
        }
    }
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", serde_json::Value::from(figures)))?;
    }
    Ok(())
}
