//! The figures for other programs.

use serde_json::{Value, json};

use crate::rounds::Series;
use crate::workload::Workload;

/// One workload's figures: of each side, the rounds one by one.
pub(crate) fn workload(workload: &Workload<'_>, all: &[Series]) -> Value {
    let sides = all.iter().map(|series| {
        let rounds: Vec<_> = series
            .rounds
            .iter()
            .map(|round| {
                json!({
                    "locks_per_s": round.rate(),
                    "p50_ns": round.cycles.quantile(0.5),
                    "p99_ns": round.cycles.quantile(0.99),
                    "longest_wait_ns": round.waits.longest(),
                    "cpu_ns_per_lock": round.cpu_each(),
                    "handoff_p50_ns": round.handoffs.quantile(0.5),
                })
            })
            .collect();
        (series.side.to_owned(), Value::from(rounds))
    });
    json!({ "workload": workload.name, "sides": sides.collect::<serde_json::Map<_, _>>() })
}
