//! The options of a lock.

use std::time::Duration;

use crate::error::{ErrorKind, LockError};
use crate::policy::{Handoffs, RetryPolicy};

/// How a lock behaves. A session has defaults for all its locks.
///
/// ```
/// use std::time::Duration;
/// use zklock::LockOptions;
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
    handoffs: Handoffs,
    linger: Duration,
    fair: bool,
    revocable: bool,
}

impl Default for LockOptions {
    /// Two tries of two seconds, reentrant.
    fn default() -> Self {
        LockOptions {
            timeout: Duration::from_secs(2),
            retries: 2,
            reentrant: true,
            vanished: RetryPolicy::default(),
            handoffs: Handoffs::default(),
            linger: Duration::ZERO,
            fair: false,
            revocable: false,
        }
    }
}

impl LockOptions {
    /// Bounds one try. The lock is tried `retries` times, at most `timeout` each, so a call waits
    /// at most `timeout × retries` (2 × 2 s = 4 s by default).
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().timeout(Duration::from_millis(500));
    /// assert_eq!(options.longest_wait(), Duration::from_secs(1)); // Two tries.
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The number of tries, not of extra tries: 1 tries once.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// let once = LockOptions::default().retries(1);
    /// assert_eq!(once.longest_wait(), once.try_timeout());
    /// ```
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Whether the same lock may be taken again inside its own scope.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert!(LockOptions::default().is_reentrant());
    /// assert!(!LockOptions::default().reentrant(false).is_reentrant());
    /// ```
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = reentrant;
        self
    }

    /// What to do when the node or its directory vanished while the lock was being taken.
    ///
    /// ```
    /// use zklock::{LockOptions, RetryPolicy};
    ///
    /// // Fails at once when a script has deleted the node in the queue.
    /// let options = LockOptions::default().vanished(RetryPolicy::NEVER);
    /// assert_eq!(options.vanished_policy().attempts, 0);
    /// ```
    pub fn vanished(mut self, policy: RetryPolicy) -> Self {
        self.vanished = policy;
        self
    }

    /// How long the lock may be handed from task to task of this process before other processes
    /// are looked for.
    ///
    /// ```
    /// use zklock::{Handoffs, LockOptions};
    ///
    /// let bound = Handoffs { most: 100, ..Handoffs::default() };
    /// assert_eq!(LockOptions::default().handoffs(bound).handoff_bound(), bound);
    /// ```
    pub fn handoffs(mut self, bound: Handoffs) -> Self {
        self.handoffs = bound;
        self
    }

    /// Keeps the node for so long after the last release, unless somebody queues behind it: the
    /// next acquire in this process then takes no request. Zero, the default, does not.
    ///
    /// It has two prices. A process that dies while it lingers keeps the others out for one session
    /// timeout. And somebody who only tries meets a node that nobody uses: zklock's own try waits
    /// at most 100 ms for it to give way, the tries of Curator and kazoo do not. So `try_acquire`
    /// on a lock that lingers is refused.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().linger(Duration::from_secs(5));
    /// let mutex = session.mutex("orders")?.with_options(options)?;
    /// let first = mutex.acquire().await?.path().to_owned();
    /// assert_eq!(mutex.acquire().await?.path(), first); // The same node.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Gives every waiting task a node of its own: strictly first come, first served in the whole
    /// fleet, and two commits a turn. Nothing is handed on in memory and nothing lingers.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().fair(true);
    /// let mutex = session.mutex("orders")?.with_options(options)?;
    /// let first = mutex.acquire().await?.path().to_owned();
    /// assert_ne!(mutex.acquire().await?.path(), first); // A node for each.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn fair(mut self, fair: bool) -> Self {
        self.fair = fair;
        self
    }

    /// Whether its holder is to learn at once that somebody asked it to let go, for one read more a
    /// grant. Without this it learns so within a heartbeat, a sixth of the session timeout.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().revocable(true);
    /// let mutex = session.mutex("report")?.with_options(options)?;
    /// let guard = mutex.acquire().await?;
    /// mutex.site().revoke().await?;
    /// guard.revoked().await;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn revocable(mut self, revocable: bool) -> Self {
        self.revocable = revocable;
        self
    }

    /// How long the lock may be handed on.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert_eq!(LockOptions::default().handoff_bound().within.as_millis(), 10);
    /// ```
    pub fn handoff_bound(&self) -> Handoffs {
        self.handoffs
    }

    /// How long the node is kept after the last release.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert!(LockOptions::default().linger_time().is_zero());
    /// ```
    pub fn linger_time(&self) -> Duration {
        self.linger
    }

    /// Whether every waiting task has a node of its own.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert!(LockOptions::default().fair(true).is_fair());
    /// ```
    pub fn is_fair(&self) -> bool {
        self.fair
    }

    /// Whether a holder learns at once that it is to let go.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert!(!LockOptions::default().is_revocable());
    /// ```
    pub fn is_revocable(&self) -> bool {
        self.revocable
    }

    /// The bound of one try.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert_eq!(LockOptions::default().try_timeout().as_secs(), 2);
    /// ```
    pub fn try_timeout(&self) -> Duration {
        self.timeout
    }

    /// The number of tries.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert_eq!(LockOptions::default().tries(), 2);
    /// ```
    pub fn tries(&self) -> u32 {
        self.retries
    }

    /// Whether the lock is reentrant.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let mutex = session.mutex("orders")?.reentrant(false);
    /// assert!(!mutex.options().is_reentrant());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn is_reentrant(&self) -> bool {
        self.reentrant
    }

    /// What is done when the node or its directory vanished.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert_eq!(LockOptions::default().vanished_policy().attempts, 20);
    /// ```
    pub fn vanished_policy(&self) -> RetryPolicy {
        self.vanished
    }

    /// The longest time that a call waits: `timeout × retries`.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// assert_eq!(LockOptions::default().longest_wait().as_secs(), 4); // 2 × 2 s
    /// ```
    pub fn longest_wait(&self) -> Duration {
        self.timeout.saturating_mul(self.retries)
    }

    /// Checks the values.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// let error = LockOptions::default().retries(0).check();
    /// assert!(error.is_err_and(|error| error.to_string().contains("`retries = 1` tries once")));
    /// ```
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
        if self.fair && !self.linger.is_zero() {
            return Err(LockError::new(
                ErrorKind::InvalidOption,
                "a fair lock cannot linger: every waiter has a node of its own; choose one",
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
