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

/// What a server may take for a write on a quiet day, in nanoseconds.
const SLOW: u64 = 100_000_000;

impl Stage<'_> {
    /// Notes when the machine has no time for somebody who only sleeps, and for how long the threads of
    /// the clients wait for a processor.
    pub(super) fn feel_the_load(&self, seats: &[Seat]) {
        let mut waited = HashMap::new();
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
                for seat in seats {
                    self.feel_for(seat, &mut waited);
                }
            }
        }
    }

    fn feel_for(&self, seat: &Seat, waited: &mut HashMap<(String, u32), u64>) {
        let Some((name, process)) = seat.process() else { return };
        let Some(now) = waited_for_a_processor(process) else { return };
        let before = waited.insert((name.clone(), process), now).unwrap_or(now);
        let starved = now.saturating_sub(before);
        if starved > LITTLE {
            self.history.note(json!({ "client": name, "starved_ns": starved }));
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

/// How long the threads of a process had to wait for a processor so far, all together, in nanoseconds.
fn waited_for_a_processor(process: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let waited = threads.filter_map(|thread| {
        let times = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        times.split(' ').nth(1)?.parse::<u64>().ok()
    });
    Some(waited.sum())
}
