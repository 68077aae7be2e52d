//! The board, the alerts and the table in the guide name metrics that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use zklock::metrics::{Metric, MetricKind, all};

fn read(path: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The metrics that a text names, without what an exporter appends to the names of histograms.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let ours = words.filter(|word| word.starts_with("zklock_"));
    ours.map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned()).collect()
}

fn known() -> BTreeSet<String> {
    all().iter().map(|metric| metric.name.to_owned()).collect()
}

#[test]
fn the_alerts_and_the_board_name_metrics_that_there_are() {
    for path in ["ops/alerts.yml", "ops/alerts.test.yml", "ops/grafana.json"] {
        let unknown: Vec<_> = named(&read(path)).difference(&known()).cloned().collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
    let board: Value = serde_json::from_str(&read("ops/grafana.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    assert!(
        panels.len() >= 8 && panels.iter().all(|panel| panel["targets"][0]["expr"].is_string())
    );
}

#[test]
fn the_guide_lists_all_metrics() {
    let mut rows =
        vec!["| metric | kind | labels | |".to_owned(), "| --- | --- | --- | --- |".into()];
    for Metric { name, kind, labels, about, .. } in all() {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            _ => panic!("{kind:?}"),
        };
        rows.push(format!("| `{name}` | {kind} | {} | {about} |", labels.join(", ")));
    }
    let page = read("docs/metrics.md");
    let table: Vec<_> = page.lines().skip_while(|line| *line != rows[0]).collect();
    let table: Vec<_> = table.into_iter().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(table, rows, "the table is:\n{}", rows.join("\n"));
}
