//! Sides that are tasks of this process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::drive::{Baton, Failure, Lock, cycles};
use crate::measured::Measured;
use crate::sides::Side;
use crate::workload::Shape;

static WORKERS: AtomicUsize = AtomicUsize::new(2);

/// Sets how many threads a runtime has.
pub(crate) fn set_workers(workers: usize) {
    WORKERS.store(workers.max(1), Ordering::Relaxed);
}

/// How many threads a runtime has.
pub(crate) fn workers() -> usize {
    WORKERS.load(Ordering::Relaxed)
}

/// A runtime as a service has it: its clients connect in it and its tasks run in it.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_multi_thread().worker_threads(workers()).enable_all().build()?)
}

/// A lock for each task.
pub(crate) struct Pool<L> {
    runtime: Runtime,
    locks: Vec<L>,
    passes: bool,
}

impl<L: Lock> Pool<L> {
    /// The locks of all tasks.
    pub(crate) fn side(runtime: Runtime, shape: Shape, locks: Vec<L>) -> Box<dyn Side> {
        // Only where sessions pass one lock around: in memory the clock would be what is measured.
        let passes = shape.sessions > 1 && shape.locks == 1;
        Box::new(Pool { runtime, locks, passes })
    }
}

impl<L: Lock> Side for Pool<L> {
    fn round(&mut self, time: Duration) -> Result<Measured, Failure> {
        let locks = std::mem::take(&mut self.locks);
        // A new one: from the last release of a round to the first grant of the next is no handoff.
        let running = cycles(locks, time, self.passes.then(Baton::new));
        let (locks, measured) = self.runtime.block_on(running)?;
        self.locks = locks;
        Ok(measured)
    }
}
