//! Cuts at random moments.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::rule::Cut;
use super::state::Shared;

/// Cuts all connections again and again until it is stopped or dropped.
#[derive(Debug)]
#[must_use = "chaos ends when this is dropped"]
pub struct Chaos {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<u64>>,
}

impl Chaos {
    pub(super) fn start(shared: Arc<Shared>, seed: u64, mean: Duration) -> Self {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let mut random = Random(seed);
            let mut cuts = 0;
            while stopped.recv_timeout(random.interval(mean)) == Err(RecvTimeoutError::Timeout) {
                let way = if random.next().is_multiple_of(2) { Cut::Fin } else { Cut::Reset };
                let live = shared.lock().live();
                cuts += live.len() as u64;
                for connection in live {
                    connection.cut(&shared, way, way);
                }
            }
            cuts
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }

    /// Ends the chaos and returns how many connections it cut.
    pub fn stop(mut self) -> u64 {
        self.end()
    }

    fn end(&mut self) -> u64 {
        self.stop.take();
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.end();
    }
}

/// SplitMix64: small, and the same sequence everywhere for one seed.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Exponential, as of independent faults; at most five times the mean.
    fn interval(&mut self, mean: Duration) -> Duration {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64((-(1.0 - uniform).ln()).min(5.0))
    }
}
