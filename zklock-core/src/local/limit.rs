//! The limit of a semaphore: a number, or the contents of a node.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_lite::future::or;
use tokio::sync::{Notify, watch};

use crate::acquire::making::{self, Made, no_chroot};
use crate::acquire::setback::{Setback, refused, setback};
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::policy::pause_after;
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::coordinator::node::NodeKind;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::name::path::ZnodePath;
use crate::session::generation::Generation;
use crate::session::handle::Session;
use crate::session::lane::{LanePermit, Status, closed};
use crate::session::releaser::{more, or_forgotten};

/// The source of a limit. All users of a semaphore in one process must give the same.
#[derive(Clone, Debug)]
pub enum LimitSource {
    /// This number.
    Fixed(u32),
    /// The number in this node; if the node does not exist, it is created with this number.
    Node(ZnodePath, u32),
}

/// The number of permits.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Its source.
    pub source: LimitSource,
    /// Its changes, if it can change.
    pub changes: Option<watch::Receiver<u32>>,
    /// The node whose data tell it to others, as decimal text.
    said: Option<ZnodePath>,
    now: Arc<AtomicU32>,
    /// Whether a limit in a node was read.
    read: Arc<AtomicBool>,
    unread: Arc<Unread>,
}

/// Why a limit in a node was not read.
#[derive(Debug, Default)]
struct Unread {
    why: Mutex<Option<LockError>>,
    /// That it is asked for, and to be looked at again.
    asked: Notify,
}

impl Unread {
    fn why(&self) -> MutexGuard<'_, Option<LockError>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limit {
    /// The limit of a source, and who reads it where it is in a node. If it is `said`, that node tells it to
    /// others.
    pub fn of(
        session: &Session,
        source: LimitSource,
        said: Option<ZnodePath>,
    ) -> (Self, Option<Follower>) {
        let (read, unread) = <(Arc<AtomicBool>, Arc<Unread>)>::default();
        match &source {
            LimitSource::Fixed(limit) => {
                let now = Arc::new(AtomicU32::new(*limit));
                (Limit { now, changes: None, read, unread, source, said }, None)
            }
            LimitSource::Node(path, initial) => {
                // No permit is granted before the limit is known.
                let now = Arc::new(AtomicU32::new(0));
                let (tell, changes) = watch::channel(0);
                let follower = Follower {
                    session: session.clone(),
                    path: path.clone(),
                    initial: *initial,
                    now: now.clone(),
                    read: read.clone(),
                    unread: unread.clone(),
                    tell,
                };
                let limit = Limit { now, changes: Some(changes), read, unread, source, said };
                (limit, Some(follower))
            }
        }
    }

    /// The present limit, 0 while it is not known.
    pub fn now(&self) -> u32 {
        self.now.load(Ordering::Acquire)
    }

    /// The present limit, unless its node was not read yet.
    pub fn read(&self) -> Option<u32> {
        let is_known =
            !matches!(self.source, LimitSource::Node(..)) || self.read.load(Ordering::Acquire);
        is_known.then(|| self.now())
    }

    /// Waits until the limit is known and is the same for all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] if the node contains no number and never did, or another number
    /// than this process uses; also the error of a request that ZooKeeper refuses.
    pub async fn known(&self, lane_permit: &LanePermit) -> Result<(), LockError> {
        if let Some(path) = &self.said {
            return agree(lane_permit, path, self.now()).await;
        }
        if self.read.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(mut changes) = self.changes.clone() else { return Ok(()) };
        // What was refused before may have been mended since.
        changes.mark_unchanged();
        self.unread.asked.notify_one();
        while !self.read.load(Ordering::Acquire) {
            let told = async { changes.changed().await.map_err(|_| closed()) };
            let refused = async {
                let mut status = lane_permit.lane().status();
                let is_refused = |now: &Status| matches!(now, Status::Refused(_) | Status::Closed);
                match status.wait_for(is_refused).await.as_deref() {
                    Ok(Status::Refused(error)) => Err(error.clone()),
                    _ => Err(closed()),
                }
            };
            or(told, refused).await?;
            if let Some(why) = self.unread.why().clone() {
                return Err(why);
            }
        }
        Ok(())
    }

    /// The same number, shared.
    pub fn shared(&self) -> Arc<AtomicU32> {
        self.now.clone()
    }
}

/// Reads the number of Curator's `SharedCount`: four bytes, big endian.
fn read(data: &[u8]) -> Option<u32> {
    let number = i32::from_be_bytes(data.try_into().ok()?);
    u32::try_from(number).ok()
}

/// Writes the number of Curator's `SharedCount`.
fn written(limit: u32) -> [u8; 4] {
    i32::try_from(limit).unwrap_or(i32::MAX).to_be_bytes()
}

/// The contents of a node in kazoo's layout.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Limit(i64),
    /// Data that are not a limit.
    Other,
}

impl Said {
    /// By the rules of Python's `int`.
    fn read(data: &[u8]) -> Said {
        if data.is_empty() {
            return Said::Nothing;
        }
        let number = str::from_utf8(data).ok().and_then(|text| text.trim().parse().ok());
        number.map_or(Said::Other, Said::Limit)
    }
}

/// How often the nodes above that of a limit are created again. If one is still missing then, the acquire
/// that follows reports it.
const MOST_REMOVED: u32 = 20;

/// Makes the data of a node contain the limit, like kazoo's `Semaphore`. kazoo writes the number
/// when it creates the node, compares it when the node exists, and ignores data that are not a
/// number; between creating and writing, its node is empty, and a client that comes then does not
/// compare. Here the number is written whenever there is none, and compared each time. That the chroot is
/// missing is left to the acquire that follows, which tells it.
async fn agree(lane_permit: &LanePermit, path: &ZnodePath, limit: u32) -> Result<(), LockError> {
    let (text, mut removed, mut may_write) = (limit.to_string(), 0, true);
    let mut patience = Duration::ZERO;
    loop {
        let generation = lane_permit.ready().await?;
        let coordinator = generation.coordinator();
        patience = patience.max(generation.patience());
        let outcome = match coordinator.get(path.as_str()).await {
            Ok((data, stat)) => match Said::read(&data) {
                Said::Limit(said) if said == i64::from(limit) => return Ok(()),
                Said::Limit(said) => {
                    let why = format!(
                        "the semaphore has {said} permits in ZooKeeper, and this process uses the \
                         limit {limit}; all processes must use the same one"
                    );
                    let error = LockError::new(ErrorKind::InvalidOption, why);
                    return Err(error.aside(format!("the data of {path}")));
                }
                Said::Other => return Ok(()),
                // Whoever may use the semaphore and not write there leaves it as it is, as kazoo does: it writes into
                // no node that exists.
                Said::Nothing if !may_write => return Ok(()),
                Said::Nothing => {
                    match fill(&generation, patience, path, stat.version, text.as_bytes()).await {
                        Err(RequestError::NoAuth) => {
                            // Others may have written meanwhile: compare.
                            may_write = false;
                            Ok(())
                        }
                        filled => filled,
                    }
                }
            },
            Err(RequestError::NoNode) => {
                match make(&generation, path, text.as_bytes()).await {
                    // Those who made a node above it and did not use it have removed that: it is made again.
                    Ok(Made::Removed) if removed < MOST_REMOVED => {
                        removed += 1;
                        Ok(())
                    }
                    Ok(Made::There) => Ok(()),
                    Ok(Made::Removed | Made::NoChroot) => Err(RequestError::NoNode),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match outcome {
            // Another client may have created it at the same time: compare.
            Ok(()) => {}
            // The acquire that follows is refused as well; but if that is allowed again by then, nothing was
            // compared.
            Err(error) => match refused(error.clone()) {
                Some(refused) => return Err(refused),
                None if error.is_definite() => return Ok(()),
                None => {
                    patience = more(&generation, patience);
                    generation.pause(pause_after(4)).await;
                }
            },
        }
    }
}

/// Writes these data into a node that has none, unless another client has written its own or deleted the
/// node meanwhile, which the next look shows. So it does whether a write without an answer was applied.
async fn fill(
    generation: &Arc<Generation>,
    patience: Duration,
    path: &ZnodePath,
    version: i32,
    data: &[u8],
) -> Result<(), RequestError> {
    let (path, data) = (path.to_string(), data.to_vec());
    let written = generation.write(vec![Operation::Replace { path, data, version }]);
    match or_forgotten(generation, patience, written).await {
        Err(RequestError::Multi { error, .. }) => match *error {
            RequestError::BadVersion | RequestError::NoNode => Ok(()),
            error => Err(error),
        },
        written => written,
    }
}

/// Creates a node with these data, and the nodes above it.
async fn make(
    generation: &Arc<Generation>,
    path: &ZnodePath,
    data: &[u8],
) -> Result<Made, RequestError> {
    let create = |above: &str| {
        let data = if above == path.as_str() { data } else { &[] };
        let created = generation.create(above, data, NodeKind::Persistent);
        async { created.await.map(drop) }
    };
    making::make(path, create).await
}

/// Reads a limit in a node, once it is started.
#[derive(Debug)]
pub struct Follower {
    session: Session,
    path: ZnodePath,
    initial: u32,
    now: Arc<AtomicU32>,
    read: Arc<AtomicBool>,
    unread: Arc<Unread>,
    tell: watch::Sender<u32>,
}

impl Follower {
    /// Begins. In an embedded session it reads at once, and what it creates may wake anybody.
    pub fn start(self) {
        let spawner = self.session.spawner().clone();
        spawner.spawn(self.run());
    }

    /// Until nobody needs the limit any more.
    async fn run(self) {
        let done = self.tell.closed();
        or(done, async {
            // The session that read the limit last.
            let mut read_by = None;
            loop {
                // The permit is not kept, with which its lane would never be idle.
                let (lane, ready) = {
                    let served = self.session.served();
                    (served.lane().clone(), served.ready().await)
                };
                let generation = match ready {
                    Ok(generation) => generation,
                    Err(_) if self.session.is_closing() => return,
                    // Another lane has a session, and this one has none.
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        lane.clock().sleep(times::FAILED_FOLLOW).await;
                        continue;
                    }
                    // A person must mend it; the lane tries again now and then.
                    Err(_) => {
                        let mut status = lane.status();
                        let is_mended = |now: &Status| !matches!(now, Status::Refused(_));
                        drop(status.wait_for(is_mended).await);
                        continue;
                    }
                };
                match self.look(&generation, &mut read_by).await {
                    Ok(()) => {}
                    Err(Setback::Failed(error)) => {
                        let why = error.aside(format!("the limit in {}", self.path));
                        self.tell_why(why);
                        or(generation.pause(generation.slow_look()), self.asked()).await;
                    }
                    Err(_) => generation.pause(pause_after(4)).await,
                }
            }
        })
        .await;
    }

    /// Tells those who ask for the limit why there is none. One that was read stays in force.
    fn tell_why(&self, why: LockError) {
        unharmed(|| tracing::debug!(%why, "the limit of a semaphore could not be read"));
        if !self.read.load(Ordering::Acquire) {
            *self.unread.why() = Some(why);
            self.tell.send_replace(0);
        }
    }

    /// Waits until somebody asks for the limit who does not know one.
    async fn asked(&self) {
        if self.read.load(Ordering::Acquire) {
            std::future::pending().await
        }
        self.unread.asked.notified().await;
    }

    /// Reads the node, and waits until it may have changed. What another session has `read_by` then may be newer than
    /// what the server of this one shows, so that has to catch up.
    async fn look(
        &self,
        generation: &Arc<Generation>,
        read_by: &mut Option<i64>,
    ) -> Result<(), Setback> {
        let (path, session) = (self.path.as_str(), generation.coordinator().session_id());
        let another = read_by.is_some_and(|before| before != session);
        let watching = generation.watches().take([path]);
        let looked = if watching.is_some() {
            let read = |server: &dyn Coordinator, path: &str| server.get_watched(path);
            let looked = generation.unless_over(sent(generation, path, another, read)).await;
            looked.map(|(data, _, watch)| (data, Some(watch)))
        } else {
            let read = |server: &dyn Coordinator, path: &str| server.get(path);
            let looked = generation.unless_over(sent(generation, path, another, read)).await;
            looked.map(|(data, _)| (data, None))
        };
        match looked {
            Ok((data, watch)) => {
                *read_by = Some(session);
                match read(&data) {
                    Some(limit) => {
                        self.now.store(limit, Ordering::Release);
                        *self.unread.why() = None;
                        let is_first = !self.read.swap(true, Ordering::AcqRel);
                        // Whoever waits lists the queue again.
                        self.tell.send_if_modified(|told| {
                            std::mem::replace(told, limit) != limit || is_first
                        });
                    }
                    None => {
                        unharmed(|| {
                            tracing::warn!(
                                path,
                                "the limit of a semaphore cannot be read: its node \
                                 must have four bytes, big endian"
                            );
                        });
                        self.tell_why(malformed());
                    }
                }
                let mut changed = std::pin::pin!(generation.changed());
                changed.as_mut().enable();
                // Without room for a watch, the node is read again from time to time; with one, too,
                // because a notification may be lost.
                let again = match watch {
                    Some(_) => generation.long_wait(),
                    None => generation.slow_look(),
                };
                let slowly = self.session.clock().sleep(again);
                let fired = async {
                    match watch {
                        Some(watch) => drop(watch.await),
                        None => std::future::pending().await,
                    }
                };
                or(fired, or(changed, or(slowly, self.asked()))).await;
                Ok(())
            }
            Err(RequestError::NoNode) => {
                let made = make(generation, &self.path, &written(self.initial)).await;
                match made.map_err(setback)? {
                    Made::There => Ok(()),
                    Made::Removed => Err(Setback::Vanished),
                    Made::NoChroot => Err(Setback::Failed(no_chroot())),
                }
            }
            Err(error) => Err(setback(error)),
        }
    }
}

/// Sends a read, which shows what the leader knows if it is `synced`.
fn sent<T: Send + 'static>(
    generation: &Arc<Generation>,
    path: &str,
    synced: bool,
    read: fn(&dyn Coordinator, &str) -> Reply<T>,
) -> Reply<T> {
    if synced { generation.synced(path, read) } else { read(&**generation.coordinator(), path) }
}

/// The error if the data of the node are not a limit.
fn malformed() -> LockError {
    LockError::new(
        ErrorKind::InvalidOption,
        "the data of the limit's node are not a number; accepted are four bytes, big endian, as \
         Curator's SharedCount writes them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_written_as_curators_shared_count() {
        assert_eq!(written(3), [0, 0, 0, 3]);
        assert_eq!(read(&[0, 0, 1, 0]), Some(256));
        assert_eq!(read(&written(u32::MAX)), Some(i32::MAX as u32));
        for wrong in [&b""[..], b"3", b"abc", b"abcde", &[0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_data_of_kazoos_node_is_read_as_python_reads_it() {
        for (data, said) in [
            (&b"3"[..], Said::Limit(3)),
            (b" 12\n", Said::Limit(12)),
            (b"-1", Said::Limit(-1)),
            (b"", Said::Nothing),
            (b"three", Said::Other),
            (b"\xff\xfe", Said::Other),
            (b"{\"limit\":3}", Said::Other),
        ] {
            assert_eq!(Said::read(data), said, "{data:?}");
        }
    }
}
