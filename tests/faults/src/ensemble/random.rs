//! The same choices for the same seed.

/// Knuth's linear congruential generator; the low bits are not used.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A number below a bound.
    pub(super) fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// One of several.
    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.below(all.len() as u64);
        &all[usize::try_from(index).unwrap_or_default()]
    }
}
