//! The store: the state behind its mutex, and the only access to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::state::State;
use crate::base::clock::{Clock, Instant};
use crate::base::unharmed::unharmed;

#[derive(Debug)]
pub(super) struct Store {
    pub(super) clock: Clock,
    state: Mutex<State>,
}

impl Store {
    pub(super) fn new(reap_after: Duration) -> Arc<Self> {
        let clock = Clock::Caller;
        let state = Mutex::new(State::new(reap_after, epoch(clock.now())));
        Arc::new(Store { clock, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the state as it was left: events that are due are not processed, and nobody is woken.
    /// The caller may hold locks of its own, for which a task that is woken here would wait.
    pub(super) fn look<T>(&self, f: impl FnOnce(&State, Instant) -> T) -> T {
        f(&self.lock(), self.clock.now())
    }

    /// Accesses the state as it is at this time. Tasks are woken, and wakers are dropped, only
    /// after the mutex is free: either may run a task on the spot.
    pub(super) fn access<T>(&self, f: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = self.clock.now();
        let mut state = self.lock();
        state.advance(now);
        let output = f(&mut state, now);
        let wake = std::mem::take(&mut state.wake);
        let trash = std::mem::take(&mut state.trash);
        drop(state);
        // One that panics keeps neither the others asleep nor the caller from what it has asked for.
        wake.into_iter().for_each(|waker| unharmed(|| waker.wake()));
        unharmed(|| drop(trash));
        output
    }
}

/// The time of the wall clock at the origin of the store's clock, in milliseconds since 1970. It is
/// read once: after that the store's own clock counts, which a test may control.
#[allow(clippy::disallowed_methods)]
fn epoch(now: Instant) -> i64 {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let before = wall.saturating_sub(now.since(Instant::ORIGIN));
    i64::try_from(before.as_millis()).unwrap_or(0)
}
