//! The acquire loop: the only place that waits in ZooKeeper's queue.
//!
//! ```text
//! create ‖ list ── nobody ahead ──────────────────────────────► grant, if the lease clock allows
//!                └ somebody ahead ─ watch one of them ─ gone ─► grant or list again
//! ```
//!
//! Whatever is dropped on the way (a create request without a reply, a node in the queue) is
//! deleted in the background, so a future that is dropped at any await leaves no node behind.

use std::future::{Future, pending};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_lite::future::or;

use crate::acquire::enqueue::Enqueued;
use crate::acquire::lease::{Lease, QueuedNode};
use crate::acquire::obstacle::{Blocked, Obstacle, Passed};
use crate::acquire::seen::Seen;
use crate::acquire::send_order::SendTurn;
use crate::acquire::setback::{Setback, deleted_again, refused, setback};
use crate::acquire::target::{NodeRequest, Target};
use crate::acquire::watching::Woken;
use crate::base::clock::Instant;
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::policy::{Requeue, pause_after};
use crate::base::times;
use crate::coordinator::link::Link;
use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;
use crate::divergence::head_age::Age;
use crate::layout::contender::Contender;
use crate::layout::nested;
use crate::layout::new_node::Proof;
use crate::layout::verdict::Verdict;
use crate::session::generation::{Generation, Listed, Since};
use crate::session::lane::LanePermit;
use crate::session::unused::Unused;

/// Acquires a lock, and waits for other contenders or only for ZooKeeper's replies. `requeue` says
/// how often to begin again after nodes were deleted by others; `seen` receives who is in the way.
/// With a `turn`, the create request is sent when that turn comes.
///
/// # Cancel safety
///
/// Dropping the future gives up the place in the queue; the node is deleted in the background.
pub fn acquire<'a>(
    target: &'a Target,
    requeue: &'a Requeue,
    lane_permit: &'a LanePermit,
    request: NodeRequest,
    seen: &'a Seen,
    turn: Option<&'a SendTurn>,
) -> impl Future<Output = Result<Lease, LockError>> + Send {
    let (unused, passed) = (Unused::default(), OnceLock::new());
    let mut acquiring =
        AcquireLoop { target, requeue, lane_permit, request, seen, turn, unused, passed };
    // An `async fn` would keep each parameter a second time.
    async move { acquiring.run().await.map_err(|error| error.on(acquiring.target.lock.clone())) }
}

/// What a look at the queue leads to.
enum Next {
    /// The node is not in the queue.
    Vanished,
    /// No contender is in the way.
    Grant,
    /// Wait until one of these nodes is deleted, which may be the grant.
    Wait { obstacle: Obstacle, deletion_grants: bool },
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

/// Why nobody makes a node for a while.
const STUCK: &str =
    "two of its nodes could not be deleted, and it makes no other one for a session timeout";

pub(crate) struct AcquireLoop<'a> {
    pub(crate) target: &'a Target,
    pub(crate) requeue: &'a Requeue,
    pub(crate) lane_permit: &'a LanePermit,
    pub(crate) request: NodeRequest,
    pub(crate) seen: &'a Seen,
    /// When it may send its create request, if there is an order.
    pub(crate) turn: Option<&'a SendTurn>,
    /// The directories that it created and has no node in yet.
    pub(crate) unused: Unused,
    /// Nodes that look like contenders and are not, once a contender is in the way.
    pub(crate) passed: OnceLock<Passed>,
}

impl AcquireLoop<'_> {
    pub(crate) async fn run(&mut self) -> Result<Lease, LockError> {
        let (lane, requeue) = (self.lane_permit.lane(), self.requeue);
        let (mut made, mut losses, mut interruptions) = (0, 0, 0);
        loop {
            if let Some(turn) = self.turn {
                turn.comes().await;
            }
            let generation = self.lane_permit.ready().await?;
            if let Some(error) = generation.refuses(self.directory()).and_then(refused) {
                let why = format!("in {}: {STUCK}", self.directory());
                return Err(error.aside(why));
            }
            self.unused.go_with(&generation);
            let connected = match self.may_send(&generation) {
                true => Ok(()),
                // Boxed, because it is rare.
                false => Box::pin(self.unless_elsewhere(self.may_send_at_last(&generation))).await,
            };
            let acquired = match connected {
                Ok(()) => self.enqueue_and_wait(&generation).await,
                Err(setback) => Err(setback),
            };
            let setback = match acquired {
                Ok(lease) => return Ok(lease),
                Err(setback) => setback,
            };
            // In a directory that is made anew, their names are those of contenders.
            self.passed = OnceLock::new();
            if let Some(turn) = self.turn {
                match setback {
                    // It keeps its place until it has one on another connection: those behind it come later there, too.
                    _ if self.lane_permit.leaves() && !self.lane_permit.is_full() => {
                        turn.again(false);
                        turn.comes().await;
                    }
                    Setback::NoDirectory if made == 0 => turn.again(true),
                    Setback::Interrupted => turn.again(false),
                    // The pause of this caller must not delay the others.
                    _ => turn.give_up(),
                }
            }
            let pause = match setback {
                Setback::Failed(error) => return Err(error.at(self.directory())),
                // The first time does not count as a loss: nobody had used this lock.
                Setback::NoDirectory if made == 0 => {
                    made += 1;
                    Duration::ZERO
                }
                Setback::NoDirectory | Setback::Vanished => {
                    if losses >= requeue.attempts {
                        return Err(deleted_again(&self.target.lock));
                    }
                    losses += 1;
                    requeue.pause(losses - 1)
                }
                Setback::Shared => {
                    if losses >= requeue.attempts {
                        return Err(self.shared());
                    }
                    losses += 1;
                    // Long enough for the next contender to be alone.
                    requeue.pause(losses).max(times::STEP_ASIDE)
                }
                Setback::Interrupted => {
                    interruptions += 1;
                    pause_after(interruptions)
                }
            };
            self.see(None);
            if !pause.is_zero() {
                lane.clock().sleep(pause).await;
            }
        }
    }

    /// Whether the connection is up, and nobody before it is to send first.
    fn may_send(&self, generation: &Generation) -> bool {
        let is_up = generation.coordinator().link() != Link::Down && !generation.is_retired();
        is_up && self.turn.is_none_or(SendTurn::has_come)
    }

    /// Waits until that is so: of a request that was under way when the connection was lost, it may be known only now
    /// whether it has to be sent again. Fails if another generation is to be used.
    async fn may_send_at_last(&self, generation: &Generation) -> Result<(), Setback> {
        while !self.may_send(generation) {
            if !generation.connected().await {
                return Err(Setback::Interrupted);
            }
            if let Some(turn) = self.turn {
                turn.comes().await;
            }
        }
        Ok(())
    }

    /// Does what is done while it has no node, unless another connection serves sooner.
    pub(crate) fn unless_elsewhere<T>(
        &self,
        work: impl Future<Output = Result<T, Setback>>,
    ) -> impl Future<Output = Result<T, Setback>> {
        or(work, async {
            // The inner lock of a semaphore, under which permits are taken, has its node on this connection.
            match self.request.mode {
                Mode::Permit => pending().await,
                _ => Err(Setback::Failed(self.lane_permit.elsewhere().await)),
            }
        })
    }

    /// Waiting for others is boxed: every acquire moves this future, and most have nobody to wait
    /// for.
    pub(crate) async fn enqueue_and_wait(
        &self,
        generation: &Arc<Generation>,
    ) -> Result<Lease, Setback> {
        let mut give_way = None;
        if self.request.counts_first {
            // One future here as well.
            let waited = async {
                self.wait_for_places(generation).await?;
                generation.connected().await.then_some(()).ok_or(Setback::Interrupted)
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
            let obstacle = self.obstacle(generation, &path, 1, Blocked::by(&path));
            let waiting = self.stand_behind(obstacle, None, None, &mut give_way);
            // One future, so that no waiter keeps what is in between.
            let waited = async {
                waiting.await?;
                // The next node of that name may be its own.
                self.see(None);
                generation.connected().await.then_some(()).ok_or(Setback::Interrupted)
            };
            Box::pin(self.unless_elsewhere(waited)).await?;
        };
        let (mut limit, mut since) = (self.target.limit(), Since::Now);
        let mut is_first = true;
        loop {
            // In a block of its own, so that no list is kept while others are waited for.
            let (is_behind, is_long, next) = {
                let first = std::mem::take(&mut is_first);
                let is_behind = first && known.is_some();
                let looked = match known.take() {
                    None => Box::pin(self.list(generation, None, since)).await?,
                    known => known,
                };
                // A node that this server does not show may be visible to others, so it is deleted.
                let Some(looked) = looked else { return Err(Setback::Vanished) };
                if first {
                    let signs = self.signs(&looked);
                    if !signs.is_empty() {
                        let now = || self.lane_permit.lane().clock().now();
                        let old = now() + generation.patience();
                        Box::pin(self.check_kind(generation, signs)).await?;
                        // An answer was missing, and the own node may be gone since the list was read.
                        if now() >= old {
                            continue;
                        }
                    }
                }
                (is_behind, self.is_long(&looked), self.next(generation, &looked, &mine))
            };
            since = Since::Now;
            node.was_behind(next.ahead());
            // Who had to wait for a mutex is promised to hear of a deletion at once. Where no deletion is a grant, nobody
            // watches the own node before.
            if self.request.mode == Mode::Mutex && next.ahead() > 0 {
                node.waited();
            }
            match next {
                Next::Vanished => return Err(Setback::Vanished),
                Next::Grant => {
                    // Only a list that was sent behind the creation, and not asked for again, is of the own
                    // node: in a directory that was made anew, its name may be that of another's.
                    let now = || self.lane_permit.lane().clock().now();
                    let is_own = again_at == Instant::FAR || is_behind && now() < again_at;
                    // No match around the wait, which would keep what is matched: every acquire has this future.
                    let node = match self.grant_at_once(node, is_own) {
                        Ok(lease) => return Ok(lease),
                        Err(node) => node,
                    };
                    return Box::pin(self.grant(generation, node, is_own)).await;
                }
                Next::Wait { obstacle, deletion_grants } => {
                    let node = &mut node;
                    // Two futures, of which the usual one keeps nothing of the obstacle.
                    let woken = if is_long {
                        let waiting =
                            self.stand_far_behind(obstacle, node, deletion_grants, &mut give_way);
                        Box::pin(waiting).await?
                    } else {
                        let (age, own) = (Some(node.age()), deletion_grants.then_some(node));
                        let waiting = self.stand_behind(obstacle, age, own, &mut give_way);
                        Box::pin(waiting).await?
                    };
                    match woken {
                        Woken::Gone if deletion_grants => break,
                        Woken::Gone | Woken::News | Woken::Reconnected => {}
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
        // The one that it waited for was deleted.
        Box::pin(self.grant(generation, node, true)).await
    }

    /// What follows from a list of the directory's children. Only the few names that matter are
    /// kept: a waiter may wait for a long time, and there may be thousands of children.
    fn next(&self, generation: &Arc<Generation>, looked: &Listed, mine: &Contender) -> Next {
        if !looked.others.is_empty() {
            nested::tell(&*self.target.driver, self.directory(), &looked.others, mine);
        }
        // Nobody holds the lock by what it has left, and whoever waits for that should not.
        for name in self.seen.abandoned_among(&looked.queue) {
            let path = self.path_of(&name);
            drop(generation.coordinator().delete(&path));
            self.passed().add(&path);
        }
        let left = self.passed.get().and_then(|passed| passed.left_of(&looked.queue));
        let queue = left.as_ref().unwrap_or(&looked.queue);
        let path_of = |name: &str| self.path_of(name);
        // Only who does not wait asks for it.
        let is_next = |ahead| ahead == 1 || self.request.once && self.is_next(queue, mine);
        match self.target.driver.verdict(queue, mine) {
            Verdict::Missing => Next::Vanished,
            Verdict::Held => Next::Grant,
            Verdict::Wait { predecessor, deletion_grants, ahead } => {
                let head = queue.first().map_or(&predecessor, |head| &head.name);
                let blocked = Blocked::by(&path_of(&predecessor));
                let obstacle = self.obstacle(generation, &path_of(head), ahead, blocked);
                let obstacle = Obstacle { is_next: is_next(ahead), ..obstacle };
                Next::Wait { obstacle, deletion_grants }
            }
            Verdict::WaitForAny { predecessors, ahead } => {
                let head = queue.first().map_or_else(String::new, |head| path_of(&head.name));
                let paths = predecessors.iter().map(|name| path_of(name)).collect();
                let obstacle = self.obstacle(generation, &head, ahead, Blocked::By(paths));
                let obstacle = Obstacle { is_next: is_next(ahead), ..obstacle };
                Next::Wait { obstacle, deletion_grants: false }
            }
            Verdict::Crowded { excess } => {
                let others = self.others(queue, &mine.name);
                // Also the children that are not contenders: the number is compared with the next list.
                let seen = looked.queue.len() + looked.others.len();
                Next::Crowd { seen, others, excess }
            }
        }
    }

    /// Whether all contenders ahead hold the lock: no contender behind a waiter does.
    fn is_next(&self, queue: &[Contender], mine: &Contender) -> bool {
        let before = mine.place_in(queue).and_then(|place| queue.get(place.checked_sub(1)?));
        before.is_some_and(|one| self.target.driver.verdict(queue, one) == Verdict::Held)
    }

    /// The paths of all nodes except `mine`.
    pub(crate) fn others(&self, queue: &[Contender], mine: &str) -> Vec<String> {
        let others = queue.iter().filter(|other| other.name != mine);
        others.map(|other| self.path_of(&other.name)).collect()
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
        head: &str,
        ahead: usize,
        blocked: Blocked,
    ) -> Obstacle {
        let (driver, mode) = (&self.target.driver, self.request.mode);
        let obstacle = Obstacle::new(generation, driver, head, (mode, ahead), blocked);
        let (passed, marks) = (self.passed().clone(), self.target.marks.any());
        Obstacle { passed, marks, ..obstacle }
    }

    /// Where nobody is in the way, and the lock is unavailable all the same.
    pub(crate) fn of_directory(&self, generation: &Arc<Generation>) -> Obstacle {
        let directory = self.directory();
        self.obstacle(generation, directory, 0, Blocked::by(directory))
    }

    pub(crate) fn passed(&self) -> &Passed {
        self.passed.get_or_init(Passed::default)
    }

    pub(crate) fn is_other_lock(&self, stat: &Stat) -> bool {
        nested::is_other_lock(&*self.target.driver, self.request.mode, stat)
    }

    /// Waits until one of the nodes is deleted, or the queue may have changed. Ends an acquire that
    /// does not wait. What a waiter does not need while it waits is boxed: there may be thousands.
    pub(crate) async fn stand_behind(
        &self,
        obstacle: Obstacle,
        age: Option<Age>,
        own: Option<&mut QueuedNode>,
        give_way: &mut Option<Instant>,
    ) -> Result<Woken, Setback> {
        Box::pin(self.check_that_somebody_goes(&obstacle, obstacle.paths(), age)).await?;
        if self.request.once {
            return Box::pin(self.refuse(obstacle, give_way)).await.map(|()| Woken::News);
        }
        self.see(Some(obstacle.clone()));
        let waiting = self.wait_for(&obstacle.generation, obstacle.paths(), own);
        let woken = self.until_anew(waiting).await;
        self.seen.outdate();
        woken.unwrap_or(Ok(Woken::News))
    }

    /// Waits for others, until the queue has to be listed again.
    pub(crate) fn until_anew<T>(
        &self,
        waiting: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        or(async { Some(waiting.await) }, async {
            self.seen.asked_anew().await;
            None
        })
    }

    /// Ends an acquire that does not wait, unless the holder released just now. A lingering holder
    /// releases as soon as it sees this node behind its own; all of them together have the time until
    /// `give_way`. Of several `paths`, one is enough.
    pub(crate) async fn refuse(
        &self,
        obstacle: Obstacle,
        give_way: &mut Option<Instant>,
    ) -> Result<(), Setback> {
        let clock = self.lane_permit.lane().clock();
        let has_time = |until: &Option<Instant>| until.is_none_or(|until| clock.now() < until);
        let may_wait = obstacle.is_next && has_time(give_way);
        let head = [obstacle.head.to_string()];
        let paths = obstacle.paths();
        let paths = if paths.len() > 1 { paths } else { &head };
        let asked = match obstacle.ask().await {
            Ok(busy) if may_wait => {
                let lingers = obstacle.does_linger(&busy, paths).await;
                lingers.map(|lingers| (!lingers).then_some(busy))
            }
            asked => asked.map(Some),
        };
        match asked {
            Ok(None) => {
                let until = *give_way.get_or_insert_with(|| clock.now() + times::GIVE_WAY);
                let gone = self.wait_for(&obstacle.generation, paths, None);
                let limit = Deadline::at(clock.clone(), until);
                limit.bound(gone).await.map_or(Ok(()), |looked| looked.map(drop))
            }
            Ok(Some(busy)) => Err(Setback::Failed(busy)),
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
        Box::pin(generation.pause(pause_after(3))).await;
        Ok(())
    }
}
