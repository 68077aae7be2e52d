//! All schedules within some deviations from the harmless one, on all cores, in parts that resume.
//!
//! A part is what begins with one deviation: it is done or not, and the file says how many of them are, in
//! their order.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use zklock_simulation::chooser::{Chooser, Streams, deviations, exhaust};
use zklock_simulation::cores;
use zklock_simulation::found::Found;
use zklock_simulation::origin;
use zklock_simulation::profile::Profile;
use zklock_simulation::schedule::Outcome;

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// How many parts are done, of how many.
    pub(crate) parts: (u64, u64),
    /// How many schedules that are.
    pub(crate) schedules: u64,
    /// How many of them fail.
    pub(crate) fail: u64,
    /// For how many milliseconds it ran.
    pub(crate) millis: u64,
    /// How many milliseconds of processor time it took.
    pub(crate) used: u64,
}

impl Done {
    /// Whether these are all schedules.
    pub(crate) fn is_all(&self) -> bool {
        self.schedules > 0 && self.parts.0 == self.parts.1
    }
}

/// Goes on after what is done, until then. `save` is told how far it has come.
pub(crate) fn go_on(
    profile: &Profile,
    most: usize,
    done: Done,
    until: Instant,
    found: &Found,
    save: impl Fn(Done) + Sync,
) -> Done {
    let (start, used) = (Instant::now(), cores::used());
    let how = |outcome: &Outcome| format!("{} {}", profile.text(), Streams::of(&outcome.record));
    let first = Found::default();
    let harmless = first.run(Chooser::replay(Vec::new()), profile, how);
    let fail = first.count();
    // What begins it is there in any case, and counts once.
    if done.schedules == 0 {
        found.take(first);
    }
    let Some(harmless) = harmless else { return done };
    let parts = if most == 0 { Vec::new() } else { deviations(&harmless.record, 0) };
    let mut sum = Done { parts: (done.parts.0, parts.len() as u64), ..done };
    if done.schedules == 0 {
        (sum.schedules, sum.fail) = (1, fail);
    }
    let state = Mutex::new((sum, BTreeMap::new()));
    cores::share(done.parts.0 as usize..parts.len(), |number| {
        let mine = Found::default();
        let (ran, all) = exhaust(parts[number].clone(), most, |chooser| {
            let outcome = (Instant::now() < until).then(|| mine.run(chooser, profile, how));
            // One that panics has no choices that could be made otherwise.
            Some(outcome?.map_or(Vec::new(), |outcome| outcome.record))
        });
        let fail = mine.count();
        found.take(mine);
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, ahead) = &mut *state;
        if all {
            ahead.insert(number as u64, (ran, fail));
        }
        while let Some((ran, fail)) = ahead.remove(&sum.parts.0) {
            sum.parts.0 += 1;
            sum.schedules += ran;
            sum.fail += fail;
        }
        sum.millis = done.millis + start.elapsed().as_millis() as u64;
        sum.used = done.used + cores::used().saturating_sub(used).as_millis() as u64;
        save(*sum);
        all
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner).0
}

/// How far each profile has come with so many deviations.
type All = BTreeMap<(usize, String), Done>;

fn read(text: &str) -> All {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
        let ["profile", name, deviations, ..] = words[..] else { return None };
        let (parts, schedules) = ((number(3), number(4)), number(5));
        let done = Done { parts, schedules, fail: number(6), millis: number(7), used: number(8) };
        Some(((deviations.parse().ok()?, name.to_owned()), done))
    };
    text.lines().filter_map(line).collect()
}

fn text(commit: &str, all: &All) -> String {
    let mut text = format!("commit {commit}\nbuilt {}\ncores {}\n", origin::BUILT, cores::count());
    _ = writeln!(
        text,
        "# deviations, parts done and in all, schedules, how many fail, milliseconds, of processors"
    );
    for ((deviations, name), done) in all {
        let Done { parts: (some, parts), schedules, fail, millis, used } = done;
        let counts = format!("{some} {parts} {schedules} {fail} {millis} {used}");
        _ = writeln!(text, "profile {name} {deviations} {counts}");
    }
    text
}

/// Goes on where a file ends, for at most so long with each profile; anew, if what runs is not the same.
/// Without a file, from the beginning.
pub(crate) fn in_file(
    file: Option<&Path>,
    profiles: &[&Profile],
    most: usize,
    long: Duration,
) -> io::Result<u64> {
    let old = file.map(|file| fs::read_to_string(file).unwrap_or_default()).unwrap_or_default();
    let (commit, all) = match origin::goes_on(&old) {
        Some(commit) => (commit.to_owned(), read(&old)),
        None => (origin::commit().to_owned(), All::new()),
    };
    let (all, found) = (Mutex::new(all), Found::default());
    for profile in profiles {
        let key = (most, profile.name.to_owned());
        let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
        let save = |done| {
            lock().insert(key.clone(), done);
            let written = file.map_or(Ok(()), |file| origin::write(file, &text(&commit, &lock())));
            written.unwrap_or_else(|error| eprintln!("it is not written: {error}"));
        };
        let done = lock().get(&key).copied().unwrap_or_default();
        if !done.is_all() {
            save(go_on(profile, most, done, Instant::now() + long, &found, save));
        }
        let done = lock()[&key];
        let is_all = if done.is_all() { ", all" } else { "" };
        let (name, Done { parts: (some, parts), schedules, fail, millis, used }) =
            (profile.name, done);
        println!(
            "{name}: {schedules} schedules within {most} deviations, {some} of {parts} parts{is_all}; {fail} fail; \
             {:.1} s on {} cores, {:.1} s of processor time",
            millis as f64 / 1e3,
            cores::count(),
            used as f64 / 1e3
        );
    }
    found.texts().iter().for_each(|text| println!("{text}"));
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Those of parts that are not done are not in the file.
    Ok(all.values().map(|done| done.fail).sum::<u64>().max(found.count()))
}
