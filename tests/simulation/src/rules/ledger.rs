//! Who holds what: what is noted, and what must hold when a lock is granted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zklock_core::base::token::FencingToken;
use zklock_core::guard::view::GuardView;

use super::Rule;
use super::asked::Asked;
use super::asking::{Ask, Asking, Claim};
use super::check::LOOK;
use super::closed::Left;
use super::delays::Alone;
use super::entering::Entering;
use super::grants::Chain;
use super::kept_out::{Answered, Caller};
use super::kinds::Uses;
use super::limits::Began;
use super::lingering::Lingering;
use super::log::Lines;
use super::passed::Passing;
use super::scopes::Scopes;
use crate::executor::{Process, ProcessId, World};
use crate::few::Few;
use crate::profile::{ALLOWED, Profile};
use crate::store::{Ended, Store};
use crate::workload::LockPlan;

/// What a node says whose owner is asked to let go.
pub const ASKED: &[u8] = b"__REVOKE__";

/// A rule that does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// What was seen.
    pub what: String,
}

/// A guard that somebody has.
#[derive(Debug)]
pub struct Entry {
    /// The number of the lock.
    pub lock: usize,
    /// How much of the lock it takes, and how much there is.
    pub share: (u32, u32),
    /// Who has it.
    pub process: Process,
    /// The guard.
    pub view: GuardView,
    /// Whether the lock is a semaphore.
    pub lock_has_permits: bool,
    /// Whether its holder had it before, in another form.
    pub again: bool,
    /// Which task acquired it.
    pub who: Caller,
}

impl Entry {
    /// Whether it has more nodes than the one that its view tells of: those of several permits.
    pub(super) fn has_other_nodes(&self) -> bool {
        self.lock_has_permits && self.share.0 > 1
    }
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) entry: Entry,
    pub(super) path: String,
    pub(super) token: FencingToken,
    pub(super) since: u64,
    /// The same of the writer that it was, if it is a reader.
    pub(super) first: u64,
    /// The session that owns its node.
    pub(super) owner: i64,
    /// Since when it is not valid.
    pub(super) lost: Option<u64>,
    /// Whether somebody waits for `lost()`.
    pub(super) awaited: bool,
    /// How its node ended, as far as it was known when so many nodes were gone.
    pub(super) gone: Option<(u64, Ended)>,
    pub(super) deaths: u64,
    /// Until when it said that it is valid.
    pub(super) until: u64,
    /// Since when its client has had no connection.
    pub(super) down: Option<u64>,
    /// When somebody asked for its release.
    pub(super) wished: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) held: Few<Held>,
    pub(super) next: u64,
    /// The greatest token of a lock, and that of those who exclude everybody.
    pub(super) greatest: BTreeMap<usize, (Option<FencingToken>, Option<FencingToken>)>,
    pub(super) violation: Option<Violation>,
    pub(super) grants: u64,
    pub(super) refusals: u64,
    pub(super) asks: Few<Ask>,
    /// When each task had its last answer of a lock.
    pub(super) answered: Answered,
    pub(super) claims: Vec<Claim>,
    /// The nodes, by their czxids, that were lost before who alone had them let go.
    pub(super) spoiled: BTreeSet<u64>,
    /// When each node, by its czxid, was first seen to be lost.
    pub(super) losses: BTreeMap<u64, u64>,
    /// The nodes, by their czxids, with which somebody has held a lock.
    pub(super) noted: BTreeSet<u64>,
    /// Since when who writes holds the lock, by the czxid of its token: the same as that of the reader that it becomes.
    pub(super) wrote: BTreeMap<u64, u64>,
    /// Since when the times of those run who hold for so long at most.
    pub(super) began: Began,
    /// When somebody was granted a lock last with each of them.
    pub(super) grants_on: BTreeMap<u64, u64>,
    /// Those with which somebody had the only node of a lock as one of several, or inside.
    pub(super) parts: BTreeSet<u64>,
    /// When each process last ended to acquire a lock as one of several, or inside.
    pub(super) part_ended: BTreeMap<(usize, ProcessId), u64>,
    /// When somebody in a process gave up a call for a lock last.
    pub(super) given_up: BTreeMap<(usize, ProcessId), u64>,
    /// The nodes that somebody of their own process breaks.
    pub(super) broken: BTreeSet<String>,
    /// Those of writers that were lost while they stepped down, by their czxids.
    pub(super) stepped_down: BTreeSet<u64>,
    /// Those that somebody means to delete, by their czxids.
    pub(super) aimed_at: BTreeSet<u64>,
    /// When somebody let go of a lock last.
    pub(super) let_go: BTreeMap<usize, u64>,
    /// When a call for a lock ended last, by the lock and the process.
    pub(super) asked: BTreeMap<(usize, ProcessId), u64>,
    /// The grants on one node after the other.
    pub(super) chains: BTreeMap<usize, Chain>,
    /// Who had each lock alone last that rests after a loss.
    pub(super) alone: BTreeMap<usize, Alone>,
    /// When each permit was granted, by the path of its node.
    pub(super) permits: BTreeMap<String, Vec<Option<u64>>>,
    /// When each process has handed a permit of a lock on.
    pub(super) handed: BTreeMap<(usize, ProcessId), Vec<u64>>,
    /// The grants whose end a task waits for.
    pub(super) expected: BTreeSet<u64>,
    /// Who waits for the end of a guard that ended then.
    pub(super) ends: BTreeMap<u64, (Process, u64)>,
    /// The processes that close their sessions.
    pub(super) closing: BTreeSet<ProcessId>,
    /// When somebody in a process looked at the queue of a lock last.
    pub(super) inspected: BTreeMap<(usize, ProcessId), u64>,
    /// Which processes use a lock.
    pub(super) uses: Uses,
    /// The limit with which each lock was taken first.
    pub(super) limits: BTreeMap<usize, u32>,
    /// The nodes that were let go of, until they are gone.
    pub(super) left: Vec<Left>,
    /// The nodes that linger.
    pub(super) lingering: Vec<Lingering>,
    /// Since when each process that asks is connected; and when that was looked at last.
    pub(super) back: BTreeMap<ProcessId, u64>,
    pub(super) looked_back: u64,
    /// The writers that have stepped down, and who waited for them.
    pub(super) entering: Vec<Entering>,
    /// Those of writers whose call was dropped while they stepped down, by their czxids.
    pub(super) left_stepping_down: BTreeSet<u64>,
    /// The nodes that a release has left, until it is known to whom.
    pub(super) passing: Vec<Passing>,
    /// Those whose holders were asked to let go, by their czxids.
    pub(super) asked_to: BTreeMap<u64, Asked>,
    /// Those of which the log has said that they were lost, by their czxids.
    pub(super) told_lost: BTreeSet<u64>,
    /// When it said so last of a node at a path.
    pub(super) lost_at: BTreeMap<String, u64>,
    /// The processes that have stood still.
    pub(super) stood_still: BTreeSet<ProcessId>,
    /// When each lock was granted last.
    pub(super) granted: BTreeMap<usize, u64>,
    /// Since when there is room for the permits of each semaphore.
    pub(super) room: BTreeMap<usize, u64>,
    /// When it was looked at last whether there is room.
    pub(super) looked_for_room: u64,
    /// Since when a process waits for a lock without a node, though it is connected; and when that was looked at last.
    pub(super) behind: BTreeMap<(usize, ProcessId), u64>,
    pub(super) looked_behind: u64,
    /// Who holds inside of whom.
    pub(super) scopes: Scopes,
    /// How many nodes were gone when everything was looked at, and how many of them others had deleted.
    pub(super) deaths: u64,
    pub(super) taken: usize,
}

/// Who holds what.
#[derive(Debug)]
pub struct Ledger {
    pub(super) world: Arc<World>,
    pub(super) store: Arc<Store>,
    /// The session timeout, in microseconds.
    pub(super) timeout: u64,
    /// How long a lease lasts, in microseconds.
    pub(super) lease: u64,
    /// By how many millionths clocks are wrong at most.
    pub(super) drift: u64,
    /// Whether answers take their time.
    far: bool,
    /// Whether tasks use other locks than these, and judge them by themselves.
    pub(super) corner: bool,
    pub(super) plans: Vec<LockPlan>,
    /// What the log says.
    pub(super) log: Lines,
    /// Whether a rule does not hold.
    broken: AtomicBool,
    /// When everything is looked at again: at once if there is something new.
    pub(super) look_at: AtomicU64,
    state: Mutex<State>,
}

impl Ledger {
    /// Nobody holds anything.
    pub fn new(
        world: &Arc<World>,
        store: &Arc<Store>,
        (timeout, tick): (u64, u64),
        plans: Vec<LockPlan>,
        profile: &Profile,
        log: Lines,
    ) -> Self {
        let (world, store) = (world.clone(), store.clone());
        // The longest silence of the client, and half a tick of the server.
        let lease = timeout - timeout / 5 - tick / 2;
        let (drift, far) = (u64::from(profile.drift), profile.far > 0);
        let corner = profile.corner.is_some();
        // A clock that is slow makes it longer.
        let lease = lease + lease * drift / (1_000_000 - drift);
        let (broken, look_at) = (AtomicBool::new(false), AtomicU64::new(LOOK));
        let state = Mutex::default();
        Ledger {
            world,
            store,
            timeout,
            lease,
            drift,
            far,
            corner,
            plans,
            log,
            broken,
            look_at,
            state,
        }
    }

    /// There is something to look at.
    pub(super) fn has_news(&self) {
        self.look_at.store(0, Ordering::Relaxed);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a rule does not hold. The first counts, of those to which it can be held with such clocks.
    pub fn fail(&self, rule: Rule, what: impl Into<String>) {
        if self.drift > u64::from(ALLOWED) && !super::WITHOUT_CLOCKS.contains(&rule) {
            return;
        }
        if self.far && !super::FROM_AFAR.contains(&rule) {
            return;
        }
        let (what, mut state) = (what.into(), self.lock());
        if state.violation.is_none() {
            self.world.say(|| format!("VIOLATION of {}: {what}", rule.name));
            state.violation = Some(Violation { rule, what });
            self.broken.store(true, Ordering::Relaxed);
        }
    }

    /// The ensemble, with what was done to it.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What does not hold.
    pub fn violation(&self) -> Option<Violation> {
        self.lock().violation.clone()
    }

    /// Whether all rules hold so far.
    pub fn is_kept(&self) -> bool {
        !self.broken.load(Ordering::Relaxed)
    }

    /// How many grants and refusals there were.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.grants, state.refusals)
    }

    /// Notes that somebody was refused.
    pub fn refused(&self) {
        self.lock().refusals += 1;
    }

    /// Whether nothing disturbed the network, the servers and the processes for so long.
    pub fn calm_for(&self, long: u64) -> bool {
        let until = self.store.tally().0;
        until == 0 || until + long <= self.world.now()
    }

    /// Whether no outsider did anything for so long either.
    pub fn quiet_for(&self, long: u64) -> bool {
        let now = self.world.now();
        self.calm_for(long) && self.store.meddled_at().is_none_or(|at| at + long <= now)
    }

    /// Notes a grant, perhaps the answer to somebody who asked; the answer takes it back.
    pub fn granted(self: &Arc<Self>, who: &str, entry: Entry, asking: Option<&Asking>) -> Holding {
        let (now, token) = (self.world.now(), entry.view.fencing_token());
        let path = entry.view.node_path().to_owned();
        let valid = entry.view.is_valid();
        self.world.say(|| {
            let valid = if valid { "" } else { ", which is lost already" };
            format!("{who}: has {path}, token {token}{valid}")
        });
        let gone = self.gone(&path, token);
        let calm = self.calm_for(self.timeout);
        let again = entry.again;
        // Who closes its session takes back what was granted and not picked up yet.
        let closing = self.is_closing(&entry.process);
        let asked_at = self.lock().asked_since(&entry, asking);
        let over = match asked_at {
            Some(since) => self.may_be_over(entry.lock, since, now),
            None => self.is_over(&self.lock().began, (entry.lock, token), now),
        };
        // Who asked is noted in the poll that gives it the guard: whatever goes wrong, it was valid a moment ago.
        let at_once = asking.is_some() || calm && gone.is_none();
        if !again && !valid && at_once && !closing && !over {
            self.fail(super::VALID, format!("{who} got {path}, which was not valid"));
        }
        if !again && self.lock().spoiled.contains(&token.czxid()) {
            self.fail(super::VALID, format!("{who} got {path}, which its last holder had lost"));
        }
        if !again {
            self.check_asked(who, &entry, &path);
        }
        let there = valid && gone.is_none();
        if valid && !again {
            self.check_grant(who, &entry, &path, gone);
        }
        if there && !again {
            self.check_scopes(who, &entry, &path);
        }
        if let Some(asking) = asking {
            self.check_order(who, asking);
            self.lets_in(&entry, &path, asking);
        }
        let owner = self.store.owner_of(&path, Some(token.czxid() as i64));
        let mut state = self.lock();
        state.grants += 1;
        state.granted.insert(entry.lock, now);
        state.noted.insert(token.czxid());
        state.grants_on.insert(token.czxid(), now);
        state.lingering.retain(|node| !node.is_at(&path));
        state.left.retain(|node| !node.is_at(&path));
        state.passing.retain(|node| !node.is_of(token.czxid()));
        state.next += 1;
        self.has_news();
        state.forgive(entry.lock, &entry.process, None);
        let id = state.next;
        let (lock, exclusive) = (entry.lock, entry.share.0 == entry.share.1);
        let mut old = None;
        if there && !entry.lock_has_permits {
            let (all, alone) = state.greatest.entry(lock).or_default();
            let most = if exclusive { *all } else { *alone };
            old = most.filter(|most| *most >= token);
            *all = (*all).max(Some(token));
            if exclusive {
                *alone = (*alone).max(Some(token));
            }
        }
        // What is held again, in another form or inside, has the token that it had.
        old = old.filter(|most| *most > token || !again && !state.scopes.share(token));
        let until = now + entry.view.remaining().as_micros() as u64;
        // It may have been asked while it waited.
        let asked = !again && self.store.ensemble().data(&path).as_deref() == Some(ASKED);
        let first =
            if exclusive { now } else { state.wrote.get(&token.czxid()).copied().unwrap_or(now) };
        if exclusive {
            state.wrote.insert(token.czxid(), now);
        }
        state.begins(&entry, asked_at, now);
        let held = Held {
            first,
            entry,
            path,
            token,
            since: now,
            owner,
            lost: None,
            awaited: false,
            gone,
            deaths: 0,
            until,
            down: None,
            wished: asked.then_some(now),
        };
        state.held.insert(id, held);
        drop(state);
        self.world.note(&[id, token.czxid()]);
        if let Some(old) = old {
            self.fail(super::TOKENS, format!("{who} got {token} after {old}"));
        }
        Holding { ledger: self.clone(), id }
    }

    /// How the node of a guard ended.
    pub(super) fn gone(&self, path: &str, token: FencingToken) -> Option<(u64, Ended)> {
        self.store.end_of(path, Some(token.czxid() as i64))
    }

    /// Until when a guard said that it is valid.
    pub fn valid_until(&self, id: u64) -> u64 {
        self.lock().held.get(&id).map_or(0, |held| held.until)
    }

    /// A body goes on that was asleep.
    pub fn check_body(&self, who: &str, id: u64) {
        let state = self.lock();
        let lost = state.held.get(&id).filter(|held| !held.entry.view.is_valid());
        let what = lost.map(|held| format!("{who} goes on in {}, which is lost", held.path));
        drop(state);
        if let Some(what) = what {
            self.fail(super::IN_TIME, what);
        }
    }

    /// The nodes of a lock that somebody holds.
    pub fn held_nodes(&self, lock: usize) -> Vec<String> {
        let state = self.lock();
        let held = state.held.values().filter(|held| held.entry.lock == lock);
        held.filter(|held| held.gone.is_none()).map(|held| held.path.clone()).collect()
    }

    /// Notes that somebody asks for the release of a node.
    pub fn wished(&self, path: &str) {
        let now = self.world.now();
        let mut state = self.lock();
        for held in state.held.values_mut().filter(|held| held.path == path) {
            held.wished = Some(now);
        }
        // What nobody uses goes at once.
        state.lingering.retain(|node| !node.is_at(path));
    }

    /// Notes that somebody deletes or overwrites a node. A wish that was in it is a wish no more.
    pub fn overwritten(&self, path: &str) {
        let mut state = self.lock();
        for held in state.held.values_mut().filter(|held| held.path == path) {
            held.wished = None;
        }
    }

    /// Notes that somebody breaks a lock. Where names recur, the node may be of the same process by then.
    pub fn breaks(&self, path: &str, czxid: u64) {
        let mut state = self.lock();
        state.broken.insert(path.to_owned());
        state.aimed_at.insert(czxid);
    }

    /// Notes that a writer was lost while it stepped down, which may have deleted its node.
    pub fn lost_stepping_down(&self, writer: &GuardView) {
        self.lock().stepped_down.insert(writer.fencing_token().czxid());
    }

    /// Whether somebody means to delete this node.
    pub fn is_aimed_at(&self, czxid: u64) -> bool {
        self.lock().aimed_at.contains(&czxid)
    }

    /// Notes that a process that stood still goes on. What its tasks had to do meanwhile, they do from
    /// now on.
    pub fn goes_on(&self, process: &Process) {
        let now = self.world.now();
        let mut state = self.lock();
        state.scopes.go_on(process.id(), now);
        state.stood_still.insert(process.id());
        for (_, at) in state.ends.values_mut().filter(|(of, _)| of.id() == process.id()) {
            *at = now;
        }
        for held in state.held.values_mut().filter(|held| held.entry.process.id() == process.id()) {
            held.lost = held.lost.map(|_| now);
        }
    }

    /// Notes that somebody in a process has looked at the queue of a lock.
    pub fn inspects(&self, lock: usize, process: &Process) {
        let now = self.world.now();
        self.lock().inspected.insert((lock, process.id()), now);
    }

    /// Notes that a process closes its session.
    pub fn closes(&self, process: &Process) {
        self.lock().closing.insert(process.id());
    }

    /// Whether a process closes its session.
    pub fn is_closing(&self, process: &Process) -> bool {
        self.lock().closing.contains(&process.id())
    }

    /// Notes that a task waits for the end of a grant.
    pub fn expects_end(&self, id: u64) {
        self.lock().expected.insert(id);
    }

    /// Notes that a guard was dropped.
    pub fn ends(&self, id: u64, process: &Process) {
        let now = self.world.now();
        let mut state = self.lock();
        if state.expected.remove(&id) {
            state.ends.insert(id, (process.clone(), now));
        }
    }

    /// Notes that a task was told of the end that it waited for. Whether there was one.
    pub fn told_of_end(&self, id: u64) -> bool {
        let mut state = self.lock();
        !state.expected.remove(&id) | state.ends.remove(&id).is_some()
    }

    /// Forgets everything, so that what is held can go.
    pub fn clear(&self) {
        let held = std::mem::take(&mut self.lock().held);
        drop(held);
    }
}

/// Somebody holds. Dropped before the guard is let go of.
#[derive(Debug)]
pub struct Holding {
    ledger: Arc<Ledger>,
    id: u64,
}

impl Holding {
    /// Says that somebody waits for `lost()` from now on.
    pub fn awaits(&self) {
        if let Some(held) = self.ledger.lock().held.get_mut(&self.id) {
            held.awaited = true;
        }
    }

    /// Who waited for `lost()` was told.
    pub fn is_told(&self) {
        if let Some(held) = self.ledger.lock().held.get_mut(&self.id) {
            held.awaited = false;
        }
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let now = self.ledger.world.now();
        let mut state = self.ledger.lock();
        let held = state.held.remove(&self.id);
        if let Some(held) = &held {
            state.let_go.insert(held.entry.lock, now);
        }
        drop(state);
        if let Some(held) = held {
            let entry = &held.entry;
            let alone = entry.share.0 == entry.share.1 && !entry.lock_has_permits;
            let (here, lost) = ((entry.lock, held.token), held.lost.unwrap_or(now));
            let is_over = self.ledger.is_over(&self.ledger.lock().began, here, lost);
            if alone && !is_over && !entry.view.is_valid() {
                self.ledger.lock().spoiled.insert(held.token.czxid());
            }
            self.ledger.lets_go_if_asked(&held);
            if held.entry.process.is_alive() {
                self.ledger.needs_no_delay(held.entry.lock, held.token.czxid());
                self.ledger.lingers(&held);
            }
            drop(held);
        }
    }
}
