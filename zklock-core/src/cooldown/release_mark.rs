//! What a node of ours has noted in its lock's directory, and what that means for its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::clock::Instant;
use crate::cooldown::mark::Mark;
use crate::cooldown::mark_removal::MarkRemoval;
use crate::cooldown::server_time::ServerTime;
use crate::session::generation::Generation;
use crate::session::releaser::{Deletion, or_forgotten};

/// The note of a node. Only locks with a delay or a shortest hold have one.
#[derive(Debug)]
pub struct ReleaseMark {
    /// What the server's clock shows.
    pub time: ServerTime,
    directory: Arc<str>,
    /// The mark that was written, or is being written.
    written: Option<Written>,
    /// Whether somebody was given the lock. A grant that nobody took is not held any longer.
    taken: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    mark: Mark,
    /// The version of the data that it is; `None` while that is in doubt.
    version: Option<i32>,
    /// Until when the node stays.
    until: Instant,
}

impl ReleaseMark {
    /// Nothing is noted yet.
    pub fn new(directory: Arc<str>, time: ServerTime) -> Self {
        ReleaseMark { time, directory, written: None, taken: AtomicBool::new(false) }
    }

    /// A mark is being written, for a node that stays until then.
    pub fn write(&mut self, mark: Mark, until: Instant) {
        self.written = Some(Written { mark, version: None, until });
    }

    /// The mark is the data of the directory in this version.
    pub fn written(&mut self, version: i32) {
        if let Some(written) = &mut self.written {
            written.version = Some(version);
        }
    }

    /// Says whether somebody was given the lock.
    pub fn take(&self, taken: bool) {
        self.taken.store(taken, Ordering::Release);
    }

    /// Deletes the node with its mark, `None` if it has to stay for a while. In that case it goes in
    /// the background; the mark outlives a process that does not.
    pub fn release(&self, generation: &Arc<Generation>, path: &Arc<str>) -> Option<Deletion> {
        let Some(Written { mark, version, until }) = self.written else {
            return Some(Deletion::send(generation, path.clone()));
        };
        let clearing = MarkRemoval { directory: self.directory.clone(), mark, version };
        if !self.taken.load(Ordering::Acquire) || generation.lease().clock().now() >= until {
            return Some(Deletion::clearing(generation, path.clone(), clearing));
        }
        self.rest(generation, path.clone(), clearing, until);
        None
    }

    /// Leaves the node where it is until its time has come.
    fn rest(
        &self,
        generation: &Arc<Generation>,
        path: Arc<str>,
        mut clearing: MarkRemoval,
        until: Instant,
    ) {
        // It was released and is not lost, should the process go before.
        let clear_delay = clearing
            .without_delay(generation, &path)
            .map(|clear_delay| (clear_delay, generation.cleaning()));
        let (generation, resting) = (generation.clone(), generation.resting());
        generation.spawner().clone().spawn(async move {
            let _resting = resting;
            if let Some((clear_delay, cleaning)) = clear_delay {
                let cleared = or_forgotten(&generation, generation.patience(), clear_delay).await;
                let cleared = cleared.ok().and(clearing.version);
                clearing.version = cleared.map(|version| version.wrapping_add(1));
                drop(cleaning);
            }
            let clock = generation.lease().clock();
            while clock.now() < until {
                let mut changed = std::pin::pin!(generation.changed());
                changed.as_mut().enable();
                if generation.is_over() {
                    return;
                }
                futures_lite::future::or(clock.sleep_until(until), changed).await;
            }
            drop(Deletion::clearing(&generation, path, clearing));
        });
    }
}
