//! The source of every decision of a schedule.
//!
//! All that can go one way or another is asked for here, and recorded. So a schedule is a list of
//! numbers: it can be drawn at random, replayed, made smaller, and enumerated. The alternatives of
//! a decision are ordered so that 0 is the harmless one: nothing fails, the first goes first.

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Between how many alternatives.
    pub of: u32,
    /// Which was picked, from 0.
    pub picked: u32,
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

    /// Picks one of so many alternatives; all are as likely.
    pub fn choose(&mut self, of: u32) -> u32 {
        self.pick(of, |random| below(random, of))
    }

    /// Picks one of so many alternatives, another one than 0 in so many of 1,000 cases.
    pub fn seldom(&mut self, of: u32, per_mille: u32) -> u32 {
        self.pick(
            of,
            |random| {
                if below(random, 1_000) < per_mille { 1 + below(random, of - 1) } else { 0 }
            },
        )
    }

    fn pick(&mut self, of: u32, draw: impl FnOnce(&mut u64) -> u32) -> u32 {
        if of <= 1 {
            return 0;
        }
        let picked = match &mut self.source {
            Source::Random(state) => draw(state),
            // A schedule that was made smaller asks other questions than the one that it was.
            Source::Replay(choices) => {
                choices.get(self.record.len()).map_or(0, |picked| picked % of)
            }
        };
        self.record.push(Choice { of, picked });
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

/// Makes a schedule smaller, as long as `fails` says that it still shows what it shows: its end is
/// left out, then parts are made harmless, then parts are left out, large ones first.
pub fn shrink(choices: &[u32], mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let mut best = choices.to_vec();
    let mut step = best.len().next_power_of_two();
    while step > 0 {
        if step <= best.len() && fails(&best[..best.len() - step]) {
            best.truncate(best.len() - step);
        } else {
            step /= 2;
        }
    }
    loop {
        let before = best.clone();
        parts(&mut best, |choices, from, to| {
            let some = choices[from..to].iter().any(|picked| *picked != 0);
            choices[from..to].fill(0);
            some && fails(choices)
        });
        while best.last() == Some(&0) {
            best.pop();
        }
        parts(&mut best, |choices, from, to| {
            choices.drain(from..to);
            fails(choices)
        });
        if best == before {
            return best;
        }
    }
}

/// Tries a change on every part, large ones first, and keeps those that are good.
fn parts(best: &mut Vec<u32>, mut change: impl FnMut(&mut Vec<u32>, usize, usize) -> bool) {
    let mut size = best.len().next_power_of_two();
    while size > 0 {
        let mut at = 0;
        while at < best.len() {
            let to = (at + size).min(best.len());
            let mut changed = best.clone();
            if change(&mut changed, at, to) {
                at = if changed.len() == best.len() { to } else { at };
                *best = changed;
            } else {
                at = to;
            }
        }
        size /= 2;
    }
}

/// Goes over all schedules that deviate from the harmless one in up to so many choices, at most
/// `most`. `run` runs one, and says what was picked. Returns how many ran, and whether all did.
pub fn exhaust(
    deviations: usize,
    most: u64,
    mut run: impl FnMut(Chooser) -> Vec<Choice>,
) -> (u64, bool) {
    let mut open = vec![Vec::new()];
    let mut done = 0;
    while let Some(prefix) = open.pop() {
        if done == most {
            return (done, false);
        }
        done += 1;
        let deviates = prefix.iter().filter(|picked| **picked > 0).count();
        let length = prefix.len();
        let record = run(Chooser::replay(prefix));
        if deviates == deviations {
            continue;
        }
        let picked: Vec<u32> = record.iter().map(|choice| choice.picked).collect();
        for at in (length..record.len()).rev() {
            for other in 1..record[at].of {
                open.push(picked[..at].iter().copied().chain([other]).collect());
            }
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
                .map(|n| if n % 2 == 0 { chooser.choose(7) } else { chooser.seldom(5, 100) })
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
        let other = (0..10_000).filter(|_| chooser.seldom(3, 50) > 0).count();
        assert!((400..600).contains(&other), "{other}");
    }

    #[test]
    fn shrinking_leaves_what_matters() {
        let choices: Vec<u32> = (0..200).map(|n| n % 5).collect();
        let fails = |choices: &[u32]| choices.iter().filter(|picked| **picked == 4).count() >= 2;
        assert_eq!(shrink(&choices, fails), [4, 4]);
    }

    #[test]
    fn all_schedules_within_some_deviations_run_once() {
        let mut seen = std::collections::BTreeSet::new();
        let (done, all) = exhaust(2, 1_000, |mut chooser| {
            let picked: Vec<u32> = (0..4).map(|_| chooser.choose(3)).collect();
            assert!(seen.insert(picked));
            chooser.take_record()
        });
        // None, one of four at two values, two of four at four.
        assert_eq!((done, all), (1 + 4 * 2 + 6 * 4, true));
    }
}
