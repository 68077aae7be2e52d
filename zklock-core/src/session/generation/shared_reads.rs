//! Shared reads: one read of a node, or one list of a directory, for all that ask about it at the same
//! time, over one ZooKeeper session.
//!
//! Thousands of callers of a process may wait for one lock, and ask who holds it when their time is
//! over. If each sent a read of its own, these reads would delay each other, and ZooKeeper would look
//! silent although it answers.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::Generation;
use super::listing::{Listed, Listing};
use crate::base::clock::Instant;
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;
use crate::layout::driver::LockDriver;

/// What is read of a node.
type Node = Result<(Arc<[u8]>, Stat), RequestError>;

/// Those who wait for an answer; `None` once it is there.
type Waiting<T> = Option<Vec<Sender<T>>>;

/// The same, shared.
type Asking<T> = Mutex<Waiting<T>>;

/// By the path of the node: when it was asked about, and who waits for the answer.
type Asked<T> = HashMap<Box<str>, (Instant, Weak<Asking<T>>)>;

/// The latest question about each node that is not answered, and when it was sent.
#[derive(Debug)]
pub(super) struct SharedReads<T>(Mutex<Asked<T>>);

impl<T> Default for SharedReads<T> {
    fn default() -> Self {
        SharedReads(Mutex::default())
    }
}

/// What is read of nodes and of directories.
#[derive(Debug, Default)]
pub(super) struct Shared {
    nodes: Arc<SharedReads<Node>>,
    lists: Arc<SharedReads<Listing>>,
}

fn lock<T>(asking: &Asking<T>) -> MutexGuard<'_, Waiting<T>> {
    asking.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> SharedReads<T> {
    fn lock(&self) -> MutexGuard<'_, Asked<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a question that was just sent. Otherwise returns one that is to be sent.
    fn join(&self, path: &str, now: Instant, tell: Sender<T>) -> Option<Arc<Asking<T>>> {
        let mut asked = self.lock();
        if let Some((sent, asking)) = asked.get(path)
            && now < *sent + times::CONTENDER
            && let Some(asking) = asking.upgrade()
            && let Some(asking) = &mut *lock(&asking)
        {
            asking.push(tell);
            return None;
        }
        let asking = Arc::new(Mutex::new(Some(vec![tell])));
        asked.insert(path.into(), (now, Arc::downgrade(&asking)));
        Some(asking)
    }

    /// Forgets a question that is answered, unless there is a later one.
    fn forget(&self, path: &str, asking: &Arc<Asking<T>>) {
        let mut asked = self.lock();
        if asked
            .get(path)
            .is_some_and(|(_, latest)| std::ptr::eq(latest.as_ptr(), &raw const **asking))
        {
            asked.remove(path);
        }
    }
}

impl Generation {
    /// Reads a node, together with all that asked just before and were not answered yet. An earlier read
    /// is not joined: its reply may be lost.
    pub fn read_together(
        self: &Arc<Self>,
        path: &str,
    ) -> impl Future<Output = Node> + Send + use<> {
        let told = self.together(&self.shared.nodes, path, || {
            let reply = self.coordinator.get(path);
            async { reply.await.map(|(data, stat)| (Arc::from(data), stat)) }
        });
        answered(told)
    }

    /// Lists a directory in the same way.
    pub fn list_together(
        self: &Arc<Self>,
        directory: &str,
        driver: &Arc<dyn LockDriver>,
    ) -> impl Future<Output = Listing> + Send + use<> {
        let told = self.together(&self.shared.lists, directory, || {
            let (reply, driver) = (self.coordinator.children(directory), driver.clone());
            async move {
                let names = reply.await?;
                let read = catch_unwind(AssertUnwindSafe(|| Listed::new(names, &*driver)));
                // If the driver panics over the names, the attempt to acquire is told.
                read.map(Arc::new).map_err(|_| RequestError::ConnectionLoss)
            }
        });
        answered(told)
    }

    /// Asks, together with all that asked the same just before and were not answered yet.
    fn together<T: Clone + Send + 'static, A>(
        self: &Arc<Self>,
        shared: &Arc<SharedReads<Result<T, RequestError>>>,
        path: &str,
        ask: impl FnOnce() -> A,
    ) -> Receiver<Result<T, RequestError>>
    where
        A: Future<Output = Result<T, RequestError>> + Send + 'static,
    {
        let (tell, told) = channel();
        if let Some(asking) = shared.join(path, self.lease.clock().now(), tell) {
            let (answered, generation, shared) = (ask(), self.clone(), shared.clone());
            let path = Box::<str>::from(path);
            self.spawner.spawn(async move {
                let answer = generation.unless_over(answered).await;
                let told = lock(&asking).take();
                shared.forget(&path, &asking);
                for tell in told.into_iter().flatten() {
                    // A caller that gave up needs no answer, and the waker of one may panic.
                    unharmed(|| drop(tell.send(answer.clone())));
                }
            });
        }
        told
    }
}

/// Waits for an answer, or for the end of the session's thread.
async fn answered<T>(told: Receiver<Result<T, RequestError>>) -> Result<T, RequestError> {
    told.await.unwrap_or(Err(RequestError::ConnectionLoss))
}
