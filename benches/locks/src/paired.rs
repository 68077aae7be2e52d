//! The direct comparison: a lock against its own requests, in pairs.

use std::time::Duration;

use crate::cpu;
use crate::drive::Failure;
use crate::measured::Measured;
use crate::rounds::median;
use crate::sides::{Bed, prepare};
use crate::table::time;
use crate::workload::Workload;

/// The ratios of one side to another, each the median over the pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    /// Of the median cycles.
    pub(crate) cycle: f64,
    /// Of the processor time for each cycle.
    pub(crate) cpu: f64,
}

/// Compares them pair by pair; every other pair runs in reverse order.
///
/// Each pair has sessions of its own: what a lock costs depends on the order in which the client library
/// looks at its work, which it takes from an address, so it differs from session to session and never
/// changes. With the same two sessions in all pairs, the luck of these two would be what is compared.
pub(crate) fn run(
    bed: &mut Bed,
    workload: &Workload<'_>,
    one: &str,
    other: &str,
    pairs: usize,
    each: Duration,
) -> Result<Ratios, Failure> {
    let mut rounds = Vec::new();
    for pair in 0..pairs {
        let (mut first, mut second) =
            (prepare(bed, one, workload)?, prepare(bed, other, workload)?);
        first.round(each)?;
        second.round(each)?;
        rounds.push(if pair % 2 == 0 {
            let mine = cpu::round(&mut *first, each)?;
            (mine, cpu::round(&mut *second, each)?)
        } else {
            let theirs = cpu::round(&mut *second, each)?;
            (cpu::round(&mut *first, each)?, theirs)
        });
    }
    let compare = |what: &str, figure: &dyn Fn(&Measured) -> f64| {
        let ratios: Vec<_> = rounds.iter().map(|(a, b)| figure(a) / figure(b)).collect();
        println!(
            "{one} takes {:.3} times {other}'s {what} (median of {pairs} pairs, {:.3} to {:.3}; \
             medians {} and {})",
            median(ratios.clone()),
            ratios.iter().copied().fold(f64::NAN, f64::min),
            ratios.iter().copied().fold(f64::NAN, f64::max),
            time(median(rounds.iter().map(|(mine, _)| figure(mine)).collect())),
            time(median(rounds.iter().map(|(_, theirs)| figure(theirs)).collect())),
        );
        median(ratios)
    };
    Ok(Ratios {
        cycle: compare("cycle", &|round| round.cycles.quantile(0.5) as f64),
        cpu: compare("processor time", &Measured::cpu_each),
    })
}
