//! Who holds a lock inside of whom: nested calls, as deep as they go.
//!
//! A scope is that of a guard. It lives as long as its guard holds the lock, or another one that was acquired in it.
//! A call takes its turn in the innermost living scope around it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zklock_core::base::error_kind::ErrorKind;
use zklock_core::base::token::FencingToken;
use zklock_core::guard::view::GuardView;
use zklock_core::lock::AnyGuard;

use super::Rule;
use super::kept_out::Caller;
use super::ledger::{Entry, Ledger, State};
use super::turns::Turns;
use crate::executor::{Process, ProcessId, current_task};
use crate::few::Few;
use crate::store::Ended;

/// The scopes that live, and who asks in them.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    all: Few<Scope>,
    pub(super) turns: Turns,
}

/// The scope of a guard.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) lock: usize,
    pub(super) process: Process,
    pub(super) view: GuardView,
    /// Whether its guard reads.
    pub(super) reads: bool,
    /// In which its guard was acquired; none, if that is the outermost one.
    around: Option<u64>,
    /// Whether its guard still holds the lock.
    held: bool,
    /// Whether nobody gets in, because its guard steps down.
    closed: bool,
    /// Whether its guard was to step down once, and did not: who came in between waits in the queue.
    pub(super) went_on: bool,
    /// Which task acquired its guard.
    pub(super) who: Caller,
    /// Whether its guard was detached: another task may keep it.
    pub(super) detached: bool,
    /// Since when its guard is not valid.
    pub(super) lost: Option<u64>,
}

impl Scope {
    pub(super) fn key(&self) -> (usize, ProcessId) {
        (self.lock, self.process.id())
    }
}

impl Scopes {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The innermost of these in which a call takes its turn. One that writes waits further out for what a reader
    /// that has gone has left.
    pub(super) fn nearest(&self, around: &[u64], reads: bool) -> Option<(u64, &Scope)> {
        let living = |id: &u64| Some((*id, self.all.get(id)?));
        let passed_by = |scope: &Scope| scope.closed || !reads && scope.reads && !scope.held;
        around.iter().rev().filter_map(living).find(|(_, scope)| !passed_by(scope))
    }

    /// The scopes in which the guards of this one were acquired.
    pub(super) fn inside(&self, id: u64) -> impl Iterator<Item = (&u64, &Scope)> {
        self.all.iter().filter(move |(_, scope)| scope.around == Some(id))
    }

    /// Whether one of them has a node.
    pub(super) fn has_node(&self, czxid: u64) -> bool {
        self.all.values().any(|scope| scope.view.fencing_token().czxid() == czxid)
    }

    /// Whether several guards that are there have a token: one was acquired inside of another, though that is noted as
    /// another one since it was to step down and did not.
    pub(super) fn share(&self, token: FencingToken) -> bool {
        self.held().filter(|scope| scope.view.fencing_token() == token).count() > 1
    }

    /// Those whose guards are there.
    pub(super) fn held(&self) -> impl Iterator<Item = &Scope> {
        self.all.values().filter(|scope| scope.held)
    }

    /// Those whose guards are there and not valid.
    pub(super) fn lost(&self) -> impl Iterator<Item = &Scope> {
        let held = self.held().filter(|scope| !scope.closed);
        held.filter(|scope| scope.lost.is_some())
    }

    /// Notes which of them are lost by now.
    pub(super) fn lose(&mut self, now: u64, losses: &mut BTreeMap<u64, u64>) {
        for scope in self.all.values_mut().filter(|scope| scope.lost.is_none()) {
            if scope.process.runs() && !scope.view.is_valid() {
                scope.lost = Some(now);
                losses.entry(scope.view.fencing_token().czxid()).or_insert(now);
            }
        }
    }

    /// A process that stood still goes on.
    pub(super) fn go_on(&mut self, process: ProcessId, now: u64) {
        self.turns.go_on(process, now);
        for scope in self.all.values_mut().filter(|scope| scope.process.id() == process) {
            scope.lost = scope.lost.map(|_| now);
        }
    }

    /// The outermost scope around this one.
    fn outermost<'a>(&'a self, mut scope: &'a Scope) -> &'a Scope {
        while let Some(around) = scope.around.and_then(|around| self.all.get(&around)) {
            scope = around;
        }
        scope
    }

    /// Takes out those that live no more, given the innermost.
    fn end(&mut self, id: u64) -> Vec<Scope> {
        let (mut ended, mut next) = (Vec::new(), Some(id));
        while let Some(id) = next {
            let lives = self.all.get(&id).is_none_or(|scope| scope.held);
            if lives || self.inside(id).next().is_some() {
                break;
            }
            let scope = self.all.remove(&id);
            next = scope.as_ref().and_then(|scope| scope.around);
            ended.extend(scope);
        }
        ended
    }
}

/// A guard in whose scope others may ask, until this is dropped: before that guard is.
#[derive(Debug)]
pub struct Inner {
    ledger: Arc<Ledger>,
    id: u64,
}

impl Inner {
    /// The number of its scope.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether no other guard holds the lock with it, around it or inside of it.
    pub fn is_alone(&self) -> bool {
        let state = self.ledger.lock();
        let Some(own) = state.scopes.all.get(&self.id) else { return false };
        let token = own.view.fencing_token();
        let beside = |id: &u64, scope: &Scope| {
            let near = *id != self.id && scope.held && scope.key() == own.key();
            near && scope.view.fencing_token() == token
        };
        !state.scopes.all.iter().any(|(id, scope)| beside(id, scope))
    }

    /// Whether something that was acquired in its scope holds the lock. If not, its guard steps down now, and nobody
    /// gets in.
    pub fn steps_down(&self) -> bool {
        let mut state = self.ledger.lock();
        let nested = state.scopes.inside(self.id).next().is_some();
        if let Some(scope) = state.scopes.all.get_mut(&self.id) {
            scope.closed = !nested;
        }
        nested
    }

    /// Its guard is detached.
    pub fn is_detached(&self) {
        if let Some(scope) = self.ledger.lock().scopes.all.get_mut(&self.id) {
            scope.detached = true;
        }
    }

    /// Its guard has not stepped down.
    pub fn goes_on(&self) {
        if let Some(scope) = self.ledger.lock().scopes.all.get_mut(&self.id) {
            scope.went_on |= std::mem::take(&mut scope.closed);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let now = self.ledger.world.now();
        let mut state = self.ledger.lock();
        if let Some(scope) = state.scopes.all.get_mut(&self.id) {
            scope.held = false;
            let key = scope.key();
            state.scopes.turns.end(key, now);
        }
        let ended = state.scopes.end(self.id);
        drop(state);
        drop(ended);
    }
}

impl Ledger {
    /// Notes that others may ask in the scope of a guard, which is the outermost one.
    pub fn opens(
        self: &Arc<Self>,
        who: Caller,
        (lock, process): (usize, &Process),
        guard: &AnyGuard,
    ) -> Inner {
        self.add(&mut self.lock(), (lock, process, who), guard, None)
    }

    fn add(
        self: &Arc<Self>,
        state: &mut State,
        (lock, process, who): (usize, &Process, Caller),
        guard: &AnyGuard,
        around: Option<u64>,
    ) -> Inner {
        state.next += 1;
        self.has_news();
        let (id, reads) = (state.next, matches!(guard, AnyGuard::Read(_)));
        let (process, view) = (process.clone(), guard.view());
        let (held, closed, went_on) = (true, false, false);
        let lost = None;
        let detached = false;
        let scope = Scope {
            lock,
            process,
            view,
            reads,
            around,
            held,
            closed,
            went_on,
            who,
            detached,
            lost,
        };
        state.scopes.all.insert(id, scope);
        Inner { ledger: self.clone(), id }
    }

    /// Notes that somebody who asked inside these scopes has a guard. Whether it is nested in one of them: if not, it
    /// waited in the queue.
    pub fn enters(
        self: &Arc<Self>,
        who: &str,
        (lock, process): (usize, &Process),
        around: &[u64],
        guard: &AnyGuard,
    ) -> (Inner, bool) {
        let mut guarded = self.lock();
        let state = &mut *guarded;
        let (scopes, token) = (&state.scopes, guard.fencing_token());
        let reads = matches!(guard, AnyGuard::Read(_));
        let around =
            scopes.nearest(around, reads).filter(|(_, scope)| scope.view.fencing_token() == token);
        let mut found = None;
        if let Some((id, scope)) = around {
            let mut siblings = scopes.inside(id).map(|(_, sibling)| sibling);
            if let Some(sibling) = siblings.find(|sibling| !(reads && sibling.reads)) {
                let left = if sibling.held { "a sibling" } else { "what a sibling has left" };
                found = Some((
                    super::SIBLINGS,
                    format!("{who} got {}, beside {left}", guard.node_path()),
                ));
            } else if scope.reads && !reads {
                let what = format!("{who}: {} writes inside of a reader", guard.node_path());
                found = Some((super::UPGRADE, what));
            }
        }
        let around = around.map(|(id, _)| id);
        let inner = self.add(state, (lock, process, current_task()), guard, around);
        drop(guarded);
        self.world.note(&[inner.id, around.unwrap_or_default()]);
        self.world.say(|| {
            let depth = around.map_or("anew".to_owned(), |around| format!("inside of {around}"));
            format!("{who}: has {}, {depth}, as {}", guard.node_path(), inner.id)
        });
        if let Some((rule, what)) = found {
            self.fail(rule, what);
        }
        (inner, around.is_some())
    }

    /// A writer that something was nested in was to step down.
    pub fn check_step_down<T>(&self, who: &str, nested: bool, answer: Result<T, ErrorKind>) {
        let what = match answer {
            Ok(_) if nested => "it is a reader, and something is nested in the writer",
            Err(ErrorKind::Deadlock) if !nested => "nothing is nested in it",
            _ => return,
        };
        self.fail(super::STEPS_DOWN, format!("{who}: {what}"));
    }

    /// Nobody is let in beside what was nested in a guard that has gone.
    pub(super) fn check_scopes(&self, who: &str, entry: &Entry, path: &str) {
        let token = entry.view.fencing_token();
        let reads = entry.share.0 < entry.share.1;
        let state = self.lock();
        let others = state.scopes.all.values().filter(|scope| {
            scope.lock == entry.lock && scope.around.is_none() && !(reads && scope.reads)
        });
        let is_valid = |scope: &&Scope| {
            scope.view.fencing_token() != token && scope.process.runs() && scope.view.is_valid()
        };
        let is_there = |scope: &&Scope| {
            self.gone(scope.view.node_path(), scope.view.fencing_token()).is_none()
        };
        let beside = others.filter(is_valid).find(is_there);
        let what =
            beside.map(|scope| format!("{who} got {path}, beside {}", scope.view.node_path()));
        drop(state);
        if let Some(what) = what {
            self.fail(super::EXCLUSION, what);
        }
    }

    /// What is nested is valid as long as the outermost guard is, or would be.
    pub(super) fn nested(&self, state: &State, now: u64) -> Option<(Rule, String)> {
        let scopes = &state.scopes;
        let mut running = scopes.all.values().filter(|scope| scope.process.runs());
        running.find_map(|scope| {
            let (outermost, path) = (scopes.outermost(scope), scope.view.node_path());
            let valid = scope.view.is_valid();
            if scope.held && valid != outermost.view.is_valid() {
                let what = format!("{path}, inside: valid: {valid}, unlike the outermost");
                return Some((super::CONTINUES, what));
            }
            if scope.around.is_some() || scope.held || !valid {
                return None;
            }
            self.left_behind(scope, &state.broken, now)
        })
    }

    /// What an outermost guard has left behind keeps the node.
    fn left_behind(
        &self,
        scope: &Scope,
        broken: &BTreeSet<String>,
        now: u64,
    ) -> Option<(Rule, String)> {
        let path = scope.view.node_path();
        match self.gone(path, scope.view.fencing_token())? {
            (at, Ended::Expired) => {
                let what = format!("{path}: its session expired {} µs ago", now - at);
                Some((super::IN_TIME, what))
            }
            (at, Ended::BySelf) => {
                let freed = !self.may_be_mistaken(scope.lock, at) && !broken.contains(path);
                freed.then(|| {
                    (super::CONTINUES, format!("{path} was freed while it was held inside"))
                })
            }
            (_, Ended::ByOthers) => None,
        }
    }
}
