//! How long one process may keep a node while it hands the lock from task to task.

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

    /// Whether the bound allows another handoff.
    pub fn is_on(&self, now: Instant) -> bool {
        self.left > 0 && now < self.until
    }

    /// Takes one handoff if the bound allows it.
    pub fn take(&mut self, now: Instant) -> bool {
        let may = self.is_on(now);
        if may {
            self.left -= 1;
        }
        may
    }
}
