//! The mark in the data of a lock's directory: whether the last holder was lost, and until when the
//! lock is unavailable.
//!
//! ```text
//! {"zklock":1,"kept":true}                                        nothing is noted
//! {"zklock":1,"kept":true,"node":41,"delay_ms":5000}              held, and if its holder is lost, 5 s of delay
//! {"zklock":1,"kept":true,"lost":true,"until":"2026-05-07T…Z"}    its holder was lost, it rests
//! {"zklock":1,"kept":true,"node":41,"until":"2026-05-07T…Z"}      held at least until then
//! ```
//!
//! To the next contender, a release and the end of a session look the same. So the holder writes
//! the mark when it is granted the lock, and removes it in the transaction that deletes its node. A
//! contender at the head of the queue that finds the mark of another node knows that this holder
//! was lost, because nobody else is at the head while a holder lives. It cannot know when the
//! holder was lost, so the delay begins now, and its end is written at once: otherwise each
//! contender that only tries, or gives up early, would begin it anew.
//!
//! All times are the server's, which all processes share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::base::clock::Instant;
use crate::base::owner::Owner;
use crate::cooldown::server_time::{ServerTime, after, time_of};

/// The marks that a lock uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    delay_ms: u32,
    hold_ms: u32,
}

impl Marks {
    /// The longest time that can be written; longer ones count as this.
    pub const LONGEST: Duration = Duration::from_millis(u32::MAX as u64);

    /// Those of a lock with this `lock_delay` and `hold_at_least`.
    pub fn new(lock_delay: Duration, hold_at_least: Duration) -> Self {
        Marks { delay_ms: millis(lock_delay), hold_ms: millis(hold_at_least) }
    }

    /// How long the lock is unavailable after its holder was lost.
    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.into())
    }

    /// How long the lock is kept from each grant.
    pub fn hold(&self) -> Duration {
        Duration::from_millis(self.hold_ms.into())
    }

    /// Whether the lock uses marks at all.
    pub fn any(&self) -> bool {
        self.delay_ms > 0 || self.hold_ms > 0
    }
}

/// Rounded up, so that less than a millisecond does not become zero.
fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

/// The contents of a directory's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Whether the directory is persistent, so that the mark is safe there.
    pub kept: bool,
    /// The czxid of the holder's node, 0 for none.
    pub node: i64,
    /// How long the lock is unavailable if that holder is lost.
    pub delay: Duration,
    /// Until when the lock is unavailable, by the server's clock in milliseconds since 1970; 0 if
    /// it is available.
    pub until: i64,
    /// Whether it is unavailable because a holder was lost.
    pub lost: bool,
}

/// What the contender at the head of the queue has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds the lock once its own mark is written.
    Free,
    /// The holder before it was lost: it writes this mark, and looks again.
    WriteDown(Mark),
    /// It waits for this time, and looks again.
    Rest(Duration),
}

/// The longest data that is read as a mark.
const LONGEST: usize = 1024;

const VERSION: u32 = 1;

/// The mark as it is written. A change of the format increments the version: a client that does not
/// know the version must leave the mark alone.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    zklock: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    kept: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

impl Mark {
    /// No mark, in a directory that is persistent or not.
    pub fn nothing(kept: bool) -> Self {
        Mark { kept, ..Mark::default() }
    }

    /// The mark of a holder that is granted the lock at this time.
    pub fn granted(kept: bool, node: i64, marks: &Marks, time: &ServerTime, now: Instant) -> Self {
        let until = if marks.hold().is_zero() { 0 } else { after(time.latest(now), marks.hold()) };
        Mark { kept, node, delay: marks.delay(), until, lost: false }
    }

    /// Reads the data of a directory. `None` if somebody else wrote them, or a later version.
    pub fn read(data: &[u8]) -> Option<Self> {
        if data.is_empty() {
            return Some(Mark::default());
        }
        if data.len() > LONGEST {
            return None;
        }
        let written: Written = serde_json::from_slice(data).ok()?;
        if written.zklock != VERSION {
            return None;
        }
        let until = match &written.until {
            Some(text) => moment(text)?,
            None => 0,
        };
        let Written { kept, node, delay_ms, lost, .. } = written;
        let delay = Duration::from_millis(delay_ms.unwrap_or(0).into());
        Some(Mark { kept, node: node.unwrap_or(0), delay, until, lost })
    }

    /// The data to be written.
    pub fn to_data(self) -> Vec<u8> {
        if self == Mark::default() {
            return Vec::new();
        }
        let Mark { kept, node, delay, until, lost } = self;
        let written = Written {
            zklock: VERSION,
            kept,
            node: (node != 0).then_some(node),
            delay_ms: (!delay.is_zero()).then(|| millis(delay)),
            lost,
            until: (until > 0).then(|| text(until)),
        };
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// What the contender with the node `mine`, at the head of the queue, has to do.
    pub fn verdict(&self, mine: i64, time: &ServerTime, now: Instant) -> Verdict {
        // Written by an attempt that was not answered: it is written again.
        if self.node == mine {
            return Verdict::Free;
        }
        if !self.delay.is_zero() {
            let until = after(time.latest(now), self.delay).max(self.until);
            let (node, delay, lost) = (0, Duration::ZERO, true);
            return Verdict::WriteDown(Mark { kept: self.kept, node, delay, until, lost });
        }
        match u64::try_from(self.until.saturating_sub(time.earliest(now))) {
            Ok(rest @ 1..) => Verdict::Rest(Duration::from_millis(rest)),
            _ => Verdict::Free,
        }
    }

    /// Until when the lock is unavailable, by the server's clock: nobody gets it but the holder that this names.
    pub fn until(&self) -> Option<SystemTime> {
        time_of(self.until)
    }

    /// Whether the owner of this node rests at this time, although nobody is ahead of it. Others than zklock take no
    /// notice of the mark, and who says that it was granted the lock does not know it either. `now` is of any clock
    /// that agrees with the server's, for what is only shown.
    pub fn rests(&self, czxid: u64, owner: &Owner, now: SystemTime) -> bool {
        let heeds = owner.pid.is_some() && owner.granted.is_none();
        let is_named = Ok(czxid) == u64::try_from(self.node);
        heeds && !is_named && self.until().is_some_and(|until| now < until)
    }

    /// Why the lock is unavailable, for a busy error.
    pub fn reason(&self) -> String {
        let until = text(self.until);
        if self.lost {
            format!(
                "its last holder was lost, and it is unavailable until {until} by ZooKeeper's \
                     clock"
            )
        } else {
            format!("it is held at least until {until} by ZooKeeper's clock")
        }
    }
}

/// The last time that RFC 3339 can express.
const LAST: i64 = 253_402_300_799_999;

fn text(moment: i64) -> String {
    let since = Duration::from_millis(moment.clamp(0, LAST).unsigned_abs());
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

fn moment(text: &str) -> Option<i64> {
    let moment = humantime::parse_rfc3339(text).ok()?;
    let since = moment.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(5_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    /// The server's clock shows 1,000,000 to 1,000,011 now.
    fn time() -> ServerTime {
        let sent = NOW - Duration::from_millis(10);
        ServerTime { ctime: 1_000_000, sent, answered: NOW }
    }

    #[test]
    fn a_mark_survives_the_round_trip_and_people_can_read_it() {
        let marks = Marks::new(5 * SECOND, 30 * SECOND);
        for mark in [
            Mark::default(),
            Mark::nothing(true),
            Mark::granted(true, 41, &marks, &time(), NOW),
            Mark { lost: true, until: LAST, ..Mark::default() },
        ] {
            assert_eq!(Mark::read(&mark.to_data()), Some(mark));
        }
        assert!(Mark::default().to_data().is_empty());
        let shown = String::from_utf8(Mark::granted(true, 41, &marks, &time(), NOW).to_data());
        let expected = r#"{"zklock":1,"kept":true,"node":41,"delay_ms":5000,"until":"1970-01-01T00:17:10.011Z"}"#;
        assert_eq!(shown.unwrap(), expected);
    }

    #[test]
    fn the_data_of_others_is_no_mark() {
        let long = format!(r#"{{"zklock":1,"until":"{}"}}"#, "1".repeat(LONGEST));
        for data in [
            "3",
            "10.0.0.7",
            "{}",
            r#"{"zklock":2}"#,
            r#"{"zklock":1,"more":1}"#,
            r#"{"zklock":1,"until":"soon"}"#,
            r#"{"zklock":1,"until":"1969-01-01T00:00:00Z"}"#,
            r#"{"zklock":1,"node":"41"}"#,
            "\u{0}\u{ff}",
            &long,
        ] {
            assert_eq!(Mark::read(data.as_bytes()), None, "{data}");
        }
    }

    #[test]
    fn a_lost_holder_makes_the_next_wait_from_when_that_is_seen() {
        let mark = Mark { node: 41, delay: 5 * SECOND, ..Mark::nothing(true) };
        let Verdict::WriteDown(noted) = mark.verdict(42, &time(), NOW) else { panic!("not noted") };
        let expected = Mark { lost: true, until: 1_005_011, ..Mark::nothing(true) };
        assert_eq!(noted, expected);
        assert_eq!(noted.verdict(42, &time(), NOW), Verdict::Rest(Duration::from_millis(5_011)));
        // Another one who comes later does not begin anew.
        assert_eq!(noted.verdict(43, &time(), NOW + 5 * SECOND), Verdict::Rest(SECOND / 1000 * 11));
        let over = NOW + Duration::from_millis(5_011);
        assert_eq!(noted.verdict(43, &time(), over), Verdict::Free);
        assert_eq!(mark.verdict(41, &time(), NOW), Verdict::Free);
    }

    #[test]
    fn a_lock_is_held_at_least_until_its_moment() {
        let marks = Marks::new(Duration::ZERO, 30 * SECOND);
        let mark = Mark::granted(true, 41, &marks, &time(), NOW);
        assert_eq!(mark.until, 1_030_011);
        let rest = Verdict::Rest(Duration::from_millis(30_011));
        assert_eq!(mark.verdict(42, &time(), NOW), rest);
        assert_eq!(mark.verdict(42, &time(), NOW + 31 * SECOND), Verdict::Free);
        assert!(mark.reason().contains("held at least until 1970-01-01T00:17:10.011Z"));
    }

    #[test]
    fn the_longer_of_delay_and_hold_counts() {
        let marks = Marks::new(SECOND, 30 * SECOND);
        let mark = Mark::granted(true, 41, &marks, &time(), NOW);
        let Verdict::WriteDown(noted) = mark.verdict(42, &time(), NOW + SECOND) else {
            panic!("not noted")
        };
        assert_eq!(noted.until, mark.until);
        assert!(noted.reason().contains("was lost"), "{}", noted.reason());
        let Verdict::WriteDown(noted) = mark.verdict(42, &time(), NOW + 60 * SECOND) else {
            panic!()
        };
        assert_eq!(noted.until, 1_061_011);
    }

    #[test]
    fn while_a_lock_is_unavailable_all_rest_but_the_holder_that_the_mark_names() {
        let moment = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let held = Mark { node: 41, until: 1_030_011, ..Mark::nothing(true) };
        assert_eq!(held.until(), Some(moment(1_030_011)));
        let by = |pid| Owner { pid, ..Owner::default() };
        let rests =
            |mark: &Mark, now| [41, 42].map(|czxid| mark.rests(czxid, &by(Some(7)), moment(now)));
        assert_eq!(rests(&held, 1_030_010), [false, true]);
        assert_eq!(rests(&held, 1_030_011), [false, false]);
        let lost = Mark { node: 0, lost: true, ..held };
        assert_eq!(rests(&lost, 1_030_010), [true, true]);
        assert!(!lost.rests(42, &by(None), moment(1_030_010)), "it is no zklock");
        for mark in [Mark::default(), Mark { node: 41, delay: 5 * SECOND, ..Mark::default() }] {
            assert_eq!((mark.until(), rests(&mark, 0)), (None, [false, false]));
        }
    }

    #[test]
    fn no_moment_breaks_the_words() {
        for until in [i64::MIN, 0, i64::MAX] {
            assert!(Mark { until, ..Mark::default() }.reason().contains('T'));
        }
        let marks = Marks::new(Duration::MAX, Duration::from_nanos(1));
        assert_eq!((marks.delay(), marks.hold()), (Marks::LONGEST, SECOND / 1000));
        assert!(!Marks::default().any());
    }
}
