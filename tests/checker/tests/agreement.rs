//! The fast checker and the independent one agree about random histories, right and wrong ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use serde_json::json;
use zklock_checker::linearizable::{self, Opinion};
use zklock_checker::{History, Line, Rule, check};

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A run of a lock that is right, but for a mistake now and then: somebody enters too early, or
/// with the token of somebody else.
fn run(random: &mut Random, kinds: &[&str], limit: u64, grants: u64) -> History {
    let (mut lines, mut now) = (Vec::<Line>::new(), 1_000_000);
    // When those who are inside, by kind, will have gone.
    let (mut alone, mut shared) = (0, vec![0; usize::try_from(limit).unwrap()]);
    let wrong = random.below(2) == 0;
    for number in 1..=grants {
        let kind = kinds[usize::try_from(random.below(kinds.len() as u64)).unwrap()];
        let mut free = alone;
        let slot = (0..shared.len()).min_by_key(|slot| shared[*slot]).unwrap();
        match kind {
            "read" | "semaphore" => free = free.max(shared[slot]),
            _ => free = free.max(*shared.iter().max().unwrap()),
        }
        let mut enters = now.max(free) + 1 + random.below(20);
        let mut token = number;
        if wrong && random.below(grants - 2) == 0 {
            match random.below(2) {
                0 => enters = enters.saturating_sub(1 + random.below(120)),
                _ => token = token.saturating_sub(1 + random.below(3)).max(1),
            }
        }
        let (asked, leaves) = (enters - random.below(60), enters + random.below(40));
        let gone = leaves + 1 + random.below(10);
        match kind {
            "read" | "semaphore" => shared[slot] = gone,
            _ => alone = gone,
        }
        now = enters;
        // What meets in one moment has no order. So grants have even moments, the others odd ones.
        let (enters, asked, leaves) = (2 * enters, 2 * asked + 1, 2 * leaves + 1);
        let ends = 2 * gone + 1;
        let client = format!("c{number}");
        for (at, side, what) in [
            (
                asked,
                "in",
                json!({"id": 1, "op": "acquire", "kind": kind, "lock": "a", "limit": limit}),
            ),
            (
                enters,
                "out",
                json!({"id": 1, "ok": true, "handle": 1, "at_ns": enters,
                "token": format!("{token:016x}-0000000000000000"), "path": "/"}),
            ),
            (leaves, "in", json!({"id": 2, "op": "release", "handle": 1})),
            (ends, "out", json!({"id": 2, "ok": true, "at_ns": leaves})),
        ] {
            let line = json!({"at_ns": at, "client": client, side: what});
            lines.push(serde_json::from_value(line).unwrap());
        }
    }
    lines.sort_by_key(|line| line.at_ns);
    History::of(lines)
}

#[track_caller]
fn agree(kinds: &[&str], limit: u64, model: &str) {
    agree_on(kinds, limit, model, 12, 2_000);
    // So many that they are searched in parts.
    agree_on(kinds, limit, model, 700, 60);
}

#[track_caller]
fn agree_on(kinds: &[&str], limit: u64, model: &str, grants: u64, rounds: usize) {
    let mut random = Random(7);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..rounds {
        let history = run(&mut random, kinds, limit, grants);
        let found = check(&history);
        let lies = |rule| rule == Rule::Exclusion || rule == Rule::Tokens;
        let refused = found.iter().any(|found| lies(found.rule));
        let opinions = linearizable::check(&history, Duration::from_secs(10));
        let (_, _, opinion) = opinions.iter().find(|(_, name, _)| *name == model).unwrap();
        let other = if refused { Opinion::No } else { Opinion::Yes };
        assert_eq!(*opinion, other, "round {round}: {found:?}");
        if refused { wrong += 1 } else { right += 1 }
    }
    assert!(right > rounds / 4 && wrong > rounds / 20, "{right} right, {wrong} wrong");
}

#[test]
fn about_fenced_mutexes() {
    agree(&["mutex"], 1, "fenced");
}

#[test]
fn about_readers_and_writers() {
    agree(&["read", "read", "write"], 3, "read/write");
}

#[test]
fn about_semaphores() {
    agree(&["semaphore"], 3, "semaphore");
}

#[test]
fn a_million_lines_take_seconds() {
    let lines = (0_u64..250_000).flat_map(|number| {
        let (client, at) = (format!("c{}", number % 50), 1_000 + number * 100);
        let (ask, release) = (number * 2 + 1, number * 2 + 2);
        [
            (at, "in", json!({"id": ask, "op": "acquire", "lock": format!("l{}", number % 7)})),
            (
                at + 20,
                "out",
                json!({"id": ask, "ok": true, "handle": ask, "at_ns": at + 10,
                "token": format!("{number:016x}-0000000000000000"), "path": "/"}),
            ),
            (at + 30, "in", json!({"id": release, "op": "release", "handle": ask})),
            (at + 40, "out", json!({"id": release, "ok": true, "at_ns": at + 31})),
        ]
        .map(|(at, side, what)| {
            serde_json::from_value::<Line>(json!({"at_ns": at, "client": client, side: what}))
                .unwrap()
        })
    });
    let history = History::of(lines);
    assert_eq!(history.holds.len(), 250_000);
    assert_eq!(check(&history), []);
}
