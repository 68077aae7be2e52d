//! What was seen, with everything left out that may differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use zklock_core::coordinator::node::{Created, Stat};
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::watch::WatchEvent;

/// What a session saw of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Line(String),
    /// A text, and the facts behind it.
    Facts(String, Stat),
}

/// What a script saw, in order.
#[derive(Clone, Debug, Default)]
pub struct Report {
    root: String,
    seen: Vec<Seen>,
    sessions: BTreeMap<i64, String>,
}

impl Report {
    pub(super) fn new(root: &str) -> Self {
        Report { root: root.to_owned(), ..Report::default() }
    }

    pub(super) fn name_session(&mut self, session: i64, slot: usize) {
        let name = format!("session {slot}.{}", self.sessions.len());
        self.sessions.insert(session, name);
    }

    pub(super) fn line(&mut self, line: impl Into<String>) {
        self.seen.push(Seen::Line(line.into()));
    }

    pub(super) fn event(&mut self, slot: usize, watch: usize, event: WatchEvent) {
        self.line(format!("{slot}: watch {watch} sees {event:?}"));
    }

    pub(super) fn created(&mut self, head: &str, created: &Created) {
        let path = created.path.strip_prefix(&self.root).unwrap_or(&created.path);
        self.seen.push(Seen::Facts(format!("{head} -> {path}"), created.stat));
    }

    pub(super) fn stat(&mut self, head: &str, text: &str, stat: &Stat) {
        self.seen.push(Seen::Facts(format!("{head} -> {text}"), *stat));
    }

    pub(super) fn failed(&mut self, head: &str, error: &RequestError) {
        self.line(format!("{head} -> {}", kind(error)));
    }

    /// The lines, with the numbers of transactions counted from the first.
    pub fn lines(&self) -> Vec<String> {
        let zxids: BTreeSet<i64> = self
            .seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Facts(_, stat) => Some(stat.czxid),
                Seen::Line(_) => None,
            })
            .collect();
        let rank = |zxid: i64| zxids.range(..zxid).count();
        let owner = |session: i64| match session {
            0 => "nobody".to_owned(),
            session => self.sessions.get(&session).cloned().unwrap_or_else(|| "a stranger".into()),
        };
        let lines = self.seen.iter().map(|seen| match seen {
            Seen::Line(line) => line.clone(),
            Seen::Facts(text, stat) => format!(
                "{text} (born {}, version {}, owner {}, children {}, cversion {})",
                rank(stat.czxid),
                stat.version,
                owner(stat.ephemeral_owner),
                stat.num_children,
                stat.cversion
            ),
        });
        lines.collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// An error without what depends on the client's words, or on how a connection broke.
fn kind(error: &RequestError) -> String {
    match error {
        RequestError::BadArguments(_) => "bad arguments".to_owned(),
        RequestError::ConnectionLoss | RequestError::Other(_) => "not known".to_owned(),
        RequestError::Multi { index, error } => format!("operation {index}: {}", kind(error)),
        other => format!("{other:?}"),
    }
}
