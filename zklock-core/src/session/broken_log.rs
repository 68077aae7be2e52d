//! A log that panics, as one does that is written to a stream which nobody reads any more.

use std::fmt::Debug;
use std::sync::OnceLock;

use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber, Subscriber, set_default};
use tracing::{Dispatch, Event, Level, Metadata};

/// Panics at each line of this thread that contains a text.
pub(super) fn panics_at(text: &'static str) -> DefaultGuard {
    // With a single subscriber, `tracing` asks only that of the thread which comes to a line first: one
    // that has none would silence the line for all.
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(NoSubscriber::new()));
    set_default(BrokenLog(text))
}

struct BrokenLog(&'static str);

impl Subscriber for BrokenLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::DEBUG
    }
    fn event(&self, event: &Event<'_>) {
        event.record(&mut |_: &Field, value: &dyn Debug| {
            assert!(!format!("{value:?}").contains(self.0), "the log is closed");
        });
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
