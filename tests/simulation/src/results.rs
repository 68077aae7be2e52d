//! A long run in parts: a file says how far each profile has come, and what was found.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use zklock_simulation::chooser::Chooser;
use zklock_simulation::cores;
use zklock_simulation::found::Found;
use zklock_simulation::origin;
use zklock_simulation::profile::Profile;
use zklock_simulation::rules::{ALL, PANIC};
use zklock_simulation::schedule::Outcome;

/// How many schedules of a profile run, on all cores, before the file is written.
const PART: usize = 500;

/// The figures of a profile, as they are in the file.
const FIGURES: [&str; 6] = ["schedules", "grants", "errors", "requests", "faults", "seconds"];

/// What is known of one commit: the sums of each profile, and the first seed in which a rule does not
/// hold.
#[derive(Default)]
struct Results {
    sums: BTreeMap<String, [u64; FIGURES.len()]>,
    found: BTreeMap<(String, String), (u64, u64)>,
}

impl Results {
    fn read(text: &str) -> Self {
        let mut results = Results::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
            match words.as_slice() {
                ["profile", name, ..] => {
                    let sums = std::array::from_fn(|at| number(2 + at));
                    results.sums.insert((*name).to_owned(), sums);
                }
                ["FAILS", name, rule, ..] => {
                    let key = ((*name).to_owned(), (*rule).to_owned());
                    results.found.insert(key, (number(3), number(4)));
                }
                _ => {}
            }
        }
        results
    }

    fn text(&self, commit: &str) -> String {
        let mut text = format!("commit {commit}\nbuilt {}\n", origin::BUILT);
        let rules: Vec<&str> = ALL.iter().map(|rule| rule.name).collect();
        _ = writeln!(text, "rules {}", rules.join(" "));
        _ = writeln!(text, "# profile, seeds 0 to before: {}", FIGURES.join(", "));
        let mut all = [0; FIGURES.len()];
        for (name, sums) in &self.sums {
            let words: Vec<String> = sums.iter().map(u64::to_string).collect();
            _ = writeln!(text, "profile {name} {}", words.join(" "));
            all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
        }
        let words: Vec<String> = all.iter().map(u64::to_string).collect();
        _ = writeln!(text, "all {}", words.join(" "));
        for ((name, rule), (count, seed)) in &self.found {
            _ = writeln!(text, "FAILS {name} {rule} {count} {seed}");
        }
        text
    }

    fn part(&mut self, profile: &Profile) {
        let name = profile.name;
        let mut sums = self.sums.get(name).copied().unwrap_or_default();
        let (from, found) = (sums[0], &mut self.found);
        let state = Mutex::new((&mut sums, 0, found));
        cores::share(0..PART, |number| {
            let seed = from + number as u64;
            let told = Found::default();
            let how = |_: &_| format!("{name} {seed}");
            let outcome = told.run(Chooser::random(seed), profile, how);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let (sums, took, found) = &mut *state;
            sums[0] += 1;
            let rule = match outcome {
                Some(Outcome {
                    grants, refusals, requests, faults, took: long, violation, ..
                }) => {
                    *took += long;
                    let figures = [grants, refusals, requests, faults];
                    sums[1..].iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
                    violation.map(|violation| violation.rule.name)
                }
                // The simulation itself: nothing else says what happened.
                None => {
                    told.texts().iter().for_each(|text| eprintln!("{text}"));
                    Some(PANIC.name)
                }
            };
            if let Some(rule) = rule {
                let key = (name.to_owned(), rule.to_owned());
                let (count, first) = found.entry(key).or_insert((0, seed));
                (*count, *first) = (*count + 1, seed.min(*first));
            }
            true
        });
        let took = state.into_inner().unwrap_or_else(PoisonError::into_inner).1;
        sums[5] += took / 1_000_000;
        self.sums.insert(name.to_owned(), sums);
    }
}

/// Goes on where the file ends, for so long; anew, if what runs is not the same.
pub(crate) fn go_on(file: &Path, profiles: &[&Profile], long: Duration) -> io::Result<u64> {
    let start = Instant::now();
    let old = fs::read_to_string(file).unwrap_or_default();
    let (commit, mut results) = match origin::goes_on(&old) {
        Some(commit) => (commit.to_owned(), Results::read(&old)),
        None => (origin::commit().to_owned(), Results::default()),
    };
    'over: loop {
        for profile in profiles {
            if start.elapsed() >= long {
                break 'over;
            }
            results.part(profile);
            origin::write(file, &results.text(&commit))?;
        }
    }
    print!("{}", results.text(&commit));
    Ok(results.found.values().map(|(count, _)| count).sum())
}
