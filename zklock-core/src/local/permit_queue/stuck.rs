//! Waiting for ever for permits whose leases are over, because the one who lost them cannot give them back.

use std::sync::Arc;

use super::Permits;
use crate::acquire::granting::ask_for_node;
use crate::acquire::lease::Lease;
use crate::acquire::obstacle::Obstacle;
use crate::local::callers::Decides;
use crate::local::grant::Grant;
use crate::local::itself::{stops_owner, stuck};
use crate::local::permits::PermitRequest;
use crate::local::queue::Queue;
use crate::local::waiter::Waiter;

impl Queue<Permits> {
    /// Refuses those who wait for permits if they keep the owners of too many from giving theirs back. A
    /// commit shows that the nodes of lost permits exist and their ZooKeeper session lives on: otherwise
    /// they go by themselves.
    pub(super) async fn refuse_behind_lost(self: &Arc<Self>, obstacle: &Obstacle) {
        if obstacle.is_old || !self.is_fixed() {
            return;
        }
        let held = self.stopped();
        let is_stuck = |waiting: &Waiter<PermitRequest>| {
            let stopped = held.iter().filter(|by| stops_owner(&waiting.who, by));
            let stopped = stopped.map(|by| staying(by).count() as u64).sum();
            !waiting.once && self.is_too_much(stopped, waiting.wants.permits)
        };
        if !self.lock().state.waiting().any(is_stuck) {
            return;
        }
        let there = held.iter().flat_map(|by| staying(by));
        for lost in there.filter(|lease| !lease.is_valid()) {
            if !is_certainly_there(lost).await {
                return;
            }
        }
        drop(self.decide(|state| state.refuse(is_stuck, stuck)));
    }

    /// The holders of permits in this session whom somebody stops who waits here.
    fn stopped(self: &Arc<Self>) -> Vec<Arc<Grant>> {
        let held = self.holders();
        let is_stopped: Vec<_> = {
            let inner = self.lock();
            let by_any = |by: &Arc<Grant>| {
                inner.state.waiting().any(|waiting| stops_owner(&waiting.who, by))
            };
            held.iter().map(by_any).collect()
        };
        // Whoever drops the last reference to a holder drops its queue, which takes other locks.
        held.into_iter().zip(is_stopped).filter_map(|(by, is)| is.then_some(by)).collect()
    }
}

/// The permits of a holder whose nodes probably stay until it gives them back, on whatever connection it got
/// them.
fn staying(by: &Grant) -> impl Iterator<Item = &Arc<Lease>> {
    by.leases().filter(|lease| lease.stays())
}

async fn is_certainly_there(lease: &Lease) -> bool {
    while lease.stays() {
        if let Some(is_there) = ask_for_node(lease).await {
            return is_there;
        }
    }
    false
}
