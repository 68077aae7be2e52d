//! Shared lists: one list of a directory for all that ask at the same time, over one ZooKeeper
//! session.
//!
//! ```text
//! a ── list 1 ──────┐ answer
//! b      asks ┐     └── list 2 ──────┐ answer
//! c        asks ┘                    ┴ for both
//! ```
//!
//! A list must show what the caller did before it asked, so a caller that asks while a list is
//! pending gets the next one. Requests of a session are answered in order, so the next list serves
//! all that asked until it was sent.

use std::collections::HashMap;
use std::mem::{replace, take};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::Generation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Reply;
use crate::layout::contender::Contender;
use crate::layout::driver::LockDriver;

/// The children of a lock's directory.
#[derive(Debug)]
pub struct Listed {
    /// The contenders, in their order.
    pub queue: Vec<Contender>,
    /// The names of all other nodes.
    pub others: Vec<String>,
}

impl Listed {
    /// Reads the names.
    pub fn new(mut names: Vec<String>, driver: &dyn LockDriver) -> Listed {
        let queue = driver.queue(&names);
        match queue.len() < names.len() {
            true => names.retain(|name| driver.parse(name).is_none()),
            false => names = Vec::new(),
        }
        Listed { queue, others: names }
    }
}

/// The result for all that share a list. They have the same layout.
pub type Listing = Result<Arc<Listed>, RequestError>;

/// What a list must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Everything before the call.
    Now,
    /// The recent past: a caller without news of its own shares the pending list.
    Before,
}

/// The pending lists, by directory.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<HashMap<Box<str>, Asked>>);

/// The callers that wait for a list of one directory.
#[derive(Debug, Default)]
struct Asked {
    /// For the pending one.
    present: Vec<Sender<Listing>>,
    /// For the next one.
    next: Vec<Sender<Listing>>,
}

impl Listings {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generation {
    /// Lists a directory for all that ask at the same time. If no list of it is pending, this call
    /// sends the request.
    pub fn list(
        self: &Arc<Self>,
        directory: &str,
        driver: &Arc<dyn LockDriver>,
        since: Since,
    ) -> Receiver<Listing> {
        let (tell, told) = channel();
        let mut listings = self.listings.lock();
        match listings.get_mut(directory) {
            Some(asked) if since == Since::Before => asked.present.push(tell),
            Some(asked) => asked.next.push(tell),
            None => {
                let asked = Asked { present: vec![tell], next: Vec::new() };
                listings.insert(directory.into(), asked);
                drop(listings);
                // From here on, those who join are told if the coordinator panics, which may be a user's.
                let (generation, path) = (self.clone(), directory.into());
                let lister = Lister { generation, directory: path, is_done: false };
                let first = self.coordinator.children(directory);
                self.spawner.spawn(lister.run(driver.clone(), first));
            }
        }
        told
    }
}

/// Lists a directory until nobody asks any more. If it is dropped before that, or if the driver
/// panics over what is there, the waiting callers are told.
struct Lister {
    generation: Arc<Generation>,
    directory: Box<str>,
    is_done: bool,
}

impl Lister {
    async fn run(mut self, driver: Arc<dyn LockDriver>, mut reply: Reply<Vec<String>>) {
        loop {
            // If the driver panics, each caller lists by itself and gets that panic as an error.
            let read = |names| catch_unwind(AssertUnwindSafe(|| Listed::new(names, &*driver)));
            let answer = match self.generation.unless_over(reply).await {
                Ok(names) => read(names).ok().map(|listed| Ok(Arc::new(listed))),
                Err(error) => Some(Err(error)),
            };
            let told = self.answered();
            // Sent before anybody is told, because their own requests come after it.
            let next =
                (!self.is_done).then(|| self.generation.coordinator.children(&self.directory));
            if let Some(answer) = answer {
                for tell in told {
                    // A receiver that gave up needs no result.
                    drop(tell.send(answer.clone()));
                }
            }
            match next {
                Some(next) => reply = next,
                None => return,
            }
        }
    }

    /// A list has arrived: returns who waits for it. Done if nobody wants the next one.
    fn answered(&mut self) -> Vec<Sender<Listing>> {
        let mut listings = self.generation.listings.lock();
        let Some(asked) = listings.get_mut(&self.directory) else {
            self.is_done = true;
            return Vec::new();
        };
        asked.next.retain(|tell| !tell.is_closed());
        let told = replace(&mut asked.present, take(&mut asked.next));
        if asked.present.is_empty() {
            listings.remove(&self.directory);
            self.is_done = true;
        }
        told
    }
}

impl Drop for Lister {
    fn drop(&mut self) {
        if !self.is_done {
            let asked = self.generation.listings.lock().remove(&self.directory);
            // A caller that is told may ask again, which takes the lock.
            drop(asked);
        }
    }
}
