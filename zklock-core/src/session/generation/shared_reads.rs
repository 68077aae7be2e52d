//! Shared reads: one read of a node for all that ask about it at the same time, over one ZooKeeper
//! session.
//!
//! Thousands of callers of a process may wait for one lock, and ask who holds it when their time is
//! over. If each sent a read of its own, these reads would delay each other, and ZooKeeper would look
//! silent although it answers.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_lite::future::or;
use tokio::sync::oneshot::{Sender, channel};

use super::Generation;
use crate::base::clock::Instant;
use crate::base::times;
use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;

/// What is read of a node.
type Answer = Result<(Arc<[u8]>, Stat), RequestError>;

/// Those who wait for a read; `None` once it is answered.
type Waiting = Option<Vec<Sender<Answer>>>;

/// The same, shared.
type Asking = Mutex<Waiting>;

/// By the path of the node: when its read was sent, and who waits for it.
type Reads = HashMap<Box<str>, (Instant, Weak<Asking>)>;

/// The latest read of each node that is not answered, and when it was sent.
#[derive(Debug, Default)]
pub(super) struct SharedReads(Mutex<Reads>);

impl SharedReads {
    fn lock(&self) -> MutexGuard<'_, Reads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(asking: &Asking) -> MutexGuard<'_, Waiting> {
    asking.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Generation {
    /// Reads a node, together with all that asked just before and were not answered yet. An earlier read
    /// is not joined: its reply may be lost.
    pub fn read_together(
        self: &Arc<Self>,
        path: &str,
    ) -> impl Future<Output = Answer> + Send + use<> {
        let (tell, told) = channel();
        if let Some(asking) = self.join_read(path, tell) {
            let (reply, generation) = (self.coordinator.get(path), self.clone());
            let path = Box::<str>::from(path);
            self.spawner.spawn(async move {
                let answered = async { reply.await.map(|(data, stat)| (Arc::from(data), stat)) };
                // A pending reply would keep the ZooKeeper session open.
                let over = async {
                    generation.until(|| generation.is_over()).await;
                    Err(RequestError::ConnectionLoss)
                };
                let answer = or(answered, over).await;
                let told = lock(&asking).take();
                generation.forget_read(&path, &asking);
                for tell in told.into_iter().flatten() {
                    // A caller that gave up needs no answer.
                    drop(tell.send(answer.clone()));
                }
            });
        }
        // The thread of the session ended.
        async move { told.await.unwrap_or(Err(RequestError::ConnectionLoss)) }
    }

    /// Joins a read that was just sent. Otherwise returns one that is to be sent.
    fn join_read(&self, path: &str, tell: Sender<Answer>) -> Option<Arc<Asking>> {
        let (now, mut reads) = (self.lease.clock().now(), self.shared_reads.lock());
        if let Some((sent, asking)) = reads.get(path)
            && now < *sent + times::CONTENDER
            && let Some(asking) = asking.upgrade()
            && let Some(asking) = &mut *lock(&asking)
        {
            asking.push(tell);
            return None;
        }
        let asking = Arc::new(Mutex::new(Some(vec![tell])));
        reads.insert(path.into(), (now, Arc::downgrade(&asking)));
        Some(asking)
    }

    /// Forgets a read that is answered, unless there is a later one.
    fn forget_read(&self, path: &str, asking: &Arc<Asking>) {
        let mut reads = self.shared_reads.lock();
        if reads
            .get(path)
            .is_some_and(|(_, latest)| std::ptr::eq(latest.as_ptr(), &raw const **asking))
        {
            reads.remove(path);
        }
    }
}
