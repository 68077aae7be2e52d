//! What must hold all the time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Rule;
use super::grants::UNDER_WAY;
use super::ledger::{Held, Ledger, State};
use super::limits::Began;
use crate::executor::Process;
use crate::store::{Ended, MOST_LOCKS};
use crate::workload::{BESIDE, Family, Layout};

/// How often everything is looked at while nothing happens, in microseconds.
pub(super) const LOOK: u64 = 500;

/// Clocks are read between two steps.
pub(super) const MOMENT: u64 = 10;

/// A task that is woken runs by then.
pub(super) const SOON: u64 = 50_000;

/// How long a notification takes at most.
const AT_ONCE: u64 = 100_000;

impl Ledger {
    /// Looks at everything; called between any two steps.
    pub fn check(self: &Arc<Self>) {
        let now = self.world.now();
        if !self.is_kept() || now < self.look_at.load(Ordering::Relaxed) {
            return;
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        let idle = state.held.is_empty()
            && state.ends.is_empty()
            && state.claims.is_empty()
            && state.asks.is_empty()
            && state.lingering.is_empty()
            && state.scopes.is_empty()
            && state.passing.is_empty()
            && self.log.is_empty();
        if idle {
            return;
        }
        self.look_at.store(now + LOOK, Ordering::Relaxed);
        state.scopes.lose(now, &mut state.losses);
        // Heartbeats need no notification.
        let seen = self.store.look();
        let (deaths, disturbed) = (seen.deaths, seen.unanswered);
        let waits = !state.claims.is_empty() || !state.entering.is_empty();
        let all_ran = waits && self.world.idle_until().is_some();
        let mut found = told_of_ends(state, now).or_else(|| state.unexplained(now, all_ran));
        found = found.or_else(|| self.logged(state));
        found = found.or_else(|| self.left_free(state, now, seen.faults));
        found = found.or_else(|| self.left_free_since_back(state, now));
        found = found.or_else(|| self.enter(state, now, all_ran));
        found = found.or_else(|| self.left_waiting(state, now));
        found = found.or_else(|| self.goes_elsewhere(state, now));
        found = found.or_else(|| self.nested(state, now)).or_else(|| self.turns_left(state, now));
        found = found.or_else(|| self.waits_for_the_lost(state, now));
        found = found.or_else(|| self.kept(state, now)).or_else(|| self.room_left(state, now));
        let mut taken = [(0, 0); MOST_LOCKS];
        for held in state.held.values_mut() {
            // Who stands still does nothing.
            if !held.entry.process.runs() {
                continue;
            }
            let valid = held.entry.view.is_valid();
            if std::mem::replace(&mut held.deaths, deaths) != deaths && held.gone.is_none() {
                held.gone = self.gone(&held.path, held.token);
            }
            if state.closing.contains(&held.entry.process.id()) {
                held.until = 0;
            }
            found = found.or_else(|| self.loss(held, &state.began, valid, now));
            if let Some(lost) = held.lost {
                if !state.closing.contains(&held.entry.process.id()) {
                    found = found
                        .or_else(|| self.unlogged(held, lost, (&state.told_lost, &state.began)));
                }
                state.losses.entry(held.token.czxid()).or_insert(lost);
            }
            if !valid {
                continue;
            }
            found =
                found.or_else(|| self.validity(held, &state.broken, (now, disturbed), &mut taken));
            found = found.or_else(|| self.wish(held, (now, disturbed)));
            if let Some(most) = self.plans[held.entry.lock].most()
                && now > held.since + most + SOON
            {
                let what = format!("{}: {} µs", held.path, now - held.since);
                found = found.or(Some((super::MOST, what)));
            }
        }
        if std::mem::replace(&mut state.deaths, deaths) != deaths {
            found = found.or_else(|| self.kept_out(state)).or_else(|| self.taken_away(state));
            found = found.or_else(|| self.passed(state, now));
        }
        drop(guard);
        self.check_room();
        if seen.asked_while_down {
            self.fail(super::NOT_DOWN, "a node is asked for without a connection");
        }
        if let Some(path) = seen.repeats.then(|| self.store.ensemble().asked_again()).flatten() {
            self.fail(super::REPEATED, format!("{path} is asked for again and again"));
        }
        let over = taken.iter().enumerate().find(|(_, (taken, room))| taken > room);
        if let Some((lock, (taken, room))) = over {
            let what = format!("lock {lock}: {taken} of {room} are taken");
            self.fail(super::EXCLUSION, what);
        }
        if let Some((rule, what)) = found {
            self.fail(rule, what);
        }
    }

    /// Where every child is taken for a holder, there are no more than hold.
    fn check_room(&self) {
        for (lock, plan) in self.plans.iter().enumerate() {
            // Some of a name that is used in two ways are not of permits.
            if let (Family::Permits(limit), Layout::Kazoo, false) =
                (plan.family, plan.layout, plan.confused)
            {
                let nodes = self.store.ensemble().ephemerals(&format!("/zklock/{}/", plan.name));
                // Where somebody deleted the inner lock, two may come at a time. One is told that it lost
                // its permit, whose node stays until it lets go.
                let taken_back = |node: &String| {
                    let born = self.store.ensemble().life(node, None).map(|life| life.born);
                    let deleted = self.store.deleted_at(lock).map(|at| at + self.timeout);
                    deleted.is_some_and(|until| born.is_some_and(|born| born < until))
                };
                if nodes.len() > limit as usize
                    && self.quiet_for(self.timeout)
                    && !nodes.iter().any(taken_back)
                {
                    let what = format!("{}: {} nodes for {limit} permits", plan.name, nodes.len());
                    self.fail(super::ROOM, what);
                }
            }
        }
    }

    /// A loss is final, told, and has a reason.
    fn loss(
        &self,
        held: &mut Held,
        began: &Began,
        valid: bool,
        now: u64,
    ) -> Option<(Rule, String)> {
        match (valid, held.lost) {
            (true, Some(_)) => {
                return Some((super::FOR_GOOD, format!("{} is valid again", held.path)));
            }
            (true, None) => {
                let remaining = held.entry.view.remaining();
                if remaining.is_zero() && held.entry.view.is_valid() {
                    let what = format!("{}: valid, and no time is left", held.path);
                    return Some((super::VALID, what));
                }
                held.until = now + remaining.as_micros() as u64;
                if let Some(proven) = self.store.ensemble().proven(held.owner)
                    && held.until > proven + self.lease + MOMENT
                {
                    let more = held.until - proven - self.lease;
                    let what = format!("{}: {more} µs longer than a lease", held.path);
                    return Some((super::LEASE, what));
                }
            }
            (false, None) => {
                held.lost = Some(now);
                self.world.say(|| format!("the guard of {} is not valid any more", held.path));
                if !held.entry.view.remaining().is_zero() {
                    let what = format!("{}: not valid, and time is left", held.path);
                    return Some((super::LOST, what));
                }
                let early = now + SOON < held.until
                    && held.gone.is_none()
                    && !self.store.is_killed(held.owner);
                let plan = &self.plans[held.entry.lock];
                let others = held.entry.has_other_nodes() || plan.confused;
                if early && !plan.stops_early() && !others {
                    let early = held.until - now;
                    let what = format!("{}: {early} µs before its time", held.path);
                    return Some((super::REASON, what));
                }
                // Heartbeats are answered, and its node is there.
                let untouched = held.gone.is_none()
                    && !self.store.is_killed(held.owner)
                    && self.calm_for(2 * self.timeout)
                    && self.store.deleted_at(held.entry.lock).is_none();
                let here = (held.entry.lock, held.token);
                let closes = held.until == 0 || self.is_over(began, here, now);
                if untouched && !closes && !others && held.since + self.timeout / 3 < now {
                    let what = format!("{}: lost, and nothing was wrong", held.path);
                    return Some((super::REASON, what));
                }
            }
            (false, Some(lost)) if held.awaited && now > lost + SOON => {
                return Some((super::LOST, format!("{}: {} µs late", held.path, now - lost)));
            }
            _ => {}
        }
        None
    }

    /// A writer that stepped down is told that it is lost: a loss has a reason.
    pub fn check_lost(
        &self,
        process: &Process,
        lock: usize,
        (path, czxid): (String, i64),
        until: u64,
    ) {
        if self.is_closing(process) {
            return;
        }
        let (now, plan) = (self.world.now(), &self.plans[lock]);
        let owner = self.store.owner_of(&path, Some(czxid));
        let gone = self.store.end_of(&path, Some(czxid));
        // Its own deletion is the end of it.
        let gone = gone.is_some_and(|(_, ended)| ended != Ended::BySelf);
        // Or somebody deletes the reader's.
        let gone = gone || self.store.deleted_at(lock).is_some();
        if now + SOON < until && !gone && !plan.stops_early() && !self.store.is_killed(owner) {
            let early = until - now;
            self.fail(super::REASON, format!("{path}: {early} µs before its time"));
        }
    }

    /// Whether a guard may be valid.
    fn validity(
        &self,
        held: &mut Held,
        broken: &BTreeSet<String>,
        (now, disturbed): (u64, u64),
        taken: &mut [(u32, u32); MOST_LOCKS],
    ) -> Option<(Rule, String)> {
        let plan = &self.plans[held.entry.lock];
        if plan.stops_early() {
            let down = self.store.ensemble().is_down(held.owner);
            held.down = if down { held.down.or(Some(now)) } else { None };
            let doubt = self.timeout / 3 + self.timeout / 3 * self.drift / 1_000_000 + MOMENT;
            if let Some(proven) = self.store.ensemble().proven(held.owner)
                && now > proven + doubt
            {
                let long = now - proven;
                let what = format!("{} is valid, {long} µs after the last write", held.path);
                return Some((super::STOPS, what));
            }
            if held.down.is_some_and(|down| now > down + LOOK) {
                let what = format!("{} is valid without a connection", held.path);
                return Some((super::STOPS, what));
            }
        }
        match held.gone {
            // Of several permits one node is known here, and another may be the one that is gone.
            None if held.entry.has_other_nodes()
                && self
                    .store
                    .deleted_at(held.entry.lock)
                    .is_some_and(|at| now < at + self.timeout) =>
            {
                None
            }
            None => {
                let taken = &mut taken[held.entry.lock];
                *taken = (taken.0 + held.entry.share.0, taken.1.max(held.entry.share.1));
                None
            }
            Some((at, Ended::Expired)) => {
                let what = format!("{}: its session expired {} µs ago", held.path, now - at);
                Some((super::IN_TIME, what))
            }
            Some((at, Ended::BySelf))
                if !broken.contains(&held.path) && !self.may_be_mistaken(held.entry.lock, at) =>
            {
                let what = format!("{}: its own session deleted it", held.path);
                Some((super::TOLD, what))
            }
            Some((at, Ended::BySelf | Ended::ByOthers)) => {
                // A heartbeat and its answer; with trouble on the way, no longer than a lease.
                let calm = disturbed == 0 || disturbed + self.timeout < at;
                let most = if calm { self.timeout / 6 + 100_000 } else { self.timeout };
                let since = at.max(held.since);
                if now > at + AT_ONCE && self.hears_at_once(held, (at, disturbed)) {
                    let what = format!("{}: gone for {} ms", held.path, (now - at) / 1_000);
                    return Some((super::AT_ONCE, what));
                }
                if now <= since + most {
                    return None;
                }
                let what = format!("{}: gone for {} ms", held.path, (now - at) / 1_000);
                Some((super::TOLD, what))
            }
        }
    }

    /// Whether the node of a guard that somebody deleted has been watched for some time, and nothing was missing.
    pub(super) fn hears_at_once(&self, held: &Held, (at, disturbed): (u64, u64)) -> bool {
        let is_revocable = self.plans[held.entry.lock].is_revocable();
        let at_once = is_revocable || self.has_waited(held, disturbed);
        let unwatched = if at_once { 0 } else { self.timeout / 4 };
        // The time of a reader that was a writer goes on.
        let watched = (held.first + unwatched).max(held.since) + UNDER_WAY < at;
        let calm = disturbed == 0 || disturbed + self.timeout < at;
        watched
            && calm
            && !held.entry.has_other_nodes()
            && !self.store.is_killed(held.owner)
            && !self.may_be_unheard(held)
    }

    /// Whether a notification of its node may have been swallowed. A reader that was a writer has the token of another node.
    fn may_be_unheard(&self, held: &Held) -> bool {
        let ensemble = self.store.ensemble();
        match ensemble.life(&held.path, Some(held.token.czxid() as i64)) {
            Some(life) => ensemble.is_unheard(&life),
            None => self.store.is_one_unheard(2 * self.timeout),
        }
    }

    /// Whether the node of a mutex had to wait in ZooKeeper's queue, so that it is watched, and no answer was missing since.
    /// Whoever waits for the only node has none.
    fn has_waited(&self, held: &Held, disturbed: u64) -> bool {
        let plan = &self.plans[held.entry.lock];
        if plan.family != Family::Mutex || plan.layout == Layout::OneNode {
            return false;
        }
        let ensemble = self.store.ensemble();
        let life = ensemble.life(&held.path, Some(held.token.czxid() as i64));
        let contends = |name: &str| !name.starts_with(BESIDE);
        life.is_some_and(|life| {
            let calm = disturbed == 0 || disturbed + self.timeout < life.born;
            calm && ensemble.had_to_wait(&plan.queue(), contends, &life, UNDER_WAY)
        })
    }

    /// Whether somebody deleted an earlier node at the path of one that its own session deleted then: "unless a
    /// stranger deletes that one within this round trip" (`releaser/deletion.rs`).
    pub(super) fn may_be_mistaken(&self, lock: usize, at: u64) -> bool {
        let stranger = self.store.deleted_at(lock);
        let recurs = self.plans[lock].layout.is_plain();
        recurs && stranger.is_some_and(|deleted| at <= deleted + UNDER_WAY)
    }

    /// Who is asked to let go learns it within a heartbeat, or at once.
    fn wish(&self, held: &Held, (now, disturbed): (u64, u64)) -> Option<(Rule, String)> {
        let wished = held.wished.filter(|_| held.gone.is_none())?;
        let calm = disturbed == 0 || disturbed + self.timeout < wished;
        if !calm || now <= wished + AT_ONCE || held.entry.view.is_revoked() {
            return None;
        }
        let at_once = self.plans[held.entry.lock].is_revocable()
            && self.hears_at_once(held, (wished, disturbed));
        let late = at_once || now > wished + self.timeout / 6 + AT_ONCE;
        // A wish that another outsider overwrote before it was read is a wish no more.
        if late && self.store.ensemble().overwritten(&held.path, wished) {
            return None;
        }
        if late {
            let what = format!("{}: asked {} ms ago", held.path, (now - wished) / 1_000);
            return Some((super::WISH, what));
        }
        None
    }
}

/// Who waits for the end of a guard that has ended is told.
fn told_of_ends(state: &State, now: u64) -> Option<(Rule, String)> {
    let mut ends = state.ends.iter();
    let late = ends
        .find(|(_, (process, at))| process.is_alive() && !process.is_paused() && now > at + SOON);
    late.map(|(id, (_, at))| (super::ENDED, format!("grant {id}: {} µs late", now - at)))
}
