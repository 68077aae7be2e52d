//! Asking a holder to let go.

use std::sync::OnceLock;

use crate::coordinator::RequestError;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::LockError;
use crate::inspect::site::Site;
use crate::owner::REVOKE;

impl Site {
    /// Asks whoever holds this lock to let go, as Curator's `Revoker` does: the data of the node
    /// becomes `__REVOKE__`. A holder of zklock's that goes on writes back who it is, marked as
    /// [asked](crate::owner::Owner::revoked); one of Curator's is unknown from then on. Answers how many were asked, 0 if
    /// nobody held it.
    ///
    /// It is a wish: the lock stays held until its holder lets go. A holder of zklock's learns of
    /// it within a heartbeat, or at once if its lock is
    /// [revocable](crate::options::LockOptions::revocable); one of Curator's if its lock was made
    /// revocable; one of kazoo's never.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let site = session.site("orders")?;
    /// assert_eq!(site.revoke().await?, 0); // Nobody holds it.
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert_eq!(site.revoke().await?, 1);
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`contenders`](Site::contenders); [`ErrorKind::Unauthorized`] if an ACL forbids it.
    ///
    /// # Cancel safety
    ///
    /// The wish may or may not have been sent when the future is dropped.
    pub async fn revoke(&self) -> Result<usize, LockError> {
        // Found once: after a request whose answer is lost, another may hold the lock, who was not
        // meant.
        let found = OnceLock::new();
        self.look(async |generation| {
            let coordinator = generation.coordinator();
            if found.get().is_none() {
                let listed = match coordinator.children(self.path()).await {
                    Ok(listed) => listed,
                    Err(RequestError::NoNode) => return Ok(0),
                    Err(error) => return Err(error),
                };
                let queue = self.driver.queue(&listed);
                let holders = (0..queue.len()).filter(|place| self.holds(&queue, *place));
                let paths = holders.map(|place| self.path_of(&queue[place].name));
                let _ = found.set(paths.collect::<Vec<_>>());
            }
            let paths = found.get().into_iter().flatten();
            let asked: Vec<_> = paths.map(|path| coordinator.set(path, REVOKE)).collect();
            let mut count = 0;
            for reply in asked {
                match reply.await {
                    Ok(_) => count += 1,
                    // It let go just now.
                    Err(RequestError::NoNode) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(count)
        })
        .await
    }
}
