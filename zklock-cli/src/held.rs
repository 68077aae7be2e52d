//! How long a lock is held, as far as it is known.
//!
//! A holder with zklock tells with its first heartbeat when it was granted the lock; Curator and kazoo never do. Until then
//! its node is older than the grant, because it may have waited before.

use std::cmp::max;
use std::fmt;
use std::time::{Duration, SystemTime};

use zklock::ContenderInfo;

use crate::when::{since, span};

/// Between which times somebody holds the lock, the longest of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) most: Duration,
    pub(crate) least: Duration,
}

impl Held {
    /// What a contender tells: the time of its grant, or only the age of its node.
    pub(crate) fn of(one: &ContenderInfo) -> Self {
        match granted(one) {
            Some(moment) => Held::exactly(since(moment)),
            None => Held { most: since(one.created), least: Duration::ZERO },
        }
    }

    pub(crate) fn exactly(time: Duration) -> Self {
        Held { most: time, least: time }
    }

    /// Of two holders, how long the lock is held.
    pub(crate) fn or(self, other: Self) -> Self {
        Held { most: max(self.most, other.most), least: max(self.least, other.least) }
    }

    /// Whether it may be less.
    pub(crate) fn is_at_most(self) -> bool {
        self.least < self.most
    }
}

/// `3 min 5 s`, or `at most 3 min 5 s`.
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = if self.is_at_most() { "at most " } else { "" };
        write!(f, "{most}{}", span(self.most))
    }
}

/// Since when a contender holds the lock, where it says so; otherwise since when its node is there.
pub(crate) fn began(one: &ContenderInfo) -> SystemTime {
    granted(one).unwrap_or(one.created)
}

/// Since when a contender holds the lock, where it says so.
pub(crate) fn granted(one: &ContenderInfo) -> Option<SystemTime> {
    humantime::parse_rfc3339(one.owner.granted.as_deref()?).ok()
}
