//! Writes to ZooKeeper that succeed only while a lock is held.

use std::sync::Arc;

use crate::coordinator::{NodeKind, Operation, RequestError};
use crate::error::{ErrorKind, LockError};
use crate::guard::Guard;
use crate::guard::kind::Kind;
use crate::local::possession::Possession;
use crate::path::ZnodePath;

/// Writes that carry the proof that the lock is held: each is one transaction with a check of the
/// lock's nodes, so ZooKeeper itself refuses it once a node is gone, whatever this process
/// believes. From [`Guard::fenced`].
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
pub struct Fenced<'a>(&'a Arc<Possession>);

impl<K: Kind> Guard<K> {
    /// Writes to ZooKeeper that succeed only while this lock is held.
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
        Fenced(self.possession())
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
    /// [`ErrorKind::Lost`] if the lock is not held any more; then nothing was written.
    /// [`ErrorKind::Unavailable`] if the server did not answer: it may have been written.
    /// [`ErrorKind::Refused`] if the server refuses the write, because there is no such node, say.
    /// [`ErrorKind::InvalidName`] for a bad path; [`ErrorKind::Unsupported`] in a layout whose nodes
    /// have no name of their own.
    ///
    /// # Cancel safety
    ///
    /// The request is sent when the future is first polled; dropped after that, it may have been
    /// written.
    pub async fn set(&self, path: &str, data: &[u8]) -> Result<(), LockError> {
        let path = ZnodePath::new(path)?.as_str().to_owned();
        self.write(Operation::Set { path, data: data.to_vec() }).await
    }

    /// Creates a persistent node.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("leader")?.acquire().await?;
    /// guard.fenced().create("/config", b"1").await?;
    /// assert!(guard.fenced().create("/config", b"1").await.is_err()); // It is there.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set`](Fenced::set); refused also if there is such a node.
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Fenced::set).
    pub async fn create(&self, path: &str, data: &[u8]) -> Result<(), LockError> {
        let path = ZnodePath::new(path)?.as_str().to_owned();
        let (data, kind) = (data.to_vec(), NodeKind::Persistent);
        self.write(Operation::Create { path, data, kind }).await
    }

    /// Deletes a node.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let guard = session.mutex("leader")?.acquire().await?;
    /// # guard.fenced().create("/config", b"1").await?;
    /// guard.fenced().delete("/config").await?;
    /// assert!(guard.fenced().delete("/config").await.is_err()); // It is gone.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set`](Fenced::set); refused also if it has children.
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Fenced::set).
    pub async fn delete(&self, path: &str) -> Result<(), LockError> {
        let path = ZnodePath::new(path)?.as_str().to_owned();
        self.write(Operation::Delete { path }).await
    }

    async fn write(&self, operation: Operation) -> Result<(), LockError> {
        if !self.0.is_valid() {
            return Err(self.0.lost_error());
        }
        if self.0.leases().any(|lease| lease.is_recurring()) {
            let why = "in this layout the node of the lock may be another holder's, which ZooKeeper \
                       cannot check; give the fencing token to the resource";
            return Err(LockError::new(ErrorKind::Unsupported, why).on(self
                .0
                .queue()
                .lock_name()
                .clone()));
        }
        let check = |path: &Arc<str>| Operation::Check { path: path.to_string() };
        let mut operations: Vec<_> = self.0.leases().map(|lease| check(lease.path())).collect();
        let checks = operations.len();
        operations.push(operation);
        let outcome = self.0.lease().generation().write(operations).await;
        outcome.map_err(|error| {
            let failed = |kind, detail: &str| {
                LockError::new(kind, detail).on(self.0.queue().lock_name().clone())
            };
            let lost = "its node is gone; nothing was written";
            match &error {
                RequestError::Multi { index, .. } if *index < checks => {
                    failed(ErrorKind::Lost, lost).because(error)
                }
                _ if error.ends_session() => failed(ErrorKind::Lost, lost).because(error),
                _ if error.is_definite() => {
                    failed(ErrorKind::Refused, "the server refused the write").because(error)
                }
                _ => failed(
                    ErrorKind::Unavailable,
                    "the server did not answer; the write may have taken effect",
                )
                .because(error),
            }
        })
    }
}
