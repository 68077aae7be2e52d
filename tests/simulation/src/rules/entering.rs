//! Readers that enter together: those who wait in a process when one of them is let in, or a writer steps down.

use super::Rule;
use super::asking::{Ask, Asking};
use super::ledger::{Entry, Ledger, State};
use crate::executor::{Process, ProcessId};
use crate::workload::{Family, LockPlan};

/// How long a caller takes at most to join those who wait.
const JOINED: u64 = 5_000;

/// Somebody reads, and these have waited in its process.
#[derive(Debug)]
pub(super) struct Entering {
    asks: Vec<u64>,
    process: ProcessId,
    rule: Rule,
    path: String,
    at: u64,
    pauses: u32,
}

impl Ledger {
    /// Whether those who read a lock share a node in each process.
    fn is_shared(plan: &LockPlan) -> bool {
        let own = plan.is_fair() || plan.lingers || plan.hold() > 0 || plan.mixed;
        plan.family == Family::ReadWrite && !own
    }

    /// A writer of a lock, which began to step down then, has become a reader, and was not asked to let go: those enter
    /// who have waited for it here.
    pub fn steps_down(&self, (lock, process): (usize, &Process), path: &str, begun: u64) {
        self.expect(super::ENTERS, (lock, process), path, begun, None);
    }

    /// Whoever has waited to read is let in, and with it all who have waited here.
    pub(super) fn lets_in(&self, entry: &Entry, path: &str, asking: &Asking) {
        let since = self.lock().asks.get(&asking.id).map(|ask| ask.since);
        let now = self.world.now();
        if entry.share.0 < entry.share.1 && since.is_some_and(|since| since + JOINED < now) {
            self.expect(super::SHARED, (entry.lock, &entry.process), path, now, Some(asking.id));
        }
    }

    fn expect(
        &self,
        rule: Rule,
        (lock, process): (usize, &Process),
        path: &str,
        begun: u64,
        mine: Option<u64>,
    ) {
        if !Self::is_shared(&self.plans[lock]) {
            return;
        }
        let at = self.world.now();
        let mut state = self.lock();
        let is_here = |(id, ask): &(&u64, &Ask)| {
            ask.lock == lock
                && ask.process.id() == process.id()
                && mine != Some(**id)
                && !ask.answered
        };
        // Whoever waits to write, or of whom it is not known, may be ahead. A writer that only tries keeps nobody out.
        let writes = |ask: &Ask| ask.wanted != Some(1) && (ask.until > 0 || ask.wanted.is_none());
        let is_ahead = |(_, ask): (&u64, &Ask)| ask.may_hold || writes(ask);
        // One that was ahead when it began has perhaps given up since: whether others may enter is asked then.
        let gave_up = state.given_up.get(&(lock, process.id())).is_some_and(|at| *at >= begun);
        if gave_up || state.asks.iter().filter(is_here).any(is_ahead) {
            return;
        }
        // Who asks once is perhaps turned away already, and asks by whom.
        let waits =
            |ask: &Ask| ask.wanted == Some(1) && ask.since + JOINED < begun && ask.until > at;
        let asks = state.asks.iter().filter(is_here).filter(|(_, ask)| waits(ask));
        let asks: Vec<u64> = asks.map(|(id, _)| *id).collect();
        if !asks.is_empty() {
            let (path, pauses, process) = (path.to_owned(), process.pauses(), process.id());
            state.entering.push(Entering { asks, process, rule, path, at, pauses });
        }
    }

    /// Whether those who have waited are let in as well, when nobody who was woken is still to run.
    pub(super) fn enter(
        &self,
        state: &mut State,
        now: u64,
        all_ran: bool,
    ) -> Option<(Rule, String)> {
        if state.entering.is_empty() {
            return None;
        }
        let mut found = None;
        let mut entering = std::mem::take(&mut state.entering);
        entering.retain(|one| {
            if !all_ran || now <= one.at {
                return true;
            }
            let outside = one.asks.iter().filter_map(|id| state.asks.get(id)).find(|ask| {
                let runs = ask.process.is_alive() && !ask.process.is_paused();
                runs && !ask.answered && ask.process.pauses() == one.pauses
            });
            let mut held = state.held.values().filter(|held| held.path == one.path);
            let lost = held.any(|held| held.lost.is_some() || held.gone.is_some());
            if outside.is_some() && !lost && !state.closing.contains(&one.process) {
                let what = format!("{} is held, and a reader waits in its process", one.path);
                found = found.take().or(Some((one.rule, what)));
            }
            false
        });
        // The next step may be the one after which all have run.
        if !entering.is_empty() {
            self.has_news();
        }
        state.entering = entering;
        found
    }
}
