//! What the tasks of a corner know of each other, in whichever process they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zklock_core::guard::view::GuardView;

/// A call, from when it begins until it has let go.
#[derive(Debug, Default)]
struct Call {
    what: &'static str,
    /// How many others of its kind there were at a time.
    others: usize,
}

/// A guard that somebody has.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) what: &'static str,
    pub(super) since: u64,
    pub(super) view: Arc<GuardView>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    calls: BTreeMap<u64, Call>,
    noted: BTreeMap<u64, Noted>,
}

/// What the tasks of a corner know of each other.
#[derive(Debug, Default)]
pub struct Together(Mutex<State>);

/// Something that is known, until this is dropped.
#[derive(Debug)]
pub(super) struct Known {
    together: Arc<Together>,
    id: u64,
}

impl Known {
    /// How many others there were at a time since it began.
    pub(super) fn others(&self) -> usize {
        self.together.lock().calls.get(&self.id).map_or(0, |call| call.others)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut state = self.together.lock();
        state.calls.remove(&self.id);
        let gone = state.noted.remove(&self.id);
        drop(state);
        drop(gone);
    }
}

impl Together {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins.
    pub(super) fn calls(self: &Arc<Self>, what: &'static str) -> Known {
        let mut state = self.lock();
        state.next += 1;
        let id = state.next;
        state.calls.insert(id, Call { what, others: 0 });
        let all = state.calls.values().filter(|call| call.what == what).count();
        for call in state.calls.values_mut().filter(|call| call.what == what) {
            call.others = call.others.max(all - 1);
        }
        drop(state);
        Known { together: self.clone(), id }
    }

    /// Somebody has a guard.
    pub(super) fn notes(self: &Arc<Self>, noted: Noted) -> Known {
        let mut state = self.lock();
        state.next += 1;
        let id = state.next;
        state.noted.insert(id, noted);
        drop(state);
        Known { together: self.clone(), id }
    }

    /// The guards that somebody has.
    pub(super) fn all(&self, what: &str) -> Vec<Noted> {
        let state = self.lock();
        state.noted.values().filter(|noted| noted.what == what).cloned().collect()
    }
}
