//! The direct comparison: a lock against its own requests, in pairs.

use std::time::Duration;

use crate::cpu;
use crate::drive::Failure;
use crate::measured::Measured;
use crate::sides::{Bed, prepare};
use crate::table::time;
use crate::workload::Workload;

/// The ratios of one side to another, each the geometric mean over the pairs.
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
        let mine = Logs::of(rounds.iter().map(|(mine, _)| figure(mine)));
        let theirs = Logs::of(rounds.iter().map(|(_, theirs)| figure(theirs)));
        let ratio = Logs::of(rounds.iter().map(|(mine, theirs)| figure(mine) / figure(theirs)));
        println!(
            "{one} takes {:.3} times {other}'s {what} (mean of {pairs} pairs, ± {:.3} at 95 %; means \
             {} and {})",
            ratio.mean(),
            ratio.error(),
            time(mine.mean()),
            time(theirs.mean()),
        );
        ratio.mean()
    };
    Ok(Ratios {
        cycle: compare("cycle", &|round| round.cycles.quantile(0.5) as f64),
        cpu: compare("processor time", &Measured::cpu_each),
    })
}

/// Figures of which only ratios count: the mean of the ratios is then the ratio of the means, which holds
/// for no median.
struct Logs(Vec<f64>);

impl Logs {
    fn of(figures: impl Iterator<Item = f64>) -> Logs {
        Logs(figures.map(f64::ln).collect())
    }

    /// The geometric mean.
    fn mean(&self) -> f64 {
        self.log().exp()
    }

    fn log(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// How far the mean may be from that of many more pairs: twice its standard error.
    fn error(&self) -> f64 {
        let (log, count) = (self.log(), self.0.len() as f64);
        let squares: f64 = self.0.iter().map(|figure| (figure - log).powi(2)).sum();
        self.mean() * 2.0 * (squares / (count - 1.0) / count).sqrt()
    }
}
