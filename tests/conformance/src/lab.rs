//! The environment of one case: a node of its own, and limits on all waits.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_io::Timer;
use futures_lite::future::or;
use uuid::Uuid;

use super::harness::Harness;
use zklock_core::coordinator::node::{Created, NodeKind};
use zklock_core::coordinator::requests::Coordinator;

/// The longest time for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The environment of a case.
pub struct Lab {
    harness: Arc<dyn Harness>,
    root: String,
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Lab {
    /// Creates a persistent node for one case.
    ///
    /// # Panics
    ///
    /// Panics if the harness opens no session, or the node cannot be created.
    pub async fn new(harness: Arc<dyn Harness>) -> Self {
        let root = format!("/conformance-{}", Uuid::new_v4());
        let lab = Lab { harness, root };
        let session = lab.open().await;
        soon(session.create(&lab.root, b"", NodeKind::Persistent)).await.unwrap();
        soon(session.close()).await;
        lab
    }

    /// Returns the harness.
    pub fn harness(&self) -> &dyn Harness {
        &*self.harness
    }

    /// Opens a session.
    ///
    /// # Panics
    ///
    /// Panics if that fails.
    pub async fn open(&self) -> Arc<dyn Coordinator> {
        soon(self.harness.open()).await.unwrap()
    }

    /// Returns the path of a node below that of the case.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// Returns the path of the case's own node.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Creates a node without data.
    ///
    /// # Panics
    ///
    /// Panics if that fails.
    pub async fn create(
        &self,
        session: &Arc<dyn Coordinator>,
        name: &str,
        kind: NodeKind,
    ) -> Created {
        soon(session.create(&self.path(name), b"", kind)).await.unwrap()
    }

    /// Returns the names of the children of the case's own node, sorted.
    ///
    /// # Panics
    ///
    /// Panics if they cannot be listed.
    pub async fn names(&self, session: &Arc<dyn Coordinator>) -> Vec<String> {
        let mut names = soon(session.children(&self.root)).await.unwrap();
        names.sort();
        names
    }
}

/// Waits for something that must happen.
pub(super) async fn soon<T>(work: impl Future<Output = T>) -> T {
    or(async { Some(work.await) }, async {
        Timer::after(PATIENCE).await;
        None
    })
    .await
    .expect("nothing happened for a long time")
}

/// Whether something has happened already.
pub(super) fn has_come<T>(work: &mut (impl Future<Output = T> + Unpin)) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    matches!(std::pin::Pin::new(work).poll(&mut cx), Poll::Ready(_))
}

/// Repeats a check until it holds.
pub(super) async fn eventually<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    soon(async {
        while !holds().await {
            Timer::after(Duration::from_millis(20)).await;
        }
    })
    .await;
}
