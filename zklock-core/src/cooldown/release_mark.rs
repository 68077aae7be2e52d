//! The mark of a node in its lock's directory, and its effect on the release.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::base::clock::Instant;
use crate::cooldown::mark::Mark;
use crate::cooldown::mark_removal::MarkRemoval;
use crate::cooldown::server_time::ServerTime;
use crate::session::generation::{Generation, HeldNode};
use crate::session::releaser::{Deletion, Doomed, or_forgotten};

/// The mark of a node. Only locks with `lock_delay` or `hold_at_least` have one.
#[derive(Debug)]
pub struct ReleaseMark {
    /// The server's clock.
    pub time: ServerTime,
    directory: Arc<str>,
    /// The mark that was written, or is being written.
    written: Option<Written>,
    /// Whether a caller was given the lock. A grant that nobody took is not kept any longer.
    taken: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    mark: Mark,
    /// The version of the data that contains it; `None` while that is in doubt.
    version: Option<i32>,
    /// The latest grant for which it is long enough; `None` if it does not depend on that.
    granted: Option<Instant>,
    /// For how long the node stays from the grant.
    hold: Duration,
}

impl ReleaseMark {
    /// No mark yet.
    pub fn new(directory: Arc<str>, time: ServerTime) -> Self {
        ReleaseMark { time, directory, written: None, taken: AtomicBool::new(false) }
    }

    /// Records that a mark is being written, for a node that stays for this time from a grant that
    /// comes no later than `granted`.
    pub fn write(&mut self, mark: Mark, granted: Instant, hold: Duration) {
        let granted = (!hold.is_zero()).then_some(granted);
        self.written = Some(Written { mark, version: None, granted, hold });
    }

    /// Whether the mark is written, and long enough for a grant at this time.
    pub fn is_enough(&self, now: Instant) -> bool {
        let long_enough = |written: &Written| written.granted.is_none_or(|granted| now <= granted);
        self.written.as_ref().is_some_and(|one| one.version.is_some() && long_enough(one))
    }

    /// Records that the data of the directory contain the mark in this version.
    pub fn written(&mut self, version: i32) {
        if let Some(written) = &mut self.written {
            written.version = Some(version);
        }
    }

    /// Records whether a caller was given the lock.
    pub fn take(&self, taken: bool) {
        self.taken.store(taken, Ordering::Release);
    }

    /// Deletes the node with its mark. `None` if it has to stay for a while after it was granted at
    /// `since`; it is then deleted in the background, and if the process ends before, the mark remains.
    pub fn release(
        &self,
        generation: &Arc<Generation>,
        (path, held): (&Arc<str>, Option<&Arc<HeldNode>>),
        since: Instant,
    ) -> Option<Deletion> {
        let doomed = Doomed { held: held.cloned(), ..Doomed::new(path.clone()) };
        let Some(Written { mark, version, hold, .. }) = self.written else {
            return Some(Deletion::send(generation, doomed));
        };
        // The mark itself may be longer: it was written before the grant.
        let until = since + hold;
        let removal = MarkRemoval { directory: self.directory.clone(), mark, version };
        if !self.taken.load(Ordering::Acquire) || generation.lease().clock().now() >= until {
            let doomed = Doomed { mark: Some(Box::new(removal)), ..doomed };
            return Some(Deletion::send(generation, doomed));
        }
        delete_later(generation, doomed, removal, until);
        None
    }
}

/// Keeps the node until its time is over.
fn delete_later(
    generation: &Arc<Generation>,
    doomed: Doomed,
    mut removal: MarkRemoval,
    until: Instant,
) {
    // It was released and not lost, even if the process ends before.
    let clear_delay = removal
        .without_delay(generation, &doomed.path)
        .map(|clear_delay| (clear_delay, generation.pending_deletion()));
    let (generation, kept) = (generation.clone(), generation.kept_node());
    generation.spawner().clone().spawn(async move {
        let _kept = kept;
        if let Some((clear_delay, pending)) = clear_delay {
            let cleared = or_forgotten(&generation, generation.patience(), clear_delay).await;
            let cleared = cleared.ok().and(removal.version);
            removal.version = cleared.map(|version| version.wrapping_add(1));
            drop(pending);
        }
        let clock = generation.lease().clock();
        let over = generation.until(|| generation.is_over());
        futures_lite::future::or(clock.sleep_until(until), over).await;
        if generation.is_over() {
            return;
        }
        drop(Deletion::send(&generation, Doomed { mark: Some(Box::new(removal)), ..doomed }));
    });
}
