//! Taking turns: every side runs one round, then every side the next.

use std::time::Duration;

use crate::cpu;
use crate::measured::Measured;
use crate::sides::{Bed, Side, prepare};
use crate::workload::Workload;

/// What one side measured.
pub(crate) struct Series {
    pub(crate) side: &'static str,
    pub(crate) rounds: Vec<Measured>,
}

/// Runs a workload. Sides that cannot run are named with the reason.
pub(crate) fn run(
    bed: &mut Bed,
    workload: &Workload<'_>,
    wanted: impl Fn(&str) -> bool,
    time: Duration,
    rounds: usize,
) -> (Vec<Series>, Vec<String>) {
    let (mut ready, mut missing) = (Vec::new(), Vec::new());
    for side in workload.sides.iter().copied().filter(|side| wanted(side)) {
        let prepared = prepare(bed, side, workload).and_then(|mut prepared| {
            // What is done once, as the making of a directory, is not part of any round.
            prepared.round(Duration::from_millis(50))?;
            Ok(prepared)
        });
        match prepared {
            Ok(prepared) => ready.push((prepared, Series { side, rounds: Vec::new() })),
            Err(why) => missing.push(format!("{side} is left out: {why}")),
        }
    }
    for _ in 0..rounds {
        for (prepared, series) in &mut ready {
            match cpu::round(&mut **prepared, time) {
                Ok(measured) => series.rounds.push(measured),
                Err(why) => missing.push(format!("{}: a round failed: {why}", series.side)),
            }
        }
    }
    let ended = |(_, series): (Box<dyn Side>, Series)| series;
    let complete = |series: &Series| series.rounds.len() == rounds;
    (ready.into_iter().map(ended).filter(complete).collect(), missing)
}

/// The median of some figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => figures[n / 2],
        n => f64::midpoint(figures[n / 2 - 1], figures[n / 2]),
    }
}

impl Series {
    /// The median over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    /// The greatest of all rounds.
    pub(crate) fn greatest(&self, figure: impl Fn(&Measured) -> u64) -> u64 {
        self.rounds.iter().map(figure).max().unwrap_or_default()
    }

    /// The throughput as a multiple of another's: the median over rounds that ran one after the
    /// other.
    pub(crate) fn times(&self, other: &Series) -> f64 {
        let pairs = self.rounds.iter().zip(&other.rounds);
        median(pairs.map(|(mine, theirs)| mine.rate() / theirs.rate()).collect())
    }
}
