//! Reentrancy by scope: the locks that the calls around the present one hold.
//!
//! Inside a body, a thread-local names the holds of the chain of calls, for as long as the body is polled, and for the
//! task that polls it: a runtime that the body runs on its thread polls other tasks there. A hold has one child slot:
//! nested calls that run concurrently in one scope take turns, because they are as concurrent as
//! any two tasks.
//!
//! ```text
//! frame of f ── slot ──► frame of g (called by f) ── slot ──► frame of h (called by g)
//!                 └ taken while g runs; a sibling of g waits for it
//! ```

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::caller::{Caller, PolledTask};
use crate::base::chain::drop_chain;
use crate::base::mode::Mode;
use crate::base::unharmed::unharming;
use crate::guard::limit::HoldLimit;
use crate::local::grant::{Grant, Kept};
use crate::local::itself::{is_stuck, stops_waiter};

/// The child slot of a hold: one nested call takes it alone, or nested readers share it.
#[derive(Debug)]
pub struct Slot {
    free: Arc<Semaphore>,
    siblings: Mutex<Siblings>,
}

/// The nested calls that have the slot or wait for it, in order.
#[derive(Debug, Default)]
struct Siblings {
    asked: u64,
    all: Vec<Sibling>,
}

#[derive(Debug)]
struct Sibling {
    number: u64,
    who: Caller,
    mode: Mode,
    kept: Kept,
    /// What it has of the slot, once it does.
    permit: Option<Weak<OwnedSemaphorePermit>>,
    /// Whether it has ended, and those that were nested in it keep the slot.
    ended: bool,
}

impl Sibling {
    /// Whether it is the same caller as `who`, and has the slot by a guard outside of any scope.
    fn is_own(&self, who: &Caller) -> bool {
        self.permit.is_some() && self.kept == Kept::ByGuard && self.who.is_same(who)
    }
}

/// The largest number of readers that share a slot.
const WHOLE: u32 = 1 << 20;

impl Slot {
    /// A free slot.
    pub fn free() -> Arc<Self> {
        Arc::new(Slot {
            free: Arc::new(Semaphore::new(WHOLE as usize)),
            siblings: Mutex::default(),
        })
    }

    fn siblings(&self) -> MutexGuard<'_, Siblings> {
        self.siblings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn share(mode: Mode) -> u32 {
    if mode == Mode::Read { 1 } else { WHOLE }
}

/// A place among the nested calls of one scope. Dropping it gives the place up.
#[derive(Debug)]
pub struct Asked {
    slot: Arc<Slot>,
    grant: Arc<Grant>,
    number: u64,
    mode: Mode,
    /// What a reader has of the slot that is the same caller, for one that reads: a writer between them
    /// waits for both. Otherwise this one would wait for that writer, which waits for the caller.
    again: Option<Arc<OwnedSemaphorePermit>>,
}

impl Asked {
    /// Takes the slot, after waiting for siblings to return it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place.
    pub async fn turn(mut self) -> Option<Turn> {
        let permit = match self.again.take() {
            Some(again) => again,
            None => {
                let permit = pin!(self.slot.free.clone().acquire_many_owned(share(self.mode)));
                // The semaphore is never closed.
                Arc::new(unharming(permit).await.ok()?)
            }
        };
        Some(self.enter(permit))
    }

    /// Takes the slot if no sibling has it.
    pub fn turn_now(mut self) -> Option<Turn> {
        let free = || self.slot.free.clone().try_acquire_many_owned(share(self.mode)).ok();
        let permit = self.again.take().or_else(|| free().map(Arc::new))?;
        Some(self.enter(permit))
    }

    fn enter(self, permit: Arc<OwnedSemaphorePermit>) -> Turn {
        self.change(|sibling| sibling.permit = Some(Arc::downgrade(&permit)));
        Turn { asked: self, _permit: permit, around: None }
    }

    fn has_ended(&self) -> bool {
        let siblings = self.slot.siblings();
        siblings.all.iter().any(|sibling| sibling.number == self.number && sibling.ended)
    }

    fn change(&self, change: impl FnOnce(&mut Sibling)) {
        let mut siblings = self.slot.siblings();
        if let Some(sibling) = siblings.all.iter_mut().find(|other| other.number == self.number) {
            change(sibling);
        }
    }

    /// Whether it would wait for ever, because it stops a sibling that is ahead of it.
    pub fn is_stuck(&self, who: &Caller) -> bool {
        if !who.is_blocking() || self.again.is_some() {
            return false;
        }
        let stops = |other: &Sibling| match other.kept {
            Kept::Detached => false,
            // Those that keep the slot may be elsewhere.
            _ if other.ended => false,
            // The guard may have been moved.
            Kept::ByGuard if other.permit.is_some() => who.stops(&other.who),
            _ => stops_waiter(who, &other.who),
        };
        let siblings = self.slot.siblings();
        let ahead = siblings.all.iter().take_while(|other| other.number != self.number);
        is_stuck(self.mode, ahead.map(|other| (other.mode, stops(other))))
    }

    /// A sibling that is the same caller as `who` and has the slot by a guard outside of any scope:
    /// returns what describes it, while this is so.
    pub fn own(&self, who: Caller) -> Option<impl Fn() -> Option<String> + Send + Sync + use<>> {
        let slot = self.slot.clone();
        let own = move || {
            let siblings = slot.siblings();
            let own = siblings.all.iter().find(|other| other.is_own(&who))?;
            Some(if own.ended {
                format!("what was nested in an earlier guard of {} still holds the lock", own.who)
            } else {
                format!("{} holds the lock itself, by a nested guard in the same scope", own.who)
            })
        };
        own().map(|_| own)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.slot.siblings().all.retain(|other| other.number != self.number);
    }
}

/// The taken slot. When it is dropped, the next sibling gets the slot.
#[derive(Debug)]
pub struct Turn {
    // Dropped before the slot is free, so that the next caller does not find the slot taken.
    asked: Asked,
    _permit: Arc<OwnedSemaphorePermit>,
    /// That of the nested guard in whose scope this one is.
    around: Option<Arc<Turn>>,
}

impl Turn {
    /// The turn of a nested guard in the scope of a frame; `None` if the guard of that scope has gone.
    pub fn within(mut self, frame: &Frame) -> Option<NestedTurn> {
        if let Some(turn) = &frame.own.turn {
            self.around = Some(turn.upgrade()?);
        }
        let turn = NestedTurn(Arc::new(self));
        let Turn { asked, .. } = &*turn.0;
        asked.change(|sibling| asked.grant.nest(turn.key(), sibling.kept, sibling.who));
        Some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop_chain(self.around.take(), |turn| turn.around.take());
    }
}

/// The turn of a nested guard, which keeps the grant. The guards in its scope keep that turn, too: as long as
/// one of them holds the lock, no sibling does.
#[derive(Debug)]
pub struct NestedTurn(Arc<Turn>);

impl NestedTurn {
    /// Records that the guard was detached.
    pub fn detach(&self) {
        self.0.asked.change(|sibling| sibling.kept = Kept::Detached);
        self.0.asked.grant.detach_nested(self.key());
    }

    /// Records that the guard has the only hold.
    pub fn is_last(&self) {
        self.0.asked.grant.is_left_to(self.key());
    }

    /// The key by which the grant knows it.
    fn key(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The turn, as long as somebody keeps it.
    pub fn downgrade(&self) -> Weak<Turn> {
        Arc::downgrade(&self.0)
    }
}

impl Drop for NestedTurn {
    fn drop(&mut self) {
        self.0.asked.change(|sibling| sibling.ended = true);
        self.0.asked.grant.nested_ended(self.key());
    }
}

/// One call that holds a lock, in the chain of calls around the present one.
#[derive(Debug)]
pub struct Frame {
    /// The frame around this one.
    pub outer: Option<Arc<Frame>>,
    /// What it knows of its guard.
    pub own: Own,
    /// Whether the next frame outwards is of the same multi-lock.
    joined: bool,
    /// Its number, which few others have; never zero.
    number: u32,
}

impl Drop for Frame {
    fn drop(&mut self) {
        // A task that is carried into the scope of another one keeps all scopes around.
        drop_chain(self.outer.take(), |frame| frame.outer.take());
    }
}

/// What a frame knows of its guard.
#[derive(Debug)]
pub struct Own {
    /// The grant, perhaps that of a call around it.
    pub grant: Arc<Grant>,
    /// In which mode the guard holds the lock: a reader inside a writer is a reader.
    pub mode: Mode,
    /// Until when the lock may be held, if that is limited.
    pub limit: Option<Arc<HoldLimit>>,
    /// That of the guard: all its scopes share it.
    pub slot: Arc<Slot>,
    /// That of a nested guard.
    pub turn: Option<Weak<Turn>>,
}

/// The frame of a body.
struct Entered {
    frame: Option<Arc<Frame>>,
    /// The task that polls the body, or drops it. A body that is `Sync` stays so.
    by: Mutex<PolledTask>,
}

impl Entered {
    fn new(frame: Option<Arc<Frame>>) -> Self {
        Entered { frame, by: Mutex::new(PolledTask::here()) }
    }

    fn by(&self) -> MutexGuard<'_, PolledTask> {
        self.by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frame, for the task that polls the body.
    fn here(&self) -> Option<Arc<Frame>> {
        self.frame.clone().filter(|_| *self.by() == PolledTask::here())
    }
}

tokio::task_local! {
    static ENTERED: Entered;
}

pin_project! {
    /// A body whose task may be another one at each poll.
    struct Polled<F> {
        #[pin]
        body: F,
    }

    impl<F> PinnedDrop for Polled<F> {
        fn drop(_this: Pin<&mut Self>) {
            enter_again();
        }
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        enter_again();
        self.project().body.poll(cx)
    }
}

/// The present task polls the body, or drops it.
fn enter_again() {
    // It cannot while the thread ends, and then nobody asks.
    let _ = ENTERED.try_with(|entered| *entered.by() = PolledTask::here());
}

impl Frame {
    /// A frame inside the present one.
    pub fn new(own: Own) -> Arc<Self> {
        Arc::new(Frame { outer: current(), own, joined: false, number: next_number() })
    }

    /// A frame inside another of the same multi-lock.
    pub fn join(outer: Arc<Frame>, own: Own) -> Arc<Self> {
        Arc::new(Frame { outer: Some(outer), own, joined: true, number: next_number() })
    }

    /// The frame of the member of the same multi-lock that was acquired before.
    pub fn partner(&self) -> Option<&Frame> {
        self.outer.as_deref().filter(|_| self.joined)
    }

    /// Whether the guard of this scope, or one that was nested in it, still holds the lock.
    fn is_held(&self) -> bool {
        let nested = self.own.turn.as_ref();
        self.own.grant.is_open() && nested.is_none_or(|turn| turn.strong_count() > 0)
    }

    /// Whether this is the scope of a guard that has gone.
    pub fn has_ended(&self) -> bool {
        let is_there = |turn: Arc<Turn>| !turn.asked.has_ended();
        match &self.own.turn {
            Some(turn) => !turn.upgrade().is_some_and(is_there),
            None => self.own.grant.is_left(),
        }
    }

    /// Takes the last place among the nested calls of this one.
    pub fn ask(&self, who: Caller, mode: Mode, kept: Kept) -> Asked {
        let (slot, grant) = (self.own.slot.clone(), self.own.grant.clone());
        let mut siblings = slot.siblings();
        siblings.asked += 1;
        let number = siblings.asked;
        let reads = |other: &&Sibling| (mode, other.mode) == (Mode::Read, Mode::Read);
        let own = siblings.all.iter().filter(reads).find(|other| other.is_own(&who));
        let again = own.and_then(|own| own.permit.as_ref()?.upgrade());
        siblings.all.push(Sibling { number, who, mode, kept, permit: None, ended: false });
        drop(siblings);
        Asked { slot, grant, number, mode, again }
    }
}

/// The innermost frame around the caller.
pub fn current() -> Option<Arc<Frame>> {
    ENTERED.try_with(Entered::here).ok().flatten()
}

/// The frames around the caller, given the innermost.
fn outwards(innermost: &Option<Arc<Frame>>) -> impl Iterator<Item = &Arc<Frame>> {
    std::iter::successors(innermost.as_ref(), |frame| frame.outer.as_ref())
}

/// The innermost of these frames that still holds a lock for which `holds` is true.
pub fn find_in(
    innermost: &Option<Arc<Frame>>,
    holds: impl Fn(&Grant) -> bool,
) -> Option<Arc<Frame>> {
    let holds = |frame: &&Arc<Frame>| holds(&frame.own.grant) && frame.is_held();
    outwards(innermost).find(holds).cloned()
}

/// The innermost frame around the caller that still holds a lock for which `holds` is true.
pub fn find(holds: impl Fn(&Grant) -> bool) -> Option<Arc<Frame>> {
    find_in(&current(), holds)
}

/// The number of the next frame: it comes back after two billion others.
fn next_number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) | 1 << 31
}

/// Sets the scope in which a caller acquires a lock, given the innermost frame around it.
pub fn scoped(who: Caller, innermost: &Option<Arc<Frame>>) -> Caller {
    who.inside(innermost.as_ref().map_or(0, |frame| frame.number))
}

/// Whether the holder of a lock may be the caller: it is the same task, or it acquired the lock in
/// a scope around the caller.
pub fn is_own(who: Caller, innermost: &Option<Arc<Frame>>) -> impl Fn(&Caller) -> bool {
    move |other| {
        let around = || outwards(innermost).any(|frame| frame.number == other.scope());
        who.is_same(other) || other.scope() != 0 && around()
    }
}

/// Runs `body` inside a frame.
pub async fn inside<F: Future>(frame: Option<Arc<Frame>>, body: F) -> F::Output {
    ENTERED.scope(Entered::new(frame), Polled { body }).await
}

/// Runs `body` inside a frame.
pub fn inside_sync<T>(frame: Option<Arc<Frame>>, body: impl FnOnce() -> T) -> T {
    ENTERED.sync_scope(Entered::new(frame), body)
}

/// Drops the rest of a body inside a frame, also while the thread ends.
pub fn drop_inside(frame: Option<Arc<Frame>>, leftover: impl Future) {
    drop(ENTERED.scope(Entered::new(frame), leftover));
}

/// Lets a spawned task run in the caller's scope. If the scope holds a lock, the task can acquire
/// it again, as a nested call that takes turns with other nested calls. Without it, the acquire in the
/// spawned task would wait for the guard.
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
/// As that of `body`.
pub fn carry<F: Future>(body: F) -> impl Future<Output = F::Output> {
    inside(current(), body)
}

/// Like [`carry`], for a closure that runs on another thread, as in `spawn_blocking`.
///
/// ```
/// let answer = std::thread::spawn(zklock::carry_sync(|| 42)).join();
/// assert_eq!(answer.ok(), Some(42));
/// ```
pub fn carry_sync<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let frame = current();
    move || inside_sync(frame, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::handle::Session;

    #[test]
    fn the_future_of_a_scope_is_send_and_sync_if_the_body_is() {
        fn check<T: Send + Sync>(_: &T) {}
        check(&carry(std::future::ready(())));
    }

    #[tokio::test]
    async fn scopes_are_left_one_after_the_other_however_many_are_around() {
        let guard = Session::embedded().mutex("a").unwrap().acquire().await.unwrap();
        let mut innermost = None;
        for _ in 0..200_000 {
            innermost = Some(inside_sync(innermost.take(), || guard.frame()));
        }
        // The thread of a test has two MiB.
        drop(innermost);
    }

    /// The guard around goes between the turn of a nested call and its hold, or the lock is lost there.
    #[tokio::test]
    async fn a_nested_call_that_fails_once_it_has_its_turn_is_in_nobodys_way() {
        let guard = Session::embedded().mutex("a").unwrap().acquire().await.unwrap();
        let other = tokio::spawn(async { Caller::task() }).await.unwrap();
        let frame = guard.frame();
        let turn = frame.ask(other, Mode::Mutex, Kept::ByGuard).turn_now().unwrap();
        let nested = turn.within(&frame).unwrap();
        let grant = &frame.own.grant;
        assert!(!grant.begins_anew(&grant.who) && grant.lease.stays());
        drop(nested);
        assert!(!grant.lease.stays());
    }

    /// The other one had taken the only hold out to step down, and puts it back.
    #[tokio::test]
    async fn a_guard_that_goes_beside_a_downgrade_has_gone() {
        let lock = Session::embedded().rw_lock("a").unwrap();
        let mut guard = lock.write().await.unwrap();
        let grant = guard.frame().own.grant.clone();
        let mut nested = grant.hold_again().unwrap();
        drop(guard.hold.take());
        let sole = nested.take_only().unwrap();
        grant.has_left();
        let _hold = sole.put_back();
        assert!(grant.is_left());
    }
}
