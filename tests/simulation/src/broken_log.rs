//! A log that panics now and then, as one does that is written to a stream which nobody reads any more.

use std::fmt::Debug;
use std::panic;
use std::sync::{Arc, OnceLock};

use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber, Subscriber, set_default};
use tracing::{Dispatch, Event, Level, Metadata};

use crate::executor::World;

/// Panics at so many of 1,000 lines that are written on this thread, until what is returned is dropped.
pub(crate) fn begin(world: &Arc<World>, per_mille: u32) -> Option<DefaultGuard> {
    // With a single subscriber, `tracing` asks only that of the thread which comes to a line first: one
    // that has none would silence the line for all.
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(NoSubscriber::new()));
    (per_mille > 0).then(|| set_default(BrokenLog { world: world.clone(), per_mille }))
}

struct BrokenLog {
    world: Arc<World>,
    per_mille: u32,
}

impl Subscriber for BrokenLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::DEBUG
    }
    fn event(&self, event: &Event<'_>) {
        if self.world.seldom(2, self.per_mille) == 0 {
            return;
        }
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                line = format!("{value:?}");
            }
        });
        self.world.say(|| format!("the log panics at: {line}"));
        // The hook is not called, so nothing is printed of it: it is no news.
        panic::resume_unwind(Box::new("the log is closed"));
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
