//! What ends a body early.

/// What happens to an async body when the lock is lost while it runs.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let locks = zklock::testing::TestLocks::install();
/// # let session = locks.session().clone();
/// use zklock::{Body, LockOptions, OnLost, ZkLockTemplate};
///
/// let finish = LockOptions::new().on_lost(OnLost::Finish);
/// let template = ZkLockTemplate::default().with_options(finish);
/// let outcome = template.execute("orders", || async { locks.lose() }).await;
/// assert!(outcome.is_err_and(|error| error.body() == Some(Body::Finished)));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped at its next await.
    #[default]
    Cancel,
    /// The body goes on to its end.
    Finish,
}

/// What happens to a body when somebody asks for the release of its lock, with
/// [`Site::revoke`](crate::inspect::Site::revoke) or Curator's `Revoker`.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let locks = zklock::testing::TestLocks::install();
/// use zklock::{Body, LockOptions, OnRevoked, ZkLockTemplate};
///
/// let options = LockOptions::new().on_revoked(OnRevoked::Cancel);
/// let template = ZkLockTemplate::default().with_options(options);
/// let work = template.execute("report", || async {
///     locks.revoke("report").unwrap();
///     std::future::pending::<()>().await
/// });
/// assert!(work.await.is_err_and(|error| error.is_revoked() && error.body() == Some(Body::Dropped)));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnRevoked {
    /// An async body is dropped at its next await, and a body that has not begun does not begin. A
    /// plain body that has begun finishes; it can check
    /// [`current().is_revoked()`](crate::guard::view::Current::is_revoked).
    Cancel,
    /// The body goes on.
    #[default]
    Ignore,
}

/// What ends a body early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CancelPolicy {
    /// What happens when the lock is lost.
    pub lost: OnLost,
    /// What happens when somebody asks for the release of the lock.
    pub revoked: OnRevoked,
}

impl CancelPolicy {
    /// Whether anything ends the body.
    pub fn any(self) -> bool {
        self.lost == OnLost::Cancel || self.revoked == OnRevoked::Cancel
    }

    /// Combines two policies: whatever ends one of them ends the whole.
    pub fn and(self, other: CancelPolicy) -> CancelPolicy {
        let cancels = self.lost == OnLost::Cancel || other.lost == OnLost::Cancel;
        let gives_way = self.revoked == OnRevoked::Cancel || other.revoked == OnRevoked::Cancel;
        CancelPolicy {
            lost: if cancels { OnLost::Cancel } else { OnLost::Finish },
            revoked: if gives_way { OnRevoked::Cancel } else { OnRevoked::Ignore },
        }
    }
}
