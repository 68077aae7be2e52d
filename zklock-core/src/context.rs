//! Reentrancy by scope: what the calls around the present one hold.
//!
//! Inside a body a task-local names the holds of the chain of calls. A hold has one child slot:
//! nested calls that run side by side in one scope take it in turn, because they are as concurrent
//! as any two tasks.
//!
//! ```text
//! frame of f ── slot ──► frame of g (called by f) ── slot ──► frame of h (called by g)
//!                 └ taken while g runs; a sibling of g waits for it
//! ```

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::local::possession::{Hold, Possession};
use crate::mode::Mode;

/// The child slot of a hold: taken whole by one nested call, or shared by nested readers.
pub type Slot = Arc<Semaphore>;

/// How many readers share a slot.
const WHOLE: u32 = 1 << 20;

/// A slot that nobody has taken.
pub fn free_slot() -> Slot {
    Arc::new(Semaphore::new(WHOLE as usize))
}

fn share(mode: Mode) -> u32 {
    if mode == Mode::Read { 1 } else { WHOLE }
}

/// One call that holds a lock, in the chain of calls around the present one.
#[derive(Debug)]
pub struct Frame {
    outer: Option<Arc<Frame>>,
    possession: Arc<Possession>,
    slot: Slot,
    /// Whether the next frame outwards is of the same multi-lock.
    joined: bool,
}

tokio::task_local! {
    static FRAME: Option<Arc<Frame>>;
}

impl Frame {
    /// A frame around what `possession` guards, inside the present one. `slot` is that of the
    /// guard: all scopes of one guard share it.
    pub fn new(possession: Arc<Possession>, slot: Slot) -> Arc<Self> {
        Arc::new(Frame { outer: current(), possession, slot, joined: false })
    }

    /// A frame inside another of the same multi-lock.
    pub fn join(outer: Arc<Frame>, possession: Arc<Possession>, slot: Slot) -> Arc<Self> {
        Arc::new(Frame { outer: Some(outer), possession, slot, joined: true })
    }

    fn partner(&self) -> Option<&Frame> {
        self.outer.as_deref().filter(|_| self.joined)
    }

    /// The other possessions of the same multi-lock.
    pub fn joined(&self) -> impl Iterator<Item = &Arc<Possession>> {
        std::iter::successors(self.partner(), |frame| frame.partner()).map(|f| &f.possession)
    }

    /// The possession of this call.
    pub fn possession(&self) -> &Arc<Possession> {
        &self.possession
    }

    /// Takes the child slot, waiting for a sibling to give it back.
    pub async fn take_slot(&self, mode: Mode) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.slot.clone().acquire_many_owned(share(mode)).await.ok()
    }

    /// Takes the child slot if no sibling has it.
    pub fn try_take_slot(&self, mode: Mode) -> Option<OwnedSemaphorePermit> {
        self.slot.clone().try_acquire_many_owned(share(mode)).ok()
    }

    /// One more hold of the lock, unless the outermost call gave it back already.
    pub fn hold_again(&self) -> Option<Hold> {
        self.possession.hold_again()
    }
}

/// The innermost frame around the caller.
pub fn current() -> Option<Arc<Frame>> {
    FRAME.try_with(Clone::clone).ok().flatten()
}

/// The innermost frame around the caller that holds a lock and still does.
pub fn find(holds: impl Fn(&Possession) -> bool) -> Option<Arc<Frame>> {
    let mut next = current();
    while let Some(frame) = next {
        if holds(&frame.possession) && frame.possession.holds() > 0 {
            return Some(frame);
        }
        next = frame.outer.clone();
    }
    None
}

/// Runs `body` inside a frame.
pub async fn inside<F: Future>(frame: Option<Arc<Frame>>, body: F) -> F::Output {
    FRAME.scope(frame, body).await
}

/// Runs `body` inside a frame.
pub fn inside_sync<T>(frame: Option<Arc<Frame>>, body: impl FnOnce() -> T) -> T {
    FRAME.sync_scope(frame, body)
}

/// Takes the caller's scope along into a task that is spawned: a lock that the scope holds can be
/// acquired again in there, as a nested call that takes its turn with the others.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zklock::LockError> {
/// # let mutex = zklock::Session::embedded().mutex("orders")?;
/// let guard = mutex.acquire().await?;
/// let nested = async move { mutex.acquire().await.map(drop) };
/// let task = guard.scope(async { tokio::spawn(zklock::carry(nested)).await }).await;
/// assert!(matches!(task, Ok(Ok(()))));
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// As `body`.
pub fn carry<F: Future>(body: F) -> impl Future<Output = F::Output> {
    inside(current(), body)
}

/// The twin of [`carry`] for a closure that runs on a thread of its own.
///
/// ```
/// let answer = std::thread::spawn(zklock::carry_sync(|| 42)).join();
/// assert_eq!(answer.ok(), Some(42));
/// ```
pub fn carry_sync<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let frame = current();
    move || inside_sync(frame, body)
}
