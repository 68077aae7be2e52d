//! Who asks inside for a lock that is held, and what the answers say.

use std::collections::BTreeMap;
use std::sync::Arc;

use zklock_core::base::error::LockError;
use zklock_core::base::error_kind::ErrorKind;
use zklock_core::lock::AnyLock;

use super::Rule;
use super::ledger::{Ledger, State};
use super::scopes::Scope;
use crate::executor::{Process, ProcessId};
use crate::few::Few;

/// What needs no answer of a server takes less, in microseconds.
const AT_ONCE: u64 = 200;

/// What is noted is perhaps noted so much later than it was seen.
const NOTED: u64 = 1_000;

/// A task that is woken runs by then.
const SOON: u64 = 50_000;

/// A lock in a process.
type Key = (usize, ProcessId);

/// Who asks inside, and when somebody was done there.
#[derive(Debug, Default)]
pub(super) struct Turns {
    asking: Few<Waiting>,
    /// When a call, or a guard, ended last.
    ended: BTreeMap<Key, u64>,
}

#[derive(Debug)]
struct Waiting {
    key: Key,
    /// The scopes around it, the outermost first.
    around: Vec<u64>,
    since: u64,
    /// Whether it reads.
    reads: bool,
    /// Whether it was in one that lived, when it began.
    nested: bool,
    /// By which rule it is refused at once.
    refused: Option<Rule>,
}

impl Turns {
    /// A call, or a guard, has ended.
    pub(super) fn end(&mut self, key: Key, now: u64) {
        self.ended.insert(key, now);
    }

    /// A process that stood still goes on.
    pub(super) fn go_on(&mut self, process: ProcessId, now: u64) {
        self.ended.iter_mut().filter(|((_, of), _)| *of == process).for_each(|(_, at)| *at = now);
    }

    /// Whether nobody but this one has asked, or held, since it began.
    fn is_alone(&self, waiting: &Waiting) -> bool {
        let near = self.asking.values().filter(|other| other.key == waiting.key).count();
        near == 1 && self.ended.get(&waiting.key).is_none_or(|at| *at < waiting.since)
    }
}

/// Somebody asks inside, until this is dropped.
#[derive(Debug)]
pub struct Question {
    ledger: Arc<Ledger>,
    id: u64,
}

impl Drop for Question {
    fn drop(&mut self) {
        let now = self.ledger.world.now();
        let mut state = self.ledger.lock();
        if let Some(waiting) = state.scopes.turns.asking.remove(&self.id) {
            state.scopes.turns.end(waiting.key, now);
        }
    }
}

impl Ledger {
    /// Notes that somebody asks inside these scopes, the outermost of which is the first.
    pub fn asks_inside(
        self: &Arc<Self>,
        (lock, process): (usize, &Process),
        around: &[u64],
        asked: &AnyLock,
    ) -> Question {
        let mut state = self.lock();
        let reads = matches!(asked, AnyLock::Read(_));
        let around_reads = state.scopes.nearest(around, reads).map(|(_, scope)| scope.reads);
        let refused = match around_reads {
            Some(true) if !reads => Some(super::UPGRADE),
            Some(_) if !self.plans[lock].is_reentrant() => Some(super::NOT_AGAIN),
            _ => None,
        };
        state.next += 1;
        let (id, key, since) = (state.next, (lock, process.id()), self.world.now());
        let (around, nested) = (around.to_vec(), around_reads.is_some());
        let waiting = Waiting { key, around, since, reads, nested, refused };
        state.scopes.turns.asking.insert(id, waiting);
        Question { ledger: self.clone(), id }
    }

    /// Looks at the answer to somebody who asked inside.
    pub fn check_answer<T>(&self, who: &str, question: &Question, answer: &Result<T, LockError>) {
        let state = self.lock();
        let turns = &state.scopes.turns;
        let Some(waiting) = turns.asking.get(&question.id) else { return };
        let kind = answer.as_ref().err().map(LockError::kind);
        if !waiting.nested {
            // It waits in the queue, also for what a reader around it has left.
            drop(state);
            if kind == Some(ErrorKind::Deadlock) {
                self.fail(super::NESTED, format!("{who}: nobody is around it: Deadlock"));
            }
            return;
        }
        let around = state.scopes.nearest(&waiting.around, waiting.reads);
        // Otherwise it waits in the queue by now, or did for a while.
        let Some((id, scope)) = around.filter(|(_, scope)| !scope.went_on) else { return };
        let now = self.world.now();
        let may_be = match (waiting.refused, kind) {
            (Some(_), Some(ErrorKind::Deadlock)) => now < waiting.since + AT_ONCE,
            (Some(_), _) => !scope.view.is_valid(),
            // What is lost is not had inside, and also not by who asked before.
            (None, None) => scope.lost.is_none_or(|lost| {
                lost + NOTED > waiting.since
                    && (lost + SOON > now || self.is_limited(&state, scope, lost))
            }),
            (None, Some(ErrorKind::Busy)) => {
                !turns.is_alone(waiting) || state.scopes.inside(id).next().is_some()
            }
            (None, Some(ErrorKind::Lost | ErrorKind::HeldTooLong)) => !scope.view.is_valid(),
            (None, Some(_)) => state.closing.contains(&waiting.key.1),
        };
        if may_be {
            return;
        }
        let (name, late) = (self.plans[scope.lock].name, now - waiting.since);
        let usual = if kind.is_some() { super::NESTED } else { super::INSIDE };
        let rule = waiting.refused.unwrap_or(usual);
        drop(state);
        let told = kind.map_or("it is granted".to_owned(), |kind| format!("{kind:?}"));
        self.fail(rule, format!("{who}, inside: {name} is held: {told} after {late} µs"));
    }

    /// Whether what is held for too long is lost without being told: the time is over, and nothing happened.
    fn is_limited(&self, state: &State, scope: &Scope, lost: u64) -> bool {
        self.is_over(&state.began, (scope.lock, scope.view.fencing_token()), lost)
    }

    /// Nobody waits in the scope of what is lost.
    pub(super) fn waits_for_the_lost(&self, state: &State, now: u64) -> Option<(Rule, String)> {
        let scopes = &state.scopes;
        scopes.turns.asking.values().filter(|waiting| waiting.nested).find_map(|waiting| {
            let (id, scope) = scopes.nearest(&waiting.around, waiting.reads)?;
            let lost = scope.lost?;
            let since = lost.max(waiting.since);
            let runs = scope.process.is_alive() && !scope.process.is_paused();
            let limited = self.is_limited(state, scope, lost);
            let late = runs && !limited && !scope.went_on && now > since + SOON;
            let (path, long) = (scope.view.node_path(), now - since);
            late.then(|| {
                (super::INSIDE, format!("{path}: lost, and awaited in {id}, for {long} µs"))
            })
        })
    }

    /// Nobody waits in a scope in which nobody else is.
    pub(super) fn turns_left(&self, state: &State, now: u64) -> Option<(Rule, String)> {
        let (scopes, turns) = (&state.scopes, &state.scopes.turns);
        turns.asking.values().find_map(|waiting| {
            let ended = turns.ended.get(&waiting.key).copied().unwrap_or_default();
            let since = waiting.since.max(ended);
            if !waiting.nested || now <= since + SOON {
                return None;
            }
            let (id, scope) = scopes.nearest(&waiting.around, waiting.reads)?;
            let runs = scope.process.is_alive() && !scope.process.is_paused();
            if scope.went_on || !runs || scopes.inside(id).next().is_some() {
                return None;
            }
            let (path, long) = (scope.view.node_path(), now - since);
            Some((super::TURNS, format!("{path}: nobody is inside of {id}, for {long} µs")))
        })
    }
}
