//! A timer that can be set again whenever its owner is polled.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::state::State;
use super::store::Store;
use crate::base::clock::{Clock, Instant, Sleep};

#[derive(Debug)]
pub(super) struct Alarm {
    clock: Clock,
    set: Option<(Instant, Sleep)>,
}

impl Alarm {
    pub(super) fn new(clock: Clock) -> Self {
        Alarm { clock, set: None }
    }

    /// Makes sure that the task is polled again at `due`. Returns whether that time has come.
    fn rings(&mut self, due: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(due) = due else {
            self.set = None;
            return false;
        };
        let (_, sleep) = match self.set.take() {
            Some(set) if set.0 == due => self.set.insert(set),
            _ => self.set.insert((due, self.clock.sleep_until(due))),
        };
        let rings = Pin::new(sleep).poll(cx).is_ready();
        if rings {
            self.set = None;
        }
        rings
    }

    /// Looks at the store until something is seen. Otherwise `look` keeps the waker, and says when to look again in
    /// any case.
    pub(super) fn look_until<T>(
        &mut self,
        store: &Store,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&mut State, Waker, Instant) -> Result<T, Option<Instant>>,
    ) -> Poll<T> {
        loop {
            let waker = cx.waker().clone();
            match store.access(|state, now| look(state, waker, now)) {
                Ok(seen) => return Poll::Ready(seen),
                Err(due) if self.rings(due, cx) => {}
                Err(_) => return Poll::Pending,
            }
        }
    }
}
