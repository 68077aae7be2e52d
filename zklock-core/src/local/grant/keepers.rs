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

/// The calls that are nested in a guard, however deep.
pub trait Nested: fmt::Debug + Send + Sync {
    /// Shows by what each of them keeps the lock, and who it is.
    fn each(&self, show: &mut dyn FnMut(Kept, &Caller));
}

impl Grant {
    /// Sets by what it is kept.
    pub fn keep(&self, kept: Kept) {
        self.kept.store(kept as u8, Ordering::Relaxed);
    }

    /// Sets what is nested in the guard to which it was granted.
    pub fn set_nested(&self, nested: Arc<dyn Nested>) {
        // It has one.
        let _ = self.nested.set(nested);
    }

    /// The guard to which it was granted has gone. If the lock is still held, it is by nested calls.
    pub fn has_left(&self) {
        if self.is_open() {
            self.is_left.store(true, Ordering::Release);
        }
    }

    /// What holds the lock on, if the guard to which it was granted has gone.
    fn left_to(&self) -> Option<&Arc<dyn Nested>> {
        self.nested.get().filter(|_| self.is_left.load(Ordering::Acquire))
    }

    /// A caller that has lost it begins anew. Returns whether nobody else works under it; otherwise
    /// [it does so](Grant::nested_ended) when the last of these nested calls has ended.
    pub fn begins_anew(&self, who: &Caller) -> bool {
        self.anew.get_or_init(|| Box::new(*who));
        !self.is_used_by_others(who)
    }

    /// A nested call has ended.
    pub fn nested_ended(&self) {
        if let Some(who) = self.anew.get()
            && !self.is_used_by_others(who)
        {
            self.queue.clone().begin_anew(self);
        }
    }

    /// Whether a nested call of somebody else works under it.
    fn is_used_by_others(&self, who: &Caller) -> bool {
        let mut others = false;
        if let Some(nested) = self.nested.get() {
            nested.each(&mut |kept, by| others |= kept != Kept::ByGuard || !who.is_same(by));
        }
        others
    }

    /// By what it is kept; what is left to nested calls belongs to nobody in particular.
    pub fn kept(&self) -> Kept {
        match self.kept.load(Ordering::Relaxed) {
            _ if self.left_to().is_some() => Kept::Detached,
            0 => Kept::InScope,
            1 => Kept::ByGuard,
            _ => Kept::Detached,
        }
    }

    /// Shows by what each of those keeps it who are known to, and who it is.
    fn each_keeper(&self, mut show: impl FnMut(Kept, &Caller)) {
        match self.left_to() {
            Some(nested) => nested.each(&mut show),
            None => show(self.kept(), &self.who),
        }
    }

    /// Whether this is so of somebody who keeps it.
    pub fn is_any_keeper(&self, so: impl Fn(Kept, &Caller) -> bool) -> bool {
        let mut any = false;
        self.each_keeper(|kept, who| any |= so(kept, who));
        any
    }

    /// One of whom `is` is true, and who keeps it by a guard outside of any scope that was not detached.
    pub fn kept_by(&self, is: impl Fn(&Caller) -> bool) -> Option<Caller> {
        let mut found = None;
        if self.is_open() {
            self.each_keeper(|kept, who| {
                found = found.or((kept == Kept::ByGuard && is(who)).then_some(*who));
            });
        }
        found
    }
}
