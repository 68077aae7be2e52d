//! `soak [--minutes M]`: locks at full speed on a server of their own, and memory over time.
#![allow(clippy::expect_used, clippy::panic, reason = "a tool for tests")]

use std::process::ExitCode;
use std::time::Duration;

use zklock_fault_tests::soak::soak;
use zklock_test_support::ZooKeeper;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let minutes = match arguments.as_slice() {
        [] => 30.0,
        [name, value] if name == "--minutes" => value.parse::<f64>().expect("a number of minutes"),
        _ => {
            eprintln!("usage: soak [--minutes M]");
            return ExitCode::from(2);
        }
    };
    let server = ZooKeeper::start();
    let time = Duration::from_secs_f64(minutes * 60.0);
    let samples = soak(&server, time, 31, |sample| println!("{sample}")).await.expect("no fault");
    // Caches are filled after a third; from then on it must be flat.
    let (third, end) = (samples[samples.len() / 3], samples[samples.len() - 2]);
    let grown = end.memory_kib.saturating_sub(third.memory_kib);
    println!("memory grew by {grown} KiB in the last two thirds");
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let clean = last.watches == 0 && last.sessions == 0 && last.threads <= first.threads;
    if clean && grown < 8 * 1024 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
