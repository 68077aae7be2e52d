//! What a release that has come back leaves, where others of its process wait for the lock or hold it.

use zklock_core::guard::view::GuardView;

use super::Rule;
use super::asking::Ask;
use super::grants::UNDER_WAY;
use super::ledger::{Held, Ledger, State};
use crate::executor::Process;
use crate::store::Ended;

/// A node that a release has left: the lock has passed to a waiter of this process, who may not know yet.
#[derive(Debug)]
pub(super) struct Passing {
    who: String,
    lock: usize,
    process: Process,
    path: String,
    czxid: u64,
    begun: u64,
    at: u64,
    pauses: u32,
    /// Whether its session cannot have been over by then.
    lives: bool,
}

impl Passing {
    pub(super) fn is_of(&self, czxid: u64) -> bool {
        self.czxid == czxid
    }
}

impl Ledger {
    /// The release of a node, which began then, has come back; others of its process may hold it as well, or wait for it.
    pub fn has_released(
        &self,
        who: &str,
        (lock, process): (usize, &Process),
        node: (String, i64),
        begun: u64,
    ) {
        let (plan, (path, czxid)) = (&self.plans[lock], node);
        let (ensemble, token) = (self.store.ensemble(), czxid.unsigned_abs());
        let stays = plan.lingers || plan.hold() > 0 || plan.has_permits();
        if stays || ensemble.is_stuck(&path) || self.store.end_of(&path, Some(czxid)).is_some() {
            return;
        }
        let (at, pauses, process) = (self.world.now(), process.pauses(), process.clone());
        let mut state = self.lock();
        let holds = |held: &Held| held.token.czxid() == token;
        // Who was given it meanwhile has perhaps let go of it.
        let passed = state.grants_on.get(&token).is_some_and(|at| *at >= begun);
        let lost = state.losses.get(&token).copied().unwrap_or_default();
        let owner = self.store.owner_of(&path, Some(czxid));
        // Whose connection is down takes its session for over by then. While no server leads, none ends it, and one
        // that leads gives all of them their time once more.
        let ended = ensemble.proven(owner).map_or(u64::MAX, |proven| proven + self.timeout);
        let lives = at < (begun.max(lost) + self.timeout).min(ended) && ensemble.has_client(owner);
        let shared = passed
            || state.left_stepping_down.contains(&token)
            || state.held.values().any(holds)
            || state.scopes.has_node(token);
        let is_over = !lives && ensemble.leader().is_none();
        if !shared && !is_over {
            let who = who.to_owned();
            state.passing.push(Passing {
                who,
                lock,
                process,
                path,
                czxid: token,
                begun,
                at,
                pauses,
                lives,
            });
        }
    }

    /// Notes that a call was dropped in which a writer steps down: it holds the reader's node for a while, and nobody has it.
    pub fn left_stepping_down(&self, writer: &GuardView) {
        self.lock().left_stepping_down.insert(writer.fencing_token().czxid());
    }

    /// A node that somebody has released, and that nobody of its process has had since, was deleted only after the
    /// release had come back.
    pub(super) fn passed(&self, state: &mut State, now: u64) -> Option<(Rule, String)> {
        let mut found = None;
        let mut passing = std::mem::take(&mut state.passing);
        passing.retain(|left| {
            let gone = self.store.end_of(&left.path, Some(left.czxid as i64));
            let Some((at, ended)) = gone else { return now < left.at + 2 * self.timeout };
            let ensemble = self.store.ensemble();
            let owner = self.store.owner_of(&left.path, Some(left.czxid as i64));
            let key = (left.lock, left.process.id());
            let since = |at: Option<&u64>| at.is_some_and(|at| *at > left.begun);
            let asks = |ask: &Ask| {
                ask.may_hold && ask.lock == left.lock && ask.process.id() == left.process.id()
            };
            // Whoever was given it gave up, or held it as one of several, or lost it, or stepped down to it until its call
            // was dropped.
            let excused = since(state.given_up.get(&key))
                || state.left_stepping_down.contains(&left.czxid)
                || since(state.lost_at.get(&left.path))
                || since(state.part_ended.get(&key))
                || state.asks.values().any(asks)
                || state.closing.contains(&left.process.id())
                || left.process.pauses() != left.pauses
                || !left.process.is_alive()
                || self.store.is_killed(owner)
                || ensemble.refused_in(owner)
                || self.may_be_mistaken(left.lock, at)
                || !left.lives && !self.store.is_reached_for(now - left.at + UNDER_WAY);
            if ended == Ended::BySelf && !excused {
                let (path, late) = (&left.path, at.saturating_sub(left.at));
                let what = format!("{}: {path} went {late} µs after its release", left.who);
                found = found.take().or(Some((super::RELEASED, what)));
            }
            false
        });
        state.passing = passing;
        found
    }
}
