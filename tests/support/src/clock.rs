//! One clock for the histories of several processes.

use rustix::time::{ClockId, clock_gettime};

/// Returns the machine's monotonic clock in nanoseconds.
///
/// It is the clock of Java's `System.nanoTime` and Python's `time.monotonic_ns` on Linux, so the
/// histories of Rust, Java and Python processes can be laid over each other.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
