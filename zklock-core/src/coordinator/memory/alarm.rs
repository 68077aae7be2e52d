//! A timer that can be set anew whenever its owner looks.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

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

    /// Sees to it that the task is polled again at `due`. Answers whether that moment has come.
    pub(super) fn rings(&mut self, due: Option<Instant>, cx: &mut Context<'_>) -> bool {
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
}
