//! Locks of two kinds of one name, in this process: a semaphore does not see a mutex or a read/write
//! lock, nor they a semaphore.
//!
//! A new queue looks once whether its name has a queue of another kind, and then both record it. From then
//! on each acquire looks whether the other queue is in use, after it has taken its own place: of two that
//! come at the same time one at least sees the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::layout::kinds::{self, Kind};
use crate::session::local_queues::{LocalQueue, LocalQueues};

/// The queues of this process at a path, those of single acquires included: who waits in one has a node,
/// and the look into ZooKeeper passes by those of this process.
fn all_at(queues: &LocalQueues, path: &str) -> impl Iterator<Item = Arc<dyn LocalQueue>> {
    queues.all_under(path).into_iter().chain(queues.all_elsewhere(path))
}

/// Records in a new queue, and in those of another kind, that they have the same name.
pub fn meet(queues: &LocalQueues, path: &str, mine: &dyn LocalQueue) {
    for other in all_at(queues, path).filter(|other| other.is_semaphore() != mine.is_semaphore()) {
        other.is_beside_another().store(true, Ordering::Release);
        mine.is_beside_another().store(true, Ordering::Release);
    }
}

/// Makes sure that this process does not use a name as another kind of lock than that of this mode, where it
/// has, or had, a queue of another kind.
///
/// # Errors
///
/// [`InvalidOption`](crate::base::error_kind::ErrorKind::InvalidOption), which says as what it is used.
pub fn check(queues: &LocalQueues, path: &str, mode: Mode) -> Result<(), LockError> {
    let wanted = Kind::of(mode);
    let users = all_at(queues, path).filter_map(|other| other.user());
    let mut others = users.filter(|(mode, _)| wanted.is_blind_to(Kind::of(*mode)));
    match others.next() {
        None => Ok(()),
        Some((mode, held)) => {
            let does = if held.holds { "holds" } else { "waits for" };
            let who = format!("{} of this process {does} it, at {path}", held.caller);
            Err(kinds::two_kinds(Kind::of(mode), wanted).aside(who))
        }
    }
}
