//! Going on although other people's code panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls what may panic, where the caller has more to do: the log is the application's, and one that is
/// written to a closed stream panics.
pub fn unharmed(call: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(call)));
}
