//! The contender at the head of each queue, and since when: one that has been there for longer than a
//! session timeout may have no owner, and this must be noticed even if each caller's deadline is shorter
//! than that.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::Instant;

/// From this number of entries on, those that nobody looks up any more are removed.
const MANY: usize = 1_000;

/// The age of the head of each queue in which somebody waited recently.
#[derive(Debug)]
pub struct HeadAges {
    check_after: Duration,
    directories: Mutex<Expiring<Box<str>, Head>>,
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
    /// When those nodes were checked last that somebody waits for, by the path of the first of them.
    checked: Expiring<Box<str>, Instant>,
    /// The contenders of this queue that were found to belong to no session, by czxid, because a path may
    /// be that of one node after the other; and since when each was there.
    orphans: Expiring<i64, Instant>,
}

/// A map that removes what nobody has looked up for some time.
#[derive(Debug)]
struct Expiring<K, V> {
    /// Each value with the time of its last look-up.
    entries: HashMap<K, (V, Instant)>,
    /// The number of entries at which expired ones are removed: twice as many as were left the last
    /// time, so that each insertion costs little.
    capacity: usize,
    /// The time after the last look-up when an entry expires.
    lifetime: Duration,
}

impl<K: Eq + Hash, V> Expiring<K, V> {
    fn new(lifetime: Duration) -> Self {
        Expiring { entries: HashMap::new(), capacity: MANY, lifetime }
    }

    fn get_mut<Q>(&mut self, key: &Q, now: Instant) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (value, looked_up) = self.entries.get_mut(key)?;
        *looked_up = now;
        Some(value)
    }

    fn insert(&mut self, key: K, value: V, now: Instant) {
        if self.entries.len() >= self.capacity {
            self.entries.retain(|_, (_, looked_up)| now.since(*looked_up) < self.lifetime);
            self.capacity = (2 * self.entries.len()).max(MANY);
        }
        self.entries.insert(key, (value, now));
    }
}

impl HeadAges {
    /// `check_after` is the age from which a head is checked.
    pub fn new(check_after: Duration) -> Self {
        let directories = Mutex::new(Expiring::new(check_after.saturating_mul(2)));
        HeadAges { check_after, directories }
    }

    /// Records the head of the queue in a directory, and takes the check of what the caller waits for, if
    /// that is due: if the head has been there for so many times the age from which it is checked, and
    /// nobody who waits for the same has checked it since then. Returns whether it is for the caller to
    /// check.
    ///
    /// Whoever waits for something else does not count: it looks at another node, and may do so just
    /// before the caller each time.
    pub fn take_due_check(
        &self,
        directory: &str,
        path: &Arc<str>,
        awaited: &str,
        times: u32,
        now: Instant,
    ) -> bool {
        let due = self.check_after.saturating_mul(times);
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let lifetime = directories.lifetime;
        let new = || Head {
            path: path.clone(),
            since: now,
            checked: Expiring::new(lifetime),
            orphans: Expiring::new(lifetime),
        };
        let Some(head) = directories.get_mut(directory, now) else {
            directories.insert(directory.into(), new(), now);
            return false;
        };
        if head.path != *path {
            *head = new();
            return false;
        }
        let since = head.checked.get_mut(awaited, now).map_or(head.since, |checked| *checked);
        let is_due = now.since(since) >= due;
        if is_due {
            head.checked.insert(awaited.into(), now, now);
        }
        is_due
    }

    /// Records a contender that belongs to no session, and exists. Returns whether it has been there for
    /// the age from which a head is checked: since an earlier look, or because it is older than the
    /// caller's `own` node.
    pub fn note_orphan(&self, directory: &str, czxid: i64, own: Option<Age>, now: Instant) -> bool {
        let mut since = own.filter(|own| czxid < own.czxid).map_or(now, |own| own.since);
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(head) = directories.get_mut(directory, now) else { return false };
        match head.orphans.get_mut(&czxid, now) {
            Some(known) => {
                *known = since.min(*known);
                since = *known;
            }
            None => head.orphans.insert(czxid, since, now),
        }
        now.since(since) >= self.check_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK_AFTER: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn a_head_is_checked_once_in_a_session_timeout() {
        let (head_ages, [a, b]) = (HeadAges::new(CHECK_AFTER), ["/l/a", "/l/b"].map(Arc::from));
        let asked =
            [0, 9, 10, 11, 19, 20].map(|now| head_ages.take_due_check("/l", &a, &a, 1, at(now)));
        assert_eq!(asked, [false, false, true, false, false, true]);
        assert!(!head_ages.take_due_check("/l", &b, &b, 1, at(40)), "another");
        assert!(!head_ages.take_due_check("/m", &b, &b, 1, at(50)), "of another queue");
        assert!(head_ages.take_due_check("/l", &b, &b, 1, at(50)));
        let asked = [65, 79, 80, 95].map(|now| head_ages.take_due_check("/l", &b, &b, 3, at(now)));
        assert_eq!(asked, [false, false, true, false], "for whom it is not the first to ask");
        // Another one of the same process that is nearer has asked.
        assert!(head_ages.take_due_check("/l", &b, &b, 1, at(100)));
        assert!(!head_ages.take_due_check("/l", &b, &b, 3, at(120)));
    }

    /// They wait for different nodes, and one looks just before the other each time.
    #[test]
    fn nobody_takes_the_check_of_another_node() {
        let (head_ages, head) = (HeadAges::new(CHECK_AFTER), Arc::from("/l/a"));
        let asks = |awaited, now| head_ages.take_due_check("/l", &head, awaited, 2, at(now));
        assert!(!asks("/l/a", 0));
        for round in 1..10 {
            assert!(asks("/l/b", 20 * round) && asks("/l/a", 20 * round + 1), "{round}");
        }
    }

    #[test]
    fn a_node_that_stays_has_an_age_of_its_own() {
        let (head_ages, head) = (HeadAges::new(CHECK_AFTER), Arc::from("/l/a"));
        let has_stayed = |czxid, since: Option<u64>, now| {
            let own = since.map(|since| Age { czxid: 10, since: at(since) });
            head_ages.note_orphan("/l", czxid, own, at(now))
        };
        assert!(!head_ages.take_due_check("/l", &head, &head, 1, at(0)));
        assert!(head_ages.take_due_check("/l", &head, &head, 1, at(20)));
        assert!(!has_stayed(7, None, 20) && !has_stayed(8, Some(11), 20));
        assert!(has_stayed(9, Some(10), 20) && !has_stayed(11, Some(10), 20));
        assert!(head_ages.take_due_check("/l", &head, &head, 1, at(30)));
        assert!(has_stayed(7, None, 30) && !has_stayed(12, None, 30), "another at the same path");
    }

    #[test]
    fn queues_in_which_nobody_waits_are_forgotten() {
        let (head_ages, head) = (HeadAges::new(CHECK_AFTER), Arc::from("/l/a"));
        for number in 0..10 * MANY {
            let now = at(number as u64 / 50);
            assert!(!head_ages.take_due_check(&number.to_string(), &head, &head, 1, now));
            assert!(head_ages.directories.lock().unwrap().entries.len() <= 2 * MANY);
        }
    }

    #[test]
    fn many_queues_at_the_same_time_are_not_looked_through_for_each_of_them() {
        let (head_ages, head) = (HeadAges::new(CHECK_AFTER), Arc::from("/l/a"));
        for number in 0..10 * MANY {
            assert!(!head_ages.take_due_check(&number.to_string(), &head, &head, 1, at(0)));
        }
        assert!(head_ages.directories.lock().unwrap().capacity >= 10 * MANY);
    }

    /// They come and go while the head stays.
    #[test]
    fn nodes_of_no_session_that_are_gone_are_forgotten() {
        let (head_ages, head) = (HeadAges::new(CHECK_AFTER), Arc::from("/l/a"));
        assert!(!head_ages.take_due_check("/l", &head, &head, 1, at(0)));
        for czxid in 0..10 * MANY {
            let now = at(czxid as u64 / 50);
            let czxid = czxid as i64 + 2;
            assert!(!head_ages.note_orphan("/l", czxid, None, now));
            // This one is looked at all the time.
            assert_eq!(head_ages.note_orphan("/l", 1, None, now), now >= at(10));
            let directories = head_ages.directories.lock().unwrap();
            assert!(directories.entries["/l"].0.orphans.entries.len() <= 2 * MANY + 2);
        }
    }
}
