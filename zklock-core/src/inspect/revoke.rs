//! Asking a holder to release its lock.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::base::first::all;
use crate::base::owner::{Owner, REVOKE};
use crate::cooldown::mark::Mark;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::inspect::contenders::BATCH;
use crate::inspect::nodes::take_out;
use crate::inspect::site::Site;
use crate::layout::contender::Contender;
use crate::layout::nested::{is_other_lock, may_be_other_lock};
use crate::session::generation::Generation;
use crate::session::releaser::{more, or_forgotten};

impl Site {
    /// Asks the holders of this lock to release it, in the same way as Curator's `Revoker`: the
    /// data of the holder's node become `__REVOKE__`. Returns the number of holders that were
    /// asked, 0 if nobody holds the lock. The directory of another lock is not written to, whatever it is called, and
    /// nobody is asked who is first in the queue of a lock that is
    /// [unavailable](Site::unavailable_until) for a while, by the clock of this machine. A caller of another process that
    /// acquires that lock without the option, and so does not wait for that time, is taken for one who waits.
    ///
    /// The holder decides, and the lock stays held until it releases. A zklock holder learns of the
    /// request within a heartbeat, or at once if its lock is
    /// [revocable](crate::base::options::LockOptions::revocable); a Curator holder only if its lock
    /// was made revocable; a kazoo holder never. A zklock holder that continues writes its
    /// description back, marked as [asked](crate::base::owner::Owner::revoked); the description of
    /// a Curator holder is lost.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let site = session.site("orders")?;
    /// assert_eq!(site.revoke().await?, 0); // No holder.
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert_eq!(site.revoke().await?, 1);
    /// assert!(guard.is_valid());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`contenders`](Site::contenders); [`ErrorKind::Unauthorized`] if an ACL denies the
    /// write.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request may or may not have been sent.
    pub async fn revoke(&self) -> Result<usize, LockError> {
        // Looked up once: after a request whose reply was lost, somebody else may hold the lock,
        // who was not to be asked.
        let found = OnceLock::new();
        self.look(async |generation| {
            if found.get().is_none() {
                let coordinator = &**generation.coordinator();
                let mark = coordinator.get(self.path());
                let queue = self.driver.queue(&self.list(coordinator).await?);
                let mark = match mark.await {
                    Ok((data, _)) => Mark::read(&data).unwrap_or_default(),
                    Err(RequestError::NoNode) => Mark::default(),
                    Err(error) => return Err(error),
                };
                let holders = self.to_ask(coordinator, queue).await?.into_iter();
                let holder = |one: Contender| (one.name, OnceLock::new());
                let _ = found.set((mark, holders.map(holder).collect::<Vec<_>>()));
            }
            let Some((mark, holders)) = found.get() else { return Ok(0) };
            let here = self.session.local_queues().holdings();
            let asked = holders.iter().map(|(node, czxid)| {
                // Whoever holds the lock in this process does not rest.
                let mark = (!here.contains_key(&*self.path_of(node))).then_some(mark);
                self.ask(&generation, node, czxid, mark)
            });
            let asked = all(asked).await?;
            Ok(asked.into_iter().filter(|asked| *asked).count())
        })
        .await
    }

    /// The holders in a queue that lists what may be the directories of other locks.
    async fn to_ask(
        &self,
        coordinator: &dyn Coordinator,
        mut queue: Vec<Contender>,
    ) -> Result<Vec<Contender>, RequestError> {
        let (mut holders, others) = self.parted(coordinator, &queue).await?;
        let mut passed = self.other_locks(coordinator, &holders).await?;
        if !passed.is_empty() {
            // Who holds the lock is behind them, and may be behind any number of others: all are read, once.
            passed.extend(self.other_locks(coordinator, &others).await?);
            take_out(&mut queue, &passed, |one| &one.name);
            holders = self.parted(coordinator, &queue).await?.0;
        }
        Ok(holders)
    }

    /// The holders in a queue, and the others.
    async fn parted(
        &self,
        coordinator: &dyn Coordinator,
        queue: &[Contender],
    ) -> Result<(Vec<Contender>, Vec<Contender>), RequestError> {
        let without_permit = self.without_permit(coordinator, queue).await?;
        let mut holds = self.holders(queue, without_permit).into_iter();
        Ok(queue.iter().cloned().partition(|_| holds.next() == Some(true)))
    }

    /// The names of those nodes that are the directories of other locks.
    async fn other_locks(
        &self,
        coordinator: &dyn Coordinator,
        nodes: &[Contender],
    ) -> Result<HashSet<String>, RequestError> {
        let mut found = HashSet::new();
        let may_be = nodes.iter().filter(|one| may_be_other_lock(&*self.driver, one.mode));
        for batch in may_be.collect::<Vec<_>>().chunks(BATCH) {
            let asked: Vec<_> =
                batch.iter().map(|one| coordinator.get(&self.path_of(&one.name))).collect();
            for (one, asked) in batch.iter().zip(asked) {
                match asked.await {
                    Ok((_, stat)) if is_other_lock(&*self.driver, one.mode, &stat) => {
                        found.insert(one.name.clone());
                    }
                    Ok(_) | Err(RequestError::NoNode) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(found)
    }

    /// Asks the holder with this node to release. The node is read before each attempt, so that a new
    /// holder whose node has the same path is not asked, and nobody who rests by this mark. Returns whether the node
    /// existed, and was a holder's.
    async fn ask(
        &self,
        generation: &Arc<Generation>,
        node: &str,
        czxid: &OnceLock<i64>,
        mark: Option<&Mark>,
    ) -> Result<bool, RequestError> {
        let (coordinator, mut patience) = (generation.coordinator(), generation.patience());
        let path = &*self.path_of(node);
        let rests = |data: &[u8], czxid: i64| {
            let owner = || self.driver.owner(node, data);
            mark.is_some_and(|mark| self.rests(mark, czxid.cast_unsigned(), &owner()))
        };
        loop {
            let asked = czxid.get().is_some();
            match coordinator.get(path).await {
                Ok((data, stat)) if !asked && rests(&data, stat.czxid) => return Ok(false),
                Ok((_, stat)) if *czxid.get_or_init(|| stat.czxid) != stat.czxid => {
                    return Ok(asked);
                }
                Ok((data, _)) if asked && Owner::from_payload(&data).revoked => return Ok(true),
                Ok(_) => {}
                // The holder released just now.
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
}
