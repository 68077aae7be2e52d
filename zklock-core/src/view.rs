//! A look at the guard from inside the body.

use std::sync::Arc;
use std::time::Duration;

use crate::context::{self, Frame};
use crate::first::first;
use crate::local::possession::Possession;
use crate::token::FencingToken;

/// What a body can know of the guard around it. It releases nothing.
///
/// ```
/// # async fn example() -> Result<(), zklock_core::error::LockError> {
/// use zklock_core::{session::Session, template::ZkLockTemplate};
///
/// let template = ZkLockTemplate::new(Session::embedded());
/// let token = template.execute_with("a", |guard| async move { guard.fencing_token() }).await?;
/// # Ok(())
/// # }
/// ```
///
/// Inside a multi-lock it is a look at all members: valid while all are, named after the last.
#[derive(Clone, Debug)]
pub struct GuardView {
    last: Arc<Possession>,
    others: Vec<Arc<Possession>>,
}

impl GuardView {
    pub(crate) fn new(last: Arc<Possession>, others: Vec<Arc<Possession>>) -> Self {
        GuardView { last, others }
    }

    fn of(frame: &Frame) -> Self {
        GuardView::new(frame.possession().clone(), frame.joined().cloned().collect())
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Possession>> {
        std::iter::once(&self.last).chain(&self.others)
    }

    /// The name of the lock.
    pub fn lock(&self) -> &str {
        self.last.queue().lock_name()
    }

    /// The path of the node behind the guard.
    pub fn path(&self) -> &str {
        self.last.lease().path()
    }

    /// The fencing token, for the resource to check; inside a multi-lock that of the last member.
    pub fn fencing_token(&self) -> FencingToken {
        self.last.token()
    }

    /// The fencing tokens of all members of a multi-lock, in the order in which they were taken; of
    /// another lock the one.
    pub fn fencing_tokens(&self) -> Vec<FencingToken> {
        let mut tokens: Vec<_> = self.all().map(|possession| possession.token()).collect();
        tokens.reverse();
        tokens
    }

    /// Whether the lock is surely held now.
    pub fn is_valid(&self) -> bool {
        self.all().all(|possession| possession.is_valid())
    }

    /// How long the lock is surely held if nothing more is heard.
    pub fn remaining(&self) -> Duration {
        self.all().map(|possession| possession.remaining()).min().unwrap_or_default()
    }

    /// Resolves when the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn lost(&self) {
        first(self.all().map(|possession| possession.lost())).await;
    }

    /// Whether somebody asked that the lock be let go. It stays held until the body is over. See
    /// [`revoked`](GuardView::revoked) for how soon it is known.
    pub fn is_revoked(&self) -> bool {
        self.all().any(|possession| possession.is_revoked())
    }

    /// Resolves when somebody asks that the lock be let go: at once if it is
    /// [revocable](crate::options::LockOptions::revocable), else within a heartbeat, a sixth of the
    /// session timeout.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn revoked(&self) {
        first(self.all().map(|possession| possession.revoked())).await;
    }
}

/// The innermost guard whose body the caller is in. See [`current`].
#[derive(Clone, Debug)]
pub struct Current(Option<GuardView>);

impl Current {
    /// The view of the guard, `None` outside of any body.
    pub fn view(&self) -> Option<&GuardView> {
        self.0.as_ref()
    }

    /// The name of the lock.
    pub fn lock(&self) -> Option<&str> {
        self.0.as_ref().map(GuardView::lock)
    }

    /// The fencing token, for the resource to check.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.0.as_ref().map(GuardView::fencing_token)
    }

    /// Whether a lock is surely held now; false outside of any body.
    pub fn is_valid(&self) -> bool {
        self.0.as_ref().is_some_and(GuardView::is_valid)
    }

    /// How long it is surely held if nothing more is heard; zero outside of any body.
    pub fn remaining(&self) -> Duration {
        self.0.as_ref().map(GuardView::remaining).unwrap_or_default()
    }

    /// Resolves when the lock is lost; at once outside of any body.
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
    pub fn is_revoked(&self) -> bool {
        self.0.as_ref().is_some_and(GuardView::is_revoked)
    }

    /// Resolves when somebody asks that the lock be let go, as [`GuardView::revoked`]; never outside
    /// of any body.
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
/// assert!(!zklock_core::view::current().is_valid());
/// ```
pub fn current() -> Current {
    Current(context::current().map(|frame| GuardView::of(&frame)))
}

/// Whether the calls around the caller hold the lock `name`, surely and now; for assertions.
///
/// It is the name as it is in ZooKeeper: with its values filled in, escaped, and with the namespace
/// if there is one. That some other task holds the lock does not count.
///
/// ```
/// fn write_order() {
///     debug_assert!(zklock_core::view::is_held("createOrder"));
/// }
/// assert!(!zklock_core::view::is_held("createOrder"));
/// ```
pub fn is_held(name: &str) -> bool {
    context::find(|possession| &**possession.queue().lock_name() == name)
        .is_some_and(|frame| frame.possession().is_valid())
}
