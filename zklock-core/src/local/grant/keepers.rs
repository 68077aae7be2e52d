//! How a grant is kept, and by whom.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::Grant;
use crate::base::caller::Caller;

/// How a grant is kept.
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

/// Those who keep a grant besides the guard to which it was granted. It is a list, however deep they are nested:
/// whoever comes to the lock looks through it.
#[derive(Debug, Default)]
pub(super) struct Nested {
    inside: Vec<Keeper>,
    /// Whether that guard has gone, and they hold the lock on.
    is_left: bool,
    /// Whether whoever has that guard has lost the lock, and begins anew.
    is_anew: bool,
    /// Whether anybody does.
    any_anew: bool,
}

/// A call that is nested in the guard.
#[derive(Debug)]
struct Keeper {
    /// As long as it keeps the grant, nobody else has this key.
    key: usize,
    kept: Kept,
    who: Caller,
    is_anew: bool,
}

impl Grant {
    /// Sets how the guard to which it was granted keeps it.
    pub fn keep(&self, kept: Kept) {
        self.kept.store(kept as u8, Ordering::Relaxed);
    }

    /// How the guard to which it was granted keeps it.
    pub fn kept(&self) -> Kept {
        match self.kept.load(Ordering::Relaxed) {
            0 => Kept::InScope,
            1 => Kept::ByGuard,
            _ => Kept::Detached,
        }
    }

    /// Those who are nested in it, if anybody ever was.
    fn nested(&self) -> Option<MutexGuard<'_, Nested>> {
        self.nested.get().map(|nested| nested.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn nested_or_new(&self) -> MutexGuard<'_, Nested> {
        let nested = self.nested.get_or_init(Box::default);
        nested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that is nested in it has its turn.
    pub fn nest(&self, key: usize, kept: Kept, who: Caller) {
        self.nested_or_new().inside.push(Keeper { key, kept, who, is_anew: false });
    }

    /// The guard of a nested call was detached.
    pub fn detach_nested(&self, key: usize) {
        if let Some(mut nested) = self.nested() {
            let mut inside = nested.inside.iter_mut();
            if let Some(keeper) = inside.find(|keeper| keeper.key == key) {
                keeper.kept = Kept::Detached;
            }
        }
    }

    /// A nested call has ended.
    pub fn nested_ended(&self, key: usize) {
        if let Some(mut nested) = self.nested() {
            nested.inside.retain(|keeper| keeper.key != key);
        }
        self.let_in_who_begins_anew();
    }

    /// The guard to which it was granted has gone. If the lock is still held, it is by nested calls.
    pub fn has_left(&self) {
        // Also where the only hold was taken out, which may be put back.
        if self.holds() > 0 {
            self.nested_or_new().is_left = true;
            self.let_in_who_begins_anew();
        }
    }

    /// Whether that guard has gone, and nested calls hold the lock on.
    pub fn is_left(&self) -> bool {
        self.nested().is_some_and(|nested| nested.is_left)
    }

    /// A nested call has the only hold: it is the first of those who keep it. Others have gone and perhaps not said
    /// so, or come in if it stays with the writer.
    pub fn is_left_to(&self, key: usize) {
        let mut nested = self.nested_or_new();
        nested.is_left = true;
        if let Some(at) = nested.inside.iter().position(|keeper| keeper.key == key) {
            nested.inside.swap(0, at);
        }
    }

    /// How it is kept, and by whom: by the first, if there are several.
    pub fn keeper(&self) -> (Kept, Caller) {
        let nested = self.nested();
        match nested.as_deref().filter(|nested| nested.is_left) {
            None => (self.kept(), self.who),
            Some(left) => match left.inside.first() {
                Some(Keeper { kept, who, .. }) => (*kept, *who),
                None => (Kept::Detached, self.who),
            },
        }
    }

    /// A caller that has lost it begins anew. Returns whether nobody works under it any more; otherwise
    /// those who begin anew are let in when the last one who does has gone, or begins anew as well.
    pub fn begins_anew(&self, who: &Caller) -> bool {
        let mut nested = self.nested_or_new();
        nested.any_anew = true;
        nested.is_anew |= self.who.is_same(who);
        let own = nested.inside.iter_mut().filter(|keeper| keeper.who.is_same(who));
        own.for_each(|keeper| keeper.is_anew = true);
        drop(nested);
        !self.is_worked_under(|_, _| true)
    }

    /// The node goes if those who begin anew waited for nobody but the one who has just gone.
    fn let_in_who_begins_anew(&self) {
        let any_anew = self.nested().is_some_and(|nested| nested.any_anew);
        if any_anew && !self.is_worked_under(|_, _| true) {
            self.queue.clone().begin_anew(self);
        }
    }

    /// Shows of each keeper how it keeps it, who it is, and whether it begins anew.
    fn each_keeper(&self, mut show: impl FnMut(Kept, &Caller, bool)) {
        let Some(nested) = self.nested() else { return show(self.kept(), &self.who, false) };
        if !nested.is_left {
            show(self.kept(), &self.who, nested.is_anew);
        }
        let inside = nested.inside.iter();
        inside.for_each(|Keeper { kept, who, is_anew, .. }| show(*kept, who, *is_anew));
    }

    /// Whether this is so of somebody who keeps it, and does not begin anew.
    pub fn is_worked_under(&self, so: impl Fn(Kept, &Caller) -> bool) -> bool {
        let mut any = false;
        self.each_keeper(|kept, who, is_anew| {
            let works = !is_anew || kept != Kept::ByGuard;
            any |= works && so(kept, who);
        });
        any
    }

    /// One of whom `is` is true, and who keeps it by a guard outside of any scope that was not detached.
    pub fn kept_by(&self, is: impl Fn(&Caller) -> bool) -> Option<Caller> {
        let mut found = None;
        if self.is_open() {
            self.each_keeper(|kept, who, _| {
                if found.is_none() && kept == Kept::ByGuard && is(who) {
                    found = Some(*who);
                }
            });
        }
        found
    }
}
