//! What is seen of a process without the lock of its world: whether it runs, and what its clock shows.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// How a process stands. One thread changes and sees it.
#[derive(Debug)]
pub(super) struct Standing {
    crashed: AtomicBool,
    paused: AtomicBool,
    /// By how many millionths its clock is fast.
    drift: AtomicI64,
    /// Where its clock was when its rate was set: a moment of the world, and what the clock showed.
    rated_at: AtomicU64,
    rated: AtomicU64,
}

impl Standing {
    /// A process that runs, with a clock that shows so many nanoseconds when the world begins.
    pub(super) fn new(nanos: u64) -> Self {
        Standing {
            crashed: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            drift: AtomicI64::new(0),
            rated_at: AtomicU64::new(0),
            rated: AtomicU64::new(nanos),
        }
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.crashed.load(Ordering::Relaxed)
    }

    pub(super) fn crash(&self) {
        self.crashed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub(super) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    fn rate(&self) -> (i64, u64, u64) {
        let (at, nanos) = (&self.rated_at, &self.rated);
        (
            self.drift.load(Ordering::Relaxed),
            at.load(Ordering::Relaxed),
            nanos.load(Ordering::Relaxed),
        )
    }

    /// Makes the clock run fast by so many millionths from now on.
    pub(super) fn set_drift(&self, now: u64, millionths: i32) {
        let nanos = self.nanos(now);
        self.rated_at.store(now, Ordering::Relaxed);
        self.rated.store(nanos, Ordering::Relaxed);
        self.drift.store(i64::from(millionths), Ordering::Relaxed);
    }

    /// What its clock shows at a moment of the world.
    pub(super) fn nanos(&self, now: u64) -> u64 {
        let (drift, at, nanos) = self.rate();
        let since = now.saturating_sub(at);
        if drift == 0 {
            return nanos.saturating_add(since.saturating_mul(1_000));
        }
        let ahead = i128::from(since) * i128::from(drift) / 1_000;
        (i128::from(nanos) + i128::from(since) * 1_000 + ahead) as u64
    }

    /// The moment of the world at which its clock shows this, rounded up.
    pub(super) fn moment(&self, nanos: u64) -> u64 {
        let (drift, at, rated) = self.rate();
        let rate = 1_000_000 + i128::from(drift);
        let since = i128::from(nanos.saturating_sub(rated)) * 1_000;
        at.saturating_add(u64::try_from((since + rate - 1) / rate).unwrap_or(u64::MAX))
    }
}
