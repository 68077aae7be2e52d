//! The options of a lock.

use std::time::Duration;

use crate::error::{ErrorKind, LockError};
use crate::policy::RetryPolicy;

/// How a lock behaves. A session has defaults for all its locks.
///
/// ```
/// use std::time::Duration;
/// use zklock_core::options::LockOptions;
///
/// let options = LockOptions::default().timeout(Duration::from_secs(5)).retries(1);
/// assert_eq!(options.longest_wait(), Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockOptions {
    timeout: Duration,
    retries: u32,
    reentrant: bool,
    vanished: RetryPolicy,
}

impl Default for LockOptions {
    /// Two tries of two seconds, reentrant.
    fn default() -> Self {
        LockOptions {
            timeout: Duration::from_secs(2),
            retries: 2,
            reentrant: true,
            vanished: RetryPolicy::default(),
        }
    }
}

impl LockOptions {
    /// Bounds one try. The lock is tried `retries` times, at most `timeout` each, so a call waits
    /// at most `timeout × retries` (2 × 2 s = 4 s by default).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The number of tries, not of extra tries: 1 tries once.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Whether the same lock may be taken again inside its own scope.
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = reentrant;
        self
    }

    /// What to do when the node or its directory vanished while the lock was being taken.
    pub fn vanished(mut self, policy: RetryPolicy) -> Self {
        self.vanished = policy;
        self
    }

    /// The bound of one try.
    pub fn try_timeout(&self) -> Duration {
        self.timeout
    }

    /// The number of tries.
    pub fn tries(&self) -> u32 {
        self.retries
    }

    /// Whether the lock is reentrant.
    pub fn is_reentrant(&self) -> bool {
        self.reentrant
    }

    /// What is done when the node or its directory vanished.
    pub fn vanished_policy(&self) -> RetryPolicy {
        self.vanished
    }

    /// The longest time that a call waits: `timeout × retries`.
    pub fn longest_wait(&self) -> Duration {
        self.timeout.saturating_mul(self.retries)
    }

    /// Checks the values.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for zero tries or a zero timeout, naming the right spelling.
    pub fn check(&self) -> Result<(), LockError> {
        if self.retries == 0 {
            return Err(LockError::new(
                ErrorKind::InvalidOption,
                "retries is the number of tries, so at least 1; `retries = 1` tries once, and \
                 `try_acquire` asks without waiting",
            ));
        }
        if self.timeout.is_zero() {
            return Err(LockError::new(
                ErrorKind::InvalidOption,
                "the timeout of a try must be longer than zero, for instance `timeout = \"2s\"`; \
                 to ask without waiting use `try_acquire`",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_arithmetic_is_the_default() {
        assert_eq!(LockOptions::default().longest_wait(), Duration::from_secs(4));
    }

    #[test]
    fn zero_tries_and_zero_timeouts_are_refused_with_the_right_spelling() {
        let zero_tries = LockOptions::default().retries(0).check().unwrap_err();
        assert_eq!(zero_tries.kind(), ErrorKind::InvalidOption);
        assert!(zero_tries.to_string().contains("retries = 1"));
        let zero_timeout = LockOptions::default().timeout(Duration::ZERO).check().unwrap_err();
        assert!(zero_timeout.to_string().contains("try_acquire"));
    }
}
