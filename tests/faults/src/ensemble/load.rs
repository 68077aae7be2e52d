//! What the machine itself is late with: nobody is held to that.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::json;
use zklock_test_support::{RawClient, RawError, monotonic_ns};

use super::agent::Seat;
use super::faults::Stage;

const NAP: Duration = Duration::from_millis(5);

/// What is less is not noted, in nanoseconds.
const LITTLE: u64 = 10_000_000;

/// The same of what the threads of a client wait in one look at them.
const LITTLE_OF_ONE: u64 = 1_000_000;

/// The threads of `lock_agent` of which each waits for one blocking acquire.
const BLOCKING: &str = "blocking";

/// Threads of `lock_agent` that only read lines and write them: what happens when, the agent itself says.
const LINES: [&str; 2] = ["stdin", "tokio-"];

/// What a server may take for a write on a quiet day, in nanoseconds.
const SLOW: u64 = 100_000_000;

impl Stage<'_> {
    /// Notes when the machine has no time for somebody who only sleeps, and for how long the threads of
    /// the clients wait for a processor.
    pub(super) fn feel_the_load(&self, seats: &[Seat]) {
        let (mut seen, mut stolen) = (HashMap::new(), stolen());
        for round in 0_u64.. {
            if self.done.load(Ordering::SeqCst) {
                return;
            }
            let due = monotonic_ns() + 5_000_000;
            thread::sleep(NAP);
            let late = monotonic_ns().saturating_sub(due);
            if late > LITTLE {
                self.history.note(json!({ "late_ns": late }));
            }
            if round % 4 == 0 {
                self.feel_the_host(&mut stolen);
                for seat in seats {
                    self.feel_for(seat, &mut seen);
                }
            }
        }
    }

    /// Notes how much of a processor the host gives to others.
    fn feel_the_host(&self, before: &mut Stolen) {
        let now = stolen();
        let more = now.processors.iter().zip(&before.processors);
        let most = more.map(|(now, before)| now.saturating_sub(*before)).max().unwrap_or_default();
        let time = now.at.saturating_sub(before.at);
        let most = (most * TICK).min(time);
        if most > 0 {
            self.history.note(json!({ "stolen_ns": most, "from_ns": before.at }));
        }
        *before = now;
    }

    fn feel_for(&self, seat: &Seat, seen: &mut HashMap<String, Seen>) {
        let Some((name, process)) = seat.process() else { return };
        let Some(now) = Seen::of(process) else { return };
        let Some(before) = seen.insert(name.clone(), now.clone()) else { return };
        let (from, needed, blocking) = now.waited_since(&before);
        let mut line = json!({ "client": name, "from_ns": from });
        for (field, waited) in [("starved_ns", needed), ("blocking_starved_ns", blocking)] {
            if waited > LITTLE_OF_ONE {
                line[field] = json!(waited);
            }
        }
        if needed.max(blocking) > LITTLE_OF_ONE {
            self.history.note(line);
        }
    }

    /// Notes when a server takes long for a write.
    pub(super) fn feel_server(&self, server: usize) {
        let mut client: Option<RawClient> = None;
        while !self.done.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(100));
            let asked = monotonic_ns();
            let answered = match client.take() {
                Some(client) => Ok(client),
                None => {
                    RawClient::connect(&self.ensemble.server(server).addr(), Duration::from_secs(4))
                }
            }
            .and_then(|mut client| {
                client.set_read_timeout(Some(Duration::from_secs(4)));
                // It is refused in the order of commits, and leaves nothing.
                match client.delete("/there/is/no/such/node") {
                    Ok(()) | Err(RawError::Code(_)) => Ok(client),
                    Err(error) => Err(error),
                }
            });
            let took = monotonic_ns() - asked;
            if took > SLOW || answered.is_err() {
                self.history.note(json!({ "slow_ns": took }));
            }
            client = answered.ok();
        }
        // It would be found at the end.
        _ = client.map(RawClient::close);
    }
}

/// In which the system counts it, in nanoseconds.
const TICK: u64 = 10_000_000;

/// How much of each processor the host has given to others so far, in ticks.
#[derive(Debug)]
struct Stolen {
    at: u64,
    processors: Vec<u64>,
}

fn stolen() -> Stolen {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let processors =
        stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let stolen = |line: &str| line.split_whitespace().nth(8)?.parse::<u64>().ok();
    Stolen { at: monotonic_ns(), processors: processors.filter_map(stolen).collect() }
}

/// How long each thread of a process had to wait for a processor so far, in nanoseconds.
#[derive(Clone, Debug)]
struct Seen {
    at: u64,
    threads: HashMap<u32, (bool, u64)>,
}

impl Seen {
    fn of(process: u32) -> Option<Self> {
        let at = monotonic_ns();
        let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
        let threads = threads.filter_map(|thread| {
            let path = thread.ok()?.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            if LINES.iter().any(|line| name.starts_with(line)) {
                return None;
            }
            let times = fs::read_to_string(path.join("schedstat")).ok()?;
            let waited = times.split(' ').nth(1)?.parse::<u64>().ok()?;
            let number = path.file_name()?.to_str()?.parse::<u32>().ok()?;
            Some((number, (name.starts_with(BLOCKING), waited)))
        });
        Some(Seen { at, threads: threads.collect() })
    }

    /// Since when, how long the threads that every answer needs waited, one after the other, and the one of
    /// the others that waited longest; neither is longer than that time. A wait is seen when it ends, so it
    /// may have begun before the last look.
    fn waited_since(&self, before: &Seen) -> (u64, u64, u64) {
        let (mut needed, mut blocking, mut longest) = (0, 0, 0);
        for (number, (blocks, waited)) in &self.threads {
            let earlier = before.threads.get(number).map_or(0, |(_, waited)| *waited);
            let more = waited.saturating_sub(earlier);
            longest = more.max(longest);
            if *blocks {
                blocking = more.max(blocking);
            } else {
                needed += more;
            }
        }
        let from = before.at.min(self.at.saturating_sub(longest));
        let time = self.at.saturating_sub(from);
        (from, needed.min(time), blocking.min(time))
    }
}
