//! Warnings of callers that wait or hold for long.

use std::time::Duration;

use crate::base::times;
use crate::session::local_queues::Held;

/// From when on a wait or a hold is logged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slow {
    /// From when on a wait is.
    pub waiting: Option<Duration>,
    /// From when on a hold is.
    pub holding: Option<Duration>,
}

impl Slow {
    /// The time between two looks, if anything is to be logged: a tenth of the shorter limit.
    pub fn pause(&self) -> Option<Duration> {
        let shorter = self.waiting.into_iter().chain(self.holding).min()?;
        Some((shorter / 10).max(times::SLOW))
    }

    /// Logs those that passed a limit since the last look.
    pub fn look(&self, all: &[Held], since_last: Duration) {
        for Held { lock, granted, since, who, label, .. } in all {
            let limit = if *granted { self.holding } else { self.waiting };
            let Some(limit) = limit else { continue };
            if *since < limit || *since >= limit + since_last {
                continue;
            }
            let (lock, label) = (&**lock, label.as_deref().unwrap_or_default());
            if *granted {
                tracing::warn!(lock, who, label, ?limit, "a lock is held for longer than this");
            } else {
                tracing::warn!(lock, who, label, ?limit, "a caller waits for longer than this");
            }
        }
    }
}
