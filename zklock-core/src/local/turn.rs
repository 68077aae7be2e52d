//! How long one process may keep a node while it hands the lock from task to task.

use std::time::Duration;

use crate::clock::Instant;

/// The bound of handoffs: after so many, or so long, other processes are looked for; if one waits,
/// the lock goes to the back of the fleet's queue.
///
/// ```
/// use zklock_core::local::turn::Handoffs;
///
/// let shared = Handoffs::default();
/// let never = Handoffs::NONE;
/// assert!(shared.most > never.most);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handoffs {
    /// How many.
    pub most: u32,
    /// How long, from the grant by ZooKeeper.
    pub within: Duration,
}

impl Default for Handoffs {
    /// 10,000 handoffs within 10 ms.
    fn default() -> Self {
        Handoffs { most: 10_000, within: Duration::from_millis(10) }
    }
}

impl Handoffs {
    /// No handoffs: every grant looks for other processes first.
    pub const NONE: Handoffs = Handoffs { most: 0, within: Duration::ZERO };
}

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

    /// Takes one handoff if the bound allows it.
    pub fn take(&mut self, now: Instant) -> bool {
        let may = self.left > 0 && now < self.until;
        if may {
            self.left -= 1;
        }
        may
    }
}
