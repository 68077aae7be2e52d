//! One list of a directory for all who ask for it at the same time, over one ZooKeeper session.
//!
//! ```text
//! a ── list 1 ──────┐ answer
//! b      asks ┐     └── list 2 ──────┐ answer
//! c        asks ┘                    ┴ for both
//! ```
//!
//! What somebody did before it asked is to show in its list, so who asks while one is on its way
//! gets the next. A session's requests are answered in order: the next covers everybody who asked
//! until it was sent.

use std::collections::HashMap;
use std::mem::{replace, take};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::Generation;
use crate::coordinator::traits::{Reply, RequestError};
use crate::layout::contender::Contender;
use crate::layout::driver::LockDriver;

/// The children of a lock's directory.
#[derive(Debug)]
pub struct Listed {
    /// The contenders, in their order.
    pub queue: Vec<Contender>,
    /// The names of all others.
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

/// The answer to all who share a list. They have one layout.
pub type Listing = Result<Arc<Listed>, RequestError>;

/// What a list must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Everything before the call.
    Now,
    /// What there was a while ago: who has no news of its own shares the list that is on its way.
    Before,
}

/// The lists that are on their way, by directory.
#[derive(Debug, Default)]
pub(super) struct Listings(Mutex<HashMap<Box<str>, Asked>>);

/// Who waits for a list of one directory.
#[derive(Debug, Default)]
struct Asked {
    /// For the one that is on its way.
    present: Vec<Sender<Listing>>,
    /// For the one after it.
    next: Vec<Sender<Listing>>,
}

impl Listings {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generation {
    /// Lists a directory for all who ask at the same time. If no list of it is on its way, the
    /// request is sent by this call.
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
                let first = self.coordinator.children(directory);
                let directory = directory.into();
                let lister = Lister { generation: self.clone(), directory, is_done: false };
                self.spawner.spawn(lister.run(driver.clone(), first));
            }
        }
        told
    }
}

/// Lists a directory until nobody asks for more. Dropped before that, it answers nobody, and who
/// waits is told so.
struct Lister {
    generation: Arc<Generation>,
    directory: Box<str>,
    is_done: bool,
}

impl Lister {
    async fn run(mut self, driver: Arc<dyn LockDriver>, mut reply: Reply<Vec<String>>) {
        loop {
            let answer = reply.await.map(|names| Arc::new(Listed::new(names, &*driver)));
            let told = self.answered();
            // Sent before anybody is told, whose own requests come after it.
            let next =
                (!self.is_done).then(|| self.generation.coordinator.children(&self.directory));
            for tell in told {
                // Who gave up does not mind.
                drop(tell.send(answer.clone()));
            }
            match next {
                Some(next) => reply = next,
                None => return,
            }
        }
    }

    /// A list is there: for whom. It is done if nobody wants the next.
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
            // Whoever is told may ask anew, which takes the lock.
            drop(asked);
        }
    }
}
