//! The second that `zklock why` takes at most, unless it is told otherwise.

use std::io::Read;
use std::process::{Command, Output};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::Value;
use zklock_test_support::Control;

use crate::documented::check;
use crate::scene::{Scene, until};

/// How long a thread of a process was ready and had no processor, at the most.
fn kept_waiting(process: u32) -> Duration {
    let threads =
        std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| {
        let told = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        told.split_whitespace().nth(1)?.parse().ok()
    });
    Duration::from_nanos(waited.max().unwrap_or(0))
}

/// Runs a command, and returns how long it took without what it was kept waiting.
fn timed(command: &mut Command) -> (Output, Duration) {
    let start = Instant::now();
    let (mut child, mut waited) = (command.spawn().unwrap(), Duration::ZERO);
    // What is long does not fit into a pipe, and it would wait for a reader.
    let mut stdout = child.stdout.take().unwrap();
    let reading = spawn(move || {
        let mut printed = Vec::new();
        stdout.read_to_end(&mut printed).map(|_| printed)
    });
    while child.try_wait().unwrap().is_none() {
        waited = waited.max(kept_waiting(child.id()));
        sleep(Duration::from_millis(2));
    }
    let took = start.elapsed().saturating_sub(waited);
    println!("{took:?}, and {waited:?} without a processor");
    let mut output = child.wait_with_output().unwrap();
    output.stdout = reading.join().unwrap().unwrap();
    (output, took)
}

/// What `zklock why` says, which takes no longer than a second each time it is asked.
pub(crate) fn in_a_second(scene: &Scene, lock: &str, control: &Control) -> Output {
    let (_, begins) = timed(scene.command("zklock").arg("--version"));
    let (output, took) = timed(scene.command("zklock").args(["why", lock, "--json"]));
    control.within("why", took, Duration::from_secs(1) + begins);
    output
}

impl Scene {
    /// Waits until `zklock why` names this cause within the second that is its default. Each answer names it, or
    /// says which server has not told everything in time, as on a busy machine.
    pub(crate) fn named_in_a_second(&self, lock: &str, code: &str) {
        let control = Control::timers();
        until(&format!("why names {code} within a second"), || {
            let output = in_a_second(self, lock, &control);
            if output.status.code() == Some(69) {
                return None;
            }
            let why: Value = serde_json::from_slice(&output.stdout).unwrap();
            check(&why, "why", "why");
            let all = |field: &str| why[field].as_array().unwrap().iter();
            let is_named = all("problems").any(|problem| problem["code"] == code);
            let mut untold = all("servers").filter(|server| {
                ["answers", "tells_connections", "tells_ensemble"]
                    .iter()
                    .any(|told| server[told] == false)
            });
            assert!(is_named || untold.next().is_some(), "{why}");
            is_named.then_some(())
        });
    }
}
