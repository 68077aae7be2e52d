//! The examples, run as people run them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::process::Output;

mod agent;
mod built;
mod driver;
mod inspect;
mod lock_agent;
mod lock_agent_ends;
mod order_numbers;
mod read_write;
mod template;

/// Runs an example to its end.
fn run(name: &str, args: &[&str]) -> Output {
    built::example(name).args(args).output().unwrap()
}
