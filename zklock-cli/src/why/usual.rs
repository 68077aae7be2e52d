//! How long a lock is held, compared to what is usual.
//!
//! ZooKeeper keeps no history of a lock, but it numbers the nodes of a directory. The number of a holder's node says
//! how many came before it; all of them that are gone had left the queue when it got the lock. So it is known how
//! often one left, from the time when the directory was made to this grant. Not known is who of them held the lock,
//! and who gave up. Those who gave up while this one held it say whether that is likely.

use std::time::Duration;

use serde_json::{Value, json};
use zklock::{ContenderInfo, Mode};

use crate::held::{began, granted};
use crate::ls::number;
use crate::when::{millis, since, span};
use crate::why::view::Queue;

/// Of fewer nothing is usual.
const FEW: i64 = 3;
/// From here on a tenth says nothing.
const MANY: f64 = 10.0;

/// What is usual for a lock, and how a holder compares to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usual {
    /// How many had left the queue when this one got the lock.
    before: u32,
    /// In which time, since the directory was made.
    within: Duration,
    /// Whether several may hold it at the same time, so that their number says nothing about the time of one.
    shared: bool,
    /// For how long this one holds the lock.
    held: Duration,
    /// Whether it may be less, because the time of the grant is not known.
    at_most: bool,
    /// How many came after it and are gone, where it excludes them.
    gave_up: Option<i64>,
}

impl Usual {
    /// Fails with the reason why it is not known.
    fn of(queue: &Queue, one: &ContenderInfo) -> Result<Self, String> {
        let survey = &queue.survey;
        let Some(made) = survey.created else {
            return Err("its directory does not tell its age".to_owned());
        };
        let own = number(&one.node).filter(|number| *number < survey.next_number);
        let Some(own) = own else {
            return Err("its node has no number".to_owned());
        };
        let names = survey.queue.iter().map(|other| &other.node).chain(&survey.unread);
        let numbers = names.filter_map(|name| number(name));
        let still_there = count(numbers.clone().filter(|number| *number < own));
        // These were given a number as well, and nothing tells which.
        let strangers = count(survey.strangers.iter());
        let before = own.saturating_sub(still_there).saturating_sub(strangers).max(0);
        match before {
            0 => return Err("nobody was in the queue before".to_owned()),
            1 => return Err("only one was in the queue before".to_owned()),
            few @ ..FEW => return Err(format!("only {few} were in the queue before")),
            _ => {}
        }
        let held = since(began(one));
        let within = since(made).saturating_sub(held);
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        if (within / before).is_zero() {
            return Err("the clocks of the machines differ".to_owned());
        }
        let shared = one.mode != Mode::Mutex;
        let came = survey.next_number.saturating_sub(own).saturating_sub(1);
        let after = count(numbers.filter(|number| *number > own));
        let gave_up = came.saturating_sub(after).saturating_sub(strangers).max(0);
        let gave_up = (!shared).then_some(gave_up);
        Ok(Usual { before, within, shared, held, at_most: granted(one).is_none(), gave_up })
    }

    /// How often one left the queue.
    fn every(&self) -> Duration {
        self.within / self.before
    }

    /// How many times as long this one holds the lock.
    fn times(&self) -> Option<f64> {
        (!self.shared).then(|| self.held.as_secs_f64() / self.every().as_secs_f64())
    }

    fn lines(&self) -> Vec<String> {
        let (every, within) = (short(self.every()), span(self.within));
        let rate =
            format!("one leaves the queue every {every} ({} in {within} before)", self.before);
        let Some(times) = self.times() else {
            let why = "several may hold it at the same time, so how long one does is not known";
            return vec![format!("{rate};"), why.to_owned()];
        };
        let most = if self.at_most { "at most " } else { "" };
        let mut lines = vec![match times {
            ..1.0 => format!("{rate}: this is not longer"),
            ..MANY => format!("{rate}: this is {most}{times:.1} times as long"),
            _ => format!("{rate}: this is {most}{times:.0} times as long"),
        }];
        let gave_up = match self.gave_up.unwrap_or_default() {
            0 => return lines,
            1 => "one has".to_owned(),
            several => format!("{several} have"),
        };
        let too = "given up since it came; some of those before may have, too";
        lines.push(format!("{gave_up} {too}"));
        lines
    }
}

/// What is usual, in words.
pub(super) fn lines(queue: &Queue, one: &ContenderInfo) -> Vec<String> {
    match Usual::of(queue, one) {
        Ok(usual) => usual.lines(),
        Err(why) => vec![format!("not known: {why}")],
    }
}

/// What is usual, as JSON.
pub(super) fn value(queue: &Queue, one: &ContenderInfo) -> Value {
    let usual = Usual::of(queue, one);
    let (known, unknown) = (usual.as_ref().ok(), usual.as_ref().err());
    json!({
        "before": known.map(|usual| usual.before),
        "within_ms": known.map(|usual| millis(usual.within)),
        "every_ms": known.map(|usual| millis(usual.every())),
        "times": known.and_then(Usual::times),
        "at_most": known.is_some_and(|usual| usual.at_most),
        "gave_up": known.and_then(|usual| usual.gave_up),
        "unknown": unknown,
        "says": lines(queue, one),
    })
}

fn count(all: impl Iterator) -> i64 {
    i64::try_from(all.count()).unwrap_or(i64::MAX)
}

/// Locks may be handed on faster than people look at them.
fn short(time: Duration) -> String {
    match time.as_millis() {
        ..100 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => span(time),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use zklock::Session;

    const SECOND: Duration = Duration::from_secs(1);

    /// A queue of a holder with this number and of those with these, whose directory was made so many seconds ago.
    async fn queue(own: i64, others: &[i64], next: i64, made: u32) -> Queue {
        let session = Session::embedded();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut survey = session.site("a").unwrap().survey().await.unwrap();
        let mut one = survey.queue.remove(0);
        let (kind, _) = one.node.split_at(one.node.len() - 10);
        let kind = kind.to_owned();
        let now = one.created;
        one.owner.granted = None;
        for number in [&[own], others].concat() {
            one.node = format!("{kind}{number:010}");
            one.holds = number == own;
            survey.queue.push(one.clone());
        }
        survey.next_number = next;
        survey.created = Some(now - SECOND * made);
        crate::why::example::queue(survey)
    }

    /// Its node was made, or it was granted the lock, so many seconds ago.
    fn begin(queue: &mut Queue, now: SystemTime, made: u32, granted: Option<u32>) {
        let ago = |seconds| now - SECOND * seconds;
        let one = &mut queue.survey.queue[0];
        one.created = ago(made);
        let granted = granted.map(|granted| humantime::format_rfc3339_millis(ago(granted)));
        one.owner.granted = granted.map(|at| at.to_string());
    }

    fn told(queue: &Queue) -> Vec<String> {
        lines(queue, &queue.survey.queue[0])
    }

    #[tokio::test]
    async fn a_hold_is_compared_to_how_often_one_left_before() {
        let mut queue = queue(5_000, &[5_001], 5_002, 10_250).await;
        let now = queue.survey.queue[0].created;
        begin(&mut queue, now, 260, Some(250));
        let rate = "one leaves the queue every 2.0 s (5000 in 2 h 46 min before): this is";
        assert_eq!(told(&queue), [format!("{rate} 125 times as long")]);
        let value = value(&queue, &queue.survey.queue[0]);
        assert_eq!(
            (&value["before"], &value["every_ms"], &value["gave_up"], &value["at_most"]),
            (&5_000.into(), &2_000.into(), &0.into(), &false.into())
        );
        // Who does not tell since when it holds the lock may have waited for most of that time.
        begin(&mut queue, now, 250, None);
        assert_eq!(told(&queue), [format!("{rate} at most 125 times as long")]);
        begin(&mut queue, now, 10, Some(6));
        assert_eq!(told(&queue)[0].rsplit_once(": ").unwrap().1, "this is 2.9 times as long");
        begin(&mut queue, now, 10, Some(2));
        assert_eq!(told(&queue)[0].rsplit_once(": ").unwrap().1, "this is not longer");
    }

    /// Then those before may have given up as well, and the holds were longer than it seems.
    #[tokio::test]
    async fn those_who_gave_up_are_told() {
        // Of the numbers from 101 to 119, two are there.
        let mut queue = queue(100, &[118, 119], 120, 1_100).await;
        let now = queue.survey.queue[0].created;
        begin(&mut queue, now, 100, Some(100));
        let told = told(&queue);
        assert!(told[0].ends_with("this is 10 times as long"), "{told:?}");
        assert_eq!(told[1], "17 have given up since it came; some of those before may have, too");
        assert_eq!(value(&queue, &queue.survey.queue[0])["gave_up"], 17);
        queue.survey.next_number = 104;
        let line = lines(&queue, &queue.survey.queue[0]).remove(1);
        assert!(line.starts_with("one has given up since it came; "), "{line}");
    }

    #[tokio::test]
    async fn what_is_not_known_is_not_guessed() {
        let not = |queue: &Queue| {
            let value = value(queue, &queue.survey.queue[0]);
            assert!(value["times"].is_null(), "{value}");
            told(queue)
        };
        assert_eq!(
            not(&queue(0, &[1], 2, 60).await),
            ["not known: nobody was in the queue before"]
        );
        let one = not(&queue(1, &[], 2, 60).await);
        assert_eq!(one, ["not known: only one was in the queue before"]);
        let few = not(&queue(2, &[], 3, 60).await);
        assert_eq!(few, ["not known: only 2 were in the queue before"]);
        // Readers before it that are still there have not left.
        let few = not(&queue(5, &[1, 2, 3], 6, 60).await);
        assert_eq!(few, ["not known: only 2 were in the queue before"]);
        let mut plain = queue(7, &[], 8, 60).await;
        plain.survey.queue[0].node = "lock".to_owned();
        assert_eq!(not(&plain), ["not known: its node has no number"]);
        // Of an identifier without a number, the end may look like one.
        plain.survey.queue[0].node = "be2ee212c5074b18a733811234567890".to_owned();
        assert_eq!(not(&plain), ["not known: its node has no number"]);
        let mut ahead = queue(7, &[], 8, 0).await;
        let now = ahead.survey.queue[0].created;
        begin(&mut ahead, now, 5, None);
        assert_eq!(not(&ahead), ["not known: the clocks of the machines differ"]);
        let mut readers = queue(7, &[8], 9, 70).await;
        readers.survey.queue[0].mode = Mode::Read;
        let told = not(&readers);
        assert_eq!(told[0], "one leaves the queue every 10 s (7 in 1 min 10 s before);");
        assert!(told[1].starts_with("several may hold it at the same time"), "{told:?}");
        assert_eq!(
            value(&readers, &readers.survey.queue[0])["every_ms"].as_u64().unwrap() / 10,
            1_000
        );
    }
}
