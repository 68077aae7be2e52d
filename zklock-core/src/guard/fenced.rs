//! Writes to ZooKeeper that succeed only while a lock is held.

use std::sync::Arc;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::coordinator::node::NodeKind;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::guard::view::{Current, GuardView};
use crate::name::path::ZnodePath;

/// Writes to ZooKeeper that prove that the lock is held. Each is one transaction with a check of
/// the lock's nodes, so that ZooKeeper refuses it once such a node is gone, whatever this process
/// believes. Returned by [`GuardView::fenced`], which every guard has, and
/// [`Current::fenced`].
///
/// Paths are absolute, below the chroot of the connect string.
///
/// ```
/// # zklock::blocking::block_on(async {
/// let guard = zklock::Session::embedded().mutex("leader")?.acquire().await?;
/// guard.fenced().create("/config", b"1").await?;
/// guard.fenced().set("/config", b"2").await?;
/// guard.fenced().delete("/config").await?;
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Fenced<'a>(&'a GuardView);

impl GuardView {
    /// Returns a writer to ZooKeeper whose writes succeed only while this lock is held; for several
    /// locks as one, while all of them are. They must belong to one [`Session`], because one
    /// transaction checks them all; otherwise each write fails with [`ErrorKind::Unsupported`].
    ///
    /// [`Session`]: crate::session::handle::Session
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let guard = session.mutex("leader")?.acquire().await?;
    /// guard.fenced().create("/leader", b"10.0.0.7").await?;
    /// locks.lose();
    /// let late = guard.fenced().set("/leader", b"10.0.0.7").await;
    /// assert!(late.is_err_and(|error| error.is_lost()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn fenced(&self) -> Fenced<'_> {
        Fenced(self)
    }
}

impl Current {
    /// Returns a writer to ZooKeeper whose writes succeed only while the body's lock is held, as
    /// [`GuardView::fenced`]; `None` outside of any body.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let template = zklock::ZkLockTemplate::new(zklock::Session::embedded());
    /// let body = || async {
    ///     let current = zklock::current();
    ///     let Some(fenced) = current.fenced() else { return Ok(()) };
    ///     fenced.create("/leader", b"10.0.0.7").await
    /// };
    /// template.execute_fallible("leader", body).await
    /// # }).unwrap();
    /// ```
    pub fn fenced(&self) -> Option<Fenced<'_>> {
        self.0.as_ref().map(GuardView::fenced)
    }
}

impl Fenced<'_> {
    /// Sets the data of a node.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::ErrorKind;
    ///
    /// let guard = session.mutex("leader")?.acquire().await?;
    /// # guard.fenced().create("/config", b"1").await?;
    /// guard.fenced().set("/config", b"2").await?;
    /// let nowhere = guard.fenced().set("/missing", b"2").await;
    /// assert!(nowhere.is_err_and(|error| error.kind() == ErrorKind::Refused));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`] if the lock is no longer held, also because its guard was released. Nothing
    /// was written, unless the session ended before the reply arrived; in that case the message says
    /// that the write may have been applied.
    ///
    /// [`ErrorKind::HeldTooLong`] if the lock was held for longer than
    /// [`hold_at_most`](crate::base::options::LockOptions::hold_at_most). Nothing was written.
    ///
    /// [`ErrorKind::Unavailable`] if the server did not answer within the session timeout: the write
    /// may have been applied.
    ///
    /// [`ErrorKind::Refused`] if the server refuses the write, for instance because the node does
    /// not exist; [`ErrorKind::Unauthorized`] if the node's ACL denies it, or if the ACL of the
    /// lock's own node denies the check. In these cases nothing was written and the lock is still
    /// held. The message names the node.
    ///
    /// [`ErrorKind::InvalidName`] for a path that is not accepted; [`ErrorKind::Unsupported`] in a
    /// layout whose nodes have no unique names, and for locks of several sessions.
    ///
    /// # Cancel safety
    ///
    /// The request is sent when the future is first polled. If the future is dropped after that,
    /// the write may have been applied, or may be until the lock is released: its node is deleted then, and not
    /// handed on within the process, so that nothing is written while the next caller holds the lock. Of readers that
    /// share a node, that counts when the last of them releases; of a writer that is downgraded, before readers enter
    /// beside it. Calls that are nested in one scope share its grant: what one of them wrote may be applied while
    /// another one has its turn, and a view of one may write until the outermost guard is released.
    pub async fn set(&self, path: &str, data: &[u8]) -> Result<(), LockError> {
        let to = ZnodePath::new(path)?.as_str().to_owned();
        self.write(path, Operation::Set { path: to, data: data.to_vec() }).await
    }

    /// Creates a persistent node.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("leader")?.acquire().await?;
    /// guard.fenced().create("/config", b"1").await?;
    /// assert!(guard.fenced().create("/config", b"1").await.is_err()); // It exists.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`set`](Fenced::set), such as [`ErrorKind::Lost`] and [`ErrorKind::HeldTooLong`]; also
    /// [`ErrorKind::Refused`] if the node exists.
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Fenced::set).
    pub async fn create(&self, path: &str, data: &[u8]) -> Result<(), LockError> {
        let to = ZnodePath::new(path)?.as_str().to_owned();
        let (data, kind) = (data.to_vec(), NodeKind::Persistent);
        self.write(path, Operation::Create { path: to, data, kind }).await
    }

    /// Deletes a node.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("leader")?.acquire().await?;
    /// # guard.fenced().create("/config", b"1").await?;
    /// guard.fenced().delete("/config").await?;
    /// assert!(guard.fenced().delete("/config").await.is_err()); // It does not exist.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`set`](Fenced::set), such as [`ErrorKind::Lost`] and [`ErrorKind::HeldTooLong`]; also
    /// [`ErrorKind::Refused`] if the node has children.
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Fenced::set).
    pub async fn delete(&self, path: &str) -> Result<(), LockError> {
        let to = ZnodePath::new(path)?.as_str().to_owned();
        self.write(path, Operation::Delete { path: to }).await
    }

    async fn write(&self, path: &str, operation: Operation) -> Result<(), LockError> {
        let grant = &self.0.grant;
        let (session, mut leases) = (grant.queue.session().id(), Vec::new());
        for member in self.0.all() {
            let lock = member.queue.lock_name();
            let cannot = |why| Err(LockError::new(ErrorKind::Unsupported, why).on(lock.clone()));
            if member.leases().any(|lease| lease.only().is_some()) {
                return cannot(
                    "in this layout the next holder's node has the same path, so ZooKeeper \
                     cannot check who holds the lock; pass the fencing token to the resource \
                     instead",
                );
            }
            if member.queue.session().id() != session {
                return cannot(
                    "it is held together with a lock of another session, and no transaction \
                     checks the nodes of both; pass the fencing tokens to the resource instead",
                );
            }
            leases.extend(member.leases().map(|lease| (lease.clone(), lock.clone())));
        }
        let nodes: Vec<_> =
            leases.iter().map(|(lease, lock)| (lease.path().clone(), lock.clone())).collect();
        let check = |(path, _): &(Arc<str>, _)| Operation::Check { path: path.to_string() };
        let mut operations: Vec<_> = nodes.iter().map(check).collect();
        operations.push(operation);
        // Counted before it is asked whether the lock is held: whoever gives it back asks whether anything is counted.
        leases.iter().for_each(|(lease, _)| lease.writes());
        let answered = || leases.iter().for_each(|(lease, _)| lease.write_is_answered());
        if !self.0.is_valid() {
            answered();
            return Err(self.0.lost_error());
        }
        let outcome = grant.lease.generation().write(operations).await;
        let is_known = |error: &RequestError| {
            matches!(error, RequestError::Multi { .. }) || error.is_definite()
        };
        if outcome.as_ref().err().is_none_or(is_known) {
            answered();
        }
        outcome.map_err(|error| explain(error, &nodes, path, grant.queue.lock_name()))
    }
}

/// What a failure means, where the nodes of locks were checked before a write: the error of the lock
/// whose node it is about, or else of this one.
fn explain(
    error: RequestError,
    nodes: &[(Arc<str>, Arc<str>)],
    path: &str,
    lock: &Arc<str>,
) -> LockError {
    let at = |node: &str| format!("at {node}");
    let lock = match &error {
        RequestError::Multi { index, .. } => nodes.get(*index).map_or(lock, |(_, lock)| lock),
        _ => lock,
    };
    let lock = lock.clone();
    let (kind, why, at) = match &error {
        RequestError::Multi { index, error } => match (nodes.get(*index), &**error) {
            (Some((node, _)), RequestError::NoNode) => {
                (ErrorKind::Lost, "its node is gone; nothing was written".to_owned(), at(node))
            }
            (Some((node, _)), why) => {
                let why = why.in_short();
                let why = format!("its node could not be checked, and nothing was written: {why}");
                (refusal(error), why, at(node))
            }
            (None, why) => {
                (refusal(error), format!("it was not written: {}", why.in_short()), at(path))
            }
        },
        _ if error.ends_session() => {
            let why = "its session ended; the write may have been applied before";
            (ErrorKind::Lost, why.to_owned(), at(path))
        }
        why if error.is_definite() => {
            (refusal(why), format!("it was not written: {}", why.in_short()), at(path))
        }
        why => {
            let why = format!("the write may have been applied: {}", why.in_short());
            (ErrorKind::Unavailable, why, at(path))
        }
    };
    LockError::new(kind, why).aside(at).because(error).on(lock)
}

fn refusal(error: &RequestError) -> ErrorKind {
    match error {
        RequestError::NoAuth => ErrorKind::Unauthorized,
        _ => ErrorKind::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_of_the_lock_that_is_gone_means_that_nothing_was_written_and_it_is_lost() {
        let nodes: [(Arc<str>, Arc<str>); 2] =
            [("/a/1".into(), "a".into()), ("/a/2".into(), "a".into())];
        let failed = |index, error| RequestError::Multi { index, error: Box::new(error) };
        for (error, kind, says) in [
            (failed(1, RequestError::NoNode), ErrorKind::Lost, "nothing was written"),
            (failed(1, RequestError::NoAuth), ErrorKind::Unauthorized, "/a/2"),
            (failed(0, RequestError::BadVersion), ErrorKind::Refused, "/a/1"),
            (failed(2, RequestError::NoNode), ErrorKind::Refused, "it was not written"),
            (failed(2, RequestError::NoAuth), ErrorKind::Unauthorized, "it was not written"),
            (failed(2, RequestError::NodeExists), ErrorKind::Refused, "already exists"),
            (failed(2, RequestError::QuotaExceeded), ErrorKind::Refused, "quota"),
            (RequestError::NoAuth, ErrorKind::Unauthorized, "it was not written"),
            (RequestError::ConnectionLoss, ErrorKind::Unavailable, "may have been applied"),
            (RequestError::Other("?".into()), ErrorKind::Unavailable, "may have been applied"),
            (RequestError::SessionExpired, ErrorKind::Lost, "may have been applied"),
            (RequestError::Closed, ErrorKind::Lost, "may have been applied"),
        ] {
            let explained = explain(error.clone(), &nodes, "/data", &"a".into());
            assert_eq!(explained.kind(), kind, "{error:?}");
            let (shown, told) = (explained.to_string(), format!("{explained:#}"));
            assert!(told.contains(says) && told.contains("at /"), "{error:?}: {told}");
            assert!(!shown.contains('/'), "{error:?}: {shown}");
        }
    }
}
