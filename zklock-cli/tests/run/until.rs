//! Waiting for what is to come.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// As long as nothing that is well takes, not even what begins with the next minute.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// Waits until something is there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        sleep(Duration::from_millis(10));
    }
}
