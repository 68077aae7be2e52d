//! The peers' side of benchmarks.

use std::time::Duration;

/// How a benchmark loads the server; `acquire` and `release` follow each other without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// One client, one thread.
    One,
    /// One client, n threads, one lock.
    Tasks(usize),
    /// n clients with one thread each, one lock.
    Sessions(usize),
    /// One client, n threads, each with a lock of its own.
    Locks(usize),
}

/// What a benchmark measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Cycles of acquire and release a second, of all threads together.
    pub locks_per_s: f64,
    /// The median of a cycle.
    pub p50: Duration,
    /// The 99th percentile of a cycle.
    pub p99: Duration,
    /// The longest cycle.
    pub max: Duration,
    /// How many cycles were measured.
    pub count: u64,
}

impl Load {
    /// Returns the arguments `mode n`.
    pub(super) fn args(self) -> [String; 2] {
        let (mode, n) = match self {
            Self::One => ("1x1", 1),
            Self::Tasks(n) => ("tasks", n),
            Self::Sessions(n) => ("sessions", n),
            Self::Locks(n) => ("locks", n),
        };
        [mode.to_owned(), n.to_string()]
    }
}

impl Figures {
    /// Reads `locks_per_s=… p50_us=… p99_us=… max_us=… count=…`.
    pub(super) fn parse(line: &str) -> Self {
        let number = |name: &str| -> f64 {
            let words = line.split_whitespace().filter_map(|word| word.split_once('='));
            let value = words.filter(|(key, _)| *key == name).find_map(|(_, v)| v.parse().ok());
            value.unwrap_or_else(|| panic!("no `{name}` in `{line}`"))
        };
        let micros = |name: &str| Duration::from_secs_f64(number(name) / 1e6);
        Self {
            locks_per_s: number("locks_per_s"),
            p50: micros("p50_us"),
            p99: micros("p99_us"),
            max: micros("max_us"),
            count: number("count") as u64,
        }
    }
}
