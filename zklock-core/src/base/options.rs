//! The options of a lock: overrides, of which each may be set or not.

use std::time::Duration;

use crate::base::cancel_policy::{OnLost, OnRevoked};
#[cfg(doc)]
use crate::base::error::ErrorKind;
use crate::base::policy::{Handoffs, RetryPolicy, StopAt};

/// How a lock behaves: overrides of the defaults. An option is taken from the first of these that
/// sets it: the arguments of an attribute, `with_options` of a lock or a template, the session's
/// defaults, the library's.
///
/// Each option is a field, which is `None` until the setter of the same name is called. A value that
/// is not accepted, and options that contradict each other make an acquire fail with
/// [`InvalidOption`](crate::base::error::ErrorKind::InvalidOption).
///
/// ```
/// # let store = zklock::Embedded::new();
/// use std::time::Duration;
/// use zklock::{LockOptions, Session};
///
/// let patient = LockOptions::new().timeout(Duration::from_secs(5));
/// let session = Session::embedded_builder(&store).defaults(patient).open()?;
/// let orders = session.mutex("orders")?.with_options(LockOptions::new().retries(1));
/// assert_eq!(orders.options().timeout, Some(Duration::from_secs(5))); // As the session says.
/// assert_eq!(orders.options().retries, Some(1));
/// assert_eq!(orders.options().fair, Some(false)); // As the library says.
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct LockOptions {
    /// How long [one try](LockOptions::timeout) may take.
    pub timeout: Option<Duration>,
    /// The [number of tries](LockOptions::retries).
    pub retries: Option<u32>,
    /// Whether it may be [taken again](LockOptions::reentrant) inside its own scope.
    pub reentrant: Option<bool>,
    /// What to do when its [node vanished](LockOptions::vanished) while it was being taken.
    pub vanished: Option<RetryPolicy>,
    /// The bound of [handoffs](LockOptions::handoffs).
    pub handoffs: Option<Handoffs>,
    /// How long its [node is kept](LockOptions::linger) after the last release.
    pub linger: Option<Duration>,
    /// Whether every waiter has [a node of its own](LockOptions::fair).
    pub fair: Option<bool>,
    /// Whether a holder learns [at once](LockOptions::revocable) that it is to let go.
    pub revocable: Option<bool>,
    /// What happens to a body when the lock is [lost](LockOptions::on_lost).
    pub on_lost: Option<OnLost>,
    /// What happens to a body when the lock is [to be let go](LockOptions::on_revoked).
    pub on_revoked: Option<OnRevoked>,
    /// When a guard [stops](LockOptions::stop_at) being valid.
    pub stop_at: Option<StopAt>,
    /// How long the lock [rests](LockOptions::lock_delay) when a holder was lost.
    pub lock_delay: Option<Duration>,
    /// How long it is [kept at least](LockOptions::hold_at_least).
    pub hold_at_least: Option<Duration>,
}

impl LockOptions {
    /// Sets nothing.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockOptions;
    ///
    /// let orders = session.mutex("orders")?;
    /// assert_eq!(orders.clone().with_options(LockOptions::new()).options(), orders.options());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub const fn new() -> Self {
        LockOptions {
            timeout: None,
            retries: None,
            reentrant: None,
            vanished: None,
            handoffs: None,
            linger: None,
            fair: None,
            revocable: None,
            on_lost: None,
            on_revoked: None,
            stop_at: None,
            lock_delay: None,
            hold_at_least: None,
        }
    }

    /// Returns these options; those that are not set are taken from `others`.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// let usual = LockOptions::new().retries(3).fair(true);
    /// let both = LockOptions::new().retries(1).or(usual);
    /// assert_eq!((both.retries, both.fair), (Some(1), Some(true)));
    /// ```
    pub fn or(self, others: LockOptions) -> Self {
        LockOptions {
            timeout: self.timeout.or(others.timeout),
            retries: self.retries.or(others.retries),
            reentrant: self.reentrant.or(others.reentrant),
            vanished: self.vanished.or(others.vanished),
            handoffs: self.handoffs.or(others.handoffs),
            linger: self.linger.or(others.linger),
            fair: self.fair.or(others.fair),
            revocable: self.revocable.or(others.revocable),
            on_lost: self.on_lost.or(others.on_lost),
            on_revoked: self.on_revoked.or(others.on_revoked),
            stop_at: self.stop_at.or(others.stop_at),
            lock_delay: self.lock_delay.or(others.lock_delay),
            hold_at_least: self.hold_at_least.or(others.hold_at_least),
        }
    }

    /// Bounds one try. The lock is tried `retries` times, at most `timeout` each, so a call waits
    /// at most `timeout × retries` (2 × 2 s = 4 s by default).
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::new().timeout(Duration::from_millis(500)); // 2 × 500 ms = 1 s.
    /// assert_eq!(options.timeout, Some(Duration::from_millis(500)));
    /// ```
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The number of tries, not of extra tries: 1 tries once.
    ///
    /// ```
    /// use zklock::LockOptions;
    ///
    /// let once = LockOptions::new().retries(1); // 1 × 2 s.
    /// assert_eq!(once.retries, Some(1));
    /// ```
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// Whether the same lock may be taken again inside its own scope; it may by default. If not,
    /// that is a [deadlock](ErrorKind::Deadlock), reported at once.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::{ErrorKind, LockOptions};
    ///
    /// let mutex = session.mutex("orders")?.with_options(LockOptions::new().reentrant(false));
    /// let guard = mutex.acquire().await?;
    /// let again = guard.scope(mutex.acquire()).await;
    /// assert!(again.is_err_and(|error| error.kind() == ErrorKind::Deadlock));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = Some(reentrant);
        self
    }

    /// What to do when the node or its directory vanished while the lock was being taken: 20 more
    /// times by default. A semaphore always uses its session's policy.
    ///
    /// ```
    /// use zklock::{LockOptions, RetryPolicy};
    ///
    /// // Fails at once when a script has deleted the node in the queue.
    /// let options = LockOptions::new().vanished(RetryPolicy::NEVER);
    /// assert_eq!(options.vanished, Some(RetryPolicy::NEVER));
    /// ```
    pub const fn vanished(mut self, policy: RetryPolicy) -> Self {
        self.vanished = Some(policy);
        self
    }

    /// How long the lock may be handed from task to task of this process before other processes
    /// are looked for: 10,000 times within 10 ms by default.
    ///
    /// ```
    /// use zklock::{Handoffs, LockOptions};
    ///
    /// let bound = Handoffs { most: 100, ..Handoffs::default() };
    /// assert_eq!(LockOptions::new().handoffs(bound).handoffs, Some(bound));
    /// ```
    pub const fn handoffs(mut self, bound: Handoffs) -> Self {
        self.handoffs = Some(bound);
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
    /// let options = LockOptions::new().linger(Duration::from_secs(5));
    /// let mutex = session.mutex("orders")?.with_options(options);
    /// let first = mutex.acquire().await?.path().to_owned();
    /// assert_eq!(mutex.acquire().await?.path(), first); // The same node.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
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
    /// let options = LockOptions::new().fair(true);
    /// let mutex = session.mutex("orders")?.with_options(options);
    /// let first = mutex.acquire().await?.path().to_owned();
    /// assert_ne!(mutex.acquire().await?.path(), first); // A node for each.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn fair(mut self, fair: bool) -> Self {
        self.fair = Some(fair);
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
    /// let options = LockOptions::new().revocable(true);
    /// let mutex = session.mutex("report")?.with_options(options);
    /// let guard = mutex.acquire().await?;
    /// mutex.site().revoke().await?;
    /// guard.revoked().await;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn revocable(mut self, revocable: bool) -> Self {
        self.revocable = Some(revocable);
        self
    }

    /// What happens to an async body that a template or the attribute runs, when the lock is lost.
    /// It is dropped by default.
    ///
    /// ```
    /// use zklock::{LockOptions, OnLost};
    ///
    /// let options = LockOptions::new().on_lost(OnLost::Finish);
    /// assert_eq!(options.on_lost, Some(OnLost::Finish));
    /// ```
    pub const fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = Some(on_lost);
        self
    }

    /// What happens to a body that a template or the attribute runs, when somebody asks that the
    /// lock be let go; by default it goes on. [`OnRevoked::Cancel`] makes the lock [revocable](LockOptions::revocable).
    ///
    /// ```
    /// use zklock::{LockOptions, OnRevoked};
    ///
    /// let options = LockOptions::new().on_revoked(OnRevoked::Cancel);
    /// assert_eq!(options.on_revoked, Some(OnRevoked::Cancel));
    /// ```
    pub const fn on_revoked(mut self, on_revoked: OnRevoked) -> Self {
        self.on_revoked = Some(on_revoked);
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
    /// let options = LockOptions::new().stop_at(StopAt::Suspect);
    /// let template = ZkLockTemplate::default().with_options(options);
    /// let payment = template.execute("payments", || async {
    ///     locks.outage(true);
    ///     std::future::pending::<()>().await // Dropped here.
    /// });
    /// assert!(payment.await.is_err_and(|error| error.is_lost() && error.body() == Some(Body::Dropped)));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn stop_at(mut self, stop_at: StopAt) -> Self {
        self.stop_at = Some(stop_at);
        self
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
    /// let options = LockOptions::new().lock_delay(Duration::from_secs(15));
    /// let ledger = session.mutex("ledger")?.with_options(options);
    /// ledger.acquire().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = Some(delay);
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
    /// let options = LockOptions::new().hold_at_least(Duration::from_secs(30));
    /// let nightly = session.mutex("jobs/nightly")?.with_options(options);
    /// nightly.try_acquire().await?.release().await?;
    /// assert!(nightly.try_acquire().await.is_err_and(|error| error.is_busy()));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn hold_at_least(mut self, hold: Duration) -> Self {
        self.hold_at_least = Some(hold);
        self
    }
}
