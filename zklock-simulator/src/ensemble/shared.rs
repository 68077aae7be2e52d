//! The machine in its world: whoever does something with it does it here, under its lock, and what
//! follows is set going after that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::machine::{Event, Machine};
use super::options::Options;
use crate::executor::{World, wake_up};

/// An ensemble in its world.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) world: Arc<World>,
    machine: Mutex<Machine>,
}

impl Shared {
    pub(super) fn new(world: &Arc<World>, options: Options) -> Arc<Self> {
        let machine = Mutex::new(Machine::new(world.clone(), options));
        let shared = Arc::new(Shared { world: world.clone(), machine });
        // What its birth set going.
        shared.act(|_| ());
        shared
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks, and changes nothing.
    pub(super) fn look<T>(&self, f: impl FnOnce(&Machine) -> T) -> T {
        f(&self.lock())
    }

    /// Does something now.
    pub(super) fn act<T>(self: &Arc<Self>, f: impl FnOnce(&mut Machine) -> T) -> T {
        let mut machine = self.lock();
        machine.now = self.world.now();
        let result = f(&mut machine);
        // Most who act only look whether there is something for them.
        if !machine.later.is_empty() {
            for (at, event) in machine.later.drain(..) {
                let shared = self.clone();
                self.world.at(at, move || shared.happen(event));
            }
        }
        if machine.wake.is_empty() {
            return result;
        }
        // Who is woken may act in turn.
        let mut wake = std::mem::take(&mut machine.wake);
        drop(machine);
        for waker in wake.drain(..) {
            wake_up(waker);
        }
        // The next who act find the room that is there.
        self.lock().wake = wake;
        result
    }

    /// Not generic, so that it can call itself by way of the world.
    fn happen(self: &Arc<Self>, event: Event) {
        self.act(|machine| machine.happen(event));
    }
}
