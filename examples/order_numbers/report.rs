//! The result of a run.

use std::collections::HashSet;
use std::io::{self, Write};

use crate::issue::Half;
use crate::worker::Issued;

/// The number of workers that are shown, and of numbers for each.
const SHOWN: (usize, usize) = (3, 8);

/// The order numbers, counted.
pub(crate) struct Tally {
    issued: usize,
    /// Orders whose number another order has, too.
    repeated: usize,
    /// Numbers from 1 to the number of orders that no order has.
    lost: usize,
    /// The number in the file at the end, and the number that it should be.
    last: (u64, u64),
}

impl Tally {
    /// Counts the numbers of `orders` orders; `last` is in the file.
    pub(crate) fn of(numbers: &[u64], orders: u64, last: u64) -> Self {
        let distinct: HashSet<u64> = numbers.iter().copied().collect();
        Tally {
            issued: numbers.len(),
            repeated: numbers.len() - distinct.len(),
            lost: (1..=orders).filter(|number| !distinct.contains(number)).count(),
            last: (last, orders),
        }
    }

    /// Whether every number from 1 on was issued exactly once.
    pub(crate) fn is_right(&self) -> bool {
        self.repeated == 0 && self.lost == 0 && self.last.0 == self.last.1
    }
}

pub(crate) fn show(
    out: &mut impl Write,
    half: Half,
    issued: &Issued,
    tally: &Tally,
) -> io::Result<()> {
    let (workers, numbers) = SHOWN;
    for (worker, got) in issued.workers.iter().enumerate().take(workers) {
        let some: Vec<String> = got.iter().take(numbers).map(u64::to_string).collect();
        let more = if got.len() > numbers { " …" } else { "" };
        writeln!(out, "  worker {} got {}{more}", worker + 1, some.join(" "))?;
    }
    let Tally { issued: count, repeated, lost, last } = tally;
    writeln!(out, "  issued {count}, repeated {repeated}, lost {lost}")?;
    writeln!(out, "  the last number in the file is {}, of {} orders", last.0, last.1)?;
    let seconds = issued.took.as_secs_f64();
    let rate = *count as f64 / seconds.max(f64::MIN_POSITIVE);
    match half {
        Half::Unlocked => writeln!(out, "  0 locks/s ({rate:.0} orders/s in {seconds:.3} s)"),
        Half::Locked => {
            writeln!(out, "  {rate:.0} locks/s (one for each order, in {seconds:.3} s)")
        }
    }
}

pub(crate) fn verdict(right: bool) -> &'static str {
    match right {
        true => "With the lock every number was issued exactly once.",
        false => "WRONG: with the lock a number was repeated or left out.",
    }
}
