//! The options of a lock: overrides, each of which may be set or not.

use std::time::Duration;

use crate::base::cancel_policy::{OnLost, OnRevoked};
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::base::label::Label;
use crate::base::policy::{Handoffs, Requeue, StopAt};

/// The options of a lock, as overrides of the defaults. Each option is taken from the first of
/// these that sets it: the arguments of an attribute, `with_options` of a lock or a template, the
/// session's defaults, the library's defaults.
///
/// Each option is a field, which is `None` until the setter of the same name is called. If a value
/// is not accepted, or if options contradict each other, an acquire fails with
/// [`InvalidOption`](crate::base::error_kind::ErrorKind::InvalidOption).
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
///
#[doc = include_str!("../../lock-options.md")]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct LockOptions {
    /// The longest time of [one try](LockOptions::timeout).
    pub timeout: Option<Duration>,
    /// The [number of tries](LockOptions::retries).
    pub retries: Option<u32>,
    /// Whether it may be [acquired again](LockOptions::reentrant) inside its own scope.
    pub reentrant: Option<bool>,
    /// How often to queue up again when its [node was deleted](LockOptions::requeue) during an
    /// acquire.
    pub requeue: Option<Requeue>,
    /// The limit of [handoffs](LockOptions::handoffs).
    pub handoffs: Option<Handoffs>,
    /// How long its [node is kept](LockOptions::linger) after the last release.
    pub linger: Option<Duration>,
    /// Whether every waiter has [its own node](LockOptions::fair).
    pub fair: Option<bool>,
    /// Whether a holder learns [at once](LockOptions::revocable) that it is asked to release.
    pub revocable: Option<bool>,
    /// What happens to a body when the lock is [lost](LockOptions::on_lost).
    pub on_lost: Option<OnLost>,
    /// What happens to a body when somebody asks for the [release](LockOptions::on_revoked).
    pub on_revoked: Option<OnRevoked>,
    /// When a guard [counts as lost](LockOptions::stop_at).
    pub stop_at: Option<StopAt>,
    /// How long the lock is [unavailable](LockOptions::lock_delay) after a holder was lost.
    pub lock_delay: Option<Duration>,
    /// How long it is [kept at least](LockOptions::hold_at_least).
    pub hold_at_least: Option<Duration>,
    /// How long it is [held at most](LockOptions::hold_at_most).
    pub hold_at_most: Option<Duration>,
    /// From when on a [wait is logged](LockOptions::warn_waiting).
    pub warn_waiting: Option<Duration>,
    /// From when on a [hold is logged](LockOptions::warn_holding).
    pub warn_holding: Option<Duration>,
    /// What it is acquired [for](LockOptions::label).
    pub label: Option<Label>,
}

impl LockOptions {
    /// Returns options of which none is set.
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
        LockOptions::UNSET
    }

    /// Sets the longest time of one try. An annotated function, a template and
    /// [`acquire_tries`](crate::lock::Mutex::acquire_tries) make at most `retries` tries, so they wait at
    /// most `timeout × retries` (2 × 2 s = 4 s by default); `try_acquire` makes one. The methods `acquire`,
    /// `read` and `write` of a lock wait without a limit, whatever this option says.
    ///
    /// The time for which the machine is suspended counts, but the timers of the system stand still
    /// meanwhile: a call that waits then may end late by up to that time, and not early. How long a
    /// lock is held does not depend on it: guards and grants read a clock that includes that time.
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

    /// Sets the total number of tries: with 1, a call makes one try, which waits for up to
    /// [`timeout`](LockOptions::timeout).
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

    /// Sets whether the lock may be acquired again inside its own scope; by default it may.
    /// Otherwise such an acquire fails at once with [`Deadlock`](ErrorKind::Deadlock).
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

    /// Sets how often an acquire queues up again after others deleted its node or the lock's
    /// directory: 20 times by default.
    ///
    /// ```
    /// use zklock::{LockOptions, Requeue};
    ///
    /// // Fails at once when a script deletes the node in the queue.
    /// let options = LockOptions::new().requeue(Requeue::NEVER);
    /// assert_eq!(options.requeue, Some(Requeue::NEVER));
    /// ```
    pub const fn requeue(mut self, requeue: Requeue) -> Self {
        self.requeue = Some(requeue);
        self
    }

    /// Sets how many times, and for how long, tasks of one process may pass the lock to each other
    /// before the process checks whether another one waits: by default 10,000 times, or for 10 ms.
    ///
    /// ```
    /// use zklock::{Handoffs, LockOptions};
    ///
    /// let bound = Handoffs::new().most(100);
    /// assert_eq!(LockOptions::new().handoffs(bound).handoffs, Some(bound));
    /// ```
    pub const fn handoffs(mut self, bound: Handoffs) -> Self {
        self.handoffs = Some(bound);
        self
    }

    /// Sets for how long the node is kept after the last release, or until somebody queues behind
    /// it: in this time, the next acquire in this process sends no request. Zero, the default,
    /// turns it off.
    ///
    /// The node is also deleted if another caller of this process waits for the lock meanwhile, and
    /// ZooKeeper does not say within a sixth of the session timeout whether somebody queues behind the
    /// node.
    ///
    /// A node does not linger in a ZooKeeper session that is no longer used because the server refused to
    /// delete another of its nodes: that session ends with its last node. Nor does a node linger that
    /// was created for callers without this option, because it does not tell others that it may be idle; nor while its
    /// connection is down, nor where the watches of its connection are used up (96 KiB of paths).
    ///
    /// It has two costs. If a process dies while its node lingers, others wait for up to the session
    /// timeout and two ticks of the server (14 s by default), and then for the
    /// [`lock_delay`](LockOptions::lock_delay), if there is one. And a caller in another process that only tries finds a node that nobody uses: zklock waits at most 100 ms for
    /// such a node to be deleted, while Curator and kazoo do not wait. So a lock with this option refuses `try_acquire`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::new().linger(Duration::from_secs(5));
    /// let mutex = session.mutex("orders")?.with_options(options);
    /// let first = mutex.acquire().await?.node_path().to_owned();
    /// assert_eq!(mutex.acquire().await?.node_path(), first); // The same node.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
        self
    }

    /// Sets whether every waiting task has its own node: then the lock is strictly first come,
    /// first served among all processes, at two commits per grant. It is not passed on in memory,
    /// and together with [`linger`](LockOptions::linger) it is not accepted. In the layout
    /// [`OneNode`](crate::layout::plain::OneNode) a lock has only one node,
    /// which all waiters try to create; there, the order applies to each process alone. In a
    /// [semaphore](crate::lock::Semaphore), a waiter for several permits waits for all of them, and no
    /// later waiter overtakes it meanwhile, not even one for fewer permits.
    ///
    /// A waiter loses its place and queues up again if its ZooKeeper session ends, or is replaced: because a
    /// deletion was refused, or because the server differs from its leader. The first who waits for permits also
    /// loses it after a silence that is longer than a lease.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockOptions;
    ///
    /// let options = LockOptions::new().fair(true);
    /// let mutex = session.mutex("orders")?.with_options(options);
    /// let first = mutex.acquire().await?.node_path().to_owned();
    /// assert_ne!(mutex.acquire().await?.node_path(), first); // A new node.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn fair(mut self, fair: bool) -> Self {
        self.fair = Some(fair);
        self
    }

    /// Sets whether the holder learns at once that somebody asks for the release, which costs one
    /// more read per grant. Otherwise it learns this within a heartbeat, a sixth of the session
    /// timeout.
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

    /// Sets what happens to an async body of a template or an annotated function when the lock is
    /// lost. By default it is dropped at its next await.
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

    /// Sets what happens to a body of a template or an annotated function when somebody asks for
    /// the release of the lock. By default it goes on. [`OnRevoked::Cancel`] makes the lock
    /// [revocable](LockOptions::revocable).
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

    /// Sets when a guard counts as lost if the connection to ZooKeeper fails. With
    /// [`StopAt::Suspect`] this is as soon as the session is not connected, or no write was
    /// answered for a third of the session timeout; the guard stays lost if the connection comes
    /// back. `is_valid()` is then false, `lost()` resolves, and a body ends as
    /// [`on_lost`](LockOptions::on_lost) says. Every short outage then costs the guard.
    ///
    /// The node is deleted when the guard is released or dropped, and until then others wait. The
    /// lock is not passed to the next task, and does not linger. Tasks of one process share a node
    /// only with those that have the same value; a nested guard uses that of the outermost one.
    /// With `Suspect`, a lock is granted only if a write was answered within the last sixth of the
    /// session timeout.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// use zklock::{Body, LockOptions, StopAt, ZkLockTemplate};
    ///
    /// let options = LockOptions::new().stop_at(StopAt::Suspect);
    /// let template = ZkLockTemplate::default().with_options(options);
    /// let payment = template.execute("payments", || async {
    ///     locks.begin_outage();
    ///     std::future::pending::<()>().await // The body is dropped here.
    /// });
    /// assert!(payment.await.is_err_and(|error| error.is_lost() && error.body() == Some(Body::Dropped)));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn stop_at(mut self, stop_at: StopAt) -> Self {
        self.stop_at = Some(stop_at);
        self
    }

    /// Sets for how long the lock is unavailable after its holder was lost: the holder crashed, or
    /// its ZooKeeper session expired. Requests that it had sent elsewhere then have time to arrive,
    /// or to time out, before the next holder begins. After a release there is no delay. Zero, the
    /// default, turns it off.
    ///
    /// The holder writes the delay as a mark into the data of the lock's directory when it is
    /// granted the lock, and removes it in the transaction that deletes its node. This costs one
    /// read and one commit for each grant by ZooKeeper; handoffs in memory cost nothing more. A
    /// contender that is first in the queue and finds the mark of another holder waits for the
    /// delay in that mark, from this moment on, because nobody can know when the holder was lost.
    /// An acquire whose time ends before is busy, and its error says until when the lock is
    /// unavailable; the delay continues meanwhile.
    ///
    /// All users of the lock should set the option: locks without it do not look for marks, nor do
    /// Curator and kazoo. A guard that is still held when its session is closed counts as lost.
    /// Readers wait after a lost writer, and nobody waits after a lost reader. The directory is
    /// created as a persistent node; if it exists as a container, ZooKeeper may remove it with the
    /// mark once it is empty.
    ///
    /// In layouts without unique node names, with directories that are removed, or with several
    /// holders, an acquire fails with [`Unsupported`](ErrorKind::Unsupported). It also does so if
    /// the directory contains data of somebody else, which are never overwritten.
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

    /// Sets for how long the lock is kept from the grant, even if it is released earlier: for jobs
    /// that several machines start at the same time, by clocks that differ slightly. The caller is
    /// not delayed. Zero, the default, turns it off.
    ///
    /// Until the end of this time the node stays in the queue, so that everybody else waits or is
    /// busy, also the tasks of this process: the lock is not passed on in memory, and every acquire
    /// has its own node. The end is also written into the data of the lock's directory, by
    /// ZooKeeper's clock, when the lock is granted. So it holds even if the process exits or its
    /// session is closed. [`Session::close`](crate::session::Session::close) and `drain` do not
    /// wait for it.
    ///
    /// If the node is deleted before the end, the next caller is still busy (code `1011`) until
    /// then, and the error says until when; an acquire that may wait longer gets the lock after the
    /// end. A job that must not run twice uses `try_acquire`, or a timeout shorter than this time.
    /// Only locks with this option or a [delay](LockOptions::lock_delay) look for the mark; Curator
    /// and kazoo do not. The cost is one read and one commit per grant.
    ///
    /// It is for mutexes. The layouts in which [`lock_delay`](LockOptions::lock_delay) is unsupported
    /// do not support it either. The directory is created as a persistent node; an existing one that
    /// may be a container is replaced when nobody else is in it.
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

    /// Sets the longest time for which a call holds the lock, from its grant. Default: no limit,
    /// which is [`Duration::MAX`].
    ///
    /// When it is over, the guard is no longer [valid](crate::guard::view::GuardView::is_valid), this
    /// is logged, the observers receive
    /// [`HeldTooLong`](crate::observe::observer::Event::HeldTooLong), and the caller gets the error
    /// [`HeldTooLong`](ErrorKind::HeldTooLong), which says what happened to the body. An async body
    /// is dropped at its next await, and the lock is released. Code that nothing can stop keeps the
    /// lock: a plain body until it returns, and a guard that was acquired without a body until it is
    /// dropped. So nobody else enters beside it.
    ///
    /// The time of a nested call begins with that call, and the limits of the calls around it apply
    /// as well. The time of several locks as one begins when all are held.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::{Body, LockOptions, ZkLockTemplate};
    ///
    /// let short = LockOptions::new().hold_at_most(Duration::from_millis(20));
    /// let template = ZkLockTemplate::new(session.clone()).with_options(short);
    /// let endless = template.execute("report", || std::future::pending::<()>()).await;
    /// let error = endless.unwrap_err();
    /// // `Dropped`, or `NotStarted` if the machine was too slow to begin within 20 ms.
    /// assert!(error.is_held_too_long() && error.body() != Some(Body::Finished));
    /// session.mutex("report")?.acquire().await?.release().await?; // it is free again
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn hold_at_most(mut self, hold: Duration) -> Self {
        self.hold_at_most = Some(hold);
        self
    }

    /// Sets the time after which a wait is logged as a warning, once for each wait, with the lock, the
    /// caller and its label. A useful time is the session timeout and two ticks of the server
    /// (14 s by default): by then the node of a crashed holder is gone, so somebody holds on.
    /// `Duration::MAX`, the default, logs nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::{LockOptions, Session};
    ///
    /// let session = Session::embedded();
    /// let impatient = LockOptions::new().warn_waiting(Duration::from_secs(15));
    /// let mutex = session.mutex("orders")?.with_options(impatient);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub const fn warn_waiting(mut self, longer_than: Duration) -> Self {
        self.warn_waiting = Some(longer_than);
        self
    }

    /// Sets the time after which a hold is logged as a warning, once for each hold, as
    /// [`warn_waiting`](LockOptions::warn_waiting) does for waits. Nothing else happens:
    /// [`hold_at_most`](LockOptions::hold_at_most) ends the hold.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zklock::{LockOptions, Session};
    ///
    /// let session = Session::embedded();
    /// let short = LockOptions::new().warn_holding(Duration::from_secs(60));
    /// let mutex = session.mutex("orders")?.with_options(short);
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub const fn warn_holding(mut self, longer_than: Duration) -> Self {
        self.warn_holding = Some(longer_than);
        self
    }

    /// Sets what the lock is acquired for, for people who look at it: a request's id, a job's name.
    /// Default: nothing.
    ///
    /// The label is in [`Session::local_contenders`](crate::session::Session::local_contenders), in the error of a caller
    /// that finds the lock busy, and in the lock's node in ZooKeeper, so that other processes see it
    /// in [`contenders`](crate::inspect::Site::contenders). If tasks of one process pass the lock to
    /// each other, the node names the label of the present holder within a heartbeat. A [`Label`] has
    /// at most 78 bytes, and an empty one is none.
    ///
    /// Nodes of layouts whose data have another format, or whose node names are not unique (such as
    /// [`OneNode`](crate::layout::OneNode) and [`Numbered`](crate::layout::Numbered)), have no
    /// label.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockOptions;
    ///
    /// let import = LockOptions::new().label("import of 7 May");
    /// let guard = session.mutex("orders")?.with_options(import).acquire().await?;
    /// assert_eq!(session.local_contenders()[0].label.as_deref(), Some("import of 7 May"));
    /// let holder = &session.site("orders")?.contenders().await?[0];
    /// assert_eq!(holder.owner.label.as_deref(), Some("import of 7 May"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub const fn label(mut self, label: &str) -> Self {
        self.label = Some(Label::new(label));
        self
    }
}
