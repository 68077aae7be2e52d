//! Counts of durations, exact to 0.1 %.

use std::fmt::Write;

/// A histogram of durations in nanoseconds. Each task has its own, so that counting shares nothing.
#[derive(Clone, Debug)]
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    #[expect(clippy::expect_used, reason = "more than five digits are an error")]
    fn default() -> Self {
        Histogram(hdrhistogram::Histogram::new(3).expect("three digits"))
    }
}

impl Histogram {
    /// Counts one duration.
    pub(crate) fn record(&mut self, nanos: u64) {
        self.0 += nanos;
    }

    /// Adds another's counts.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.0 += &other.0;
    }

    /// How many were counted.
    pub(crate) fn total(&self) -> u64 {
        self.0.len()
    }

    /// The longest.
    pub(crate) fn longest(&self) -> u64 {
        self.0.max()
    }

    /// The duration that a share of all stays below, in nanoseconds.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The counts as `nanoseconds:count` words, which [`read`](Histogram::read) adds up again.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for step in self.0.iter_recorded() {
            _ = write!(words, " {}:{}", step.value_iterated_to(), step.count_at_value());
        }
        words
    }

    /// Adds a word of [`words`](Histogram::words).
    pub(crate) fn read(&mut self, word: &str) -> Option<()> {
        let (nanos, count) = word.split_once(':')?;
        self.0.record_n(nanos.parse().ok()?, count.parse().ok()?).ok()
    }
}
