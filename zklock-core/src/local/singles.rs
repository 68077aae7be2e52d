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
    /// How many have not ended. Whoever keeps a view of one that has ended keeps it among the others.
    held: usize,
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
        let mut common = self.lock();
        let holders = &mut common.holders;
        if holders.len() == holders.capacity() {
            holders.retain(|other| other.strong_count() > 0);
            // Cleaned up rarely, so that not each of many holders looks at all the others.
            holders.reserve(holders.len());
        }
        holders.push(Arc::downgrade(holder));
        common.held += 1;
    }

    /// Records that one of the holders has ended.
    pub fn forget_one(&self) {
        let mut common = self.lock();
        common.held = common.held.saturating_sub(1);
    }

    /// The holders of the lock.
    pub fn holders(&self) -> Vec<Arc<Grant>> {
        self.holders_where(|_| true)
    }

    /// Those of whom this is so.
    pub fn holders_where(&self, so: impl Fn(&Grant) -> bool) -> Vec<Arc<Grant>> {
        let mut ended = Vec::new();
        let common = self.lock();
        those(common.holders.iter(), |by| by.holds() > 0 && so(by), &mut ended)
    }

    /// Whether anybody holds the lock. Drops no holder, so that it can be asked under any lock.
    pub fn is_held(&self) -> bool {
        self.lock().held > 0
    }

    fn line(&self) -> Option<Arc<Line>> {
        self.lock().line.upgrade()
    }

    /// A place on the connection for requests of one lock (these or `others`), while any of them is
    /// pending. A new connection is chosen if there is none, or if it is down, silent or full: those that wait on that one
    /// may come later than these, or not at all. On the same connection the order
    /// remains, so also while the first one is being opened.
    pub fn assign<'a>(
        &self,
        others: impl Iterator<Item = &'a Singles>,
        assign: impl Fn() -> LanePermit,
    ) -> (LanePermit, InOrder, SendTurn) {
        let now = |line: &Line| line.lane.clock().now();
        let is_open =
            |line: &Line| line.lane.is_served_at(now(line)) && !line.lane.node_load().is_full();
        let mut lines: Vec<_> = others.filter_map(Singles::line).collect();
        let mut assigned: Option<LanePermit> = None;
        loop {
            let mut common = self.lock();
            // Another thread may have assigned it meanwhile.
            lines.extend(common.line.upgrade());
            let (lane_permit, line) = match lines.iter().rev().find(|line| is_open(line)) {
                Some(line) => (line.lane.lane_permit(now(line)), line.clone()),
                None => {
                    let Some(lane_permit) = assigned.take() else {
                        drop(common);
                        // Nothing is locked: to open an embedded connection lets others run, who ask for this lock as well.
                        assigned = Some(assign());
                        continue;
                    };
                    let lane = lane_permit.lane();
                    let of_lane = lines.iter().rev().find(|line| Arc::ptr_eq(&line.lane, lane));
                    let new = || Arc::new(Line { lane: lane.clone(), order: Arc::default() });
                    let line = of_lane.cloned().unwrap_or_else(new);
                    (lane_permit, line)
                }
            };
            common.line = Arc::downgrade(&line);
            // Taken here, so that the order is that of the calls.
            let turn = line.order.take();
            return (lane_permit, InOrder { _line: line }, turn);
        }
    }
}

/// Those of these holders of whom this is so. The others, of whom there may be hundreds, are not kept. But where this is
/// under a lock, nobody may drop the last reference to a holder, which drops its queue and takes other locks: that one is
/// among the `ended`.
pub(super) fn those<'a>(
    holders: impl Iterator<Item = &'a Weak<Grant>>,
    so: impl Fn(&Grant) -> bool,
    ended: &mut Vec<Grant>,
) -> Vec<Arc<Grant>> {
    let mut found = Vec::new();
    for by in holders.filter_map(Weak::upgrade) {
        match so(&by) {
            true => found.push(by),
            false => ended.extend(Arc::into_inner(by)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;
    use crate::coordinator::memory::Embedded;
    use crate::coordinator::request_error::RequestError;
    use crate::session::handle::Session;

    /// To open an embedded connection lets time pass there, and whoever waits for this lock may be granted it.
    #[test]
    fn others_are_granted_the_lock_while_a_connection_is_opened_for_it() {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let session = Session::embedded();
            let singles = Singles::default();
            let assign = || {
                singles.forget_one();
                session.assign()
            };
            drop(singles.assign([].into_iter(), assign));
            tell.send(()).unwrap();
        });
        told.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    }

    /// Their requests are not sent yet, so none of them can be lost.
    #[test]
    fn calls_before_the_first_connection_have_an_order_too() {
        let store = Embedded::new();
        store.begin_outage(RequestError::Unreachable(String::new()));
        let session = Session::embedded_builder(&store).open().unwrap();
        let singles = Singles::default();
        let [one, other] = [(); 2].map(|()| singles.assign([].into_iter(), || session.assign()));
        assert!(block_on(poll_once(other.2.comes())).is_none(), "the first call is not sent");
        drop(one);
        block_on(other.2.comes());
    }
}
