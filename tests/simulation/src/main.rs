//! Runs schedules, replays one, makes one smaller. See `README.md`.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use zklock_simulation::chooser::{Chooser, Streams};
use zklock_simulation::found::{built, told};
use zklock_simulation::kept;
use zklock_simulation::profile::{MIX, Profile, SMALLEST, named};
use zklock_simulation::schedule::{Outcome, run};

mod exhaust;
mod results;
mod short;
mod smaller;

const USAGE: &str = "simulate short
simulate run|first|twice PROFILE FROM COUNT | one PROFILE SEED | replay PROFILE CHOICES
simulate shrink PROFILE SEED|CHOICES | keep PROFILE SEED|CHOICES NAME
simulate exhaust PROFILE DEVIATIONS MINUTES [FILE] | results PROFILE FILE MINUTES
PROFILE is one of profile/mix.rs, `mix` all the usual ones, `small` all of few choices.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize| arguments.get(at).map_or("", String::as_str);
    let number = |at: usize, usual: u64| text(at).parse().unwrap_or(usual);
    let profiles: Vec<Profile> = match text(1) {
        "mix" => MIX.to_vec(),
        "small" => SMALLEST.to_vec(),
        "" if text(0) == "short" => MIX.to_vec(),
        name => named(name).into_iter().collect(),
    };
    let profiles: Vec<&Profile> = profiles.iter().collect();
    let Some(profile) = profiles.first().copied() else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let failed = match text(0) {
        "short" => short::run(),
        "run" => profiles.iter().map(|one| many(one, number(2, 0), number(3, 1_000))).sum(),
        "first" => first(&profiles, number(2, 0), number(3, 1_000)),
        "twice" => profiles.iter().map(|one| twice(one, number(2, 0), number(3, 100))).sum(),
        "one" => {
            let outcome = run(Chooser::random(number(2, 0)), profile, true);
            print(&outcome)
        }
        "shrink" => smaller(profile, text(2), None),
        "keep" if !text(3).is_empty() => smaller(profile, text(2), Some(text(3))),
        "replay" => {
            let streams = text(2).parse::<Streams>().unwrap_or_default();
            print(&run(Chooser::streams(streams), profile, true))
        }
        "results" => {
            let long = Duration::from_secs(60 * number(3, 1));
            written(text(2), results::go_on(Path::new(text(2)), &profiles, long))
        }
        "exhaust" => {
            let (most, long) = (number(2, 1) as usize, Duration::from_secs(60 * number(3, 10)));
            let file = arguments.get(4).map(Path::new);
            written(text(4), exhaust::in_file(file, &profiles, most, long))
        }
        _ => {
            eprintln!("{USAGE}");
            1
        }
    };
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many fail, or one if the file does.
fn written(file: &str, failed: io::Result<u64>) -> u64 {
    failed.unwrap_or_else(|error| {
        eprintln!("{file}: {error}");
        1
    })
}

fn print(outcome: &Outcome) -> u64 {
    for line in &outcome.lines {
        println!("{line}");
    }
    println!("{} choices, digest {:x}; {}", outcome.record.len(), outcome.digest, built());
    match &outcome.violation {
        Some(violation) => {
            println!("{}: {}\n  \"{}\"", violation.rule.name, violation.what, violation.rule.says);
            1
        }
        None => 0,
    }
}

fn many(profile: &Profile, from: u64, count: u64) -> u64 {
    let start = Instant::now();
    let mut sums = [0u64; 6];
    let mut found: BTreeMap<&str, (Vec<u64>, String)> = BTreeMap::new();
    for seed in from..from + count {
        let outcome = run(Chooser::random(seed), profile, false);
        let choices = outcome.record.len() as u64;
        let figures = [
            outcome.grants,
            outcome.refusals,
            outcome.requests,
            outcome.faults,
            choices,
            outcome.took,
        ];
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        if let Some(violation) = outcome.violation {
            let entry = found.entry(violation.rule.name);
            let first = || (Vec::new(), told(&violation, &format!("{} {seed}", profile.name)));
            entry.or_insert_with(first).0.push(seed);
        }
    }
    let took = start.elapsed().as_secs_f64();
    let [grants, refusals, requests, faults, choices, virtual_time] =
        sums.map(|sum| sum as f64 / count as f64);
    println!(
        "{}: {count} schedules in {took:.1} s, {:.0} a second; each {grants:.1} grants, \
         {refusals:.1} errors, {requests:.0} requests, {faults:.1} faults, {choices:.0} choices, \
         {:.1} s",
        profile.name,
        count as f64 / took,
        virtual_time / 1e6
    );
    for (rule, (seeds, first)) in &found {
        let some = &seeds[..seeds.len().min(10)];
        println!("  {rule}: {}, first seeds {some:?}\n{first}", seeds.len());
    }
    found.values().map(|(seeds, _)| seeds.len() as u64).sum()
}

/// Goes through the profiles by turns, up to the first schedule that shows something.
fn first(profiles: &[&Profile], from: u64, count: u64) -> u64 {
    let seeds = (from..from + count).flat_map(|seed| profiles.iter().map(move |one| (seed, *one)));
    for (number, (seed, profile)) in seeds.enumerate() {
        if let Some(violation) = run(Chooser::random(seed), profile, false).violation {
            let (schedule, name) = (number + 1, profile.name);
            let rule = violation.rule.name;
            println!("schedule {schedule}, {name} {seed}: {rule}: {}", violation.what);
            return 1;
        }
    }
    println!("nothing in {count} schedules of each");
    0
}

fn twice(profile: &Profile, from: u64, count: u64) -> u64 {
    let differs = |seed: &u64| {
        // Two at a time: they must not know of each other.
        let [one, other] = std::thread::scope(|threads| {
            let run = || run(Chooser::random(*seed), profile, false);
            let other = threads.spawn(run);
            [Some(run()), other.join().ok()]
        });
        let (Some(one), Some(other)) = (one, other) else { return true };
        one.digest != other.digest || one.record != other.record
    };
    let different: Vec<u64> = (from..from + count).filter(differs).collect();
    println!("{}: {} of {count} differ {different:?}", profile.name, different.len());
    different.len() as u64
}

/// Makes a schedule smaller: that of a seed, or of choices. Keeps it as a test, if it has a name.
fn smaller(profile: &Profile, schedule: &str, name: Option<&str>) -> u64 {
    let chooser = match (schedule.parse(), schedule.parse::<Streams>()) {
        (Ok(seed), _) => Chooser::random(seed),
        (_, Ok(streams)) => Chooser::streams(streams),
        _ => {
            eprintln!("{schedule} is neither a seed nor choices");
            return 1;
        }
    };
    let outcome = run(chooser, profile, false);
    let Some(violation) = outcome.violation else {
        println!("{} {schedule} shows nothing", profile.text());
        return u64::from(name.is_some());
    };
    let choices = Streams::of(&outcome.record);
    let all = choices.len();
    let (small, best) = smaller::smaller(profile, choices, violation.rule);
    print(&run(Chooser::streams(best.clone()), &small, true));
    println!("from {all} choices, left: {}\nreplay {} {best}", best.len(), small.text());
    let Some(name) = name else { return 1 };
    let line = kept::line(name, violation.rule, &small, &best);
    println!("{}: {line}", kept::file().display());
    let kept = kept::keep(&line);
    kept.as_ref().err().inspect(|error| eprintln!("it is not kept: {error}"));
    u64::from(kept.is_err())
}
