//! What all clients share: when it is over, and what was done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use zklock_test_support::monotonic_ns;

/// The state of the whole.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) seed: u64,
    /// No new acquires.
    over: AtomicBool,
    /// Acquires that were granted.
    pub(super) grants: AtomicU64,
    /// Acquires and releases that were answered.
    pub(super) operations: AtomicU64,
    /// The same, of hands that wait with a node of their own.
    pub(super) own_nodes: AtomicU64,
    /// Hands that still have something to do.
    pub(super) busy: AtomicU64,
    gaps: Mutex<Gaps>,
}

/// How long nobody was granted anything.
#[derive(Debug, Default)]
struct Gaps {
    last: u64,
    worst: u64,
}

impl Work {
    pub(super) fn new(seed: u64) -> Self {
        Work {
            seed,
            over: AtomicBool::new(false),
            grants: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            own_nodes: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            gaps: Mutex::default(),
        }
    }

    /// Lets everybody finish.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(super) fn worst_gap_ms(&self) -> u64 {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).worst / 1_000_000
    }

    /// When somebody was granted something last.
    pub(super) fn last_grant(&self) -> u64 {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    pub(super) fn answered(&self, fair: bool) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.own_nodes.fetch_add(u64::from(fair), Ordering::Relaxed);
    }

    pub(super) fn granted(&self) {
        self.grants.fetch_add(1, Ordering::Relaxed);
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        let now = monotonic_ns();
        if gaps.last > 0 {
            gaps.worst = gaps.worst.max(now.saturating_sub(gaps.last));
        }
        gaps.last = now;
    }
}
