//! The releaser: whatever node we made and no longer want is deleted, whoever was cancelled, and
//! whatever was lost on the way.
//!
//! Both futures here send their request when they are made. Dropped before they are done, they
//! finish in the background of the session, for as long as its ZooKeeper session lives.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::coordinator::{Created, NodeKind, RequestError};
use crate::recipe::driver::NewNode;
use crate::session::generation::{Cleaning, Generation};

type Background<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Between two tries to delete, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The deletion of a node. Resolves when the node is known to be gone.
#[derive(Debug)]
pub struct Deletion {
    generation: Arc<Generation>,
    work: Unfinished<Result<(), RequestError>>,
}

impl Deletion {
    /// Sends the deletion.
    pub fn send(generation: &Arc<Generation>, path: Arc<str>) -> Self {
        // Counted from here on: a session that is closed at once must not miss it.
        let cleaning = generation.cleaning();
        let first = generation.delete(&path);
        let work = delete_until_gone(cleaning, generation.clone(), path, first);
        Deletion { generation: generation.clone(), work: Unfinished(Some(Box::pin(work))) }
    }
}

impl Future for Deletion {
    /// An error means that the node goes with its session only.
    type Output = Result<(), RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.work.poll(cx)
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.generation.spawner().spawn(async move { drop(work.await) });
        }
    }
}

async fn delete_until_gone(
    _cleaning: Cleaning,
    generation: Arc<Generation>,
    path: Arc<str>,
    first: impl Future<Output = Result<(), RequestError>> + Send + 'static,
) -> Result<(), RequestError> {
    let mut pause = PAUSE.0;
    let mut outcome = first.await;
    loop {
        match outcome {
            Ok(()) | Err(RequestError::NoNode) => return Ok(()),
            Err(error) if error.ends_session() || generation.is_over() => {
                generation.end();
                return Ok(());
            }
            Err(error) if error.is_definite() => {
                generation.retire(&path, &error);
                return Err(error);
            }
            Err(error) => tracing::debug!(%path, %error, "deleting again"),
        }
        back_off(&generation, &mut pause).await;
        outcome = generation.delete(&path).await;
    }
}

/// The creation of a contender's node. Resolves to the node once it is known to be ours; a
/// creation whose outcome is unknown is looked for.
#[derive(Debug)]
pub struct Birth {
    generation: Arc<Generation>,
    work: Unfinished<Result<Created, RequestError>>,
}

impl Birth {
    /// Sends the creation of a node under `directory`.
    pub fn send(generation: &Arc<Generation>, directory: &str, node: NewNode) -> Self {
        let path = format!("{directory}/{}", node.prefix);
        let first = generation.create(&path, &node.payload, NodeKind::EphemeralSequential);
        let work = create_or_find(generation.clone(), directory.to_owned(), node, first);
        Birth { generation: generation.clone(), work: Unfinished(Some(Box::pin(work))) }
    }
}

impl Future for Birth {
    /// [`RequestError::ConnectionLoss`] means that the node was lost on the way and does not exist.
    type Output = Result<Created, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.work.poll(cx)
    }
}

impl Drop for Birth {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let (generation, cleaning) = (self.generation.clone(), self.generation.cleaning());
        self.generation.spawner().spawn(async move {
            let _cleaning = cleaning;
            if let Ok(created) = work.await {
                drop(Deletion::send(&generation, created.path.into()).await);
            }
        });
    }
}

async fn create_or_find(
    generation: Arc<Generation>,
    directory: String,
    node: NewNode,
    first: impl Future<Output = Result<Created, RequestError>> + Send + 'static,
) -> Result<Created, RequestError> {
    let error = match first.await {
        Ok(created) => return Ok(created),
        Err(error) if error.is_definite() || error.ends_session() => return Err(error),
        Err(error) => error,
    };
    tracing::debug!(%directory, %error, "a creation is in doubt, looking for its node");
    let mut pause = PAUSE.0;
    loop {
        back_off(&generation, &mut pause).await;
        match find(&generation, &directory, &node).await {
            Ok(Some(created)) => return Ok(created),
            Ok(None) | Err(RequestError::NoNode) => return Err(RequestError::ConnectionLoss),
            Err(error) if error.ends_session() || generation.is_over() => return Err(error),
            Err(error) => tracing::debug!(%directory, %error, "looking again"),
        }
    }
}

/// Looks for the node of an attempt. It is ours only if the present session owns it: that of an
/// earlier one is about to go.
async fn find(
    generation: &Arc<Generation>,
    directory: &str,
    node: &NewNode,
) -> Result<Option<Created>, RequestError> {
    let coordinator = generation.coordinator();
    let synced = coordinator.sync(directory);
    let listed = coordinator.children(directory);
    synced.await?;
    let Some(name) = listed.await?.into_iter().find(|name| name.starts_with(&node.prefix)) else {
        return Ok(None);
    };
    let path = format!("{directory}/{name}");
    let (_, stat) = coordinator.get(&path).await?;
    Ok((stat.owner == coordinator.session_id()).then_some(Created { path, stat }))
}

/// Waits a little, or until something about the session changed.
async fn back_off(generation: &Arc<Generation>, pause: &mut Duration) {
    let clock = generation.lease().clock();
    let timer = clock.sleep_until(clock.now() + *pause);
    futures_lite::future::or(timer, generation.changed()).await;
    *pause = (*pause * 2).min(PAUSE.1);
}

/// Work that its owner hands on if it is dropped before the end.
struct Unfinished<T>(Option<Background<T>>);

impl<T> Unfinished<T> {
    fn take(&mut self) -> Option<Background<T>> {
        self.0.take()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let output = ready!(work.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(output)
    }
}

impl<T> std::fmt::Debug for Unfinished<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Unfinished" } else { "Finished" })
    }
}
