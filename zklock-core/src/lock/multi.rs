//! Several locks as one.

use std::fmt;
use std::future::{Future, pending};
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_lite::future::or;

use crate::acquire::lease::Lease;
use crate::base::caller::Caller;
use crate::base::cancel_policy::CancelPolicy;
use crate::base::clock::Instant;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::first::{all, first};
use crate::base::policy::pause_after;
use crate::guard::context::{Frame, inside, inside_sync};
use crate::guard::limit::GuardLimit;
use crate::guard::view::GuardView;
use crate::local::queue::drop_unsaid;
use crate::local::wait::Wait;
use crate::lock::any::{AnyGuard, AnyLock};
use crate::session::generation::Generation;

/// Several locks of any kind as one: acquired in one order, within one deadline, all or none.
///
/// The order is that of the locks' paths, chroots included, and not that in which they are given.
/// So two processes that acquire the same locks never wait for each other. This is true among
/// multi-locks; code that acquires further locks inside must keep to the order itself. Locks with
/// the same path on several ensembles are ordered by the servers of their connect strings (neither
/// order, nor case, nor the port 2181 matters), so all processes that acquire such locks together
/// must give the same servers the same names.
///
/// A wait with a limit ends at most 60 ms later for each member that it reaches after its deadline:
/// ZooKeeper has that long to say who is in the way.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::{AnyLock, MultiLock, Session};
///
/// let session = Session::embedded();
/// let transfer = MultiLock::new([
///     session.mutex("accounts/7")?.into(),
///     session.mutex("accounts/3")?.into(),
///     AnyLock::Read(session.rw_lock("rates")?),
/// ])?;
/// let guard = transfer.acquire().await?;
/// assert!(guard.is_valid());
/// guard.release().await?;
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock {
    /// In the order in which they are acquired.
    members: Vec<AnyLock>,
}

impl MultiLock {
    /// Returns the multi-lock of these members. Members of one type are given as they are, members
    /// of several types as [`AnyLock`].
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::MultiLock;
    ///
    /// let account = |number: u32| session.mutex(&format!("accounts/a{number}"));
    /// let both = MultiLock::new([account(7)?, account(3)?])?;
    /// assert_eq!(both.members().len(), 2);
    /// assert!(MultiLock::new([account(7)?, account(7)?]).is_err());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] if there are no members, or the same lock is given twice.
    pub fn new(members: impl IntoIterator<Item = impl Into<AnyLock>>) -> Result<Self, LockError> {
        let mut members: Vec<_> = members.into_iter().map(Into::into).collect();
        members.sort_by_cached_key(AnyLock::identity);
        if members.is_empty() {
            return Err(no_members());
        }
        let twice = members.windows(2).find(|pair| pair[0].identity() == pair[1].identity());
        if let Some(pair) = twice {
            let why = "it is given twice to one multi-lock, which would wait for itself; give it \
                       once";
            return Err(
                LockError::new(ErrorKind::InvalidOption, why).on(pair[0].name().to_shared())
            );
        }
        Ok(MultiLock { members })
    }

    /// Returns the members in the order in which they are acquired.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// let names: Vec<_> = both.members().iter().map(|member| member.name().as_str()).collect();
    /// assert_eq!(names, ["a", "b"]); // Whatever the order of the arguments.
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn members(&self) -> &[AnyLock] {
        &self.members
    }

    /// Acquires all members, and waits until they are granted, without a limit: the options
    /// `timeout` and `retries` count for [`acquire_tries`](MultiLock::acquire_tries).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// let guard = both.acquire().await?;
    /// assert!(guard.is_valid()); // Both are held.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the member that failed, with its name. Members that were acquired before are
    /// released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the members that were acquired, and leaves no node behind.
    pub async fn acquire(&self) -> Result<MultiGuard, LockError> {
        self.enter(Caller::task(), Wait::Forever, true).await
    }

    /// Acquires all members without waiting for other contenders: asks ZooKeeper once for each.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// let _guard = elsewhere.mutex("b")?.acquire().await?;
    /// let busy = both.try_acquire().await;
    /// assert!(busy.is_err_and(|error| error.is_busy() && error.lock_name() == Some("b")));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](MultiLock::acquire); a busy error names the first member that was not
    /// free.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](MultiLock::acquire).
    pub async fn try_acquire(&self) -> Result<MultiGuard, LockError> {
        self.enter(Caller::task(), self.once()?, true).await
    }

    /// Acquires all members, and waits at most `timeout` for all together, connecting included.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// use std::time::Duration;
    ///
    /// let guard = both.acquire_timeout(Duration::from_secs(2)).await?; // For all together.
    /// assert_eq!(guard.members().len(), 2);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](MultiLock::acquire); [`ErrorKind::InvalidOption`] for a zero timeout.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](MultiLock::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<MultiGuard, LockError> {
        self.enter(Caller::task(), Wait::within(timeout)?, true).await
    }

    /// Acquires all members, with at most `retries` tries of `timeout` each: those of the member
    /// with the longest wait.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// # let short = zklock::LockOptions::new().timeout(std::time::Duration::from_millis(20));
    /// # let [a, b] = [session.mutex("a")?, session.mutex("b")?].map(|lock| lock.with_options(short));
    /// # let both = zklock::MultiLock::new([a, b])?;
    /// let _guard = elsewhere.mutex("b")?.acquire().await?;
    /// assert!(both.acquire_tries().await.is_err_and(|error| error.is_busy()));
    /// assert!(session.site("a")?.contenders().await?.is_empty()); // All or none.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](MultiLock::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](MultiLock::acquire).
    pub async fn acquire_tries(&self) -> Result<MultiGuard, LockError> {
        self.enter(Caller::task(), self.tries(), true).await
    }

    pub(crate) fn once(&self) -> Result<Wait, LockError> {
        let mut longest = Duration::ZERO;
        for member in &self.members {
            if let Wait::Once(limit) = member.once()? {
                longest = longest.max(limit);
            }
        }
        Ok(Wait::Once(longest))
    }

    pub(crate) fn tries(&self) -> Wait {
        let longest = |wait: &Wait| match wait {
            Wait::Tries(timeout, tries) => timeout.saturating_mul(*tries),
            _ => Duration::ZERO,
        };
        self.members
            .iter()
            .map(|member| member.tries())
            .max_by_key(longest)
            .unwrap_or(Wait::Forever)
    }

    /// What ends a body under all members: whatever ends it under one.
    pub(crate) fn cancel_policy(&self) -> CancelPolicy {
        self.members
            .iter()
            .map(|member| member.settings.cancel_policy())
            .reduce(CancelPolicy::and)
            .unwrap_or_default()
    }

    pub(crate) async fn enter(
        &self,
        who: Caller,
        wait: Wait,
        unscoped: bool,
    ) -> Result<MultiGuard, LockError> {
        let clock = self.members.first().ok_or_else(no_members)?.session.clock();
        let begun: Vec<Instant> =
            self.members.iter().map(|member| member.session.clock().now()).collect();
        let mut left = Vec::new();
        loop {
            match self.enter_all(who, wait, unscoped, &begun, &left).await? {
                Ok(guard) => {
                    // One may be lost while another is waited for.
                    // Their time begins when all are held.
                    let limits = || guard.members.iter().filter_map(AnyGuard::own_limit);
                    limits().for_each(GuardLimit::restart);
                    let leased = |member: &AnyGuard| member.grant.is_valid();
                    if guard.members.iter().all(leased) {
                        guard.members.iter().for_each(|member| member.grant.lease.take(true));
                        return Ok(guard);
                    }
                }
                // Once for each: one that lingers, or is read beside another caller, comes back with the
                // same session, and is not let go again and again.
                Err(session) => {
                    left.push(session);
                    clock.sleep(pause_after(1)).await;
                }
            }
        }
    }

    /// Acquires one after the other. The inner error is the ZooKeeper session of members that were let
    /// go so that the next one can be granted: none of those that were `left` before.
    async fn enter_all(
        &self,
        who: Caller,
        wait: Wait,
        unscoped: bool,
        begun: &[Instant],
        left: &[Weak<Generation>],
    ) -> Result<Result<MultiGuard, Weak<Generation>>, LockError> {
        let mut guard = None;
        for (member, &begun) in self.members.iter().zip(begun) {
            // All members have one deadline, and the same tries. Each session has its own clock.
            let wait = wait.begun(begun, member.session.clock().now());
            // On an error, the members that were acquired are released, the last one first.
            let mut entering = pin!(Some(member.enter(who, wait, unscoped)));
            let entered = async {
                match entering.as_mut().as_pin_mut() {
                    Some(entering) => Ok(entering.await),
                    None => pending().await,
                }
            };
            let retired = async {
                match &guard {
                    // A wait with a limit lets go of them in any case.
                    Some(guard) if wait == Wait::Forever => Err(retired(guard, left).await),
                    _ => pending().await,
                }
            };
            let first = or(entered, retired).await;
            let taken = match first {
                Ok(taken) => taken?,
                Err(session) => {
                    drop_unsaid(|| entering.set(None));
                    return Ok(Err(session));
                }
            };
            // Until all are acquired, nobody runs under them. One that a call around holds is in
            // use.
            if taken.grant.holds() == 1 {
                taken.grant.lease.take(false);
            }
            taken.own_limit().into_iter().for_each(GuardLimit::pause);
            guard = Some(MultiGuard::with(guard, taken));
        }
        guard.ok_or_else(no_members).map(Ok)
    }
}

/// Resolves to a retired ZooKeeper session in which members are held. After a refused deletion, the node goes
/// with its session, and the session closes after the last guard in it. That guard may be one of these
/// members, lost or not, while the next member waits for that very node. One that a call around holds stays in
/// any case.
async fn retired(guard: &MultiGuard, left: &[Weak<Generation>]) -> Weak<Generation> {
    // Not by their identifiers: those of two ensembles may be equal.
    let session = |lease: &Lease| Arc::downgrade(lease.generation());
    let was_left = |lease: &&Arc<Lease>| left.iter().any(|one| one.ptr_eq(&session(lease)));
    let own = guard.members.iter().map(|member| &member.grant).filter(|grant| grant.holds() == 1);
    let leases = own.flat_map(|grant| grant.leases()).filter(|lease| !was_left(lease));
    let retired = leases.map(async |lease| {
        let generation = lease.generation();
        generation.until(|| generation.is_retired()).await;
        if generation.is_over() {
            pending::<()>().await;
        }
        session(lease)
    });
    first(retired).await
}

/// Holds all members of a [`MultiLock`]. When it is dropped, it releases them without waiting, the
/// last one first.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
/// # let both = zklock::MultiLock::new([b, a])?;
/// let guard = both.acquire().await?;
/// assert_eq!(session.local_contenders().len(), 2);
/// drop(guard);
/// assert!(session.local_contenders().is_empty());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[must_use = "a guard that is dropped at once releases the lock at once"]
pub struct MultiGuard {
    members: Vec<AnyGuard>,
    view: GuardView,
}

impl MultiGuard {
    /// Adds a member, after those that were acquired before.
    fn with(before: Option<MultiGuard>, member: AnyGuard) -> Self {
        let view = member.view();
        let Some(mut guard) = before else {
            return MultiGuard { members: vec![member], view };
        };
        guard.members.push(member);
        guard.view = view.beside(guard.view());
        guard
    }

    /// Returns the guards of the members, in the order in which they were acquired.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// let guard = both.acquire().await?;
    /// assert_eq!(guard.members()[0].lock_name(), "a");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn members(&self) -> &[AnyGuard] {
        &self.members
    }

    pub(crate) fn frame(&self) -> Option<Arc<Frame>> {
        self.members.iter().fold(None, |outer, member| {
            Some(outer.map_or_else(|| member.frame(), |outer| member.frame_beside(outer)))
        })
    }

    /// Runs `body` in the scope of all members. See
    /// [`Guard::scope`](crate::guard::typed::Guard::scope).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// let guard = both.acquire().await?;
    /// assert!(guard.scope(async { zklock::is_held_in_scope("a") && zklock::is_held_in_scope("b") }).await);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `body`; the guard stays held.
    pub async fn scope<F: Future>(&self, body: F) -> F::Output {
        inside(self.frame(), body).await
    }

    /// Runs a closure in the scope of all members.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("a")?, session.mutex("b")?];
    /// let both = zklock::MultiLock::new(locks)?.acquire().await?;
    /// assert!(both.scope_sync(|| zklock::is_held_in_scope("a") && zklock::is_held_in_scope("b")));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn scope_sync<T>(&self, body: impl FnOnce() -> T) -> T {
        inside_sync(self.frame(), body)
    }

    /// Declares that another task, thread or branch will release this guard. See
    /// [`Guard::detach`](crate::guard::typed::Guard::detach).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// let guard = both.acquire().await?.detach();
    /// std::thread::spawn(move || drop(guard));
    /// assert!(both.acquire().await?.is_valid()); // Waits for the thread's release.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn detach(mut self) -> Self {
        self.members = self.members.drain(..).map(AnyGuard::detach).collect();
        self
    }

    /// Releases all members at the same time, and waits until they are released.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let (b, a) = (session.mutex("b")?, session.mutex("a")?);
    /// # let both = zklock::MultiLock::new([b, a])?;
    /// both.acquire().await?.release().await?;
    /// assert!(session.site("a")?.contenders().await?.is_empty());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of a member; the others are released all the same.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release goes on in the background.
    pub async fn release(mut self) -> Result<(), LockError> {
        // All requests are sent at once, so that no member waits for the reply to another.
        let members = self.members.drain(..).rev();
        let releases = members.map(|member| async { Ok::<_, LockError>(member.release().await) });
        all(releases).await?.into_iter().collect()
    }
}

impl Deref for MultiGuard {
    type Target = GuardView;

    fn deref(&self) -> &GuardView {
        &self.view
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.members).finish()
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        while self.members.pop().is_some() {}
    }
}

fn no_members() -> LockError {
    LockError::new(ErrorKind::InvalidOption, "a multi-lock needs at least one member")
}
