//! The short form, for CI: some schedules of every profile, and for a few seconds those with few deviations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zklock_simulation::chooser::Chooser;
use zklock_simulation::cores;
use zklock_simulation::found::{Found, built};
use zklock_simulation::profile::{MIX, SMALLEST};

use crate::exhaust::{Done, go_on};

/// How many schedules of all profiles, at least.
const SCHEDULES: usize = 20_000;

/// For how long those with few deviations.
const EXHAUSTIVE: Duration = Duration::from_secs(5);

/// Runs it. Returns how many schedules fail.
pub(crate) fn run() -> u64 {
    let (found, start) = (Found::default(), Instant::now());
    let (of_each, grants) = (SCHEDULES.div_ceil(MIX.len()), AtomicU64::new(0));
    cores::share(0..of_each * MIX.len(), |number| {
        let (profile, seed) = (&MIX[number % MIX.len()], (number / MIX.len()) as u64);
        let how = |_: &_| format!("{} {seed}", profile.name);
        if let Some(outcome) = found.run(Chooser::random(seed), profile, how) {
            grants.fetch_add(outcome.grants, Ordering::Relaxed);
        }
        true
    });
    let (cores, profiles) = (cores::count(), MIX.len());
    println!(
        "seeds 0 to {} of each of {profiles} profiles: {} schedules, {} grants, {:.1} s on {cores} cores",
        of_each - 1,
        of_each * profiles,
        grants.into_inner(),
        start.elapsed().as_secs_f64()
    );
    let all = few_deviations(&found);
    let used = cores::used().as_secs_f64();
    println!(
        "{:.1} s in all, {used:.1} s of processor time; {}",
        start.elapsed().as_secs_f64(),
        built()
    );
    found.texts().iter().for_each(|text| println!("{text}"));
    if !all {
        println!("FAILED: not all schedules within one deviation were run");
    }
    found.count() + u64::from(!all)
}

/// All with one deviation, for a minute at most, and those with two for what is left of the time. Returns whether it
/// was all with one.
fn few_deviations(found: &Found) -> bool {
    let start = Instant::now();
    let one = start + 12 * EXHAUSTIVE;
    let sums: Vec<Done> = SMALLEST
        .iter()
        .map(|profile| go_on(profile, 1, Done::default(), one, found, |_| ()))
        .collect();
    let all = sums.iter().all(Done::is_all);
    let ones: u64 = sums.iter().map(|done| done.schedules).sum();
    println!(
        "within one deviation from the harmless one: {ones} schedules, all of them: {all}, {:.1} s",
        start.elapsed().as_secs_f64()
    );
    let (mut twos, mut left) = (0, SMALLEST.len() as u32);
    for profile in SMALLEST {
        let share = EXHAUSTIVE.saturating_sub(start.elapsed()) / left;
        let done = go_on(profile, 2, Done::default(), Instant::now() + share, found, |_| ());
        (twos, left) = (twos + done.schedules, left - 1);
    }
    println!("within two: {twos} of them, {:.1} s in all", start.elapsed().as_secs_f64());
    all
}
