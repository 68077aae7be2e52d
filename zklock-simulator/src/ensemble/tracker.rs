//! When sessions expire: ZooKeeper's `SessionTracker` on its `ExpiryQueue`.

use std::collections::{BTreeMap, BTreeSet};

/// The sessions that a leader watches over. Times are in microseconds.
#[derive(Debug)]
pub(super) struct Tracker {
    tick: u64,
    /// Buckets end at this moment and every tick after it.
    phase: u64,
    buckets: BTreeMap<u64, BTreeSet<i64>>,
    sessions: BTreeMap<i64, Tracked>,
}

#[derive(Debug)]
struct Tracked {
    timeout: u64,
    bucket: u64,
    closing: bool,
    /// The server whose requests are taken.
    owner: Option<usize>,
}

/// What is wrong with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Expired,
    Moved,
}

impl Tracker {
    pub(super) fn new(tick: u64, phase: u64) -> Self {
        Tracker { tick, phase, buckets: BTreeMap::new(), sessions: BTreeMap::new() }
    }

    /// Adds a session, or touches it.
    pub(super) fn add(&mut self, session: i64, timeout: u64, now: u64) {
        let fresh = Tracked { timeout, bucket: 0, closing: false, owner: None };
        self.sessions.entry(session).or_insert(fresh);
        self.touch(session, now);
    }

    /// Hears of a session. False where it is unknown or about to end.
    pub(super) fn touch(&mut self, session: i64, now: u64) -> bool {
        let Some(tracked) = self.sessions.get_mut(&session) else { return false };
        if tracked.closing {
            return false;
        }
        let expires = now + tracked.timeout;
        let bucket = (expires.saturating_sub(self.phase) / self.tick + 1) * self.tick + self.phase;
        if tracked.bucket != bucket {
            let old = std::mem::replace(&mut tracked.bucket, bucket);
            self.leave(session, old);
            self.buckets.entry(bucket).or_default().insert(session);
        }
        true
    }

    fn leave(&mut self, session: i64, bucket: u64) {
        if let Some(sessions) = self.buckets.get_mut(&bucket) {
            sessions.remove(&session);
            if sessions.is_empty() {
                self.buckets.remove(&bucket);
            }
        }
    }

    /// Makes a server the one whose requests are taken.
    pub(super) fn set_owner(&mut self, session: i64, server: usize) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.owner = Some(server);
        }
    }

    pub(super) fn check(&mut self, session: i64, server: usize) -> Result<(), Wrong> {
        match self.sessions.get_mut(&session) {
            Some(tracked) if !tracked.closing => {
                if *tracked.owner.get_or_insert(server) == server {
                    Ok(())
                } else {
                    Err(Wrong::Moved)
                }
            }
            _ => Err(Wrong::Expired),
        }
    }

    /// No request of this session is taken any more.
    pub(super) fn set_closing(&mut self, session: i64) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.closing = true;
        }
    }

    pub(super) fn remove(&mut self, session: i64) {
        if let Some(tracked) = self.sessions.remove(&session) {
            self.leave(session, tracked.bucket);
        }
    }

    /// The sessions that expire by now, which are closing from then on.
    pub(super) fn expire(&mut self, now: u64) -> Vec<i64> {
        let mut expired = Vec::new();
        while let Some((_, sessions)) = self.buckets.first_key_value().filter(|(at, _)| **at <= now)
        {
            expired.extend(sessions);
            self.buckets.pop_first();
        }
        for session in &expired {
            self.set_closing(*session);
        }
        expired
    }

    /// Whether a session lives.
    pub(super) fn is_alive(&self, session: i64) -> bool {
        self.sessions.get(&session).is_some_and(|tracked| !tracked.closing)
    }

    /// The end of the next bucket after this moment.
    pub(super) fn next_bucket(&self, now: u64) -> u64 {
        match now.checked_sub(self.phase) {
            Some(since) => (since / self.tick + 1) * self.tick + self.phase,
            None => self.phase,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_expires_at_the_first_tick_after_its_timeout() {
        let mut tracker = Tracker::new(200, 50);
        tracker.add(1, 1_000, 100);
        assert!(tracker.expire(1_249).is_empty());
        assert_eq!(tracker.expire(1_250), [1]);
        assert!(!tracker.touch(1, 1_250));
        tracker.add(2, 1_000, 1_300);
        assert!(tracker.touch(2, 2_000));
        assert!(tracker.expire(3_049).is_empty());
        assert_eq!(tracker.expire(3_050), [2]);
    }

    #[test]
    fn a_session_that_moved_is_refused_where_it_was() {
        let mut tracker = Tracker::new(200, 0);
        tracker.add(1, 1_000, 0);
        assert_eq!(tracker.check(1, 0), Ok(()));
        tracker.set_owner(1, 2);
        assert_eq!(tracker.check(1, 0), Err(Wrong::Moved));
        assert_eq!(tracker.check(1, 2), Ok(()));
        assert_eq!(tracker.check(2, 2), Err(Wrong::Expired));
    }
}
