//! Measurements on a machine that may be too busy for them.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use crate::control::{BOUND, Control, LATE};

/// So many times a machine may be too busy.
const MOST: u32 = 3;

/// Measures something, and tells it which time it is, from 1 on.
///
/// If something is [`LATE`] while the machine is late with a timer by more than [`BOUND`], that proves nothing,
/// because the same delay can be anywhere in what is measured, several times. Then it is measured again, and the
/// output of the tests says so, also if all of them pass. Any other failure counts.
///
/// # Panics
///
/// If something is late on a machine that is in time, or three times; and if anything else fails.
pub fn measured(mut measure: impl FnMut(u32)) {
    let measure = |time| {
        let control = Control::timers();
        let outcome = catch_unwind(AssertUnwindSafe(|| measure(time)));
        (outcome, control.latest_timer())
    };
    repeated(measure, |machine| {
        // Past what the test harness keeps to itself.
        let _ = writeln!(std::io::stderr(), "MEASURED AGAIN, timers were {machine:?} late");
    });
}

/// What is measured comes with the lateness of the machine.
fn repeated(
    mut measure: impl FnMut(u32) -> (thread::Result<()>, Duration),
    tell_again: impl Fn(Duration),
) {
    for time in 1.. {
        let (Err(failure), machine) = measure(time) else { return };
        if time == MOST || machine <= BOUND || !says_late(&*failure) {
            resume_unwind(failure);
        }
        tell_again(machine);
    }
}

fn says_late(failure: &(dyn Any + Send)) -> bool {
    failure.downcast_ref::<String>().is_some_and(|message| message.contains(LATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many times it is measured, and whether that fails, if it goes so the first times and well after that.
    fn times(outcomes: &[(&str, Duration)]) -> (u32, bool) {
        let mut times = 0;
        let measure = |time: u32| {
            times = time;
            outcomes.get(time as usize - 1).map_or(
                (Ok(()), Duration::ZERO),
                |(message, machine)| {
                    let failure: Box<dyn Any + Send> = Box::new((*message).to_owned());
                    (Err(failure), *machine)
                },
            )
        };
        let failed = catch_unwind(AssertUnwindSafe(|| repeated(measure, |_| ()))).is_err();
        (times, failed)
    }

    #[test]
    fn only_what_is_late_on_a_busy_machine_is_measured_again() {
        let (late, busy) = (format!("the lock: 2s, {LATE} (1s)"), 2 * BOUND);
        assert_eq!(times(&[]), (1, false));
        assert_eq!(times(&[(&late, busy)]), (2, false));
        assert_eq!(times(&[(&late, busy), (&late, busy)]), (3, false));
        assert_eq!(times(&[(&late, busy), (&late, busy), (&late, busy)]), (3, true));
        assert_eq!(times(&[(&late, BOUND)]), (1, true));
        assert_eq!(times(&[(&late, busy), (&late, BOUND)]), (2, true));
        assert_eq!(times(&[("two are inside", busy)]), (1, true));
    }

    #[test]
    fn what_a_control_finds_late_is_late() {
        let control = Control::timers();
        let (hour, second) = (Duration::from_secs(3600), Duration::from_secs(1));
        let late = || control.within("an hour", hour, second);
        let failure = catch_unwind(AssertUnwindSafe(late)).unwrap_err();
        assert!(says_late(&*failure));
    }
}
