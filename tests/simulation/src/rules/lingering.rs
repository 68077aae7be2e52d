//! A lock that lingers.

use super::Rule;
use super::asking::{Ask, Asking, LONG_WAIT};
use super::grants::UNDER_WAY;
use super::ledger::{Held, Ledger, State};
use crate::executor::Process;
use crate::store::Ended;
use crate::workload::Family;

/// A node that was let go of and is kept.
#[derive(Debug)]
pub(super) struct Lingering {
    lock: usize,
    path: String,
    czxid: i64,
    owner: i64,
    process: Process,
    since: u64,
    /// Whether its session was in doubt meanwhile.
    doubted: bool,
}

impl Lingering {
    pub(super) fn is_at(&self, path: &str) -> bool {
        self.path == path
    }
}

/// How long somebody who asks once waits for what lingers, at least.
const GIVES_WAY: u64 = 90_000;

/// A task that is woken runs by then.
const SOON: u64 = 50_000;

impl Ledger {
    /// A guard was let go of, whose node may linger.
    pub(super) fn lingers(&self, held: &Held) {
        let (entry, now) = (&held.entry, self.world.now());
        // Who is asked to let go keeps nothing, also if it has not heard of it yet.
        let asked = entry.view.is_revoked() || held.wished.is_some();
        // Where others do not let it linger, it depends on them.
        let lingers = self.plans[entry.lock].lingers && !self.plans[entry.lock].tried;
        if !lingers || asked || !entry.view.is_valid() {
            return;
        }
        let lingering = Lingering {
            lock: entry.lock,
            path: held.path.clone(),
            czxid: held.token.czxid() as i64,
            owner: held.owner,
            process: entry.process.clone(),
            since: now,
            doubted: false,
        };
        self.lock().lingering.push(lingering);
    }

    /// Whether somebody who asks once is told too soon that a lock is busy, which nobody has or wants.
    pub(super) fn gives_no_way(&self, mine: &Asking) -> bool {
        let (state, now) = (self.lock(), self.world.now());
        let Some(ask) = state.asks.get(&mine.id) else { return false };
        let plan = &self.plans[ask.lock];
        let asks_once = plan.lingers && plan.tried && ask.until == 0 && !ask.may_hold;
        if !asks_once || now > ask.since + GIVES_WAY || self.store.faults() > 0 {
            return false;
        }
        let before = ask.since.saturating_sub(UNDER_WAY);
        let wanted = |(id, other): (&u64, &Ask)| *id != mine.id && other.lock == ask.lock;
        let mut asked = state.asked.iter().filter(|((lock, _), _)| *lock == ask.lock);
        let is_used = state.asks.iter().any(wanted)
            || asked.any(|(_, at)| *at >= before)
            || state.let_go.get(&ask.lock).is_some_and(|at| *at >= before)
            || state.held.values().any(|held| held.entry.lock == ask.lock);
        !is_used
    }

    /// A node that lingers goes when its time is over, when somebody queues behind it, and when the
    /// connection is in doubt, or its session is used no more.
    pub(super) fn kept(&self, state: &mut State, now: u64) -> Option<(Rule, String)> {
        if state.lingering.is_empty() {
            return None;
        }
        let (mut found, ensemble) = (None, self.store.ensemble());
        let (closing, asks, given_up) = (&state.closing, &state.asks, &state.given_up);
        state.lingering.retain_mut(|node| {
            let until = node.since + self.plans[node.lock].linger();
            let proven = ensemble.proven(node.owner).unwrap_or_default();
            node.doubted |= now > proven + self.timeout / 4
                || ensemble.is_down(node.owner)
                || !self.store.is_reached_for(self.timeout);
            let Some((at, ended)) = self.store.end_of(&node.path, Some(node.czxid)) else {
                return now < until;
            };
            let below = format!("/zklock/{}/", self.plans[node.lock].name);
            // Where answers are missing, it may know only of somebody who has left; where notifications are, for
            // as long as until it looks again.
            let long = self.timeout.max(LONG_WAIT);
            let unheard =
                ensemble.is_unheard_since(node.since.saturating_sub(2 * long), &node.process);
            let known = node.since.saturating_sub(if unheard { long } else { self.timeout });
            let wanted = || ensemble.used_elsewhere(&below, known, &node.process);
            // Other options have a queue of their own in this process.
            let wanted = || wanted() || ensemble.had_one(&below, node.czxid, known, at);
            // A lock below it looks like somebody who waits.
            let wanted = || wanted() || self.has_locks_below(&self.plans[node.lock]);
            // Whoever waits for it here, and is not told for a sixth of a session timeout whether somebody queues,
            // does so.
            let untold = |ask: &Ask| {
                let near = ask.lock == node.lock && ask.process.id() == node.process.id();
                near && ask.since + self.timeout / 6 <= at
                    && !self.store.answers_for(2 * self.timeout)
            };
            // One who reads and one who writes do not share a node: for the other it goes.
            let is_shared = self.plans[node.lock].family != Family::ReadWrite;
            // So does what was asked for somebody who has given up.
            let here = (node.lock, node.process.id());
            let asked = || given_up.get(&here).is_some_and(|at| *at >= node.since);
            let lost = || !self.store.answers_for(2 * self.timeout);
            let early = is_shared && ended == Ended::BySelf && at + SOON < until && !node.doubted;
            // A session may be used no more when something is refused in it, or one of its servers shows a node too many,
            // of whatever lock.
            let excused = closing.contains(&node.process.id()) || ensemble.refused_in(node.owner);
            let excused = excused || ensemble.was_shown_strays("/zklock/", known, &node.process);
            let excused = excused || asks.values().any(untold) || asked() && lost();
            if early && !excused && !wanted() {
                let what = format!("{} went {} µs before its time", node.path, until - at);
                found = Some((super::LINGERS, what));
            }
            false
        });
        found
    }
}
