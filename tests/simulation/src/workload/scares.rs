//! Code of users that panics.

use std::any::Any;
use std::panic;

use zklock_core::observe::observer::{Event, Observer};

use super::task::Task;
use crate::rules;

/// What they say.
const PANIC: &str = "this panics now and then";

/// Panics. The hook is not called, so nothing is printed of it: it is no news.
pub(super) fn scare() {
    panic::resume_unwind(Box::new(PANIC));
}

/// An observer that panics at everything.
#[derive(Debug)]
pub(crate) struct Frightened;

impl Observer for Frightened {
    fn event(&self, _: &Event) {
        scare();
    }
}

impl Task {
    /// Panics, or not.
    pub(super) fn panics(&self) {
        if self.process.world().seldom(2, self.crew.profile.panics) == 1 {
            self.say(|| "panics in its body".to_owned());
            scare();
        }
    }

    /// A call has panicked, as its body has: then it holds nothing.
    pub(super) fn has_panicked(&self, panic: Box<dyn Any + Send>, name: &str) {
        if panic.downcast_ref::<&str>() != Some(&PANIC) {
            panic::resume_unwind(panic);
        }
        self.check_let_go(name);
    }

    /// A call is over, by a panic or because it was dropped: it holds a lock no more that nobody else of its
    /// process wants.
    pub(super) fn check_let_go(&self, name: &str) {
        let here = self.session.local_contenders();
        if let Some(one) = here.iter().find(|one| &*one.lock == name) {
            let what = format!("{}: {one:?} after its call", self.name);
            self.crew.ledger.fail(rules::LET_GO, what);
        }
    }
}
