//! Who waits by a connection that gets no session, while another one of the same process is served.

use super::Rule;
use super::asking::Ask;
use super::ledger::{Ledger, State};
use crate::workload::Layout;

/// How long it is waited for the next session, and how long it then takes to queue up by another connection, in
/// microseconds.
const LONG: u64 = 1_000_000 + 500_000;

/// How often it is looked at, in microseconds.
const LOOK: u64 = 50_000;

impl Ledger {
    /// Somebody waits for a lock, and its process has no node in the queue, although it is connected.
    pub(super) fn goes_elsewhere(&self, state: &mut State, now: u64) -> Option<(Rule, String)> {
        if now < state.looked_behind + LOOK {
            return None;
        }
        state.looked_behind = now;
        let ensemble = self.store.ensemble();
        let is_behind = |ask: &Ask| {
            let (plan, process) = (&self.plans[ask.lock], &ask.process);
            let waits = ask.until > now && !ask.may_hold && ensemble.gets_no_session(process);
            waits && plan.layout != Layout::OneNode && !plan.rests() && !plan.has_permits() && {
                let sessions = ensemble.sessions_of(process);
                let served = sessions.iter().any(|session| !ensemble.is_down(*session));
                served && ensemble.made_since(&plan.queue(), 0, process).is_empty()
            }
        };
        let behind = state.asks.values().filter(|ask| is_behind(ask));
        let behind: Vec<_> = behind.map(|ask| (ask.lock, ask.process.id())).collect();
        state.behind.retain(|place, _| behind.contains(place));
        for place in behind {
            state.behind.entry(place).or_insert(now);
        }
        let (lock, process) = state.behind.iter().find(|(_, since)| *since + LONG <= now)?.0;
        let what = format!("{process}: nobody there queues up for {}", self.plans[*lock].name);
        Some((super::ELSEWHERE, what))
    }
}
