//! What the queues for single acquires of one lock have in common: who of them holds it, and the
//! connection that their requests take.
//!
//! There are as many such queues as acquires under way. Nobody looks at all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::local::grant::Possession;
use crate::session::lane::{Lane, Ride};

/// What the queues for single acquires of one lock have in common.
#[derive(Debug, Default)]
pub struct Singles(Mutex<Common>);

#[derive(Debug, Default)]
struct Common {
    /// May name some who are gone.
    holders: Vec<Weak<Possession>>,
    /// Which connection those take whose nodes are on their way.
    line: Weak<Line>,
}

/// A connection on which requests stay in order.
#[derive(Debug)]
struct Line(Arc<Lane>);

/// Kept as long as a request must not be overtaken by one on another connection.
#[derive(Debug)]
pub struct InOrder {
    _line: Arc<Line>,
}

impl Singles {
    fn lock(&self) -> MutexGuard<'_, Common> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes somebody who holds the lock.
    pub fn note(&self, holder: &Arc<Possession>) {
        let holders = &mut self.lock().holders;
        if holders.len() == holders.capacity() {
            holders.retain(|other| other.strong_count() > 0);
            // So that not every one of many who hold it looks at all the others.
            holders.reserve(holders.len());
        }
        holders.push(Arc::downgrade(holder));
    }

    /// Who holds the lock.
    pub fn holders(&self) -> Vec<Arc<Possession>> {
        let common = self.lock();
        let there = common.holders.iter().filter_map(Weak::upgrade);
        there.filter(|holder| holder.holds() > 0).collect()
    }

    fn line(&self) -> Option<Arc<Line>> {
        self.lock().line.upgrade()
    }

    /// A place on the connection that the requests of one lock take, these or `others`, as long as
    /// any of them is on its way; anew if there is none, or if that is down: then what went there is
    /// lost, and with it the order.
    pub fn board<'a>(
        &self,
        others: impl Iterator<Item = &'a Singles>,
        board: impl FnOnce() -> Ride,
    ) -> (Ride, InOrder) {
        let is_up = |line: &Arc<Line>| line.0.is_served();
        let line = others.filter_map(Singles::line).find(is_up);
        let mut common = self.lock();
        // Another thread may have been here meanwhile.
        let line = common.line.upgrade().filter(is_up).or(line);
        let (ride, line) = match line {
            Some(line) => (line.0.ride(), line),
            None => {
                let ride = board();
                let line = Arc::new(Line(ride.lane().clone()));
                (ride, line)
            }
        };
        common.line = Arc::downgrade(&line);
        (ride, InOrder { _line: line })
    }
}
