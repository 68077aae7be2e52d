//! Policies: how often an acquire queues up again, how long a process keeps a lock to itself, and when
//! a guard counts as lost.

use crate::base::times;
use std::time::Duration;

/// How often an acquire queues up again after others deleted its node or the lock's directory, and
/// the pause before that, which doubles.
///
/// A server removes empty directories (containers) by itself, and people and scripts delete nodes,
/// so this happens to correct programs. Timeouts apply all the same: this happens within one of the
/// [tries](crate::base::options::LockOptions::retries) of a call.
///
/// ```
/// use std::time::Duration;
/// use zklock::Requeue;
///
/// let patient = Requeue::new().attempts(100);
/// assert_eq!(patient.pause(0), Duration::ZERO);
/// assert!(patient.pause(3) > patient.pause(2));
/// assert_eq!(patient.pause(101), patient.longest);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Requeue {
    /// The number of new attempts; 0 for none.
    pub attempts: u32,
    /// The pause before the second new attempt; the first is immediate.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for Requeue {
    /// 20 new attempts, with pauses from 5 ms, doubling up to 500 ms.
    fn default() -> Self {
        Requeue::new()
    }
}

impl Requeue {
    /// No new attempt.
    pub const NEVER: Requeue =
        Requeue { attempts: 0, first: Duration::ZERO, longest: Duration::ZERO };

    /// Returns the default policy: 20 new attempts, with pauses from 5 ms, doubling up to 500 ms.
    ///
    /// ```
    /// use zklock::Requeue;
    ///
    /// assert_eq!(Requeue::new().attempts, 20);
    /// ```
    pub const fn new() -> Self {
        Requeue { attempts: 20, first: times::VANISHED.0, longest: times::VANISHED.1 }
    }

    /// Sets the number of new attempts; 0 for none.
    ///
    /// ```
    /// use zklock::{LockOptions, Requeue};
    ///
    /// let patient = LockOptions::new().requeue(Requeue::new().attempts(100));
    /// assert_eq!(patient.requeue.map(|requeue| requeue.attempts), Some(100));
    /// ```
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the pause before the second new attempt; the first is immediate.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::Requeue;
    ///
    /// let slow = Requeue::new().first(Duration::from_millis(100));
    /// assert_eq!(slow.pause(1), Duration::from_millis(100));
    /// ```
    pub const fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// Sets the longest pause.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::Requeue;
    ///
    /// let quick = Requeue::new().longest(Duration::from_millis(20));
    /// assert_eq!(quick.pause(19), Duration::from_millis(20));
    /// ```
    pub const fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Returns the pause before a new attempt, counted from 0.
    ///
    /// ```
    /// use zklock::Requeue;
    ///
    /// let pauses = [0, 1, 2, 3].map(|retry| Requeue::default().pause(retry).as_millis());
    /// assert_eq!(pauses, [0, 5, 10, 20]);
    /// ```
    pub fn pause(&self, retry: u32) -> Duration {
        match retry.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => self.first.saturating_mul(1 << doublings.min(20)).min(self.longest),
        }
    }
}

/// Returns the pause before an acquire asks ZooKeeper again, after so many interruptions.
pub fn pause_after(interruptions: u32) -> Duration {
    Requeue::new().pause(interruptions)
}

/// The limit of handoffs. After this number of handoffs, or this time, the process checks whether
/// another process waits; if so, it deletes its node, and queues up behind the others.
///
/// ```
/// use zklock::Handoffs;
///
/// let shared = Handoffs::default();
/// let never = Handoffs::NONE;
/// assert!(shared.most > never.most);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Handoffs {
    /// The number of handoffs.
    pub most: u32,
    /// The time since the grant by ZooKeeper.
    pub within: Duration,
}

impl Default for Handoffs {
    /// 10,000 handoffs, or 10 ms.
    fn default() -> Self {
        Handoffs::new()
    }
}

impl Handoffs {
    /// No handoffs: before every grant, the process checks whether another one waits.
    pub const NONE: Handoffs = Handoffs { most: 0, within: Duration::ZERO };

    /// Returns the default limit: 10,000 handoffs, or 10 ms.
    ///
    /// ```
    /// use zklock::Handoffs;
    ///
    /// assert_eq!(Handoffs::new().most, 10_000);
    /// ```
    pub const fn new() -> Self {
        Handoffs { most: 10_000, within: times::HANDOFFS }
    }

    /// Sets the number of handoffs.
    ///
    /// ```
    /// use zklock::{Handoffs, LockOptions};
    ///
    /// let seldom = LockOptions::new().handoffs(Handoffs::new().most(100));
    /// assert_eq!(seldom.handoffs.map(|bound| bound.most), Some(100));
    /// ```
    pub const fn most(mut self, most: u32) -> Self {
        self.most = most;
        self
    }

    /// Sets the time since the grant by ZooKeeper.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::Handoffs;
    ///
    /// let longer = Handoffs::new().within(Duration::from_millis(50));
    /// assert!(longer.within > Handoffs::new().within);
    /// ```
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

/// When a guard counts as lost if the connection to ZooKeeper fails.
///
/// A session is *suspect* while it is not connected, and while it holds a lock and no write was
/// answered for a third of the session timeout. Of several connections of a session, that of the lock
/// counts. A held lock is *lost* when its lease runs out, shortly before ZooKeeper can give the lock to
/// somebody else.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let locks = zklock::testing::TestLocks::install();
/// # let session = locks.session().clone();
/// use zklock::{LockOptions, StopAt};
///
/// let options = LockOptions::new().stop_at(StopAt::Suspect);
/// let careful = session.mutex("payments")?.with_options(options).acquire().await?;
/// let patient = session.mutex("reports")?.acquire().await?;
/// locks.begin_outage();
/// assert!(!careful.is_valid() && patient.is_valid());
/// locks.end_outage();
/// assert!(!careful.is_valid() && patient.is_valid()); // It stays lost.
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StopAt {
    /// When the session is suspect. The guard stays lost if the connection comes back. In Curator
    /// this is the standard policy for connection states.
    Suspect,
    /// When the lease runs out. A shorter outage has no effect.
    #[default]
    Lost,
}
