//! Options that are at hand.

use crate::base::options::LockOptions;

/// What `options = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`options` is a `zklock::LockOptions`, which the other arguments override",
    label = "this is not a `LockOptions`",
    note = "for instance `options = zklock::LockOptions::new().fair(true)`"
)]
pub trait ToOptions {
    /// The options.
    fn to_options(self) -> LockOptions;
}

impl ToOptions for LockOptions {
    fn to_options(self) -> LockOptions {
        self
    }
}

impl ToOptions for &LockOptions {
    fn to_options(self) -> LockOptions {
        *self
    }
}
