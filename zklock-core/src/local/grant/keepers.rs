//! By what a grant is kept, and by whom.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Grant;
use crate::base::caller::Caller;

/// By what a grant is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kept {
    /// By the call that acquired it, which runs a body in its scope.
    InScope,
    /// By a guard outside of any scope.
    ByGuard,
    /// By a guard that was detached.
    Detached,
}

/// The calls that are nested in a guard.
pub trait Nested: fmt::Debug + Send + Sync {
    /// Shows by what each of them keeps the lock, and who it is.
    fn each(&self, show: &mut dyn FnMut(Kept, &Caller));
}

impl Grant {
    /// Sets by what it is kept.
    pub fn keep(&self, kept: Kept) {
        self.kept.store(kept as u8, Ordering::Relaxed);
    }

    /// The guard to which it was granted has gone, and only these calls hold the lock.
    pub fn leave_to(&self, nested: Arc<dyn Nested>) {
        // It goes once.
        let _ = self.left_to.set(nested);
    }

    /// By what it is kept; what is left to nested calls belongs to nobody in particular.
    pub fn kept(&self) -> Kept {
        match self.kept.load(Ordering::Relaxed) {
            _ if self.left_to.get().is_some() => Kept::Detached,
            0 => Kept::InScope,
            1 => Kept::ByGuard,
            _ => Kept::Detached,
        }
    }

    /// Whether this is so of somebody who keeps it.
    pub fn is_any_keeper(&self, so: impl Fn(Kept, &Caller) -> bool) -> bool {
        let Some(nested) = self.left_to.get() else { return so(self.kept(), &self.who) };
        let mut any = false;
        nested.each(&mut |kept, who| any |= so(kept, who));
        any
    }

    /// One of whom `is` is true, and who keeps it by a guard outside of any scope that was not detached.
    pub fn kept_by(&self, is: impl Fn(&Caller) -> bool) -> Option<Caller> {
        if !self.is_open() {
            return None;
        }
        let is_it = |kept, who: &Caller| kept == Kept::ByGuard && is(who);
        let Some(nested) = self.left_to.get() else {
            return is_it(self.kept(), &self.who).then_some(self.who);
        };
        let mut found = None;
        nested.each(&mut |kept, who| found = found.or(is_it(kept, who).then_some(*who)));
        found
    }
}
