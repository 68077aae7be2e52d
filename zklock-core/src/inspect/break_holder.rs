//! Breaking a lock: deleting the node of one contender.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::base::on_drop::OnDrop;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::inspect::contenders::ContenderInfo;
use crate::inspect::site::Site;
use crate::observe::observer::LossReason;
use crate::session::generation::Generation;
use crate::session::releaser::{more, or_forgotten};

impl Site {
    /// Deletes the node of one contender, so that the next one is granted the lock: for a holder
    /// that hangs, and neither releases nor [can be asked to](Site::revoke). Returns whether the
    /// node existed.
    ///
    /// Exactly the node is deleted that [`contenders`](Site::contenders) returned: if another one
    /// has its name meanwhile, nothing happens. (Names recur in layouts with a single node, such as
    /// [`OneNode`](crate::layout::OneNode). There, a node that appears between the look and the
    /// deletion, within one round trip, is deleted in its place.)
    ///
    /// **The holder goes on until it learns of this**, and from now on only its
    /// [fencing token](crate::guard::view::GuardView::fencing_token) protects from what it does. A
    /// zklock holder learns of it within a heartbeat; a Curator holder never does.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let hung = session.mutex("orders")?.acquire().await?;
    /// let site = session.site("orders")?;
    /// let queue = site.contenders().await?;
    /// assert!(site.break_holder(&queue[0]).await?);
    /// assert!(!hung.is_valid() && site.contenders().await?.is_empty());
    /// assert!(!site.break_holder(&queue[0]).await?); // It is gone.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`contenders`](Site::contenders); [`ErrorKind::Unauthorized`] if an ACL denies the
    /// deletion.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the node may or may not be deleted.
    pub async fn break_holder(&self, contender: &ContenderInfo) -> Result<bool, LockError> {
        let (path, in_doubt) = (self.path_of(&contender.node), AtomicBool::new(false));
        let czxid = contender.czxid;
        let generation = self.session.generation_of(contender.zookeeper_session);
        let held = generation.as_ref().and_then(|generation| {
            let mut held = generation.held().into_iter();
            held.find(|node| *node.path == *path && node.czxid.cast_unsigned() == czxid)
        });
        // The holder may learn of it before this call does.
        let breaks = |does: bool| held.iter().for_each(|node| node.is_being_broken(does));
        breaks(true);
        // What is deleted after this call is deleted by somebody else.
        let _end = OnDrop::new(|| breaks(false));
        let deleting =
            self.look(async |generation| delete(&generation, &path, czxid, &in_doubt).await);
        let deleted = deleting.await;
        if let (Some(generation), Some(node), Ok(true)) = (generation, &held, &deleted) {
            generation.lost_node(node, LossReason::Broken);
        }
        deleted
    }
}

/// Deletes the node with this path if it has this czxid. `in_doubt` says whether an earlier attempt
/// may have deleted it.
async fn delete(
    generation: &Arc<Generation>,
    path: &str,
    czxid: u64,
    in_doubt: &AtomicBool,
) -> Result<bool, RequestError> {
    let mut patience = generation.patience();
    loop {
        let version = match generation.synced(path, |server, path| server.get(path)).await {
            Ok((_, stat)) if stat.czxid.cast_unsigned() == czxid => stat.version,
            Ok(_) | Err(RequestError::NoNode) => return Ok(in_doubt.load(Ordering::Relaxed)),
            Err(error) => return Err(error),
        };
        let path = path.to_owned();
        let unchanged = Operation::CheckVersion { path: path.clone(), version };
        let deleting = generation.write(vec![unchanged, Operation::Delete { path }]);
        match or_forgotten(generation, patience, deleting).await {
            Ok(()) => return Ok(true),
            Err(RequestError::Multi { error, .. }) => match *error {
                RequestError::NoNode => return Ok(in_doubt.load(Ordering::Relaxed)),
                // Its data have changed since the look.
                RequestError::BadVersion => {}
                error => return Err(error),
            },
            Err(error) if error.is_definite() => return Err(error),
            Err(error) => {
                in_doubt.store(true, Ordering::Relaxed);
                if error != RequestError::ConnectionLoss {
                    return Err(error);
                }
                patience = more(generation, patience);
            }
        }
    }
}
