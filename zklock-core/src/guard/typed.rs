//! The guard: proof that a lock is held, for as long as it says so.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::settings::Settings;
use crate::guard::context::{Frame, NestedTurn, Own, Slot, inside, inside_sync};
use crate::guard::kind::{Alone, Kind, Reading, Sharing, Writing};
use crate::guard::limit::{GuardLimit, HoldLimit};
use crate::guard::releasing::{Releasing, key, leave};
use crate::guard::view::GuardView;
use crate::local::grant::{GivenBack, Hold, Kept};
use crate::observe::observer::Granted;
use crate::observe::spans;
use crate::session::slow::Warning;

/// The guard of a [`Mutex`](crate::lock::Mutex).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::MutexGuard;
///
/// // The leader keeps the guard, and stops leading when it drops the guard.
/// struct Leader(MutexGuard);
///
/// let leader = Leader(session.mutex("leader")?.acquire().await?);
/// assert!(leader.0.is_valid());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub type MutexGuard = Guard<Alone>;

/// The guard of a reader of a [`RwLock`](crate::lock::RwLock).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::RwLockReadGuard;
///
/// // No price changes while the report is written.
/// struct Report {
///     prices: RwLockReadGuard,
/// }
/// let report = Report { prices: session.rw_lock("prices")?.read().await? };
/// assert!(report.prices.is_valid());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub type RwLockReadGuard = Guard<Reading>;

/// The guard of a writer of a [`RwLock`](crate::lock::RwLock).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::RwLockWriteGuard;
///
/// // The caller proves that it holds the lock.
/// fn set_price(_: &RwLockWriteGuard, prices: &mut Vec<u32>, price: u32) {
///     prices.push(price);
/// }
/// let (mut prices, writing) = (Vec::new(), session.rw_lock("prices")?.write().await?);
/// set_price(&writing, &mut prices, 5);
/// assert_eq!(prices, [5]);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub type RwLockWriteGuard = Guard<Writing>;

/// One or several permits of a [`Semaphore`](crate::lock::Semaphore).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::SemaphorePermit;
///
/// struct Print {
///     _printer: SemaphorePermit,
/// }
/// let job = Print { _printer: session.semaphore("printers", 3)?.acquire().await? };
/// assert_eq!(session.local_contenders().len(), 1);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub type SemaphorePermit = Guard<Sharing>;

/// Holds a lock. When it is dropped, it releases the lock without waiting; this works everywhere,
/// also outside of a runtime, during a panic, and on another thread.
///
/// A guard knows by itself when it is no longer safe: [`is_valid`](GuardView::is_valid) and
/// [`remaining`](GuardView::remaining) read a clock that runs out before ZooKeeper can give the
/// lock to somebody else because of silence (a partition, a pause, a crash of the server). If
/// somebody deletes the lock's node or closes the ZooKeeper session, the guard learns this within
/// one heartbeat, a sixth of the session timeout (or when its lease runs out, if the server is
/// silent). Until then only the [fencing token](GuardView::fencing_token) protects.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let guard = session.mutex("orders")?.acquire().await?;
/// assert!(guard.is_valid());
/// drop(guard); // Releases in the background.
/// assert!(session.local_contenders().is_empty());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
///
/// There is one guard for a lock that is held. What can be copied is its [view](GuardView::view):
///
/// ```compile_fail
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let guard = session.mutex("orders")?.acquire().await?;
/// let another = guard.clone();
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct Guard<K: Kind = Alone> {
    pub(super) hold: Hold,
    view: GuardView,
    /// The slot that the nested calls in its scopes take in turn.
    children: OnceLock<Arc<Slot>>,
    /// For a nested guard: its turn among the siblings. Dropped after the hold.
    pub(super) turn: Option<NestedTurn>,
    /// What goes on beside it and ends with it. Boxed, because few guards have any.
    beside: Option<Box<Beside>>,
    kind: PhantomData<fn() -> K>,
}

#[derive(Debug, Default)]
struct Beside {
    limit: Option<GuardLimit>,
    /// Logs that the lock is held for longer than this.
    warning: Option<(Duration, Warning)>,
}

impl<K: Kind> Guard<K> {
    /// The guard of a new grant.
    pub(crate) fn granted(
        hold: Hold,
        settings: &Settings,
        unscoped: bool,
    ) -> Result<Self, LockError> {
        if let Some(grant) = hold.grant() {
            if unscoped {
                grant.keep(Kept::ByGuard);
            }
            grant.lease.take(true);
            if settings.is_revocable() {
                grant.watch();
            }
        }
        let mut guard = Guard::new(hold, None)?;
        guard.warn(settings.warn_holding);
        if settings.hold_at_most < Duration::MAX {
            let since = guard.grant.since;
            guard.limit_to(settings.hold_at_most, since, None);
        }
        Ok(guard)
    }

    pub(crate) fn new(hold: Hold, turn: Option<NestedTurn>) -> Result<Self, LockError> {
        let Some(grant) = hold.grant().cloned() else {
            return Err(LockError::new(ErrorKind::Lost, "its lease ran out during the grant"));
        };
        let (view, children) = (GuardView::new(grant, K::MODE, None), OnceLock::new());
        Ok(Guard { hold, view, children, turn, beside: None, kind: PhantomData })
    }

    pub(crate) fn frame(&self) -> Arc<Frame> {
        Frame::new(self.own())
    }

    /// A frame inside that of another member of the same multi-lock.
    pub(crate) fn frame_beside(&self, outer: Arc<Frame>) -> Arc<Frame> {
        Frame::join(outer, self.own())
    }

    fn own(&self) -> Own {
        let (grant, limit) = (self.grant.clone(), self.limit.clone());
        let turn = self.turn.as_ref().map(NestedTurn::downgrade);
        Own { grant, mode: K::MODE, limit, slot: self.slot(), turn }
    }

    fn warn(&mut self, limit: Duration) {
        if let Some(warning) = self.grant.warn(limit) {
            self.beside.get_or_insert_default().warning = Some((limit, warning));
        }
    }

    /// Logs, as another guard does of which this one is a part, that the lock is held for long. What was logged of the
    /// whole is not said again.
    pub(super) fn warned_as(mut self, other: &Guard<impl Kind>) -> Self {
        let warning = other.beside.as_ref().and_then(|beside| beside.warning.as_ref());
        if let Some(&(limit, _)) = warning
            && self.grant.now() < self.grant.since + limit
        {
            self.warn(limit);
        }
        self
    }

    /// Limits the time of this guard from `since` on, inside the limit of a call around.
    pub(crate) fn limit_to(
        &mut self,
        at_most: Duration,
        since: Instant,
        around: Option<Arc<HoldLimit>>,
    ) {
        let own = GuardLimit::begin(&self.grant, at_most, since, around.clone());
        let limit = own.as_ref().map(|limit| limit.shared().clone());
        if own.is_some() {
            self.beside.get_or_insert_default().limit = own;
        }
        self.view.limit = limit.or(around);
    }

    /// Limits the time as another guard does, which this one replaces, or of which it is a part.
    pub(super) fn limited_as(mut self, other: &GuardView, is_replaced: bool) -> Self {
        if let Some(limit) = &other.limit {
            let limit = GuardLimit::for_another(limit, &self.grant, is_replaced);
            self.view.limit = Some(limit.shared().clone());
            self.beside.get_or_insert_default().limit = Some(limit);
        }
        self
    }

    /// Continues with what goes on beside a guard that this one replaces.
    pub(super) fn in_place_of(mut self, other: &mut Guard<impl Kind>) -> Self {
        self.beside = other.beside.take();
        self.limited_as(&other.view, true)
    }

    /// How the caller was given the lock.
    pub(crate) fn as_granted(&self) -> Granted {
        self.grant.as_granted(self.turn.is_some())
    }

    /// Begins the span of the hold, if somebody wants it.
    pub(crate) fn begin_span(&self) {
        if self.turn.is_none() {
            let (grant, lock) = (&self.grant, self.lock_name());
            spans::hold(key(grant), lock, K::MODE, || grant.as_granted(false));
        }
    }

    /// The limit that the guard itself has.
    pub(crate) fn own_limit(&self) -> Option<&GuardLimit> {
        self.beside.as_ref()?.limit.as_ref()
    }

    fn slot(&self) -> Arc<Slot> {
        self.children.get_or_init(Slot::free).clone()
    }

    /// Runs `body` in the scope of this guard. If the body acquires the same lock, that acquire is
    /// nested: it does not wait for this guard. [`current`](crate::guard::view::current) returns
    /// this guard there.
    ///
    /// Two are different. In the scope of a semaphore's permit, an acquire takes permits of its own, and may wait for
    /// this one. In the scope of a reader, a writer fails with [`Deadlock`](ErrorKind::Deadlock).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let mutex = session.mutex("orders")?;
    /// let guard = mutex.acquire().await?;
    /// let nested = guard.scope(mutex.acquire()).await?;
    /// assert_eq!(nested.fencing_token(), guard.fencing_token());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `body`; the guard stays held.
    pub async fn scope<F: Future>(&self, body: F) -> F::Output {
        inside(Some(self.frame()), body).await
    }

    /// Runs a closure in the scope of this guard. See [`scope`](Guard::scope).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert!(guard.scope_sync(|| zklock::is_held_in_scope("orders")));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn scope_sync<T>(&self, body: impl FnOnce() -> T) -> T {
        inside_sync(Some(self.frame()), body)
    }

    /// Declares that another task, thread or branch will release this guard. The library then draws
    /// no conclusions from who acquired it: the log does not warn a task that acquires the same
    /// lock again that it may be waiting for itself, and a blocking acquire on the same thread is
    /// not refused as a [deadlock](ErrorKind::Deadlock).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let mutex = session.mutex("orders")?;
    /// let guard = mutex.acquire().await?.detach();
    /// std::thread::spawn(move || drop(guard));
    /// assert!(mutex.acquire().await?.is_valid()); // Waits for the thread's release.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn detach(self) -> Self {
        match &self.turn {
            Some(turn) => turn.detach(),
            None => self.grant.keep(Kept::Detached),
        }
        self
    }

    /// Releases the lock, and waits until the node is deleted or the lock has passed to the next
    /// waiter of this process. If ZooKeeper does not answer, this usually takes at most the session
    /// timeout and two ticks:
    /// [how long](https://github.com/zklock/zklock/blob/main/docs/lost.md#how-long-a-release-takes).
    ///
    /// The node stays, and this does not wait, while others of this process hold it as well, by a nested call or for
    /// reading, with [`linger`](crate::base::options::LockOptions::linger), and until the end of
    /// [`hold_at_least`](crate::base::options::LockOptions::hold_at_least).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// session.mutex("orders")?.acquire().await?.release().await?;
    /// assert!(session.site("orders")?.contenders().await?.is_empty());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`] if the lock was lost before, unless a nested call holds it as well: then that
    /// call gets the error when it ends; [`ErrorKind::HeldTooLong`] if this guard was held for longer than
    /// [`hold_at_most`](crate::base::options::LockOptions::hold_at_most);
    /// [`ErrorKind::Unauthorized`] if the server refuses to delete the node, which is then deleted when
    /// its ZooKeeper session ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release goes on in the background.
    #[expect(clippy::manual_async_fn, reason = "its future would have the guard twice")]
    pub fn release(mut self) -> impl Future<Output = Result<(), LockError>> + Send {
        async move {
            if self.hold.grant().is_none() {
                // A writer that was lost in its downgrade, which told of its end.
                return Err(self.grant.lost_error());
            }
            let now = self.grant.now();
            let over = self.is_over_time().then(|| self.lost_error());
            let (mut hold, turn) = (self.hold.take(), self.turn.take());
            drop(self.beside.take());
            let mut releasing = Releasing::of(&self.view.grant);
            let GivenBack { deletions, lost, nested } = hold.give_back(now);
            (releasing.since, releasing.nested) = (Some(now), Some(nested));
            leave(&self.view.grant, turn);
            let outcome = match deletions.is_empty() {
                // The lock has passed to the next waiter, or its node is kept.
                true => Ok(()),
                false => deletions.await.map_err(|error| {
                    let why = "the server refused to delete its node, which stays until its \
                               ZooKeeper session ends";
                    let refused = LockError::new(ErrorKind::Unauthorized, why).because(error);
                    let refused = refused.aside(self.node_path());
                    refused.on(self.grant.queue.lock_name().clone())
                }),
            };
            releasing.end(outcome.as_ref().err());
            match over.or_else(|| lost.then(|| self.grant.lost_error())) {
                Some(error) => Err(error),
                None => outcome,
            }
        }
    }
}

impl<K: Kind> Deref for Guard<K> {
    type Target = GuardView;

    fn deref(&self) -> &GuardView {
        &self.view
    }
}

impl<K: Kind> Drop for Guard<K> {
    fn drop(&mut self) {
        if self.hold.grant().is_some() {
            let now = self.grant.now();
            let GivenBack { nested, .. } = self.hold.give_back(now);
            let mut releasing = Releasing::of(&self.view.grant);
            releasing.nested = Some(nested);
            leave(&self.view.grant, self.turn.take());
        }
    }
}

impl<K: Kind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("mode", &K::MODE)
            .field("lock", &self.lock_name())
            .field("token", &self.fencing_token())
            .field("valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}
