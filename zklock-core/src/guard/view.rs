//! What can be asked of a held lock.

use std::sync::Arc;
use std::time::Duration;

use crate::base::cancel_policy::CancelPolicy;
use crate::base::error::LockError;
use crate::base::first::first;
use crate::base::token::FencingToken;
use crate::guard::context::{self, Frame};
use crate::local::grant::Grant;
use crate::name::lock_name::IntoLockName;

/// What can be asked of a held lock: by a guard, which dereferences to it, by the body that runs
/// under it, and by whoever it is given to. It can be cloned, sent and kept, and releases nothing.
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
/// Of a multi-lock it is a look at all members: valid while all are, named after the last.
#[derive(Clone, Debug)]
pub struct GuardView {
    grant: Arc<Grant>,
    /// Of a multi-lock: the members that were taken before. Of one lock there is nothing more, so
    /// that its view needs no memory of its own.
    before: Option<Arc<GuardView>>,
}

impl GuardView {
    pub(crate) fn new(grant: Arc<Grant>, before: Option<Arc<GuardView>>) -> Self {
        GuardView { grant, before }
    }

    fn of(frame: &Frame) -> Self {
        let before = frame.partner().map(|partner| Arc::new(GuardView::of(partner)));
        GuardView::new(frame.grant().clone(), before)
    }

    /// The grant of the last member.
    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// The grants of all members, the last first.
    fn all(&self) -> impl Iterator<Item = &Arc<Grant>> {
        std::iter::successors(Some(self), |view| view.before.as_deref()).map(|view| &view.grant)
    }

    /// The error of a lock that was lost: of the first member that was.
    pub(crate) fn lost_error(&self) -> LockError {
        let lost = self.all().filter(|grant| !grant.is_valid()).last();
        lost.unwrap_or(&self.grant).lost_error()
    }

    /// The error of a lock that is to be let go: of the first member that is.
    pub(crate) fn revoked_error(&self) -> LockError {
        let revoked = self.all().filter(|grant| grant.is_revoked()).last();
        revoked.unwrap_or(&self.grant).revoked_error()
    }

    /// Resolves when something happens that ends a body.
    pub(crate) async fn ended(&self, cancel_policy: CancelPolicy) {
        if self.before.is_none() {
            return self.grant.ended(cancel_policy).await;
        }
        first(self.all().map(|grant| grant.ended(cancel_policy))).await;
    }

    /// The same, to keep when the guard goes.
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
        self.clone()
    }

    /// The name of the lock.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders/create")?.acquire().await?;
    /// assert_eq!(guard.lock(), "orders/create");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lock(&self) -> &str {
        self.grant.queue().lock_name()
    }

    /// The path of the node behind the guard. Locals that share a node see the same one.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert!(guard.path().starts_with("/zklock/orders/_c_"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn path(&self) -> &str {
        self.grant.lease().path()
    }

    /// The fencing token: greater than that of every grant before. Give it to the resource that
    /// the lock protects, and let that refuse a smaller one than it has seen. A nested guard has
    /// the token of the outermost. Of a multi-lock it is that of the last member.
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
        self.grant.token()
    }

    /// The fencing tokens of all members of a multi-lock, in the order in which they were taken; of
    /// another lock the one.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let names = ["accounts/a7", "accounts/a3"];
    /// let tokens = || async { zklock::current().view().map(|view| view.fencing_tokens()) };
    /// assert_eq!(template.execute_all(&names, tokens).await?.map(|tokens| tokens.len()), Some(2));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn fencing_tokens(&self) -> Vec<FencingToken> {
        let mut tokens: Vec<_> = self.all().map(|grant| grant.token()).collect();
        tokens.reverse();
        tokens
    }

    /// Whether the lock is surely held now, as far as silence goes. Reads the clock; costs some ten
    /// nanoseconds. False for good once it was lost.
    ///
    /// A node that somebody deleted, or a ZooKeeper session that somebody closed, is noticed within
    /// one heartbeat, a sixth of the session timeout; until then it is true, and only the
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
        self.all().all(|grant| grant.is_valid())
    }

    /// How long the lock is surely held from now if nothing more is heard from ZooKeeper. While
    /// the connection is up, heartbeats keep extending it.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    ///
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// // Begin nothing now that takes longer.
    /// assert!(guard.remaining() > Duration::from_secs(1));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn remaining(&self) -> Duration {
        self.all().map(|grant| grant.remaining()).min().unwrap_or_default()
    }

    /// Resolves when the guard is dropped or released, and when the lock is lost: at the latest when
    /// the lease clock runs out, at once when the session is seen to end, within one heartbeat (a
    /// sixth of the session timeout) when somebody deleted the node or closed the ZooKeeper session.
    /// Until then only the [fencing token](GuardView::fencing_token) protects. With
    /// [`StopAt::Suspect`](crate::base::policy::StopAt::Suspect), as soon as the session is suspect.
    ///
    /// The node of a lost guard may be there still, and keeps others out until the guard goes, or
    /// until the task or thread that acquired it acquires the lock anew.
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
    ///     () = guard.lost() => true, // Another may lead from now on.
    /// };
    /// assert!(stopped);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn lost(&self) {
        if self.before.is_none() {
            return self.grant.lost().await;
        }
        first(self.all().map(|grant| grant.lost())).await;
    }

    /// Whether somebody asked that the lock be let go, with
    /// [`Site::revoke`](crate::inspect::Site::revoke) or Curator's `Revoker`. It stays held until
    /// it is released.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let options = zklock::LockOptions::default().revocable(true);
    /// # let mutex = session.mutex("orders")?.with_options(options)?;
    /// let guard = mutex.acquire().await?;
    /// mutex.site().revoke().await?;
    /// # guard.revoked().await;
    /// assert!(guard.is_revoked() && guard.is_valid()); // A wish: it is still held.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_revoked(&self) -> bool {
        self.all().any(|grant| grant.is_revoked())
    }

    /// Resolves when somebody asks that the lock be let go: at once if it is
    /// [revocable](crate::base::options::LockOptions::revocable), else within a heartbeat, a sixth of the
    /// session timeout.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # async fn work() { std::future::pending().await }
    /// # let options = zklock::LockOptions::default().revocable(true);
    /// # let mutex = zklock::Session::embedded().mutex("report")?.with_options(options)?;
    /// # let guard = mutex.acquire().await?;
    /// # mutex.site().revoke().await?;
    /// let stopped = tokio::select! {
    ///     () = work() => false,
    ///     () = guard.revoked() => true, // Others are in a hurry.
    /// };
    /// assert!(stopped);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn revoked(&self) {
        if self.before.is_none() {
            return self.grant.revoked().await;
        }
        first(self.all().map(|grant| grant.revoked())).await;
    }
}

/// The innermost guard whose body the caller is in. See [`current`].
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let guard = session.mutex("orders")?.acquire().await?;
/// let inside = guard.scope(async { zklock::current() }).await;
/// assert_eq!(inside.lock(), Some("orders"));
/// assert!(zklock::current().lock().is_none());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Current(Option<GuardView>);

impl Current {
    /// The view of the guard, `None` outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let view = guard.scope(async { zklock::current().view().cloned() }).await;
    /// assert!(view.is_some_and(|view| view.is_valid()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn view(&self) -> Option<&GuardView> {
        self.0.as_ref()
    }

    /// The name of the lock.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let lock = || async { zklock::current().lock().map(str::to_owned) };
    /// assert_eq!(template.execute("orders", lock).await?.as_deref(), Some("orders"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lock(&self) -> Option<&str> {
        self.0.as_ref().map(GuardView::lock)
    }

    /// The fencing token, for the resource to check.
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

    /// Whether a lock is surely held now; false outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let commit = || async {
    ///     // Directly before it is written for good.
    ///     if zklock::current().is_valid() { Ok("written") } else { Err("lost") }
    /// };
    /// assert_eq!(template.execute("orders", commit).await?, Ok("written"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_valid(&self) -> bool {
        self.0.as_ref().is_some_and(GuardView::is_valid)
    }

    /// How long it is surely held if nothing more is heard; zero outside of any body.
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

    /// Resolves when the lock is lost, and when the body is over; at once outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// use zklock::{OnLost, ZkLockTemplate};
    ///
    /// let template = ZkLockTemplate::default().on_lost(OnLost::Finish);
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
    /// Nothing is lost by dropping the future.
    pub async fn lost(&self) {
        if let Some(view) = &self.0 {
            view.lost().await;
        }
    }

    /// Whether somebody asked that the lock be let go; false outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// zklock::execute("report", || async {
    ///     for _page in 0..10 {
    ///         if zklock::current().is_revoked() {
    ///             break; // Somebody waits who is more important.
    ///         }
    ///     }
    /// }).await?;
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_revoked(&self) -> bool {
        self.0.as_ref().is_some_and(GuardView::is_revoked)
    }

    /// Resolves when somebody asks that the lock be let go, as [`GuardView::revoked`]; never outside
    /// of any body.
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
    /// Nothing is lost by dropping the future.
    pub async fn revoked(&self) {
        match &self.0 {
            Some(view) => view.revoked().await,
            None => std::future::pending().await,
        }
    }
}

/// The guard around the caller: that of the innermost body of an attribute, a template or a scope.
///
/// A body that owns a transaction asks it directly before it commits.
///
/// ```
/// assert!(!zklock::current().is_valid());
/// ```
pub fn current() -> Current {
    Current(context::current().map(|frame| GuardView::of(&frame)))
}

/// Whether the calls around the caller hold the lock `name`, surely and now; for assertions.
///
/// It is the name with its values filled in, and with the namespace if there is one: the lock that
/// `"items/{id}"` names with the id 0 is `items/0`. That some other task holds the lock does not
/// count, and a name that no lock can have is held by nobody.
///
/// ```
/// fn write_order() {
///     debug_assert!(zklock::is_held("createOrder"));
/// }
/// assert!(!zklock::is_held("createOrder"));
/// ```
pub fn is_held(name: impl IntoLockName) -> bool {
    let Ok(name) = name.into_lock_name() else { return false };
    let frame = context::find(|by| &**by.queue().lock_name() == name.as_str());
    frame.is_some_and(|frame| frame.grant().is_valid())
}
