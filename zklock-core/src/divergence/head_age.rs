//! The node at the head of each queue, and since when: a node that has been there for long may have
//! no owner, and this must be noticed even if each caller's deadline is shorter than that.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::Instant;

/// From this number of queues on, those that nobody looks at any more are forgotten.
const MANY: usize = 1_000;

/// The age of the head of each queue in which somebody waited recently.
#[derive(Debug)]
pub struct HeadAges {
    long: Duration,
    heads: Mutex<Heads>,
}

#[derive(Debug)]
struct Heads {
    by_directory: HashMap<Box<str>, Head>,
    /// The number from which on they are looked through: twice as many as the last time there were
    /// left, so that it costs little for each.
    full: usize,
}

/// Since when a node has certainly existed. Whatever was created before it has existed for as long.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// The node's czxid.
    pub czxid: i64,
    /// When it existed.
    pub since: Instant,
}

#[derive(Debug)]
struct Head {
    path: Arc<str>,
    since: Instant,
    /// When somebody looked last.
    seen: Instant,
    /// The nodes of this queue that were found to belong to no session, by czxid, because a path may be
    /// that of one node after the other; and since when each was there.
    staying: BTreeMap<i64, Instant>,
}

impl Head {
    fn new(path: &Arc<str>, now: Instant) -> Self {
        Head { path: path.clone(), since: now, seen: now, staying: BTreeMap::new() }
    }
}

impl HeadAges {
    /// `long` is the age from which a head is checked.
    pub fn new(long: Duration) -> Self {
        HeadAges { long, heads: Mutex::new(Heads { by_directory: HashMap::new(), full: MANY }) }
    }

    /// The age from which a head is checked.
    pub fn long(&self) -> Duration {
        self.long
    }

    /// Records the head of the queue in a directory. Returns whether it has been there for so many times
    /// as long as counts as long; its age then begins anew, so that only one of the waiters checks it.
    pub fn is_long_there(
        &self,
        directory: &str,
        path: &Arc<str>,
        times: u32,
        now: Instant,
    ) -> bool {
        let long = self.long.saturating_mul(times);
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let Heads { by_directory, full } = &mut *heads;
        if let Some(head) = by_directory.get_mut(directory) {
            let (same, long) = (head.path == *path, now.since(head.since) >= long);
            head.seen = now;
            if !same {
                *head = Head::new(path, now);
            } else if long {
                head.since = now;
            }
            return same && long;
        }
        if by_directory.len() >= *full {
            let recent = self.long.saturating_mul(2);
            by_directory.retain(|_, head| now.since(head.seen) < recent);
            *full = (2 * by_directory.len()).max(MANY);
        }
        by_directory.insert(directory.into(), Head::new(path, now));
        false
    }

    /// Records a node of a queue that belongs to no session, and exists. Returns whether it has been there
    /// for long: at an earlier look, or because it is older than the caller's `own` node.
    pub fn stays_long(&self, directory: &str, czxid: i64, own: Option<Age>, now: Instant) -> bool {
        let since = own.filter(|own| czxid < own.czxid).map_or(now, |own| own.since);
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(head) = heads.by_directory.get_mut(directory) else { return false };
        let known = head.staying.entry(czxid).or_insert(since);
        *known = since.min(*known);
        now.since(*known) >= self.long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn a_head_is_looked_into_once_in_so_long() {
        let (head_ages, [a, b]) = (HeadAges::new(LONG), ["/l/a", "/l/b"].map(Arc::from));
        let asked = [0, 9, 10, 11, 19, 20].map(|now| head_ages.is_long_there("/l", &a, 1, at(now)));
        assert_eq!(asked, [false, false, true, false, false, true]);
        assert!(!head_ages.is_long_there("/l", &b, 1, at(40)), "another");
        assert!(!head_ages.is_long_there("/m", &b, 1, at(50)), "of another queue");
        assert!(head_ages.is_long_there("/l", &b, 1, at(50)));
        let asked = [65, 79, 80, 95].map(|now| head_ages.is_long_there("/l", &b, 3, at(now)));
        assert_eq!(asked, [false, false, true, false], "for whom it is not the first to ask");
        // Another one of the same process that is nearer has asked.
        assert!(head_ages.is_long_there("/l", &b, 1, at(100)));
        assert!(!head_ages.is_long_there("/l", &b, 3, at(120)));
    }

    #[test]
    fn a_node_that_stays_has_an_age_of_its_own() {
        let (head_ages, head) = (HeadAges::new(LONG), Arc::from("/l/a"));
        let stays_long = |czxid, since: Option<u64>, now| {
            let own = since.map(|since| Age { czxid: 10, since: at(since) });
            head_ages.stays_long("/l", czxid, own, at(now))
        };
        assert!(!head_ages.is_long_there("/l", &head, 1, at(0)));
        assert!(head_ages.is_long_there("/l", &head, 1, at(20)));
        assert!(!stays_long(7, None, 20) && !stays_long(8, Some(11), 20));
        assert!(stays_long(9, Some(10), 20) && !stays_long(11, Some(10), 20));
        assert!(head_ages.is_long_there("/l", &head, 1, at(30)));
        assert!(stays_long(7, None, 30) && !stays_long(12, None, 30), "another at the same path");
    }

    #[test]
    fn queues_in_which_nobody_waits_are_forgotten() {
        let (head_ages, head) = (HeadAges::new(LONG), Arc::from("/l/a"));
        for number in 0..10 * MANY {
            let now = at(number as u64 / 50);
            assert!(!head_ages.is_long_there(&number.to_string(), &head, 1, now));
            assert!(head_ages.heads.lock().unwrap().by_directory.len() <= 2 * MANY);
        }
    }

    #[test]
    fn many_queues_at_the_same_time_are_not_looked_through_for_each_of_them() {
        let (head_ages, head) = (HeadAges::new(LONG), Arc::from("/l/a"));
        for number in 0..10 * MANY {
            assert!(!head_ages.is_long_there(&number.to_string(), &head, 1, at(0)));
        }
        assert!(head_ages.heads.lock().unwrap().full >= 10 * MANY);
    }
}
