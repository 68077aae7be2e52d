//! The guard: proof that a lock is held, for as long as it says so.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::error::{ErrorKind, LockError};
use crate::base::settings::Settings;
use crate::guard::context::{Frame, NestedTurn, Own, Slot, inside, inside_sync};
use crate::guard::limit::{GuardLimit, HoldLimit};
use crate::guard::view::GuardView;
use crate::local::grant::{Grant, Hold, Kept};
use crate::observe::observer::{Event, Granted};
use crate::observe::spans;
use crate::session::slow::Warning;

/// The kinds of guards.
pub mod kind {
    use crate::base::mode::Mode;

    /// A kind of guard. Only the types of this module implement it.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::{Guard, kind};
    ///
    /// fn describe<K: kind::Kind>(guard: &Guard<K>) -> String {
    ///     format!("{} as {}", guard.lock_name(), K::MODE)
    /// }
    /// let guard = session.rw_lock("prices")?.read().await?;
    /// assert_eq!(describe(&guard), "prices as read");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub trait Kind: sealed::Sealed + Send + Sync + 'static {
        /// The mode of the guard's node.
        const MODE: Mode;
    }

    /// The only holder of a [`Mutex`](crate::lock::Mutex).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::{Guard, kind};
    ///
    /// let guard: Guard<kind::Alone> = session.mutex("orders")?.acquire().await?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    #[derive(Debug)]
    pub enum Alone {}

    /// A reader of a [`RwLock`](crate::lock::RwLock).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::{Guard, kind};
    ///
    /// let prices = session.rw_lock("prices")?;
    /// let readers: Vec<Guard<kind::Reading>> = vec![prices.read().await?, prices.read().await?];
    /// assert!(readers.iter().all(|reader| reader.is_valid()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    #[derive(Debug)]
    pub enum Reading {}

    /// The writer of a [`RwLock`](crate::lock::RwLock).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::{Guard, kind};
    ///
    /// let writer: Guard<kind::Writing> = session.rw_lock("prices")?.write().await?;
    /// let reader: Guard<kind::Reading> = writer.downgrade().await?;
    /// assert!(reader.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    #[derive(Debug)]
    pub enum Writing {}

    mod sealed {
        pub trait Sealed {}
    }

    macro_rules! kinds {
        ($($kind:ident: $mode:ident),*) => {$(
            impl sealed::Sealed for $kind {}
            impl Kind for $kind {
                const MODE: Mode = Mode::$mode;
            }
        )*};
    }

    /// A holder of permits of a [`Semaphore`](crate::lock::Semaphore).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::{Guard, kind};
    ///
    /// let two: Guard<kind::Sharing> = session.semaphore("printers", 3)?.acquire_many(2).await?;
    /// assert_eq!(two.permits(), 2);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    #[derive(Debug)]
    pub enum Sharing {}

    kinds!(Alone: Mutex, Reading: Read, Writing: Write, Sharing: Permit);
}

use kind::{Alone, Kind, Reading, Sharing, Writing};

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
    /// Logs that the lock is held for long.
    warning: Option<Warning>,
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
        if let Some(warning) = guard.grant.warn(settings.warn_holding) {
            guard.beside.get_or_insert_default().warning = Some(warning);
        }
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
        let (view, children) = (GuardView::new(grant, None), OnceLock::new());
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
    fn limited_as(mut self, other: &GuardView, is_replaced: bool) -> Self {
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
    /// timeout and two ticks: by then the servers have ended the session, and deleted the node with it.
    /// A tick that the builder is [not told](crate::session::SessionBuilder::tick_time) counts as half
    /// the session timeout, so that is 20 s by default, and 14 s with a `tick_time` of 2 s. It takes half
    /// a session timeout more in layouts without unique node names, such as
    /// [`OneNode`](crate::layout::OneNode), with `lock_delay` or `hold_at_least`, and where the limit of
    /// handoffs is reached and this process first asks whether another one waits. `docs/lost.md` lists
    /// the rare cases in which it takes longer.
    ///
    /// While others of this process hold it as well, by a nested call or for reading, and with
    /// [`linger`](crate::base::options::LockOptions::linger), the node stays, and this does not wait.
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
            let now = self.grant.now();
            let over = self.is_over_time().then(|| self.lost_error());
            let (mut hold, turn) = (self.hold.take(), self.turn.take());
            drop(self.beside.take());
            let releasing = Releasing(Some(&self.view.grant), Some(now));
            let (deletions, lost) = hold.give_back(now);
            leave(&self.view.grant, turn);
            let outcome = match deletions.is_empty() {
                // The lock has passed to the next waiter, or its node is kept.
                true => Ok(()),
                false => deletions.await.map_err(|error| {
                    let why = "the server refused to delete its node, which stays until its \
                               ZooKeeper session ends";
                    let refused = LockError::new(ErrorKind::Unauthorized, why).because(error);
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

impl SemaphorePermit {
    /// Returns the number of permits.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let permits = session.semaphore("printers", 3)?.acquire_many(2).await?;
    /// assert_eq!(permits.permits(), 2);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn permits(&self) -> u32 {
        u32::try_from(self.grant.leases().count()).unwrap_or(u32::MAX)
    }

    /// Splits off this number of permits as a guard of their own, like tokio's
    /// `OwnedSemaphorePermit::split`. Returns `None` if the number is 0, if no permit would be left for this
    /// guard, or if this guard [is not valid](GuardView::is_valid): one that is lost stays lost, also if it
    /// has lost some of its permits only.
    ///
    /// Each permit has a node of its own, in every layout, so this sends no request. Both guards can be
    /// released or lost independently. A [view](GuardView::view) of this guard shows the permits that
    /// are left. Observers are not told of the split, but of the release of each guard.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let printers = session.semaphore("printers", 3)?;
    /// let mut three = printers.acquire_many(3).await?;
    /// if let Some(two) = three.split(2) {
    ///     assert_eq!((three.permits(), two.permits()), (1, 2));
    ///     two.release().await?;
    /// }
    /// assert!(three.is_valid() && printers.try_acquire_many(2).await.is_ok());
    /// assert!(three.split(1).is_none()); // Nothing would be left of it.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn split(&mut self, permits: u32) -> Option<SemaphorePermit> {
        if !self.is_valid() {
            return None;
        }
        let part = self.grant.queue.clone().split(&self.grant, permits as usize)?;
        Some(Guard::new(part, None).ok()?.limited_as(self, false))
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
            drop(self.hold.take());
            leave(&self.view.grant, self.turn.take());
            drop(Releasing(Some(&self.view.grant), None));
        }
    }
}

/// Tells those who go on, once the hold was given back.
fn leave(grant: &Grant, turn: Option<NestedTurn>) {
    match turn {
        Some(turn) => drop(turn),
        None => grant.has_left(),
    }
}

/// Tells the observer of a release, which may have begun before, also if the caller drops the future before its end.
pub(super) struct Releasing<'a>(pub(super) Option<&'a Arc<Grant>>, pub(super) Option<Instant>);

impl Releasing<'_> {
    fn end(mut self, error: Option<&LockError>) {
        self.tell(error);
    }

    /// A guard goes on instead.
    pub(super) fn cancel(mut self) {
        self.0 = None;
    }

    #[inline]
    fn tell(&mut self, error: Option<&LockError>) {
        if let Some(grant) = self.0.take()
            && (spans::any_hold() || grant.queue.session().events().are_heard())
        {
            tell_of_release(grant, self.1, error);
        }
    }
}

/// Tells of a release where somebody listens.
fn tell_of_release(grant: &Arc<Grant>, now: Option<Instant>, error: Option<&LockError>) {
    let (queue, now) = (&grant.queue, now.unwrap_or_else(|| grant.now()));
    // A hold that a step down has taken out is nobody's any more.
    let nested = grant.is_open();
    if spans::any_hold() && !nested {
        let outcome = match error {
            Some(_) => "refused",
            None if grant.leases().any(|lease| lease.is_lost_at(now)) => "lost",
            None => "released",
        };
        spans::end_hold(key(grant), now.since(grant.since), outcome);
    }
    queue.session().events().tell(|| Event::Released {
        lock: queue.lock_name().clone(),
        pattern: queue.pattern().text(),
        mode: grant.mode,
        token: grant.token,
        held: now.since(grant.since),
        nested,
        error: error.cloned(),
    });
}

impl Drop for Releasing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.tell(None);
    }
}

/// What the span of a hold is found by: the address of its grant, which lives as long as its guards.
pub(super) fn key(grant: &Arc<Grant>) -> usize {
    Arc::as_ptr(grant).addr()
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
