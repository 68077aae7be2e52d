//! Answers that come too late for a grant: the log and errors say why a free lock is not granted.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::session::timing::Timing;

/// The last answer of a ZooKeeper session that came too late for a grant.
#[derive(Debug, Default)]
pub struct LateAnswers(Mutex<Option<Late>>);

#[derive(Clone, Copy, Debug)]
struct Late {
    took: Duration,
    at: Instant,
    logged: Instant,
}

impl LateAnswers {
    /// Records that an answer took so long that a lock with nobody ahead is not granted. Logs it from
    /// time to time.
    pub fn note(&self, lock: &str, took: Duration, timing: &Timing, now: Instant) {
        let logged = {
            let mut late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let before = late.map(|late| late.logged);
            let before = before.filter(|logged| now.since(*logged) < times::LATE_ANSWERS);
            *late = Some(Late { took, at: now, logged: before.unwrap_or(now) });
            before.is_some()
        };
        if !logged {
            let lease = timing.lease;
            // The lock is acquired later all the same.
            unharmed(|| {
                tracing::warn!(
                    lock,
                    ?took,
                    ?lease,
                    "nobody is ahead, and the lock is not granted: ZooKeeper's answers take too long"
                );
            });
        }
    }

    /// Why nothing is granted, if that was so less than a session timeout before `now`.
    pub fn trouble(&self, timing: &Timing, now: Instant) -> Option<LockError> {
        let late = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Late { took, .. } = late.filter(|late| now.since(late.at) < timing.session_timeout)?;
        let why = format!(
            "its answers take {took:?}, and a grant needs them within a fifth of the session timeout of {:?}",
            timing.session_timeout,
        );
        Some(LockError::new(ErrorKind::Unavailable, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::broken_log::panics_at;

    #[test]
    fn a_log_that_panics_ends_no_acquire() {
        let _log = panics_at("answers take too long");
        let (late, second) = (LateAnswers::default(), Duration::from_secs(1));
        let (timing, now) = (Timing::of(2 * second, None).unwrap(), Instant::ORIGIN + second);
        late.note("a", second, &timing, now);
        assert!(late.trouble(&timing, now).is_some());
    }
}
