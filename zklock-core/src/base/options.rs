//! The options of a lock.

use std::time::Duration;

use crate::base::cancel_policy::{CancelPolicy, OnLost, OnRevoked};
use crate::base::error::{ErrorKind, LockError};
use crate::base::policy::{Handoffs, RetryPolicy, StopAt};
use crate::cooldown::mark::Marks;

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
    cancel_policy: CancelPolicy,
    stop_at: StopAt,
    marks: Marks,
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
            cancel_policy: CancelPolicy::default(),
            stop_at: StopAt::default(),
            marks: Marks::default(),
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
    /// fleet, and two commits a turn. Nothing is handed on in memory and nothing lingers. An
    /// [exclusive lock](crate::layout::plain::OneNode) has only one node, which all try to make: there it
    /// is the order of each process.
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

    /// What happens to an async body that a template or the attribute runs, when the lock is lost.
    ///
    /// ```
    /// use zklock::{LockOptions, OnLost};
    ///
    /// let options = LockOptions::default().on_lost(OnLost::Finish);
    /// assert_eq!(options.lost_policy(), OnLost::Finish);
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.cancel_policy.lost = on_lost;
        self
    }

    /// What happens to a body that a template or the attribute runs, when somebody asks that the
    /// lock be let go. [`OnRevoked::Cancel`] makes the lock [revocable](LockOptions::revocable).
    ///
    /// ```
    /// use zklock::{LockOptions, OnRevoked};
    ///
    /// let options = LockOptions::default().on_revoked(OnRevoked::Cancel);
    /// assert_eq!(options.revoked_policy(), OnRevoked::Cancel);
    /// ```
    pub fn on_revoked(mut self, on_revoked: OnRevoked) -> Self {
        self.cancel_policy.revoked = on_revoked;
        self
    }

    /// When a guard stops being valid, if the connection to ZooKeeper is in trouble. With
    /// [`StopAt::Suspect`] it does so as soon as the session is not connected, or no commit was
    /// answered for a third of the session timeout, and it stays lost if the connection comes back:
    /// `is_valid()` is false, `lost()` resolves, and a body ends as
    /// [`on_lost`](LockOptions::on_lost) says. Every short outage costs the guard then.
    ///
    /// The node is deleted when the guard is released or dropped, and until then others wait. It is
    /// not handed on, nor does it linger. Tasks of one process share a node only with those that
    /// stop at the same point; a nested guard is as the outermost. A lock is granted while a
    /// heartbeat is not due, so a commit must be answered within a sixth of the session timeout.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// use zklock::{Body, LockOptions, StopAt, ZkLockTemplate};
    ///
    /// let options = LockOptions::default().stop_at(StopAt::Suspect);
    /// let template = ZkLockTemplate::default().with_options(options)?;
    /// let payment = template.execute("payments", || async {
    ///     locks.outage(true);
    ///     std::future::pending::<()>().await // Dropped here.
    /// });
    /// assert!(payment.await.is_err_and(|error| error.is_lost() && error.body() == Some(Body::Dropped)));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn stop_at(mut self, stop_at: StopAt) -> Self {
        self.stop_at = stop_at;
        self
    }

    /// When a guard stops being valid, if the connection is in trouble.
    ///
    /// ```
    /// use zklock::{LockOptions, StopAt};
    ///
    /// assert_eq!(LockOptions::default().stops_at(), StopAt::Lost);
    /// ```
    pub fn stops_at(&self) -> StopAt {
        self.stop_at
    }

    /// What happens to an async body when the lock is lost.
    ///
    /// ```
    /// use zklock::{LockOptions, OnLost};
    ///
    /// assert_eq!(LockOptions::default().lost_policy(), OnLost::Cancel);
    /// ```
    pub fn lost_policy(&self) -> OnLost {
        self.cancel_policy.lost
    }

    /// What happens to a body when somebody asks that the lock be let go.
    ///
    /// ```
    /// use zklock::{LockOptions, OnRevoked};
    ///
    /// assert_eq!(LockOptions::default().revoked_policy(), OnRevoked::Ignore);
    /// ```
    pub fn revoked_policy(&self) -> OnRevoked {
        self.cancel_policy.revoked
    }

    /// Sets what is there to be set.
    pub(crate) fn set<T>(&mut self, value: Option<T>, to: impl FnOnce(Self, T) -> Self) {
        if let Some(value) = value {
            *self = to(*self, value);
        }
    }

    pub(crate) fn cancel_policy(&self) -> CancelPolicy {
        self.cancel_policy
    }

    /// Lets the lock rest for so long when a holder was lost: it crashed, or its ZooKeeper session
    /// expired. What it had sent elsewhere has time to arrive, or to time out there, before the next
    /// holder begins. After a release nobody waits. Zero, the default, is no delay.
    ///
    /// The holder notes the delay in the data of the lock's directory when it is granted, which
    /// costs a read and a commit for each grant by ZooKeeper, and takes the note away in the
    /// transaction that deletes its node. A grant that is handed on in memory costs nothing more.
    /// Whoever is at the head of the queue and finds the note of another waits, by the delay of that
    /// note, from when it is found: nobody can tell when the other was lost. An acquire whose time
    /// is over before is busy, and says until when the lock rests; the rest goes on meanwhile.
    ///
    /// All locks of the name should have the option: those without it do not look, nor do Curator
    /// and kazoo. A guard that is still held when its session is closed counts as lost. Readers wait
    /// for the rest of a lost writer, and a lost reader lets nobody wait. The directory is made
    /// persistent; one that is a container already may go with the note once it is empty.
    ///
    /// Layouts whose nodes have no names of their own, whose directories are removed, or with
    /// several holders, cannot do this: an acquire is [unsupported](ErrorKind::Unsupported) then. So
    /// it is if the directory has data of somebody else, which is never overwritten.
    ///
    /// ```
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().lock_delay(Duration::from_secs(15));
    /// let ledger = session.mutex("ledger")?.with_options(options)?;
    /// ledger.acquire().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.marks = self.marks.delaying(delay);
        self
    }

    /// Keeps the lock for so long from the grant, although it is released before: for jobs that
    /// several machines start at the same time by clocks that differ a little. The caller is not
    /// delayed. Zero, the default, lets go at the release.
    ///
    /// Until the end the node stays in the queue, so that everybody else waits or is busy, tasks of
    /// this process included: nothing is handed on in memory, and every acquire has a node of its
    /// own. The end is also written into the data of the lock's directory, by ZooKeeper's clock,
    /// when the lock is granted: so it holds if the process exits or its session is closed.
    /// [`Session::close`](crate::session::Session::close) and `drain` do not wait for it.
    ///
    /// Whoever is granted the lock before the end, because the node went, is busy (code `1011`), and
    /// the error says until when; an acquire that has longer to wait gets the lock then, and a job
    /// that should not run twice uses `try_acquire`, or a timeout below this time. Only locks with
    /// this option or a [delay](LockOptions::lock_delay) look; Curator and kazoo do not. The price is
    /// a read and a commit for each grant.
    ///
    /// It is for mutexes, in the layouts that [`lock_delay`](LockOptions::lock_delay) names, and the
    /// directory is made persistent. One that is there already, and may be a container, is replaced
    /// when nobody else is in it.
    ///
    /// ```
    /// # async fn example() -> Result<(), zklock::LockError> {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().hold_at_least(Duration::from_secs(30));
    /// let nightly = session.mutex("jobs/nightly")?.with_options(options)?;
    /// nightly.try_acquire().await?.release().await?;
    /// assert!(nightly.try_acquire().await.is_err_and(|error| error.is_busy()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_at_least(mut self, hold: Duration) -> Self {
        self.marks = self.marks.holding(hold);
        self
    }

    /// How long the lock rests when a holder was lost.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().lock_delay(Duration::from_secs(15));
    /// assert_eq!(options.delay_time(), Duration::from_secs(15));
    /// ```
    pub fn delay_time(&self) -> Duration {
        self.marks.delay()
    }

    /// How long the lock is kept from the grant at least.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::default().hold_at_least(Duration::from_secs(30));
    /// assert_eq!(options.least_hold(), Duration::from_secs(30));
    /// ```
    pub fn least_hold(&self) -> Duration {
        self.marks.hold()
    }

    /// What is noted in the lock's directory.
    pub(crate) fn marks(&self) -> Marks {
        self.marks
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
        self.revocable || self.cancel_policy.revoked == OnRevoked::Cancel
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
    /// [`ErrorKind::InvalidOption`] for zero tries or a zero timeout, naming the right spelling, and
    /// for options that contradict each other.
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
        if !self.least_hold().is_zero() && !self.linger.is_zero() {
            return Err(LockError::new(
                ErrorKind::InvalidOption,
                "a lock that is held at least for a time cannot linger: lingering gives way to \
                 whoever waits; choose one",
            ));
        }
        if self.least_hold().max(self.delay_time()) == Marks::LONGEST {
            return Err(LockError::new(
                ErrorKind::InvalidOption,
                "`lock_delay` and `hold_at_least` are at most 49 days",
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

    #[test]
    fn a_lock_that_is_held_for_a_time_does_not_linger() {
        let hold = LockOptions::default().hold_at_least(Duration::from_secs(30));
        assert!(hold.check().is_ok());
        let both = hold.linger(Duration::from_secs(1)).check().unwrap_err();
        assert!(both.to_string().contains("cannot linger"), "{both}");
        assert!(hold.lock_delay(Duration::from_secs(1)).check().is_ok());
        let endless = LockOptions::default().lock_delay(Duration::MAX).check().unwrap_err();
        assert!(endless.to_string().contains("at most 49 days"), "{endless}");
    }
}
