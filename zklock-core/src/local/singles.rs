//! What the queues of single acquires for one lock share: the holders, and the connection for their
//! requests.
//!
//! There is such a queue for each pending acquire. Nobody looks at all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::acquire::send_order::{SendOrder, SendTurn};
use crate::local::grant::Grant;
use crate::session::lane::{Lane, LanePermit};

/// What the queues of single acquires for one lock share.
#[derive(Debug, Default)]
pub struct Singles(Mutex<Common>);

#[derive(Debug, Default)]
struct Common {
    /// May contain some that have ended.
    holders: Vec<Weak<Grant>>,
    /// The connection for those whose nodes are being created.
    line: Weak<Line>,
}

/// A connection, and the order in which requests are sent on it.
#[derive(Debug)]
struct Line {
    lane: Arc<Lane>,
    order: Arc<SendOrder>,
}

/// Kept while a request must not be overtaken by one on another connection.
#[derive(Debug)]
pub struct InOrder {
    _line: Arc<Line>,
}

impl Singles {
    fn lock(&self) -> MutexGuard<'_, Common> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a holder of the lock.
    pub fn note(&self, holder: &Arc<Grant>) {
        let holders = &mut self.lock().holders;
        if holders.len() == holders.capacity() {
            holders.retain(|other| other.strong_count() > 0);
            // Cleaned up rarely, so that not each of many holders looks at all the others.
            holders.reserve(holders.len());
        }
        holders.push(Arc::downgrade(holder));
    }

    /// The holders of the lock.
    pub fn holders(&self) -> Vec<Arc<Grant>> {
        let common = self.lock();
        let there = common.holders.iter().filter_map(Weak::upgrade);
        there.filter(|holder| holder.holds() > 0).collect()
    }

    fn line(&self) -> Option<Arc<Line>> {
        self.lock().line.upgrade()
    }

    /// A place on the connection for requests of one lock (these or `others`), while any of them is
    /// pending. A new connection is chosen if there is none, or if it is down: the requests on that
    /// one, and their order, are lost.
    pub fn assign<'a>(
        &self,
        others: impl Iterator<Item = &'a Singles>,
        assign: impl FnOnce() -> LanePermit,
    ) -> (LanePermit, InOrder, SendTurn) {
        let is_up = |line: &Arc<Line>| line.lane.is_served();
        let line = others.filter_map(Singles::line).find(is_up);
        let mut common = self.lock();
        // Another thread may have assigned it meanwhile.
        let line = common.line.upgrade().filter(is_up).or(line);
        let (lane_permit, line) = match line {
            Some(line) => (line.lane.lane_permit(), line),
            None => {
                let lane_permit = assign();
                let line = Line { lane: lane_permit.lane().clone(), order: Arc::default() };
                (lane_permit, Arc::new(line))
            }
        };
        common.line = Arc::downgrade(&line);
        // Taken here, so that the order is that of the calls.
        let turn = line.order.take();
        (lane_permit, InOrder { _line: line }, turn)
    }
}
