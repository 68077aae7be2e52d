//! The machine's monotonic clock.

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds. `std::time::Instant` reads the same clock
/// but hides the value; Java's `System.nanoTime` and Python's `time.monotonic_ns` return it, so
/// that the histories of several programs on one machine can be combined.
pub(crate) fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
