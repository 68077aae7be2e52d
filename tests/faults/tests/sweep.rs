//! Every frame of an opening session, an acquire, a heartbeat and a release, broken in every way: 117 cases, or with
//! `ZKLOCK_LONG=1` all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Instant;

use zklock_fault_tests::locks::Kind;
use zklock_fault_tests::sweep::{Fault, Heal, Outcome, Scene, Sweep, all, some};
use zklock_test_support::{OpCode, ZooKeeper, is_long};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_broken_at_any_frame_costs_neither_exclusion_nor_progress() {
    let start = Instant::now();
    let sweep = Arc::new(Sweep::new(ZooKeeper::shared(), "sweep").await);
    let mut places = Vec::new();
    for kind in Kind::ALL {
        for scene in Scene::ALL {
            places.push((kind, scene, sweep.places(kind, scene).await));
        }
    }
    let mut cases = all(&places);
    println!(
        "{} frames, {} cases",
        places.iter().map(|(.., all)| all.len()).sum::<usize>(),
        cases.len()
    );
    assert!(cases.len() >= 1_000, "{places:?}");
    if !is_long() {
        cases = some(&places, 13);
    }
    let count = cases.len();
    let outcomes = sweep.run_all(cases, 60).await;
    sweep.end().await;

    let hit = outcomes.iter().filter(|outcome| outcome.hit).count();
    let kept = outcomes.iter().filter(|outcome| outcome.kept).count();
    let worst = outcomes.iter().max_by_key(|outcome| outcome.recovery).unwrap();
    let twice = outcomes.iter().filter(|outcome| outcome.struck_again).count();
    println!("{count} cases, {hit} frames hit, {twice} of them again, {kept} kept the lock");
    let must: Vec<_> = outcomes.iter().filter(|outcome| outcome.must_keep).collect();
    println!("{} had to keep it", must.len());
    let excused: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.excused).collect();
    println!("{} lost it too early, on a machine that was late by {:?}", excused.len(), excused);
    assert!(excused.len() * 20 <= must.len(), "too busy a machine");
    println!("in {:?}", start.elapsed());
    println!("worst recovery {:?}: {}", worst.recovery, worst.case);
    let mut failed = 0;
    for outcome in outcomes.iter().filter(|outcome| !outcome.failures.is_empty()) {
        failed += 1;
        println!("FAILED {}: {:#?}", outcome.case, outcome.failures);
    }
    assert_eq!(failed, 0);
    for outcome in outcomes.iter().filter(|outcome| !outcome.hit) {
        println!("did not come: {}", outcome.case);
    }
    assert!(hit * 100 >= count * 95, "the frames come as they were noted");
    // That each of them kept it is judged case by case. Here: that there were such cases.
    for kind in Kind::ALL {
        for fault in [Fault::Delay, Fault::Fin, Fault::Reset] {
            let of = |by_kind: bool, by_fault: bool| {
                let mut cases = must.iter().map(|outcome| &outcome.case);
                cases.any(|case| {
                    (!by_kind || case.kind == kind) && (!by_fault || case.fault == fault)
                })
            };
            assert!(of(true, false), "no {kind:?} had to be kept");
            assert!(of(false, true), "after no {fault:?} a lock had to be kept");
            // So few cases do not have every kind with every fault.
            assert!(!is_long() || of(true, true), "no {kind:?} had to be kept after {fault:?}");
        }
    }
    for scene in Scene::ALL {
        let came = |outcome: &Outcome| outcome.hit && outcome.case.scene == scene;
        let of_it = outcomes.iter().filter(|outcome| outcome.case.scene == scene).count();
        let came = outcomes.iter().filter(|outcome| came(outcome)).count();
        println!("{scene:?}: {came} of {of_it} frames hit");
        assert!(came * 10 >= of_it * 9, "{scene:?} as it was noted");
    }
    for fault in Fault::ALL {
        for heal in [Heal::Before, Heal::After] {
            let came = |outcome: &Outcome| {
                outcome.hit && (outcome.case.fault, outcome.case.heal) == (fault, heal)
            };
            assert!(outcomes.iter().any(came), "no {fault:?} that heals {heal:?}");
        }
    }
    // Each frame of a repair comes in some of the cases: so few have not each of them in both directions.
    let again = |outcome: &Outcome| {
        let (way, opcode) = outcome.case.again?;
        Some((is_long().then_some(way), opcode))
    };
    let struck: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.struck_again).filter_map(again).collect();
    let mut missed: Vec<_> = outcomes.iter().filter_map(again).collect();
    missed.retain(|frame| !struck.contains(frame));
    missed.dedup();
    assert!(missed.is_empty(), "never struck: {missed:?}");
    // Whoever was cut off connects again.
    let connects = outcomes.iter().filter(|outcome| {
        outcome.hit && outcome.case.again.is_some_and(|(_, opcode)| opcode == OpCode::Connect)
    });
    let missed = connects.filter(|outcome| !outcome.struck_again);
    assert_eq!(missed.map(|outcome| outcome.case.to_string()).collect::<Vec<_>>(), [""; 0]);
}
