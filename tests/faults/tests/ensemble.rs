//! Three servers and six processes under fire: 20 s of it, or five minutes with `ZKLOCK_LONG=1`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use zklock_checker::Rule;
use zklock_fault_tests::ensemble::{Plan, run};
use zklock_test_support::{is_long, monotonic_ns};

#[test]
fn three_servers_and_six_processes_under_fire_keep_every_promise() {
    let time = Duration::from_secs(if is_long() { 300 } else { 20 });
    let history = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fire.jsonl");
    let mean = Duration::from_millis(500);
    let plan = Plan { time, seed: monotonic_ns(), history, mean };
    println!("seed {}", plan.seed);
    let report = run(&plan);
    println!("{report}");
    let verdict = &report.verdict;
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
    // Nobody takes silence for praise: each rule has seen something.
    for rule in Rule::ALL {
        assert!(verdict.judged(rule) > 0, "{rule} has judged nothing");
    }
    assert_eq!(report.opinions[1], 0, "the independent checker refuses it");
    // At least: a busy machine does little in 20 s.
    assert!(report.grants > 100 && report.own_nodes > 100);
    assert!(report.peers_grants.iter().all(|grants| *grants > 0), "{:?}", report.peers_grants);
    assert!(report.faults.values().sum::<u64>() >= 10);
    // What is judged has happened, and is neither excused nor undecided. How much of it 20 s contain
    // depends on the machine.
    if is_long() {
        let (figures, done) = (report.figures, |what| report.faults.get(what).copied());
        assert!(figures.over_a_lease > 0 && figures.writes > 0, "{figures}");
        assert!(figures.nested > 0 && figures.stepped_down > 0, "{figures}");
        assert!(figures.on_threads > 0 && figures.mixed > 0 && figures.too_long > 0, "{figures}");
        assert!(done("head deleted").is_some() && done("waiting node deleted").is_some());
        assert!(figures.excused * 20 < figures.holds, "{figures}");
        let [_, _, unknown] = report.opinions;
        assert!(unknown * 4 < report.opinions.iter().sum(), "{:?}", report.opinions);
    }
    // How soon others go on when a leader ends, and nothing else does, is in `failover.rs`. Here it is
    // printed: other faults may strike meanwhile.
}
