//! Measurements on a machine that may be too busy for them.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::control::{BOUND, Control};

/// So many times a machine may be too busy.
const MOST: u32 = 3;

/// Measures something, and tells it which time it is, from 1 on.
///
/// If it fails while the machine is late with a timer by more than [`BOUND`], that proves nothing, because the
/// same delay can be anywhere in what is measured, several times. Then it is measured again, and the
/// output of the tests says so, also if all of them pass. A failure on a machine that is in time counts.
///
/// # Panics
///
/// If it fails on a machine that is in time, or three times.
pub fn measured(mut measure: impl FnMut(u32)) {
    for time in 1.. {
        let control = Control::timers();
        let Err(failure) = catch_unwind(AssertUnwindSafe(|| measure(time))) else { return };
        let late = control.latest_timer();
        if late <= BOUND || time == MOST {
            resume_unwind(failure);
        }
        // Past what the test harness keeps to itself.
        let _ = writeln!(std::io::stderr(), "MEASURED AGAIN, timers were {late:?} late");
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_passes_is_measured_once() {
        let mut times = Vec::new();
        measured(|time| times.push(time));
        assert_eq!(times, [1]);
    }

    #[test]
    fn a_failure_that_is_one_is_told_however_busy_the_machine() {
        let mut times = 0;
        let failed = catch_unwind(AssertUnwindSafe(|| {
            measured(|_| {
                times += 1;
                thread::sleep(Duration::from_millis(20));
                panic!("it is late");
            });
        }));
        assert_eq!(failed.unwrap_err().downcast_ref(), Some(&"it is late"));
        assert!((1..=MOST).contains(&times));
    }
}
