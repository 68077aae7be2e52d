//! Counts of durations, exact to 0.4 %.

use std::fmt::Write;

/// Below this many nanoseconds each value has a bucket of its own; above, each power of two has
/// so many buckets.
const FINE: u64 = 256;

/// A histogram of durations in nanoseconds. Small enough for each task to have its own, so that
/// counting costs a few nanoseconds and no sharing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

fn bucket(nanos: u64) -> usize {
    if nanos < FINE {
        return nanos as usize;
    }
    let shift = 63 - nanos.leading_zeros() - FINE.trailing_zeros();
    ((u64::from(shift) + 1) * FINE + ((nanos >> shift) & (FINE - 1))) as usize
}

fn value(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < FINE {
        return bucket;
    }
    let shift = bucket / FINE - 1;
    ((FINE + bucket % FINE) << shift) + (1 << shift) / 2
}

impl Histogram {
    /// Counts one duration.
    pub(crate) fn record(&mut self, nanos: u64) {
        self.add(nanos, 1);
    }

    fn add(&mut self, nanos: u64, count: u64) {
        let index = bucket(nanos);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += count;
        self.total += count;
        self.longest = self.longest.max(nanos);
    }

    /// Adds another's counts.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// How many were counted.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The longest, exactly.
    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }

    /// The duration that a share of all stays below, in nanoseconds.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let rank = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return value(index).min(self.longest);
            }
        }
        self.longest
    }

    /// The counts as `nanoseconds:count` words, which [`read`](Histogram::read) adds up again.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            _ = write!(words, " {}:{count}", value(index));
        }
        _ = write!(words, " {}:0", self.longest);
        words
    }

    /// Adds a word of [`words`](Histogram::words).
    pub(crate) fn read(&mut self, word: &str) -> Option<()> {
        let (nanos, count) = word.split_once(':')?;
        self.add(nanos.parse().ok()?, count.parse().ok()?);
        Some(())
    }
}
