//! The acquire loop: the only place that waits in ZooKeeper's queue.
//!
//! ```text
//! create ‖ list ── nobody ahead ──────────────────────────────► grant, if the lease clock allows
//!                └ somebody ahead ─ watch the one ahead ─ gone ─► grant or list again
//! ```
//!
//! Whatever is dropped on the way (a creation that is not answered, a node in the queue) deletes
//! itself, so a future that is dropped at any await leaves nothing behind.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

use crate::contender::{Attempt, Contender, LAST_SAFE_SEQUENCE};
use crate::coordinator::{Link, NodeKind, RequestError, Watch, WatchEvent};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Holder, LockError};
use crate::lease::{Lease, QueuedNode};
use crate::mode::Mode;
use crate::owner::Owner;
use crate::path::ZnodePath;
use crate::policy::RetryPolicy;
use crate::recipe::driver::{LockDriver, Proof, unread, unsupported};
use crate::recipe::verdict::Verdict;
use crate::session::generation::Generation;
use crate::session::lane::Ride;
use crate::session::releaser::{Birth, Deletion};

/// What is to be acquired.
#[derive(Clone, Debug)]
pub struct Target {
    /// The lock's name.
    pub lock: Arc<str>,
    /// Its directory.
    pub directory: ZnodePath,
    /// Who asks, as other processes see it.
    pub app: Option<Arc<str>>,
    /// How it is laid out, and the rule.
    pub driver: Arc<dyn LockDriver>,
    /// What to do when nodes vanish.
    pub vanished: RetryPolicy,
    /// Of a semaphore: its limit, as it changes.
    pub limit: Option<watch::Receiver<u32>>,
}

/// Who is in the way in ZooKeeper's queue, as the acquire loop last saw it.
#[derive(Clone, Debug)]
pub struct Obstacle {
    generation: Arc<Generation>,
    driver: Arc<dyn LockDriver>,
    head: Arc<str>,
    ahead: usize,
}

impl Obstacle {
    /// Asks ZooKeeper about the holder: one read.
    ///
    /// # Errors
    ///
    /// Whatever the read says; [`RequestError::NoNode`] if the holder went just now.
    pub async fn ask(&self) -> Result<Holder, RequestError> {
        let (data, _) = self.generation.coordinator().get(&self.head).await?;
        let node = self.head.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Holder { owner: self.driver.owner(&node, &data), node, ahead: self.ahead })
    }
}

/// The obstacle, shared with those who want to know.
pub type Seen = Arc<Mutex<Option<Obstacle>>>;

/// How an acquire behaves.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// In which way the lock is wanted.
    pub mode: Mode,
    /// Whether it waits for ZooKeeper's answers only, and for nobody else.
    pub once: bool,
    /// Whether its node may be kept for a while after the last release; it says so.
    pub lingers: bool,
}

/// How long a holder that only lingers has to give way to somebody who does not wait.
const GIVE_WAY: Duration = Duration::from_millis(100);

/// The most watches of a ZooKeeper session.
const MOST_WATCHES: usize = 1_000;

/// How long a waiter without a watch rests between two looks, at least and at most: a quarter of
/// the session timeout.
const SLOW_LOOK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Acquires a lock: waits for as long as it takes, or only for ZooKeeper's answers.
/// Says in `seen` who is in the way.
///
/// # Cancel safety
///
/// Dropping the future gives up the place in the queue; the node is deleted in the background.
pub async fn acquire(
    target: &Target,
    ride: &Ride,
    how: How,
    seen: &Seen,
) -> Result<Lease, LockError> {
    Drive { target, ride, how, seen }.run().await.map_err(|error| error.on(target.lock.clone()))
}

/// Why one run through the queue ended without the lock.
enum Setback {
    /// The directory did not exist and was made.
    NoDirectory,
    /// The directory, or our node in it, vanished.
    Vanished,
    /// The session ended or the node was lost on the way: worth another try, uncounted.
    Interrupted,
    /// For good.
    Failed(LockError),
}

/// What became of making a node.
enum Enqueued {
    /// It is in the queue; the list, if it is known to be newer.
    Mine(QueuedNode, Contender, Option<Vec<String>>),
    /// There is only one, at this path, and it is another's.
    Taken(String),
}

struct Drive<'a> {
    target: &'a Target,
    ride: &'a Ride,
    how: How,
    seen: &'a Seen,
}

impl Drive<'_> {
    async fn run(&self) -> Result<Lease, LockError> {
        let (lane, vanished) = (self.ride.lane(), &self.target.vanished);
        let (mut made, mut losses, mut interruptions) = (0, 0, 0);
        loop {
            let generation = lane.ready().await?;
            connected(&generation).await;
            let pause = match self.enqueue_and_wait(&generation).await {
                Ok(lease) => return Ok(lease),
                Err(Setback::Failed(error)) => return Err(error),
                // The first time it is no loss: nobody had used this lock.
                Err(Setback::NoDirectory) if made == 0 => {
                    made += 1;
                    Duration::ZERO
                }
                Err(Setback::NoDirectory | Setback::Vanished) => {
                    if losses >= vanished.attempts {
                        return Err(LockError::new(
                            ErrorKind::Unavailable,
                            "the lock's directory or node was removed again and again",
                        ));
                    }
                    losses += 1;
                    vanished.pause(losses - 1)
                }
                Err(Setback::Interrupted) => {
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

    async fn enqueue_and_wait(&self, generation: &Arc<Generation>) -> Result<Lease, Setback> {
        let mut gave_way = false;
        let (node, mine, mut children) = loop {
            match self.enqueue(generation).await? {
                Enqueued::Mine(node, mine, children) => break (node, mine, children),
                Enqueued::Taken(path) => {
                    let waiting_for = [path.clone()];
                    let obstacle = self.obstacle(generation, path, 1);
                    self.stand_behind(obstacle, &waiting_for, &mut gave_way).await?;
                }
            }
        };
        self.ride.arrived();
        let mut limit = self.target.limit.clone();
        loop {
            let listed = match children.take() {
                Some(listed) => listed,
                None => match generation.coordinator().children(self.directory()).await {
                    Ok(listed) => listed,
                    Err(RequestError::NoNode) => {
                        node.forget();
                        return Err(Setback::Vanished);
                    }
                    Err(error) => {
                        self.after(generation, error).await?;
                        continue;
                    }
                },
            };
            let queue = self.target.driver.queue(&listed);
            match self.target.driver.verdict(&queue, &mine) {
                Verdict::Missing => {
                    node.forget();
                    return Err(Setback::Vanished);
                }
                Verdict::Held => return self.grant(generation, node).await,
                Verdict::Wait { predecessor, deletion_grants, ahead } => {
                    let head = queue.first().map_or(&predecessor, |head| &head.name);
                    let obstacle = self.obstacle(generation, self.path_of(head), ahead);
                    let waiting_for = [self.path_of(&predecessor)];
                    let gone = self.stand_behind(obstacle, &waiting_for, &mut gave_way).await?;
                    if gone && deletion_grants {
                        return self.grant(generation, node).await;
                    }
                }
                Verdict::WaitForAny { predecessors, ahead } => {
                    let paths: Vec<_> =
                        predecessors.iter().map(|name| self.path_of(name)).collect();
                    let Some(head) = queue.first() else { continue };
                    let obstacle = self.obstacle(generation, self.path_of(&head.name), ahead);
                    self.stand_behind(obstacle, &paths, &mut gave_way).await?;
                }
                Verdict::Crowded { excess } => {
                    let others = queue.iter().find(|other| other.name != mine.name);
                    let head = others.map(|other| self.path_of(&other.name)).unwrap_or_default();
                    let obstacle = self.obstacle(generation, head, excess);
                    if self.how.once {
                        self.refuse(obstacle, false).await?;
                        continue;
                    }
                    self.see(Some(obstacle));
                    children = self.wait_for_room(generation, listed.len(), &mut limit).await?;
                }
            }
        }
    }

    fn directory(&self) -> &str {
        self.target.directory.as_str()
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.directory())
    }

    fn obstacle(&self, generation: &Arc<Generation>, head: String, ahead: usize) -> Obstacle {
        let (generation, driver) = (generation.clone(), self.target.driver.clone());
        Obstacle { generation, driver, head: head.into(), ahead }
    }

    /// Waits until one of the nodes is gone (answers true) or another look is worth while (false).
    /// Ends an acquire that does not wait.
    async fn stand_behind(
        &self,
        obstacle: Obstacle,
        paths: &[String],
        gave_way: &mut bool,
    ) -> Result<bool, Setback> {
        if self.how.once {
            let may_wait = obstacle.ahead == 1 && !std::mem::replace(gave_way, true);
            return self.refuse(obstacle, may_wait).await.map(|()| false);
        }
        let generation = obstacle.generation.clone();
        self.see(Some(obstacle));
        self.wait_for(&generation, paths).await
    }

    /// Makes a node in the queue, and the directory if need be. One flight when all is well.
    async fn enqueue(&self, generation: &Arc<Generation>) -> Result<Enqueued, Setback> {
        let (driver, mode) = (&self.target.driver, self.how.mode);
        if !driver.supports(mode) {
            return Err(Setback::Failed(unsupported(&**driver, mode)));
        }
        let owner = Owner::here(self.target.app.as_deref()).lingering(self.how.lingers);
        let new = driver.node(&Attempt::new(), mode, &owner);
        new.check(&**driver).map_err(Setback::Failed)?;
        let (recurring, kind) = (new.proof != Proof::Name, new.kind);
        let only = (kind == NodeKind::Ephemeral).then(|| new.prefix.clone());
        let birth = Birth::send(generation, self.directory(), new);
        // Where there is one node only, there is nothing to list.
        let listing = (only.is_none() && birth.is_sent())
            .then(|| generation.coordinator().children(self.directory()));
        let created = match birth.await {
            Ok(created) => created,
            Err(RequestError::NoNode) => {
                self.make_directory(generation).await?;
                return Err(Setback::NoDirectory);
            }
            Err(RequestError::NodeExists) => match only {
                Some(name) => return Ok(Enqueued::Taken(self.path_of(&name))),
                // Past the end ZooKeeper gives the last number again and again.
                None => return Err(self.exhausted(i64::from(i32::MAX))),
            },
            Err(error) => return Err(setback(error)),
        };
        let czxid = created.stat.czxid;
        let node = QueuedNode::new(generation.clone(), created.path.into(), czxid)
            .recurring(recurring)
            .with_directory(driver.removes_directory());
        let mine = driver.parse(node.name()).filter(|mine| mine.name == node.name());
        let Some(mine) = mine else {
            return Err(Setback::Failed(unread(&**driver, node.name())));
        };
        // A name may not tell a writer from a mutex.
        let mine = Contender { mode, ..mine };
        if !(0..LAST_SAFE_SEQUENCE).contains(&mine.sequence) {
            return Err(self.exhausted(mine.sequence));
        }
        let children = match (listing, only) {
            (_, Some(name)) => Some(vec![name]),
            // A list from before the node was found again says nothing.
            (Some(listing), None) => listing.await.ok().filter(|names| names.contains(&mine.name)),
            (None, None) => None,
        };
        Ok(Enqueued::Mine(node, mine, children))
    }

    fn exhausted(&self, sequence: i64) -> Setback {
        Setback::Failed(LockError::new(
            ErrorKind::Exhausted,
            format!(
                "the sequence numbers of {} are nearly used up (at {sequence} of 2147483647); let \
                 the directory run empty so that it is removed and begins again at 0: stop its \
                 users for a minute, or delete the empty node",
                self.directory()
            ),
        ))
    }

    async fn make_directory(&self, generation: &Arc<Generation>) -> Result<(), Setback> {
        let mut missing = Vec::new();
        for path in self.target.directory.ancestors_and_self().collect::<Vec<_>>().into_iter().rev()
        {
            match generation.create(path, &[], self.target.driver.directory()).await {
                Ok(_) | Err(RequestError::NodeExists) => break,
                Err(RequestError::NoNode) => missing.push(path),
                Err(error) => return Err(setback(error)),
            }
        }
        if missing.len() == self.target.directory.ancestors_and_self().count() {
            return Err(Setback::Failed(LockError::new(
                ErrorKind::NoChroot,
                "the chroot of the connect string no longer exists",
            )));
        }
        for path in missing.into_iter().rev() {
            match generation.create(path, &[], self.target.driver.directory()).await {
                Ok(_) | Err(RequestError::NodeExists) => {}
                // Removed again in between: begin anew.
                Err(RequestError::NoNode) => return Ok(()),
                Err(error) => return Err(setback(error)),
            }
        }
        Ok(())
    }

    /// Grants the lock if the lease clock allows it; otherwise a commit must be answered first.
    async fn grant(
        &self,
        generation: &Arc<Generation>,
        mut node: QueuedNode,
    ) -> Result<Lease, Setback> {
        loop {
            node = match node.grant(&self.target.lock) {
                Ok(lease) => return Ok(lease),
                Err(node) => node,
            };
            match generation.check([node.path().clone()]).await {
                Ok(()) => {}
                Err(RequestError::Multi { error, .. }) if *error == RequestError::NoNode => {
                    node.forget();
                    return Err(Setback::Vanished);
                }
                Err(error) => self.after(generation, error).await?,
            }
        }
    }

    /// Waits until there are other children than so many, or something else happened that makes
    /// another look worth while.
    async fn wait_for_room(
        &self,
        generation: &Arc<Generation>,
        seen: usize,
        limit: &mut Option<watch::Receiver<u32>>,
    ) -> Result<Option<Vec<String>>, Setback> {
        let Some(_watching) = generation.room_for_watches(1, MOST_WATCHES) else {
            self.pass_time(generation).await;
            return Ok(None);
        };
        let watched = generation.coordinator().children_watched(self.directory()).await;
        let watch = match watched {
            Ok((children, watch)) if children.len() == seen => watch,
            Ok((children, _)) => return Ok(Some(children)),
            Err(RequestError::NoNode) => return Ok(None),
            Err(error) => {
                self.after(generation, error).await?;
                return Ok(None);
            }
        };
        self.watch(generation, vec![watch], limit).await.map(|_| None)
    }

    /// Waits until one of the nodes is gone (answers true) or something happened that makes another
    /// look at the queue worth while (false).
    async fn wait_for(
        &self,
        generation: &Arc<Generation>,
        paths: &[String],
    ) -> Result<bool, Setback> {
        let Some(_watching) = generation.room_for_watches(paths.len(), MOST_WATCHES) else {
            self.pass_time(generation).await;
            return Ok(false);
        };
        let asked: Vec<_> =
            paths.iter().map(|path| generation.coordinator().get_watched(path)).collect();
        let mut watches = Vec::with_capacity(asked.len());
        for reply in asked {
            match reply.await {
                Ok((_, _, watch)) => watches.push(watch),
                Err(RequestError::NoNode) => return Ok(false),
                Err(error) => {
                    self.after(generation, error).await?;
                    return Ok(false);
                }
            }
        }
        self.watch(generation, watches, &mut None).await
    }

    /// Waits without a watch, because there are too many: another look after a while will do.
    async fn pass_time(&self, generation: &Arc<Generation>) {
        let pause = generation.lease().timeout() / 4;
        let clock = self.ride.lane().clock();
        let timer = clock.sleep_until(clock.now() + pause.clamp(SLOW_LOOK.0, SLOW_LOOK.1));
        futures_lite::future::or(timer, generation.changed()).await;
    }

    /// Waits until one of the watches tells of a deletion (answers true), of something else, or another look
    /// is worth while for other reasons (false).
    async fn watch(
        &self,
        generation: &Arc<Generation>,
        mut watches: Vec<Watch>,
        limit: &mut Option<watch::Receiver<u32>>,
    ) -> Result<bool, Setback> {
        let reconnects = generation.reconnects();
        // Watches were seen to be lost; a slow look now and then costs little.
        let (clock, poll_every) = (self.ride.lane().clock(), generation.lease().timeout());
        let mut poll = clock.sleep_until(clock.now() + poll_every.max(Duration::from_secs(5)));
        loop {
            let mut changed = pin!(generation.changed());
            changed.as_mut().enable();
            if generation.is_retired() {
                return Err(Setback::Interrupted);
            }
            if generation.reconnects() != reconnects {
                return Ok(false);
            }
            let event = poll_fn(|cx| {
                for watch in &mut watches {
                    if let Poll::Ready(event) = watch.as_mut().poll(cx) {
                        return Poll::Ready(Some(Ok(event)));
                    }
                }
                if Pin::new(&mut poll).poll(cx).is_ready() {
                    return Poll::Ready(Some(Err(())));
                }
                if let Some(limit) = limit.as_mut()
                    && pin!(limit.changed()).poll(cx).is_ready()
                {
                    return Poll::Ready(Some(Err(())));
                }
                changed.as_mut().poll(cx).map(|()| None)
            })
            .await;
            match event {
                Some(Ok(WatchEvent::Deleted)) => return Ok(true),
                Some(Ok(WatchEvent::Changed) | Err(())) => return Ok(false),
                Some(Ok(WatchEvent::SessionEnded)) => return Err(Setback::Interrupted),
                None => {}
            }
        }
    }

    /// Ends an acquire that does not wait, unless the holder went just now. One that only lingers
    /// goes as soon as it sees our node behind it.
    async fn refuse(&self, obstacle: Obstacle, may_wait: bool) -> Result<(), Setback> {
        match obstacle.ask().await {
            Ok(holder) if holder.owner.linger && may_wait => {
                let limit = Deadline::after(self.ride.lane().clock().clone(), GIVE_WAY);
                let head = [obstacle.head.to_string()];
                let gone = self.wait_for(&obstacle.generation, &head);
                limit.bound(gone).await.map_or(Ok(()), |looked| looked.map(drop))
            }
            Ok(holder) => {
                let busy = LockError::new(ErrorKind::Busy, "").held_by(Some(holder));
                Err(Setback::Failed(busy))
            }
            Err(RequestError::NoNode) => Ok(()),
            Err(error) => self.after(&obstacle.generation, error).await,
        }
    }

    fn see(&self, obstacle: Option<Obstacle>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = obstacle;
    }

    /// After a failed read: final, or worth another look once the connection is back.
    async fn after(
        &self,
        generation: &Arc<Generation>,
        error: RequestError,
    ) -> Result<(), Setback> {
        if generation.is_retired() || error.is_definite() || error.ends_session() {
            return Err(setback(error));
        }
        let clock = self.ride.lane().clock();
        let timer = clock.sleep_until(clock.now() + RetryPolicy::default().pause(3));
        futures_lite::future::or(timer, generation.changed()).await;
        Ok(())
    }
}

/// Makes a reader's node beside that of a writer who holds the lock, with the same number, and
/// grants it. `None` if the lease of the writer is lost before.
///
/// # Errors
///
/// [`ErrorKind::Unauthorized`] if the server refuses the node.
pub async fn stand_in(target: &Target, writer: &Lease) -> Result<Option<Lease>, LockError> {
    let (generation, driver) = (writer.generation(), &target.driver);
    let Some(number) = driver.parse(writer.node_name()) else { return Ok(None) };
    let owner = Owner::here(target.app.as_deref());
    let new = driver.node(&Attempt::new(), Mode::Read, &owner);
    let path = format!("{}/{}{:010}", target.directory.as_str(), new.prefix, number.sequence);
    let mut in_doubt = false;
    loop {
        if !writer.is_valid() {
            if in_doubt {
                drop(Deletion::send(generation, path.into()));
            }
            return Ok(None);
        }
        let made = match generation.create(&path, &new.payload, NodeKind::Ephemeral).await {
            Ok(created) => created.stat.czxid,
            // Ours, from a try that was not answered.
            Err(RequestError::NodeExists) => match generation.coordinator().get(&path).await {
                Ok((_, stat)) => stat.czxid,
                Err(_) => continue,
            },
            Err(error) if error.is_definite() => {
                let why = "the server refuses the reader's node";
                return Err(LockError::new(ErrorKind::Unauthorized, why)
                    .because(error)
                    .on(target.lock.clone()));
            }
            Err(_) => {
                in_doubt = true;
                let clock = generation.lease().clock();
                let timer = clock.sleep_until(clock.now() + RetryPolicy::default().pause(3));
                futures_lite::future::or(timer, generation.changed()).await;
                continue;
            }
        };
        let node = QueuedNode::new(generation.clone(), path.as_str().into(), made);
        // Without a lease the node deletes itself.
        return Ok(node.succeed(&target.lock, writer).ok());
    }
}

/// Waits until the connection is up: what is sent while it is down would be created after the
/// reconnect even for those who have given up.
async fn connected(generation: &Arc<Generation>) {
    while generation.coordinator().link() == Link::Down {
        generation.coordinator().link_changed(Link::Down).await;
    }
}

fn setback(error: RequestError) -> Setback {
    let failed =
        |kind, detail: String| Setback::Failed(LockError::new(kind, detail).because(error.clone()));
    match &error {
        RequestError::NoNode => Setback::Vanished,
        RequestError::NoAuth | RequestError::InvalidAcl | RequestError::AuthFailed => {
            failed(ErrorKind::Unauthorized, error.to_string())
        }
        RequestError::QuotaExceeded => failed(ErrorKind::Unavailable, error.to_string()),
        RequestError::BadArguments(_) => failed(ErrorKind::InvalidName, error.to_string()),
        RequestError::NoChildrenForEphemerals => failed(
            ErrorKind::InvalidName,
            "the directory of the lock is an ephemeral node, which has no children".to_owned(),
        ),
        _ => Setback::Interrupted,
    }
}
