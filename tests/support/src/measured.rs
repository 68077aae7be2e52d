//! Measurements on a machine that may be too busy for them.

use std::io::Write;

use crate::control::Late;

/// Measured so many times at most.
const MOST: u32 = 3;

/// Measures something, and tells it which time it is, from 1 on. It returns all that was late.
///
/// If a thread had to wait for longer than [`BOUND`](crate::BOUND) meanwhile, that it was late proves nothing: it
/// is measured again, and the output of the tests says so, also if all of them pass. Whatever else fails,
/// panics, and so counts at once.
///
/// # Panics
///
/// If something is late on a machine that is in time, or three times.
pub async fn measured(measure: impl AsyncFn(u32) -> Vec<Late>) {
    repeated(measure, |late| {
        // Of a test that passes, `eprintln!` shows nothing.
        let _ = writeln!(std::io::stderr(), "MEASURED AGAIN, {late}");
    })
    .await;
}

async fn repeated(measure: impl AsyncFn(u32) -> Vec<Late>, again: impl Fn(&Late)) {
    for time in 1.. {
        let late = measure(time).await;
        if late.is_empty() {
            return;
        }
        assert!(time < MOST && late.iter().all(Late::is_on_a_busy_machine), "{late:#?}");
        late.iter().for_each(&again);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::BOUND;

    /// How many times it is measured, and whether that fails, if so much more than [`BOUND`] is late each time.
    fn times(late: &[&[i32]]) -> (u32, bool) {
        let times = Cell::new(0);
        let waited = |more: &i32| Late::beside(if *more > 0 { 2 * BOUND } else { BOUND });
        let measure = async |time: u32| {
            times.set(time);
            late.get(time as usize - 1).map_or(Vec::new(), |late| late.iter().map(waited).collect())
        };
        let done = catch_unwind(AssertUnwindSafe(|| {
            // Nothing in it waits.
            let mut measuring = pin!(repeated(measure, |_| ()));
            assert!(measuring.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }));
        (times.get(), done.is_err())
    }

    #[test]
    fn only_what_is_late_on_a_busy_machine_is_measured_again() {
        assert_eq!(times(&[]), (1, false));
        assert_eq!(times(&[&[1]]), (2, false));
        assert_eq!(times(&[&[1], &[1, 1]]), (3, false));
        assert_eq!(times(&[&[1], &[1], &[1]]), (3, true));
        assert_eq!(times(&[&[0]]), (1, true));
        assert_eq!(times(&[&[1], &[1, 0]]), (2, true));
    }
}
