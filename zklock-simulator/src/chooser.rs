//! The source of every decision of a schedule.
//!
//! All that can go one way or another is asked for here, and recorded. So a schedule is a list of
//! numbers: it can be drawn at random, replayed, made smaller, and enumerated. The alternatives of
//! a decision are ordered so that 0 is the harmless one: nothing fails, the first goes first.

use std::collections::BTreeMap;
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Whose it is: see [`Streams`].
    pub by: u32,
    /// Between how many alternatives.
    pub of: u32,
    /// Which was picked, from 0.
    pub picked: u32,
}

/// What was picked, by whom: each task has a stream of its own, and so has the world. When one of them
/// picks otherwise, the choices of the others stay theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams(BTreeMap<u32, Vec<u32>>);

impl Streams {
    /// What was picked in a schedule.
    pub fn of(record: &[Choice]) -> Self {
        let mut streams = Streams::default();
        for choice in record {
            streams.0.entry(choice.by).or_default().push(choice.picked);
        }
        streams
    }

    /// How many choices there are; those after the last of a stream are harmless.
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Whether all choices are harmless.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn change(&mut self, by: u32, change: impl FnOnce(&mut Vec<u32>) -> bool) -> bool {
        let Some(picked) = self.0.get_mut(&by) else { return false };
        let changed = change(picked);
        while picked.last() == Some(&0) {
            picked.pop();
        }
        if picked.is_empty() {
            self.0.remove(&by);
        }
        changed
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (by, picked)) in self.0.iter().enumerate() {
            let words: Vec<String> = picked.iter().map(u32::to_string).collect();
            write!(f, "{}{by}:{}", if at > 0 { "/" } else { "" }, words.join(","))?;
        }
        Ok(())
    }
}

impl FromStr for Streams {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let mut streams = Streams::default();
        for stream in text.split('/').filter(|stream| !stream.is_empty()) {
            let (by, picked) = stream.split_once(':').unwrap_or(("0", stream));
            let picked: Result<_, _> = picked.split(',').map(str::parse).collect();
            streams.0.insert(by.parse()?, picked?);
        }
        Ok(streams)
    }
}

/// Picks, and records what it picked.
#[derive(Clone, Debug)]
pub struct Chooser {
    source: Source,
    record: Vec<Choice>,
}

#[derive(Clone, Debug)]
enum Source {
    Random(u64),
    Replay(Vec<u32>),
    Streams(BTreeMap<u32, std::vec::IntoIter<u32>>),
}

impl Chooser {
    /// Picks at random; the same seed picks the same.
    pub fn random(seed: u64) -> Self {
        Chooser { source: Source::Random(seed), record: Vec::with_capacity(1024) }
    }

    /// Picks what is given, and 0 after that.
    pub fn replay(choices: Vec<u32>) -> Self {
        Chooser { source: Source::Replay(choices), record: Vec::with_capacity(1024) }
    }

    /// Picks for each what is given for it, and 0 after that.
    pub fn streams(streams: Streams) -> Self {
        let streams = streams.0.into_iter().map(|(by, picked)| (by, picked.into_iter()));
        Chooser { source: Source::Streams(streams.collect()), record: Vec::with_capacity(1024) }
    }

    /// Picks one of so many alternatives; all are as likely.
    pub fn choose(&mut self, by: u32, of: u32) -> u32 {
        self.pick(by, of, |random| below(random, of))
    }

    /// Picks one of so many alternatives, another one than 0 in so many of 1,000 cases.
    pub fn seldom(&mut self, by: u32, of: u32, per_mille: u32) -> u32 {
        self.pick(by, of, |random| {
            if below(random, 1_000) < per_mille { 1 + below(random, of - 1) } else { 0 }
        })
    }

    fn pick(&mut self, by: u32, of: u32, draw: impl FnOnce(&mut u64) -> u32) -> u32 {
        if of <= 1 {
            return 0;
        }
        let picked = match &mut self.source {
            Source::Random(state) => draw(state),
            // A schedule that was made smaller asks other questions than the one that it was.
            Source::Replay(choices) => {
                choices.get(self.record.len()).map_or(0, |picked| picked % of)
            }
            Source::Streams(streams) => {
                streams.get_mut(&by).and_then(Iterator::next).map_or(0, |picked| picked % of)
            }
        };
        self.record.push(Choice { by, of, picked });
        picked
    }

    /// What was picked so far.
    pub fn record(&self) -> &[Choice] {
        &self.record
    }

    /// Takes what was picked so far.
    pub fn take_record(&mut self) -> Vec<Choice> {
        std::mem::take(&mut self.record)
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn below(state: &mut u64, of: u32) -> u32 {
    ((u128::from(next(state)) * u128::from(of)) >> 64) as u32
}

/// Makes a schedule smaller, as long as `fails` says that it still shows what it shows: nobody else's
/// choices move when somebody's are left out. First go those of a whole stream, the longest first;
/// then the ends of streams; then parts are made harmless, and parts are left out, large ones first.
pub fn shrink(choices: &Streams, mut fails: impl FnMut(&Streams) -> bool) -> Streams {
    let mut best = choices.clone();
    loop {
        let before = best.clone();
        let mut all: Vec<u32> = best.0.keys().copied().collect();
        all.sort_by_key(|by| std::cmp::Reverse(best.0[by].len()));
        for by in &all {
            attempt(&mut best, &mut fails, |streams| streams.0.remove(by).is_some());
        }
        for by in all {
            let mut step = best.0.get(&by).map_or(0, |picked| picked.len().next_power_of_two());
            while step > 0 {
                let cut = |picked: &mut Vec<u32>| {
                    let left = picked.len().checked_sub(step);
                    left.inspect(|left| picked.truncate(*left)).is_some()
                };
                if !attempt(&mut best, &mut fails, |streams| streams.change(by, cut)) {
                    step /= 2;
                }
            }
            parts(&mut best, by, &mut fails, |picked, from, to| {
                let some = picked[from..to].iter().any(|picked| *picked != 0);
                picked[from..to].fill(0);
                some
            });
            parts(&mut best, by, &mut fails, |picked, from, to| {
                picked.drain(from..to);
                true
            });
        }
        if best == before {
            return best;
        }
    }
}

/// Tries a change, and keeps it if it is good.
fn attempt(
    best: &mut Streams,
    fails: &mut impl FnMut(&Streams) -> bool,
    change: impl FnOnce(&mut Streams) -> bool,
) -> bool {
    let mut changed = best.clone();
    let good = change(&mut changed) && fails(&changed);
    if good {
        *best = changed;
    }
    good
}

/// Tries a change on every part of a stream, large ones first, and keeps those that are good.
fn parts(
    best: &mut Streams,
    by: u32,
    fails: &mut impl FnMut(&Streams) -> bool,
    change: impl Fn(&mut Vec<u32>, usize, usize) -> bool,
) {
    let length = |best: &Streams| best.0.get(&by).map_or(0, Vec::len);
    let mut size = length(best).next_power_of_two();
    while size > 0 {
        let mut at = 0;
        while at < length(best) {
            let (before, to) = (length(best), (at + size).min(length(best)));
            attempt(best, fails, |all| all.change(by, |picked| change(picked, at, to)));
            // What was left out has made room for the next part.
            at = if length(best) == before { to } else { at };
        }
        size /= 2;
    }
}

/// What there is to pick to deviate from a schedule in one more choice, in one of those after the first
/// `from`: up to the choice that deviates.
pub fn deviations(record: &[Choice], from: usize) -> Vec<Vec<u32>> {
    let picked: Vec<u32> = record.iter().map(|choice| choice.picked).collect();
    let places =
        (from..record.len()).flat_map(|at| (1..record[at].of).map(move |other| (at, other)));
    places.map(|(at, other)| picked[..at].iter().copied().chain([other]).collect()).collect()
}

/// Goes over all schedules that begin with these choices, and deviate from the harmless one in up to so
/// many. `run` runs one, and says what was picked, or that it is enough. Returns how many ran, and whether
/// all did.
pub fn exhaust(
    begin: Vec<u32>,
    most: usize,
    mut run: impl FnMut(Chooser) -> Option<Vec<Choice>>,
) -> (u64, bool) {
    let mut open = vec![begin];
    let mut done = 0;
    while let Some(begin) = open.pop() {
        let deviates = begin.iter().filter(|picked| **picked > 0).count();
        let length = begin.len();
        let Some(record) = run(Chooser::replay(begin)) else { return (done, false) };
        done += 1;
        if deviates < most {
            open.extend(deviations(&record, length).into_iter().rev());
        }
    }
    (done, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_picks_the_same_and_a_replay_too() {
        let draw = |mut chooser: Chooser| -> Vec<u32> {
            (0..100)
                .map(|n| if n % 2 == 0 { chooser.choose(1, 7) } else { chooser.seldom(2, 5, 100) })
                .collect()
        };
        let drawn = draw(Chooser::random(3));
        assert_eq!(drawn, draw(Chooser::random(3)));
        assert_ne!(drawn, draw(Chooser::random(4)));
        assert_eq!(drawn, draw(Chooser::replay(drawn.clone())));
        assert!(draw(Chooser::replay(Vec::new())).iter().all(|picked| *picked == 0));
    }

    #[test]
    fn what_is_rare_is_rare() {
        let mut chooser = Chooser::random(1);
        let other = (0..10_000).filter(|_| chooser.seldom(0, 3, 50) > 0).count();
        assert!((400..600).contains(&other), "{other}");
    }

    #[test]
    fn shrinking_leaves_what_matters() {
        let record = (0..600).map(|n| Choice { by: n % 3, of: 5, picked: n / 3 % 5 });
        let choices = Streams::of(&record.collect::<Vec<_>>());
        let fails = |streams: &Streams| {
            let fours = |by: u32| {
                let picked = streams.0.get(&by).into_iter().flatten();
                picked.filter(|picked| **picked == 4).count()
            };
            fours(0) >= 1 && fours(2) >= 2
        };
        let small = shrink(&choices, fails);
        assert_eq!(small.to_string(), "0:4/2:4,4");
        assert_eq!(small.to_string().parse(), Ok(small));
    }

    #[test]
    fn what_one_picks_does_not_move_what_others_pick() {
        let draw = |others: u32, mut chooser: Chooser| -> Vec<u32> {
            let pick = |_| {
                (0..others).for_each(|_| _ = chooser.choose(1, 9));
                chooser.choose(2, 9)
            };
            (0..5).map(pick).collect()
        };
        let streams: Streams = "1:3,4/2:5,6,7,8,0".parse().unwrap();
        assert_eq!(draw(0, Chooser::streams(streams.clone())), [5, 6, 7, 8, 0]);
        assert_eq!(draw(3, Chooser::streams(streams)), [5, 6, 7, 8, 0]);
    }

    #[test]
    fn all_schedules_within_some_deviations_run_once() {
        let mut seen = std::collections::BTreeSet::new();
        let (done, all) = exhaust(Vec::new(), 2, |mut chooser| {
            let picked: Vec<u32> = (0..4).map(|_| chooser.choose(0, 3)).collect();
            assert!(seen.insert(picked));
            Some(chooser.take_record())
        });
        // None, one of four at two values, two of four at four.
        assert_eq!((done, all), (1 + 4 * 2 + 6 * 4, true));
    }
}
