//! The guard: proof that a lock is held, for as long as it says so.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::context::{Frame, Slot, free_slot, inside, inside_sync};
use crate::error::{ErrorKind, LockError};
use crate::local::possession::{Hold, Possession};
use crate::observer::Event;
use crate::token::FencingToken;
use crate::view::GuardView;

/// What a guard is the guard of.
pub mod kind {
    use crate::mode::Mode;

    /// A way of holding a lock. There are no others than those of this module.
    pub trait Kind: sealed::Sealed + Send + Sync + 'static {
        /// The mode of the nodes.
        const MODE: Mode;
    }

    /// A [`Mutex`](crate::lock::Mutex).
    #[derive(Debug)]
    pub enum Alone {}

    /// A [`RwLock`](crate::lock::RwLock), with other readers.
    #[derive(Debug)]
    pub enum Reading {}

    /// A [`RwLock`](crate::lock::RwLock), alone.
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

    /// A [`Semaphore`](crate::lock::Semaphore), with others.
    #[derive(Debug)]
    pub enum Sharing {}

    kinds!(Alone: Mutex, Reading: Read, Writing: Write, Sharing: Permit);
}

use kind::{Alone, Kind, Reading, Sharing, Writing};

/// The guard of a [`Mutex`](crate::lock::Mutex).
pub type MutexGuard = Guard<Alone>;
/// The guard of a reader of a [`RwLock`](crate::lock::RwLock).
pub type RwLockReadGuard = Guard<Reading>;
/// The guard of a writer of a [`RwLock`](crate::lock::RwLock).
pub type RwLockWriteGuard = Guard<Writing>;

/// One or several permits of a [`Semaphore`](crate::lock::Semaphore).
pub type SemaphorePermit = Guard<Sharing>;

/// Holds a lock. Dropped, it releases without waiting, in any place:
/// outside a runtime, while unwinding, on another thread.
///
/// The guard knows by itself when it is no longer safe: [`is_valid`](Guard::is_valid) and
/// [`remaining`](Guard::remaining) read a clock that runs out before silence (a partition, a
/// pause, a crash of the server) can give the lock to somebody else. If somebody deletes the lock's
/// node or closes the ZooKeeper session from outside, it learns so within one heartbeat, a sixth of
/// the session timeout; until then only the [fencing token](Guard::fencing_token) protects.
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct Guard<K: Kind = Alone> {
    hold: Hold,
    possession: Arc<Possession>,
    /// What the nested calls in its scopes take in turn.
    children: OnceLock<Slot>,
    /// Of a nested guard: the slot among its siblings. Given back after the hold.
    turn: Option<OwnedSemaphorePermit>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Guard<K> {
    pub(crate) fn new(hold: Hold, turn: Option<OwnedSemaphorePermit>) -> Option<Self> {
        let possession = hold.possession()?.clone();
        Some(Guard { hold, possession, children: OnceLock::new(), turn, kind: PhantomData })
    }

    pub(crate) fn frame(&self) -> Arc<Frame> {
        Frame::new(self.possession.clone(), self.slot())
    }

    /// A frame inside that of another member of the same multi-lock.
    pub(crate) fn frame_beside(&self, outer: Arc<Frame>) -> Arc<Frame> {
        Frame::join(outer, self.possession.clone(), self.slot())
    }

    fn slot(&self) -> Slot {
        self.children.get_or_init(free_slot).clone()
    }

    /// A look at this guard that can be cloned, sent and kept; it releases nothing.
    pub fn view(&self) -> GuardView {
        GuardView::new(self.possession.clone(), Vec::new())
    }

    pub(crate) fn possession(&self) -> &Arc<Possession> {
        &self.possession
    }

    /// The name of the lock.
    pub fn lock(&self) -> &str {
        self.possession.queue().lock_name()
    }

    /// The path of the node behind the guard. Locals that share a node see the same one.
    pub fn path(&self) -> &str {
        self.possession.lease().path()
    }

    /// The fencing token: greater than that of every grant before. Give it to the resource that
    /// the lock protects, and let that refuse a smaller one than it has seen. A nested guard has
    /// the token of the outermost.
    pub fn fencing_token(&self) -> FencingToken {
        self.possession.token()
    }

    /// Whether the lock is surely held now. Reads the clock; costs some ten nanoseconds.
    pub fn is_valid(&self) -> bool {
        self.possession.is_valid()
    }

    /// How long the lock is surely held from now if nothing more is heard from ZooKeeper. While
    /// the connection is up, heartbeats keep extending it.
    pub fn remaining(&self) -> Duration {
        self.possession.remaining()
    }

    /// Resolves when the lock is lost: at the latest when the lease clock runs out, at once when
    /// the session ends, within one heartbeat when somebody deleted the node.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn lost(&self) {
        self.possession.lost().await;
    }

    /// Runs `body` in the scope of this guard: the same lock acquired inside is nested and does
    /// not wait for this one.
    ///
    /// # Cancel safety
    ///
    /// As `body`.
    pub async fn scope<F: Future>(&self, body: F) -> F::Output {
        inside(Some(self.frame()), body).await
    }

    /// Runs `body` in the scope of this guard; the twin of [`scope`](Guard::scope).
    pub fn scope_sync<T>(&self, body: impl FnOnce() -> T) -> T {
        inside_sync(Some(self.frame()), body)
    }

    /// Says that another task, thread or branch may release this guard. Acquiring the same lock
    /// again in the task that acquired this guard then waits, where it otherwise is refused as a
    /// [deadlock](ErrorKind::Deadlock).
    pub fn detach(self) -> Self {
        self.possession.set_unscoped(false);
        self
    }

    /// Releases the lock and waits until the node is gone, or the lock is handed to the next here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`] if it was lost before; [`ErrorKind::Unauthorized`] if the server refuses
    /// to delete the node, which then goes with its ZooKeeper session.
    ///
    /// # Cancel safety
    ///
    /// The release goes on in the background.
    pub async fn release(mut self) -> Result<(), LockError> {
        let now = self.possession.now();
        let lost = self.possession.holds() == 1 && !self.possession.is_leased_at(now);
        let lost = lost.then(|| self.possession.lost_error());
        let outcome = match self.hold.give_back(now) {
            Some(deletion) => deletion.await.map_err(|error| {
                LockError::new(ErrorKind::Unauthorized, "its node could not be deleted")
                    .because(error)
                    .on(self.possession.queue().lock_name().clone())
            }),
            None => Ok(()),
        };
        self.possession.queue().session().events().tell(|| Event::Released {
            lock: self.possession.queue().lock_name().clone(),
            error: outcome.clone().err(),
        });
        match lost {
            Some(error) => Err(error),
            None => outcome,
        }
    }
}

impl<K: Kind> Guard<K> {
    /// Whether somebody asked that the lock be let go, with
    /// [`Site::revoke`](crate::inspect::Site::revoke) or Curator's `Revoker`. It stays held until
    /// it is released.
    pub fn is_revoked(&self) -> bool {
        self.possession.is_revoked()
    }

    /// Resolves when somebody asks that the lock be let go: at once if it is
    /// [revocable](crate::options::LockOptions::revocable), else within a heartbeat, a sixth of the
    /// session timeout.
    ///
    /// ```
    /// # async fn example(guard: zklock_core::guard::MutexGuard) {
    /// # async fn work() {}
    /// tokio::select! {
    ///     () = work() => {}
    ///     () = guard.revoked() => {} // others are in a hurry
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn revoked(&self) {
        self.possession.revoked().await;
    }
}

impl RwLockWriteGuard {
    /// Becomes a reader without letting a writer in between, not even one that waits already;
    /// readers that wait for this writer enter. The guard keeps the writer's place in the order of
    /// tokens. Waits until the writer's node is gone.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`] if the lock is lost before; [`ErrorKind::Deadlock`] if it is held again
    /// by a call nested in this one; [`ErrorKind::Unauthorized`] if the server refuses the new
    /// node. The lock is released then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    ///
    /// ```
    /// # async fn example() -> Result<(), zklock_core::error::LockError> {
    /// let lock = zklock_core::session::Session::embedded().rw_lock("prices")?;
    /// let writing = lock.write().await?;
    /// let reading = writing.downgrade().await?;
    /// assert!(lock.try_read().await.is_ok());
    /// # drop(reading);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn downgrade(self) -> Result<RwLockReadGuard, LockError> {
        if self.turn.is_some() || self.possession.holds() > 1 {
            let why = "a write lock that is held more than once is not downgraded";
            let lock = self.possession.queue().lock_name().clone();
            return Err(LockError::new(ErrorKind::Deadlock, why).on(lock));
        }
        let (possession, hold) = (self.possession.clone(), self.hold);
        let unscoped = possession.is_unscoped();
        let hold = possession.queue().clone().step_down(possession.clone(), hold).await?;
        if let Some(possession) = hold.possession() {
            possession.set_unscoped(unscoped);
        }
        Guard::new(hold, None).ok_or_else(|| possession.lost_error())
    }
}

impl SemaphorePermit {
    /// How many permits these are.
    pub fn permits(&self) -> u32 {
        u32::try_from(self.possession.leases().count()).unwrap_or(u32::MAX)
    }
}

impl<K: Kind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("mode", &K::MODE)
            .field("lock", &self.lock())
            .field("token", &self.fencing_token())
            .field("valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}
