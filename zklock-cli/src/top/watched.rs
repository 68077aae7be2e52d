//! What is seen of holders that do not tell since when they hold their locks.

use std::cmp::min;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use zklock::ContenderInfo;

use crate::held::{Held, granted};
use crate::ls::Lock;

/// A node, and its czxid, which tells it from a later one of the same name.
type Node = (String, u64);

fn node(one: &ContenderInfo) -> Node {
    (one.node.clone(), one.czxid)
}

/// Who was seen, from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The last look, and who waited then.
    waiting: Option<(Instant, HashSet<Node>)>,
    holding: HashMap<Node, Seen>,
}

/// A holder that does not tell.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// When it was first seen to hold its lock.
    held: Instant,
    /// When it was last seen to wait, if it was.
    waited: Option<Instant>,
}

impl Watched {
    /// Takes in a look, and returns how long each of the locks is held.
    pub(super) fn look(&mut self, locks: &[Lock], now: Instant) -> Vec<Held> {
        let mut holding = HashMap::new();
        let mut held_for = |one: &ContenderInfo| {
            let told = Held::of(one);
            if granted(one).is_some() {
                return told;
            }
            let node = node(one);
            let new = || {
                let before = self.waiting.as_ref().filter(|(_, waiting)| waiting.contains(&node));
                Seen { held: now, waited: before.map(|(look, _)| *look) }
            };
            let seen = self.holding.get(&node).copied().unwrap_or_else(new);
            holding.insert(node, seen);
            let ago = |then: Instant| now.saturating_duration_since(then);
            let most = min(told.most, seen.waited.map_or(Duration::MAX, ago));
            Held { most, least: min(most, ago(seen.held)) }
        };
        let longest = |lock: &Lock| lock.holders.iter().map(&mut held_for).reduce(Held::or);
        let held = locks.iter().map(longest).map(Option::unwrap_or_default).collect();
        let waiting = locks.iter().flat_map(|lock| lock.waiters.iter().chain(&lock.awaited));
        let waiting = waiting.map(node).collect();
        (self.holding, self.waiting) = (holding, Some((now, waiting)));
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklock::Session;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A lock of which nobody tells when it was granted; its only node is two hours old.
    async fn lock() -> Lock {
        let session = Session::embedded();
        let _held = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut lock = crate::ls::find(&session, None).await.unwrap().locks.remove(0);
        lock.holders[0].owner.granted = None;
        lock.holders[0].created -= 120 * MINUTE;
        lock
    }

    #[tokio::test]
    async fn the_age_of_a_node_is_not_the_time_of_holding() {
        let (holds, start, mut watched) = (lock().await, Instant::now(), Watched::default());
        let look = |watched: &mut Watched, lock: &Lock, minutes: u32| {
            watched.look(std::slice::from_ref(lock), start + MINUTE * minutes).remove(0)
        };
        // It may have waited for most of that time.
        let first = look(&mut watched, &holds, 0);
        assert!(first.most >= 120 * MINUTE && first.least.is_zero(), "{first:?}");
        assert_eq!(look(&mut watched, &holds, 3).least, 3 * MINUTE);
        let (mut waits, mut watched) = (lock().await, Watched::default());
        waits.waiters = std::mem::take(&mut waits.holders);
        assert_eq!(look(&mut watched, &waits, 0), Held::default());
        waits.holders = std::mem::take(&mut waits.waiters);
        assert_eq!(look(&mut watched, &waits, 1), Held { most: MINUTE, least: Duration::ZERO });
        assert_eq!(look(&mut watched, &waits, 5), Held { most: 5 * MINUTE, least: 4 * MINUTE });
        // From then on it is known.
        let told = waits.holders[0].created + 119 * MINUTE;
        waits.holders[0].owner.granted = Some(humantime::format_rfc3339_millis(told).to_string());
        assert!(!look(&mut watched, &waits, 6).is_at_most());
    }
}
