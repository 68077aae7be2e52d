//! What happened to locks since this server looks at them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use zklock::{ContenderInfo, Mode};

use crate::held::{Held, began, granted};
use crate::inspect::{moment, value};
use crate::ls::{Lock, who};
use crate::when::since;

/// What ended longer ago is forgotten.
const KEPT: Duration = Duration::from_secs(600);
/// So many spans of a lock are kept, the latest.
const MOST_SPANS: usize = 300;
/// So many locks that nobody uses are kept.
const MOST_UNUSED: usize = 500;

/// The locks that were seen, by name.
#[derive(Debug, Default)]
pub(super) struct History {
    since: Option<SystemTime>,
    looked: Option<SystemTime>,
    lines: BTreeMap<String, Line>,
}

/// A lock.
#[derive(Debug, Default)]
struct Line {
    path: String,
    layout: String,
    kind: &'static str,
    spans: VecDeque<Span>,
    /// The czxids of the permits that some of the waiters had made when it was seen last.
    awaited: BTreeSet<u64>,
    /// Since when nobody holds it or waits.
    free: Option<SystemTime>,
}

/// A time in which a contender held the lock, or waited for it.
#[derive(Debug)]
struct Span {
    one: ContenderInfo,
    /// Whether it holds the lock, and does not wait for it.
    holds: bool,
    from: SystemTime,
    /// Since when it holds the lock for certain: a holder that does not tell may have waited before it was seen.
    certain: SystemTime,
    to: Option<SystemTime>,
    end: Option<&'static str>,
    /// Whether this server may have deleted its node, which the next look tells.
    in_doubt: bool,
    /// Whether the session of a holder was silent or without a connection when it was seen last.
    dying: bool,
}

impl History {
    /// Takes in what was seen. `gap` says that nobody looked for a while before.
    pub(super) fn seen(
        &mut self,
        locks: &[Lock],
        is_dying: impl Fn(&ContenderInfo) -> bool,
        now: SystemTime,
        gap: bool,
    ) {
        self.since.get_or_insert(now);
        let before = self.looked.replace(now).unwrap_or(now);
        let known = |name: &String| locks.binary_search_by(|lock| lock.name.cmp(name)).is_ok();
        for (_, line) in self.lines.iter_mut().filter(|(name, _)| !known(name)) {
            line.takes_in(&[], before, now, gap);
            line.awaited.clear();
            line.free.get_or_insert(if gap { before } else { now });
        }
        for lock in locks {
            let line = self.lines.entry(lock.name.clone()).or_default();
            (line.path, line.layout, line.kind) =
                (lock.path.clone(), lock.layout.clone(), kind(lock));
            line.free = None;
            let holders = lock.holders.iter().map(|one| (one, true));
            let all = holders.chain(lock.waiters.iter().map(|one| (one, false)));
            let all: Vec<_> = all.map(|(one, holds)| (one, holds, is_dying(one))).collect();
            line.takes_in(&all, before, now, gap);
            line.awaited = lock.awaited.iter().map(|one| one.czxid).collect();
        }
        self.forget(now);
    }

    fn forget(&mut self, now: SystemTime) {
        let is_old = |moment: SystemTime| now.duration_since(moment).is_ok_and(|ago| ago > KEPT);
        for line in self.lines.values_mut() {
            line.spans.retain(|span| !span.to.is_some_and(is_old));
        }
        self.lines.retain(|_, line| !line.free.is_some_and(is_old));
        let mut unused: Vec<_> =
            self.lines.iter().filter_map(|(name, line)| Some((line.free?, name.clone()))).collect();
        unused.sort();
        for (_, name) in unused.iter().take(unused.len().saturating_sub(MOST_UNUSED)) {
            self.lines.remove(name);
        }
    }

    /// Whether a lock was seen.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.lines.contains_key(name)
    }

    /// Remembers that the node of a contender was deleted by this server. That may have been seen already.
    pub(super) fn broken(&mut self, name: &str, node: &str, czxid: u64) {
        if let Some(span) = self.last_span(name, node, czxid) {
            span.end = Some("broken");
        }
    }

    /// Remembers that this server may have deleted the node of a contender: if it is gone at the next look, it has.
    pub(super) fn perhaps_broken(&mut self, name: &str, node: &str, czxid: u64) {
        match self.last_span(name, node, czxid) {
            Some(span) if span.to.is_none() => span.in_doubt = true,
            Some(span) => span.end = Some("broken"),
            None => {}
        }
    }

    fn last_span(&mut self, name: &str, node: &str, czxid: u64) -> Option<&mut Span> {
        let mut last = self.lines.get_mut(name)?.spans.iter_mut().rev();
        last.find(|span| span.one.node == node && span.one.czxid == czxid)
    }

    /// Since when somebody of those holds a lock, as it says or as was seen.
    pub(super) fn held_since(&self, name: &str) -> Option<SystemTime> {
        self.open(name).filter(|span| span.holds).map(|span| span.from).min()
    }

    /// How long somebody of those holds a lock.
    pub(super) fn held_for(&self, name: &str) -> Held {
        let held = self.open(name).filter(|span| span.holds);
        let held = held.map(|span| Held { most: since(span.from), least: since(span.certain) });
        held.reduce(Held::or).unwrap_or_default()
    }

    fn open(&self, name: &str) -> impl Iterator<Item = &Span> {
        let spans = self.lines.get(name).into_iter().flat_map(|line| &line.spans);
        spans.filter(|span| span.to.is_none())
    }

    /// The locks that nobody uses any more: name, path, layout, kind, and since when.
    pub(super) fn unused(&self) -> impl Iterator<Item = (&str, &str, &str, &str, SystemTime)> {
        self.lines.iter().filter_map(|(name, line)| {
            Some((&**name, &*line.path, &*line.layout, line.kind, line.free?))
        })
    }

    /// What happened to a lock, in the order in which it began.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        let line = self.lines.get(name)?;
        let spans: Vec<_> = line.spans.iter().map(Span::value).collect();
        Some(json!({ "name": name, "since": self.since.map(moment), "spans": spans }))
    }
}

impl Line {
    fn takes_in(
        &mut self,
        all: &[(&ContenderInfo, bool, bool)],
        before: SystemTime,
        now: SystemTime,
        gap: bool,
    ) {
        let at = if gap { before } else { now };
        let mut new: Vec<_> = all.iter().collect();
        // Who waited for a permit with a node in the inner lock holds it with another one.
        let is_new =
            |one: &ContenderInfo| self.spans.iter().all(|span| span.one.czxid != one.czxid);
        let permits = all.iter().filter(|(one, holds, _)| *holds && one.mode == Mode::Permit);
        let mut permits: Vec<_> = permits.map(|(one, ..)| *one).filter(|one| is_new(one)).collect();
        for span in self.spans.iter_mut().filter(|span| span.to.is_none()) {
            let same =
                |one: &ContenderInfo| one.node == span.one.node && one.czxid == span.one.czxid;
            let Some(at_present) = new.iter().position(|(one, ..)| same(one)) else {
                let its_permit = |one: &&ContenderInfo| {
                    let is_inner = !span.holds && span.one.mode == Mode::Mutex;
                    let session = span.one.zookeeper_session;
                    is_inner && one.zookeeper_session == session && one.czxid > span.one.czxid
                };
                let waited =
                    |one: &&ContenderInfo| its_permit(one) && self.awaited.contains(&one.czxid);
                let is_granted = permits.iter().any(its_permit);
                if permits.iter().any(waited) {
                    // One caller has made all of them.
                    permits.retain(|one| !waited(one));
                } else if let Some(place) = permits.iter().position(its_permit) {
                    permits.remove(place);
                }
                span.ends(
                    at,
                    match (span.end, gap) {
                        (Some(end), _) => end,
                        _ if span.in_doubt => "broken",
                        (_, true) => "unseen",
                        _ if is_granted => "granted",
                        _ if span.dying => "gone",
                        _ if span.holds => "released",
                        _ => "left",
                    },
                );
                continue;
            };
            let (one, holds, dying) = *new[at_present];
            span.in_doubt = false;
            // A process hands the lock on without another node: its text says since when.
            let handed =
                span.one.owner.granted.is_some() && span.one.owner.granted != one.owner.granted;
            if holds == span.holds && !handed {
                if let Some(told) = granted(one).filter(|_| holds) {
                    span.from = told.max(span.from).min(span.certain);
                    span.certain = span.from;
                }
                (span.one, span.dying) = (one.clone(), dying);
                new.remove(at_present);
            } else {
                span.ends(at, if span.holds { "released" } else { "granted" });
            }
        }
        for (one, holds, dying) in new {
            let was_here = self.awaited.contains(&one.czxid)
                || self.spans.iter().any(|span| span.one.czxid == one.czxid);
            let from = match (holds, was_here) {
                (true, true) => granted(one).filter(|told| *told > before).unwrap_or(now).min(now),
                (true, false) => began(one).min(now),
                (false, _) => one.created.min(now),
            };
            let certain = if granted(one).is_some() { from } else { now };
            let (one, holds, dying) = ((*one).clone(), *holds, *dying);
            let (to, end, in_doubt) = (None, None, false);
            self.spans.push_back(Span { one, holds, from, certain, to, end, in_doubt, dying });
        }
        while self.spans.len() > MOST_SPANS {
            // Of a long queue, who holds the lock and who has waited longest.
            let ended = self.spans.iter().position(|span| span.to.is_some());
            let last = || self.spans.iter().rposition(|span| !span.holds);
            let least = ended.or_else(last).unwrap_or(MOST_SPANS);
            self.spans.remove(least);
        }
    }
}

impl Span {
    fn ends(&mut self, at: SystemTime, how: &'static str) {
        (self.to, self.end) = (Some(at.max(self.from)), Some(how));
    }

    fn value(&self) -> Value {
        let mut value = value(&self.one);
        // What it was waiting for is of no more interest.
        value["why"] = Value::Null;
        value["holds"] = self.holds.into();
        json!({
            "contender": value,
            "who": who(&self.one),
            "from": moment(self.from),
            "to": self.to.map(moment),
            "end": self.end.filter(|_| self.to.is_some()),
        })
    }
}

/// What the modes of its users say.
pub(super) fn kind(lock: &Lock) -> &'static str {
    let all = || lock.holders.iter().chain(&lock.waiters).chain(&lock.awaited);
    let modes = || all().map(|one| one.mode);
    if modes().any(|mode| mode == Mode::Permit) {
        "semaphore"
    } else if modes().all(|mode| mode == Mode::Mutex) {
        "mutex"
    } else {
        "read/write"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklock::Session;

    #[tokio::test]
    async fn a_long_queue_leaves_its_holder_in_sight() {
        let session = Session::embedded();
        let _held = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut locks = crate::ls::find(&session, None).await.unwrap().locks;
        let one = locks[0].holders[0].clone();
        let waiter = |number: u64| {
            let mut waiter = one.clone();
            (waiter.node, waiter.holds) = (format!("{number}"), false);
            waiter.czxid += number;
            waiter
        };
        locks[0].waiters = (1..1_000).map(waiter).collect();
        let (mut history, mut before) = (History::default(), None);
        for look in 1..4 {
            let now = one.created + Duration::from_secs(look);
            history.seen(&locks, |_| false, now, false);
            assert_eq!(history.held_since("a"), Some(began(&one)));
            let value = history.value("a").unwrap();
            assert_eq!(value["spans"].as_array().unwrap().len(), MOST_SPANS);
            assert!(before.is_none_or(|before| before == value), "nothing has changed");
            before = Some(value);
        }
    }

    #[tokio::test]
    async fn what_a_holder_tells_later_takes_the_place_of_the_age_of_its_node() {
        let session = Session::embedded();
        let _held = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut locks = crate::ls::find(&session, None).await.unwrap().locks;
        let one = &mut locks[0].holders[0];
        let (now, minute) = (one.created, Duration::from_secs(60));
        one.created -= 10 * minute;
        one.owner.granted = None;
        let mut history = History::default();
        history.seen(&locks, |_| false, now, false);
        let held = history.held_for("a");
        assert!(held.most >= 10 * minute && held.least < minute, "{held:?}");
        let granted = now - minute;
        locks[0].holders[0].owner.granted = Some(moment(granted));
        history.seen(&locks, |_| false, now + minute, false);
        assert!(!history.held_for("a").is_at_most());
        let since = history.held_since("a").map(moment);
        assert_eq!(since, Some(moment(granted)));
    }

    /// Its waiters stand in its inner lock, with nodes of one session, and hold it with other nodes.
    #[tokio::test]
    async fn who_is_granted_a_permit_has_not_left_the_queue() {
        let session = Session::embedded();
        let _held = session.semaphore("a", 2).unwrap().acquire().await.unwrap();
        let locks = async || crate::ls::find(&session, None).await.unwrap().locks;
        let (mut before, mut after) = (locks().await, locks().await);
        let mut node = before[0].holders.remove(0);
        let (second, now) = (Duration::from_secs(1), node.created + Duration::from_secs(60));
        node.owner.granted = None;
        let mut permit = node.clone();
        (permit.node, permit.czxid) = ("b-lease-0000000001".to_owned(), node.czxid + 9);
        (node.mode, node.holds) = (Mode::Mutex, false);
        let waiters = [0, 1, 2].map(|number| {
            let mut waiter = node.clone();
            (waiter.node, waiter.czxid) =
                (format!("b-lock-000000000{number}"), node.czxid + number);
            waiter
        });
        before[0].waiters = waiters.to_vec();
        before[0].awaited = vec![permit.clone()];
        after[0].waiters = waiters[2..].to_vec();
        after[0].holders = vec![permit];
        let mut history = History::default();
        history.seen(&before, |_| false, now, false);
        history.seen(&after, |_| false, now + second, false);
        let told = history.value("a").unwrap();
        let ends: Vec<_> =
            told["spans"].as_array().unwrap().iter().map(|one| &one["end"]).collect();
        assert_eq!(ends, [&"granted".into(), &"left".into(), &Value::Null, &Value::Null], "{told}");
        // It had waited before, with this node as well.
        assert_eq!(history.held_since("a"), Some(now + second));
    }

    #[tokio::test]
    async fn who_waited_for_several_permits_holds_all_of_them_since_it_was_granted_them() {
        let session = Session::embedded();
        let _held = session.semaphore("a", 3).unwrap().acquire_many(3).await.unwrap();
        let locks = async || crate::ls::find(&session, None).await.unwrap().locks;
        let (mut before, mut after) = (locks().await, locks().await);
        after[0].holders.iter_mut().for_each(|one| one.owner.granted = None);
        before[0].awaited = std::mem::take(&mut before[0].holders);
        let [mut first, mut second] = [(); 2].map(|()| before[0].awaited[0].clone());
        for (waiter, node) in
            [(&mut first, "b-lock-0000000000"), (&mut second, "b-lock-0000000001")]
        {
            (waiter.node, waiter.mode, waiter.holds) = (node.to_owned(), Mode::Mutex, false);
            waiter.czxid -= 2;
        }
        second.czxid += 1;
        let now = first.created + Duration::from_secs(60);
        before[0].waiters = vec![first, second];
        let mut history = History::default();
        history.seen(&before, |_| false, now, false);
        let then = now + Duration::from_secs(1);
        history.seen(&after, |_| false, then, false);
        let told = history.value("a").unwrap();
        let spans = told["spans"].as_array().unwrap();
        let ends: Vec<_> = spans.iter().map(|one| &one["end"]).collect();
        let [granted, left, none] = ["granted".into(), "left".into(), Value::Null];
        // The second one gave up meanwhile.
        assert_eq!(ends, [&granted, &left, &none, &none, &none], "{told}");
        assert!(spans[2..].iter().all(|one| one["from"] == moment(then)), "{told}");
    }

    /// The deletion may be seen before whoever asked for it is told so.
    #[tokio::test]
    async fn a_node_that_is_deleted_here_is_broken_whoever_had_it_and_whenever_it_is_seen() {
        let session = Session::embedded();
        let _held = session.mutex("a").unwrap().acquire().await.unwrap();
        let locks = crate::ls::find(&session, None).await.unwrap().locks;
        let one = &locks[0].holders[0];
        for (holds, is_seen_first) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut locks = crate::ls::find(&session, None).await.unwrap().locks;
            if !holds {
                locks[0].waiters = std::mem::take(&mut locks[0].holders);
            }
            let (mut history, second) = (History::default(), Duration::from_secs(1));
            let mut look = |locks: &[Lock], at| {
                history.seen(locks, |_| false, one.created + second * at, false)
            };
            look(&locks, 1);
            look(if is_seen_first { &[] } else { &locks }, 2);
            history.broken("a", &one.node, one.czxid);
            let mut look = |locks: &[Lock], at| {
                history.seen(locks, |_| false, one.created + second * at, false)
            };
            look(&[], 3);
            let ended = history.value("a").unwrap()["spans"][0]["end"].clone();
            assert_eq!(ended, "broken", "{holds} {is_seen_first}");
        }
        let fields = include_str!("../../JSON.md");
        assert!(fields.contains("`broken` (on this page) of either"));
    }

    #[tokio::test]
    async fn a_node_that_may_have_been_deleted_here_is_broken_if_it_is_gone_at_the_next_look() {
        let session = Session::embedded();
        let _held = session.mutex("a").unwrap().acquire().await.unwrap();
        let locks = crate::ls::find(&session, None).await.unwrap().locks;
        let (one, second) = (&locks[0].holders[0], Duration::from_secs(1));
        for (looks, end) in [
            (&[(1, true), (3, false)][..], "broken"),
            (&[(1, true), (3, true), (4, false)], "released"),
            (&[(1, true), (2, false)], "broken"),
        ] {
            let mut history = History::default();
            let mut in_doubt = true;
            for &(at, is_there) in looks {
                if at > 2 && std::mem::take(&mut in_doubt) {
                    history.perhaps_broken("a", &one.node, one.czxid);
                }
                let seen = if is_there { &locks[..] } else { &[] };
                history.seen(seen, |_| false, one.created + second * at, false);
            }
            if in_doubt {
                history.perhaps_broken("a", &one.node, one.czxid);
            }
            let ended = history.value("a").unwrap()["spans"][0]["end"].clone();
            assert_eq!(ended, end, "{looks:?}");
        }
    }
}
