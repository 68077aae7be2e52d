//! The direct comparison: an uncontended lock against its own requests, in pairs.

use std::time::Duration;

use crate::drive::Failure;
use crate::rounds::median;
use crate::sides::{Bed, prepare};
use crate::table::time;
use crate::workload::WORKLOADS;

/// Compares the medians of the cycles, pair by pair; every other pair runs in reverse order.
/// Returns the median of the ratios.
pub(crate) fn run(
    bed: &mut Bed,
    one: &str,
    other: &str,
    pairs: usize,
    each: Duration,
) -> Result<f64, Failure> {
    let (mut first, mut second) =
        (prepare(bed, one, &WORKLOADS[0])?, prepare(bed, other, &WORKLOADS[0])?);
    first.round(each)?;
    second.round(each)?;
    let (mut ratios, mut medians) = (Vec::new(), [Vec::new(), Vec::new()]);
    for pair in 0..pairs {
        let (mine, theirs) = if pair % 2 == 0 {
            let mine = first.round(each)?;
            (mine, second.round(each)?)
        } else {
            let theirs = second.round(each)?;
            (first.round(each)?, theirs)
        };
        let middle = [mine, theirs].map(|measured| measured.cycles.quantile(0.5) as f64);
        ratios.push(middle[0] / middle[1]);
        medians[0].push(middle[0]);
        medians[1].push(middle[1]);
    }
    ratios.sort_by(f64::total_cmp);
    let [mine, theirs] = medians.map(median);
    println!(
        "{one} takes {:.3} times {other} (median of {pairs} pairs, {:.3} to {:.3}; medians {} and {})",
        median(ratios.clone()),
        ratios.first().copied().unwrap_or(f64::NAN),
        ratios.last().copied().unwrap_or(f64::NAN),
        time(mine),
        time(theirs),
    );
    Ok(median(ratios))
}
