//! What is to be reached, and whether it was.

use crate::measured::Measured;
use crate::rounds::{Series, median};
use crate::table::{ratio, time};

/// A goal, measured.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    what: String,
    measured: String,
    reached: bool,
}

impl Goal {
    /// A goal that is measured by hand.
    pub(crate) fn new(what: impl Into<String>, measured: String, reached: bool) -> Goal {
        Goal { what: what.into(), measured, reached }
    }

    /// At least this much.
    pub(crate) fn at_least(what: impl Into<String>, bound: f64, value: f64) -> Goal {
        let what = format!("{} at least {}", what.into(), ratio(bound));
        Goal { what, measured: ratio(value), reached: value >= bound }
    }

    /// At most this much.
    pub(crate) fn at_most(what: impl Into<String>, bound: f64, value: f64) -> Goal {
        let what = format!("{} at most {}", what.into(), ratio(bound));
        Goal { what, measured: ratio(value), reached: value <= bound }
    }

    /// One line: of which workload, what, how much, and whether it is reached.
    pub(crate) fn line(&self, workload: &str) -> String {
        let verdict = if self.reached { "reached" } else { "MISSED" };
        format!("goal of {workload}: {}: {} — {verdict}", self.what, self.measured)
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
enum Compared {
    /// Rates: mine at least so many times theirs.
    Rate(f64),
    /// Times per cycle: mine at most so many times theirs.
    Time(f64),
    /// Handoffs: mine at most so many times theirs.
    Handoff(f64),
    /// My longest wait is at most the 99th percentile of theirs.
    LongestWait,
}

use Compared::{Handoff, LongestWait, Rate, Time};

/// Workload, side, what is compared, and with whom.
const GOALS: [(&str, &str, Compared, &str); 13] = [
    ("single", "zklock-linger", Rate(150.0), "redis"),
    ("tasks", "zklock", Rate(1500.0), "curator"),
    ("tasks", "zklock", Time(2.0), "tokio-mutex"),
    ("threads", "zklock-blocking", Rate(100.0), "curator"),
    ("sessions", "zklock", Rate(2.0), "curator"),
    ("sessions", "zklock", Rate(1.1), "client-lock"),
    ("sessions", "zklock", Handoff(1.2), "notify"),
    ("sessions", "zklock-processes", Rate(2.0), "curator"),
    ("sessions", "zklock-processes", Rate(1.1), "client-lock"),
    ("fleet", "zklock-processes", Rate(300.0), "curator"),
    ("fleet", "zklock-processes", LongestWait, "curator"),
    ("many", "zklock", Rate(0.95), "create|list+delete"),
    ("many", "zklock", Rate(2.4), "curator"),
];

/// The goals of a workload, as far as both sides ran.
pub(crate) fn of_workload(workload: &str, all: &[Series]) -> Vec<Goal> {
    let side = |name: &str| all.iter().find(|series| series.side == name);
    let compare = |(of, mine, compared, theirs): &(&str, &str, Compared, &str)| {
        if *of != workload {
            return None;
        }
        let (me, them) = (side(mine)?, side(theirs)?);
        Some(match *compared {
            Rate(bound) => Goal::at_least(format!("{mine} × {theirs}"), bound, me.times(them)),
            Time(bound) => {
                let what = format!("{mine}'s time in that of {theirs}");
                Goal::at_most(what, bound, 1.0 / me.times(them))
            }
            Handoff(bound) => {
                let pairs = me.rounds.iter().zip(&them.rounds);
                let handoff = |round: &Measured| round.handoffs.quantile(0.5) as f64;
                let value = median(pairs.map(|(a, b)| handoff(a) / handoff(b)).collect());
                Goal::at_most(format!("{mine}'s handoff in that of {theirs}"), bound, value)
            }
            LongestWait => {
                let longest = me.greatest(|round| round.waits.longest()) as f64;
                let theirs_p99 = them.median(|round| round.waits.quantile(0.99) as f64);
                let what =
                    format!("{mine}'s longest wait at most {theirs}'s p99, {}", time(theirs_p99));
                Goal::new(what, time(longest), longest <= theirs_p99)
            }
        })
    };
    GOALS.iter().filter_map(compare).collect()
}
