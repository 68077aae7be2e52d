//! A look at the guard from inside the body.

use std::sync::Arc;
use std::time::Duration;

use crate::base::first::first;
use crate::base::token::FencingToken;
use crate::guard::context::{self, Frame};
use crate::local::grant::Grant;
use crate::name::lock_name::IntoLockName;

/// What a body can know of the guard around it. It releases nothing.
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
/// Inside a multi-lock it is a look at all members: valid while all are, named after the last.
#[derive(Clone, Debug)]
pub struct GuardView {
    last: Arc<Grant>,
    others: Vec<Arc<Grant>>,
}

impl GuardView {
    pub(crate) fn new(last: Arc<Grant>, others: Vec<Arc<Grant>>) -> Self {
        GuardView { last, others }
    }

    fn of(frame: &Frame) -> Self {
        GuardView::new(frame.grant().clone(), frame.joined().cloned().collect())
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Grant>> {
        std::iter::once(&self.last).chain(&self.others)
    }

    /// The name of the lock.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let lock = template.execute_with("orders", async |guard| guard.lock().to_owned()).await?;
    /// assert_eq!(lock, "orders");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lock(&self) -> &str {
        self.last.queue().lock_name()
    }

    /// The path of the node behind the guard.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let path = template.execute_with("orders", async |guard| guard.path().to_owned()).await?;
    /// assert!(path.starts_with("/zklock/orders/"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn path(&self) -> &str {
        self.last.lease().path()
    }

    /// The fencing token, for the resource to check; inside a multi-lock that of the last member.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// // What a table keeps as `char(33)`, and refuses a smaller one.
    /// let token = template.execute_with("orders", async |guard| guard.fencing_token()).await?;
    /// assert_eq!(token.to_string().len(), 33);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.last.token()
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

    /// Whether the lock is surely held now.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let view = guard.view(); // To ask from another task.
    /// assert!(view.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_valid(&self) -> bool {
        self.all().all(|grant| grant.is_valid())
    }

    /// How long the lock is surely held if nothing more is heard.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let enough = template.execute_with("orders", async |guard| guard.remaining().as_secs() > 1);
    /// assert!(enough.await?);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn remaining(&self) -> Duration {
        self.all().map(|grant| grant.remaining()).min().unwrap_or_default()
    }

    /// Resolves when the lock is lost, and when the guard is dropped or released: from then on the
    /// lock may be another's.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let view = guard.view();
    /// locks.lose();
    /// view.lost().await;
    /// assert!(!view.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn lost(&self) {
        first(self.all().map(|grant| grant.lost())).await;
    }

    /// Whether somebody asked that the lock be let go. It stays held until the body is over. See
    /// [`revoked`](GuardView::revoked) for how soon it is known.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let view = guard.view();
    /// assert!(!view.is_revoked());
    /// locks.revoke("orders")?;
    /// view.revoked().await;
    /// assert!(view.is_revoked());
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
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// let view = guard.view();
    /// locks.revoke("orders")?;
    /// view.revoked().await;
    /// assert!(view.is_valid()); // Held, until the guard lets go.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn revoked(&self) {
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
