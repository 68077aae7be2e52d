//! The table.

use crate::measured::Measured;
use crate::rounds::Series;
use crate::workload::Workload;

/// What ratios are taken against, as far as it ran.
pub(crate) const BASES: [&str; 5] =
    ["create|list+delete", "tokio-mutex", "client-lock", "curator", "redis"];

/// Prints the table of one workload.
pub(crate) fn print(workload: &Workload<'_>, all: &[Series], missing: &[String]) {
    println!("\n{} (--workload {})", workload.title, workload.name);
    let bases: Vec<_> =
        BASES.iter().filter_map(|base| all.iter().find(|series| series.side == *base)).collect();
    let mut head = format!(
        "{:<20}{:>11}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "locks/s", "p50", "p99", "longest", "handoff", "CPU/lock"
    );
    for base in &bases {
        head += &format!("{:>14}", format!("× {}", short(base.side)));
    }
    println!("{head}");
    for series in all {
        let quantile = |share: f64| series.median(|round| round.cycles.quantile(share) as f64);
        let handoff = series.median(|round| round.handoffs.quantile(0.5) as f64);
        let mut line = format!(
            "{:<20}{:>11}{:>10}{:>10}{:>10}{:>10}{:>10}",
            series.side,
            grouped(series.median(|round| round.rate())),
            time(quantile(0.5)),
            time(quantile(0.99)),
            time(series.greatest(|round| round.waits.longest()) as f64),
            if handoff > 0.0 { time(handoff) } else { String::new() },
            time(series.median(Measured::cpu_each)),
        );
        for base in &bases {
            line += &format!("{:>14}", ratio(series.times(base)));
        }
        println!("{line}");
    }
    for line in missing {
        println!("{line}");
    }
}

fn short(side: &str) -> &str {
    match side {
        "create|list+delete" => "bare",
        "tokio-mutex" => "tokio",
        side => side,
    }
}

/// A ratio with as many digits as mean something.
pub(crate) fn ratio(value: f64) -> String {
    match value {
        value if value.is_nan() => "–".to_owned(),
        value if value < 10.0 => format!("{value:.2}"),
        value => grouped(value),
    }
}

/// A number with commas.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration given in nanoseconds.
pub(crate) fn time(nanos: f64) -> String {
    match nanos {
        nanos if nanos < 10_000.0 => format!("{:.2} µs", nanos / 1e3),
        nanos if nanos < 1e6 => format!("{:.0} µs", nanos / 1e3),
        nanos if nanos < 1e7 => format!("{:.2} ms", nanos / 1e6),
        nanos if nanos < 1e9 => format!("{:.0} ms", nanos / 1e6),
        nanos => format!("{:.2} s", nanos / 1e9),
    }
}
