//! Measures zklock beside other locks. `cargo bench -- --help` says how.
#![allow(clippy::print_stdout, reason = "it is what the program is for")]

mod cpu;
mod drive;
mod floor;
mod goals;
mod histogram;
mod json;
mod measured;
mod options;
mod paired;
mod pool;
mod probes;
mod rounds;
mod sides;
mod sweep;
mod table;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use crate::drive::Failure;
use crate::goals::Goal;
use crate::options::{Command, HELP, Options};
use crate::probes::{PROBES, Plan};
use crate::sides::Bed;
use crate::workload::{WORKLOADS, Workload};

fn main() -> ExitCode {
    let outcome = match options::parse() {
        Ok(Command::Measure(options)) => measure(&options),
        Ok(Command::Sweep(options)) => sweep::run(&options),
        Ok(Command::Draw(options)) => sweep::draw(&options.pictures),
        Ok(Command::Serve { servers, side, workers, hold }) => {
            pool::set_workers(workers);
            drive::set_hold(hold);
            sides::serve(&servers, &side)
        }
        Ok(Command::Footprint(what, connect, count)) => probes::serve(&what, &connect, count),
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
    let known = |name: &str| {
        WORKLOADS.iter().any(|workload| workload.name == name)
            || PROBES.iter().any(|probe| probe.name == name)
    };
    if let Some(name) = options.workloads.iter().find(|name| !known(name)) {
        return Err(format!("there is no workload `{name}`; see --help").into());
    }
    let sides = || WORKLOADS.iter().flat_map(|workload| workload.sides);
    if let Some(name) = options.sides.iter().find(|name| !sides().any(|side| side == *name)) {
        return Err(format!("there is no side `{name}`; see --help").into());
    }
    pool::set_workers(options.workers);
    drive::set_hold(options.hold);
    let mut goals = measure_workloads(options)?;
    let plan = Plan { quick: options.quick, fsync: options.fsync };
    // With --side, somebody looks at a part of the tables.
    let all = options.workloads.is_empty() && options.sides.is_empty() && !options.ensemble;
    for probe in &PROBES {
        if options.workloads.iter().any(|name| name == probe.name) || (all && probe.usual) {
            let found = (probe.run)(plan)?;
            goals.extend(lines(probe.name, &found));
        }
    }
    if goals.len() > 1 {
        println!("\nall goals that were measured");
        goals.iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}

/// Prints a workload's goals and returns the lines, for the summary.
fn lines(workload: &str, goals: &[Goal]) -> Vec<String> {
    let lines: Vec<_> = goals.iter().map(|goal| goal.line(workload)).collect();
    lines.iter().for_each(|line| println!("{line}"));
    lines
}

fn measure_workloads(options: &Options) -> Result<Vec<String>, Failure> {
    let wanted =
        |list: &[String], name: &str| list.is_empty() || list.iter().any(|wanted| wanted == name);
    let workloads: Vec<&Workload<'_>> =
        WORKLOADS.iter().filter(|workload| wanted(&options.workloads, workload.name)).collect();
    if workloads.is_empty() {
        return Ok(Vec::new());
    }
    let mut bed = Bed::start(options.fsync, options.ensemble);
    println!(
        "ZooKeeper {}, fsync {}; {} rounds of {:?} for each side, in turn",
        if options.ensemble { "ensemble of three" } else { "standalone" },
        if options.fsync { "on" } else { "off" },
        options.rounds,
        options.time,
    );
    let (mut figures, mut goals) = (Vec::new(), Vec::new());
    for workload in workloads {
        let side = |side: &str| wanted(&options.sides, side);
        let (all, missing) = rounds::run(&mut bed, workload, side, options.time, options.rounds);
        table::print(workload, &all, &missing);
        figures.push(json::workload(workload, &all));
        floor::print(workload.name, &all);
        let mut found = goals::of_workload(workload.name, &all);
        let floors: &[&str] = match workload.name {
            "single" => &["create|list+delete"],
            // One connection, and as many as zklock opens: each costs something of its own.
            "many" => &["create|list+delete", "create|list+delete-4"],
            _ => &[],
        };
        let measured = options.pairs > 0 && side("zklock");
        for bare in floors.iter().filter(|bare| measured && side(bare)) {
            let each = (options.time / 4).max(Duration::from_millis(200));
            let ratios = paired::run(&mut bed, workload, "zklock", bare, options.pairs, each)?;
            let what = |of| format!("zklock's {of} in that of {bare}, in pairs,");
            if workload.name == "single" {
                found.push(Goal::at_most(what("time"), 1.05, ratios.cycle));
            }
            found.push(Goal::at_most(what("processor time for each lock"), 1.25, ratios.cpu));
        }
        goals.extend(lines(workload.name, &found));
    }
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", serde_json::Value::from(figures)))?;
    }
    Ok(goals)
}
