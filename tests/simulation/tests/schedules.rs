//! The short form: some schedules of every profile, and the first of all those with one deviation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use zklock_simulation::chooser::{Chooser, Streams, exhaust};
use zklock_simulation::profile::{MIX, SMALLEST};
use zklock_simulation::schedule::{Outcome, run};

/// How many schedules of all profiles, for which a minute and two cores are enough; without optimisation there
/// are some ten to fifty a second.
const ALL: u64 = if cfg!(debug_assertions) { 280 } else { 20_000 };

/// How many of each.
const SCHEDULES: u64 = ALL / MIX.len() as u64;

/// How many schedules with one deviation of each small profile.
const DEVIATIONS: u64 = if cfg!(debug_assertions) { 20 } else { 600 };

/// Which rule does not hold, and how to see it.
fn told(outcome: &Outcome, how: &str) -> Option<String> {
    let violation = outcome.violation.as_ref()?;
    let rule = violation.rule;
    Some(format!(
        "{}: {} (\"{}\")\ncargo run --release -p zklock-simulation {how}",
        rule.name, violation.what, rule.says
    ))
}

/// Looks for something in all of these, on all cores.
fn find(count: usize, look: impl Fn(usize) -> Option<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let numbers = std::iter::from_fn(|| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            (number < count).then_some(number)
        });
        numbers.filter_map(&look).next()
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let panicked = || Some("it panics".to_owned());
        threads.into_iter().filter_map(|one| one.join().unwrap_or_else(|_| panicked())).collect()
    })
}

#[test]
fn every_rule_holds_in_every_schedule() {
    let found = find(MIX.len() * SCHEDULES as usize, |number| {
        let (profile, seed) = (&MIX[number % MIX.len()], (number / MIX.len()) as u64);
        let how = format!("shrink {} {seed}", profile.name);
        told(&run(Chooser::random(seed), profile, false), &how)
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn every_rule_holds_with_one_deviation() {
    let found = find(SMALLEST.len(), |number| {
        let (profile, mut found, mut left) = (&SMALLEST[number], None, DEVIATIONS);
        exhaust(Vec::new(), 1, |chooser| {
            left = left.checked_sub(1)?;
            let outcome = run(chooser, profile, false);
            let how = || format!("replay {} {}", profile.name, Streams::of(&outcome.record));
            found = found.take().or_else(|| told(&outcome, &how()));
            Some(outcome.record)
        });
        found
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_same_seed_shows_the_same() {
    for profile in MIX {
        for seed in 0..1 {
            let [one, other] = [(); 2].map(|()| run(Chooser::random(seed), profile, false));
            assert_eq!(one.digest, other.digest, "{} {seed}", profile.name);
            assert_eq!(one.record, other.record);
            let streams = Chooser::streams(Streams::of(&one.record));
            let choices = one.record.iter().map(|choice| choice.picked).collect();
            for chooser in [streams, Chooser::replay(choices)] {
                let replayed = run(chooser, profile, false);
                assert_eq!(one.digest, replayed.digest, "{} {seed}", profile.name);
            }
        }
    }
}
