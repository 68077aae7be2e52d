//! How much of each side's time is the server's: what no lock on ZooKeeper can save.

use crate::rounds::Series;
use crate::table::time;

/// Sides that answer before the server has committed, or never ask it.
const NOT_BOUND: [&str; 5] =
    ["zklock-drop", "zklock-linger", "client-lock", "redis", "redis-fsync"];

/// Says what the commits are of each side's time.
pub(crate) fn print(workload: &str, all: &[Series]) {
    let side = |name: &str| all.iter().find(|series| series.side == name);
    let median = |series: &Series| series.median(|round| round.cycles.quantile(0.5) as f64);
    let between = |series: &Series| series.median(|round| 1e9 / round.rate());
    let handoff = |series: &Series| series.median(|round| round.handoffs.quantile(0.5) as f64);
    match workload {
        "single" => {
            let Some(floor) = side("create+delete") else { return };
            let what = "two commits (create+delete, no read)";
            shares(what, "median", median(floor), floor.side, all, median);
        }
        "sessions" => {
            let Some(floor) = side("notify") else { return };
            let what = "one commit and the word of it (notify)";
            shares(what, "time from grant to grant", handoff(floor), floor.side, all, between);
        }
        _ => {}
    }
}

fn shares(
    what: &str,
    of: &str,
    floor: f64,
    own: &str,
    all: &[Series],
    figure: impl Fn(&Series) -> f64,
) {
    let bound = all.iter().filter(|series| series.side != own && !NOT_BOUND.contains(&series.side));
    let shares = bound.map(|series| (series.side, floor / figure(series)));
    let shares: Vec<_> = shares.collect();
    let text = shares.iter().map(|(side, share)| format!("{side} {:.0} %", share * 100.0));
    println!("{what}: {}; of the {of}: {}", time(floor), text.collect::<Vec<_>>().join(", "));
    if let Some((_, share)) = shares.iter().find(|(side, _)| *side == "curator") {
        println!("so a lock that waits for them can be at most {:.2} × curator here", 1.0 / share);
    }
}
