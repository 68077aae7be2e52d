//! The questions that a held lock answers.

use std::future::Future;
use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::or;

use crate::base::cancel_policy::CancelPolicy;
use crate::base::chain::drop_chain;
use crate::base::error::LockError;
use crate::base::first::first;
use crate::base::mode::Mode;
use crate::base::token::FencingToken;
use crate::guard::context::{self, Frame};
use crate::guard::limit::HoldLimit;
use crate::local::grant::Grant;
use crate::name::lock_name::IntoLockName;

/// A view of a held lock. A guard dereferences to its view, a body gets one, and [`view`](GuardView::view)
/// makes another one, which can be sent to others and kept. It does not hold the lock: dropping it releases
/// nothing. It is not `Clone`, because a guard dereferences to it: `guard.clone()` would not be a guard.
///
/// ```
/// # zklock::blocking::block_on(async {
/// use zklock::{Session, ZkLockTemplate};
///
/// let template = ZkLockTemplate::new(Session::embedded());
/// let token = template.execute_with("a", |guard| async move { guard.fencing_token() }).await?;
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
///
/// The view of a multi-lock covers all members: it is valid while all of them are, and has the name
/// of the last one.
#[derive(Debug)]
pub struct GuardView {
    /// The grant of the last member.
    pub(crate) grant: Arc<Grant>,
    /// In which mode it is held: a reader inside a writer is a reader.
    mode: Mode,
    /// Until when it may be held, if that is limited.
    pub(crate) limit: Option<Arc<HoldLimit>>,
    /// For a multi-lock: the members that were acquired before. A single lock has none, so that its
    /// view needs no memory of its own.
    before: Option<Arc<Earlier>>,
}

/// The view of a member, and of those before it. The chain is dropped here, so that a single lock has nothing to do.
#[derive(Debug)]
struct Earlier(GuardView);

impl Drop for Earlier {
    fn drop(&mut self) {
        drop_chain(self.0.before.take(), |view| view.0.before.take());
    }
}

impl GuardView {
    pub(crate) fn new(grant: Arc<Grant>, mode: Mode, limit: Option<Arc<HoldLimit>>) -> Self {
        GuardView { grant, mode, limit, before: None }
    }

    /// The view of one more member of a multi-lock.
    pub(crate) fn beside(self, before: GuardView) -> Self {
        GuardView { before: Some(Arc::new(Earlier(before))), ..self }
    }

    /// The view of one member of a call around.
    pub(crate) fn of_one(frame: &Frame) -> Self {
        GuardView::new(frame.own.grant.clone(), frame.own.mode, frame.own.limit.clone())
    }

    fn of(frame: &Frame) -> Self {
        // Of a single lock there are none, which takes no memory.
        let others: Vec<_> = successors(frame.partner(), |other| other.partner()).collect();
        let others = others.into_iter().rev().map(GuardView::of_one);
        let before = others.reduce(|before, view| view.beside(before));
        let view = GuardView::of_one(frame);
        match before {
            Some(before) => view.beside(before),
            None => view,
        }
    }

    /// The members, the last first.
    fn members(&self) -> impl Iterator<Item = &GuardView> {
        successors(Some(self), |view| view.before.as_ref().map(|before| &before.0))
    }

    /// The grants of all members, the last first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Grant>> {
        self.members().map(|view| &view.grant)
    }

    fn is_one_valid(&self) -> bool {
        self.grant.is_valid() && !self.limit.as_ref().is_some_and(|limit| limit.is_over())
    }

    /// Whether the time of a member is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.members().any(|view| view.limit.is_some())
    }

    /// Whether the time of a member is over.
    pub(crate) fn is_over_time(&self) -> bool {
        self.members().any(|view| view.limit.as_ref().is_some_and(|limit| limit.is_over()))
    }

    /// The error for the first member that was lost, released, or held for too long.
    pub(crate) fn lost_error(&self) -> LockError {
        let lost = self.members().filter(|view| !view.is_one_valid()).last().unwrap_or(self);
        let limit = lost.limit.as_ref().filter(|_| lost.grant.is_valid());
        let too_long = limit.and_then(|limit| limit.error());
        too_long.unwrap_or_else(|| lost.grant.lost_error())
    }

    /// The error for the first member that was held for too long, if one was.
    pub(crate) fn over_time_error(&self) -> Option<LockError> {
        self.members().filter_map(|view| view.limit.as_ref()?.error()).last()
    }

    /// Reports that a body ended because of the members that are to be released.
    pub(crate) fn gave_way(&self) {
        self.all().for_each(|grant| grant.gave_way());
    }

    /// The error for a body that ends because of the first member that is to be released.
    pub(crate) fn revoked_error(&self) -> LockError {
        let revoked = self.all().filter(|grant| grant.is_revoked()).last();
        revoked.unwrap_or(&self.grant).revoked_error()
    }

    /// Resolves when `end` does, and when the time of this member is over.
    async fn or_over_time(&self, end: impl Future<Output = ()>) {
        match &self.limit {
            None => end.await,
            Some(limit) => or(end, limit.passed()).await,
        }
    }

    /// Resolves when something happens that ends a body.
    pub(crate) async fn ended(&self, cancel_policy: CancelPolicy) {
        if self.before.is_none() {
            return self.or_over_time(self.grant.ended(cancel_policy)).await;
        }
        first(self.members().map(|view| view.or_over_time(view.grant.ended(cancel_policy)))).await;
    }

    /// Returns another view of the same lock, which may outlive the guard.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let view = guard.view();
    /// let elsewhere = std::thread::spawn(move || view.is_valid());
    /// assert_eq!(elsewhere.join().ok(), Some(true));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn view(&self) -> GuardView {
        let GuardView { grant, mode, limit, before } = self;
        let (grant, limit, before) = (grant.clone(), limit.clone(), before.clone());
        GuardView { grant, mode: *mode, limit, before }
    }

    /// Returns the name of the lock; of a multi-lock, that of the last member.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders/create")?.acquire().await?;
    /// assert_eq!(guard.lock_name(), "orders/create");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lock_name(&self) -> &str {
        self.grant.queue.lock_name()
    }

    /// Returns in which mode the lock is held; of a multi-lock, in which its last member is. A reader inside
    /// a writer is a reader.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.rw_lock("prices")?.read().await?;
    /// assert_eq!(guard.mode(), zklock::Mode::Read);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the path of the node behind the guard: of a multi-lock, that of its last member; of several
    /// permits, that of the first. Tasks of one process that pass the lock to each other share a node, and
    /// so a path. The directory in which the nodes of all contenders are is the lock's
    /// [`path`](crate::lock::info::LockInfo::path).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert!(guard.node_path().starts_with("/zklock/orders/_c_"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn node_path(&self) -> &str {
        self.grant.lease.path()
    }

    /// Returns the fencing token, which is greater than that of every earlier grant that it
    /// excludes. Give it to the resource that the lock protects; the resource refuses a token that
    /// is smaller than one it has seen. A nested guard has the token of the outermost one, a
    /// multi-lock that of its last member: to protect what the others guard, use
    /// [`fencing_tokens`](GuardView::fencing_tokens).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let mutex = session.mutex("orders")?;
    /// let earlier = mutex.acquire().await?.fencing_token();
    /// let later = mutex.acquire().await?.fencing_token();
    /// assert!(later > earlier);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.grant.token
    }

    /// Returns the fencing tokens of all members of a multi-lock, in the order in which they were
    /// acquired; for any other lock, its one token. As one text they
    /// are joined with `,`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let names = ["accounts/a7", "accounts/a3"];
    /// let tokens = || async { zklock::current().fencing_tokens() };
    /// assert_eq!(template.execute_all(&names, tokens).await?.len(), 2);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn fencing_tokens(&self) -> Vec<FencingToken> {
        let mut tokens: Vec<_> = self.all().map(|grant| grant.token).collect();
        tokens.reverse();
        tokens
    }

    /// Returns whether the lock is certainly held now, if ZooKeeper's silence is the only danger.
    /// Reads the clock, which takes about ten nanoseconds. Once false, it stays false. Also false once
    /// the time of [`hold_at_most`](crate::base::options::LockOptions::hold_at_most) is over.
    ///
    /// If somebody deletes the node or closes the ZooKeeper session, this is noticed within one
    /// heartbeat, a sixth of the session timeout. Until then it returns true, and only the
    /// [fencing token](GuardView::fencing_token) protects.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert!(guard.is_valid());
    /// locks.lose(); // As if ZooKeeper had ended the session.
    /// assert!(!guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_valid(&self) -> bool {
        self.members().all(GuardView::is_one_valid)
    }

    /// Returns for how long the lock is certainly held if ZooKeeper sends nothing from now on.
    /// While the connection is up, heartbeats extend this time. Zero once the lock is lost. With
    /// [`hold_at_most`](crate::base::options::LockOptions::hold_at_most), at most until that time is
    /// over.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// // Do not begin work that takes longer.
    /// assert!(guard.remaining() > Duration::from_secs(1));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn remaining(&self) -> Duration {
        let one = |view: &GuardView| {
            let limit = view.limit.as_ref().map_or(Duration::MAX, |limit| limit.remaining());
            view.grant.remaining().min(limit)
        };
        self.members().map(one).min().unwrap_or_default()
    }

    /// Resolves when the lock is lost, when its [time is
    /// over](crate::base::options::LockOptions::hold_at_most), and when the guard is dropped or
    /// released. Where a nested call holds the lock as well, that is the last of these guards. The loss is
    /// noticed
    ///
    /// - at the latest when the lease runs out,
    /// - at once when the session is seen to end,
    /// - within one heartbeat (a sixth of the session timeout) when somebody deletes the node or
    ///   closes the ZooKeeper session; until then only the
    ///   [fencing token](GuardView::fencing_token) protects,
    /// - as soon as the session is suspect, with
    ///   [`StopAt::Suspect`](crate::base::policy::StopAt::Suspect).
    ///
    /// The node of a lost guard may still exist. It keeps others out until the guard is dropped, or
    /// until the task or thread that acquired the guard acquires the lock again. The guard of a
    /// multi-lock is dropped first: its members that were not lost would be waited for.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # async fn lead() { std::future::pending().await }
    /// let guard = session.mutex("leader")?.acquire().await?;
    /// # locks.lose();
    /// let stopped = tokio::select! {
    ///     () = lead() => false,
    ///     () = guard.lost() => true, // Another process may lead from now on.
    /// };
    /// assert!(stopped);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a later call resolves for what happened before it, too.
    pub async fn lost(&self) {
        if self.before.is_none() {
            return self.or_over_time(self.grant.lost()).await;
        }
        first(self.members().map(|view| view.or_over_time(view.grant.lost()))).await;
    }

    /// Returns whether somebody asked for the release of the lock, with
    /// [`Site::revoke`](crate::inspect::Site::revoke) or Curator's `Revoker`. The lock stays held
    /// until its holder releases it.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let options = zklock::LockOptions::new().revocable(true);
    /// # let mutex = session.mutex("orders")?.with_options(options);
    /// let guard = mutex.acquire().await?;
    /// mutex.site().revoke().await?;
    /// # guard.revoked().await;
    /// assert!(guard.is_revoked() && guard.is_valid()); // Asked, but still held.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_revoked(&self) -> bool {
        self.all().any(|grant| grant.is_revoked())
    }

    /// Resolves when somebody asks for the release of the lock: at once if the lock is
    /// [revocable](crate::base::options::LockOptions::revocable), otherwise within a heartbeat, a
    /// sixth of the session timeout.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # async fn work() { std::future::pending().await }
    /// # let options = zklock::LockOptions::new().revocable(true);
    /// # let mutex = zklock::Session::embedded().mutex("report")?.with_options(options);
    /// # let guard = mutex.acquire().await?;
    /// # mutex.site().revoke().await?;
    /// let stopped = tokio::select! {
    ///     () = work() => false,
    ///     () = guard.revoked() => true, // Somebody else needs the lock.
    /// };
    /// assert!(stopped);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a later call resolves for what happened before it, too.
    pub async fn revoked(&self) {
        if self.before.is_none() {
            return self.grant.revoked().await;
        }
        first(self.all().map(|grant| grant.revoked())).await;
    }
}

/// The innermost guard around the caller. Returned by [`current`].
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let guard = session.mutex("orders")?.acquire().await?;
/// let inside = guard.scope(async { zklock::current() }).await;
/// assert_eq!(inside.lock_name(), Some("orders"));
/// assert!(zklock::current().lock_name().is_none());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Current(pub(super) Option<GuardView>);

impl Clone for Current {
    fn clone(&self) -> Self {
        Current(self.view())
    }
}

impl Current {
    /// Returns a view of the lock, which may outlive the guard, as [`GuardView::view`]; `None` outside of any
    /// body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let view = guard.scope(async { zklock::current().view() }).await;
    /// assert!(view.is_some_and(|view| view.is_valid()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn view(&self) -> Option<GuardView> {
        self.0.as_ref().map(GuardView::view)
    }

    /// Returns the name of the lock, or `None` outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let lock = || async { zklock::current().lock_name().map(str::to_owned) };
    /// assert_eq!(template.execute("orders", lock).await?.as_deref(), Some("orders"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lock_name(&self) -> Option<&str> {
        self.0.as_ref().map(GuardView::lock_name)
    }

    /// Returns in which mode the lock is held, as [`GuardView::mode`], or `None` outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let mode = || async { zklock::current().mode() };
    /// assert_eq!(template.write().execute("prices", mode).await?, Some(zklock::Mode::Write));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn mode(&self) -> Option<Mode> {
        self.0.as_ref().map(GuardView::mode)
    }

    /// Returns the fencing token for the resource to check, or `None` outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let token = || async { zklock::current().fencing_token() };
    /// let token = template.execute("orders", token).await?;
    /// assert!(token.is_some_and(|token| token.czxid() > 0));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.0.as_ref().map(GuardView::fencing_token)
    }

    /// Returns the fencing tokens of all locks of the body, as [`GuardView::fencing_tokens`]; none
    /// outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let tokens = || async { zklock::current().fencing_tokens() };
    /// let tokens = template.execute_all(&["accounts/a3", "accounts/a7"], tokens).await?;
    /// assert_eq!(tokens.len(), 2); // In the order of the names.
    /// assert!(zklock::current().fencing_tokens().is_empty());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn fencing_tokens(&self) -> Vec<FencingToken> {
        self.0.as_ref().map(GuardView::fencing_tokens).unwrap_or_default()
    }

    /// Returns whether the lock is certainly held now, as [`GuardView::is_valid`]; false outside of
    /// any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let commit = || async {
    ///     // Check directly before the final step.
    ///     if zklock::current().is_valid() { Ok("written") } else { Err("lost") }
    /// };
    /// assert_eq!(template.execute("orders", commit).await?, Ok("written"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_valid(&self) -> bool {
        self.0.as_ref().is_some_and(GuardView::is_valid)
    }

    /// Returns for how long the lock is certainly held if ZooKeeper sends nothing from now on; zero
    /// outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let enough = || async { zklock::current().remaining().as_secs() > 1 };
    /// assert!(template.execute("orders", enough).await?);
    /// assert!(zklock::current().remaining().is_zero());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn remaining(&self) -> Duration {
        self.0.as_ref().map(GuardView::remaining).unwrap_or_default()
    }

    /// Resolves when the lock is lost, as [`GuardView::lost`], and when the body ends, or the outermost
    /// one of nested bodies under one lock; at once outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// use zklock::{LockOptions, OnLost, ZkLockTemplate};
    ///
    /// let finish = LockOptions::new().on_lost(OnLost::Finish);
    /// let template = ZkLockTemplate::default().with_options(finish);
    /// let body = || async {
    ///     # locks.lose();
    ///     zklock::current().lost().await; // Time to clean up.
    /// };
    /// assert!(template.execute("orders", body).await.is_err_and(|error| error.is_lost()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a later call resolves for what happened before it, too.
    pub async fn lost(&self) {
        if let Some(view) = &self.0 {
            view.lost().await;
        }
    }

    /// Returns whether somebody asked for the release of the lock; false outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// zklock::execute("report", || async {
    ///     for _page in 0..10 {
    ///         if zklock::current().is_revoked() {
    ///             break; // Somebody more important waits.
    ///         }
    ///     }
    /// }).await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_revoked(&self) -> bool {
        self.0.as_ref().is_some_and(GuardView::is_revoked)
    }

    /// Resolves when somebody asks for the release of the lock, as [`GuardView::revoked`]; never
    /// outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// zklock::execute("report", || async {
    ///     locks.revoke("report").unwrap();
    ///     zklock::current().revoked().await; // In a `select!` with the work.
    /// }).await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a later call resolves for what happened before it, too.
    pub async fn revoked(&self) {
        match &self.0 {
            Some(view) => view.revoked().await,
            None => std::future::pending().await,
        }
    }
}

/// Returns the guard around the caller: that of the innermost annotated function, template call or
/// [`scope`](crate::guard::typed::Guard::scope).
///
/// A body that owns a transaction checks it directly before its commit.
///
/// ```
/// assert!(!zklock::current().is_valid());
/// ```
pub fn current() -> Current {
    Current(context::current().map(|frame| GuardView::of(&frame)))
}

/// Returns whether the caller runs in a body that holds the lock `name`, and the lock is certainly
/// held now; for assertions.
///
/// `name` is the complete name, with the namespace and with all values filled in and escaped, as
/// `lock_name!` does: the lock that `"items/{id}"` names for the id 0 is `items/0`. A lock that another task holds does not count.
/// For a name that is not accepted, the result is false. Who holds the lock in ZooKeeper,
/// [`Site::contenders`](crate::inspect::Site::contenders) tells.
///
/// The mode and the session are not compared: it is also true for a reader, for one permit of a semaphore,
/// and for a lock of another session. To assert that the caller may write, use
/// [`RwLock::is_write_held_in_scope`](crate::lock::RwLock::is_write_held_in_scope).
///
/// ```
/// fn write_order() {
///     debug_assert!(zklock::is_held_in_scope("createOrder"));
/// }
/// assert!(!zklock::is_held_in_scope("createOrder"));
/// ```
pub fn is_held_in_scope(name: impl IntoLockName) -> bool {
    let Ok(name) = name.into_lock_name() else { return false };
    let frame = context::find(|by| &**by.queue.lock_name() == name.as_str());
    frame.is_some_and(|frame| GuardView::of_one(&frame).is_valid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::handle::Session;

    #[tokio::test]
    async fn a_body_knows_in_which_mode_it_holds_a_lock_and_a_name_alone_does_not() {
        let lock = Session::embedded().rw_lock("a").unwrap();
        let held = || (is_held_in_scope("a"), lock.is_write_held_in_scope(), current().mode());
        assert_eq!(held(), (false, false, None));
        let writing = lock.write().await.unwrap();
        assert_eq!(writing.scope_sync(held), (true, true, Some(Mode::Write)));
        let reading = writing.scope(lock.read()).await.unwrap();
        assert_eq!(reading.scope_sync(held), (true, false, Some(Mode::Read)));
        assert_eq!((reading.mode(), writing.view().mode()), (Mode::Read, Mode::Write));
        drop(reading);
        let reading = writing.downgrade().await.unwrap();
        assert_eq!(reading.scope_sync(held), (true, false, Some(Mode::Read)));
    }

    #[tokio::test]
    async fn members_are_looked_through_and_left_one_after_the_other_however_many_there_are() {
        let guard = Session::embedded().mutex("a").unwrap().acquire().await.unwrap();
        let mut frame = guard.frame();
        let mut view = guard.view();
        for _ in 1..200_000 {
            frame = guard.frame_beside(frame);
            view = guard.view().beside(view);
        }
        // The thread of a test has two MiB.
        let of_frame = GuardView::of(&frame);
        assert_eq!((of_frame.members().count(), view.members().count()), (200_000, 200_000));
        let another = view.view();
        drop((of_frame, view));
        assert!(another.is_valid());
    }
}
