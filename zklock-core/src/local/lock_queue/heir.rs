//! The reader that a writer becomes, and whether anybody waits for it.

use std::mem::replace;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::local::grant::{Grant, Kept};

/// The reader that a writer becomes. Where whoever steps down waits no more, it is given back in the background, which
/// no caller stops.
#[derive(Clone, Debug, Default)]
pub(super) struct Heir(Arc<Mutex<Stage>>);

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Awaited,
    Made(Weak<Grant>),
    GivenUp,
}

impl Heir {
    fn change(&self, next: Stage) -> Stage {
        replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), next)
    }

    /// It is made, and nobody has seen it yet.
    pub(super) fn is_made(&self, reader: &Arc<Grant>) {
        if let Stage::GivenUp = self.change(Stage::Made(Arc::downgrade(reader))) {
            reader.keep(Kept::Detached);
        }
    }
}

/// Whoever steps down waits for the reader, and gives it up when this is dropped.
#[derive(Debug)]
pub(super) struct Awaited(pub(super) Option<Heir>);

impl Awaited {
    /// It has it, or there is none.
    pub(super) fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let Some(heir) = self.0.take() else { return };
        if let Stage::Made(reader) = heir.change(Stage::GivenUp)
            && let Some(reader) = reader.upgrade()
        {
            reader.keep(Kept::Detached);
        }
    }
}
