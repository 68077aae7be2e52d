//! Running cycles of acquire and release, and measuring each.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Barrier;

use crate::measured::Measured;

/// Why a side could not go on.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

static HOLD_MS: AtomicU64 = AtomicU64::new(0);

/// Sets how long a task keeps the lock.
pub(crate) fn set_hold(millis: u64) {
    HOLD_MS.store(millis, Ordering::Relaxed);
}

/// How long a task keeps the lock, in milliseconds.
pub(crate) fn hold() -> u64 {
    HOLD_MS.load(Ordering::Relaxed)
}

/// What a task does while it holds the lock: the same on all sides, so that what an idle machine
/// takes to wake up is measured on all of them.
pub(crate) async fn body(alone: bool) {
    match hold() {
        0 if alone => {}
        // One yield, so that a lock in memory is passed on and not taken ten times in a row by the
        // task that happens to run.
        0 => tokio::task::yield_now().await,
        millis => tokio::time::sleep(Duration::from_millis(millis)).await,
    }
}

/// A lock as one task uses it.
pub(crate) trait Lock: Send + 'static {
    /// What a grant gives.
    type Held: Send;

    /// Acquires it.
    fn acquire(&mut self) -> impl Future<Output = Result<Self::Held, Failure>> + Send;

    /// Releases it; what "released" means is the side's own.
    fn release(&mut self, held: Self::Held) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// When the lock was last released, for the time from there to the next grant.
#[derive(Clone, Debug)]
pub(crate) struct Baton {
    origin: Instant,
    released: Arc<AtomicU64>,
}

impl Baton {
    pub(crate) fn new() -> Self {
        Baton { origin: Instant::now(), released: Arc::default() }
    }

    pub(crate) fn pass(&self) {
        self.released.store(self.origin.elapsed().as_nanos() as u64, Ordering::Release);
    }

    /// The time since the last release.
    pub(crate) fn take(&self, at: Instant) -> Option<u64> {
        let released = self.released.swap(0, Ordering::AcqRel);
        let now = at.duration_since(self.origin).as_nanos() as u64;
        (released > 0).then(|| now.saturating_sub(released))
    }
}

fn nanos(from: Instant, to: Instant) -> u64 {
    to.duration_since(from).as_nanos() as u64
}

/// Runs one task for each lock until the time is over. `baton` is for locks that are one.
pub(crate) async fn cycles<L: Lock>(
    locks: Vec<L>,
    time: Duration,
    baton: Option<Baton>,
) -> Result<(Vec<L>, Measured), Failure> {
    let (barrier, alone) = (Arc::new(Barrier::new(locks.len())), locks.len() == 1);
    let tasks: Vec<_> = locks
        .into_iter()
        .map(|mut lock| {
            let (barrier, baton) = (barrier.clone(), baton.clone());
            tokio::spawn(async move {
                barrier.wait().await;
                let measured = cycle(&mut lock, time, alone, baton.as_ref()).await?;
                // Boxed: a runtime moves the output's place about on every poll.
                Ok::<_, Failure>(Box::new((lock, measured)))
            })
        })
        .collect();
    let (mut locks, mut all) = (Vec::new(), Measured::default());
    for task in tasks {
        let (lock, measured) = *task.await??;
        locks.push(lock);
        all.merge(&measured);
    }
    Ok((locks, all))
}

async fn cycle<L: Lock>(
    lock: &mut L,
    time: Duration,
    alone: bool,
    baton: Option<&Baton>,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let start = Instant::now();
    let mut asked = start;
    loop {
        let held = lock.acquire().await?;
        let granted = Instant::now();
        if let Some(handoff) = baton.and_then(|baton| baton.take(granted)) {
            measured.handoffs.record(handoff);
        }
        body(alone).await;
        // Read behind the body, so that no handoff has a late timer in it.
        if let Some(baton) = baton {
            baton.pass();
        }
        lock.release(held).await?;
        let done = Instant::now();
        measured.waits.record(nanos(asked, granted));
        measured.cycles.record(nanos(asked, done));
        asked = done;
        measured.elapsed = done.duration_since(start);
        if measured.elapsed >= time {
            return Ok(measured);
        }
    }
}

/// The same on threads: each closure acquires, calls what it is given, and releases.
pub(crate) fn blocking_cycles<F>(mut locks: Vec<F>, time: Duration) -> Result<Measured, Failure>
where
    F: FnMut(&mut dyn FnMut()) -> Result<(), Failure> + Send,
{
    let barrier = std::sync::Barrier::new(locks.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = locks
            .iter_mut()
            .map(|lock| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    blocking_cycle(lock, time)
                })
            })
            .collect();
        let mut all = Measured::default();
        for thread in threads {
            let measured = thread.join().map_err(|_| "a thread panicked")??;
            all.merge(&measured);
        }
        Ok(all)
    })
}

fn blocking_cycle<F>(lock: &mut F, time: Duration) -> Result<Measured, Failure>
where
    F: FnMut(&mut dyn FnMut()) -> Result<(), Failure>,
{
    let mut measured = Measured::default();
    let start = Instant::now();
    let mut asked = start;
    loop {
        let mut granted = asked;
        lock(&mut || granted = Instant::now())?;
        let done = Instant::now();
        measured.waits.record(nanos(asked, granted));
        measured.cycles.record(nanos(asked, done));
        asked = done;
        measured.elapsed = done.duration_since(start);
        if measured.elapsed >= time {
            return Ok(measured);
        }
    }
}
