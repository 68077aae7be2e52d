//! Work on all cores.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How many there are.
pub fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// How much processor time this process has used, where the system tells (Linux).
pub fn used() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // `utime` and `stime`, in hundredths of a second: fields 14 and 15, behind the name, which is the second.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let hundredths: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * hundredths)
}

/// Hands out these numbers, one after the other, on all cores, until one of the workers says that it is enough.
///
/// # Panics
///
/// If a worker does.
pub fn share(numbers: std::ops::Range<usize>, work: impl Fn(usize) -> bool + Sync) {
    let next = AtomicUsize::new(numbers.start);
    let work = || {
        let mut taken = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        while taken.next().is_some_and(|number| number < numbers.end && work(number)) {}
    };
    thread::scope(|scope| {
        for _ in 1..count() {
            scope.spawn(work);
        }
        work();
    });
}
