//! What is logged as a warning or worse.

use std::sync::{Arc, Mutex, OnceLock};

/// The warnings and errors that are logged on this thread, as text.
#[derive(Debug)]
pub struct Warnings {
    lines: Lines,
    _collecting: tracing::subscriber::DefaultGuard,
}

impl Warnings {
    /// Collects them from now on.
    pub fn collect() -> Self {
        // With a single subscriber, `tracing` asks only that of the thread which comes to a line first:
        // one that has none would silence the line for all.
        static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new()));
        let lines = Lines::default();
        let _collecting = tracing::subscriber::set_default(lines.clone());
        Warnings { lines, _collecting }
    }

    /// Collects those of all threads of this process, from the first call on, except where others are
    /// collected. Answers those that contain a text.
    ///
    /// # Panics
    ///
    /// If something else listens to the whole process.
    pub fn everywhere() -> impl Fn(&str) -> Vec<String> {
        static ALL: OnceLock<Lines> = OnceLock::new();
        let all = ALL.get_or_init(|| {
            let lines = Lines::default();
            tracing::subscriber::set_global_default(lines.clone()).unwrap();
            lines
        });
        |text| all.0.lock().unwrap().iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// How many there are, asked from any thread.
    pub fn count(&self) -> impl Fn() -> usize + Send + use<> {
        let lines = self.lines.clone();
        move || lines.0.lock().unwrap().len()
    }

    /// Those since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.0.lock().unwrap())
    }
}

#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            line.push_str(&format!("{field}={value:?} "));
        });
        self.0.lock().unwrap().push(line);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
