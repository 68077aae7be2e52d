//! Requests that are answered, or said not to be: who asks never waits for ever.
//!
//! A server or a proxy may forget an answer on a connection that lives on. A generation asks only
//! through here, so no request can be made that waits for it without end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Instant};
use crate::coordinator::{
    Coordinator, Created, Link, NodeKind, Operation, Reply, RequestError, Stat, Watch,
};
use crate::deadline::Deadline;

/// A coordinator that waits for an answer no longer than a session lasts. After that the request
/// fails with [`RequestError::ConnectionLoss`]: nobody knows what became of it, and whoever asked
/// asks again.
#[derive(Debug)]
pub struct Answered {
    coordinator: Arc<dyn Coordinator>,
    clock: Clock,
}

impl Answered {
    /// Bounds what is asked of a coordinator.
    pub fn new(coordinator: Arc<dyn Coordinator>, clock: Clock) -> Self {
        Answered { coordinator, clock }
    }

    fn bound<T: Send + 'static>(&self, reply: Reply<T>) -> Reply<T> {
        let limit = Deadline::after(self.clock.clone(), self.coordinator.session_timeout());
        Box::pin(async move {
            limit.bound(reply).await.unwrap_or_else(|_| {
                tracing::warn!("no answer for a session timeout");
                Err(RequestError::ConnectionLoss)
            })
        })
    }
}

impl Coordinator for Answered {
    fn session_id(&self) -> i64 {
        self.coordinator.session_id()
    }

    fn session_timeout(&self) -> Duration {
        self.coordinator.session_timeout()
    }

    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
        self.bound(self.coordinator.create(path, data, kind))
    }

    fn delete(&self, path: &str) -> Reply<()> {
        self.bound(self.coordinator.delete(path))
    }

    fn children(&self, path: &str) -> Reply<Vec<String>> {
        self.bound(self.coordinator.children(path))
    }

    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
        self.bound(self.coordinator.children_watched(path))
    }

    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        self.bound(self.coordinator.get(path))
    }

    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        self.bound(self.coordinator.get_watched(path))
    }

    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
        self.bound(self.coordinator.set(path, data))
    }

    fn multi(&self, operations: Vec<Operation>) -> Reply<()> {
        self.bound(self.coordinator.multi(operations))
    }

    fn sync(&self, path: &str) -> Reply<()> {
        self.bound(self.coordinator.sync(path))
    }

    fn link(&self) -> Link {
        self.coordinator.link()
    }

    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
        self.coordinator.link_changed(seen)
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.coordinator.close()
    }

    fn last_contact(&self) -> Option<Instant> {
        self.coordinator.last_contact()
    }
}
