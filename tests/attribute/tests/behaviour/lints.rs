//! Lints against conversions with `as`: the attribute adds none.
#![deny(trivial_casts, trivial_numeric_casts, clippy::as_conversions)]

use zklock::{LockError, events, zk_locked};

use crate::support::{Locked, Text, wait};

#[zk_locked("converted")]
fn converted() -> Locked<u32> {
    Ok(1)
}

#[zk_locked("converted_async")]
async fn converted_async() -> Result<u32, Text> {
    Ok(1)
}

#[zk_locked("skipped", on_busy = skip)]
async fn skipped() -> Option<u32> {
    Some(1)
}

#[zk_locked("mapped", on_busy = skip, map_err = text)]
async fn mapped() -> Result<Option<u32>, String> {
    Ok(Some(1))
}

#[zk_locked("handled", on_busy = skip, on_error = |_| Some(2))]
fn handled() -> Option<u32> {
    Some(1)
}

#[allow(clippy::needless_pass_by_value)]
fn text(error: LockError) -> String {
    error.to_string()
}

#[test]
fn failures_are_answered_without_a_cast() {
    let busy = || events::next(events::Outcome::Busy);
    busy();
    assert!(converted().is_err_and(|error| error.is_busy()));
    busy();
    assert!(wait(converted_async()).is_err());
    busy();
    assert_eq!(wait(skipped()), None);
    busy();
    assert_eq!(wait(mapped()), Ok(None));
    busy();
    assert_eq!(handled(), None);
}
