//! The guard: proof that a lock is held, for as long as it says so.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::context::{Frame, Slot, free_slot, inside, inside_sync};
use crate::error::{ErrorKind, LockError};
use crate::local::possession::{Hold, Possession};
use crate::observer::Event;
use crate::token::FencingToken;
use crate::view::GuardView;

/// Holds a [`Mutex`](crate::lock::Mutex). Dropped, it releases without waiting, in any place:
/// outside a runtime, while unwinding, on another thread.
///
/// The guard knows by itself when it is no longer safe: [`is_valid`](MutexGuard::is_valid) and
/// [`remaining`](MutexGuard::remaining) read a clock that runs out before silence (a partition, a
/// pause, a crash of the server) can give the lock to somebody else. If somebody deletes the lock's
/// node or closes the ZooKeeper session from outside, it learns so within one heartbeat, a sixth of
/// the session timeout; until then only the [fencing token](MutexGuard::fencing_token) protects.
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct MutexGuard {
    hold: Hold,
    possession: Arc<Possession>,
    /// What the nested calls in its scopes take in turn.
    children: OnceLock<Slot>,
    /// Of a nested guard: the slot among its siblings. Given back after the hold.
    _slot: Option<OwnedSemaphorePermit>,
}

impl MutexGuard {
    pub(crate) fn new(hold: Hold, slot: Option<OwnedSemaphorePermit>) -> Option<Self> {
        let possession = hold.possession()?.clone();
        Some(MutexGuard { hold, possession, children: OnceLock::new(), _slot: slot })
    }

    pub(crate) fn frame(&self) -> Arc<Frame> {
        let slot = self.children.get_or_init(free_slot).clone();
        Frame::new(self.possession.clone(), slot)
    }

    /// A look at this guard that can be cloned, sent and kept; it releases nothing.
    pub fn view(&self) -> GuardView {
        GuardView::new(self.possession.clone())
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
        self.possession.lease().lost().await;
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

    /// Runs `body` in the scope of this guard; the twin of [`scope`](MutexGuard::scope).
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
        let lost = self.possession.holds() == 1 && !self.possession.lease().is_valid_at(now);
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

impl fmt::Debug for MutexGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard")
            .field("lock", &self.lock())
            .field("token", &self.fencing_token())
            .field("valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}
