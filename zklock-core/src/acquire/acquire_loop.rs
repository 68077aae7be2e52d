//! The acquire loop: the only place that waits in ZooKeeper's queue.
//!
//! ```text
//! create ‖ list ── nobody ahead ──────────────────────────────► grant, if the lease clock allows
//!                └ somebody ahead ─ watch one of them ─ gone ─► grant or list again
//! ```
//!
//! Whatever is dropped on the way (a create request without a reply, a node in the queue) is
//! deleted in the background, so a future that is dropped at any await leaves no node behind.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::acquire::enqueue::Enqueued;
use crate::acquire::lease::{Lease, QueuedNode};
use crate::acquire::looking::Looked;
use crate::acquire::obstacle::{Obstacle, Passed, Seen};
use crate::acquire::send_order::SendTurn;
use crate::acquire::watching::Woken;
use crate::base::clock::Instant;
use crate::base::deadline::Deadline;
use crate::base::error::{ErrorKind, Holder, LockError};
use crate::base::mode::Mode;
use crate::base::pattern::Pattern;
use crate::base::policy::{RetryPolicy, StopAt};
use crate::base::times;
use crate::cooldown::mark::Marks;
use crate::coordinator::traits::{Link, RequestError, Stat};
use crate::divergence::check::phantom_among;
use crate::divergence::head_age::Age;
use crate::layout::contender::Contender;
use crate::layout::driver::{LockDriver, Proof};
use crate::layout::nested;
use crate::layout::verdict::Verdict;
use crate::name::path::{ZnodePath, name_of};
use crate::session::generation::{Generation, OfLock, Since};
use crate::session::lane::LanePermit;
use crate::session::unused::Unused;

/// The lock to acquire.
#[derive(Clone, Debug)]
pub struct Target {
    /// The lock's name.
    pub lock: Arc<str>,
    /// The pattern of its name.
    pub pattern: Pattern,
    /// Its directory.
    pub directory: ZnodePath,
    /// Where a lock of another kind would have its nodes, if not there.
    pub beside: Option<ZnodePath>,
    /// The application's name, as other processes see it.
    pub app: Option<Arc<str>>,
    /// The layout and the rule.
    pub driver: Arc<dyn LockDriver>,
    /// The marks that it keeps in its directory.
    pub marks: Marks,
    /// For a semaphore: its limit, which may change.
    pub limit: Option<watch::Receiver<u32>>,
}

impl Target {
    /// The lock, as the events of a node in this mode name it.
    pub fn of_lock(&self, mode: Mode) -> OfLock {
        OfLock { name: self.lock.clone(), pattern: self.pattern, mode }
    }

    /// What callers have in common that may pass a node to each other.
    pub fn key(&self, stop_at: StopAt, vanished: RetryPolicy) -> Arc<str> {
        let (directory, marks) = (self.directory.as_str(), self.marks);
        // A node has the marks and the stop point of the caller that acquired it, as patiently as that
        // caller is. No path contains a NUL.
        if (marks, stop_at, vanished) == Default::default() {
            return self.directory.to_shared();
        }
        format!("{directory}\0{marks:?} {stop_at:?} {vanished:?}").into()
    }
}

/// How an acquire behaves.
#[derive(Clone, Debug)]
pub struct How {
    /// The mode in which the lock is acquired.
    pub mode: Mode,
    /// Whether it waits for ZooKeeper's replies only, and not for other contenders.
    pub once: bool,
    /// Whether its node may be kept for a while after the last release; the node says so.
    pub lingers: bool,
    /// How many nodes are acquired together, this one included.
    pub together: usize,
    /// Whether this node is created only when there is room for all of them.
    pub counts_first: bool,
    /// Whether this process may have many nodes in the same queue.
    pub has_many_nodes: bool,
    /// When the lease counts as lost.
    pub stop_at: StopAt,
    /// What it is acquired for; the node says so.
    pub label: Option<Arc<str>>,
}

impl How {
    /// For one node.
    pub fn one(mode: Mode, once: bool) -> How {
        let (stop_at, label) = (StopAt::Lost, None);
        let [lingers, counts_first, has_many_nodes] = [false; 3];
        How { mode, once, lingers, together: 1, counts_first, has_many_nodes, stop_at, label }
    }
}

/// Acquires a lock, and waits for other contenders or only for ZooKeeper's replies. `vanished` says
/// how often to begin again after nodes were deleted by others; `seen` receives who is in the way.
/// With a `turn`, the create request is sent when that turn comes.
///
/// # Cancel safety
///
/// Dropping the future gives up the place in the queue; the node is deleted in the background.
pub async fn acquire(
    target: &Target,
    vanished: &RetryPolicy,
    lane_permit: &LanePermit,
    how: How,
    seen: &Seen,
    turn: Option<&SendTurn>,
) -> Result<Lease, LockError> {
    let (unused, passed) = (Unused::default(), OnceLock::new());
    AcquireLoop { target, vanished, lane_permit, how, seen, turn, unused, passed }
        .run()
        .await
        .map_err(|error| error.on(target.lock.clone()))
}

/// Why one run through the queue ended without the lock.
pub(crate) enum Setback {
    /// The directory did not exist and was created.
    NoDirectory,
    /// The directory, or the node in it, was deleted by others.
    Vanished,
    /// The directory may be a container, must be replaced by a persistent one, and is in use.
    Shared,
    /// The session ended or the node was lost on the way: another attempt, which is not counted.
    Interrupted,
    /// The acquire fails.
    Failed(LockError),
}

/// What a look at the queue leads to.
enum Next {
    /// The node is not in the queue.
    Vanished,
    /// No contender is in the way.
    Grant,
    /// Wait until one of these nodes is deleted, which may be the grant.
    Wait { obstacle: Obstacle, paths: Vec<String>, deletion_grants: bool },
    /// There are too many nodes, by this number; any of the others may leave.
    Crowd { seen: usize, others: Vec<String>, excess: usize },
}

impl Next {
    /// The number of contenders ahead.
    fn ahead(&self) -> usize {
        match self {
            Next::Vanished | Next::Grant => 0,
            Next::Wait { obstacle, .. } => obstacle.ahead,
            Next::Crowd { others, .. } => others.len(),
        }
    }
}

pub(crate) struct AcquireLoop<'a> {
    pub(crate) target: &'a Target,
    pub(crate) vanished: &'a RetryPolicy,
    pub(crate) lane_permit: &'a LanePermit,
    pub(crate) how: How,
    pub(crate) seen: &'a Seen,
    /// When it may send its create request, if there is an order.
    pub(crate) turn: Option<&'a SendTurn>,
    /// The directories that it created and has no node in yet.
    pub(crate) unused: Unused,
    /// Nodes that look like contenders and are not, once a contender is in the way.
    pub(crate) passed: OnceLock<Passed>,
}

impl AcquireLoop<'_> {
    pub(crate) async fn run(&self) -> Result<Lease, LockError> {
        let (lane, vanished) = (self.lane_permit.lane(), self.vanished);
        let (mut made, mut losses, mut interruptions) = (0, 0, 0);
        loop {
            if let Some(turn) = self.turn {
                turn.comes().await;
            }
            let generation = lane.ready().await?;
            self.unused.go_with(&generation);
            connected(&generation).await;
            let setback = match self.enqueue_and_wait(&generation).await {
                Ok(lease) => return Ok(lease),
                Err(setback) => setback,
            };
            if let Some(turn) = self.turn {
                match setback {
                    Setback::NoDirectory if made == 0 => turn.again(true),
                    Setback::Interrupted => turn.again(false),
                    // The pause of this caller must not delay the others.
                    _ => turn.give_up(),
                }
            }
            let pause = match setback {
                Setback::Failed(error) => return Err(error),
                // The first time does not count as a loss: nobody had used this lock.
                Setback::NoDirectory if made == 0 => {
                    made += 1;
                    Duration::ZERO
                }
                Setback::NoDirectory | Setback::Vanished => {
                    if losses >= vanished.attempts {
                        return Err(deleted_again(&self.target.lock));
                    }
                    losses += 1;
                    vanished.pause(losses - 1)
                }
                Setback::Shared => {
                    if losses >= vanished.attempts {
                        return Err(self.shared());
                    }
                    losses += 1;
                    // Long enough for the next contender to be alone.
                    vanished.pause(losses).max(times::STEP_ASIDE)
                }
                Setback::Interrupted => {
                    interruptions += 1;
                    RetryPolicy::default().pause(interruptions)
                }
            };
            self.see(None);
            if !pause.is_zero() {
                lane.clock().sleep_until(lane.clock().now() + pause).await;
            }
        }
    }

    /// Waiting for others is boxed: every acquire moves this future, and most have nobody to wait
    /// for.
    pub(crate) async fn enqueue_and_wait(
        &self,
        generation: &Arc<Generation>,
    ) -> Result<Lease, Setback> {
        let mut gave_way = false;
        if self.how.counts_first {
            // One future here as well.
            let waited = async {
                self.wait_for_places(generation).await?;
                connected(generation).await;
                Ok(())
            };
            Box::pin(waited).await?;
        }
        let (mut node, mine, mut known, again_at) = loop {
            let again_at = match self.target.driver.proof() {
                Proof::Name => Instant::FAR,
                _ => self.lane_permit.lane().clock().now() + generation.patience(),
            };
            // Boxed as well: who waits for others keeps no room for it.
            let path = match Box::pin(self.enqueue(generation)).await? {
                Enqueued::Mine(node, mine, known) => break (node, mine, known, again_at),
                Enqueued::Taken(path) => path,
            };
            let waiting_for = [path.clone()];
            let obstacle = self.obstacle(generation, path, 1);
            let waiting = self.stand_behind(obstacle, &waiting_for, None, None, &mut gave_way);
            // One future, so that no waiter keeps what is in between.
            let waited = async {
                waiting.await?;
                connected(generation).await;
                Ok(())
            };
            Box::pin(waited).await?;
        };
        let (mut limit, mut since) = (self.target.limit.clone(), Since::Now);
        let mut is_first = true;
        loop {
            let looked = match known.take() {
                None => Box::pin(self.list(generation, None, since)).await?,
                known => known,
            };
            // A node that this server does not show may be visible to others, so it is deleted.
            let Some(looked) = looked else { return Err(Setback::Vanished) };
            let first = std::mem::take(&mut is_first);
            if first {
                let signs = self.signs(&looked);
                if !signs.is_empty() {
                    Box::pin(self.check_kind(generation, signs)).await?;
                }
            }
            since = Since::Now;
            let next = self.next(generation, looked, &mine);
            node.was_behind(next.ahead());
            match next {
                Next::Vanished => return Err(Setback::Vanished),
                Next::Grant => {
                    // Only the first list is of the own node, if it was sent behind the creation and not
                    // asked for again: in a directory that was made anew, its name may be that of
                    // another's.
                    let now = || self.lane_permit.lane().clock().now();
                    let is_own = again_at == Instant::FAR || first && now() < again_at;
                    return match self.grant_at_once(node, is_own) {
                        Ok(lease) => Ok(lease),
                        Err(node) => Box::pin(self.grant(generation, node, is_own)).await,
                    };
                }
                Next::Wait { obstacle, paths, deletion_grants } => {
                    let (age, own) = (Some(node.age()), deletion_grants.then_some(&mut node));
                    let waiting = self.stand_behind(obstacle, &paths, age, own, &mut gave_way);
                    match Box::pin(waiting).await? {
                        Woken::Gone if deletion_grants => {
                            return Box::pin(self.grant(generation, node, true)).await;
                        }
                        Woken::Gone | Woken::News => {}
                        Woken::Time => since = Since::Before,
                    }
                }
                Next::Crowd { seen, others, excess } => {
                    let (own, limit) = (Some(node.age()), &mut limit);
                    let waiting = self.crowded(generation, seen, others, excess, own, limit);
                    known = Box::pin(waiting).await?;
                }
            }
        }
    }

    /// What follows from a list of the directory's children. Only the few names that matter are
    /// kept: a waiter may wait for a long time, and there may be thousands of children.
    fn next(&self, generation: &Arc<Generation>, looked: Looked, mine: &Contender) -> Next {
        if !looked.others.is_empty() {
            nested::tell(&*self.target.driver, self.directory(), &looked.others, mine);
        }
        let left = self.passed.get().and_then(|passed| passed.left_of(&looked.queue));
        let queue = left.as_ref().unwrap_or(&looked.queue);
        let path_of = |name: &str| self.path_of(name);
        match self.target.driver.verdict(queue, mine) {
            Verdict::Missing => Next::Vanished,
            Verdict::Held => Next::Grant,
            Verdict::Wait { predecessor, deletion_grants, ahead } => {
                let head = queue.first().map_or(&predecessor, |head| &head.name);
                let obstacle = self.obstacle(generation, path_of(head), ahead);
                Next::Wait { obstacle, paths: vec![path_of(&predecessor)], deletion_grants }
            }
            Verdict::WaitForAny { predecessors, ahead } => {
                let head = queue.first().map_or_else(String::new, |head| path_of(&head.name));
                let obstacle = self.obstacle(generation, head, ahead);
                let paths = predecessors.iter().map(|name| path_of(name)).collect();
                Next::Wait { obstacle, paths, deletion_grants: false }
            }
            Verdict::Crowded { excess } => {
                let others = self.others(queue, &mine.name);
                // Also the children that are not contenders: the number is compared with the next list.
                let seen = looked.queue.len() + looked.others.len();
                Next::Crowd { seen, others, excess }
            }
        }
    }

    /// The paths of all nodes except `mine`.
    pub(crate) fn others(&self, queue: &[Contender], mine: &str) -> Vec<String> {
        let others = queue.iter().filter(|other| other.name != mine);
        others.map(|other| self.path_of(&other.name)).collect()
    }

    /// Waits until there is room for all the nodes that are acquired together. The caller makes
    /// sure that nobody else creates one.
    pub(crate) async fn wait_for_places(
        &self,
        generation: &Arc<Generation>,
    ) -> Result<(), Setback> {
        let (driver, mut limit) = (&self.target.driver, self.target.limit.clone());
        let mut known = None;
        loop {
            // Without a directory there are no nodes in it.
            let listed = self.list(generation, known.take(), Since::Now).await?;
            let Some(looked) = listed else { return Ok(()) };
            // Nodes of another kind take up places. They are looked for again once the own node exists.
            let signs = self.signs(&looked);
            if !signs.is_empty() {
                self.check_kind(generation, signs).await?;
            }
            let most = driver.most().unwrap_or(usize::MAX);
            let (seen, others) = (looked.queue.len(), self.others(&looked.queue, ""));
            drop(looked);
            match (seen + self.how.together).saturating_sub(most) {
                0 => return Ok(()),
                excess => {
                    let limit = &mut limit;
                    known = self.crowded(generation, seen, others, excess, None, limit).await?;
                }
            }
        }
    }

    /// There are too many nodes: waits until the children have changed, and returns them if they
    /// are known. Ends an acquire that does not wait, or that would wait for ever.
    pub(crate) async fn crowded(
        &self,
        generation: &Arc<Generation>,
        seen: usize,
        others: Vec<String>,
        excess: usize,
        own: Option<Age>,
        limit: &mut Option<watch::Receiver<u32>>,
    ) -> Result<Option<Looked>, Setback> {
        let obstacle = match others.first() {
            Some(head) => self.obstacle(generation, head.clone(), excess),
            None => self.closed_to_all(generation),
        };
        self.check_that_somebody_goes(&obstacle, &others, own).await?;
        drop(others);
        if self.how.once {
            return Box::pin(self.refuse(obstacle, false)).await.map(|()| None);
        }
        self.see(Some(obstacle));
        self.wait_for_room(generation, seen, limit).await
    }

    /// What a caller waits for if there are no other nodes and still not enough permits.
    fn closed_to_all(&self, generation: &Arc<Generation>) -> Obstacle {
        let most = self.target.driver.most().unwrap_or_default();
        let rests = Some(Arc::from(format!("its limit is {most}")));
        Obstacle { rests, ..self.obstacle(generation, self.directory().to_owned(), 0) }
    }

    /// Checks the nodes that it waits for if the head has been the same for longer than a session
    /// timeout. If the owners of too many of them are gone for ever, there is no point in waiting, at
    /// least not on this server. Who came after the head may still delete its node.
    pub(crate) async fn check_that_somebody_goes(
        &self,
        obstacle: &Obstacle,
        others: &[String],
        own: Option<Age>,
    ) -> Result<(), Setback> {
        let generation = &obstacle.generation;
        if others.is_empty() {
            return Ok(());
        }
        // Of those that wait for others, the nearest to the head checks first, and goes if nobody else
        // does. But those ahead may be gone for ever as well, so each checks, half as often as the one
        // ahead of it: together they ask twice as often as the first. Those that wait for the same
        // node, as readers behind a writer, are all the nearest: each process checks for itself.
        let is_next = others.iter().any(|path| **path == *obstacle.head);
        let behind = obstacle.ahead.saturating_sub(others.len()).max(usize::from(!is_next));
        let times = u32::try_from(behind).ok().and_then(|behind| 1_u32.checked_shl(behind));
        let times = times.unwrap_or(u32::MAX);
        if !generation.is_check_due(self.directory(), &obstacle.head, times) {
            return Ok(());
        }
        match phantom_among(generation, others).await {
            Ok(None) => {}
            Ok(Some(phantom)) => {
                generation.leave(phantom);
                return Err(Setback::Interrupted);
            }
            Err(error) => return self.after(generation, error).await,
        }
        if self.target.driver.holders_may_stay() {
            return Ok(());
        }
        let coordinator = generation.coordinator();
        let asked: Vec<_> = others.iter().map(|path| (path, coordinator.get(path))).collect();
        let mut staying = Vec::new();
        for (path, reply) in asked {
            match reply.await {
                Ok((_, stat)) if self.is_other_lock(&stat) => self.passed().add(path),
                Ok((data, stat)) if stat.owner == 0 => {
                    if generation.has_stayed(self.directory(), stat.czxid, own) {
                        staying.push((path, data));
                    }
                }
                Ok(_) | Err(RequestError::NoNode) => {}
                Err(error) => return self.after(generation, error).await,
            }
        }
        let most = self.target.driver.most().unwrap_or(1);
        match staying.first() {
            Some((path, data)) if staying.len() + self.how.together > most => {
                Err(Setback::Failed(self.for_ever(path, data, obstacle.ahead)))
            }
            _ => Ok(()),
        }
    }

    /// The error for a node at the head whose owner no longer lives.
    pub(crate) fn for_ever(&self, path: &str, data: &[u8], ahead: usize) -> LockError {
        let node = name_of(path).to_owned();
        let owner = self.target.driver.owner(&node, data);
        let why = format!(
            "{path} is not an ephemeral node, so it stays until somebody deletes it, and nobody \
             has for a session timeout; if nobody uses it, delete it by hand"
        );
        LockError::new(ErrorKind::Busy, why).held_by(Some(Holder { owner, node, ahead }))
    }

    pub(crate) fn directory(&self) -> &str {
        self.target.directory.as_str()
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.directory())
    }

    pub(crate) fn obstacle(
        &self,
        generation: &Arc<Generation>,
        head: String,
        ahead: usize,
    ) -> Obstacle {
        let (generation, driver) = (generation.clone(), self.target.driver.clone());
        let (head, mode, passed) = (head.into(), self.how.mode, self.passed().clone());
        Obstacle { generation, driver, head, mode, ahead, rests: None, passed }
    }

    pub(crate) fn passed(&self) -> &Passed {
        self.passed.get_or_init(Passed::default)
    }

    pub(crate) fn is_other_lock(&self, stat: &Stat) -> bool {
        nested::is_other_lock(&*self.target.driver, self.how.mode, stat)
    }

    /// Waits until one of the nodes is deleted, or the queue may have changed. Ends an acquire that
    /// does not wait. What a waiter does not need while it waits is boxed: there may be thousands.
    pub(crate) async fn stand_behind(
        &self,
        obstacle: Obstacle,
        paths: &[String],
        age: Option<Age>,
        own: Option<&mut QueuedNode>,
        gave_way: &mut bool,
    ) -> Result<Woken, Setback> {
        Box::pin(self.check_that_somebody_goes(&obstacle, paths, age)).await?;
        if self.how.once {
            let may_wait = obstacle.ahead == 1 && !std::mem::replace(gave_way, true);
            return Box::pin(self.refuse(obstacle, may_wait)).await.map(|()| Woken::News);
        }
        self.see(Some(obstacle.clone()));
        self.wait_for(&obstacle.generation, paths, own).await
    }

    /// Grants the lock if nothing has to be asked before: in most cases. Otherwise returns the node.
    fn grant_at_once(&self, node: QueuedNode, is_own: bool) -> Result<Lease, QueuedNode> {
        if !is_own || self.target.marks.any() {
            return Err(node);
        }
        node.grant(self.target.of_lock(self.how.mode), self.how.stop_at)
    }

    /// Grants the lock if the lease clock allows it and the node `is_own`; otherwise a commit must be
    /// answered first.
    pub(crate) async fn grant(
        &self,
        generation: &Arc<Generation>,
        mut node: QueuedNode,
        mut is_own: bool,
    ) -> Result<Lease, Setback> {
        let mut asked = None;
        loop {
            let now = || self.lane_permit.lane().clock().now();
            if self.target.marks.any() && !node.mark().is_some_and(|mark| mark.is_enough(now())) {
                node = Box::pin(self.mark(generation, node)).await?;
            }
            let of = self.target.of_lock(self.how.mode);
            if is_own {
                node = match node.grant(of, self.how.stop_at) {
                    Ok(lease) => return Ok(lease),
                    Err(_) if generation.is_retired() => return Err(Setback::Interrupted),
                    Err(node) => node,
                };
            }
            if let Some((since, took)) = asked {
                generation.tell_late(&self.target.lock, since, took);
            }
            let (path, only) = (node.path().clone(), node.is_recurring().then(|| node.czxid()));
            let proven = async {
                generation.settled().await;
                let sent = now();
                is_there(generation, path, only).await.map(|is_there| (is_there, sent))
            };
            match Box::pin(proven).await {
                Ok((true, sent)) => {
                    is_own = true;
                    asked = Some((asked.map_or(sent, |(since, _)| since), now().since(sent)));
                }
                Ok((false, _)) => {
                    node.forget();
                    return Err(Setback::Vanished);
                }
                Err(error) => self.after(generation, error).await?,
            }
        }
    }

    /// Ends an acquire that does not wait, unless the holder released just now. A lingering holder
    /// releases as soon as it sees this node behind its own.
    pub(crate) async fn refuse(&self, obstacle: Obstacle, may_wait: bool) -> Result<(), Setback> {
        match obstacle.ask().await {
            Ok(busy) if may_wait && busy.holder().is_some_and(|holder| holder.owner.linger) => {
                let limit =
                    Deadline::after(self.lane_permit.lane().clock().clone(), times::GIVE_WAY);
                let head = [obstacle.head.to_string()];
                let gone = self.wait_for(&obstacle.generation, &head, None);
                limit.bound(gone).await.map_or(Ok(()), |looked| looked.map(drop))
            }
            Ok(busy) => Err(Setback::Failed(busy)),
            Err(RequestError::NoNode) => Ok(()),
            Err(error) => self.after(&obstacle.generation, error).await,
        }
    }

    /// Reports who is in the way. From now on, the call waits for other contenders, and not for the
    /// server.
    pub(crate) fn see(&self, obstacle: Option<Obstacle>) {
        if obstacle.is_some() {
            self.lane_permit.arrived();
        }
        self.seen.set(obstacle);
    }

    /// After a failed read: a final error, or another look when the connection is back.
    pub(crate) async fn after(
        &self,
        generation: &Arc<Generation>,
        error: RequestError,
    ) -> Result<(), Setback> {
        if generation.is_retired() || error.is_definite() || error.ends_session() {
            return Err(setback(error));
        }
        Box::pin(generation.pause(RetryPolicy::default().pause(3))).await;
        Ok(())
    }
}

/// The error of an acquire that does not begin again.
pub(crate) fn deleted_again(lock: &Arc<str>) -> LockError {
    let why = "others deleted the lock's directory or node again and again";
    LockError::new(ErrorKind::Unavailable, why).on(lock.clone())
}

/// Waits until the connection is up: a create request that is sent while it is down would be
/// applied after the reconnect, even if the caller has given up.
async fn connected(generation: &Arc<Generation>) {
    while generation.coordinator().link() == Link::Down {
        generation.coordinator().link_changed(Link::Down).await;
    }
}

/// Commits a check that the node with this czxid exists. This call sends the requests.
pub(crate) fn is_there(
    generation: &Arc<Generation>,
    path: Arc<str>,
    only: Option<i64>,
) -> impl Future<Output = Result<bool, RequestError>> + Send {
    let checked = generation.check([path.clone()]);
    let read = only.map(|czxid| (czxid, generation.coordinator().get(&path)));
    async move {
        match checked.await {
            Err(RequestError::Multi { error, .. }) if *error == RequestError::NoNode => Ok(false),
            Err(error) => Err(error),
            Ok(()) => match read {
                None => Ok(true),
                Some((czxid, read)) => match read.await {
                    Err(RequestError::NoNode) => Ok(false),
                    read => read.map(|(_, stat)| stat.czxid == czxid),
                },
            },
        }
    }
}

pub(crate) fn setback(error: RequestError) -> Setback {
    let failed =
        |kind, detail: String| Setback::Failed(LockError::new(kind, detail).because(error.clone()));
    match &error {
        RequestError::NoNode => Setback::Vanished,
        RequestError::NoAuth | RequestError::InvalidAcl | RequestError::AuthFailed => {
            failed(ErrorKind::Unauthorized, error.in_short())
        }
        RequestError::QuotaExceeded => failed(ErrorKind::Unavailable, error.in_short()),
        RequestError::BadArguments(_) => failed(ErrorKind::InvalidName, error.in_short()),
        RequestError::NoChildrenForEphemerals => failed(
            ErrorKind::InvalidName,
            "the lock's directory is an ephemeral node, which cannot have children; delete that \
             node, or use another name"
                .to_owned(),
        ),
        _ => Setback::Interrupted,
    }
}
