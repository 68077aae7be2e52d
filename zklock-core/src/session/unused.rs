//! Directories that were made for a node that may never be made.
//!
//! ZooKeeper removes an empty container only if it had a child once, so one that nobody used would
//! stay for ever. Whoever made it and does not use it deletes it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::coordinator::traits::{Operation, RequestError};
use crate::session::generation::Generation;
use crate::session::releaser::{PAUSE, back_off};

/// The containers that an acquire made and has no node in yet. Dropped, it deletes
/// them in the background, as long as the ZooKeeper session lives.
#[derive(Debug, Default)]
pub struct Unused(Mutex<Option<Made>>);

#[derive(Debug)]
struct Made {
    generation: Arc<Generation>,
    paths: Vec<String>,
}

impl Unused {
    /// Notes that a container is about to be made: the answer may be lost, or nobody may wait for it.
    /// Answers whether it was not noted before.
    pub fn making(&self, generation: &Arc<Generation>, path: &str) -> bool {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made =
            made.get_or_insert_with(|| Made { generation: generation.clone(), paths: vec![] });
        let new = !made.paths.iter().any(|known| known == path);
        if new {
            made.paths.push(path.to_owned());
        }
        new
    }

    /// Says which ZooKeeper session is to delete them.
    pub fn go_with(&self, generation: &Arc<Generation>) {
        if let Some(made) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            made.generation = generation.clone();
        }
    }

    /// Notes that a container is not ours: it was there, or was refused.
    pub fn not_made(&self, path: &str) {
        if let Some(made) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            made.paths.retain(|known| known != path);
        }
    }

    /// Notes that there was a node in the deepest of them, and so a child in each.
    pub fn used(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        let made = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Made { generation, mut paths }) = made else { return };
        if paths.is_empty() || generation.is_over() {
            return;
        }
        // The deepest last, in whatever order they were noted.
        paths.sort_by_key(String::len);
        // Counted from here on: a session that is closed at once must not miss it.
        let cleaning = generation.cleaning();
        generation.clone().spawner().spawn(async move {
            let _cleaning = cleaning;
            for path in paths.iter().rev() {
                if !delete(&generation, path).await {
                    return;
                }
            }
        });
    }
}

/// Deletes a container if nobody used it. Answers whether the one above it may be unused, too.
async fn delete(generation: &Arc<Generation>, path: &str) -> bool {
    let mut pause = PAUSE.0;
    loop {
        // Refused if somebody has put a mark there since.
        let (data, version) = (Vec::new(), 0);
        let unmarked = Operation::Replace { path: path.to_owned(), data, version };
        let deleted = generation.write(vec![unmarked, Operation::Delete { path: path.to_owned() }]);
        match deleted.await {
            // The one above it had a child.
            Ok(()) => return false,
            Err(RequestError::Multi { error, .. }) => return *error == RequestError::NoNode,
            Err(error) if error.is_definite() || error.ends_session() => return false,
            Err(error) => tracing::debug!(path, %error, "deleting an unused directory again"),
        }
        if generation.is_over() {
            return false;
        }
        back_off(generation, &mut pause).await;
    }
}
