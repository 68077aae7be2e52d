//! The rule of a semaphore.
//!
//! ```text
//! <semaphore>/leases   three nodes and a limit of 3: the fourth waits for any of them to go
//! <semaphore>/locks    a mutex; who waits in `leases` holds it, so at most one does
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::driver::LockDriver;
use super::verdict::Verdict;
use crate::contender::{Attempt, Contender};
use crate::mode::Mode;

/// The permits of Curator's `InterProcessSemaphoreV2`: a node is a permit, and every child counts,
/// whoever made it.
#[derive(Clone, Debug)]
pub struct Permits {
    limit: Arc<AtomicU32>,
}

impl Permits {
    /// Permits up to a limit that may change.
    pub fn new(limit: Arc<AtomicU32>) -> Self {
        Permits { limit }
    }
}

impl LockDriver for Permits {
    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        format!("_c_{}-lease-", attempt.hyphenated())
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let sequence = Contender::sequence_after(name, "-lease-").unwrap_or_default();
        Some(Contender::new(name, sequence, Mode::Permit))
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        let limit = self.limit.load(Ordering::Acquire) as usize;
        if !queue.iter().any(|contender| contender.name == mine.name) {
            return Verdict::Missing;
        }
        match queue.len().saturating_sub(limit) {
            0 => Verdict::Held,
            excess => Verdict::Crowded { excess },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_child_counts_and_the_limit_may_change() {
        let limit = Arc::new(AtomicU32::new(2));
        let permits = Permits::new(limit.clone());
        let names = ["_c_x-lease-0000000007", "foreign", "_c_y-lease-0000000009"];
        let queue = permits.queue(&names.map(str::to_owned));
        let mine = permits.parse(names[2]).unwrap();
        assert_eq!(permits.verdict(&queue, &mine), Verdict::Crowded { excess: 1 });
        limit.store(3, Ordering::Release);
        assert_eq!(permits.verdict(&queue, &mine), Verdict::Held);
        let gone = permits.parse("_c_z-lease-0000000001").unwrap();
        assert_eq!(permits.verdict(&queue, &gone), Verdict::Missing);
    }
}
