//! The contenders in a lock's queue.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::owner::Owner;
use crate::cooldown::mark::Mark;
use crate::cooldown::server_time::time_of;
use crate::coordinator::node::NodeKind;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::inspect::nodes::take_out;
use crate::inspect::site::Site;
use crate::layout::contender::Contender;
use crate::layout::nested::{counted_by_others, is_other_lock};
use crate::layout::new_node::Proof;
use crate::layout::verdict::Verdict;
use crate::session::generation::Listed;
use crate::session::local_queues::LocalContender;

/// The number of nodes, or of directories, that are read at the same time.
pub(crate) const BATCH: usize = 100;

/// What ZooKeeper and this process know of one contender: a node in a lock's queue, whose owner holds
/// the lock or waits for it, perhaps with a client in another language. What a layout reads from the
/// node's name alone is a [`driver::Contender`](crate::layout::contender::Contender).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::ContenderInfo;
///
/// fn line(one: &ContenderInfo) -> String {
///     format!("{} {}: {}", if one.holds { "holds" } else { "waits" }, one.mode, one.owner)
/// }
/// let _guard = session.mutex("orders")?.acquire().await?;
/// let queue = session.site("orders")?.contenders().await?;
/// assert!(line(&queue[0]).starts_with("holds mutex: "));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContenderInfo {
    /// The name of the node.
    pub node: String,
    /// The czxid of the node, which tells it from a later one with the same name. Of a holder, it is
    /// that of its [tokens](crate::base::token::FencingToken::czxid).
    pub czxid: u64,
    /// The mode in which it acquires the lock, as its name says.
    pub mode: Mode,
    /// The process, and since when its node has been in the queue, as the node's data say; for a
    /// node of this session also since when its present holder has held the lock.
    pub owner: Owner,
    /// Whether it holds the lock. The first in the queue may not hold it yet, because the lock is unavailable for a
    /// while (`lock_delay`, `hold_at_least`). A [survey](Site::survey) knows that, and so does a queue that
    /// [`Session::sites`](crate::session::handle::Session::sites) returned, by the wall clock of this machine; elsewhere
    /// the first counts as the holder. Clients that do not know these options do not wait for that time.
    pub holds: bool,
    /// Whether the node belongs to this session.
    pub here: bool,
    /// For the first node of this session: the callers of this process that hold the lock or wait
    /// for it.
    pub local: Vec<LocalContender>,
    /// What it may be waiting for outside of the queue: clients in other languages count nodes that
    /// are not contenders, such as the directory of another lock, and wait until these are gone.
    pub why: Option<String>,
    /// The ZooKeeper session that owns the node, and whose end removes it; 0 for a node that stays
    /// until it is deleted.
    pub zookeeper_session: i64,
    /// The time when the node was created, by the server's clock.
    pub created: SystemTime,
    /// The time when the node's data were written last, by the server's clock: by its owner, or by the client that
    /// asked it to [release](Site::revoke).
    pub written: SystemTime,
}

/// The contenders among the children of a directory.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) queue: Vec<ContenderInfo>,
    /// The names of those that were listed, and gone when they were read.
    pub(crate) gone: HashSet<String>,
}

impl Site {
    /// Lists the queue of this lock in order: the holder first, then the waiters in the order of
    /// their grants. Nodes that disappear during the call are left out.
    ///
    /// It does not ask whether the lock is unavailable for a while: see [`ContenderInfo::holds`]. Which callers of
    /// this process hold locks or wait for them, [`Session::local_contenders`](crate::session::Session::local_contenders)
    /// tells without a request.
    ///
    /// Costs one request, and one more for each node, or for each of the [head](Site::head); where a semaphore has more
    /// nodes than its limit, a few more that tell which of them wait.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let site = session.site("orders")?;
    /// assert!(site.contenders().await?.is_empty());
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// let queue = site.contenders().await?;
    /// assert!(queue.len() == 1 && queue[0].holds && queue[0].here);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] if ZooKeeper does not answer within `timeout × retries` of the
    /// session's defaults; [`ErrorKind::Unauthorized`] if an ACL denies access;
    /// [`ErrorKind::Closing`] if the session is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the call only reads.
    pub async fn contenders(&self) -> Result<Vec<ContenderInfo>, LockError> {
        self.contenders_reusing(&[]).await
    }

    /// Like [`contenders`](Site::contenders), for somebody who looks again and again: reads only the
    /// nodes of those that are not among `known`, from an earlier look, and those with the callers of
    /// this process, which may be others by now. Of the rest everything is as it was then, but for who
    /// holds.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let site = session.site("orders")?;
    /// let _guard = session.mutex("orders")?.acquire().await?;
    /// let before = site.contenders().await?;
    /// let now = site.contenders_reusing(&before).await?;
    /// assert!(now.len() == 1 && now[0].node == before[0].node);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`contenders`](Site::contenders).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the call only reads.
    pub async fn contenders_reusing(
        &self,
        known: &[ContenderInfo],
    ) -> Result<Vec<ContenderInfo>, LockError> {
        let mut queue = self
            .look(async |generation| {
                let coordinator = &**generation.coordinator();
                let listed = self.list(coordinator).await?;
                Ok(self.describe(coordinator, listed, known, &self.mark).await?.queue)
            })
            .await?;
        self.add_callers(&mut queue);
        Ok(queue)
    }

    /// Adds what only this process knows: its callers, behind the first node of its session; and of each
    /// of its nodes that holds the lock, who holds it at present.
    pub(crate) fn add_callers(&self, queue: &mut [ContenderInfo]) {
        let Some(first) = queue.iter_mut().find(|contender| contender.here) else { return };
        first.local = self.session.local_contenders();
        first.local.retain(|one| *one.lock == *self.name.as_str());
        let (runtime, holdings) = (self.session.runtime(), self.session.local_queues().holdings());
        let now = runtime.clock().now();
        for one in queue.iter_mut().filter(|one| one.here && one.holds) {
            // By the node: permits are handed on, so a node behind another may have the older holder.
            if let Some(by) = holdings.get(&*self.path_of(&one.node)) {
                let owner = std::mem::take(&mut one.owner).label(by.label.as_deref());
                one.owner = runtime.granted_ago(owner, now.since(by.since));
            }
        }
    }

    /// For each place in the queue, whether that contender holds the lock. The holders of one mode
    /// are the first ones of that mode, so few places are evaluated, however many wait. Those at the end that
    /// hold no permit are counted before.
    pub(crate) fn holders(&self, queue: &[Contender], without_permit: usize) -> Vec<bool> {
        let mut holders = vec![false; queue.len()];
        let mut places: Vec<(Mode, Vec<usize>)> = Vec::new();
        for (place, one) in queue.iter().enumerate() {
            match places.iter_mut().find(|(mode, _)| *mode == one.mode) {
                Some((_, of_mode)) => of_mode.push(place),
                None => places.push((one.mode, vec![place])),
            }
        }
        for (_, of_mode) in places {
            let holds = |place: &usize| self.holds(queue, *place, without_permit);
            let first = of_mode.partition_point(holds);
            of_mode[..first].iter().for_each(|place| holders[*place] = true);
        }
        holders
    }

    fn holds(&self, queue: &[Contender], place: usize, without_permit: usize) -> bool {
        match self.driver.verdict(queue, &queue[place]) {
            Verdict::Held => true,
            Verdict::Crowded { .. } => place + without_permit < queue.len(),
            _ => false,
        }
    }

    /// Whether the owner of a node rests, although nobody is ahead of it.
    pub(crate) fn rests(&self, mark: &Mark, czxid: u64, owner: &Owner) -> bool {
        mark.rests(czxid, owner, self.session.runtime().wall_clock())
    }

    /// Describes the contenders among the children of the directory, whose data are this mark. Those that are
    /// already known are not read again.
    pub(crate) async fn describe(
        &self,
        coordinator: &dyn Coordinator,
        children: Vec<String>,
        known: &[ContenderInfo],
        mark: &Mark,
    ) -> Result<Described, RequestError> {
        let Listed { mut queue, others } = Listed::new(children, &*self.driver);
        // The path of a node may be a later one's, where names are not unique: kazoo gives all permits of one
        // object the same. And what was added about a caller of this process is not true of the next one.
        let is_unique = self.driver.proof() == Proof::Name
            && self.driver.kind() == NodeKind::EphemeralSequential;
        let is_added = |known: &ContenderInfo| !known.local.is_empty() || known.here && known.holds;
        let known = known.iter().filter(|known| is_unique && !is_added(known));
        let known: HashMap<_, _> = known.map(|known| (&*known.node, known)).collect();
        let head = &queue[..queue.len().min(self.most)];
        let mut described = Vec::with_capacity(head.len());
        let (mut passed, mut gone) = (HashSet::new(), HashSet::new());
        for batch in head.chunks(BATCH) {
            let read = |name: &str| {
                let known = known.get(name).map(|known| ContenderInfo::clone(known));
                known.ok_or_else(|| coordinator.get(&self.path_of(name)))
            };
            let asked: Vec<_> = batch.iter().map(|one| (one, read(&one.name))).collect();
            for (one, asked) in asked {
                let contender = match asked {
                    Ok(known) => known,
                    Err(reply) => match reply.await {
                        Ok((_, stat)) if is_other_lock(&*self.driver, one.mode, &stat) => {
                            passed.insert(one.name.clone());
                            continue;
                        }
                        Ok((data, stat)) => ContenderInfo {
                            node: one.name.clone(),
                            czxid: stat.czxid.cast_unsigned(),
                            mode: one.mode,
                            owner: self.driver.owner(&one.name, &data),
                            holds: false,
                            here: self.session.generation_of(stat.ephemeral_owner).is_some(),
                            local: Vec::new(),
                            why: None,
                            zookeeper_session: stat.ephemeral_owner,
                            created: time_of(stat.ctime).unwrap_or(UNIX_EPOCH),
                            written: time_of(stat.mtime).unwrap_or(UNIX_EPOCH),
                        },
                        Err(RequestError::NoNode) => {
                            gone.insert(one.name.clone());
                            continue;
                        }
                        Err(error) => return Err(error),
                    },
                };
                described.push(contender);
            }
        }
        take_out(&mut queue, &passed, |one| &one.name);
        let without_permit = self.without_permit(coordinator, &queue).await?;
        let mut places = queue.iter().zip(self.holders(&queue, without_permit));
        for one in &mut described {
            // A contender that disappears during the reading still has its place in the queue.
            let Some((node, holds)) = places.find(|(node, _)| node.name == one.node) else { break };
            one.holds = holds && !self.rests(mark, one.czxid, &one.owner);
            // Our own clients ignore nodes that are not contenders, and describe themselves.
            let is_stranger = one.owner.pid.is_none();
            one.why = is_stranger
                .then(|| counted_by_others(&*self.driver, &others, node).min())
                .flatten()
                .map(|child| self.path_of(child))
                .map(|path| {
                    format!("Curator's locks count {path}, too, and wait until it is gone")
                });
        }
        Ok(Described { queue: described, gone })
    }
}
