//! How long one process may keep a node while its tasks pass the lock to each other.

use crate::base::clock::Instant;
use crate::base::policy::Handoffs;

/// The present turn of this process.
#[derive(Debug)]
pub struct Turn {
    left: u32,
    until: Instant,
}

impl Turn {
    /// Begins a turn.
    pub fn begin(bound: &Handoffs, now: Instant) -> Self {
        Turn { left: bound.most, until: now + bound.within }
    }

    /// Whether the limit allows another handoff.
    pub fn is_on(&self, now: Instant) -> bool {
        self.left > 0 && now < self.until
    }

    /// Counts one handoff, if the limit allows it.
    pub fn take(&mut self, now: Instant) -> bool {
        let may = self.is_on(now);
        if may {
            self.left -= 1;
        }
        may
    }
}
