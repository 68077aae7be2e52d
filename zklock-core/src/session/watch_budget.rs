//! The budget of watches of a ZooKeeper session.
//!
//! After a reconnect the client library sends the paths of all its watches again, with the chroot.
//! If these take more than 128 KiB, it loses the session (zookeeper-client 0.11.2, measured). So
//! every watch is counted here, by the bytes of its path.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// For all watches of a session. Far enough below the limit for watches that are being removed,
/// which the client library keeps for a moment longer.
const MOST: usize = 96 * 1024;

/// For watches on held nodes, which are also checked without a watch.
const MOST_OF_HELD: usize = MOST / 3;

/// What a path takes besides its text, in bytes: its length.
const EACH: usize = 4;

/// The watches of a ZooKeeper session.
#[derive(Debug)]
pub struct WatchBudget {
    /// The bytes of the chroot, which precedes each path.
    chroot: usize,
    all: AtomicUsize,
    held: AtomicUsize,
}

impl WatchBudget {
    /// No watches yet.
    pub fn new(chroot: &str) -> Arc<Self> {
        let [all, held] = [const { AtomicUsize::new(0) }; 2];
        Arc::new(WatchBudget { chroot: chroot.len(), all, held })
    }

    /// The budget of a session that may have none.
    pub fn none(chroot: &str) -> Arc<Self> {
        let (all, held) = (AtomicUsize::new(MOST), AtomicUsize::new(MOST_OF_HELD));
        Arc::new(WatchBudget { chroot: chroot.len(), all, held })
    }

    /// The bytes of the chroot.
    pub fn chroot(&self) -> usize {
        self.chroot
    }

    /// Counts watches on these paths until the returned value is dropped; `None` if there is no
    /// room.
    pub fn take<P: AsRef<str>>(
        self: &Arc<Self>,
        paths: impl IntoIterator<Item = P>,
    ) -> Option<Watching> {
        let each = |path: P| self.chroot + path.as_ref().len() + EACH;
        let all = paths.into_iter().map(each).sum();
        count(&self.all, all, MOST).then(|| Watching { budget: self.clone(), all, held: 0 })
    }

    /// The same for the node of a held lock.
    pub fn take_for_held(self: &Arc<Self>, path: &str) -> Option<Watching> {
        self.take([path])?.for_held()
    }
}

fn count(bytes: &AtomicUsize, more: usize, most: usize) -> bool {
    let add = |now: usize| now.checked_add(more).filter(|sum| *sum <= most);
    bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
}

/// Counted watches.
#[derive(Debug)]
pub struct Watching {
    budget: Arc<WatchBudget>,
    all: usize,
    held: usize,
}

impl Watching {
    /// Counts them as watches on a held node from now on; `None` if there is no room.
    pub fn for_held(mut self) -> Option<Self> {
        if count(&self.budget.held, self.all, MOST_OF_HELD) {
            self.held = self.all;
            return Some(self);
        }
        None
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.budget.all.fetch_sub(self.all, Ordering::AcqRel);
        self.budget.held.fetch_sub(self.held, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the client loses its session over.
    const CLIENTS_LIMIT: usize = 128 * 1024;

    /// SplitMix64.
    fn random(seed: &mut u64) -> usize {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 33).unwrap()
    }

    #[test]
    fn whatever_is_watched_and_let_go_the_client_can_take_it() {
        for mut seed in 0..50 {
            let chroot = "/c".repeat(random(&mut seed) % 40);
            let budget = WatchBudget::new(&chroot);
            let mut kept: Vec<(Watching, usize)> = Vec::new();
            let mut refused = 0;
            for _ in 0..3_000 {
                if random(&mut seed).is_multiple_of(4) && !kept.is_empty() {
                    kept.swap_remove(random(&mut seed) % kept.len());
                    continue;
                }
                let paths: Vec<_> = (0..1 + random(&mut seed) % 3)
                    .map(|_| "/p".repeat(1 + random(&mut seed) % 300))
                    .collect();
                let sent = |paths: &[String]| {
                    paths.iter().map(|path| chroot.len() + path.len()).sum::<usize>()
                };
                let held = random(&mut seed).is_multiple_of(3);
                let taken = if held {
                    budget.take_for_held(&paths[0]).map(|one| (one, sent(&paths[..1])))
                } else {
                    budget.take(&paths).map(|all| (all, sent(&paths)))
                };
                refused += usize::from(taken.is_none());
                kept.extend(taken);
                let all: usize = kept.iter().map(|(_, bytes)| bytes).sum();
                assert!(all <= CLIENTS_LIMIT * 3 / 4, "{all} bytes");
            }
            assert!(refused > 0 && !kept.is_empty());
            kept.clear();
            assert_eq!(budget.all.load(Ordering::Acquire), 0);
            assert_eq!(budget.held.load(Ordering::Acquire), 0);
        }
    }

    #[test]
    fn nodes_that_are_held_leave_room_for_waiters() {
        let budget = WatchBudget::new("");
        let path = "/zklock/orders/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000";
        // Whether they had to wait for it or not.
        let waited = || budget.take([path]).and_then(Watching::for_held);
        let mut turns = [true, false].into_iter().cycle();
        let next = || if turns.next()? { waited() } else { budget.take_for_held(path) };
        let held: Vec<_> = std::iter::from_fn(next).collect();
        let waiting: Vec<_> = std::iter::from_fn(|| budget.take([path])).collect();
        assert!(held.len() >= 400 && waiting.len() >= 800, "{}, {}", held.len(), waiting.len());
    }
}
