//! A history in the making.

use std::sync::{Arc, Mutex, PoisonError};

use zklock_checker::{Answer, History, Line, Request};
use zklock_test_support::monotonic_ns;

/// The lines so far, shared by all who write.
#[derive(Clone, Debug, Default)]
pub struct Record(Arc<Mutex<Vec<Line>>>);

impl Record {
    /// Adds a line and returns its moment.
    pub fn add(&self, line: Line) -> u64 {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the lines are in the order of their moments.
        let at_ns = monotonic_ns();
        lines.push(Line { at_ns, ..line });
        at_ns
    }

    /// Adds a request.
    pub fn asked(&self, client: &str, request: Request) -> u64 {
        let client = Some(client.to_owned());
        self.add(Line { client, request: Some(request), ..Line::default() })
    }

    /// Adds an answer.
    pub fn answered(&self, client: &str, answer: Answer) -> u64 {
        let client = Some(client.to_owned());
        self.add(Line { client, answer: Some(answer), ..Line::default() })
    }

    /// Returns the lines.
    pub fn lines(&self) -> Vec<Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the history so far.
    pub fn history(&self) -> History {
        History::of(self.lines())
    }
}
