//! The release comes last, and everything before it as without the attribute.
//!
//! Each function is written once and compiled twice, plain and guarded; what the guarded one
//! records is what the plain one records, between the acquire and the release.

#![allow(clippy::manual_async_fn, clippy::toplevel_ref_arg, clippy::needless_pass_by_value)]

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_lite::future::poll_once;
use zklock::{LockError, events};

use crate::support::{cancel_at, wait};

mod async_functions;
mod futures;
mod plain_functions;

/// How a body ends.
#[derive(Clone, Copy)]
enum End {
    Tail,
    Question,
    Return,
    Break,
    Panic,
}

const ENDS: [End; 5] = [End::Tail, End::Question, End::Return, End::Break, End::Panic];

/// Compiles a function plain and guarded.
macro_rules! twins {
    ($($function:tt)*) => {
        pub(super) mod plain {
            #[allow(clippy::wildcard_imports)]
            use super::*;
            $($function)*
        }
        pub(super) mod guarded {
            #[allow(clippy::wildcard_imports)]
            use super::*;
            #[zklock::zk_locked("twin")]
            $($function)*
        }
    };
}
use twins;

// Of whose values no pattern binds anything.
struct Unit;
struct Tuple();
struct Fields {}
struct Around(Unit);

impl Drop for Unit {
    fn drop(&mut self) {
        zklock::events::record("unit");
    }
}

impl Drop for Tuple {
    fn drop(&mut self) {
        zklock::events::record("tuple");
    }
}

impl Drop for Fields {
    fn drop(&mut self) {
        zklock::events::record("fields");
    }
}

fn failure() -> Result<(), LockError> {
    Err(crate::support::failure())
}

/// Runs something that may panic and returns what it recorded.
fn recorded<T>(run: impl FnOnce() -> T) -> Vec<String> {
    drop(events::take());
    drop(catch_unwind(AssertUnwindSafe(run)));
    events::take()
}

/// Expects the plain events between the acquire and the release.
fn assert_inside(plain: &[String], guarded: &[String], acquire: &[&str]) {
    let mut expected: Vec<&str> = acquire.to_vec();
    expected.extend(plain.iter().map(String::as_str));
    expected.push("release");
    assert!(plain.len() > 1, "nothing was recorded: {plain:?}");
    assert_eq!(guarded, expected);
}

fn compare<T>(plain: impl Fn() -> T, guarded: impl Fn() -> T) {
    assert_inside(&recorded(plain), &recorded(guarded), &["acquire twin"]);
}

fn compare_async<P: Future, G: Future>(plain: impl Fn() -> P, guarded: impl Fn() -> G) {
    let (plain, guarded) = (recorded(|| wait(plain())), recorded(|| wait(guarded())));
    assert_inside(&plain, &guarded, &["wait", "acquire twin"]);
}

/// Drops both futures at each of the body's awaits.
fn compare_cancelled<P: Future, G: Future>(plain: impl Fn() -> P, guarded: impl Fn() -> G) {
    let finishes = |pause| {
        let mut finished = false;
        drop(recorded(|| finished = cancel_at(pause, plain())));
        finished
    };
    let pauses = (1..100).take_while(|pause| !finishes(*pause)).count();
    assert!(pauses > 0, "nowhere to be cancelled in");
    for pause in 1..=pauses {
        let plain = recorded(|| cancel_at(pause, plain()));
        let guarded = recorded(|| cancel_at(pause, guarded()));
        assert_inside(&plain, &guarded, &["wait", "acquire twin"]);
    }
    // Cancelled before and while waiting: nothing ran, everything is dropped, nothing is released.
    let all = |mut events: Vec<String>| {
        events.retain(|event| event != "wait");
        events.sort();
        events
    };
    let untouched = all(recorded(|| drop(plain())));
    assert_eq!(all(recorded(|| drop(guarded()))), untouched);
    let held = events::locks().hold("twin").unwrap();
    assert_eq!(all(recorded(|| wait(poll_once(guarded())).is_some())), untouched);
    drop(held);
}

/// Makes a future, and forgets what was recorded in the making.
fn strip_made<F: Future>(make: &impl Fn() -> F) -> F {
    let future = make();
    drop(events::take());
    future
}
