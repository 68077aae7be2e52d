//! The log of a schedule: what it says is noted. Now and then it panics, as one does that is written to a stream which
//! nobody reads any more.

use std::fmt::Debug;
use std::panic;
use std::sync::{Arc, OnceLock};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber, Subscriber, set_default};
use tracing::{Dispatch, Event, Metadata};

use crate::executor::{World, current_task};
use crate::rules::{Line, Lines};

/// Notes the lines that are written on this thread, until what is returned is dropped, and panics at so many of 1,000.
pub(crate) fn begin(world: &Arc<World>, lines: &Lines, panics: u32) -> DefaultGuard {
    // With a single subscriber, `tracing` asks only that of the thread which comes to a line first: one
    // that has none would silence the line for all.
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(NoSubscriber::new()));
    let (world, lines) = (world.clone(), lines.clone());
    let least = if panics > 0 { LevelFilter::DEBUG } else { LevelFilter::INFO };
    set_default(Log { world, lines, least, panics })
}

struct Log {
    world: Arc<World>,
    lines: Lines,
    /// Less important lines are not written.
    least: LevelFilter,
    panics: u32,
}

/// What a line says, and the path that it is about.
#[derive(Default)]
struct Words {
    message: String,
    path: Option<String>,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "path" {
            self.path = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "path" => self.path = Some(format!("{value:?}")),
            _ => {}
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.least
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.least)
    }
    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        let Words { message, path } = words;
        let panics = self.panics > 0 && self.world.seldom(2, self.panics) == 1;
        let what = if panics { "panics at" } else { "says" };
        self.world.say(|| format!("the log {what}: {message} {}", path.as_deref().unwrap_or("")));
        self.lines.add(Line { who: current_task(), message, path });
        if panics {
            // The hook is not called, so nothing is printed of it: it is no news.
            panic::resume_unwind(Box::new("the log is closed"));
        }
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
