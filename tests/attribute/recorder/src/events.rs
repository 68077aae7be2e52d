//! What happened on this thread, in order.

use std::cell::{Cell, RefCell};

use real::testing::TestLocks;

thread_local! {
    static EVENTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static OUTCOME: Cell<Outcome> = const { Cell::new(Outcome::Granted) };
    static LOCKS: &'static TestLocks = Box::leak(Box::new(TestLocks::install()));
}

/// How the next acquire of this thread goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Granted,
    Busy,
    Unavailable,
    /// Granted, and lost at the end of the body.
    Lost,
}

/// Writes an event down.
pub fn record(event: impl Into<String>) {
    EVENTS.with_borrow_mut(|events| events.push(event.into()));
}

/// Returns the events so far and forgets them.
#[must_use]
pub fn take() -> Vec<String> {
    EVENTS.take()
}

/// Decides how the next acquire goes.
pub fn next(outcome: Outcome) {
    OUTCOME.set(outcome);
}

pub(crate) fn outcome() -> Outcome {
    OUTCOME.replace(Outcome::Granted)
}

/// The locks of this thread's test.
pub fn locks() -> &'static TestLocks {
    LOCKS.with(|locks| *locks)
}

/// Writes its name down when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Noisy(pub &'static str);

impl Noisy {
    /// Something to borrow from, so that a temporary lives as long as its value is used.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0
    }

    /// The same, across an await.
    pub async fn later(&self) -> &'static str {
        self.0
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        record(self.0);
    }
}
