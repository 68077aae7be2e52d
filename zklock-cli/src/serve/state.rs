//! What is sent to the page.

use serde_json::{Value, json};

use crate::inspect::{moment, value};
use crate::ls::{Found, Lock};
use crate::serve::history::{History, kind};
use crate::top::warnings;
use crate::when::since;
use crate::why::view::View;

/// The locks as they are, and those that were in use a moment ago. Times that go by are not in it, so it
/// changes only when something happens.
pub(super) fn state(
    found: &Found,
    views: &[View],
    history: &History,
    prefix: Option<&str>,
    breaks: bool,
) -> Value {
    let mut all: Vec<_> = found.locks.iter().map(|lock| of(lock, views, history)).collect();
    all.extend(history.unused().map(|(name, path, layout, kind, free)| {
        json!({
            "name": name,
            "path": path,
            "layout": layout,
            "kind": kind,
            "holders": [],
            "waiting": 0,
            "unavailable_until": null,
            "waiters": [],
            "held_since": null,
            "held_at_most": false,
            "waits_since": null,
            "free_since": moment(free),
            "warnings": [],
        })
    }));
    let mut state = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "prefix": prefix,
        "breaks": breaks,
        "locks": all,
    });
    found.left_out.add_to(&mut state);
    state
}

fn of(lock: &Lock, views: &[View], history: &History) -> Value {
    let held = history.held_since(&lock.name);
    let waits = lock.waiters.iter().map(|one| one.created).min();
    let held_for = history.held_for(&lock.name);
    let waited = waits.map(since).unwrap_or_default();
    let mut value_of = lock.value();
    value_of["kind"] = kind(lock).into();
    value_of["waiters"] = lock.waiters.iter().map(value).collect();
    value_of["held_since"] = held.map(moment).into();
    value_of["held_at_most"] = held_for.is_at_most().into();
    value_of["waits_since"] = waits.map(moment).into();
    value_of["free_since"] = Value::Null;
    value_of["warnings"] = warnings::of(lock, held_for, waited, views).into();
    value_of
}
