//! What is shown: the locks, in an order that keys choose.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::held::Held;
use crate::ls::{self, Found, LeftOut, Lock, who};
use crate::server::Again;
use crate::text::count;
use crate::top::warnings;
use crate::top::watched::Watched;
use crate::when::{millis, since, span};
use crate::why::view::View;

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// Most nodes a second.
    #[default]
    Hot,
    Held,
    Waited,
    Suspect,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Sort(Sort),
    Redraw,
    Quit,
}

impl Key {
    pub(super) fn of(key: char) -> Option<Key> {
        Some(match key {
            'h' => Key::Sort(Sort::Hot),
            'l' => Key::Sort(Sort::Held),
            'w' => Key::Sort(Sort::Waited),
            's' => Key::Sort(Sort::Suspect),
            'q' => Key::Quit,
            _ => return None,
        })
    }
}

#[derive(Debug)]
struct Row {
    name: String,
    /// Nodes that were created a second, since the last look.
    rate: f64,
    held: Held,
    waited: Duration,
    waiting: usize,
    holder: String,
    warnings: Vec<String>,
}

/// The locks as they were seen last.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) sort: Sort,
    /// How long a look takes, where it is longer than people want to wait for the next.
    pub(super) slow: Option<Duration>,
    pub(super) left_out: LeftOut,
    /// How `zklock` was called.
    again: Again,
    rows: Vec<Row>,
    /// The highest number of a node of each lock, and when it was seen.
    numbers: HashMap<String, (i64, Instant)>,
    watched: Watched,
}

impl Model {
    /// Nothing was seen yet. `again` is how `zklock` was called.
    pub(super) fn new(again: Again) -> Self {
        Model { again, ..Model::default() }
    }

    /// Takes in what was seen.
    pub(super) fn seen(&mut self, found: Found, views: &[View], now: Instant) {
        let mut numbers = HashMap::new();
        let mut rows = Vec::new();
        self.left_out = found.left_out;
        let held = self.watched.look(&found.locks, now);
        for (lock, held) in found.locks.into_iter().zip(held) {
            let waited = lock.waiters.iter().map(|one| since(one.created)).max();
            let waited = waited.unwrap_or_default();
            let number = number(&lock);
            let before = self.numbers.get(&lock.name);
            let rate = before.map_or(0.0, |(before, then)| {
                let created = u32::try_from(number - before).map_or(0.0, f64::from);
                created / now.duration_since(*then).as_secs_f64().max(0.001)
            });
            numbers.insert(lock.name.clone(), (number, now));
            rows.push(Row {
                rate,
                held,
                waited,
                waiting: lock.waiters.len(),
                holder: match &*lock.holders {
                    [] => "nobody".to_owned(),
                    [one] => who(one),
                    [first, more @ ..] => format!("{} and {} more", who(first), more.len()),
                },
                warnings: warnings::of(&lock, held, waited, views),
                name: lock.name,
            });
        }
        // A lock that nobody uses at this moment keeps its number, for it may be used at the next.
        let gone = std::mem::take(&mut self.numbers).into_iter();
        let recent = gone.filter(|(_, (_, then))| now.duration_since(*then) < FORGOTTEN);
        self.numbers = recent.chain(numbers).collect();
        self.rows = rows;
    }

    fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        // What is equal stays sorted by name.
        match self.sort {
            Sort::Hot => rows.sort_by(|a, b| b.rate.total_cmp(&a.rate)),
            Sort::Held => rows.sort_by_key(|row| std::cmp::Reverse(row.held.most)),
            Sort::Waited => rows.sort_by_key(|row| std::cmp::Reverse(row.waited)),
            Sort::Suspect => rows.sort_by_key(|row| std::cmp::Reverse(row.warnings.len())),
        }
        rows
    }

    /// The lines of a screen of this width and height.
    pub(super) fn lines(
        &self,
        (width, height): (usize, usize),
        trouble: Option<&str>,
    ) -> Vec<String> {
        let waiting: usize = self.rows.iter().map(|row| row.waiting).sum();
        let suspect = self.rows.iter().filter(|row| !row.warnings.is_empty()).count();
        let by = match self.sort {
            Sort::Hot => "hottest",
            Sort::Held => "longest held",
            Sort::Waited => "longest waited",
            Sort::Suspect => "suspect",
        };
        let mut lines = vec![
            format!(
                "zklock top: {} in use, {waiting} waiting, {suspect} suspect; {by} first",
                count(self.rows.len(), "lock")
            ),
            "h hottest  l longest held  w longest waited  s suspect  q quit".to_owned(),
            match (trouble, self.slow) {
                (Some(trouble), _) => format!("! this is what was seen before: {trouble}"),
                (None, Some(took)) => {
                    format!("! a look takes {}: there is one every {}", span(took), span(2 * took))
                }
                (None, None) => self
                    .left_out
                    .lines(&self.again)
                    .first()
                    .map_or_else(String::new, |line| format!("! {line}")),
            },
        ];
        let rows = self.sorted();
        let name = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(4, 40);
        let or_none = |time: Duration, text: String| match time {
            Duration::ZERO => "-".to_owned(),
            _ => text,
        };
        let held: Vec<_> =
            rows.iter().map(|row| or_none(row.held.most, row.held.to_string())).collect();
        let wide = held.iter().map(String::len).max().unwrap_or(0).max(12);
        lines.push(format!(
            "  {:name$}  {:>7}  {:>wide$}  {:>7}  {:>12}  HELD BY",
            "NAME", "NODES/S", "HELD FOR", "WAITING", "WAITED"
        ));
        for (row, held) in rows.into_iter().zip(held) {
            let mark = if row.warnings.is_empty() { ' ' } else { '!' };
            lines.push(format!(
                "{mark} {:name$}  {:>7.1}  {held:>wide$}  {:>7}  {:>12}  {}",
                row.name,
                row.rate,
                row.waiting,
                or_none(row.waited, span(row.waited)),
                row.holder
            ));
            lines.extend(row.warnings.iter().map(|warning| format!("  {:name$}  ! {warning}", "")));
        }
        lines.truncate(height);
        lines.iter().map(|line| line.chars().take(width).collect()).collect()
    }

    pub(super) fn values(&self) -> Vec<Value> {
        let value = |row: &&Row| {
            json!({
                "name": row.name,
                "nodes_per_second": row.rate,
                "held_for_ms": millis(row.held.most),
                "held_at_most": row.held.is_at_most(),
                "waiting": row.waiting,
                "waited_for_ms": millis(row.waited),
                "holder": row.holder,
                "warnings": row.warnings,
            })
        };
        self.sorted().iter().map(value).collect()
    }
}

/// A lock that was not used for so long begins anew.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The highest number of a node of a lock. The numbers of a queue count the nodes that were created.
fn number(lock: &Lock) -> i64 {
    let all = lock.holders.iter().chain(&lock.waiters).chain(&lock.awaited);
    all.filter_map(|one| ls::number(&one.node)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklock::{Embedded, Session};

    /// The locks that somebody holds on a store of its own.
    async fn found(session: &Session) -> Found {
        crate::ls::find(session, None).await.unwrap()
    }

    #[tokio::test]
    async fn keys_choose_the_order_and_what_is_suspect_is_marked() {
        let store = Embedded::new();
        let open = || Session::embedded_builder(&store).open().unwrap();
        let (session, other) = (open(), open());
        let (mut model, start) = (Model::default(), Instant::now());
        let _quiet = session.mutex("quiet").unwrap().acquire().await.unwrap();
        let hot = session.mutex("warm").unwrap();
        let first = hot.acquire().await.unwrap();
        model.seen(found(&session).await, &[], start);
        first.release().await.unwrap();
        for _ in 0..9 {
            hot.acquire().await.unwrap().release().await.unwrap();
        }
        let _held = hot.acquire().await.unwrap();
        assert_eq!(session.site("warm").unwrap().revoke().await.unwrap(), 1);
        let mut found_now = found(&session).await;
        // Both were granted within the same millisecond, perhaps.
        let quiet = found_now.locks.iter_mut().find(|lock| lock.name == "quiet").unwrap();
        quiet.holders[0].owner.granted = Some("2000-01-01T00:00:00Z".to_owned());
        model.seen(found_now, &[], start + Duration::from_secs(2));
        let lines = model.lines((200, 50), None);
        assert!(lines[0].starts_with("zklock top: 2 locks in use, 0 waiting, 1 suspect; hottest"));
        assert!(lines[4].starts_with("! warm ") && lines[4].contains("  5.0  "), "{lines:?}");
        assert!(lines[5].contains("! its holder was asked to release it"), "{lines:?}");
        assert!(lines[6].starts_with("  quiet ") && lines[6].contains("  0.0  "), "{lines:?}");
        model.sort = Sort::Held;
        let lines = model.lines((20, 5), Some("no answer"));
        assert!(lines.len() == 5 && lines.iter().all(|line| line.chars().count() <= 20));
        assert_eq!(lines[2], "! this is what was s");
        let lines = model.lines((200, 5), Some("no answer"));
        assert_eq!(lines[2], "! this is what was seen before: no answer");
        assert!(lines[4].starts_with("  quiet"), "{lines:?}");
        model.sort = Sort::Suspect;
        assert!(model.lines((200, 50), None)[4].starts_with("! warm "));
        let quiet = other.mutex("quiet").unwrap();
        let waiting = tokio::spawn(async move { quiet.acquire().await });
        while session.site("quiet").unwrap().contenders().await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        model.seen(found(&session).await, &[], start + Duration::from_secs(3));
        model.sort = Sort::Waited;
        let lines = model.lines((200, 50), None);
        assert!(lines[0].contains(" 1 waiting, ") && lines[4].starts_with("  quiet "), "{lines:?}");
        waiting.abort();
        model.slow = Some(Duration::from_secs(4));
        assert_eq!(
            model.lines((200, 50), None)[2],
            "! a look takes 4.0 s: there is one every 8.0 s"
        );
        model.slow = None;
        model.left_out.unread.push("/zklock/a".to_owned());
        let line = &model.lines((200, 50), None)[2];
        assert!(line.starts_with("! 1 directory may not be read, and is left out"), "{line}");
    }

    #[tokio::test]
    async fn a_holder_that_has_not_told_since_when_holds_for_at_most_the_age_of_its_node() {
        let session = Session::embedded();
        let _held = session.mutex("a").unwrap().acquire().await.unwrap();
        let mut model = Model::default();
        let look = |granted: Option<&str>| {
            let session = session.clone();
            let granted = granted.map(str::to_owned);
            async move {
                let mut found = found(&session).await;
                let one = &mut found.locks[0].holders[0];
                one.created -= Duration::from_secs(3_500);
                one.owner.granted = granted;
                found
            }
        };
        model.seen(look(None).await, &[], Instant::now());
        let lines = model.lines((200, 50), None);
        assert!(lines[0].starts_with("zklock top: 1 lock in use, 0 waiting, "), "{lines:?}");
        // The columns are as wide as what is in them.
        assert!(lines[4].contains("  0.0  at most "), "{lines:?}");
        let column = lines[3].find("HELD BY").unwrap();
        assert_eq!(lines[4][column - 2..].split(' ').nth(1), Some(""), "{lines:?}");
        assert_eq!(model.values()[0]["held_at_most"], true);
        model.seen(look(Some("2000-01-01T00:00:00Z")).await, &[], Instant::now());
        assert!(!model.lines((200, 50), None)[4].contains("at most"));
        assert_eq!(model.values()[0]["held_at_most"], false);
    }

    /// The guide shows a screen, which is this one. Whether a terminal shows it is asked by
    /// `the_guide_shows_what_the_commands_print`.
    #[test]
    fn the_guide_shows_the_screen() {
        let row = |name: &str, holder: &str| Row {
            name: name.to_owned(),
            rate: 0.0,
            held: Held::exactly(Duration::from_secs(12)),
            waited: Duration::ZERO,
            waiting: 0,
            holder: holder.to_owned(),
            warnings: Vec::new(),
        };
        let nightly = r#"billing on db7 (process 4214) for "invoices of May""#;
        let nightly = Row {
            held: Held::exactly(Duration::from_secs(185)),
            waited: Duration::from_secs(62),
            waiting: 1,
            warnings: vec![
                "its holder is silent".to_owned(),
                "held for more than a minute while others wait".to_owned(),
            ],
            ..row("nightly", nightly)
        };
        let printers = Row { rate: 5.0, ..row("printers", "spool on db9 (process 4257)") };
        let model = Model { rows: vec![nightly, printers], sort: Sort::Held, ..Model::default() };
        let screen = model.lines((200, 50), None).join("\n");
        let guide = include_str!("../../README.md");
        assert!(guide.contains(&format!("```text\n{screen}\n```")), "{screen}");
    }

    #[test]
    fn keys_are_read() {
        for (key, sort) in
            [('h', Sort::Hot), ('l', Sort::Held), ('w', Sort::Waited), ('s', Sort::Suspect)]
        {
            assert_eq!(Key::of(key), Some(Key::Sort(sort)));
        }
        assert_eq!((Key::of('q'), Key::of('x')), (Some(Key::Quit), None));
    }
}
