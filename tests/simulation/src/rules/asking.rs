//! Who asks for a lock, and what the answers say of it.

use std::sync::Arc;

use zklock_core::base::error::LockError;
use zklock_core::base::error_kind::ErrorKind;

use super::Rule;
use super::grants::UNDER_WAY;
use super::kept_out::Caller;
use super::ledger::{Entry, Ledger, State};
use super::left_alone::{AHEAD, HEARD};
use crate::executor::{Process, current_task};
use crate::workload::{Family, Layout, LockPlan};

/// Somebody asks.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) lock: usize,
    pub(super) process: Process,
    pub(super) since: u64,
    /// Until when it waits; 0 for who asks once.
    pub(super) until: u64,
    /// How long one of its tries lasts, or it waits for answers if it asks once; 0 for as long as it takes.
    pub(super) one_try: u64,
    /// How many permits it wants, if that is known.
    pub(super) wanted: Option<u32>,
    /// Whether it may hold this lock already, as one of several, or unnoticed inside.
    pub(super) may_hold: bool,
    /// Whether one of its process was ahead, which waited while somebody held the lock.
    behind: bool,
    /// Which task asks.
    pub(super) who: Caller,
    /// Whether it has its answer.
    pub(super) answered: bool,
}

impl Ask {
    /// Whether it has waited for so long, and still does.
    pub(super) fn waits_for(&self, long: u64, now: u64) -> bool {
        self.until > now && self.since + long <= now
    }

    /// How long before its deadline it asks who holds the lock.
    pub(super) fn ahead(&self) -> u64 {
        let one_try =
            if self.one_try > 0 { self.one_try } else { self.until.saturating_sub(self.since) };
        (one_try / 4).min(AHEAD)
    }
}

/// Somebody asks, until this is dropped.
#[derive(Debug)]
pub struct Asking {
    pub(super) ledger: Arc<Ledger>,
    pub(super) id: u64,
}

impl Asking {
    /// Notes how much of the lock is wanted: of a semaphore, so many permits.
    #[must_use]
    pub fn wants(self, share: u32) -> Self {
        if let Some(ask) = self.ledger.lock().asks.get_mut(&self.id) {
            ask.wanted = Some(share);
        }
        self
    }

    /// Notes how long one try lasts, or how long whoever asks once waits for answers.
    #[must_use]
    pub fn within(self, one_try: u64) -> Self {
        if let Some(ask) = self.ledger.lock().asks.get_mut(&self.id) {
            ask.one_try = one_try;
        }
        self
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        let ask = state.asks.remove(&self.id);
        if let Some(ask) = &ask {
            let now = self.ledger.world.now();
            state.forgive(ask.lock, &ask.process, Some(self.id));
            state.asked.insert((ask.lock, ask.process.id()), now);
            if !ask.answered {
                state.answered.insert((ask.lock, ask.who), now);
                state.given_up.insert((ask.lock, ask.process.id()), now);
            }
            if ask.may_hold {
                // What it held of several, or inside, is noted nowhere else.
                state.let_go.insert(ask.lock, now);
                state.part_ended.insert((ask.lock, ask.process.id()), now);
                let plan = &self.ledger.plans[ask.lock];
                if plan.layout == Layout::OneNode {
                    let (ensemble, below) = (self.ledger.store.ensemble(), plan.queue());
                    let made = ensemble.made_since(&below, ask.since, &ask.process);
                    state.parts.extend(made.iter().map(|czxid| *czxid as u64));
                }
            }
        }
        drop(state);
        drop(ask);
    }
}

/// Somebody was told that a lock is busy, and it is not known by whom: perhaps by another task of
/// the process that has not noticed yet.
#[derive(Debug)]
pub(super) struct Claim {
    ask: u64,
    lock: usize,
    process: Process,
    at: u64,
    what: String,
}

/// How long a task takes at most to notice.
pub(super) const NOTICE: u64 = 3_000;

impl State {
    /// When a guard was asked for: by this call, or by one of its task that still goes on.
    pub(super) fn asked_since(&self, entry: &Entry, asking: Option<&Asking>) -> Option<u64> {
        let is_of = |ask: &&Ask| {
            (ask.lock, ask.process.id(), ask.who) == (entry.lock, entry.process.id(), entry.who)
        };
        let ask = match asking {
            Some(asking) => self.asks.get(&asking.id),
            None => self.asks.values().find(is_of),
        };
        ask.map(|ask| ask.since)
    }

    /// Another task of the same process has an answer.
    pub(super) fn forgive(&mut self, lock: usize, process: &Process, ask: Option<u64>) {
        let is_so = |claim: &Claim| {
            let near = claim.lock == lock && claim.process.id() == process.id();
            near && ask != Some(claim.ask)
        };
        self.claims.retain(|claim| !is_so(claim));
    }

    /// What nobody has explained, when nobody who was woken is still to run.
    pub(super) fn unexplained(&self, now: u64, all_ran: bool) -> Option<(Rule, String)> {
        let old = self.claims.iter().find(|claim| all_ran && now > claim.at + NOTICE);
        old.map(|claim| (super::BUSY, claim.what.clone()))
    }
}

/// A call with so long to wait gets an answer where nothing is wrong.
pub(super) const LONG: u64 = 1_000_000;

/// Whoever has so long to wait asks long enough before its deadline to be given what has become free.
const ENOUGH: u64 = 300_000;

/// When a waiter looks again whose watch does not fire, at the latest, if sessions are short.
pub(super) const LONG_WAIT: u64 = 5_000_000;

impl Ledger {
    /// Notes that somebody asks, and for how long at most, in microseconds.
    pub fn asks(self: &Arc<Self>, lock: usize, process: &Process, most: u64) -> Asking {
        let until = if most == 0 { 0 } else { self.world.now().saturating_add(most) };
        self.asks_until(lock, process, until, false)
    }

    /// Notes that somebody asks for a lock, and perhaps holds it before that is noted: as one of
    /// several, or inside.
    pub fn may_hold(self: &Arc<Self>, lock: usize, process: &Process) -> Asking {
        self.asks_until(lock, process, 0, true)
    }

    /// Whether a process is acquiring a lock as one of several, or inside.
    pub(super) fn is_part(&self, lock: usize, process: &Process) -> bool {
        let is_so =
            |ask: &Ask| ask.may_hold && ask.lock == lock && ask.process.id() == process.id();
        self.lock().asks.values().any(is_so)
    }

    /// Whether a process has done so since then.
    pub(super) fn was_part(&self, lock: usize, process: &Process, since: u64) -> bool {
        let ended = self.lock().part_ended.get(&(lock, process.id())).copied();
        ended.is_some_and(|at| at >= since) || self.is_part(lock, process)
    }

    fn asks_until(
        self: &Arc<Self>,
        lock: usize,
        process: &Process,
        until: u64,
        may_hold: bool,
    ) -> Asking {
        let (since, process) = (self.world.now(), process.clone());
        let mut state = self.lock();
        state.next += 1;
        let id = state.next;
        let held = state.held.values().any(|held| held.entry.lock == lock);
        let let_go = state.let_go.get(&lock).copied();
        let waits = |ask: &Ask| {
            let near = ask.lock == lock && ask.process.id() == process.id();
            near && ask.until > 0 && (held || let_go.is_some_and(|at| at >= ask.since))
        };
        let behind = state.asks.values().any(waits);
        let (who, answered, wanted) = (current_task(), false, None);
        let one_try = 0;
        let ask =
            Ask { one_try, lock, process, since, until, wanted, may_hold, behind, who, answered };
        state.asks.insert(id, ask);
        Asking { ledger: self.clone(), id }
    }

    /// Where an order is promised, nobody of the same process is served before who asked first.
    pub(super) fn check_order(&self, who: &str, asking: &Asking) {
        let now = self.world.now();
        let state = self.lock();
        let Some(mine) = state.asks.get(&asking.id) else { return };
        let plan = &self.plans[mine.lock];
        if !plan.is_fair() || plan.family != Family::Mutex || mine.until == 0 {
            return;
        }
        let before = state.asks.iter().take_while(|(id, _)| **id < asking.id).map(|(_, ask)| ask);
        let before = before.filter(|ask| ask.lock == mine.lock && ask.until > now);
        let earlier = before.filter(|ask| ask.process.id() == mine.process.id());
        let since = earlier.map(|ask| ask.since).min();
        let process = mine.process.clone();
        drop(state);
        // Who finds the directory removed again and again makes a pause, and the others go on.
        let directory = format!("/zklock/{}", plan.name);
        // Where something was refused, or a server shows a node too many, the session may be used no more: all that
        // wait in it queue up anew.
        let replaced = |since| {
            let ensemble = self.store.ensemble();
            ensemble.refused_since(since, &process)
                || ensemble.was_shown_strays("/zklock/", since, &process)
        };
        if let Some(since) = since
            && self.quiet_for(now - since + self.timeout)
            && !replaced(since)
            && !self.store.ensemble().has_gone(&directory, since)
        {
            let what = format!("{who} is served before who asked {} µs ago", now - since);
            self.fail(super::ORDER, what);
        }
    }

    /// Whether nobody else of a process has a lock, or asks for it.
    pub fn is_alone(&self, lock: usize, process: &Process) -> bool {
        let (state, here) = (self.lock(), |of: &Process| of.id() == process.id());
        let asks = |ask: &Ask| ask.lock == lock && here(&ask.process);
        let holds = |entry: &Entry| entry.lock == lock && here(&entry.process);
        !state.asks.values().any(asks) && !state.held.values().any(|held| holds(&held.entry))
    }

    /// Somebody has released a node that nobody else of its process can have got.
    pub fn check_released(&self, who: &str, lock: usize, (path, czxid): (&str, i64)) {
        let plan = &self.plans[lock];
        let ensemble = self.store.ensemble();
        let life = ensemble.life(path, Some(czxid)).filter(|life| life.gone.is_none());
        // A server that is started again gives all sessions their time once more, and one that hears the
        // client connect again gives it to that session.
        let goes = !plan.lingers && plan.hold() == 0 && !self.store.are_servers_struck();
        // Where the refusal is lost, what the client sends after it keeps the session. Who may not read a directory
        // does not get to delete a node whose loss is marked there.
        let unmarked = |owner| plan.delay() > 0 && ensemble.refused_in(owner);
        let goes = goes && !ensemble.is_stuck(path);
        let owner = life.map(|life| life.owner).filter(|owner| !unmarked(*owner));
        if goes && owner.is_some_and(|owner| !ensemble.has_returned(owner)) {
            self.fail(super::RELEASED, format!("{who}: {path} is still there"));
        }
    }

    /// Who is told that a lock is busy is told of one that holds it: of a permit, if it is a semaphore, and
    /// not of itself. What calls left behind that were `dropped` may be in the way.
    pub fn check_holder(&self, who: &str, asking: &Asking, error: &LockError, dropped: bool) {
        let Some(holder) = error.holder().filter(|_| error.is_busy()) else { return };
        let state = self.lock();
        let Some(mine) = state.asks.get(&asking.id) else { return };
        let (lock, process) = (mine.lock, mine.process.clone());
        let near = |of: usize, by: &Process| of == lock && by.id() == process.id();
        let asks = |(id, ask): (&u64, &Ask)| *id != asking.id && near(ask.lock, &ask.process);
        let held = state.held.values().any(|held| near(held.entry.lock, &held.entry.process));
        // Whoever steps down has a node for a moment that nobody holds yet.
        let is_stepping = self.plans[lock].family == Family::ReadWrite;
        let (mut alone, since) =
            (!held && !is_stepping && !state.asks.iter().any(asks), mine.since);
        // What it held as one of several is deleted by then.
        let is_clean = !dropped && state.let_go.get(&lock).is_none_or(|at| at + UNDER_WAY < since);
        let mut answered = state.answered.iter().filter(|(_, at)| **at >= since);
        let here = |who: Caller| who.is_some_and(|(by, _)| by == process.id());
        let nobody_else = !answered.any(|((of, who), _)| *of == lock && here(*who));
        drop(state);
        let plan = &self.plans[lock];
        let path = format!("{}/{}", plan.directory(), holder.node);
        if plan.confused {
            return;
        }
        let life = self.store.ensemble().life(&path, None);
        if plan.has_permits() && life.is_none() && !dropped {
            return self.fail(super::NAMED, format!("{who}: {} has no permit", holder.node));
        }
        let owner = life.as_ref().map_or(0, |life| life.owner);
        // Where names recur, a session makes one node at a time: what was made since it asked was made for it.
        let is_new = life.as_ref().is_some_and(|life| life.born >= since) && plan.layout.is_plain();
        // The one that it was told of may have gone since, and have had the same name.
        let is_told_of = holder.owner.pid == Some(process.id().0 + 1) || !plan.layout.is_plain();
        let is_new = is_new && is_told_of;
        let ensemble = self.store.ensemble();
        let one_session = ensemble.sessions_of(&process) == [owner] && ensemble.has_client(owner);
        // The node of another call that was answered meanwhile was in the way.
        alone &= is_told_of && nobody_else && (is_clean || is_new && one_session);
        // One that stood still for too long opens another session, and its deletions in the old one may be under way.
        alone &= one_session || process.pauses() == 0;
        // What a call before left in doubt, because an answer is missing, is looked for before it is deleted, and
        // the answer to that may be missing as well.
        let before = since.saturating_sub(2 * self.timeout);
        alone &= !ensemble.has_swallowed_since(before, &process);
        // Perhaps it has held the lock with it, and is about to delete it.
        alone &= life.is_some_and(|life| !self.lock().noted.contains(&(life.czxid as u64)));
        if alone && !plan.lingers && !plan.rests() && ensemble.is_of(owner, &process) {
            self.fail(super::NAMED, format!("{who}: {path} is its own, and no other's"));
        }
    }

    /// Whether a node below a path has been there since then with which somebody held a lock, if only as one of
    /// several that were refused.
    fn was_held(&self, below: &str, since: u64) -> bool {
        let there = self.store.ensemble().there_since(below, since);
        let state = self.lock();
        let held = |czxid: u64| state.noted.contains(&czxid) || state.parts.contains(&czxid);
        there.iter().any(|czxid| held(*czxid as u64))
    }

    /// Whether the server of a process shows a node of a lock that its leader does not know, and served it since
    /// then.
    pub(super) fn shows_strays(&self, plan: &LockPlan, since: u64, process: &Process) -> bool {
        let below = format!("/zklock/{}", plan.name);
        self.store.ensemble().was_shown_strays(&below, since, process)
    }

    /// Whether another process waits for a lock.
    fn is_wanted_elsewhere(&self, lock: usize, process: &Process) -> bool {
        let waits = |ask: &Ask| ask.lock == lock && ask.process.id() != process.id();
        self.lock().asks.values().any(waits)
    }

    /// Looks at the error that somebody got.
    pub fn check_refusal(&self, who: &str, asking: &Asking, kind: ErrorKind) {
        let now = self.world.now();
        let state = self.lock();
        let Some(mine) = state.asks.get(&asking.id) else { return };
        let (lock, since, process) = (mine.lock, mine.since, mine.process.clone());
        let waited = mine.until.saturating_sub(since);
        let plan = &self.plans[lock];
        // Who asks once waits for answers alone; for permits, also for who takes some just now.
        let asks_once = mine.until == 0 && mine.one_try >= ENOUGH && !plan.has_permits();
        let held = state.held.values().any(|held| held.entry.lock == lock);
        // What its process had seen just before it asked may be what it is told.
        let just = since.saturating_sub(NOTICE);
        let was_just_held = state.let_go.get(&lock).is_some_and(|at| *at >= just);
        let is_part =
            |ask: &Ask| ask.may_hold && ask.lock == lock && ask.process.id() == process.id();
        let held = held || state.asks.values().any(is_part);
        // Who waits for the only node has none, and is ahead all the same.
        let waits = plan.layout == Layout::OneNode && mine.behind;
        drop(state);
        let long_wait = self.timeout.max(LONG_WAIT);
        let is_one_unheard = self.store.is_one_unheard(now - since + long_wait);
        let patience = if is_one_unheard { long_wait } else { self.timeout };
        let left = || match held {
            false => self.has_been_left(asking, now),
            true => self.has_had_room(asking, now),
        };
        if kind == ErrorKind::Busy && !plan.rests() && left() {
            let what = format!("{who}: {} is busy, and those in the way have left", plan.name);
            self.fail(super::BUSY, what);
        }
        // Whoever asks before its deadline hears of that, and has time for what follows.
        let answers = || waited >= ENOUGH && self.store.answers_for(AHEAD + HEARD);
        if kind == ErrorKind::Unavailable && !plan.rests() && answers() && left() {
            let what = format!("{who}: {} is free, and every answer came", plan.name);
            self.fail(super::AVAILABLE, what);
        }
        if kind == ErrorKind::Busy && self.gives_no_way(asking) {
            let what = format!("{who}: {} is busy, and only lingers", plan.name);
            self.fail(super::GIVES_WAY, what);
        }
        if kind == ErrorKind::Unavailable && self.is_still_there(asking, now) {
            let what = format!("{who}: who is first in {} is still there", plan.name);
            self.fail(super::AVAILABLE, what);
        }
        match kind {
            ErrorKind::InvalidOption => self.check_used(who, lock, &process, since),
            // Whoever has not heard of a deletion waits for it, and others behind; if it was told and
            // the notification is lost, until it looks again.
            ErrorKind::Busy
                if !held
                    && !was_just_held
                    && !waits
                    && !plan.rests()
                    // Its server shows a node that nobody has.
                    && !self.shows_strays(plan, just, &process)
                    && !self.had_locks_below(plan, just)
                    && self.calm_for(now - since + patience) =>
            {
                let below = format!("/zklock/{}", plan.name);
                let ensemble = self.store.ensemble();
                let contended = match plan.layout {
                    // Others who wait for it have no node.
                    Layout::OneNode => {
                        ensemble.used_elsewhere(&below, just, &process)
                            || self.was_held(&below, just)
                            || self.is_wanted_elsewhere(lock, &process)
                    }
                    _ => ensemble.contended(&below, just, &process),
                };
                // Whoever of its own process gave up just before is in the way until its node is deleted.
                let contended = contended || ensemble.had_one(&below, 0, just, since);
                // And whoever gave up just now perhaps had it without knowing.
                let state = self.lock();
                let given_up = state.given_up.get(&(lock, process.id()));
                let contended = contended || given_up.is_some_and(|at| *at + NOTICE >= now);
                drop(state);
                if !contended {
                    let what = format!("{who}: {} was free all the time", plan.name);
                    self.lock().claims.push(Claim { ask: asking.id, lock, process, at: now, what });
                }
            }
            ErrorKind::Unavailable
                // What is refused is answered.
                if (waited >= LONG || asks_once) && self.store.only_refused_for(now - since + self.timeout)
                    || waited >= self.timeout / 3 + 700_000
                        && self.store.lost_one_for(now - since + self.timeout) =>
            {
                let what = format!("{who}: {} µs, and no answer was missing", now - since);
                self.fail(super::AVAILABLE, what);
            }
            _ => {}
        }
    }
}
