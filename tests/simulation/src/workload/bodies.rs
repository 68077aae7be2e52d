//! What becomes of the bodies of guarded functions, and what their callers are told of it.

use std::sync::atomic::{AtomicU8, Ordering};

use zklock_core::base::error::{Body, LockError};
use zklock_core::base::error_kind::ErrorKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::guard::view::Current;

use super::task::Task;
use crate::rules;

const BEGAN: u8 = 1;
const ENDED: u8 = 2;
const ENDED_LOST: u8 = 3;

/// How often of 1,000 times an outsider deletes the node of a lock under which a body runs that nobody else wants.
const LOSES: u32 = 80;

/// What became of a body.
#[derive(Debug, Default)]
pub(super) struct AtomicRan(AtomicU8);

impl AtomicRan {
    pub(super) fn begins(&self) {
        self.0.store(BEGAN, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed) > BEGAN
    }

    /// It returns in this poll: so whoever polls it sees whether it has the lock as it does.
    pub(super) fn ends(&self, valid: bool) {
        self.0.store(if valid { ENDED } else { ENDED_LOST }, Ordering::Relaxed);
    }
}

impl Task {
    /// Perhaps an outsider deletes the node under which a body runs, which then lasts for so long.
    pub(super) fn lose_in_a_body(&self, guard: &Current) -> Option<u64> {
        let view = guard.view().filter(|_| self.process.world().seldom(2, LOSES) == 1)?;
        let (store, path) = (self.crew.ledger.store(), view.node_path().to_owned());
        store.meddle();
        store.ensemble().outsider(Operation::Delete { path });
        Some(self.crew.timeout)
    }

    /// What a body returns counts if it had the lock to its end, and is discarded otherwise, which its caller is told;
    /// and so is the caller of a body that was dropped.
    pub(super) fn check_ran(&self, ran: &AtomicRan, answer: Result<&(), &LockError>) {
        let ran = ran.0.load(Ordering::Relaxed);
        let is_over =
            |error: &&LockError| matches!(error.kind(), ErrorKind::Lost | ErrorKind::HeldTooLong);
        let told = answer.err().filter(is_over).map(LockError::body);
        let so = match (ran, told) {
            (BEGAN, Some(body)) => body == Some(Body::Dropped),
            (ENDED_LOST, told) => told == Some(Some(Body::Finished)),
            (ENDED, told) => told.is_none(),
            (_, _) => true,
        };
        if !so {
            let what = format!("{}: {answer:?} of a body {ran}", self.name);
            self.crew.ledger.fail(rules::DISCARDED, what);
        }
    }
}
