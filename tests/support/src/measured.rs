//! Measurements on a machine that may be too busy for them.

use std::io::Write;

use crate::control::Late;

/// Measured so many times at most.
const MOST: u32 = 3;

/// Measures something, and tells it which time it is, from 1 on. It returns all that was late.
///
/// If a thread had to wait for longer than [`BOUND`](crate::BOUND) meanwhile, that it was late proves nothing: it
/// is measured again, and the output of the tests says so, also if all of them pass. On a machine that is busy
/// each time, it may be late by as much as a thread waited for a processor in all. Whatever else fails, panics,
/// and so counts at once.
///
/// # Panics
///
/// If something is late on a machine that is in time, or three times by more than the machine explains.
pub async fn measured(measure: impl AsyncFn(u32) -> Vec<Late>) {
    repeated(measure, |verdict, late| {
        // Of a test that passes, `eprintln!` shows nothing.
        let _ = writeln!(std::io::stderr(), "{verdict}, {late}");
    })
    .await;
}

async fn repeated(measure: impl AsyncFn(u32) -> Vec<Late>, tell: impl Fn(&str, &Late)) {
    for time in 1.. {
        let late = measure(time).await;
        assert!(late.iter().all(Late::is_on_a_busy_machine), "{late:#?}");
        let is_last = time == MOST;
        assert!(!is_last || late.iter().all(Late::is_withheld), "{late:#?}");
        let verdict = if is_last { "NOT MEASURED" } else { "MEASURED AGAIN" };
        late.iter().for_each(|late| tell(verdict, late));
        if is_last || late.is_empty() {
            return;
        }
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

    /// How a machine was: in time, busy for moments, or as long as what was late.
    #[derive(Clone, Copy)]
    enum Machine {
        InTime,
        Busy,
        Withheld,
    }
    use Machine::{Busy, InTime, Withheld};

    /// How many times it is measured, and whether that fails, if it is late on such machines each time.
    fn times(late: &[&[Machine]]) -> (u32, bool) {
        let times = Cell::new(0);
        let waited = |machine: &Machine| match machine {
            InTime => Late::beside(BOUND, BOUND, BOUND),
            Busy => Late::beside(2 * BOUND, 9 * BOUND, 8 * BOUND),
            Withheld => Late::beside(2 * BOUND, 9 * BOUND, 9 * BOUND),
        };
        let measure = async |time: u32| {
            times.set(time);
            late.get(time as usize - 1).map_or(Vec::new(), |late| late.iter().map(waited).collect())
        };
        let done = catch_unwind(AssertUnwindSafe(|| {
            // Nothing in it waits.
            let mut measuring = pin!(repeated(measure, |_, _| ()));
            assert!(measuring.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }));
        (times.get(), done.is_err())
    }

    #[test]
    fn only_what_is_late_on_a_busy_machine_is_measured_again() {
        assert_eq!(times(&[]), (1, false));
        assert_eq!(times(&[&[Busy]]), (2, false));
        assert_eq!(times(&[&[Busy], &[Busy, Busy]]), (3, false));
        assert_eq!(times(&[&[InTime]]), (1, true));
        assert_eq!(times(&[&[Busy], &[Busy, InTime]]), (2, true));
    }

    #[test]
    fn on_a_machine_that_is_always_busy_it_is_late_by_what_that_withholds() {
        assert_eq!(times(&[&[Busy], &[Busy], &[Busy]]), (3, true));
        assert_eq!(times(&[&[Busy], &[Busy], &[Withheld]]), (3, false));
        assert_eq!(times(&[&[Busy], &[Busy], &[Withheld, Busy]]), (3, true));
        assert_eq!(times(&[&[Busy], &[Busy], &[InTime]]), (3, true));
    }
}
