//! How much of each side's time is the server's: what no lock on ZooKeeper can save.

use crate::measured::Measured;
use crate::rounds::{Series, median};
use crate::table::time;

/// Sides that answer before the server has committed, or never ask it.
const NOT_BOUND: [&str; 5] =
    ["zklock-drop", "zklock-linger", "client-lock", "redis", "redis-fsync"];

/// Says what the commits are of each side's time.
pub(crate) fn print(workload: &str, all: &[Series]) {
    match workload {
        "single" => {
            let cycle = |round: &Measured| round.cycles.quantile(0.5) as f64;
            let what = "two commits (create+delete, no read)";
            shares(all, what, "create+delete", cycle, "median cycle", cycle);
        }
        "sessions" => {
            let handoff = |round: &Measured| round.handoffs.quantile(0.5) as f64;
            let between = |round: &Measured| 1e9 / round.rate();
            let what = "one commit and the word of it (notify)";
            shares(all, what, "notify", handoff, "time from grant to grant", between);
        }
        _ => {}
    }
}

fn shares(
    all: &[Series],
    what: &str,
    floor: &str,
    of_floor: impl Fn(&Measured) -> f64,
    of: &str,
    figure: impl Fn(&Measured) -> f64,
) {
    let Some(floor) = all.iter().find(|series| series.side == floor) else { return };
    let bound = |series: &&Series| series.side != floor.side && !NOT_BOUND.contains(&series.side);
    let share = |series: &Series| {
        let pairs = floor.rounds.iter().zip(&series.rounds);
        median(pairs.map(|(floor, round)| of_floor(floor) / figure(round)).collect())
    };
    let shares: Vec<_> =
        all.iter().filter(bound).map(|series| (series.side, share(series))).collect();
    let text = shares.iter().map(|(side, share)| format!("{side} {:.0} %", share * 100.0));
    println!(
        "{what}: {}; of the {of}: {}",
        time(floor.median(&of_floor)),
        text.collect::<Vec<_>>().join(", ")
    );
    if let Some((_, share)) = shares.iter().find(|(side, _)| *side == "curator") {
        println!("so a lock that waits for them can be at most {:.2} × curator here", 1.0 / share);
    }
}
