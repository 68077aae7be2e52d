//! `ensemble [--minutes M] [--seed N] [--mean-ms MS] [--history FILE]`: three servers and
//! six processes under fire, and the verdict.
#![allow(clippy::expect_used, clippy::panic, reason = "a tool for tests")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use zklock_fault_tests::ensemble::{Plan, run};
use zklock_test_support::monotonic_ns;

fn main() -> ExitCode {
    let mut plan = Plan {
        time: Duration::from_secs(60),
        seed: monotonic_ns(),
        history: PathBuf::from("history.jsonl"),
        mean: Duration::from_millis(700),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let Some(value) = arguments.next() else { return usage() };
        let number = value.parse::<f64>().ok();
        match (name.as_str(), number) {
            ("--minutes", Some(minutes)) => plan.time = Duration::from_secs_f64(minutes * 60.0),
            ("--seed", Some(_)) => plan.seed = value.parse().unwrap_or_default(),
            ("--mean-ms", Some(millis)) => plan.mean = Duration::from_secs_f64(millis / 1e3),
            ("--history", _) => plan.history = PathBuf::from(value),
            _ => return usage(),
        }
    }
    println!("seed {}", plan.seed);
    let report = run(&plan);
    println!("{report}");
    let [_, refused, _] = report.opinions;
    let good = report.verdict.violations.is_empty() && refused == 0;
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("usage: ensemble [--minutes M] [--seed N] [--mean-ms MS] [--history FILE]");
    ExitCode::from(2)
}
