//! Layouts: a driver, or one that was chosen at run time.

use std::sync::Arc;

use crate::layout::driver::LockDriver;

/// The values that `driver = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`driver` is a layout: a value of a type that is a `zklock::driver::LockDriver`",
    label = "this is no layout",
    note = "those that are shipped are in `zklock::layout`: `driver = zklock::layout::Kazoo::default()`"
)]
pub trait ToDriver {
    /// The driver.
    fn to_driver(self) -> Arc<dyn LockDriver>;
}

#[diagnostic::do_not_recommend]
impl<D: LockDriver> ToDriver for D {
    fn to_driver(self) -> Arc<dyn LockDriver> {
        Arc::new(self)
    }
}

impl ToDriver for Arc<dyn LockDriver> {
    fn to_driver(self) -> Arc<dyn LockDriver> {
        self
    }
}
