//! Asking a holder to let go.

use std::sync::{Arc, OnceLock};

#[cfg(doc)]
use crate::base::error::ErrorKind;
use crate::base::error::LockError;
use crate::base::first::all;
use crate::base::owner::{Owner, REVOKE};
use crate::coordinator::traits::RequestError;
use crate::inspect::site::Site;
use crate::layout::contender::Contender;
use crate::session::generation::Generation;
use crate::session::releaser::{more, or_forgotten};

impl Site {
    /// Asks whoever holds this lock to let go, as Curator's `Revoker` does: the data of the node
    /// becomes `__REVOKE__`. A holder of zklock's that goes on writes back who it is, marked as
    /// [asked](crate::base::owner::Owner::revoked); one of Curator's is unknown from then on. Answers how many were asked, 0 if
    /// nobody held it.
    ///
    /// It is a wish: the lock stays held until its holder lets go. A holder of zklock's learns of
    /// it within a heartbeat, or at once if its lock is
    /// [revocable](crate::base::options::LockOptions::revocable); one of Curator's if its lock was made
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
            if found.get().is_none() {
                let listed = match generation.coordinator().children(self.path()).await {
                    Ok(listed) => listed,
                    Err(RequestError::NoNode) => return Ok(0),
                    Err(error) => return Err(error),
                };
                let queue = self.driver.queue(&listed);
                let holders = queue.iter().zip(self.holders(&queue)).filter(|(_, holds)| *holds);
                let holder =
                    |(one, _): (&Contender, bool)| (self.path_of(&one.name), OnceLock::new());
                let _ = found.set(holders.map(holder).collect::<Vec<_>>());
            }
            let holders = found.get().into_iter().flatten();
            let asked = all(holders.map(|(path, czxid)| ask(&generation, path, czxid))).await?;
            Ok(asked.into_iter().filter(|asked| *asked).count())
        })
        .await
    }
}

/// Asks who holds the lock by a node, and nobody who makes a node in the same place later: that is why
/// it is looked at before each time. Answers whether it was there to be asked.
async fn ask(
    generation: &Arc<Generation>,
    path: &str,
    czxid: &OnceLock<i64>,
) -> Result<bool, RequestError> {
    let (coordinator, mut patience) = (generation.coordinator(), generation.patience());
    loop {
        let asked = czxid.get().is_some();
        match coordinator.get(path).await {
            Ok((_, stat)) if *czxid.get_or_init(|| stat.czxid) != stat.czxid => return Ok(asked),
            Ok((data, _)) if asked && Owner::from_payload(&data).revoked => return Ok(true),
            Ok(_) => {}
            // It let go just now.
            Err(RequestError::NoNode) => return Ok(asked),
            Err(error) => return Err(error),
        }
        match or_forgotten(generation, patience, coordinator.set(path, REVOKE)).await {
            Ok(_) => return Ok(true),
            Err(RequestError::NoNode) => return Ok(asked),
            Err(RequestError::ConnectionLoss) => patience = more(generation, patience),
            Err(error) => return Err(error),
        }
    }
}
