//! Directories in which the server refuses to delete nodes: each one that is made there would be stuck as well, and
//! cost another ZooKeeper session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::base::clock::Instant;
use crate::coordinator::request_error::RequestError;

/// The directories of a session in which nodes were stuck, on whichever connection.
#[derive(Debug, Default)]
pub struct Stuck {
    /// Nearly always there are none.
    any: AtomicBool,
    known: Mutex<HashMap<Box<str>, Refused>>,
}

/// What is known of a directory.
#[derive(Debug)]
struct Refused {
    until: Instant,
    /// Whether it was so more than once. Of a single node, whoever asks next does not know.
    again: bool,
    why: RequestError,
}

impl Stuck {
    /// Remembers until a time that a node may not be deleted.
    pub fn note(&self, node: &str, until: Instant, now: Instant, why: &RequestError) {
        let Some((directory, _)) = node.rsplit_once('/') else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, refused| now < refused.until);
        let again = known.contains_key(directory);
        known.insert(directory.into(), Refused { until, again, why: why.clone() });
        self.any.store(true, Ordering::Release);
    }

    /// Why nobody is to create a node in a directory at `now`, if that is so.
    pub fn refuses(&self, directory: &str, now: impl FnOnce() -> Instant) -> Option<RequestError> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = known.get(directory).filter(|refused| refused.again)?;
        (now() < refused.until).then(|| refused.why.clone())
    }
}
