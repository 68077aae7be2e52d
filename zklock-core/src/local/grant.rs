//! A grant of a lock to a caller in this process, shared by all its holds.

use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::Notify;

use crate::acquire::lease::Lease;
use crate::base::caller::Caller;
use crate::base::cancel_policy::CancelPolicy;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::first::first;
use crate::base::mode::Mode;
use crate::base::policy::StopAt;
use crate::base::token::FencingToken;
use crate::base::unharmed::{tell_all, unharmed, unharming};
use crate::observe::observer::{Event, Granted, GrantedBy, LossReason};
use crate::session::local_queues::{Holding, LocalContender};
use crate::session::slow::{Slow, Warning};

mod hold;
mod keepers;
mod source;

use hold::{AWAITED, COUNT, is_open};
pub use hold::{GivenBack, Hold, Sole};
pub use keepers::Kept;
use keepers::Nested;
pub use source::{GrantSource, SteppingDown};

/// One grant. It ends with its last hold, and the lock then passes to the next caller.
#[derive(Debug)]
pub struct Grant {
    terms: Terms,
    /// For several permits: the other ones.
    more: Option<Box<More>>,
    /// The number of holds, and whether somebody waits for the end. Both are in one word, so that
    /// neither change is missed, and an end that nobody waits for costs nothing more.
    holds: AtomicUsize,
    end: Notify,
    kept: AtomicU8,
    /// Who keeps it as well, and who begins anew: of most grants nobody. It is locked while the queue is, and
    /// never the other way round.
    nested: OnceLock<Box<Mutex<Nested>>>,
}

impl Deref for Grant {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

/// The leases of further permits.
#[derive(Debug)]
struct More {
    leases: Box<[Arc<Lease>]>,
    /// How many of these it has kept.
    kept: AtomicUsize,
    /// Whether somebody was told that one of all the leases is lost: the grant stays lost, although that one may be
    /// split off.
    lost: AtomicBool,
}

impl More {
    /// `None` of none: most grants are one node.
    fn of(leases: impl Iterator<Item = Arc<Lease>>) -> Option<Box<Self>> {
        let leases: Box<[_]> = leases.collect();
        let kept = AtomicUsize::new(leases.len());
        let lost = AtomicBool::new(false);
        (!leases.is_empty()).then(|| Box::new(More { leases, kept, lost }))
    }

    fn kept(&self) -> &[Arc<Lease>] {
        &self.leases[..self.kept.load(Ordering::Acquire)]
    }
}

/// What is known of a grant from its beginning.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The lock's queue.
    pub queue: Arc<dyn GrantSource>,
    /// Its lease, or the first of several.
    pub lease: Arc<Lease>,
    /// The fencing token.
    pub token: FencingToken,
    /// The mode in which the lock is held.
    pub mode: Mode,
    /// The caller to which it was granted.
    pub who: Caller,
    /// The label of its holder.
    pub label: Option<Arc<str>>,
    /// The number of those who were ahead of it at first.
    pub ahead: u32,
    /// For how long its node is kept after the last release.
    pub linger: Duration,
    /// The time of the grant.
    pub since: Instant,
}

impl Grant {
    /// A grant without a hold, with the leases of further permits. It is made in its place: it is large, and
    /// every caller gets one.
    pub fn new(terms: Terms, more: impl Iterator<Item = Arc<Lease>>) -> Arc<Self> {
        Arc::new(Grant {
            terms,
            more: More::of(more),
            holds: AtomicUsize::new(0),
            end: Notify::new(),
            kept: AtomicU8::new(Kept::InScope as u8),
            nested: OnceLock::new(),
        })
    }

    /// How it was granted; `nested` inside a call that holds it.
    pub fn as_granted(&self, nested: bool) -> Granted {
        let by = match (nested, self.token.is_first()) {
            (true, _) => GrantedBy::Scope,
            (false, true) => GrantedBy::Node,
            (false, false) => GrantedBy::Handoff,
        };
        // A nested call waits for nobody but its siblings.
        let ahead = if nested { 0 } else { self.ahead };
        Granted { pattern: self.queue.pattern(), token: self.token, ahead, by }
    }

    /// Logs, if this is wanted, that it is held for long; until the returned value is dropped.
    pub fn warn(&self, limit: Duration) -> Option<Warning> {
        if limit == Duration::MAX {
            return None;
        }
        let (lock, label) = (self.queue.lock_name().clone(), self.label.clone());
        let slow = Slow { lock, who: self.who, label, since: self.since, limit };
        let session = self.queue.session();
        Some(slow.holding(session.clock(), session.spawner()))
    }

    /// Describes its holder for people.
    pub fn describe(&self, now: Instant) -> LocalContender {
        LocalContender {
            lock: self.queue.lock_name().clone(),
            holds: true,
            elapsed: now.since(self.since),
            caller: self.who.to_string(),
            label: self.label.clone(),
        }
    }

    /// Describes its holder for other clients.
    pub fn holding(&self) -> Holding {
        Holding { token: self.token, since: self.since, label: self.label.clone() }
    }

    /// Makes the last of its leases a grant of their own; `None` if that leaves none, and if one of them is lost.
    pub fn split(&self, leases: usize) -> Option<Arc<Grant>> {
        let own = self.more.as_ref()?;
        let kept = own.kept();
        let left = kept.len().checked_sub(leases)?;
        let mut part = kept[left..].iter().cloned();
        let first = part.next()?;
        own.kept.store(left, Ordering::Release);
        // It may have been lost since the caller looked, and somebody may know it.
        let is_lost = !kept[left..].iter().all(|lease| lease.is_valid());
        if own.lost.load(Ordering::Acquire) || is_lost {
            own.kept.store(kept.len(), Ordering::Release);
            return None;
        }
        let token = first.next_token();
        let terms = Terms { lease: first, token, ahead: 0, ..self.terms.clone() };
        let part = Grant::new(terms, part);
        part.keep(self.kept());
        Some(part)
    }

    /// All its leases.
    pub fn leases(&self) -> impl Iterator<Item = &Arc<Lease>> {
        std::iter::once(&self.lease).chain(self.more())
    }

    /// The leases of further permits.
    fn more(&self) -> &[Arc<Lease>] {
        self.more.as_ref().map_or(&[], |more| more.kept())
    }

    /// Whether it is held and can be held again: not while the only hold is taken out.
    pub fn is_open(&self) -> bool {
        is_open(self.holds.load(Ordering::Acquire))
    }

    /// The mode in which it is in the way of whoever comes: a writer that steps down is a reader soon, beside
    /// whom readers enter, unless it was asked to release.
    pub fn mode_ahead(&self) -> Mode {
        if self.is_open() || self.is_revoked() { self.mode } else { Mode::Read }
    }

    /// The number of holds.
    pub fn holds(&self) -> usize {
        self.holds.load(Ordering::Acquire) & COUNT
    }

    /// The first hold.
    pub fn hold(self: Arc<Self>) -> Hold {
        self.holds.fetch_add(1, Ordering::AcqRel);
        Hold(Some(self))
    }

    /// Adds a hold, unless the grant has ended.
    pub fn hold_again(self: &Arc<Self>) -> Option<Hold> {
        let more = |holds: usize| is_open(holds).then_some(holds + 1);
        self.holds.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Hold(Some(self.clone())))
    }

    /// Whether the lock is certainly held now.
    pub fn is_valid(&self) -> bool {
        self.holds() > 0 && !self.is_known_lost(Lease::is_valid)
    }

    /// Whether one of its leases is not valid, or was not when somebody asked before.
    pub(super) fn is_known_lost(&self, is_valid: impl Fn(&Lease) -> bool) -> bool {
        let Some(more) = &self.more else { return !is_valid(&self.lease) };
        let was_lost = more.lost.load(Ordering::Acquire);
        if !was_lost && self.leases().all(|lease| is_valid(lease)) {
            return false;
        }
        more.lost.store(true, Ordering::Release);
        true
    }

    /// Whether all its leases are valid at `now`, which was just read.
    pub fn is_leased_at(&self, now: Instant) -> bool {
        !self.is_known_lost(|lease| lease.is_valid_at(now))
    }

    /// Resolves when one of its leases is lost, and when the grant has ended.
    pub async fn lost(&self) {
        let mut end = pin!(self.end.notified());
        end.as_mut().enable();
        if self.holds.fetch_or(AWAITED, Ordering::AcqRel) & COUNT == 0 {
            return;
        }
        or(self.of_any(Lease::lost, |lease| !lease.is_valid()), unharming(end)).await;
        // Noted for those who ask later.
        self.is_valid();
    }

    /// Resolves when a condition holds for one of its leases. Those that were split off meanwhile do not
    /// count.
    async fn of_any<'a, F: Future<Output = ()>>(
        &'a self,
        resolves: impl Fn(&'a Lease) -> F,
        is_so: impl Fn(&Lease) -> bool,
    ) {
        if self.more.is_none() {
            return resolves(&self.lease).await;
        }
        while !self.leases().any(|lease| is_so(lease)) {
            first(self.leases().map(|lease| resolves(lease))).await;
        }
    }

    /// Wakes those that wait for the end; `before` is the earlier count of holds.
    fn tell_of_end(&self, before: usize) {
        if before & AWAITED != 0 {
            tell_all(&self.end);
        }
    }

    /// Whether somebody asked for the release of the lock.
    pub fn is_revoked(&self) -> bool {
        self.leases().any(|lease| lease.is_revoked())
    }

    /// Resolves when somebody asks for the release of the lock.
    pub async fn revoked(&self) {
        self.of_any(Lease::revoked, Lease::is_revoked).await;
    }

    /// Resolves when something happens that ends a body.
    pub async fn ended(&self, cancel_policy: CancelPolicy) {
        let ended = |lease: &Lease| lease.is_ended(cancel_policy);
        self.of_any(|lease| lease.ended(cancel_policy), ended).await;
    }

    /// Watches its nodes from now on, so that such a request arrives at once.
    pub fn watch(&self) {
        self.leases().for_each(|lease| lease.watch());
    }

    /// For how long the lock is certainly held if ZooKeeper sends nothing more.
    pub fn remaining(&self) -> Duration {
        if self.holds() == 0 {
            return Duration::ZERO;
        }
        self.leases().map(|lease| lease.remaining()).min().unwrap_or_default()
    }

    /// The present time, on the clock of the lease.
    pub fn now(&self) -> Instant {
        self.queue.session().clock().now()
    }

    /// Reports that a body ended because somebody asked for the lock, unless another call, around it or
    /// inside, still holds it.
    pub fn gave_way(&self) {
        let Some(asked) = self.leases().find(|lease| lease.is_revoked()) else { return };
        if self.holds() > 1 {
            return;
        }
        let (lock, path, czxid) = (self.queue.lock_name(), asked.path(), asked.czxid());
        // Nothing is wrong: it was held to the end.
        let ended = "a body ended because somebody asked for its lock";
        unharmed(|| tracing::info!(lock = &**lock, path = &**path, "{ended}"));
        self.queue.session().events().tell(|| Event::Lost {
            lock: lock.clone(),
            pattern: self.queue.pattern().text(),
            mode: self.mode,
            czxid,
            token: Some(self.token),
            reason: LossReason::Revoked,
        });
    }

    /// The error for a body that ends because its lock is to be released.
    pub fn revoked_error(&self) -> LockError {
        LockError::new(ErrorKind::Revoked, "somebody asked its holder to release it")
            .on(self.queue.lock_name().clone())
    }

    /// The error for a lock that was lost, or whose guard has gone.
    pub fn lost_error(&self) -> LockError {
        let now = self.now();
        let is_lost = self.leases().any(|lease| lease.is_lost_at(now));
        let why = match self.lease.stop_at() {
            _ if self.holds() == 0 && !is_lost => match self.mode {
                Mode::Write => "its guard was released or downgraded",
                _ => "its guard was released",
            },
            StopAt::Suspect => "its session was suspect or ended, or its node was deleted",
            StopAt::Lost => {
                "its lease ran out, its ZooKeeper session ended, or its node was deleted"
            }
        };
        LockError::new(ErrorKind::Lost, why).on(self.queue.lock_name().clone())
    }
}
