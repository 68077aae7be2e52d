//! A generation: one ZooKeeper session in the life of a lane, and the nodes that are held in it.

mod commits;
mod counts;
mod held;
mod listing;
mod told;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub use self::commits::{Gate, MOST_CHECKED};
pub use self::counts::{PendingDeletion, Resting};
pub use self::held::{HeldNode, OfLock};
use self::listing::Listings;
pub use self::listing::{Listed, Listing, Since};
use crate::base::clock::{Clock, Instant};
use crate::base::error::{ErrorKind, LockError};
use crate::base::policy::StopAt;
use crate::base::times;
use crate::base::until::until;
use crate::coordinator::traits::{Coordinator, Link, RequestError};
use crate::divergence::head_age::{Age, HeadAges};
use crate::divergence::phantom::PhantomNode;
use crate::observe::observer::{Event, Events, LossReason};
use crate::session::late_answers::LateAnswers;
use crate::session::lease_clock::{Condition, LeaseClock, Term};
use crate::session::reply_timeout::TimedReplies;
use crate::session::spawner::Spawner;
use crate::session::standstill::{Standstill, Stood};
use crate::session::watch_budget::WatchBudget;

/// How a generation ended.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Instant,
    /// Whether its ZooKeeper session was over. If not, the client goes on until that is closed, and nobody
    /// records any more when it is connected.
    of_itself: bool,
}

/// One ZooKeeper session. Guards belong to one generation and are lost with it.
#[derive(Debug)]
pub struct Generation {
    number: u64,
    coordinator: Arc<dyn Coordinator>,
    /// The same, whose answers are waited for without end.
    patient: Arc<dyn Coordinator>,
    /// Whether the coordinator itself knows when it was last in contact.
    self_aware: bool,
    lease: LeaseClock,
    late: LateAnswers,
    spawner: Spawner,
    events: Events,
    end: OnceLock<End>,
    /// Whether the session was closed and is over by the client's word.
    closed: AtomicBool,
    retired: AtomicBool,
    /// A node that shows that the server's data differ from its leader's.
    phantom: OnceLock<PhantomNode>,
    head_ages: HeadAges,
    /// Lists that several callers wait for.
    listings: Listings,
    /// The number of reconnects.
    reconnects: AtomicU64,
    /// The time of the last reconnect.
    reconnected_at: AtomicU64,
    /// Fires on every change above and when a held node is gone.
    changed: Notify,
    /// The time at which the connection was last lost.
    lost_at: AtomicU64,
    /// The number of times that leases were lost.
    losses: AtomicU64,
    /// How many terms had ended when leases were last looked at for that.
    told: AtomicU64,
    held: Mutex<HashMap<Arc<str>, Arc<HeldNode>>>,
    /// Whether the keeper sleeps because nothing is held, and what wakes it then.
    keeper_rests: AtomicBool,
    keeper: Notify,
    watches: Arc<WatchBudget>,
    /// The greatest czxid of a node that was created in this session.
    newest: AtomicI64,
    /// By directory: who creates a node that looks like others of this session.
    gates: Mutex<HashMap<Arc<str>, Weak<Gate>>>,
    /// When the process stood still.
    standstill: Standstill,
    /// Deletions that are not yet confirmed.
    cleaning: AtomicUsize,
    cleaned: Notify,
    /// Nodes that stay for a while after their release.
    resting: AtomicUsize,
}

impl Generation {
    /// Wraps a ZooKeeper session that was just opened; `stood` is the time in which the process stood
    /// still meanwhile.
    pub fn new(
        number: u64,
        coordinator: Arc<dyn Coordinator>,
        lease: LeaseClock,
        spawner: Spawner,
        events: Events,
        watches: Arc<WatchBudget>,
        stood: Option<Stood>,
    ) -> Arc<Self> {
        // A time of another clock says nothing here.
        let is_of_caller = matches!(lease.clock(), Clock::Caller);
        let self_aware = is_of_caller && coordinator.last_contact().is_some();
        let stood = stood.filter(|_| !self_aware);
        let standstill = Standstill::new(lease.timing(), lease.clock().now(), stood);
        let head_ages = HeadAges::new(times::long_wait(lease.timeout()));
        Arc::new(Generation {
            number,
            self_aware,
            coordinator: Arc::new(TimedReplies::new(coordinator.clone(), lease.clock().clone())),
            patient: coordinator,
            lease,
            late: LateAnswers::default(),
            spawner,
            events,
            end: OnceLock::new(),
            closed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            phantom: OnceLock::new(),
            head_ages,
            listings: Listings::default(),
            reconnects: AtomicU64::new(0),
            reconnected_at: AtomicU64::new(0),
            lost_at: AtomicU64::new(0),
            changed: Notify::new(),
            losses: AtomicU64::new(0),
            told: AtomicU64::new(0),
            held: Mutex::default(),
            keeper_rests: AtomicBool::new(false),
            keeper: Notify::new(),
            watches,
            newest: AtomicI64::new(0),
            gates: Mutex::default(),
            standstill,
            cleaning: AtomicUsize::new(0),
            cleaned: Notify::new(),
            resting: AtomicUsize::new(0),
        })
    }

    /// The number of this generation in its lane, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The ZooKeeper session. A request that is not answered within a session timeout fails.
    pub fn coordinator(&self) -> &Arc<dyn Coordinator> {
        &self.coordinator
    }

    /// The time after which a missing reply is acted upon.
    pub fn patience(&self) -> Duration {
        times::reply(self.lease.timeout())
    }

    /// The lease clock.
    pub fn lease(&self) -> &LeaseClock {
        &self.lease
    }

    /// Runs background tasks.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// The budget of watches.
    pub fn watches(&self) -> &Arc<WatchBudget> {
        &self.watches
    }

    /// The receivers of events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Whether the coordinator itself knows when it was last in contact. Then no heartbeats are
    /// needed, and expiry is found by asking.
    pub fn is_self_aware(&self) -> bool {
        self.self_aware
    }

    /// Lets such a coordinator feed the lease clock. It changes nothing else and tells nobody,
    /// because the caller may hold a lock that those told would need. The keeper tells them.
    fn observe(&self) {
        if self.self_aware
            && let Some(at) = self.coordinator.last_contact()
        {
            self.lease.observed(at);
        }
    }

    /// Whether the ZooKeeper session is over, even if the keeper has not ended the generation yet.
    pub fn is_over(&self) -> bool {
        self.observe();
        self.end.get().is_some() || self.self_aware && self.coordinator.link().is_over()
    }

    /// Whether the generation was retired while its ZooKeeper session lives.
    pub fn was_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Whether new acquires should use another generation.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire) || self.is_over()
    }

    /// Records that the thread that sends the messages runs, at intervals of a heartbeat or less. If it
    /// stood still, it says at once that it goes on: the client library counts the time in which a machine
    /// was suspended for nothing, and may be silent for as long as before.
    pub fn awake(&self, now: Instant) {
        if !self.self_aware && self.standstill.runs(now) {
            if self.coordinator.link() == Link::Up {
                drop(self.patient.sync("/"));
            }
            self.leave_if_too_long(now);
        }
    }

    /// Looks on any thread whether that one stands still.
    fn look_whether_awake(&self, now: Instant) {
        if !self.self_aware && self.standstill.looks(now) {
            // The keeper's timers may not count the time in which a machine was suspended.
            self.changed.notify_waiters();
            self.leave_if_too_long(now);
        }
    }

    /// If it stood still for longer than a lease, a new session serves sooner than this one could be
    /// trusted.
    fn leave_if_too_long(&self, now: Instant) {
        if self.standstill.was_too_long(now) && !self.was_retired() {
            tracing::warn!("the process stood still: a new ZooKeeper session is opened");
            self.take_out_of_use();
        }
    }

    /// From when on a commit proves as much as usual, if it does not because the process stood still.
    pub fn settles_at(&self, now: Instant) -> Option<Instant> {
        self.standstill.settles_at(now)
    }

    /// Waits until a commit proves as much as usual.
    pub async fn settled(&self) {
        let clock = self.lease.clock();
        while let Some(at) = self.settles_at(clock.now()) {
            clock.sleep_until(at).await;
        }
    }

    /// Whether the process stood still for longer than a lease.
    fn stood_still(&self, now: Instant) -> bool {
        !self.self_aware && self.standstill.was_too_long(now)
    }

    /// The term of a lease that is granted now, if commits were answered recently enough: a grant
    /// needs the time of a heartbeat left, so that the keeper certainly looks before the lease runs
    /// out, and the word of the leader that it has heard of the session.
    pub fn grantable(&self, stop_at: StopAt) -> Option<Term> {
        let (term, now) = (self.lease.term(stop_at), self.lease.clock().now());
        let valid = self.is_valid_at(term, now);
        let fresh = match stop_at {
            // The next heartbeat is not due yet.
            StopAt::Suspect => now < self.lease.last_commit() + self.lease.heartbeat(),
            StopAt::Lost => {
                self.lease.condition(now) == Condition::Held
                    && now + self.lease.heartbeat() < self.lease.valid_until()
            }
        };
        let proven = self.lease.is_proven(now);
        (valid && fresh && proven && !self.stood_still(now)).then_some(term)
    }

    /// Tells that a lock is not granted, for want of answers that come in time, to somebody who asks
    /// `since` then and had an answer just now that `took` so long.
    pub fn tell_late(&self, lock: &str, since: Instant, took: Duration) {
        let (now, timing) = (self.lease.clock().now(), self.lease.timing());
        if now.since(since) >= timing.lease && took >= timing.heartbeat {
            let took = Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            self.late.note(lock, took, &timing, now);
        }
    }

    /// Why nothing is granted here, if answers come late.
    pub fn late_answers(&self) -> Option<LockError> {
        self.late.trouble(&self.lease.timing(), self.lease.clock().now())
    }

    /// Whether a lease of a term is valid at `now`, which was just read. Once it is not, that is final: the
    /// keeper may not look before the connection is back.
    pub fn is_valid_at(&self, term: Term, now: Instant) -> bool {
        let connected = || self.coordinator.link() == Link::Up;
        !self.is_over() && !self.lease.is_over_at(term, now, connected)
    }

    /// Until when leases are valid if ZooKeeper sends nothing more.
    pub fn valid_until(&self, stop_at: StopAt) -> Instant {
        self.observe();
        match stop_at {
            StopAt::Suspect => self.lease.suspect_at(),
            StopAt::Lost => self.lease.valid_until(),
        }
    }

    /// The time until the held locks are lost if ZooKeeper answers nothing more; `None` if there are
    /// none.
    pub fn margin(&self) -> Option<Duration> {
        let left = || self.valid_until(StopAt::Lost).since(self.lease.clock().now());
        (!self.holds_nothing()).then(left)
    }

    /// Waits for the next change in this generation. Enable the future before looking.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Waits until something is so that a change in this generation may bring about.
    pub async fn until(&self, so: impl Fn() -> bool) {
        until(&self.changed, so).await;
    }

    /// Waits for a time, or until something about the session has changed.
    pub async fn pause(&self, time: Duration) {
        let clock = self.lease.clock();
        or(clock.sleep_until(clock.now() + time), self.changed()).await;
    }

    /// When the connection was lost last, or [`Instant::ORIGIN`].
    fn lost_at(&self) -> Instant {
        Instant::from_nanos(self.lost_at.load(Ordering::Acquire))
    }

    /// When the connection came back last, or [`Instant::ORIGIN`].
    pub fn reconnected_at(&self) -> Instant {
        Instant::from_nanos(self.reconnected_at.load(Ordering::Acquire))
    }

    /// The number of reconnects.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Acquire)
    }

    /// Records that the connection is lost.
    pub fn disconnected(&self) {
        let now = self.lease.clock().now();
        self.lost_at.store(now.as_nanos(), Ordering::Release);
    }

    /// Records that the connection is back.
    pub fn reconnected(&self) {
        let now = self.lease.clock().now();
        self.reconnected_at.store(now.as_nanos(), Ordering::Release);
        self.reconnects.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Ends the generation: everything held in it is lost.
    pub fn end(&self) {
        let at = self.lease.clock().now();
        let end = End { at, of_itself: self.coordinator.link().is_over() };
        if self.end.set(end).is_ok() {
            self.lose_leases();
            // Nobody waits for the deletions of a session that is over.
            self.cleaned.notify_waiters();
        }
    }

    /// Closes the ZooKeeper session, which is over.
    pub async fn close(&self) {
        let begun = self.lease.clock().now();
        self.coordinator.close().await;
        if self.lease.clock().now() >= begun + times::CLOSE {
            // Nobody has answered.
            return;
        }
        self.closed.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Loses all leases granted so far; their nodes may still exist.
    pub fn lose_leases(&self) {
        self.lease.end_epoch();
        self.lose_past();
        self.changed.notify_waiters();
    }

    /// Records that the connection is in doubt: leases that stop at this point are lost.
    pub fn doubt(&self) {
        self.lease.doubt();
        self.lose_past();
    }

    /// The same as [`lose_past`](Self::lose_past), if a term has ended since the last time: whoever sees
    /// that a lease is over only ends its term, and may hold the lock of a queue.
    pub fn lose_what_ended(&self) {
        let ended = self.lease.ended();
        if self.told.swap(ended, Ordering::AcqRel) != ended {
            self.lose_past();
        }
    }

    /// Reports the leases that were lost when their term ended. What was granted since then stays.
    pub fn lose_past(&self) {
        let lost = self.take_past();
        if lost.is_empty() {
            return;
        }
        self.losses.fetch_add(1, Ordering::AcqRel);
        for node in lost {
            node.tell_loss(&self.events, self.why_over(node.term));
        }
        self.changed.notify_waiters();
    }

    /// Why a term is over.
    fn why_over(&self, term: Term) -> LossReason {
        match term.stop_at() {
            // ZooKeeper deletes the nodes of a session that ends.
            _ if self.is_over() => LossReason::SessionEnded,
            StopAt::Suspect => LossReason::Suspect,
            StopAt::Lost => LossReason::Silence,
        }
    }

    /// Takes the nodes of terms that are over out of the heartbeat's care. Nodes granted since then
    /// stay.
    fn take_past(&self) -> Vec<Arc<HeldNode>> {
        let mut held = self.lock_held();
        let past = held.extract_if(|_, node| !self.lease.is_present(node.term));
        let mut past: Vec<_> = past.map(|(_, node)| node).collect();
        // In a fixed order, instead of the map's.
        past.sort_unstable_by_key(|node| node.czxid);
        past
    }

    /// Retires the generation because a node cannot be deleted: new acquires use another one, and
    /// this one is closed when nothing is held in it any more, nor to be deleted.
    pub fn retire(&self, path: &str, why: &RequestError) {
        tracing::error!(path, %why, "the server refused to delete a lock's node; it is deleted \
                                     when its ZooKeeper session ends");
        self.events.tell(|| Event::StuckNode {
            path: path.to_owned(),
            error: LockError::new(ErrorKind::Unauthorized, why.in_short()),
        });
        self.take_out_of_use();
    }

    /// Retires the generation because the data of its server differ from its leader's.
    pub fn leave(&self, phantom: PhantomNode) {
        let path = &phantom.path;
        tracing::error!(path, "the server shows a node that its leader does not know");
        self.events.tell(|| Event::Diverged { path: path.clone() });
        // Others may have found another such node.
        let _ = self.phantom.set(phantom);
        self.take_out_of_use();
    }

    /// A node that shows that the server's data differ from its leader's.
    pub fn phantom(&self) -> Option<&PhantomNode> {
        self.phantom.get()
    }

    /// From when on a wait counts as long, so that the head of the queue is checked.
    pub fn long_wait(&self) -> Duration {
        self.head_ages.check_after()
    }

    /// The pause between two looks without a watch.
    pub fn slow_look(&self) -> Duration {
        times::look_without_watch(self.lease.timeout())
    }

    /// Whether a contender has been at the head of a queue for so many long waits, as seen by those who
    /// waited there. True once per such time.
    pub fn is_check_due(&self, directory: &str, path: &Arc<str>, times: u32) -> bool {
        self.head_ages.is_check_due(directory, path, times, self.lease.clock().now())
    }

    /// Whether a contender that belongs to no session has been there for a long wait, as far as is known;
    /// `own` is the age of the caller's node.
    pub fn has_stayed(&self, directory: &str, czxid: i64, own: Option<Age>) -> bool {
        self.head_ages.has_stayed(directory, czxid, own, self.lease.clock().now())
    }

    fn take_out_of_use(&self) {
        self.retired.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// The number of times that leases were lost.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::memory::Embedded;
    use crate::coordinator::traits::Connector;
    use crate::session::timing::Timing;
    use std::thread;

    async fn generation() -> Arc<Generation> {
        let timeout = Duration::from_secs(12);
        let timing = Timing::of(timeout, None).unwrap();
        let coordinator = Embedded::new().connector(timeout).connect().await.unwrap();
        let lease = LeaseClock::new(Clock::Caller, timing, Clock::Caller.now());
        Generation::new(
            1,
            coordinator,
            lease,
            Spawner::Inline,
            Events::default(),
            WatchBudget::new(""),
            None,
        )
    }

    #[tokio::test]
    async fn a_grant_between_the_end_of_the_leases_and_their_loss_is_cared_for() {
        let generation = generation().await;
        let before = generation.grantable(StopAt::Lost).unwrap();
        generation.lease().end_epoch();
        let after = generation.grantable(StopAt::Lost).unwrap();
        assert!(generation.hold("/a".into(), "a".into(), 1, before, None).is_none());
        let granted = generation.hold("/b".into(), "b".into(), 2, after, None).unwrap();
        let careful = generation.grantable(StopAt::Suspect).unwrap();
        generation.doubt();
        assert!(generation.hold("/c".into(), "c".into(), 3, careful, None).is_none());
        let held: Vec<_> = generation.held().iter().map(|node| node.path.clone()).collect();
        assert!(held.len() == 1 && held[0] == granted.path, "{held:?}");
    }

    #[tokio::test]
    async fn whatever_is_granted_while_leases_are_lost_is_cared_for_or_lost() {
        let generation = generation().await;
        let other = generation.clone();
        let losing = thread::spawn(move || (0..2_000).for_each(|_| other.lose_leases()));
        let mut number = 0;
        while !losing.is_finished() {
            number += 1;
            let path: Arc<str> = format!("/{number}").into();
            let Some(term) = generation.grantable(StopAt::Lost) else { continue };
            let Some(node) = generation.hold(path.clone(), "a".into(), number, term, None) else {
                continue;
            };
            let cared_for = generation.held().iter().any(|held| held.czxid == number);
            assert!(cared_for || !generation.lease().is_present(term), "{number}");
            generation.unhold(&node);
        }
        losing.join().unwrap();
    }
}
