//! What must hold when a node of ZooKeeper becomes a grant, and when it is handed on.

use zklock_simulator::ensemble::Life;

use super::ledger::{Entry, Ledger};
use crate::executor::Process;
use crate::store::Ended;
use crate::workload::{BESIDE, Family, Layout, LockPlan};

/// How long what a server said before may be under way, in microseconds.
pub(super) const UNDER_WAY: u64 = 150_000;

/// How long after a grant its caller learns of it, at most: its task is woken, and polled.
pub(super) const TOLD: u64 = 5_000;

/// The grants on one node, one after the other.
#[derive(Debug)]
pub(super) struct Chain {
    path: String,
    /// When each was granted; `None` of one that was noted late.
    grants: Vec<Option<u64>>,
    /// Whether nothing had gone wrong for some time when it was granted.
    calm: bool,
}

impl Ledger {
    /// Looks at a grant that is valid.
    pub(super) fn check_grant(
        &self,
        who: &str,
        entry: &Entry,
        path: &str,
        gone: Option<(u64, Ended)>,
    ) {
        let (now, plan) = (self.world.now(), &self.plans[entry.lock]);
        self.check_lately(who, entry, path, gone);
        self.check_own_node(who, entry, path);
        if plan.confused {
            return self.check_kinds(who, entry, path);
        }
        self.check_others(who, entry, path);
        let is_part = self.is_part(entry.lock, &entry.process);
        // One of several is noted when all are held: it says nothing of handoffs.
        let noted = (!is_part).then_some(now);
        if plan.has_permits() {
            let mut state = self.lock();
            let grants = state.permits.entry(path.to_owned()).or_default();
            grants.push(if grants.is_empty() { Some(now) } else { noted });
            let grants = grants.clone();
            drop(state);
            if grants.len() == 1 {
                self.check_inner(who, entry, path);
            }
            return self.check_turn(who, entry, path, &grants);
        }
        self.check_delay(who, entry, path);
        let mut state = self.lock();
        let old = state.chains.remove(&entry.lock);
        let (chain, old) = match old {
            Some(mut chain) if chain.path == path => {
                chain.grants.push(noted);
                (chain, None)
            }
            old => {
                let (path, calm) = (path.to_owned(), self.calm_for(self.timeout));
                (Chain { path, grants: vec![Some(now)], calm }, old)
            }
        };
        let grants = chain.grants.clone();
        state.chains.insert(entry.lock, chain);
        drop(state);
        if plan.family != Family::Mutex {
            // Several nodes at a time.
            return self.check_there(who, entry, path, gone);
        }
        if grants.len() > 1 {
            return self.check_handoff(who, entry, path, &grants);
        }
        self.check_there(who, entry, path, gone);
        let Some(old) = old else { return };
        let Some(first) = old.grants[0] else { return };
        // Whatever becomes of its holder and of its session; but outsiders may delete the mark.
        let born = self.store.ensemble().life(&old.path, None).map_or(0, |life| life.born);
        let untouched = self.store.deleted_at(entry.lock).is_none_or(|at| at < born);
        if old.calm && untouched && now + TOLD < first + plan.hold() {
            let what = format!("{who} got {path} {} µs after another one", now - first);
            self.fail(super::HOLD, what);
        }
    }

    /// Where each who waits has a node of its own, nobody is given the lock by a node with which another one had it. A
    /// writer that steps down has the same token as a reader.
    fn check_own_node(&self, who: &str, entry: &Entry, path: &str) {
        let plan = &self.plans[entry.lock];
        let rule = match plan.hold() {
            0 if plan.is_fair() => super::ORDER,
            0 => return,
            _ => super::HOLD,
        };
        let (czxid, state) = (entry.view.fencing_token().czxid(), self.lock());
        let reads = entry.share.0 < entry.share.1 && !entry.lock_has_permits;
        let stepped_down = reads && state.wrote.contains_key(&czxid);
        let handed_on = state.noted.contains(&czxid) && !stepped_down;
        drop(state);
        if handed_on {
            self.fail(rule, format!("{who} got {path}, with which another one had the lock"));
        }
    }

    /// The node of a grant is there, as far as its owner can know.
    fn check_there(&self, who: &str, entry: &Entry, path: &str, gone: Option<(u64, Ended)>) {
        let now = self.world.now();
        // One of several is handed out with the last of them, and a node that was held is handed on after others
        // had the lock; until then its heartbeats watch over it.
        let czxid = entry.view.fencing_token().czxid();
        let waited =
            !self.is_part(entry.lock, &entry.process) && !self.lock().noted.contains(&czxid);
        let known = if waited { 0 } else { self.timeout / 6 };
        if let Some((at, Ended::ByOthers)) = gone
            && now > at + UNDER_WAY + known
            && self.calm_for(now - at + self.timeout)
        {
            let what = format!("{who} got {path}, which was gone for {} µs", now - at);
            self.fail(super::THERE, what);
        }
        self.check_shown(who, entry, path);
    }

    /// Nobody is let in while another program is ahead.
    fn check_others(&self, who: &str, entry: &Entry, path: &str) {
        let (plan, czxid) = (&self.plans[entry.lock], entry.view.fencing_token().czxid());
        if plan.has_permits() {
            return;
        }
        let alone = entry.share.0 == entry.share.1;
        let strangers = self.store.ensemble().strangers(&plan.queue()).into_iter();
        let mut ahead = strangers.filter(|(stranger, born)| {
            let contends = !stranger.contains(BESIDE);
            contends && *born < czxid as i64 && (alone || !plan.is_of_a_reader(stranger))
        });
        if let Some((stranger, _)) = ahead.next() {
            self.fail(super::EXCLUSION, format!("{who} got {path}, behind {stranger}"));
        }
    }

    /// What a node is granted by, its owner asked for while the node was there: not by a list of later on, in which
    /// another's node may have its name. Who has held a lock learns by heartbeats what becomes of it. Whoever waits
    /// is told of the deletion of its node before anything later, unless that notification alone is swallowed.
    fn check_shown(&self, who: &str, entry: &Entry, path: &str) {
        let czxid = entry.view.fencing_token().czxid();
        let ensemble = self.store.ensemble();
        let life = ensemble.life(path, Some(czxid as i64)).filter(|life| life.gone.is_some());
        let life = life.filter(|life| !ensemble.is_unheard(life));
        let held = self.lock().noted.contains(&czxid);
        // One of several was granted when it was acquired, and is noted when all of them are: perhaps later
        // than it was gone.
        let part = self.is_part(entry.lock, &entry.process);
        // Whoever looks at a queue is told of it, and nobody who waits in it.
        let inspected = self.lock().inspected.get(&(entry.lock, entry.process.id())).copied();
        let excused = |life: &Life| {
            let since = life.gone.map_or(0, |(at, _)| at.saturating_sub(UNDER_WAY));
            part && ensemble.was_shown(life) || inspected.is_some_and(|at| at >= since)
        };
        if !held && life.is_some_and(|life| ensemble.was_shown_without(&life) && !excused(&life)) {
            let what = format!("{who} got {path}, and had been shown the queue without it");
            self.fail(super::THERE, what);
        }
    }

    /// A permit is handed on as often and for as long as its turn lasts, which began with it or before.
    fn check_turn(&self, who: &str, entry: &Entry, path: &str, grants: &[Option<u64>]) {
        let (Some(first), Some(Some(_))) = (grants[0], grants.last()) else { return };
        let (now, plan) = (self.world.now(), &self.plans[entry.lock]);
        let bound = plan.handoffs();
        let many = usize::try_from(bound.most).is_ok_and(|most| grants.len() > most + 1);
        let long = now > first + bound.within.as_micros() as u64 + TOLD;
        if (many || long) && self.quiet_for(now - first + self.timeout) {
            let before = now.saturating_sub(TOLD);
            if self.is_waited_for(plan, before, &entry.process) {
                let many = grants.len();
                let what = format!("{who}: {many} grants on {path} while others wait");
                self.fail(super::HANDOFFS, what);
            }
        }
        if grants.len() > 1 {
            self.check_one_turn(who, entry, path);
        }
    }

    /// Another permit was handed on in a turn, and its holder still has it. If somebody else has waited since
    /// before that, there is no other turn: permits that came after its end are not handed on, and the next
    /// driver is behind who waits. So all that is handed on meanwhile is handed on in that turn.
    fn check_one_turn(&self, who: &str, entry: &Entry, path: &str) {
        let (now, plan) = (self.world.now(), &self.plans[entry.lock]);
        let bound = plan.handoffs();
        let within = bound.within.as_micros() as u64;
        let mut state = self.lock();
        let handed = state.handed.entry((entry.lock, entry.process.id())).or_default();
        handed.push(now);
        let handed = handed.clone();
        let others = state.held.values().filter(|held| {
            let near =
                held.entry.lock == entry.lock && held.entry.process.id() == entry.process.id();
            near && held.path != path && held.lost.is_none() && held.gone.is_none()
        });
        let mut turns = Vec::new();
        for held in others {
            let Some(grants) = state.permits.get(&held.path).filter(|grants| grants.len() > 1)
            else {
                continue;
            };
            if let (Some(first), Some(Some(last))) = (grants[0], grants.last()) {
                turns.push((first, *last));
            }
        }
        drop(state);
        for (first, last) in turns {
            let many = handed.iter().filter(|at| **at >= last).count();
            let over = now > first + within + TOLD
                || u32::try_from(many).is_ok_and(|many| many > bound.most);
            if over
                && self.quiet_for(now - first + self.timeout)
                && self.is_waited_for(plan, last, &entry.process)
            {
                let what = format!("{who}: a second turn with {path}, while others wait");
                self.fail(super::HANDOFFS, what);
            }
        }
    }

    /// In kazoo's layout, whoever makes a permit holds an inner lock, or two may count at a time.
    fn check_inner(&self, who: &str, entry: &Entry, path: &str) {
        let (plan, token) = (&self.plans[entry.lock], entry.view.fencing_token());
        let ensemble = self.store.ensemble();
        let permit = ensemble.life(path, Some(token.czxid() as i64));
        let Some(permit) = permit.filter(|_| plan.layout == Layout::Kazoo) else { return };
        if !ensemble.was_made_under(&plan.queue(), &permit) {
            self.fail(super::ROOM, format!("{who} got {path}, and had no inner lock to the end"));
        }
    }

    /// After so many handoffs or so long, a process lets others go first: it looks at the queue, and
    /// if nobody waits there at that moment, a turn follows of as many handoffs and as much time. So it
    /// knew of whoever waited before the earliest look with which this turn can have begun.
    fn check_handoff(&self, who: &str, entry: &Entry, path: &str, grants: &[Option<u64>]) {
        let (Some(first), Some(Some(_))) = (grants[0], grants.last()) else { return };
        let (now, plan) = (self.world.now(), &self.plans[entry.lock]);
        let bound = plan.handoffs();
        let under_way = self.under_way();
        let within = bound.within.as_micros() as u64 + under_way;
        let turn = usize::try_from(bound.most).unwrap_or(usize::MAX).saturating_add(1);
        let many = grants.len().checked_sub(turn).filter(|looked| *looked > 0);
        let many = many.and_then(|looked| grants[..=looked].iter().max().copied().flatten());
        let long = now.checked_sub(within).filter(|since| *since > first);
        let Some(since) = many.max(long) else { return };
        // One that lingers learns of those behind it in the next turn.
        let calm = self.quiet_for(now - first + self.timeout);
        if calm && plan.hold() == 0 && !plan.lingers {
            let before = since.saturating_sub(under_way);
            if self.is_waited_for(plan, before, &entry.process) {
                let many = grants.len();
                let what = format!("{who}: {many} grants on {path} while others wait");
                self.fail(super::HANDOFFS, what);
            }
        }
    }

    /// Whether another process has waited for a lock since then.
    fn is_waited_for(&self, plan: &LockPlan, since: u64, process: &Process) -> bool {
        let contends = |name: &str| !name.starts_with(BESIDE);
        self.store.ensemble().waits_since(&plan.queue(), contends, since, process)
    }

    /// How long what a server said before may be under way, or not be known to it yet.
    fn under_way(&self) -> u64 {
        let alone = self.store.ensemble().size() == 1 && self.store.faults() == 0;
        if alone { UNDER_WAY / 3 } else { UNDER_WAY }
    }

    /// Forgets since when a node is held: longer than its holder knows.
    pub fn is_older(&self, lock: usize) {
        self.lock().chains.remove(&lock);
    }
}
