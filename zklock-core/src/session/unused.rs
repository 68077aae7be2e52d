//! Directories that were created for a node that may never be created.
//!
//! ZooKeeper removes an empty container only if it once had a child, so an unused one would stay
//! for ever. The client that created it and does not use it deletes it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::session::generation::{Generation, PendingDeletion};
use crate::session::releaser::{back_off, more, or_forgotten};

/// The containers that an acquire created and has no node in yet. When this is dropped, they are
/// deleted in the background, as long as the ZooKeeper session lives.
#[derive(Debug, Default)]
pub struct Unused(Mutex<Option<Made>>);

#[derive(Debug)]
struct Made {
    generation: Arc<Generation>,
    /// Counted as long as one may be there: a session that is closed meanwhile waits until it is known.
    pending: PendingDeletion,
    paths: Vec<String>,
}

impl Made {
    fn new(generation: &Arc<Generation>, paths: Vec<String>) -> Self {
        let (generation, pending) = (generation.clone(), generation.pending_deletion());
        Made { generation, pending, paths }
    }
}

impl Unused {
    /// Records that a container is about to be created: the reply may be lost, or nobody may wait
    /// for it. Returns false if it was already recorded.
    pub fn making(&self, generation: &Arc<Generation>, path: &str) -> bool {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = made.get_or_insert_with(|| Made::new(generation, Vec::new()));
        let new = !made.paths.iter().any(|known| known == path);
        if new {
            made.paths.push(path.to_owned());
        }
        new
    }

    /// Sets the ZooKeeper session that has to delete them.
    pub fn go_with(&self, generation: &Arc<Generation>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = all.take_if(|made| !Arc::ptr_eq(&made.generation, generation));
        if let Some(made) = &made {
            *all = Some(Made::new(generation, made.paths.clone()));
        }
        // Whoever waits for its end may run here.
        drop(all);
        drop(made);
    }

    /// Records that a container is not one of these: it existed, or the server refused it.
    pub fn not_made(&self, path: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &mut *all {
            made.paths.retain(|known| known != path);
        }
        let none = all.take_if(|made| made.paths.is_empty());
        drop(all);
        drop(none);
    }

    /// Records that a node was created in the deepest of them, and so a child in each.
    pub fn used(&self) {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(made);
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        let made = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Made { generation, pending, mut paths }) = made else { return };
        if paths.is_empty() || generation.is_over() {
            return;
        }
        // The deepest last, whatever the order of recording.
        paths.sort_by_key(String::len);
        generation.clone().spawner().spawn(async move {
            let _pending = pending;
            for path in paths.iter().rev() {
                if !delete(&generation, path).await {
                    return;
                }
            }
        });
    }
}

/// Deletes a container if nobody used it. Returns whether the one above it may be unused, too.
async fn delete(generation: &Arc<Generation>, path: &str) -> bool {
    let (mut pause, mut patience) = (times::DELETE.0, generation.patience());
    let mut overdue = None;
    loop {
        // Refused if somebody has written a mark there since.
        let (data, version) = (Vec::new(), 0);
        let unmarked = Operation::Replace { path: path.to_owned(), data, version };
        let operations = vec![unmarked, Operation::Delete { path: path.to_owned() }];
        let deleted = generation.unless_over(generation.write(operations));
        match or_forgotten(generation, patience, deleted).await {
            // The one above it had a child.
            Ok(()) => return false,
            Err(RequestError::Multi { error, .. }) => return *error == RequestError::NoNode,
            Err(error) if error.is_definite() || error.ends_session() => return false,
            Err(error) => {
                overdue.get_or_insert_with(|| generation.overdue_deletion());
                unharmed(|| tracing::debug!(path, %error, "deleting an unused directory again"));
            }
        }
        if generation.is_over() {
            return false;
        }
        back_off(generation, &mut pause).await;
        patience = more(generation, patience);
    }
}
